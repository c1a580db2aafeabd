"""Derives the state of an app after values of a feature were overridden, or their override ended.  Pure."""

from dataclasses import replace

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.parameter_values import plain_values
from alcove.platform.domain.records import RolloutState
from alcove.platform.domain.rollouts.machine import Action
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.domain.snapshots.rollout import move
from alcove.platform.domain.value_overrides import ValueOverride

__all__ = ["clear_override", "override_values"]


def override_values(app: AppSnapshot, override: ValueOverride) -> AppSnapshot:
    """Return the app with values that stand over all others of their feature, and its running rollouts paused."""
    feature = override.feature
    before = app.overrides.get(feature)
    app = app.with_override(override)
    running = [one for one in app.live_rollouts if one.feature == feature and one.state is RolloutState.RUNNING]
    for rollout in running:
        reason = f"values overridden: {override.reason}"
        app = move(app, rollout, Action.PAUSE, now_s=override.set_at_s, reason=reason)
    app = app.decide_policy()
    app = app.with_override(replace(override, first_serial=app.policy_serial))
    return app.with_entry(
        "override values",
        f"{override.app}/{feature}",
        app=override.app,
        feature=feature,
        values=plain_values(override.values),
        before=None if before is None else plain_values(before.values),
        reason=override.reason,
        paused=[rollout.rollout_id for rollout in running],
        policy_serial=app.policy_serial,
    )


def clear_override(app: AppSnapshot, feature: str, *, reason: str) -> AppSnapshot:
    """Return the app with the values of its rollouts, arms and default again; rollouts stay paused.

    Raises:
        ResourceNotFoundError: no override of the feature stands.
    """
    override = app.overrides.get(feature)
    if override is None:
        raise ResourceNotFoundError("override of feature", f"{app.app}/{feature}")
    app = app.without_override(feature).decide_policy()
    return app.with_entry(
        "clear override",
        f"{app.app}/{feature}",
        app=app.app,
        feature=feature,
        before=plain_values(override.values),
        reason=reason,
        policy_serial=app.policy_serial,
    )
