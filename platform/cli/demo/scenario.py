"""Runs the steps of the demo in order; each succeeds or raises `DemoError`.

    serve ─▶ publish ─▶ experiment ─▶ devices ─▶ decide ─▶ ramp ─▶ guard ─▶ tamper

The decision is made by `alcove.platform.stats` from the reports alone, over gRPC; nothing here knows which model is
better.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.actors import load_sentences
from alcove.platform.cli.demo.catalog import LARGE, NEXT, SMALL, SPOILED, Release, build_package, releases
from alcove.platform.cli.demo.environment import APP, FEATURE, DemoError, Devices, Places, Server, flip_byte, prepare
from alcove.platform.cli.demo.fleet import FleetResult, run_fleet
from alcove.platform.cli.demo.guarded import run_guarded
from alcove.platform.cli.demo.reporting import send_reports
from alcove.platform.cli.demo.result import ArmOutcome, DemoResult
from alcove.platform.client import push_package
from alcove.platform.client.errors import ClientError
from alcove.platform.client.experiment_models import Arm
from alcove.platform.services.auth.local import list_local_audit
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import RegistryError
from alcove.registry.keys import load_signer
from alcove.runtime import AlcoveRuntimeError, load
from alcove.sdk import Client
from alcove.sdk.egress import Egress, TufFetcher
from alcove.sdk.engine import NativeEngine
from alcove.sdk.errors import AlcoveSdkError
from alcove.sdk.installer import Installer
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alcove.platform.cli.demo.display import Display
    from alcove.platform.client import PlatformClient
    from alcove.platform.client.experiment_models import ArmResult, Estimate, Experiment, ExperimentReport
    from alcove.platform.client.models import Version
    from alcove.registry.policy import Policy
    from alcove.runtime import Model

REFUSED = (DemoError, ClientError, RegistryError, AlcoveRuntimeError, AlcoveSdkError)
"""What ends a run: a step that did not hold, or a typed refusal of the product itself."""

EPSILON = "2"
LATENCY_EDGES_MS = (0.01, 0.04)
TEXTS_BEFORE_SYNC = 2
TEXTS_IN_EXPERIMENT = 12
OVERRIDE = "demo: an operator ships the newer version although the experiment is inconclusive"
ENOUGH_TO_TELL = 10_000  # devices of the fleet, of which a fifth reports: noise leaves a few per cent of an arm
NEXT_OVERRIDE = "demo: a maintenance release that no experiment compared"


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a run.

    Attributes:
        folder: empty; holds all that the demo writes.
        devices: devices in processes of their own, at least 1.
        fleet: devices in this process, 0 or more.
        is_swapped: publish the larger model as the control.
        canary: text added to everything that the devices' people write.
        seed: of the people.
    """

    folder: Path
    devices: int = 24
    fleet: int = 20_000
    is_swapped: bool = False
    canary: str = ""
    seed: int = 20_000


