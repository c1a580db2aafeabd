"""Updates a device: reads the signed tree, and installs and activates what the policy assigns to it.

    lock ─▶ refresh the signed tree ─▶ halt ─▶ min versions ─▶ policy ─▶ each feature: resolve ─▶ fetch ─▶ activate
      │            │ refused, or no network: nothing changes       │ a version refused: the feature keeps what it has
      └─ another process syncs: wait, then see what it did

What is halted, below its team's minimum version, or has crashed here three times leaves its slot first, whatever the
policy says or leaves out.  A feature that the policy does not name any more keeps its version, outside of any
experiment.

While blobs come the halt is asked for again (`bounded.py`).  One that is new takes effect at once, and the sync begins
again with it; started downloads stay.

Every refusal and every transient failure is a value in the result; nothing is raised, and the old version stays.

A device in an experiment, or in a rollout with a control group, fetches all arms before it activates its own, and
activates none when one cannot be had: neither downloads nor failures tell which arm it is in.  What audiences keep it
out of it fetches too (`fetching.py`), so that downloads tell no attribute; such a version may fail and keeps nothing
back.  So it is in a read-out of the holdout, of whose groups both fetch what the holdout keeps.
What stays installed afterwards depends on what was fetched, not on the arm, so later downloads do not tell it either.

Before anything of an arm is fetched, what the device did until then is settled (`history.py`), in every arm alike.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from alcove.registry.errors import (
    ExpiredMetadataError,
    FeatureUnknownError,
    FetchError,
    RegistryError,
    VersionHaltedError,
)
from alcove.registry.min_versions import is_below
from alcove.registry.parameters import read_settings
from alcove.registry.policy import candidates
from alcove.registry.policy.resolution import Reason, Resolution
from alcove.runtime.clock import Clock
from alcove.runtime.errors import AlcoveRuntimeError
from alcove.sdk.bounded import BoundedTransport
from alcove.sdk.consent import Consent
from alcove.sdk.debug import DEBUG, DebugOverrides, pinned_version
from alcove.sdk.errors import (
    AlcoveSdkError,
    ClosedError,
    DeviceStorageError,
    ForeignFolderError,
    IncompatibleError,
    OtherSignatureError,
    QuarantinedError,
    RemoteError,
)
from alcove.sdk.fetching import Choice, choose
from alcove.sdk.freshness import Freshness
from alcove.sdk.history import History
from alcove.sdk.installer import Installer, ManifestSource
from alcove.sdk.participation import Participation
from alcove.sdk.questions import Questions
from alcove.sdk.slots import SlotStore
from alcove.sdk.state import Slot, State

if TYPE_CHECKING:
    from alcove.registry.policy import Halt, Policy, TaskPolicy, VersionRef
    from alcove.registry.signed_time import SignedTime

_LOG: Final = logging.getLogger(__name__)

Problem = AlcoveSdkError | RegistryError | AlcoveRuntimeError
"""What a sync may answer with."""

BASELINE = "baseline"
"""What stands for a version where the app's own model answers."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A feature answers with another version from now on.

    Attributes:
        feature: its name.
        before: version until now, or "baseline".
        after: version from now on, or "baseline".
        reason: "default", "rollout", "experiment", "holdout", "fallback", "baseline" or "debug".
    """

    feature: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A version that was not activated; the feature keeps what it has."""

    feature: str
    version: str
    error: Problem


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did.

    Attributes:
        changed: features that answer with another version from now on.
        refused: versions that could not be had, and why.
        error: what ended or spoiled the sync: the first refusal's error if the tree itself was fine, else None.
        bytes_received: bodies of all answers.
        bytes_sent: every byte of all requests, headers included.
        retry_after_s: for how long the server asked to be left alone, in seconds; 0 where it did not.
    """

    changed: tuple[VersionChange, ...] = ()
    refused: tuple[Refusal, ...] = ()
    error: Problem | None = None
    bytes_received: int = 0
    bytes_sent: int = 0
    retry_after_s: float = 0.0


class SignedRepository(ManifestSource, Protocol):
    """What is read of the signed tree."""

    def refresh(self) -> None:
        """Read what is new."""
        ...

    def signed_time(self) -> "SignedTime":
        """Return what the tree says of time."""
        ...

    def policy(self, app: str) -> "Policy":
        """Return the app's policy."""
        ...

    def halt(self, app: str) -> "Halt":
        """Return the app's emergency stop."""
        ...

    def min_version(self, feature: str) -> str | None:
        """Return the lowest version that the feature's team lets run, or None."""
        ...


