"""Which policy do these rows mean?  Pure: the same rows give the same bytes, in whatever order they come."""

from collections.abc import Iterable, Mapping

from alcove.platform.core.checks import fields_named
from alcove.platform.core.records import Default, ExperimentRecord, RolloutRecord
from alcove.platform.experiments.task import task_of
from alcove.registry.floors import is_below
from alcove.registry.policy import Arm, ExperimentPolicy, FeaturePolicy, Policy, RolloutPolicy, VersionRef

__all__ = ["compile_policy", "experiment_policy"]

NO_FLOOR = "0.0.0"  # of a feature whose team has set none: no version is below it


def compile_policy(
    app: str,
    serial: int,
    *,
    defaults: Iterable[Default],
    rollouts: Iterable[RolloutRecord],
    experiments: Iterable[ExperimentRecord],
    floors: Mapping[str, str],
) -> Policy:
    """Return the policy of an app, without anything that is below the floor of its team.

    Args:
        app: name of the app.
        serial: number of this policy, >= 1.
        defaults: default versions of the app; a feature without one is not in the policy.
        rollouts: the app's rollouts that are on devices, at most one per feature.
        experiments: the app's running experiments, at most one per feature.
        floors: lowest version of each feature that its team still lets run; absent: any.

    Raises:
        InvalidFieldError: the rows make no acceptable policy (too many features).
    """
    moving = {rollout.feature: rollout for rollout in rollouts}
    compared = {experiment.feature: experiment for experiment in experiments}
    with fields_named("policy"):
        return Policy(
            app=app,
            serial=serial,
            features={
                default.feature: _feature(
                    default,
                    moving.get(default.feature),
                    compared.get(default.feature),
                    floors.get(default.feature, NO_FLOOR),
                )
                for default in sorted(defaults, key=lambda row: row.feature)
                if not is_below(default.version, floors.get(default.feature))
            },
        )


def _feature(
    default: Default, rollout: RolloutRecord | None, experiment: ExperimentRecord | None, floor: str
) -> FeaturePolicy:
    if rollout is not None and is_below(rollout.version, floor):
        rollout = None
    if experiment is not None and any(is_below(arm.version, floor) for arm in experiment.arms):
        experiment = None  # a comparison with one side missing has no answer
    return FeaturePolicy(
        min_version=floor,
        default=VersionRef(version=default.version, manifest_sha256=default.manifest_sha256),
        rollout=None if rollout is None else _rollout(rollout),
        experiment=None if experiment is None else experiment_policy(experiment),
    )


def _rollout(record: RolloutRecord) -> RolloutPolicy:
    return RolloutPolicy(
        id=record.rollout_id,
        salt=record.salt,
        version=VersionRef(version=record.version, manifest_sha256=record.manifest_sha256),
        share_permyriad=record.share_permyriad,
    )


def experiment_policy(record: ExperimentRecord) -> ExperimentPolicy:
    """Return what the policy says of an experiment that has started.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    return ExperimentPolicy(
        id=record.experiment_id,
        salt=record.salt,
        arms=tuple(
            Arm(
                name=arm.name,
                version=VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256),
                share_permyriad=arm.share_permyriad,
            )
            for arm in record.arms
        ),
        task=task_of(record),
    )
