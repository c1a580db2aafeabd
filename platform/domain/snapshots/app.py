"""Provides `AppSnapshot`: the rows that an app's policy and halt are made of, as one immutable value.

A mutation loads it once (`services/loading.py`), derives the next one with what is here and beside, and writes the
difference once (`services/saving.py`).  Pure: nothing here reads or writes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.domain.errors import (
    BelowMinVersionError,
    BreakingSignatureError,
    InvalidFieldError,
    NotReleasedError,
    ValuesOverriddenError,
    VersionRevokedError,
)
from alcove.platform.domain.policy import compile_policy
from alcove.platform.domain.readout_records import ReadoutRecord, ReadoutState
from alcove.platform.domain.records import (
    Default,
    ExperimentRecord,
    ExperimentState,
    HoldoutRecord,
    LayerRecord,
    RolloutRecord,
    RolloutState,
    VersionState,
)
from alcove.platform.domain.rollouts.machine import LIVE
from alcove.platform.domain.value_overrides import DeclaredParameters, ValueOverride
from alcove.registry.compatibility import differences
from alcove.registry.errors import VersionHaltedError
from alcove.registry.limits import HALTED_MAX
from alcove.registry.manifest import ModelSignature
from alcove.registry.min_versions import is_below
from alcove.registry.policy import Halt, HaltedVersion, VersionRef, policy_from_bytes

__all__ = ["AppSnapshot", "Entry", "PolicyDocument", "validate_runnable"]


@dataclass(frozen=True)
class PolicyDocument:
    """A policy as it was decided: its serial, and its bytes."""

    serial: int
    content: bytes


@dataclass(frozen=True)
class Entry:
    """An entry for the audit log; `details` are plain JSON values, never a secret."""

    action: str
    subject: str
    details: Mapping[str, object]


@dataclass(frozen=True)
class AppSnapshot:
    """An app's rows, as they were loaded or as an action leaves them.

    Attributes:
        app: its name.
        defaults: its default versions, by feature.
        rollouts: those on devices and the one that is acted on, by id.
        experiments: those that run and the one that is acted on, by id.
        last_policy: the newest that was decided before; None: none was.
        last_halt: likewise.
        standing_halt: it, without what the teams that own features have given back since.
        stopped: the experiment that was stopped last, of each feature for which that is asked.
        former: the newest former default of the feature that is acted on which may run besides the version in question.
        layers: its layers.
        holdout: which devices take part in no experiment.
        readout: the read-out of it that runs or is acted on.
        sizes: bytes of the largest program of each version that is compared, by manifest digest.
        signatures: of the versions of the feature that is acted on which may come to run together, by manifest digest.
        states: of versions of the feature that is acted on, by feature and version.
        rules: of the feature that is acted on.
        min_versions: lowest version of each feature that its team still lets run; absent: any.
        overrides: values that stand over all others, by feature.
        past_overrides: of the feature that is acted on, where its former default is asked for, and the standing one.
        parameters: of the versions of overridden features, and of the feature that is acted on, by manifest digest.
        policy: the one that is decided now; None: none is.
        halt: likewise.
        entries: for the audit log, in order.
    """

    app: str
    defaults: Mapping[str, Default]
    rollouts: Mapping[str, RolloutRecord]
    experiments: Mapping[str, ExperimentRecord]
    last_policy: PolicyDocument | None = None
    last_halt: Halt | None = None
    standing_halt: Halt | None = None
    stopped: Mapping[str, ExperimentRecord] = field(default_factory=dict)
    former: Default | None = None
    layers: tuple[LayerRecord, ...] = ()
    holdout: HoldoutRecord | None = None
    readout: ReadoutRecord | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    signatures: Mapping[str, ModelSignature] = field(default_factory=dict)
    states: Mapping[tuple[str, str], VersionState] = field(default_factory=dict)
    rules: Mapping[str, FeatureRules] = field(default_factory=dict)
    min_versions: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, ValueOverride] = field(default_factory=dict)
    past_overrides: tuple[ValueOverride, ...] = ()
    parameters: DeclaredParameters = field(default_factory=dict)
    policy: PolicyDocument | None = None
    halt: Halt | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def live_rollouts(self) -> list[RolloutRecord]:
        """The rollouts that are on devices."""
        return [rollout for rollout in self.rollouts.values() if rollout.state in LIVE]

    @property
    def running_experiments(self) -> list[ExperimentRecord]:
        """The experiments that run."""
        return [one for one in self.experiments.values() if one.state is ExperimentState.RUNNING]

    @property
    def compared_digests(self) -> set[str]:
        """The manifest digests of all versions that the policy may compare with others."""
        digests = {arm.manifest_sha256 for experiment in self.experiments.values() for arm in experiment.arms}
        if self.rollouts:
            digests |= {rollout.manifest_sha256 for rollout in self.rollouts.values()}
            digests |= {default.manifest_sha256 for default in self.defaults.values()}
            digests |= set() if self.former is None else {self.former.manifest_sha256}
        return digests

    def digests_of(self, features: Collection[str]) -> set[str]:
        """Return the manifest digests of all versions of some features that the policy may name."""
        parts: list[Default | RolloutRecord] = [*self.defaults.values(), *self.rollouts.values()]
        parts += [] if self.former is None else [self.former]
        found = {part.manifest_sha256 for part in parts if part.feature in features}
        compared = (one for one in self.experiments.values() if one.feature in features)
        return found | {arm.manifest_sha256 for one in compared for arm in one.arms}

    @property
    def policy_serial(self) -> int:
        """The serial of the policy that carries this; 0: none does."""
        policy = self.policy or self.last_policy
        return 0 if policy is None else policy.serial

    @property
    def halt_serial(self) -> int:
        """The serial of the halt that holds; 0: none was decided."""
        halt = self.halt or self.last_halt
        return 0 if halt is None else halt.serial

    def with_rollout(self, record: RolloutRecord) -> "AppSnapshot":
        """Return it with a rollout as it is now."""
        return replace(self, rollouts={**self.rollouts, record.rollout_id: record})

    def with_experiment(self, record: ExperimentRecord) -> "AppSnapshot":
        """Return it with an experiment as it is now."""
        return replace(self, experiments={**self.experiments, record.experiment_id: record})

    def with_default(self, default: Default) -> "AppSnapshot":
        """Return it with a version, and values, as the default of its feature."""
        return replace(self, defaults={**self.defaults, default.feature: default})

    def with_override(self, override: ValueOverride) -> "AppSnapshot":
        """Return it with values that stand over all others of their feature."""
        return replace(self, overrides={**self.overrides, override.feature: override})

    def without_override(self, feature: str) -> "AppSnapshot":
        """Return it with the values of rollouts, arms and defaults of a feature."""
        return replace(self, overrides={name: one for name, one in self.overrides.items() if name != feature})

    def validate_compares(self, feature: str) -> None:
        """Let a comparison of a feature begin or go on, or not.

        Raises:
            ValuesOverriddenError: its values are overridden: no device reports on it.
        """
        override = self.overrides.get(feature)
        if override is not None:
            raise ValuesOverriddenError(self.app, feature, override.set_by, override.reason)

    def with_entry(self, action: str, subject: str, **details: object) -> "AppSnapshot":
        """Return it with an entry for the audit log."""
        return replace(self, entries=(*self.entries, Entry(action, subject, details)))

    def validate_may_run(self, feature: str, version: VersionRef) -> None:
        """Let a version into the app's policy or not; raises as `validate_runnable`."""
        validate_runnable(
            feature,
            version,
            state=self.states.get((feature, version.version)),
            rules=self.rules.get(feature),
            halt=self.halt or self.last_halt,
            min_version=self.min_versions.get(feature),
        )

    def validate_signature(self, feature: str, version: VersionRef) -> None:
        """Let a version stand beside the feature's default or not: apps call it as they call that one.

        Raises:
            BreakingSignatureError: it takes or gives something else.
        """
        default = self.defaults.get(feature)
        before = None if default is None else self.signatures.get(default.manifest_sha256)
        after = self.signatures.get(version.manifest_sha256)
        found = [] if before is None or after is None else differences(before, after)
        if default is not None and found:
            raise BreakingSignatureError(self.app, feature, version.version, default.version, found)

    def find_former(self, feature: str, version: VersionRef, policy: bytes) -> Default | None:
        """Return the default of a feature in an earlier policy; None where it may not run in the place of `version`."""
        document = policy_from_bytes(policy)
        rules = document.features.get(feature)
        if rules is None or rules.default.manifest_sha256 == version.manifest_sha256:
            return None
        try:
            # What devices ran before may answer again, also where it was deprecated or never released.
            replace(self, last_halt=self.standing_halt, rules={}).validate_may_run(feature, rules.default)
        except (VersionHaltedError, VersionRevokedError, BelowMinVersionError):
            return None
        # What an override said there was never the default's.
        in_it = (each for each in self.past_overrides if each.is_in_policy(document.serial))
        names = {setting.name for each in in_it for setting in each.values}
        values = tuple(setting for setting in rules.values if setting.name not in names)
        return Default(self.app, feature, rules.default.version, rules.default.manifest_sha256, values)

    def forbid(self, feature: str, version: VersionRef) -> "AppSnapshot":
        """Return it with a halt that names a version besides what was forbidden before.

        Raises:
            InvalidFieldError: the document would name more versions than a device reads.
        """
        before = self.halt or self.standing_halt or Halt(app=self.app, serial=0)
        item = HaltedVersion(feature=feature, version=version)
        if item in before.halted:
            return self
        if len(before.halted) >= HALTED_MAX:
            bound = f"at most {HALTED_MAX} in app {self.app!r}"
            raise InvalidFieldError("halted versions", bound, len(before.halted) + 1)
        return replace(
            self, halt=before.model_copy(update={"serial": before.serial + 1, "halted": (*before.halted, item)})
        )

    def leave_default(self, feature: str, version: VersionRef) -> "AppSnapshot":
        """Return it with the former default in the place of `version`; without any where none may run."""
        default = self.defaults.get(feature)
        if default is None or default.manifest_sha256 != version.manifest_sha256:
            return self
        if self.former is not None:
            return self.with_default(self.former)
        return replace(self, defaults={name: kept for name, kept in self.defaults.items() if name != feature})

    def carry_rollout(self, record: RolloutRecord, action: str, **details: object) -> "AppSnapshot":
        """Return it with a rollout after an action, the policy that this makes, and the entry that says so."""
        record = replace(record, revision=record.revision + 1)
        app = self.with_rollout(record)
        if record.state is not RolloutState.ROLLED_BACK or record.policy_serial:  # a draft was in no policy
            app = app.decide_policy()
            record = replace(record, policy_serial=app.policy_serial)
            app = app.with_rollout(record)
        return app.with_entry(f"{action} rollout", record.rollout_id, policy_serial=record.policy_serial, **details)

    def carry_experiment(self, record: ExperimentRecord, action: str, **details: object) -> "AppSnapshot":
        """Return it with an experiment after an action, the policy that this makes, and the entry that says so."""
        app = self.with_experiment(record).decide_policy()
        record = replace(record, policy_serial=app.policy_serial)
        app = app.with_experiment(record)
        return app.with_entry(
            f"{action} experiment", record.experiment_id, policy_serial=record.policy_serial, **details
        )

    def carry_readout(self, record: ReadoutRecord, action: str, **details: object) -> "AppSnapshot":
        """Return it with a read-out after an action, the policy that this makes, and the entry that says so."""
        app = replace(self, readout=record).decide_policy()
        record = replace(record, policy_serial=app.policy_serial)
        app = replace(app, readout=record)
        return app.with_entry(f"{action} read-out", record.readout_id, policy_serial=record.policy_serial, **details)

    @property
    def halted_digests(self) -> frozenset[str]:
        """Manifest digests that no device of the app may run."""
        halt = self.halt or self.standing_halt
        return frozenset() if halt is None else halt.digests

    def decide_policy(self) -> "AppSnapshot":
        """Return it with the policy that its rows make; with none where the last one says the same already.

        Raises:
            InvalidFieldError: the rows make no acceptable policy.
        """
        last, readout = self.last_policy, self.readout
        is_read_out = readout is not None and readout.state is ReadoutState.RUNNING
        policy = compile_policy(
            self.app,
            1 if last is None else last.serial + 1,
            defaults=self.defaults.values(),
            rollouts=self.live_rollouts,
            experiments=self.running_experiments,
            min_versions=self.min_versions,
            layers=self.layers,
            holdout=self.holdout,
            readout=readout if is_read_out else None,
            halted=self.halted_digests,
            sizes=self.sizes,
            overrides=self.overrides.values(),
            parameters=self.parameters,
        )
        if last is not None and last.content == policy.model_copy(update={"serial": last.serial}).to_bytes():
            return replace(self, policy=None)
        return replace(self, policy=PolicyDocument(policy.serial, policy.to_bytes()))


def validate_runnable(
    feature: str,
    version: VersionRef,
    *,
    state: VersionState | None,
    rules: FeatureRules | None,
    halt: Halt | None,
    min_version: str | None,
) -> None:
    """Let a version into an app's policy or not; None: the version is unknown here, or nothing was ever said.

    Raises:
        VersionRevokedError: it is forbidden in every app.
        VersionHaltedError: it is forbidden in the app.
        NotReleasedError: it is not released, and the feature's rules ask for that.
        BelowMinVersionError: its team forbids versions as old as this one.
    """
    state = state or VersionState.REGISTERED
    if state is VersionState.REVOKED:
        raise VersionRevokedError(feature, version.version)
    if state is not VersionState.RELEASED and rules is not None and not rules.accepts_any_state:
        raise NotReleasedError(feature, version.version, state)
    if halt is not None and version.manifest_sha256 in halt.digests:
        raise VersionHaltedError(feature, version.version)
    if min_version is not None and is_below(version.version, min_version):
        raise BelowMinVersionError(feature, version.version, min_version)