@dataclass(slots=True)
class _Progress:
    state: State
    refused: list[Refusal] = field(default_factory=list)
    fetched: dict[str, frozenset[str]] = field(default_factory=dict)
    tasks: "dict[str, TaskPolicy | None]" = field(default_factory=dict)
    error: Problem | None = None
    halt: "Halt | None" = None


class _HaltArrivedError(Exception):
    """A halt came while blobs were fetched; no `AlcoveSdkError`, so that nothing takes it for a refusal."""


class Updater:
    """Brings one device's slots to what its app's policy says.

    Args:
        app: the app's name.
        slots: where versions live.
        installer: fetches and verifies them.
        open_repository: returns the signed tree as far as it was read; it is refreshed once.
        secret: returns the installation's secret.
        bounds: what the installer and the tree read through.
        on_withdrawn: called when a version has left its slot, before anything is fetched.
        freshness: how long ago the server was heard.
        history: how answers fared until an experiment is met.
        questions: what a device may reveal of its attributes.
        consent: whether the device takes part in experiments.
        participation: the tasks with aggregators that the device takes part in.
        clock: ends a read-out of the holdout.
        debug: what is pinned on a test device.
    """

    def __init__(
        self,
        app: str,
        slots: SlotStore,
        installer: Installer,
        open_repository: Callable[[], SignedRepository],
        secret: Callable[[], bytes],
        *,
        bounds: BoundedTransport,
        on_withdrawn: Callable[[], None],
        freshness: Freshness,
        history: History,
        questions: Questions,
        consent: Consent,
        participation: Participation,
        clock: Clock,
        debug: DebugOverrides,
    ) -> None:
        self._app = app
        self._slots = slots
        self._installer = installer
        self._open_repository = open_repository
        self._secret = secret
        self._bounds = bounds
        self._on_withdrawn = on_withdrawn
        self._freshness = freshness
        self._history = history
        self._questions = questions
        self._consent = consent
        self._participation = participation
        self._clock = clock
        self._debug = debug

    def run(self) -> SyncResult:
        """Sync once; raises nothing for transient failures, a refused version or a full disk."""
        before = self._slots.read_state()
        progress = _Progress(before)
        self._bounds.begin()
        try:
            with self._slots.exclusive():
                progress.state = self._slots.read_state()
                with _record_errors(progress):
                    while not self._run_to_end(progress):
                        progress.refused.clear()
                        progress.fetched.clear()
                        progress.tasks.clear()
        except (DeviceStorageError, ForeignFolderError) as error:
            progress.error = error
        if progress.error is not None or progress.refused:
            with contextlib.suppress(AlcoveSdkError):
                self._bounds.check()
            progress.error = self._bounds.ended or progress.error
        first = next((refusal.error for refusal in progress.refused), None)
        return SyncResult(_version_changes(before, progress.state), tuple(progress.refused), progress.error or first)

    def _run_to_end(self, progress: _Progress) -> bool:
        """Follow the server once; tell whether it was to the end, False if a halt came meanwhile."""
        try:
            self._run_once(progress)
        except _HaltArrivedError:
            return False
        return True

    def _check_halt(self, progress: _Progress) -> None:
        """Follow a halt that came since this sync began.

        Raises:
            _HaltArrivedError: there is one; what it takes away is gone.
            DeviceStorageError: the disk failed.
        """
        tree = self._open_repository()
        try:
            self._refresh(tree)
            halt = tree.halt(self._app)
        except (AlcoveSdkError, RegistryError):
            return  # a transient failure or a refused tree: the next sync reports it, this one continues
        if halt != progress.halt:
            self._withdraw(progress, halt)
            raise _HaltArrivedError

    def _withdraw(self, progress: _Progress, halt: "Halt") -> None:
        progress.halt = halt
        before = progress.state
        self._store(progress, before.withdraw(halt.digests))
        if progress.state != before:
            self._on_withdrawn()

    def _run_once(self, progress: _Progress) -> None:
        tree = self._open_repository()
        self._refresh(tree)
        halt = tree.halt(self._app)
        self._withdraw(progress, halt)
        self._store(progress, progress.state.quarantine(self._slots.attempts.list_quarantined()))
        self._withdraw_below_minimum(progress, tree)
        if all(isinstance(refusal.error, ExpiredMetadataError) for refusal in progress.refused):
            # Not before: a mirror that holds halts or minimum versions back is not heard.  A role that has expired is
            # its team's own doing, since the snapshot names its version: it takes no other team's features away.
            self._freshness.accept_time(tree.signed_time())
        settled = {refusal.feature for refusal in progress.refused}
        policy = tree.policy(self._app)
        for feature in sorted(progress.state.features.keys() - policy.features.keys()):
            self._store(progress, progress.state.release(feature))
        for feature in sorted(policy.features.keys() - settled - set(halt.frozen)):
            resolution = None
            self._bounds.check()
            try:
                choice = self._choose(policy, feature, tree, halt)
                resolution = choice.resolution
                progress.tasks[feature] = resolution.task
                fetched = frozenset(ref.manifest_sha256 for ref in choice.fetched)
                progress.fetched[feature] = fetched
                self._settle_covariate(progress.state, feature, resolution)
                with self._bounds.ask_every(lambda: self._check_halt(progress)):
                    resolution = self._install_all(progress, feature, choice, tree).resolution
                current = progress.state.slots(feature).current
                is_healthy = current is not None and self._slots.attempts.is_healthy(current.manifest_sha256)
                slot = self._slot(feature, resolution, tree)
                activated = progress.state.activate(feature, slot, is_healthy=is_healthy)
                self._store(progress, activated.record_fetched(feature, fetched))
            except (QuarantinedError, OtherSignatureError) as error:
                version = self._abandon_arm(progress, feature, resolution, error)
                progress.refused.append(Refusal(feature, version, error))
            except VersionHaltedError as error:
                progress.tasks.setdefault(feature, None)
                progress.refused.append(Refusal(feature, error.version, error))
            except (AlcoveSdkError, RegistryError, AlcoveRuntimeError) as error:
                version = resolution.version.version if resolution else policy.features[feature].default.version
                progress.refused.append(Refusal(feature, version, error))
            except OSError as error:
                raise DeviceStorageError(step="install", path=feature, reason=str(error)) from error
        for feature in sorted(self._debug.pins.keys() - policy.features.keys()):
            progress.refused.append(Refusal(feature, BASELINE, FeatureUnknownError(self._app, feature)))
        tasks = (task for rules in policy.features.values() for one in rules.experiments for task in one.tasks)
        self._history.keep_only({task.task_id for task in tasks})
        self._questions.keep_values({one.id for rules in policy.features.values() for one in rules.experiments})
        self._participation.settle(progress.tasks, policy.features.keys() - progress.tasks.keys())
        self._remove_unneeded(progress, halt)

    def _choose(self, policy: "Policy", feature: str, tree: SignedRepository, halt: "Halt") -> Choice:
        """Return what the device does about a feature: what is pinned on it, else what the policy says."""
        rules = policy.features[feature]
        pin = self._debug.pins.get(feature)
        if pin is not None:
            ref = pinned_version(feature, pin, rules, tree)
            if ref.manifest_sha256 in halt.digests:
                raise VersionHaltedError(feature, ref.version)
            return Choice(Resolution(ref, Reason.DEFAULT), frozenset((ref,)), (ref,))
        found = candidates(
            policy,
            feature,
            self._secret(),
            now_s=self._clock.now_s(),
            halted=halt.digests,
            is_in_experiments=self._consent.is_given,
        )
        return choose(feature, rules, found, tree, self._questions, halted=halt.digests)

    def _slot(self, feature: str, resolution: "Resolution", tree: SignedRepository) -> Slot:
        """Return the slot of a version that is installed, with the values of its parameters."""
        slot = _slot(resolution)
        version = resolution.version.version
        values, refused = read_settings(tree.manifest(feature, version).parameters, resolution.values)
        for each in refused:
            _LOG.warning("%s %s: the value of %r is not taken: %s", feature, version, each.name, each.problem)
        slot = replace(slot, config=tuple(sorted(values.items())))
        return replace(slot, reason=DEBUG) if feature in self._debug.pins else slot

    def _remove_unneeded(self, progress: _Progress, halt: "Halt") -> None:
        """Remove what is not needed any more; a feature that keeps trying keeps what it has begun, and no other."""
        wanted = progress.state.versions()
        unsettled = {refusal.feature for refusal in progress.refused} | set(halt.frozen)
        if not unsettled:
            self._slots.keep_only(wanted)
            return
        wanted |= {(feature, digest) for feature, digests in progress.fetched.items() for digest in digests}
        self._slots.keep_versions(wanted, unsettled - progress.fetched.keys())

    def _refresh(self, tree: SignedRepository) -> None:
        try:
            tree.refresh()
        except ExpiredMetadataError as error:
            if error.role in ("timestamp", "snapshot"):
                self._freshness.expire()
            raise

    def _settle_covariate(self, state: State, feature: str, resolution: "Resolution") -> None:
        """Settle what is known of the device before it is in an experiment that asks for it."""
        task = resolution.task
        if task is not None and task.pre_edges:
            slots = state.slots(feature)
            known_tasks = {
                slot.task for slot in (slots.current, slots.previous, slots.abandoned_arm) if slot is not None
            }
            self._history.settle_covariate(feature, task, is_in_it=task.model_dump_json() in known_tasks)

    def _install_all(self, progress: _Progress, feature: str, choice: Choice, tree: SignedRepository) -> Choice:
        """Install every version that is fetched; all are tried, so that a failure does not show in the requests.

        Returns:
            What can be done with the versions that could be had: the choice, or else the one otherwise.

        Raises:
            Problem: a needed version cannot be had; one that crashed here comes after every other reason.
        """
        missed: dict[VersionRef, Problem] = {}
        for ref in choice.fetched:
            try:
                self._installer.install(feature, ref, tree)
            except (AlcoveSdkError, RegistryError, AlcoveRuntimeError) as error:
                if _is_transient(error):
                    raise
                missed[ref] = error
        done = choice
        while done.otherwise is not None and not done.needed.isdisjoint(missed):
            done = done.otherwise
        progress.refused.extend(
            Refusal(feature, ref.version, error)
            for ref, error in missed.items()
            if ref not in done.needed and not isinstance(error, IncompatibleError)
        )
        if problems := [error for ref, error in missed.items() if ref in done.needed]:
            raise min(problems, key=lambda problem: isinstance(problem, QuarantinedError))
        return done

    def _abandon_arm(
        self,
        progress: _Progress,
        feature: str,
        resolution: "Resolution | None",
        error: QuarantinedError | OtherSignatureError,
    ) -> str:
        """Remember the arm whose version cannot run here, if it is the device's own; return the version's name."""
        if resolution is None:
            return BASELINE
        digest = resolution.version.manifest_sha256
        is_other = isinstance(error, OtherSignatureError) and error.manifest_sha256 == digest
        if is_other or self._slots.attempts.is_quarantined(digest):
            self._store(progress, progress.state.abandon_arm(feature, _slot(resolution)))
        return resolution.version.version

    def _withdraw_below_minimum(self, progress: _Progress, tree: SignedRepository) -> None:
        """Let every version that its team forbids leave its slot; where that cannot be known, the feature is refused.

        Every feature with slots is asked about: a policy, honest or not, may leave out the one that must go.
        """
        for feature, slots in sorted(progress.state.features.items()):
            try:
                min_version = tree.min_version(feature)
                held = [slot for slot in (slots.current, slots.previous) if slot is not None]
                below = frozenset(slot.manifest_sha256 for slot in held if is_below(slot.version, min_version))
                self._store(progress, progress.state.withdraw(below))
            except (AlcoveSdkError, RegistryError, AlcoveRuntimeError) as error:
                version = slots.current.version if slots.current else BASELINE
                progress.refused.append(Refusal(feature, version, error))

    def _store(self, progress: _Progress, state: State) -> None:
        if state != progress.state:
            self._slots.write_state(state)
            progress.state = state


