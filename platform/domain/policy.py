"""Compiles rows to an app's policy.  Pure: the same rows give the same bytes, in whatever order they come."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from alcove.platform.domain.comparisons import NO_SIZES, experiment_policy, readout_policy, rollout_policy
from alcove.platform.domain.field_validation import fields_named
from alcove.platform.domain.readout_records import ReadoutRecord
from alcove.platform.domain.records import Default, ExperimentRecord, HoldoutRecord, LayerRecord, RolloutRecord
from alcove.platform.domain.value_overrides import DeclaredParameters, ValueOverride, overlay_values
from alcove.registry.min_versions import is_below
from alcove.registry.parameters import Setting
from alcove.registry.policy import FeaturePolicy, Holdout, Policy, VersionRef

__all__ = ["compile_policy"]

NO_PARAMETERS: Final[DeclaredParameters] = MappingProxyType({})
NO_FLOOR = "0.0.0"  # of a feature whose team has set none: no version is below it


class _Valued(Protocol):
    """A default, a rollout or an arm."""

    @property
    def manifest_sha256(self) -> str: ...

    @property
    def values(self) -> tuple[Setting, ...]: ...


def compile_policy(
    app: str,
    serial: int,
    *,
    defaults: Iterable[Default],
    rollouts: Iterable[RolloutRecord],
    experiments: Iterable[ExperimentRecord],
    min_versions: Mapping[str, str],
    layers: Iterable[LayerRecord] = (),
    holdout: HoldoutRecord | None = None,
    readout: ReadoutRecord | None = None,
    halted: frozenset[str] = frozenset(),
    sizes: Mapping[str, int] = NO_SIZES,
    overrides: Iterable[ValueOverride] = (),
    parameters: DeclaredParameters = NO_PARAMETERS,
) -> Policy:
    """Return the policy of an app, without anything that is below the minimum version of its team.

    Args:
        app: name of the app.
        serial: number of this policy, >= 1.
        defaults: default versions of the app; a feature without one is not in the policy.
        rollouts: the app's rollouts that are on devices, at most one per feature.
        experiments: the app's running experiments.
        min_versions: lowest version of each feature that its team still lets run; absent: any.
        layers: the app's layers; those that no experiment uses are left out.
        holdout: who takes part in no experiment.
        readout: the one that runs; None: none does.
        halted: manifest digests that the app's halt names; held-out devices keep none of them.
        sizes: bytes of the largest program of each version, by manifest digest; absent: small.
        overrides: values that stand over those of the rows, at most one per feature (`value_overrides.py`).
        parameters: of the versions of overridden features, by manifest digest; absent: it declares none.

    Raises:
        InvalidFieldError: the rows make no acceptable policy (too many features, overlapping claims).
    """
    moving = {rollout.feature: rollout for rollout in rollouts}
    standing = {override.feature: override for override in overrides}
    compared: dict[str, list[ExperimentRecord]] = {}
    for experiment in sorted(experiments, key=lambda row: row.experiment_id):
        compared.setdefault(experiment.feature, []).append(experiment)
    kept = [default for default in defaults if not is_below(default.version, min_versions.get(default.feature))]
    with fields_named("policy"):
        features = {
            default.feature: _feature(
                default,
                moving.get(default.feature),
                compared.get(default.feature, []),
                min_version=min_versions.get(default.feature, NO_FLOOR),
                sizes=sizes,
                override=standing.get(default.feature),
                parameters=parameters,
            )
            for default in sorted(kept, key=lambda row: row.feature)
        }
        used = {one.segment.layer for rules in features.values() for one in rules.experiments if one.segment}
        held = None
        if holdout is not None and holdout.share_basis_points > 0:
            measured = None if readout is None else readout_policy(readout, features, min_versions, halted, standing)
            held = Holdout(salt=holdout.salt, share_basis_points=holdout.share_basis_points, readout=measured)
        return Policy(
            app=app,
            serial=serial,
            features=features,
            layers={layer.name: layer.salt for layer in layers if layer.name in used},
            holdout=held,
        )


def _feature(
    default: Default,
    rollout: RolloutRecord | None,
    experiments: Sequence[ExperimentRecord],
    *,
    min_version: str,
    sizes: Mapping[str, int],
    override: ValueOverride | None,
    parameters: DeclaredParameters,
) -> FeaturePolicy:
    def values_of(part: _Valued) -> tuple[Setting, ...]:
        return overlay_values(part.values, override, parameters.get(part.manifest_sha256, ()))

    is_silent = override is not None
    if rollout is not None and is_below(rollout.version, min_version):
        rollout = None
    # A comparison with one side missing has no answer.
    whole = [one for one in experiments if not any(is_below(arm.version, min_version) for arm in one.arms)]
    whole = [replace(one, arms=tuple(replace(arm, values=values_of(arm)) for arm in one.arms)) for one in whole]
    compared = tuple(experiment_policy(one, sizes, is_silent=is_silent) for one in whole)
    ref = VersionRef(version=default.version, manifest_sha256=default.manifest_sha256)
    return FeaturePolicy(
        min_version=min_version,
        default=ref,
        rollout=None
        if rollout is None
        else rollout_policy(replace(rollout, values=values_of(rollout)), ref, sizes, is_silent=is_silent),
        experiments=compared,
        values=values_of(default),
    )
