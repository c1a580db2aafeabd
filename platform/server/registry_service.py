"""How does RegistryService answer?"""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.registry.v1 import registry_pb2_grpc as rpc
from alcove.platform.auth.permissions import require_team
from alcove.platform.auth.principal import current_principal
from alcove.platform.core import limits
from alcove.platform.core.checks import check, check_digest, check_page
from alcove.platform.core.errors import BlobTooLargeError, InvalidFieldError
from alcove.platform.publishing import VersionPublisher, receive_blob
from alcove.platform.server.mutations import Mutations
from alcove.platform.server.registry_convert import version_message
from alcove.platform.store.change import Change
from alcove.platform.store.versions import get_version, list_versions
from alcove.registry.canonical import FeatureName, TeamName, VersionText
from alcove.registry.manifest import Manifest

__all__ = ["RegistryService"]


class RegistryService(rpc.RegistryServiceServicer):
    """Versions of features: blobs, signed metadata, manifests."""

    def __init__(self, mutations: Mutations, versions: VersionPublisher, uploads: Path) -> None:
        self._mutations = mutations
        self._versions = versions
        self._uploads = uploads

    async def UploadBlob(
        self, request_iterator: AsyncIterator[pb.UploadBlobRequest], context: Any
    ) -> pb.UploadBlobResponse:
        """Store one content-addressed blob."""
        parts = aiter(request_iterator)
        first = await anext(parts, None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidFieldError("part", "a header in the first message", None)
        sha256 = check_digest("header.sha256", first.header.sha256)
        size_bytes = first.header.size_bytes
        await receive_blob(
            self._versions.tree.blobs, self._uploads, sha256=sha256, size_bytes=size_bytes, chunks=_chunks(parts)
        )
        return pb.UploadBlobResponse(sha256=sha256, size_bytes=size_bytes)

    async def GetTeamMetadata(self, request: pb.GetTeamMetadataRequest, context: Any) -> pb.GetTeamMetadataResponse:
        """Return the team's current signed metadata."""
        team = check("team", TeamName, request.team)
        metadata = await asyncio.to_thread(self._versions.tree.team_metadata, team)
        return pb.GetTeamMetadataResponse(team_metadata=metadata)

    async def PublishVersion(self, request: pb.PublishVersionRequest, context: Any) -> pb.PublishVersionResponse:
        """Verify a package and publish it."""
        known = await self._mutations.known(request, pb.PublishVersionResponse)
        if known is not None:
            return known
        manifest = Manifest.from_bytes(request.manifest)
        require_team(current_principal(), manifest.team)
        await self._versions.to_tree(manifest, request.team_metadata)

        async def work(change: Change) -> pb.PublishVersionResponse:
            record = await self._versions.to_row(change, manifest)
            return pb.PublishVersionResponse(version=version_message(record))

        return await self._mutations.run(request, pb.PublishVersionResponse, work)

    async def ListVersions(self, request: pb.ListVersionsRequest, context: Any) -> pb.ListVersionsResponse:
        """List published versions, oldest first."""
        page = check_page(request.page_size, request.page_token)
        feature = check("feature", FeatureName, request.feature) if request.feature else None
        async with self._mutations.store.read() as session:
            records = await list_versions(session, page, feature)
        token = str(records[-1].sequence) if len(records) == page.size else ""
        return pb.ListVersionsResponse(versions=[version_message(record) for record in records], next_page_token=token)

    async def GetVersion(self, request: pb.GetVersionRequest, context: Any) -> pb.GetVersionResponse:
        """Return one published version with its manifest."""
        feature = check("feature", FeatureName, request.feature)
        version = check("version", VersionText, request.version)
        async with self._mutations.store.read() as session:
            record = await get_version(session, feature, version)
        return pb.GetVersionResponse(version=version_message(record), manifest=record.manifest)


async def _chunks(parts: AsyncIterator[pb.UploadBlobRequest]) -> AsyncIterator[bytes]:
    async for part in parts:
        if part.WhichOneof("part") != "chunk":
            raise InvalidFieldError("part", "a chunk after the header", part.WhichOneof("part"))
        if not part.chunk:
            raise InvalidFieldError("chunk", "at least 1 byte", 0)
        if len(part.chunk) > limits.CHUNK_BYTES:
            raise BlobTooLargeError(limits.CHUNK_BYTES, len(part.chunk))
        yield part.chunk
