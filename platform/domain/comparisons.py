"""Describes rollouts and experiments as an app's policy carries them.  Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.audience import parse_optional_audience
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.records import ExperimentRecord, RolloutRecord
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.registry.policy import Arm, ExperimentPolicy, RolloutPolicy, Segment, VersionRef

__all__ = ["experiment_policy", "rollout_policy"]

ALL_ARMS_BYTES: Final = 8_000_000  # bytes of all arms together that every device fetches, so that none shows its own
NO_SIZES: Final[Mapping[str, int]] = MappingProxyType({})


def _is_own_arm(refs: Iterable[VersionRef], sizes: Mapping[str, int]) -> bool:
    """Tell whether the versions of all arms are together too much for every device to fetch."""
    return sum(sizes.get(digest, 0) for digest in {ref.manifest_sha256 for ref in refs}) > ALL_ARMS_BYTES


def rollout_policy(record: RolloutRecord, default: VersionRef, sizes: Mapping[str, int]) -> RolloutPolicy:
    """Return what the policy says of a rollout that is on devices."""
    version = VersionRef(version=record.version, manifest_sha256=record.manifest_sha256)
    return RolloutPolicy(
        id=record.rollout_id,
        salt=record.salt,
        version=version,
        share_basis_points=record.share_basis_points,
        control_basis_points=record.control_basis_points,
        audience=parse_optional_audience(record.audience),
        tasks=stage_tasks(record),
        own_arm=record.control_basis_points > 0 and _is_own_arm((default, version), sizes),
    )


def experiment_policy(record: ExperimentRecord, sizes: Mapping[str, int] = NO_SIZES) -> ExperimentPolicy:
    """Return what the policy says of an experiment that has started.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    segment = record.segment
    arms = tuple(
        Arm(
            name=arm.name,
            version=VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256),
            share_basis_points=arm.share_basis_points,
        )
        for arm in record.arms
    )
    return ExperimentPolicy(
        id=record.experiment_id,
        salt=record.salt,
        arms=arms,
        tasks=tasks_of(record),
        audience=parse_optional_audience(record.audience),
        segment=None if segment is None else Segment(layer=segment.layer, first=segment.first, count=segment.count),
        own_arm=_is_own_arm((arm.version for arm in arms), sizes),
    )
