"""Defines an app's signed policy (which versions run for whom) and its signed halt.

Invariants (checked at construction, so also on every read):

- I1  Every version that a feature's policy names is at or above its `min_version`.
- I2  An experiment has 2 to 8 arms with distinct names; shares add up to at most 10 000 basis points.
- I3  A task's id is the digest of everything else it says (`task.py`); it counts as many arms as its experiment has.
- I4  One meaning has one encoding (`canonical.py`); the serial number only rises (`repository.py`, `client.py`).
- I5  A rollout's treatment and control share no bucket; its tasks count two arms, under its own id.
      The tasks of rollouts may use the reserve of the device's budget (`is_guardrail`), those of experiments may not.
- I6  Experiments of one feature that a device could be in together share a layer; segments of a layer share no bucket.
- I7  Every field is written, also where it has its default; a document that leaves one out is refused. A task's
      `aggregation`, `metric` and `stratum` and an experiment's `buckets` and `dimension` are written only where they
      are not None (docs/decisions/0038, 0053, 0055, 0056), and `values` where there are any (0086).
- I8  The shares of the tasks of a rollout or experiment add up to all its devices: each device reports exactly one.
      Without tasks it asks for no report: nothing is compared, or an operator has overridden values (0091).
      An experiment with a dimension has its first task once for each value, in order; these have their share together.
- I9  A read-out of the holdout has one task of two arms under its own id, for all devices of both groups, which share
      no bucket; it measures a feature whose version it keeps.  It keeps versions of features of the policy, as I1 says.
- I10  Where an experiment lists the buckets of its arms, they rise and are apart; each arm has as many as its share.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from alcove.registry import limits
from alcove.registry.canonical import (
    AppName,
    Digest,
    Document,
    FeatureName,
    Identifier,
    Part,
    VersionText,
    version_key,
)
from alcove.registry.errors import AudienceError
from alcove.registry.parameters import Settings  # noqa: TC002 - pydantic reads it
from alcove.registry.policy.audience import Audience, overlaps
from alcove.registry.policy.dimension import Dimension, make_dimension
from alcove.registry.policy.task import TaskPolicy, in_stratum
from pydantic import Field, PlainSerializer, PlainValidator, model_validator

BasisPoints = Annotated[int, Field(strict=True, ge=0, le=limits.POLICY_BUCKETS)]
# The documents' own words for these two fields; golden files and devices hold them.
_SHARE = Field(validation_alias="share_permyriad", serialization_alias="share_permyriad")
_CONTROL = Field(validation_alias="control_permyriad", serialization_alias="control_permyriad")
Serial = Annotated[int, Field(strict=True, ge=1, le=limits.SERIAL_MAX)]

ROLLOUT_ARMS: Final = 2  # of a rollout's task: 0 stays on the default, 1 has the new version
READOUT_ARMS: Final = 2  # of a read-out's task: 0 is held out, 1 is the mirror group


def _read_audience(value: object) -> Audience:
    try:
        return value if isinstance(value, Audience) else Audience.from_json(value)
    except AudienceError as error:
        raise ValueError(str(error)) from None


AudienceField = Annotated[Audience, PlainValidator(_read_audience), PlainSerializer(Audience.to_json)]


def _read_dimension(value: object) -> Dimension:
    try:
        if isinstance(value, Dimension):
            return make_dimension(value.attribute, value.audiences)
        return Dimension.from_json(value)
    except AudienceError as error:
        raise ValueError(str(error)) from None


DimensionField = Annotated[Dimension, PlainValidator(_read_dimension), PlainSerializer(Dimension.to_json)]


def _validate_tasks(subject: str, tasks: tuple[TaskPolicy, ...], dimension: Dimension | None = None) -> None:
    """Refuse tasks of one comparison that are the same, or that do not have each device in one of them (I8)."""
    strata = [task.stratum for task in tasks]
    values = [] if dimension is None else [*range(len(dimension.names))]
    if strata != [*values, *(None for _ in tasks[len(values) :])]:
        msg = f"the tasks of {subject} begin with one for each value of its dimension, {values}, got {strata}"
        raise ValueError(msg)
    if any(task != in_stratum(tasks[0], value) for value, task in enumerate(tasks[: len(values)])):
        msg = f"the tasks of {subject} for the values of its dimension differ in nothing else"
        raise ValueError(msg)
    if len({task.task_id for task in tasks}) != len(tasks):
        msg = f"the tasks of {subject} are distinct, got {[task.task_id for task in tasks]}"
        raise ValueError(msg)
    total = sum(task.share_basis_points for task in tasks if not task.stratum)
    if total != limits.POLICY_BUCKETS:
        msg = f"the shares of the tasks of {subject} add up to {limits.POLICY_BUCKETS}, got {total}"
        raise ValueError(msg)


class VersionRef(Part):
    """One immutable version: its number and the digest of its manifest."""

    version: VersionText
    manifest_sha256: Digest


class RolloutPolicy(Part):
    """Moves a share of the devices to one version, and may hold back a control group of those that stay.

    Attributes:
        id: of the rollout.
        salt: of its buckets.
        version: where the treatment goes: buckets [0, share_basis_points).
        share_basis_points: treatment, in 1/10 000 of the devices.
        control_basis_points: control, in 1/10 000: buckets [10 000 - control_basis_points, 10 000) run the default.
        audience: who may be in either; None for everybody.
        tasks: what devices of both report, each device one of them; arm 0 is the control, arm 1 the treatment.  None
            where nothing is compared.
        own_arm: both versions are too large to have every device fetch both; downloads tell its arm.
        values: of parameters of the version, for the treatment.
    """

    id: Identifier
    salt: Identifier
    version: VersionRef
    share_basis_points: Annotated[BasisPoints, _SHARE]
    control_basis_points: Annotated[BasisPoints, _CONTROL] = 0
    audience: AudienceField | None = None
    tasks: Annotated[tuple[TaskPolicy, ...], Field(max_length=limits.TASKS_MAX)] = ()
    own_arm: bool = False
    values: Settings = ()

    @model_validator(mode="after")
    def _validate(self) -> Self:
        total = self.share_basis_points + self.control_basis_points
        if total > limits.POLICY_BUCKETS:
            msg = f"treatment and control of rollout {self.id} add up to {total}, at most {limits.POLICY_BUCKETS}"
            raise ValueError(msg)
        for task in self.tasks:
            if (task.experiment_id, task.arm_count) != (self.id, ROLLOUT_ARMS):
                msg = (
                    f"rollout {self.id} has a task of {ROLLOUT_ARMS} arms under its own id, got {task.arm_count} arms"
                    f" of {task.experiment_id}"
                )
                raise ValueError(msg)
            if not task.is_guardrail:
                msg = f"the task of rollout {self.id} is a guardrail's (is_guardrail), got an experiment's"
                raise ValueError(msg)
        if self.tasks:
            _validate_tasks(f"rollout {self.id}", self.tasks)
        return self


class Arm(Part):
    """One side of an experiment; `values` are of parameters of its version."""

    name: Identifier
    version: VersionRef
    share_basis_points: Annotated[BasisPoints, _SHARE]
    values: Settings = ()


class Segment(Part):
    """A part of a layer: the devices whose bucket of the layer's salt is in [first, first + count)."""

    layer: Identifier
    first: BasisPoints
    count: Annotated[int, Field(strict=True, ge=1, le=limits.POLICY_BUCKETS)]

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if self.first + self.count > limits.POLICY_BUCKETS:
            end = self.first + self.count
            msg = f"the segment of layer {self.layer} ends at {end}, at most {limits.POLICY_BUCKETS}"
            raise ValueError(msg)
        return self

    @property
    def buckets(self) -> range:
        """Buckets of the layer that it holds."""
        return range(self.first, self.first + self.count)


