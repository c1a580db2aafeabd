"""Moves the aliases of versions, at once or after a second person's approval.

                        the feature asks for no approval
    asked ──────────────────────────────────────────────────▶ moved
      │ it does                                                 ▲
      ▼                  somebody else approves                 │
    proposed ───────────────────────────────────────────────────┘
      │ the alias moved otherwise meanwhile
      ▼
    stale (cannot be approved any more)

A1  Moves are only added: who, when, why and, where asked for, who approved; the last one is where the alias points.
A2  A proposal names the last move that its proposer saw.  It can be approved while that is still the last one, so each
    at most once, and never over a move that its proposer had not seen.
A3  Nobody approves what they proposed.  A person is a token here: give each person one.
A4  No alias is pointed to a revoked version.  One that points to a version when that is revoked stays, and shows it.
A5  Nor to one that is not released, unless the feature's rules accept any state: an alias is what a rollout is given.
"""

import secrets

from alcove.platform.domain import limits
from alcove.platform.domain.catalog.names import AliasName
from alcove.platform.domain.catalog_records import AliasMove, AliasProposal
from alcove.platform.domain.errors import (
    InvalidFieldError,
    NotReleasedError,
    OwnApprovalError,
    ResourceNotFoundError,
    StaleProposalError,
    VersionRevokedError,
)
from alcove.platform.domain.field_validation import validate_field, validate_reason
from alcove.platform.domain.records import VersionState
from alcove.platform.store.catalog import (
    add_alias_move,
    add_proposal,
    aliases_of_feature,
    find_alias,
    get_proposal,
    last_alias_move,
    rules_of,
)
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import get_version
from alcove.registry.canonical import Identifier
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["approve", "move_alias", "resolve"]


async def move_alias(
    uow: UnitOfWork, *, feature: str, alias: str, version: str | None, reason: str
) -> AliasMove | AliasProposal:
    """Point an alias to a version, or take it away with `version` None; or propose that, as the feature's rules say.

    Pointing it to where it points already changes nothing and returns the last move.

    Raises:
        InvalidFieldError: the alias or the reason is malformed, or the feature has its aliases already.
        ResourceNotFoundError: there is no such version, or no such alias to take away.
        VersionRevokedError: A4.
        NotReleasedError: A5.
    """
    alias = validate_field("alias", AliasName, alias)
    reason = validate_reason("reason", reason)
    last = await last_alias_move(uow.session, feature, alias)
    current = None if last is None else last.to_version
    if version is not None:
        await _validate_target(uow, feature, version)
    if current is None and version is None:
        raise ResourceNotFoundError("alias", f"{feature}@{alias}")
    if current is None:
        await _validate_room(uow, feature)
    if last is not None and current == version:
        return last
    if (await rules_of(uow.session, feature)).must_approve_aliases:
        proposal = AliasProposal(
            proposal_id=f"ap-{secrets.token_hex(6)}",
            feature=feature,
            alias=alias,
            base_sequence=0 if last is None else last.sequence,
            from_version=current,
            to_version=version,
            proposed_by=uow.principal,
            proposed_at_s=uow.now_s,
            reason=reason,
        )
        await add_proposal(uow.session, proposal)
        await uow.audit(
            "propose alias", f"{feature}@{alias}", proposal_id=proposal.proposal_id, before=current, after=version,
            reason=reason,
        )  # fmt: skip
        return proposal
    return await _move(uow, feature, alias, current, version, by=uow.principal, reason=reason, approved_by=None)


async def approve(uow: UnitOfWork, proposal_id: str) -> AliasMove:
    """Make a proposed move, as somebody else than its proposer.

    Raises:
        InvalidFieldError: the id is malformed.
        ResourceNotFoundError: there is no such proposal.
        OwnApprovalError: A3.
        StaleProposalError: A2.
        VersionRevokedError: A4.
        NotReleasedError: A5.
    """
    proposal = await get_proposal(uow.session, validate_field("proposal_id", Identifier, proposal_id))
    name = f"{proposal.feature}@{proposal.alias}"
    if proposal.proposed_by == uow.principal:
        raise OwnApprovalError(f"moving {name}", uow.principal)
    last = await last_alias_move(uow.session, proposal.feature, proposal.alias)
    if (0 if last is None else last.sequence) != proposal.base_sequence:
        raise StaleProposalError(proposal_id, name)
    if proposal.to_version is not None:
        await _validate_target(uow, proposal.feature, proposal.to_version)
    if proposal.from_version is None:
        await _validate_room(uow, proposal.feature)
    return await _move(
        uow,
        proposal.feature,
        proposal.alias,
        proposal.from_version,
        proposal.to_version,
        by=proposal.proposed_by,
        reason=proposal.reason,
        approved_by=uow.principal,
    )


async def resolve(session: AsyncSession, feature: str, alias: str) -> str:
    """Return the version that an alias points to.

    Raises:
        InvalidFieldError: the alias is malformed.
        ResourceNotFoundError: there is no such alias.
    """
    version = await find_alias(session, feature, validate_field("alias", AliasName, alias))
    if version is None:
        raise ResourceNotFoundError("alias", f"{feature}@{alias}")
    return version


async def _validate_target(uow: UnitOfWork, feature: str, version: str) -> None:
    state = (await get_version(uow.session, feature, version)).state
    if state is VersionState.REVOKED:
        raise VersionRevokedError(feature, version)
    if state is not VersionState.RELEASED and not (await rules_of(uow.session, feature)).accepts_any_state:
        raise NotReleasedError(feature, version, state)


async def _validate_room(uow: UnitOfWork, feature: str) -> None:
    count = len(await aliases_of_feature(uow.session, feature))
    if count >= limits.ALIASES_MAX:
        raise InvalidFieldError("alias", f"at most {limits.ALIASES_MAX} aliases of a feature", count + 1)


async def _move(
    uow: UnitOfWork, feature: str, alias: str, before: str | None, after: str | None, *, by: str, reason: str,
    approved_by: str | None,
) -> AliasMove:  # fmt: skip
    move = AliasMove(
        sequence=0,
        feature=feature,
        alias=alias,
        from_version=before,
        to_version=after,
        moved_by=by,
        moved_at_s=uow.now_s,
        reason=reason,
        approved_by=approved_by,
    )
    await uow.audit(
        "move alias" if approved_by is None else "approve alias",
        f"{feature}@{alias}",
        before=before,
        after=after,
        moved_by=by,
        reason=reason,
    )
    return await add_alias_move(uow.session, move)
