"""Runs the steps of the demo in order; each succeeds or raises `DemoError`.

    serve ─▶ publish ─▶ experiment ─▶ devices ─▶ report ─▶ decide ─▶ ramp ─▶ refine ─▶ guard ─▶ tamper

Reports go through two aggregators, in windows of an hour that the demo's clock passes (`clock`), or are randomized on
the devices; then `refine` is left out, which they could not tell.

The decision is made by `alcove.platform.stats` from the reports alone, over gRPC; nothing here knows which model is
better.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from alcove.features.language_id.contract import program_path
from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.demo.catalog import (
    CUT_ROWS,
    LARGE,
    NEXT,
    SMALL,
    SPOILED,
    TRIMMED,
    Release,
    build_package,
    release_version,
    releases,
)
from alcove.platform.cli.demo.clock import WINDOW_S, DemoClock
from alcove.platform.cli.demo.environment import (
    APP,
    FEATURE,
    Devices,
    Places,
    Server,
    flip_byte,
    prepare,
)
from alcove.platform.cli.demo.guarded import IDLE_NOISE, run_guarded
from alcove.platform.cli.demo.parties import describe_parties
from alcove.platform.cli.demo.private_batch import PrivateBatches, start_aggregators
from alcove.platform.cli.demo.processes import DemoError
from alcove.platform.cli.demo.result import ArmOutcome, DemoResult
from alcove.platform.cli.demo.settings import ENOUGH_TO_TELL, LATENCY_EDGES_MS, DemoSettings
from alcove.platform.cli.demo.small_difference import interval_of, run_small_difference
from alcove.platform.cli.demo.staying import ConsoleDoor, open_door
from alcove.platform.cli.demo.telemetry import Telemetry
from alcove.platform.client import push_package
from alcove.platform.client.errors import ClientError
from alcove.platform.client.experiment_models import Arm
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.stats import Mechanism
from alcove.platform.store.database import DATABASE_FILE
from alcove.privacy.dap.rules import MIN_BATCH_SIZE
from alcove.privacy.limits import REPORT_BYTES
from alcove.registry.errors import RegistryError
from alcove.registry.keys import load_signer
from alcove.runtime import AlcoveRuntimeError
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from alcove.sdk.errors import AlcoveSdkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from alcove.platform.cli.demo.display import Display
    from alcove.platform.client import PlatformClient
    from alcove.platform.client.experiment_models import ArmResult, Experiment, ExperimentReport
    from alcove.platform.client.models import Version

REFUSED = (DemoError, ClientError, RegistryError, AlcoveRuntimeError, AlcoveSdkError)
"""What ends a run: a step that did not hold, or a typed refusal of the product itself."""

TEXTS_BEFORE_SYNC = 2
TEXTS_IN_EXPERIMENT = 12
OVERRIDE = "demo: an operator ships the newer version although the experiment is inconclusive"
NEXT_OVERRIDE = "demo: a maintenance release that no experiment compared"


class Scenario:
    """One run of the demo."""

    def __init__(
        self, settings: DemoSettings, display: Display, stay: Callable[[ConsoleDoor], None] | None = None
    ) -> None:
        self._settings = settings
        self._display = display
        self._stay = stay
        self._began_s = time.monotonic()
        self._places = Places(settings.folder)
        self._epsilon = settings.epsilon
        self._clock: Clock = SYSTEM_CLOCK
        self._private: PrivateBatches | None = None
        self._has_stayed = False
        self.result = DemoResult(
            mechanism=settings.mechanism.value,
            devices=settings.devices,
            fleet=settings.fleet,
            epsilon=float(self._epsilon),
        )

    @property
    def has_stayed(self) -> bool:
        """Whether the result was shown already, before the servers stayed up."""
        return self._has_stayed

    def run(self) -> DemoResult:
        """Run all steps; `result` is filled in as far as they held.

        Raises:
            DemoError: a step did not hold.
            ClientError, RegistryError, AlcoveRuntimeError, AlcoveSdkError: what the product itself refused.
        """
        self._began_s = time.monotonic()
        if find_spec("torch") is None:
            raise DemoError("the demo exports torch modules: pip install 'alcove-platform[export]'")
        try:
            with ExitStack() as stack:
                self._serve(stack)
        finally:
            if not self._has_stayed:
                self._note_seconds()
        return self.result

    def _note_seconds(self) -> None:
        self.result.seconds = round(time.monotonic() - self._began_s, 1)
        self.result.seconds_by_part = self._display.seconds | ({} if self._private is None else self._private.seconds)

    # 1: the server, and the two aggregators

    def _serve(self, stack: ExitStack) -> None:
        aggregators, issuing = None, None
        with self._display.step("serve"):
            if self._settings.mechanism is Mechanism.PRIO3:
                self._clock = clock = DemoClock(self._places.clock)
                aggregators, issuing, tokens = start_aggregators(stack, self._places)
                database = self._places.server / DATABASE_FILE
                self._private = PrivateBatches(aggregators, clock, database, tokens, self._display.say)
            api_tokens = prepare(self._places, self._clock)
            server = stack.enter_context(Server(self._places, issuing, has_console=self._stay is not None))
            door = open_door(server.console, self._places, self._clock) if server.console else None
            at = "" if door is None else f"; console {door.words}"
            also = "" if aggregators is None else f"; leader {aggregators.leader_url}, helper {aggregators.helper_url}"
            self._hold("serve", f"gRPC {server.grpc}, static files {server.http}, process {server.pid}{also}{at}")
        with server.client(api_tokens.team) as team, server.client(api_tokens.operator) as operator:
            self._publish(team)
            experiment = self._start_experiment(operator)
            devices = stack.enter_context(
                Devices(
                    self._settings.devices,
                    self._places,
                    server.http,
                    baseline=program_path(SMALL),
                    canary=self._settings.canary,
                    aggregators=aggregators,
                )
            )
            self._with_devices(devices, server, team, operator, experiment)
        if self._stay is not None and door is not None:
            self._note_seconds()
            self._has_stayed = True
            self._display.stop()
            self._display.show(self.result)
            self._stay(door)

    def _with_devices(
        self, devices: Devices, server: Server, team: PlatformClient, operator: PlatformClient, experiment: Experiment
    ) -> None:
        pids = devices.pids()
        self._use(devices)
        telemetry = Telemetry(
            self._settings,
            self._places,
            server.http,
            clock=self._clock,
            private=self._private,
            display=self._display,
        )
        reports = self._report(devices, telemetry)
        report = self._decide(devices, operator, experiment, reports)
        self._ramp(devices, operator, report)
        if self._private is not None:
            self._refine(devices, telemetry, team, operator)
        self._guard(devices, telemetry, team, operator)
        with self._display.step("tamper"):
            self._tamper(devices, team, operator)
            if devices.pids() != pids:
                raise DemoError("a device was restarted")
            self._hold("tamper", "every device went on with the version it had, in the process it had")

    # 2: register, certify, sign, publish

    def _publish(self, team: PlatformClient) -> None:
        with self._display.step("publish"):
            lines = []
            for release in releases(is_swapped=self._settings.is_swapped):
                version = self._push(team, release)
                variant = version.variants[0]
                lines.append(
                    f"{FEATURE} {version.version}: {variant.size_bytes / 1e6:.2f} MB, sha256 {variant.sha256[:12]}…"
                )
            self._hold("publish", "; ".join(lines))

    def _push(self, team: PlatformClient, release: Release, *, certificate_texts: int | None = None) -> Version:
        self._display.say(f"exporting and certifying {FEATURE} {release.version}")
        package = build_package(release, certificate_texts=certificate_texts)
        signer = load_signer(self._places.team_key)
        version = push_package(
            team, package, signer, progress=lambda what: self._display.say(f"{FEATURE} {release.version}: {what}")
        )
        release_version(team, FEATURE, release.version)
        return version

    # 3: the experiment

    def _start_experiment(self, operator: PlatformClient) -> Experiment:
        with self._display.step("experiment"):
            control, treatment = releases(is_swapped=self._settings.is_swapped)
            arms = [Arm(name="control", version=control.version, share_basis_points=5_000)]
            arms.append(Arm(name="treatment", version=treatment.version, share_basis_points=5_000))
            draft = operator.create_experiment(
                APP, FEATURE, arms, epsilon=self._epsilon, latency_edges_ms=LATENCY_EDGES_MS, window_s=WINDOW_S
            )
            experiment = operator.start_experiment(draft.experiment_id)
            self.result.cells = len(arms) * 2 * (len(LATENCY_EDGES_MS) + 1)
            self._hold(
                "experiment",
                f"{experiment.experiment_id}: {control.version} against {treatment.version}, 50/50, "
                f"policy serial {experiment.policy_serial}, k = {self.result.cells} cells, ε = {self._epsilon}",
            )
        return experiment

    # 4: devices

    def _use(self, devices: Devices) -> None:
        with self._display.step("devices"):
            self._display.say(f"{len(devices.all)} devices start, and answer from the baseline before any sync")
            before = devices.ask("read", count=TEXTS_BEFORE_SYNC)
            _expect(all(answer["reason"] == "baseline" for answer in before), "first answers from the baseline", before)
            self._display.say("devices sync, verify and assign themselves")
            first = devices.ask("sync")
            _expect(all(answer["error"] is None for answer in first), "a first sync without error", first)
            second = devices.ask("sync")
            used = devices.ask("read", count=TEXTS_IN_EXPERIMENT)
            _expect(all(answer["reason"] == "experiment" for answer in used), "answers of an arm", used)
            _expect(all(answer["errors"] == 0 for answer in before + used), "answers without error", used)
            self.result.bytes_moved = {
                "first_sync_received": _largest(first, "bytes_received"),
                "first_sync_sent": _largest(first, "bytes_sent"),
                "second_sync_received": _largest(second, "bytes_received"),
                "second_sync_sent": _largest(second, "bytes_sent"),
                "all_devices_received": sum(answer["bytes_received"] for answer in first + second),
            }
            count = {key: sum(answer[key] for answer in used) for key in ("texts", "accepted", "right_when_whole")}
            self._hold(
                "devices",
                f"{len(devices.all)} devices, each answering before its first sync; of {count['texts']} sentences "
                f"{count['accepted']} were guessed from the first words, {count['right_when_whole']} when whole "
                "(seen on the devices; the server learns none of it)",
            )

    # 5: private reports

    def _report(self, devices: Devices, telemetry: Telemetry) -> int:
        """Let the fleet use the feature, and all devices report; return how many reports there are to read."""
        with self._display.step("report"):
            reports = telemetry.run(devices, has_troubles=True)
            batch = reports.batch
            if self._private is None or batch is not None:
                # A device whose token was due in the window's last second asks later, and may report too late.
                least = len(devices.all) if self._private is None else 1
                _expect(least <= reports.devices <= len(devices.all), "a report from each device", reports.devices)
            if self._private is None:
                what = f"{reports.total:,} reports of {REPORT_BYTES} bytes, each one randomized cell"
            elif batch is None:
                what = f"fewer reports than {MIN_BATCH_SIZE}, the smallest batch: the aggregators release nothing"
            else:
                self.result.batch = batch
                self.result.parties = describe_parties(batch, self._epsilon)
                what = (
                    f"{batch.acknowledged:,} reports of {batch.report_bytes} bytes, {batch.compared} of them made in"
                    f" Python too, with the same bytes; the leader (process {batch.killed_process}) was killed in the"
                    f" middle and started again, {batch.repeated_uploads} uploads were repeated,"
                    f" {batch.forged_refused} forged reports without a token were refused, and"
                    f" {batch.released:,} reports are in the release"
                )
            self._hold("report", what)
        return reports.total

    # 6: what the reports say

    def _decide(
        self, devices: Devices, operator: PlatformClient, experiment: Experiment, reports: int
    ) -> ExperimentReport:
        with self._display.step("decide"):
            report = operator.results(experiment.experiment_id)
            results = report.results
            slack = 0 if self._private is None else IDLE_NOISE
            _expect(abs(results.report_count - reports) <= slack, f"{reports} reports", results.report_count)
            self.result.arms = [_outcome(arm) for arm in results.arms]
            self.result.decision = results.decision.kind
            winner = results.decision.winner
            self.result.winner = None if winner is None else results.arms[winner].version
            self.result.decision_reason = name_arms(results.decision.reason, experiment.arms)
            self._tell_privacy(devices)
            stopped = operator.stop_experiment(experiment.experiment_id)
            _expect(stopped.state == "stopped", "the experiment stopped", stopped.state)
            self._hold("decide", self.result.decision_reason)
        return report

    def _tell_privacy(self, devices: Devices) -> None:
        summaries = devices.ask("privacy")
        reports = [int(summary["report_bytes_sent"]) for summary in summaries]
        epsilons = [Fraction(summary["epsilon_total"]) for summary in summaries]
        made = [Fraction(self._epsilon) * int(summary["reports_made"]) for summary in summaries]
        _expect(epsilons == made, f"ε = {self._epsilon} spent on each report", epsilons)
        self.result.bytes_left_device = max(int(summary["bytes_sent"]) for summary in summaries)
        self.result.privacy = {
            "report_bytes": max(reports),
            "request_bytes": self.result.bytes_left_device - max(reports),
            "epsilon_spent": float(max(epsilons)),
            "epsilon_cap_day": float(Fraction(summaries[0]["epsilon_cap_day"])),
            "promise": summaries[0]["promise"],
        }

    # 7: ramp; 8: a small difference; 9: a harmful version; 10: refuse what was tampered with

    def _ramp(self, devices: Devices, operator: PlatformClient, report: ExperimentReport) -> None:
        with self._display.step("ramp"):
            decision = report.results.decision
            arms = report.experiment.arms
            chosen = arms[-1 if decision.winner is None else decision.winner].version
            override = "" if decision.winner is not None else OVERRIDE
            rollout = operator.create_rollout(APP, FEATURE, chosen)
            done = operator.advance_rollout(rollout.rollout_id, 10_000, override_reason=override)
            _expect(done.state == "completed", "a completed rollout", done.state)
            if override:
                audited = [str(entry) for entry in list_local_audit(self._places.server)]
                _expect(any(override in entry for entry in audited), "the override in the audit log", audited)
            synced = devices.ask("sync")
            _expect(all(answer["error"] is None for answer in synced), "a sync without error", synced)
            after = devices.ask("read", count=1)
            _expect(all(answer["version"] == chosen for answer in after), f"version {chosen} everywhere", after)
            self.result.ramped, self.result.ramped_to = True, chosen
            self.result.override_reason = override or None
            self._hold("ramp", f"{chosen} is at 100 %; all devices run it without a restart")

    def _refine(self, devices: Devices, telemetry: Telemetry, team: PlatformClient, operator: PlatformClient) -> None:
        with self._display.step("refine"):
            total = self._settings.fleet
            if total < MIN_BATCH_SIZE:
                self._hold("refine", f"left out: fewer than {MIN_BATCH_SIZE} devices, the smallest batch of a release")
                return
            self._push(team, Release(TRIMMED, LARGE, cut_rows=CUT_ROWS), certificate_texts=8)

            def run_fleet() -> int:
                self._display.say(f"{TRIMMED} is on half of the devices")
                devices.ask("sync")
                return telemetry.run(devices).total

            found = run_small_difference(
                operator, str(self.result.ramped_to), run_fleet, devices=total, edges_ms=LATENCY_EDGES_MS
            )
            self.result.small_difference = found
            self._hold("refine", found.reason)

    def _guard(self, devices: Devices, telemetry: Telemetry, team: PlatformClient, operator: PlatformClient) -> None:
        with self._display.step("guard"):
            self._push(team, Release(SPOILED, LARGE, is_spoiled=True), certificate_texts=8)

            guarded = run_guarded(
                operator,
                devices,
                lambda: telemetry.run(devices, may_close=True).total,
                self._display.say,
                mechanism="randomized_response" if self._private is None else "prio3",
                epsilon=self._epsilon,
            )
            is_enough = self._settings.fleet >= ENOUGH_TO_TELL[self._settings.mechanism]
            _expect(
                guarded.state == "halted" or not is_enough,
                "a rollout that pauses by itself",
                guarded,
            )
            _expect(all(answer["error"] is None for answer in devices.ask("sync")), "a sync without error", "one")
            after = {answer["version"] for answer in devices.ask("read", count=1)}
            _expect(after == {self.result.ramped_to}, f"version {self.result.ramped_to} everywhere", after)
            self.result.guarded = guarded
            back = f"every device is back on {self.result.ramped_to}"
            self._hold("guard", f"{SPOILED} {guarded.how_it_stopped}: {guarded.reason}; {back}")

    def _tamper(self, devices: Devices, team: PlatformClient, operator: PlatformClient) -> None:
        self._display.say(f"publishing {NEXT}, and flipping one byte of its program on the server's disk")
        version = self._push(team, Release(NEXT, LARGE), certificate_texts=8)
        offset = flip_byte(self._places.tree / "blobs" / version.variants[0].sha256)
        rollout = operator.create_rollout(APP, FEATURE, NEXT)
        operator.advance_rollout(rollout.rollout_id, 10_000, override_reason=NEXT_OVERRIDE)
        synced = devices.ask("sync")
        errors = {str(answer["error"]) for answer in synced}
        _expect(errors == {"IntegrityError"}, "IntegrityError on every device", errors)
        after = devices.ask("read", count=1)
        kept = {answer["version"] for answer in after}
        _expect(kept == {self.result.ramped_to}, f"version {self.result.ramped_to} kept", kept)
        self.result.tamper_refused, self.result.tamper_error = True, f"byte {offset}: {synced[0]['message']}"

    def _hold(self, step: str, what: str) -> None:
        self.result.steps[step] = True
        self._display.finish_step(step, what)


def _expect(holds: bool, expected: str, seen: object) -> None:
    if not holds:
        raise DemoError(f"expected {expected}; saw {seen}")


def _largest(answers: list[dict[str, Any]], key: str) -> int:
    return max(int(answer[key]) for answer in answers)


def _outcome(arm: ArmResult) -> ArmOutcome:
    return ArmOutcome(
        version=arm.version,
        devices=arm.devices,
        share=arm.share.value,
        accepted=arm.accepted.value,
        interval=interval_of(arm.accepted),
        latency_ms=arm.latency_ms.value,
        latency_interval=interval_of(arm.latency_ms),
    )
