"""Overrides values of a feature on every device of an app, as an operator asks, and ends that."""

from dataclasses import dataclass, replace

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field, validate_reason
from alcove.platform.domain.parameter_values import GivenValues
from alcove.platform.domain.records import RolloutState
from alcove.platform.domain.snapshots import override as actions
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.domain.value_overrides import ValueOverride, read_override, unreached_versions
from alcove.platform.services.loading import load_overridden
from alcove.platform.services.saving import save_app
from alcove.platform.store.manifests import declared_parameters
from alcove.platform.store.publications import last_publication
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.value_overrides import standing_overrides
from alcove.registry.canonical import AppName, FeatureName
from alcove.registry.policy import policy_from_bytes
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["OverrideStatus", "clear_override", "list_overrides", "override_values"]


@dataclass(frozen=True)
class OverrideStatus:
    """An override, and what it meets.

    Attributes:
        override: the values, who set them, and why.
        policy_serial: of the newest policy of the app.
        unreached: versions of that policy that do not take all of the values.
        paused: rollouts of the feature that are paused, by id.
        silent: running experiments of the feature, by id.
    """

    override: ValueOverride
    policy_serial: int
    unreached: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


async def override_values(
    uow: UnitOfWork, *, app: str, feature: str, values: GivenValues, reason: str
) -> OverrideStatus:
    """Give parameters of a feature values on every device of an app, whatever rollout or experiment has it.

    Raises:
        InvalidFieldError: a name is malformed, the reason is empty or too long, or a value is none that a version in
            the app's policy allows.
        ResourceNotFoundError: the app's policy does not name the feature.
    """
    reason = validate_reason("reason", reason)
    before = await _load(uow, app, feature)
    if feature not in before.defaults:
        raise ResourceNotFoundError("feature in the policy of its app", f"{app}/{feature}")
    found = read_override(f"feature {feature} in app {app}", before.parameters.values(), values)
    override = ValueOverride(app, feature, found, reason, uow.principal, uow.now_s)
    after = await save_app(uow, before, actions.override_values(before, override))
    was = {one.rollout_id for one in before.live_rollouts if one.state is RolloutState.PAUSED}
    status = await _status(uow.session, after, after.overrides[feature])
    return replace(status, paused=tuple(name for name in status.paused if name not in was))


async def clear_override(uow: UnitOfWork, *, app: str, feature: str, reason: str) -> OverrideStatus:
    """End an override: devices have the values of their rollout, arm or default again.

    Raises:
        InvalidFieldError: a name is malformed, or the reason is empty or too long.
        ResourceNotFoundError: there is none.
    """
    reason = validate_reason("reason", reason)
    before = await _load(uow, app, feature)
    after = await save_app(uow, before, actions.clear_override(before, feature, reason=reason))
    return await _status(uow.session, after, before.overrides[feature])


async def list_overrides(session: AsyncSession, app: str) -> list[OverrideStatus]:
    """Return the overrides that stand in an app, or in all where none is named, by app and feature.

    Raises:
        InvalidFieldError: the app's name is malformed.
    """
    found = []
    for override in await standing_overrides(session, validate_field("app", AppName, app) if app else ""):
        last = await last_publication(session, "policy", override.app)
        policy = None if last is None else last.document
        found.append(await _meet(session, override, policy))
    return found


async def _load(uow: UnitOfWork, app: str, feature: str) -> AppSnapshot:
    name = validate_field("app", AppName, app)
    return await load_overridden(uow, name, validate_field("feature", FeatureName, feature))


async def _status(session: AsyncSession, app: AppSnapshot, override: ValueOverride) -> OverrideStatus:
    document = app.policy or app.last_policy
    status = await _meet(session, override, None if document is None else document.content)
    rollouts = [one for one in app.live_rollouts if one.feature == override.feature]
    return replace(
        status,
        paused=tuple(one.rollout_id for one in rollouts if one.state is RolloutState.PAUSED),
        silent=tuple(one.experiment_id for one in app.running_experiments if one.feature == override.feature),
    )


async def _meet(session: AsyncSession, override: ValueOverride, document: bytes | None) -> OverrideStatus:
    """Return an override beside the newest policy of its app."""
    if document is None:
        return OverrideStatus(override, 0)
    policy = policy_from_bytes(document)
    rules = policy.features.get(override.feature)
    if rules is None:
        return OverrideStatus(override, policy.serial)
    declared = await declared_parameters(session, {ref.manifest_sha256 for ref in rules.versions()})
    return OverrideStatus(override, policy.serial, tuple(unreached_versions(override, rules, declared)))
