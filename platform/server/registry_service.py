"""Implements RegistryService: publishing and finding here; the rest by subject in the files beside this one."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.registry.v1 import registry_pb2_grpc as rpc
from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.catalog.search import page_token, parse_query
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_field, validate_page
from alcove.platform.domain.permissions import require_team
from alcove.platform.domain.principal import current_principal
from alcove.platform.server.registry_aliases import AliasCalls
from alcove.platform.server.registry_blobs import BlobCalls
from alcove.platform.server.registry_convert import (
    feature_message,
    fitting,
    order_from,
    port_message,
    state_move_message,
    states_from,
    validation_message,
    version_message,
)
from alcove.platform.server.registry_lifecycle import LifecycleCalls
from alcove.platform.services.catalog.aliases import resolve
from alcove.platform.services.catalog.validation import Validator
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.publishing import VersionPublisher
from alcove.platform.services.publishing.quotas import UploadQuotas
from alcove.platform.store.catalog import last_validation, list_versions, state_moves
from alcove.platform.store.features import list_features
from alcove.platform.store.search import search_versions
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import find_version, get_version
from alcove.registry.canonical import FeatureName, TeamName, VersionText
from alcove.registry.garbage_collection import list_referenced_blobs
from alcove.registry.manifest import Manifest

__all__ = ["RegistryService"]


class RegistryService(BlobCalls, AliasCalls, LifecycleCalls, rpc.RegistryServiceServicer):
    """Versions of features: blobs, signed metadata, manifests, aliases, tags, states."""

    def __init__(self, mutations: Mutations, versions: VersionPublisher, uploads: Path) -> None:
        self._mutations = mutations
        self._versions = versions
        self._tree = versions.tree
        self._uploads = uploads
        self._quotas = UploadQuotas(
            uploads,
            versions.tree.blobs,
            partial(list_referenced_blobs, versions.tree),
            most_bytes=limits.UPLOADED_BYTES,
            most_parts=limits.UPLOADS_UNFINISHED,
            least_bytes=limits.UPLOAD_LEAST_BYTES,
        )
        self._searches = Turns(limits.CALLER_SEARCHES)
        self._validator = Validator(mutations.store, versions.tree, versions.checks)

    async def GetTeamMetadata(self, request: pb.GetTeamMetadataRequest, context: Any) -> pb.GetTeamMetadataResponse:
        """Return the team's current signed metadata."""
        team = validate_field("team", TeamName, request.team)
        tree = self._versions.tree
        metadata = await asyncio.to_thread(tree.team_metadata, team)
        return pb.GetTeamMetadataResponse(team_metadata=metadata, targets=await asyncio.to_thread(tree.targets_bytes))

    async def PublishVersion(self, request: pb.PublishVersionRequest, context: Any) -> pb.PublishVersionResponse:
        """Verify a package and publish it."""
        known = await self._mutations.find_response(request, pb.PublishVersionResponse)
        if known is not None:
            return known
        manifest = Manifest.from_bytes(request.manifest)
        require_team(current_principal(), manifest.team)
        await self._validate_parent(manifest)
        await self._versions.to_tree(manifest, request.team_metadata)

        async def work(uow: UnitOfWork) -> pb.PublishVersionResponse:
            record = await self._versions.to_row(uow, manifest)
            (version,) = await list_versions(uow.session, [record])
            return pb.PublishVersionResponse(version=version_message(version))

        return await self._mutations.run(request, pb.PublishVersionResponse, work)

    async def _validate_parent(self, manifest: Manifest) -> None:
        parent = "" if manifest.lineage is None else manifest.lineage.parent
        if not parent:
            return
        async with self._mutations.store.read() as session:
            if await find_version(session, manifest.feature, parent) is None:
                bound = f"a published version of {manifest.feature}"
                raise InvalidFieldError("manifest.lineage.parent", bound, parent)

    async def ListVersions(self, request: pb.ListVersionsRequest, context: Any) -> pb.ListVersionsResponse:
        """List the versions that fit every filter, a page at a time."""
        query = parse_query(
            feature=request.feature,
            team=request.team,
            states=states_from(request.states),
            alias=request.alias,
            tags=[(tag.key, tag.value) for tag in request.tags],
            text=request.text,
            order=order_from(request.order),
            page_size=request.page_size,
            page_token=request.page_token,
        )
        async with self._searches.turn(current_principal().name), self._mutations.store.read(is_long=True) as session:
            records, has_more = await search_versions(session, query)
            versions = await list_versions(session, records)
        shown = fitting([version_message(version) for version in versions])
        is_last = not has_more and len(shown) == len(records)
        return pb.ListVersionsResponse(
            versions=shown, next_page_token="" if is_last else page_token(query, records[len(shown) - 1])
        )

    async def ListFeatures(self, request: pb.ListFeaturesRequest, context: Any) -> pb.ListFeaturesResponse:
        """List the features that have published versions, a page at a time."""
        page = validate_page(request.page_size, "")
        most = limits.SEARCH_WORDS[1]
        if len(request.text) > most or not request.text.isprintable():
            raise InvalidFieldError("text", f"at most {most} printable characters", request.text)
        after = request.page_token and validate_field("page_token", FeatureName, request.page_token)
        async with self._searches.turn(current_principal().name), self._mutations.store.read(is_long=True) as session:
            features, has_more = await list_features(
                session, team=request.team, text=request.text.lower(), after=after, size=page.size
            )
        return pb.ListFeaturesResponse(
            features=[feature_message(feature) for feature in features],
            next_page_token=features[-1].feature if has_more else "",
        )

    async def GetVersion(self, request: pb.GetVersionRequest, context: Any) -> pb.GetVersionResponse:
        """Return one published version with everything that is known of it."""
        feature = validate_field("feature", FeatureName, request.feature)
        if bool(request.version) == bool(request.alias):
            raise InvalidFieldError("version", "exactly one of version and alias", request.version)
        async with self._mutations.store.read() as session:
            named = await resolve(session, feature, request.alias) if request.alias else request.version
            record = await get_version(session, feature, validate_field("version", VersionText, named))
            (version,) = await list_versions(session, [record])
            moves = await state_moves(session, record)
            validation = await last_validation(session, record)
        manifest = Manifest.from_bytes(record.manifest)
        card = await asyncio.to_thread(self._tree.blobs.get, manifest.card.sha256)
        return pb.GetVersionResponse(
            version=version_message(version),
            manifest=record.manifest,
            card=card.decode("utf-8", "replace"),
            inputs=[port_message(port) for port in manifest.signature.inputs],
            outputs=[port_message(port) for port in manifest.signature.outputs],
            moves=[state_move_message(move) for move in moves],
            validation=validation_message(validation),
        )
