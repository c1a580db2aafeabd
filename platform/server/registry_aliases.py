"""Implements the calls of RegistryService about aliases and tags."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from typing import Any

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.domain.catalog.names import AliasName
from alcove.platform.domain.catalog_records import AliasMove, AliasProposal
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field, validate_page
from alcove.platform.domain.permissions import require_owner, require_team
from alcove.platform.domain.principal import current_principal
from alcove.platform.domain.records import VersionRecord
from alcove.platform.server.registry_convert import alias_move_message, proposal_message, version_message
from alcove.platform.services.catalog.aliases import approve, move_alias
from alcove.platform.services.catalog.tags import remove_tag, set_tag
from alcove.platform.services.mutations import Mutations
from alcove.platform.store import catalog
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import find_team, get_version
from alcove.registry.canonical import FeatureName, Identifier, VersionText

__all__ = ["AliasCalls"]


class AliasCalls:
    """Aliases of features and tags of versions."""

    _mutations: Mutations

    async def SetAlias(self, request: pb.SetAliasRequest, context: Any) -> pb.SetAliasResponse:
        """Point an alias to a version, or propose it."""
        feature = validate_field("feature", FeatureName, request.feature)
        version = validate_field("version", VersionText, request.version)

        async def work(uow: UnitOfWork) -> pb.SetAliasResponse:
            await _validate_team(uow, feature)
            done = await move_alias(uow, feature=feature, alias=request.alias, version=version, reason=request.reason)
            return pb.SetAliasResponse(**_outcome(done))

        return await self._mutations.run(request, pb.SetAliasResponse, work)

    async def RemoveAlias(self, request: pb.RemoveAliasRequest, context: Any) -> pb.RemoveAliasResponse:
        """Take an alias away, or propose it."""
        feature = validate_field("feature", FeatureName, request.feature)

        async def work(uow: UnitOfWork) -> pb.RemoveAliasResponse:
            await _validate_team(uow, feature)
            done = await move_alias(uow, feature=feature, alias=request.alias, version=None, reason=request.reason)
            return pb.RemoveAliasResponse(**_outcome(done))

        return await self._mutations.run(request, pb.RemoveAliasResponse, work)

    async def ApproveAlias(self, request: pb.ApproveAliasRequest, context: Any) -> pb.ApproveAliasResponse:
        """Make a proposed move, as somebody else than its proposer."""

        async def work(uow: UnitOfWork) -> pb.ApproveAliasResponse:
            proposal_id = validate_field("proposal_id", Identifier, request.proposal_id)
            proposal = await catalog.get_proposal(uow.session, proposal_id)
            team = await find_team(uow.session, proposal.feature)
            require_owner(current_principal(), team or "", "approve moves of aliases")
            return pb.ApproveAliasResponse(move=alias_move_message(await approve(uow, proposal_id)))

        return await self._mutations.run(request, pb.ApproveAliasResponse, work)

    async def ListAliases(self, request: pb.ListAliasesRequest, context: Any) -> pb.ListAliasesResponse:
        """List the aliases of a feature, and what waits for approval."""
        feature = validate_field("feature", FeatureName, request.feature)
        async with self._mutations.store.read() as session:
            moves = await catalog.aliases_of_feature(session, feature)
            proposals = await catalog.open_proposals(session, feature)
        return pb.ListAliasesResponse(
            aliases=[alias_move_message(move) for move in moves],
            proposals=[proposal_message(proposal) for proposal in proposals],
        )

    async def ListAliasProposals(
        self, request: pb.ListAliasProposalsRequest, context: Any
    ) -> pb.ListAliasProposalsResponse:
        """List what waits for approval, of all features."""
        page = validate_page(request.page_size, request.page_token)
        async with self._mutations.store.read(is_long=True) as session:
            found = await catalog.all_open_proposals(session, page, team=request.team)
        token = str(found[-1][0]) if len(found) == page.size else ""
        proposals = [proposal_message(proposal) for _, proposal in found]
        return pb.ListAliasProposalsResponse(proposals=proposals, next_page_token=token)

    async def ListAliasMoves(self, request: pb.ListAliasMovesRequest, context: Any) -> pb.ListAliasMovesResponse:
        """List every move that was ever made, oldest first."""
        page = validate_page(request.page_size, request.page_token)
        feature = validate_field("feature", FeatureName, request.feature)
        alias = validate_field("alias", AliasName, request.alias) if request.alias else None
        async with self._mutations.store.read() as session:
            moves = await catalog.alias_moves(session, page, feature, alias)
        token = str(moves[-1].sequence) if len(moves) == page.size else ""
        return pb.ListAliasMovesResponse(moves=[alias_move_message(move) for move in moves], next_page_token=token)

    async def SetTag(self, request: pb.SetTagRequest, context: Any) -> pb.SetTagResponse:
        """Give a version a tag."""

        async def work(uow: UnitOfWork) -> pb.SetTagResponse:
            record = await owned_version(uow, request.feature, request.version)
            await set_tag(uow, record, key=request.key, value=request.value)
            (version,) = await catalog.list_versions(uow.session, [record])
            return pb.SetTagResponse(version=version_message(version))

        return await self._mutations.run(request, pb.SetTagResponse, work)

    async def RemoveTag(self, request: pb.RemoveTagRequest, context: Any) -> pb.RemoveTagResponse:
        """Take a tag from a version."""

        async def work(uow: UnitOfWork) -> pb.RemoveTagResponse:
            record = await owned_version(uow, request.feature, request.version)
            await remove_tag(uow, record, key=request.key)
            (version,) = await catalog.list_versions(uow.session, [record])
            return pb.RemoveTagResponse(version=version_message(version))

        return await self._mutations.run(request, pb.RemoveTagResponse, work)


async def owned_version(uow: UnitOfWork, feature: str, version: str) -> VersionRecord:
    """Return a version of the caller's team.

    Raises:
        InvalidFieldError: a name is malformed.
        ResourceNotFoundError: it was never published.
        PermissionDeniedError: it is another team's.
    """
    feature, version = validate_field("feature", FeatureName, feature), validate_field("version", VersionText, version)
    record = await get_version(uow.session, feature, version)
    require_team(current_principal(), record.team)
    return record


async def _validate_team(uow: UnitOfWork, feature: str) -> None:
    team = await find_team(uow.session, feature)
    if team is None:
        raise ResourceNotFoundError("feature", feature)
    require_team(current_principal(), team)


def _outcome(done: AliasMove | AliasProposal) -> dict[str, Any]:
    if isinstance(done, AliasMove):
        return {"move": alias_move_message(done)}
    return {"proposal": proposal_message(done)}
