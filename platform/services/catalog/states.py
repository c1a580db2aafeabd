"""Releases and deprecates versions; each change of state is added to the version's history and to the audit log."""

from alcove.platform.domain.catalog.lifecycle import Action, transition
from alcove.platform.domain.catalog_records import StateMove
from alcove.platform.domain.field_validation import validate_reason
from alcove.platform.domain.records import VersionRecord
from alcove.platform.store.catalog import add_state_move
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import get_version, save_state

__all__ = ["deprecate", "move", "release"]


async def release(uow: UnitOfWork, feature: str, version: str, *, reason: str) -> VersionRecord:
    """Say that a validated or deprecated version may be used.

    Raises:
        ResourceNotFoundError: it was never published.
        InvalidFieldError: the reason is empty or too long.
        IllegalTransitionError: it is neither validated nor deprecated.
    """
    return await move(uow, await get_version(uow.session, feature, version), Action.RELEASE, reason)


async def deprecate(uow: UnitOfWork, feature: str, version: str, *, reason: str) -> VersionRecord:
    """Say that a released version should not be chosen any more; no device notices.

    Raises:
        ResourceNotFoundError: it was never published.
        InvalidFieldError: the reason is empty or too long.
        IllegalTransitionError: it is not released.
    """
    return await move(uow, await get_version(uow.session, feature, version), Action.DEPRECATE, reason)


async def move(uow: UnitOfWork, before: VersionRecord, action: Action, reason: str, **details: object) -> VersionRecord:
    """Take a version along an arrow, write the step and audit it; `details` go into the audit log."""
    reason = validate_reason("reason", reason)
    after = transition(before, action)
    step = StateMove(before.state, after.state, uow.principal, uow.now_s, reason)
    await add_state_move(uow.session, before, step)
    subject = f"{after.feature} {after.version}"
    await uow.audit(f"{action} version", subject, before=before.state, after=after.state, reason=reason, **details)
    await save_state(uow.session, after)
    return after