class ArmBuckets(Part):
    """Buckets [first, first + count) of an experiment's salt, and the arm that has them, by its index."""

    arm: Annotated[int, Field(strict=True, ge=0, lt=limits.ARMS_MAX)]
    first: BasisPoints
    count: Annotated[int, Field(strict=True, ge=1, le=limits.POLICY_BUCKETS)]

    @property
    def buckets(self) -> range:
        """The buckets."""
        return range(self.first, self.first + self.count)


class ExperimentPolicy(Part):
    """A comparison of versions.  Arm 0 is the control; `assignment.py` says who is in which arm.

    Attributes:
        id: of the experiment.
        salt: of its arms' buckets.
        arms: sides; shares are of the devices that audience and segment leave.
        tasks: what its devices report, each device one of them; none while its feature's values are overridden.
        audience: who may be in it; None for everybody.
        segment: which part of a layer it has; None for all devices, whatever layers they are in.
        own_arm: all arms together are too large to have every device fetch them; downloads tell its arm.
        buckets: of arms whose shares moved since the start (I10), so that only the devices that have to change their
            arm; None: the control at the top, the others one after another from 0.
        dimension: by which the reports of the first question are told apart; None: by nothing.
    """

    id: Identifier
    salt: Identifier
    arms: Annotated[tuple[Arm, ...], Field(min_length=2, max_length=limits.ARMS_MAX)]
    tasks: Annotated[tuple[TaskPolicy, ...], Field(max_length=limits.TASKS_MAX)]
    audience: AudienceField | None = None
    segment: Segment | None = None
    own_arm: bool = False
    # Not written where it is None, so that an experiment of fixed shares says nothing of it (decision 0055).
    buckets: Annotated[
        tuple[ArmBuckets, ...] | None, Field(max_length=limits.ARM_RANGES_MAX, exclude_if=lambda value: value is None)
    ] = None
    dimension: Annotated[DimensionField | None, Field(exclude_if=lambda value: value is None)] = None

    @model_validator(mode="after")
    def _validate(self) -> Self:
        names = [arm.name for arm in self.arms]
        if len(set(names)) != len(names):
            msg = f"arms of experiment {self.id} must have distinct names, got {names}"
            raise ValueError(msg)
        total = sum(arm.share_basis_points for arm in self.arms)
        if total > limits.POLICY_BUCKETS:
            msg = f"shares of experiment {self.id} add up to {total}, at most {limits.POLICY_BUCKETS}"
            raise ValueError(msg)
        for task in self.tasks:
            if task.arm_count != len(self.arms) or task.experiment_id != self.id:
                msg = (
                    f"experiment {self.id} with {len(self.arms)} arms has a task of {task.experiment_id}"
                    f" with {task.arm_count} arms"
                )
                raise ValueError(msg)
            if task.is_guardrail:
                msg = f"the task of experiment {self.id} may not use the reserve of guardrails (is_guardrail)"
                raise ValueError(msg)
        if self.tasks:
            _validate_tasks(f"experiment {self.id}", self.tasks, self.dimension)
        if self.buckets is not None:
            _validate_buckets(self.id, self.arms, self.buckets)
        return self

    @cached_property
    def ranges(self) -> tuple[ArmBuckets, ...]:
        """The buckets of every arm, rising: those that are listed, or those of the shares."""
        if self.buckets is not None:
            return self.buckets
        found, start = [], 0
        for index, arm in enumerate(self.arms[1:], start=1):
            if arm.share_basis_points:
                found.append(ArmBuckets(arm=index, first=start, count=arm.share_basis_points))
            start += arm.share_basis_points
        if control := self.arms[0].share_basis_points:
            found.append(ArmBuckets(arm=0, first=limits.POLICY_BUCKETS - control, count=control))
        return tuple(found)


