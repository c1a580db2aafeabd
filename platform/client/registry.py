"""Makes the registry's calls.  Mixed into `PlatformClient`, whose promises hold here too."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.platform.client.calls import Caller, Streamer, new_id
from alcove.platform.client.errors import RemoteInternalError
from alcove.platform.client.models import (
    Aliases,
    AliasMove,
    AliasProposal,
    FeatureRules,
    FeatureSummary,
    Page,
    Validation,
    Version,
    VersionDetails,
    value_of,
)
from alcove.platform.domain import limits
from alcove.runtime.files import sync

__all__ = ["RegistryCalls"]

_PIECE_BYTES = 1024 * 1024  # of a file that is hashed


class RegistryCalls:
    """Versions of features: blobs, metadata, manifests, aliases, tags, states."""

    _registry: RegistryServiceStub
    _call: Caller
    _stream: Streamer

    # Blobs

    def upload_blob(self, data: bytes, *, progress: Callable[[int], None] = lambda _sent: None) -> str:
        """Store `data`, going on where an upload of it was cut; return its SHA-256 (64 hexadecimal digits).

        `progress` is called with the bytes that are on their way, before each piece and from another thread.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        there: pb.GetUploadResponse = self._call(self._registry.GetUpload, pb.GetUploadRequest(sha256=sha256))
        if there.is_stored:
            return sha256
        # At least one byte is sent, so that a part that is whole but was never judged is judged now.
        start = min(there.received_bytes, max(len(data) - 1, 0))

        def parts() -> Iterator[pb.UploadBlobRequest]:
            header = pb.BlobHeader(sha256=sha256, size_bytes=len(data), offset_bytes=start)
            yield pb.UploadBlobRequest(header=header)
            for place in range(start, len(data), limits.CHUNK_BYTES):
                progress(place)
                yield pb.UploadBlobRequest(chunk=data[place : place + limits.CHUNK_BYTES])

        self._call(self._registry.UploadBlob, parts(), timeout_s=limits.UPLOAD_TIMEOUT_S)
        return sha256

    def download_blob(self, sha256: str, path: Path, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Write a blob to a file, verified; return its size in bytes.

        What was received goes to a `.part` file beside it, and a download that was cut continues where that ends.
        Nothing is at `path` before all of it is there with its digest; a part that proves wrong is removed.

        Args:
            sha256: digest of the blob.
            path: where it goes; replaced at the end.
            progress: called with the bytes received and the bytes in all.

        Raises:
            ClientError: the server refused, ended early, or sent other bytes.
            OSError: the file cannot be written.
        """
        name = sha256[:16] if sha256.isalnum() else "none"  # the server refuses what is no digest
        part = path.with_name(f"{path.name}.{name}.part")
        part.touch(mode=0o644, exist_ok=True)
        try:
            received, size_bytes, digest = self._receive(sha256, part, progress or (lambda _received, _all: None))
        except BaseException:
            if not part.stat().st_size:
                part.unlink()
            raise
        if received != size_bytes or digest != sha256:
            part.unlink()
            problem = f"blob {sha256}: got {received} of {size_bytes} bytes, with the digest {digest}"
            raise RemoteInternalError("DATA_LOSS", "BlobMismatchError", problem)
        part.replace(path)
        return received

    def _receive(self, sha256: str, part: Path, progress: Callable[[int, int], None]) -> tuple[int, int, str]:
        """Append what is missing to a part; return its bytes, those of the blob, and the part's digest."""
        digest = hashlib.sha256()
        size_bytes = 0
        with part.open("r+b") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
            received = file.tell()
            request = pb.GetBlobRequest(sha256=sha256, offset_bytes=received)
            for answer in self._stream(self._registry.GetBlob, request, timeout_s=limits.UPLOAD_TIMEOUT_S):
                if answer.WhichOneof("part") == "header":
                    size_bytes = answer.header.size_bytes
                else:
                    digest.update(answer.chunk)
                    received += file.write(answer.chunk)
                progress(received, size_bytes)
            sync(file)
        return received, size_bytes, digest.hexdigest()

    # Publishing and finding

    def team_metadata(self, team: str) -> bytes:
        """Return the team's current signed metadata."""
        answer = self._call(self._registry.GetTeamMetadata, pb.GetTeamMetadataRequest(team=team))
        data: bytes = answer.team_metadata
        return data

    def team_metadata_and_signers(self, team: str) -> tuple[bytes, bytes]:
        """Return the team's current signed metadata, and the targets that say who signs for it."""
        answer = self._call(self._registry.GetTeamMetadata, pb.GetTeamMetadataRequest(team=team))
        return answer.team_metadata, answer.targets

    def publish_version(self, team_metadata: bytes, manifest: bytes, *, request_id: str | None = None) -> Version:
        """Publish a version whose blobs were uploaded, under metadata that the team signed."""
        request = pb.PublishVersionRequest(
            request_id=request_id or new_id(), team_metadata=team_metadata, manifest=manifest
        )
        answer = self._call(self._registry.PublishVersion, request, timeout_s=limits.UPLOAD_TIMEOUT_S)
        return value_of(Version, answer.version)

    def versions(
        self,
        feature: str = "",
        *,
        team: str = "",
        states: Sequence[str] = (),
        alias: str = "",
        tags: Mapping[str, str] | None = None,
        text: str = "",
        order: Literal["oldest", "newest", "highest"] = "oldest",
        limit: int | None = None,
    ) -> list[Version]:
        """Return published versions that fit every filter that is given.

        Args:
            feature: only of this feature.
            team: only of this team.
            states: only in one of these ("registered", "validated", "released", "deprecated", "revoked").
            alias: only those that it points to.
            tags: only with these, by key; value "": any.
            text: only where each of these words occurs: in names, lineage, card or tags.
            order: by publication, or by feature and highest version first.
            limit: most versions; None: all.
        """
        versions: list[Version] = []
        token = ""
        most = limits.PAGE_SIZE[0] if limit is None else min(limit, limits.PAGE_SIZE[1])
        while True:
            page = self.versions_page(
                feature,
                team=team,
                states=states,
                alias=alias,
                tags=tags,
                text=text,
                order=order,
                size=most,
                token=token,
            )
            versions += page.items
            token = page.next_token
            if not token or (limit is not None and len(versions) >= limit):
                return versions[:limit]

    def versions_page(
        self,
        feature: str = "",
        *,
        team: str = "",
        states: Sequence[str] = (),
        alias: str = "",
        tags: Mapping[str, str] | None = None,
        text: str = "",
        order: Literal["oldest", "newest", "highest"] = "oldest",
        size: int = 0,
        token: str = "",
    ) -> Page[Version]:
        """Return one page of versions that fit every filter; `size` 0: as the server likes, `token`: of that page."""
        request = pb.ListVersionsRequest(
            feature=feature,
            team=team,
            states=[pb.VersionState.Value(f"VERSION_STATE_{state.upper()}") for state in states],
            alias=alias,
            tags=[pb.TagFilter(key=key, value=value) for key, value in (tags or {}).items()],
            text=text,
            order=pb.VersionOrder.Value(f"VERSION_ORDER_{order.upper()}"),
            page_size=size,
            page_token=token,
        )
        answer = self._call(self._registry.ListVersions, request)
        return Page(tuple(value_of(Version, item) for item in answer.versions), answer.next_page_token)

    def features_page(self, *, team: str = "", text: str = "", size: int = 0, token: str = "") -> Page[FeatureSummary]:
        """Return one page of the features that have published versions, by name.

        Args:
            team: only of this team.
            text: only where it occurs in the name.
            size: most features; 0: as the server likes.
            token: of the page; "": the first one.
        """
        request = pb.ListFeaturesRequest(team=team, text=text, page_size=size, page_token=token)
        answer = self._call(self._registry.ListFeatures, request)
        return Page(tuple(value_of(FeatureSummary, item) for item in answer.features), answer.next_page_token)

    def version(self, feature: str, version: str) -> tuple[Version, bytes]:
        """Return one version and the canonical bytes of its manifest."""
        answer = self._call(self._registry.GetVersion, pb.GetVersionRequest(feature=feature, version=version))
        return value_of(Version, answer.version), answer.manifest

    def version_details(self, feature: str, *, version: str = "", alias: str = "") -> VersionDetails:
        """Return one version, named by its number or by an alias, and everything that is known of it."""
        request = pb.GetVersionRequest(feature=feature, version=version, alias=alias)
        answer: pb.GetVersionResponse = self._call(self._registry.GetVersion, request)
        manifest = answer.manifest
        answer.ClearField("manifest")  # bytes are not the text that `value_of` would make of them
        details = value_of(VersionDetails, answer)
        return details.model_copy(update={"manifest": manifest})

    # Aliases and tags

    def set_alias(
        self, feature: str, alias: str, version: str, *, reason: str, request_id: str | None = None
    ) -> AliasMove | AliasProposal:
        """Point an alias to a version; a proposal is returned where a second person must approve."""
        request = pb.SetAliasRequest(
            request_id=request_id or new_id(), feature=feature, alias=alias, version=version, reason=reason
        )
        return _read_alias_change(self._call(self._registry.SetAlias, request))

    def remove_alias(
        self, feature: str, alias: str, *, reason: str, request_id: str | None = None
    ) -> AliasMove | AliasProposal:
        """Take an alias away; a proposal is returned where a second person must approve."""
        request = pb.RemoveAliasRequest(
            request_id=request_id or new_id(), feature=feature, alias=alias, reason=reason
        )  # fmt: skip
        return _read_alias_change(self._call(self._registry.RemoveAlias, request))

    def approve_alias(self, proposal_id: str, *, request_id: str | None = None) -> AliasMove:
        """Make a move that somebody else proposed."""
        request = pb.ApproveAliasRequest(request_id=request_id or new_id(), proposal_id=proposal_id)
        return value_of(AliasMove, self._call(self._registry.ApproveAlias, request).move)

    def aliases(self, feature: str) -> Aliases:
        """Return the aliases of a feature, and what waits for approval."""
        return value_of(Aliases, self._call(self._registry.ListAliases, pb.ListAliasesRequest(feature=feature)))

    def alias_proposals_page(self, *, team: str = "", size: int = 0, token: str = "") -> Page[AliasProposal]:
        """Return one page of the moves of aliases that wait for approval, of all features, the newest first.

        Args:
            team: only of the features of this team.
            size: most moves; 0: as the server likes.
            token: of the page; "": the first one.
        """
        request = pb.ListAliasProposalsRequest(team=team, page_size=size, page_token=token)
        answer = self._call(self._registry.ListAliasProposals, request)
        return Page(tuple(value_of(AliasProposal, item) for item in answer.proposals), answer.next_page_token)

    def alias_moves(self, feature: str, alias: str = "") -> list[AliasMove]:
        """Return every move of a feature's aliases, or of one of them, oldest first."""
        moves: list[AliasMove] = []
        token = ""
        while True:
            request = pb.ListAliasMovesRequest(feature=feature, alias=alias, page_token=token)
            answer = self._call(self._registry.ListAliasMoves, request)
            moves += [value_of(AliasMove, item) for item in answer.moves]
            token = answer.next_page_token
            if not token:
                return moves

    def set_tag(self, feature: str, version: str, key: str, value: str, *, request_id: str | None = None) -> Version:
        """Give a version a tag, or its tag another value."""
        request = pb.SetTagRequest(
            request_id=request_id or new_id(), feature=feature, version=version, key=key, value=value
        )
        return value_of(Version, self._call(self._registry.SetTag, request).version)

    def remove_tag(self, feature: str, version: str, key: str, *, request_id: str | None = None) -> Version:
        """Take a tag from a version."""
        request = pb.RemoveTagRequest(request_id=request_id or new_id(), feature=feature, version=version, key=key)
        return value_of(Version, self._call(self._registry.RemoveTag, request).version)

    # States and rules

    def validate_version(
        self, feature: str, version: str, *, request_id: str | None = None
    ) -> tuple[Version, Validation]:
        """Hold a version against the rules of its feature, on the server; a failed validation is an answer."""
        request = pb.ValidateVersionRequest(request_id=request_id or new_id(), feature=feature, version=version)
        answer = self._call(self._registry.ValidateVersion, request, timeout_s=limits.UPLOAD_TIMEOUT_S)
        return value_of(Version, answer.version), value_of(Validation, answer.validation)

    def release_version(self, feature: str, version: str, *, reason: str, request_id: str | None = None) -> Version:
        """Say that a validated or deprecated version may be used."""
        request = pb.ReleaseVersionRequest(
            request_id=request_id or new_id(), feature=feature, version=version, reason=reason
        )
        return value_of(Version, self._call(self._registry.ReleaseVersion, request).version)

    def deprecate_version(self, feature: str, version: str, *, reason: str, request_id: str | None = None) -> Version:
        """Say that a released version should not be chosen any more."""
        request = pb.DeprecateVersionRequest(
            request_id=request_id or new_id(), feature=feature, version=version, reason=reason
        )
        return value_of(Version, self._call(self._registry.DeprecateVersion, request).version)

    def revoke_version(
        self, feature: str, version: str, *, reason: str, request_id: str | None = None
    ) -> tuple[Version, list[str]]:
        """Forbid a version for ever; return it, and the apps whose devices drop it at their next check-in."""
        request = pb.RevokeVersionRequest(
            request_id=request_id or new_id(), feature=feature, version=version, reason=reason
        )
        answer = self._call(self._registry.RevokeVersion, request)
        return value_of(Version, answer.version), list(answer.apps)

    def set_rules(self, feature: str, rules: FeatureRules, *, request_id: str | None = None) -> FeatureRules:
        """Set all rules that versions of a feature must meet."""
        fields = rules.model_dump(exclude={"set_by", "set_at_s"})
        request = pb.SetFeatureRulesRequest(
            request_id=request_id or new_id(), feature=feature, rules=pb.FeatureRules(**fields)
        )
        return value_of(FeatureRules, self._call(self._registry.SetFeatureRules, request).rules)

    def rules(self, feature: str) -> FeatureRules:
        """Return the rules that versions of a feature must meet."""
        request = pb.GetFeatureRulesRequest(feature=feature)
        return value_of(FeatureRules, self._call(self._registry.GetFeatureRules, request).rules)


def _read_alias_change(answer: pb.SetAliasResponse | pb.RemoveAliasResponse) -> AliasMove | AliasProposal:
    if answer.HasField("proposal"):
        return value_of(AliasProposal, answer.proposal)
    return value_of(AliasMove, answer.move)
