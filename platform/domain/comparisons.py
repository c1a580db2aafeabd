"""Describes rollouts, experiments and read-outs as an app's policy carries them.  Pure."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.audience import parse_optional_audience
from alcove.platform.domain.experiments.questions import dimension_of
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.readout_records import ReadoutRecord
from alcove.platform.domain.readouts.task import task_of as readout_task
from alcove.platform.domain.records import ExperimentRecord, RolloutRecord
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.registry.min_versions import is_below
from alcove.registry.policy import (
    Arm,
    ArmBuckets,
    ExperimentPolicy,
    FeaturePolicy,
    Readout,
    RolloutPolicy,
    Segment,
    VersionRef,
)

__all__ = ["experiment_policy", "kept_versions", "readout_policy", "rollout_policy"]

ALL_ARMS_BYTES: Final = 8_000_000  # bytes of all arms together that every device fetches, so that none shows its own
NO_SIZES: Final[Mapping[str, int]] = MappingProxyType({})


def _is_own_arm(refs: Iterable[VersionRef], sizes: Mapping[str, int]) -> bool:
    """Tell whether the versions of all arms are together too much for every device to fetch."""
    return sum(sizes.get(digest, 0) for digest in {ref.manifest_sha256 for ref in refs}) > ALL_ARMS_BYTES


def rollout_policy(
    record: RolloutRecord, default: VersionRef, sizes: Mapping[str, int], *, is_silent: bool = False
) -> RolloutPolicy:
    """Return what the policy says of a rollout that is on devices; `is_silent`: it asks for no reports."""
    version = VersionRef(version=record.version, manifest_sha256=record.manifest_sha256)
    return RolloutPolicy(
        id=record.rollout_id,
        salt=record.salt,
        version=version,
        share_basis_points=record.share_basis_points,
        control_basis_points=record.control_basis_points,
        audience=parse_optional_audience(record.audience),
        tasks=() if is_silent else stage_tasks(record),
        own_arm=record.control_basis_points > 0 and _is_own_arm((default, version), sizes),
        values=record.values,
    )


def experiment_policy(
    record: ExperimentRecord, sizes: Mapping[str, int] = NO_SIZES, *, is_silent: bool = False
) -> ExperimentPolicy:
    """Return what the policy says of an experiment that has started; `is_silent`: it asks for no reports.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    segment = record.segment
    arms = tuple(
        Arm(
            name=arm.name,
            version=VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256),
            share_basis_points=arm.share_basis_points,
            values=arm.values,
        )
        for arm in record.arms
    )
    allocation = record.allocation
    buckets = tuple(ArmBuckets(arm=each.arm, first=each.first, count=each.count) for each in allocation.ranges)
    return ExperimentPolicy(
        id=record.experiment_id,
        salt=record.salt,
        arms=arms,
        tasks=() if is_silent else tasks_of(record),
        audience=parse_optional_audience(record.audience),
        segment=None if segment is None else Segment(layer=segment.layer, first=segment.first, count=segment.count),
        own_arm=_is_own_arm((arm.version for arm in arms), sizes),
        buckets=buckets if len(allocation.changes) > 1 else None,
        dimension=dimension_of(record.plan),
    )


def kept_versions(
    record: ReadoutRecord, min_versions: Mapping[str, str], halted: frozenset[str]
) -> dict[str, VersionRef]:
    """Return what held-out devices may still keep, by feature: neither halted nor below its team's minimum version."""
    return {
        kept.feature: VersionRef(version=kept.version, manifest_sha256=kept.manifest_sha256)
        for kept in record.kept
        if kept.manifest_sha256 not in halted and not is_below(kept.version, min_versions.get(kept.feature))
    }


def readout_policy(
    record: ReadoutRecord,
    features: Mapping[str, FeaturePolicy],
    min_versions: Mapping[str, str],
    halted: frozenset[str],
    overridden: Collection[str] = (),
) -> Readout | None:
    """Return what the policy says of a read-out that runs; None where the measured version may not be kept any more.

    No version is kept of the features whose values are overridden: its devices have what everybody has.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    open_features = features.keys() - set(overridden)
    kept = {name: ref for name, ref in kept_versions(record, min_versions, halted).items() if name in open_features}
    if record.feature not in kept:
        return None
    return Readout(
        id=record.readout_id, feature=record.feature, kept=kept, task=readout_task(record), until_s=record.until_s
    )