def _validate_buckets(name: str, arms: tuple[Arm, ...], ranges: tuple[ArmBuckets, ...]) -> None:
    """Refuse ranges of buckets that overlap, could be written otherwise, or are not those of the shares (I10).

    Raises:
        ValueError: a range is so.
    """
    counts = [0] * len(arms)
    end, last = 0, -1
    for one in ranges:
        if one.arm >= len(arms):
            msg = f"experiment {name} has {len(arms)} arms, and buckets of arm {one.arm}"
            raise ValueError(msg)
        if one.first < end or (one.first == end and one.arm == last) or one.buckets.stop > limits.POLICY_BUCKETS:
            msg = (
                f"buckets of experiment {name} rise, are apart, below {limits.POLICY_BUCKETS}, and one range where two"
                f" of an arm would touch; got [{one.first}, {one.buckets.stop}) of arm {one.arm} after {end}"
            )
            raise ValueError(msg)
        counts[one.arm] += one.count
        end, last = one.buckets.stop, one.arm
    shares = [arm.share_basis_points for arm in arms]
    if counts != shares:
        msg = f"arms of experiment {name} have shares {shares}, and buckets {counts}"
        raise ValueError(msg)


class FeaturePolicy(Part):
    """The versions that devices run for one feature.

    Attributes:
        min_version: the minimum version; nothing below it may be named.
        default: who is in no experiment and no rollout runs this.
        rollout: moves devices to another version.
        experiments: those that run, by rising id.
        values: of parameters of the default.
    """

    min_version: VersionText
    default: VersionRef
    rollout: RolloutPolicy | None = None
    experiments: Annotated[tuple[ExperimentPolicy, ...], Field(max_length=limits.EXPERIMENTS_MAX)] = ()
    values: Settings = ()

    @model_validator(mode="after")
    def _validate(self) -> Self:
        ids = [experiment.id for experiment in self.experiments]
        if any(low >= high for low, high in itertools.pairwise(ids)):
            msg = f"experiments must stand by rising id, got {ids}"
            raise ValueError(msg)
        for first, second in itertools.combinations(self.experiments, 2):
            if _layer_of(first) != _layer_of(second) or _layer_of(first) is None:
                _validate_apart(first, second)
        min_version = version_key(self.min_version)
        for ref in self.versions():
            if version_key(ref.version) < min_version:
                msg = f"version {ref.version} is below min_version {self.min_version}"
                raise ValueError(msg)
        return self

    @cached_property
    def outside_layers(self) -> tuple[ExperimentPolicy, ...]:
        """Experiments that have all devices, whatever layers they are in."""
        return tuple(one for one in self.experiments if one.segment is None)

    @cached_property
    def segments(self) -> dict[str, tuple[tuple[int, ...], tuple[ExperimentPolicy, ...]]]:
        """First buckets and experiments of each layer, by rising bucket: where a device's own is found at once."""
        found: dict[str, list[tuple[int, ExperimentPolicy]]] = {}
        for one in self.experiments:
            if one.segment is not None:
                found.setdefault(one.segment.layer, []).append((one.segment.first, one))
        ordered = {layer: sorted(parts, key=lambda part: part[0]) for layer, parts in found.items()}
        return {layer: (tuple(f for f, _ in parts), tuple(e for _, e in parts)) for layer, parts in ordered.items()}

    def versions(self) -> tuple[VersionRef, ...]:
        """Return the versions that are named here: default, rollout, arms; without repeats."""
        refs = [self.default]
        if self.rollout is not None:
            refs.append(self.rollout.version)
        refs.extend(arm.version for experiment in self.experiments for arm in experiment.arms)
        return tuple(dict.fromkeys(refs))


