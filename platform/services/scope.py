"""Limits an operator of one team to the features that the team owns.

The feature is found by the names that requests have for it, so a new mutation needs no line here, and one that names no
feature at all (an app's holdout) is refused to a caller with one team's scope.
"""

from collections.abc import Callable
from typing import Any, Final

from alcove.platform.domain.errors import PermissionDeniedError
from alcove.platform.domain.principal import Principal
from alcove.platform.store.experiments import get_experiment
from alcove.platform.store.rollouts import get_rollout
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["validate_scope"]

_CHECKS_OWNER: Final = frozenset({"ApproveAliasRequest", "RevokeVersionRequest"})  # by `require_owner`, in their calls


async def validate_scope(
    session: AsyncSession, principal: Principal, request: Any, team_of: Callable[[str], str | None]
) -> None:
    """Let an operator of one team do what the request asks, or not; everybody else passes.

    Args:
        session: of the mutation.
        principal: who asks.
        request: of a mutation.
        team_of: returns the team that owns a feature, None where nobody does.

    Raises:
        ResourceNotFoundError: there is no such rollout or experiment.
        PermissionDeniedError: it is another team's, or everybody's.
    """
    role = principal.role
    name = request.DESCRIPTOR.name
    if role.name != "operator" or role.team is None or name in _CHECKS_OWNER:
        return
    fields = request.DESCRIPTOR.fields_by_name
    feature = None
    if "rollout_id" in fields:
        feature = (await get_rollout(session, request.rollout_id)).feature
    elif "experiment_id" in fields:
        feature = (await get_experiment(session, request.experiment_id)).feature
    elif "feature" in fields:
        feature = request.feature
    if feature is None:
        raise PermissionDeniedError(str(role), f"do what concerns more than team {role.team!r}")
    if team_of(feature) != role.team:
        raise PermissionDeniedError(str(role), f"operate feature {feature!r}, which is not of team {role.team!r}")
