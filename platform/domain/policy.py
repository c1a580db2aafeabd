"""Compiles rows to an app's policy.  Pure: the same rows give the same bytes, in whatever order they come."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.audience import parse_optional_audience
from alcove.platform.domain.checks import fields_named
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import Default, ExperimentRecord, HoldoutRecord, LayerRecord, RolloutRecord
from alcove.platform.domain.rollouts.task import stage_task
from alcove.registry.min_versions import is_below
from alcove.registry.policy import (
    Arm,
    ExperimentPolicy,
    FeaturePolicy,
    Holdout,
    Policy,
    RolloutPolicy,
    Segment,
    VersionRef,
)

__all__ = ["compile_policy", "experiment_policy"]

ALL_ARMS_BYTES: Final = 8_000_000  # bytes of all arms together that every device fetches, so that none shows its own
NO_SIZES: Final[Mapping[str, int]] = MappingProxyType({})
NO_FLOOR = "0.0.0"  # of a feature whose team has set none: no version is below it


def compile_policy(
    app: str,
    serial: int,
    *,
    defaults: Iterable[Default],
    rollouts: Iterable[RolloutRecord],
    experiments: Iterable[ExperimentRecord],
    floors: Mapping[str, str],
    layers: Iterable[LayerRecord] = (),
    holdout: HoldoutRecord | None = None,
    sizes: Mapping[str, int] = NO_SIZES,
) -> Policy:
    """Return the policy of an app, without anything that is below the floor of its team.

    Args:
        app: name of the app.
        serial: number of this policy, >= 1.
        defaults: default versions of the app; a feature without one is not in the policy.
        rollouts: the app's rollouts that are on devices, at most one per feature.
        experiments: the app's running experiments.
        floors: lowest version of each feature that its team still lets run; absent: any.
        layers: the app's layers; those that no experiment uses are left out.
        holdout: who takes part in no experiment.
        sizes: bytes of the largest program of each version, by manifest digest; absent: small.

    Raises:
        InvalidFieldError: the rows make no acceptable policy (too many features, overlapping claims).
    """
    moving = {rollout.feature: rollout for rollout in rollouts}
    compared: dict[str, list[ExperimentRecord]] = {}
    for experiment in sorted(experiments, key=lambda row: row.experiment_id):
        compared.setdefault(experiment.feature, []).append(experiment)
    kept = [default for default in defaults if not is_below(default.version, floors.get(default.feature))]
    with fields_named("policy"):
        features = {
            default.feature: _feature(
                default,
                moving.get(default.feature),
                compared.get(default.feature, []),
                floors.get(default.feature, NO_FLOOR),
                sizes,
            )
            for default in sorted(kept, key=lambda row: row.feature)
        }
        used = {one.segment.layer for rules in features.values() for one in rules.experiments if one.segment}
        return Policy(
            app=app,
            serial=serial,
            features=features,
            layers={layer.name: layer.salt for layer in layers if layer.name in used},
            holdout=None
            if holdout is None or holdout.share_permyriad == 0
            else Holdout(salt=holdout.salt, share_permyriad=holdout.share_permyriad),
        )


def _feature(
    default: Default,
    rollout: RolloutRecord | None,
    experiments: Sequence[ExperimentRecord],
    floor: str,
    sizes: Mapping[str, int],
) -> FeaturePolicy:
    if rollout is not None and is_below(rollout.version, floor):
        rollout = None
    # A comparison with one side missing has no answer.
    whole = [one for one in experiments if not any(is_below(arm.version, floor) for arm in one.arms)]
    compared = tuple(experiment_policy(one, sizes) for one in whole)
    ref = VersionRef(version=default.version, manifest_sha256=default.manifest_sha256)
    return FeaturePolicy(
        min_version=floor,
        default=ref,
        rollout=None if rollout is None else _rollout(rollout, ref, sizes),
        experiments=compared,
    )


def _is_own_arm(refs: Iterable[VersionRef], sizes: Mapping[str, int]) -> bool:
    """Tell whether the versions of all arms are together too much for every device to fetch."""
    return sum(sizes.get(digest, 0) for digest in {ref.manifest_sha256 for ref in refs}) > ALL_ARMS_BYTES


def _rollout(record: RolloutRecord, default: VersionRef, sizes: Mapping[str, int]) -> RolloutPolicy:
    version = VersionRef(version=record.version, manifest_sha256=record.manifest_sha256)
    return RolloutPolicy(
        id=record.rollout_id,
        salt=record.salt,
        version=version,
        share_permyriad=record.share_permyriad,
        control_permyriad=record.control_permyriad,
        audience=parse_optional_audience(record.audience),
        task=stage_task(record),
        own_arm=record.control_permyriad > 0 and _is_own_arm((default, version), sizes),
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
            share_permyriad=arm.share_permyriad,
        )
        for arm in record.arms
    )
    return ExperimentPolicy(
        id=record.experiment_id,
        salt=record.salt,
        arms=arms,
        task=task_of(record),
        audience=parse_optional_audience(record.audience),
        segment=None if segment is None else Segment(layer=segment.layer, first=segment.first, count=segment.count),
        own_arm=_is_own_arm((arm.version for arm in arms), sizes),
    )