def _layer_of(experiment: ExperimentPolicy) -> str | None:
    return None if experiment.segment is None else experiment.segment.layer


def _validate_apart(first: ExperimentPolicy, second: ExperimentPolicy) -> None:
    if overlaps(first.audience, second.audience):
        msg = f"experiments {first.id} and {second.id} share no layer, and a device can be in both"
        raise ValueError(msg)


class Readout(Part):
    """Measures what the versions shipped since its first day did: the holdout, which keeps the versions of that day.

    Attributes:
        id: of the read-out.
        feature: whose devices report; one of those of `kept`.
        kept: version of each feature that held-out devices keep.
        task: what devices of both groups report, instead of any other task: arm 0 is the holdout, arm 1 a mirror group
            of the same size.
        until_s: when it is over on every device, whatever the policy still says; seconds since 1970.
    """

    id: Identifier
    feature: FeatureName
    kept: Annotated[dict[FeatureName, VersionRef], Field(min_length=1, max_length=limits.FEATURES_MAX)]
    task: TaskPolicy
    until_s: Annotated[int, Field(strict=True, ge=1, le=limits.TIME_MAX_S)]

    @model_validator(mode="after")
    def _validate(self) -> Self:
        task = self.task
        if self.feature not in self.kept:
            msg = f"read-out {self.id} measures a feature that it keeps, {sorted(self.kept)}, got {self.feature}"
            raise ValueError(msg)
        if (task.experiment_id, task.arm_count) != (self.id, READOUT_ARMS):
            msg = (
                f"read-out {self.id} has a task of {READOUT_ARMS} arms under its own id, got {task.arm_count} arms"
                f" of {task.experiment_id}"
            )
            raise ValueError(msg)
        if task.is_guardrail:
            msg = f"the task of read-out {self.id} may not use the reserve of guardrails (is_guardrail)"
            raise ValueError(msg)
        _validate_tasks(f"read-out {self.id}", (task,))
        return self


class Holdout(Part):
    """Devices that take part in no experiment of the app: buckets [0, share_basis_points) of `salt`.

    Attributes:
        salt: of its buckets.
        share_basis_points: of the devices, in 1/10 000.
        readout: compares them with a mirror group, buckets [10 000 - share_basis_points, 10 000), which takes part in
            no experiment either as long as it runs; None: nothing is measured.
    """

    salt: Identifier
    share_basis_points: Annotated[int, Field(strict=True, ge=1, le=limits.POLICY_BUCKETS), _SHARE]
    readout: Readout | None = None

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if self.readout is not None and 2 * self.share_basis_points > limits.POLICY_BUCKETS:
            most = limits.POLICY_BUCKETS // 2
            msg = f"a holdout with a mirror group takes at most {most} of the devices, got {self.share_basis_points}"
            raise ValueError(msg)
        return self