class Scenario:
    """One run of the demo."""

    def __init__(self, settings: DemoSettings, display: Display) -> None:
        self._settings = settings
        self._display = display
        self._places = Places(settings.folder)
        self.result = DemoResult(devices=settings.devices, fleet=settings.fleet, epsilon=float(EPSILON))

    def run(self) -> DemoResult:
        """Run all steps; `result` is filled in as far as they held.

        Raises:
            DemoError: a step did not hold.
            ClientError, RegistryError, AlcoveRuntimeError, AlcoveSdkError: what the product itself refused.
        """
        start_s = time.monotonic()
        if find_spec("torch") is None:
            raise DemoError("the demo exports torch modules: pip install 'alcove[export]'")
        try:
            tokens = prepare(self._places)
            with self._display.step("serve"), Server(self._places) as server:
                self._hold("serve", f"gRPC {server.grpc}, static files {server.http}, process {server.pid}")
                with server.client(tokens.team) as team, server.client(tokens.operator) as operator:
                    self._publish(team)
                    experiment = self._start_experiment(operator)
                    self._with_devices(server, team, operator, experiment)
        finally:
            self.result.seconds = round(time.monotonic() - start_s, 1)
        return self.result

    def _with_devices(
        self, server: Server, team: PlatformClient, operator: PlatformClient, experiment: Experiment
    ) -> None:
        baseline = program_path(SMALL)
        settings = self._settings
        with Devices(settings.devices, self._places, server.http, baseline=baseline, canary=settings.canary) as devices:
            pids = devices.pids()
            self._use(devices)
            fleet = self._run_fleet(server)
            report = self._decide(devices, operator, experiment, fleet)
            self._ramp(devices, operator, report)
            self._guard(server, devices, team, operator)
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
        return push_package(
            team, package, signer, progress=lambda what: self._display.say(f"{FEATURE} {release.version}: {what}")
        )

    # 3: the experiment

    def _start_experiment(self, operator: PlatformClient) -> Experiment:
        with self._display.step("experiment"):
            control, treatment = releases(is_swapped=self._settings.is_swapped)
            arms = [Arm(name="control", version=control.version, share_basis_points=5_000)]
            arms.append(Arm(name="treatment", version=treatment.version, share_basis_points=5_000))
            draft = operator.create_experiment(APP, FEATURE, arms, epsilon=EPSILON, latency_edges_ms=LATENCY_EDGES_MS)
            experiment = operator.start_experiment(draft.experiment_id)
            self.result.cells = len(arms) * 2 * (len(LATENCY_EDGES_MS) + 1)
            self._hold(
                "experiment",
                f"{experiment.experiment_id}: {control.version} against {treatment.version}, 50/50, "
                f"policy serial {experiment.policy_serial}, k = {self.result.cells} cells, ε = {EPSILON}",
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

    def _run_fleet(self, server: Server, *, may_close: bool = False) -> FleetResult:
        """Sync once for the fleet, by a real client, and let all of its devices report."""
        count = self._settings.fleet
        if count == 0:
            return FleetResult(devices=0, report_bytes=0)
        with Client(APP, self._places.fleet, server.http, self._places.root) as client:
            error = client.sync().error
            _expect(error is None, "the fleet's sync without error", error)
        policy, models = self._read_installed(server.http)
        with self._display.progress("fleet", count) as advance:
            return run_fleet(
                count,
                policy=policy,
                models=models,
                sentences=load_sentences(),
                send_all=lambda reports: send_reports(server.http, reports),
                seed=self._settings.seed,
                progress=advance,
                may_close=may_close,
            )

    def _read_installed(self, http: str) -> tuple[Policy, Mapping[str, Model]]:
        """Return the policy and the programs that the fleet's client verified and installed, those of all arms."""
        slots, files, egress = SlotStore(self._places.fleet, Files()), Files(), Egress(http)
        tree = RepositoryClient(slots.metadata_folder, TufFetcher(egress, http), http, self._places.root.read_bytes())
        tree.refresh()
        policy = tree.policy(APP)
        installer = Installer(slots, files, egress, NativeEngine())
        versions = policy.features[FEATURE].versions()
        for ref in versions:  # a device in no arm has fetched the default alone
            installer.install(FEATURE, ref, tree)
        models = {ref.version: load(slots.program_path(FEATURE, ref.manifest_sha256)) for ref in versions}
        egress.close()
        return policy, models

    # 5: private reports, and what they say

    def _decide(
        self, devices: Devices, operator: PlatformClient, experiment: Experiment, fleet: FleetResult
    ) -> ExperimentReport:
        with self._display.step("decide"):
            sent = devices.ask("report")
            _expect(all(answer["sent"] == 1 for answer in sent), "one report from each device", sent)
            report = operator.results(experiment.experiment_id)
            expected = len(devices.all) + fleet.devices
            _expect(report.results.report_count == expected, f"{expected} reports", report.results.report_count)
            results = report.results
            self.result.arms = [_outcome(arm) for arm in results.arms]
            self.result.decision = results.decision.kind
            winner = results.decision.winner
            self.result.winner = None if winner is None else results.arms[winner].version
            self.result.decision_reason = results.decision.reason
            self._tell_privacy(devices)
            stopped = operator.stop_experiment(experiment.experiment_id)
            _expect(stopped.state == "stopped", "the experiment stopped", stopped.state)
            self._hold("decide", results.decision.reason)
        return report

    def _tell_privacy(self, devices: Devices) -> None:
        summaries = devices.ask("privacy")
        reports = [int(summary["report_bytes_sent"]) for summary in summaries]
        epsilons = [Fraction(summary["epsilon_total"]) for summary in summaries]
        _expect(set(epsilons) == {Fraction(EPSILON)}, f"ε = {EPSILON} spent by each device", epsilons)
        self.result.bytes_left_device = max(int(summary["bytes_sent"]) for summary in summaries)
        self.result.privacy = {
            "report_bytes": max(reports),
            "request_bytes": self.result.bytes_left_device - max(reports),
            "epsilon_spent": float(max(epsilons)),
            "epsilon_cap_day": float(Fraction(summaries[0]["epsilon_cap_day"])),
            "promise": summaries[0]["promise"],
        }

    # 6: ramp; 7: a harmful version; 8: refuse what was tampered with

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

    def _guard(self, server: Server, devices: Devices, team: PlatformClient, operator: PlatformClient) -> None:
        with self._display.step("guard"):
            self._push(team, Release(SPOILED, LARGE, is_spoiled=True), certificate_texts=8)
            guarded = run_guarded(
                operator, devices, lambda: self._run_fleet(server, may_close=True).devices, self._display.say
            )
            is_enough = self._settings.fleet >= ENOUGH_TO_TELL
            _expect(
                guarded.state == "halted" or not is_enough,
                "a rollout that pauses by itself",
                guarded,
            )
            _expect(all(answer["error"] is None for answer in devices.ask("sync")), "a sync without error", "one")
            after = {answer["version"] for answer in devices.ask("read", count=1)}
            _expect(after == {self.result.ramped_to}, f"version {self.result.ramped_to} everywhere", after)
            self.result.guarded = guarded
            paused = guarded.seconds is not None
            how = "paused by itself, and halted by a person" if paused else "rolled back by a person"
            self._hold("guard", f"{SPOILED} {how}: {guarded.reason}; every device is back on {self.result.ramped_to}")

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
        accuracy=arm.accuracy.value,
        interval=_interval(arm.accuracy),
        latency_ms=arm.latency_ms.value,
        latency_interval=_interval(arm.latency_ms),
    )


def _interval(estimate: Estimate) -> tuple[float, float] | None:
    if estimate.low is None or estimate.high is None:
        return None
    return estimate.low, estimate.high