def _is_transient(error: Problem) -> bool:
    """Tell whether no other version could be had now either."""
    if isinstance(error, IncompatibleError):
        return False
    return isinstance(error, (RemoteError, FetchError, DeviceStorageError, ClosedError))


@contextlib.contextmanager
def _record_errors(progress: _Progress) -> Iterator[None]:
    try:
        yield
    except (AlcoveSdkError, RegistryError, AlcoveRuntimeError) as error:
        progress.error = error
    except OSError as error:
        progress.error = DeviceStorageError(step="sync", path=str(error.filename or ""), reason=str(error))


def _slot(resolution: "Resolution") -> Slot:
    return Slot(
        version=resolution.version.version,
        manifest_sha256=resolution.version.manifest_sha256,
        reason=str(resolution.reason),
        arm=resolution.reported_arm,
        task=None if resolution.task is None else resolution.task.model_dump_json(),
    )


def _version_changes(before: State, after: State) -> tuple[VersionChange, ...]:
    changes = []
    for feature in sorted({*before.features, *after.features}):
        old, new = before.slots(feature).current, after.slots(feature).current
        old_digest, new_digest = (slot.manifest_sha256 if slot else "" for slot in (old, new))
        if old_digest != new_digest:
            was = old.version if old else BASELINE
            changes.append(VersionChange(feature, was, *((new.version, new.reason) if new else (BASELINE, BASELINE))))
    return tuple(changes)