class Policy(Document):
    """The signed policy of one app.

    Attributes:
        format: of the document.
        app: name of the app.
        serial: number of the document; only rises.
        features: rules by feature.
        layers: salt of each layer that an experiment has a segment of.
        holdout: who takes part in no experiment; None for nobody.
    """

    format: Literal[1] = 1
    app: AppName
    serial: Serial
    features: Annotated[dict[FeatureName, FeaturePolicy], Field(max_length=limits.FEATURES_MAX)]
    layers: Annotated[dict[Identifier, Identifier], Field(max_length=limits.LAYERS_MAX)] = {}  # noqa: RUF012 - frozen
    holdout: Holdout | None = None

    @model_validator(mode="after")
    def _validate(self) -> Self:
        experiments = [one for rules in self.features.values() for one in rules.experiments]
        segments: dict[str, list[tuple[int, int, str]]] = {}
        for one in experiments:
            if one.segment is not None:
                claim = (one.segment.first, one.segment.first + one.segment.count, one.id)
                segments.setdefault(one.segment.layer, []).append(claim)
        if segments.keys() != self.layers.keys():
            msg = f"layers with segments are {sorted(segments)}, the policy has {sorted(self.layers)}"
            raise ValueError(msg)
        for layer, claims in segments.items():
            for (_, end, one_id), (start, _, other_id) in itertools.pairwise(sorted(claims)):
                if start < end:
                    msg = f"experiments {one_id} and {other_id} claim the same buckets of layer {layer}"
                    raise ValueError(msg)
        self._validate_kept()
        return self

    def _validate_kept(self) -> None:
        """Refuse a read-out that keeps what no device of the app may run (I9)."""
        readout = None if self.holdout is None else self.holdout.readout
        for feature, ref in {} if readout is None else readout.kept.items():
            rules = self.features.get(feature)
            if rules is None:
                msg = f"the holdout keeps a version of {feature}, which the policy does not mention"
                raise ValueError(msg)
            if version_key(ref.version) < version_key(rules.min_version):
                msg = f"version {ref.version} that the holdout keeps is below min_version {rules.min_version}"
                raise ValueError(msg)

    def versions(self, feature: str) -> tuple[VersionRef, ...]:
        """Return every version of a feature of the policy that some device may run, without repeats."""
        readout = None if self.holdout is None else self.holdout.readout
        kept = None if readout is None else readout.kept.get(feature)
        found = self.features[feature].versions()
        return found if kept is None else tuple(dict.fromkeys((*found, kept)))


class HaltedVersion(Part):
    """A version that no device may run any more."""

    feature: FeatureName
    version: VersionRef


class Halt(Document):
    """The signed emergency stop of one app: it can only take away.

    Attributes:
        halted: versions withdrawn; a later document names all of them again.
        frozen: features whose devices stay on the version they run now.
    """

    format: Literal[1] = 1
    app: AppName
    serial: Annotated[int, Field(strict=True, ge=0, le=limits.SERIAL_MAX)]
    halted: Annotated[tuple[HaltedVersion, ...], Field(max_length=limits.HALTED_MAX)] = ()
    frozen: Annotated[tuple[FeatureName, ...], Field(max_length=limits.FEATURES_MAX)] = ()

    @property
    def digests(self) -> frozenset[str]:
        """Manifest digests of the halted versions, as `assignment.resolve` takes them."""
        return frozenset(item.version.manifest_sha256 for item in self.halted)

    def includes(self, earlier: Halt) -> bool:
        """Tell whether this document takes away at least what `earlier` did."""
        return set(earlier.halted) <= set(self.halted) and set(earlier.frozen) <= set(self.frozen)


def policy_to_bytes(policy: Policy) -> bytes:
    """Return the canonical bytes of `policy`."""
    return policy.to_bytes()


def policy_from_bytes(data: bytes) -> Policy:
    """Return the policy whose canonical bytes are `data`.

    Raises:
        DocumentTooLargeError: more than `limits.POLICY_MAX_BYTES`; nothing was parsed.
        DocumentError: not the canonical encoding of an acceptable policy.
    """
    return Policy.parse(data, kind="policy", max_bytes=limits.POLICY_MAX_BYTES)


def halt_to_bytes(halt: Halt) -> bytes:
    """Return the canonical bytes of `halt`."""
    return halt.to_bytes()


def halt_from_bytes(data: bytes) -> Halt:
    """Return the halt document whose canonical bytes are `data`.

    Raises:
        DocumentTooLargeError: more than `limits.HALT_MAX_BYTES`; nothing was parsed.
        DocumentError: not the canonical encoding of an acceptable halt.
    """
    return Halt.parse(data, kind="halt", max_bytes=limits.HALT_MAX_BYTES)
