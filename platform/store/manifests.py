"""Reads published manifests and documents from the rows, in pages, and the sizes of programs."""

import json
from collections.abc import AsyncIterator, Collection
from typing import NamedTuple

from alcove.platform.domain.parameter_values import parameters_of
from alcove.platform.store.database import Store
from alcove.platform.store.tables import FeatureRow, PublicationRow, VersionRow
from alcove.registry.manifest import ModelSignature
from alcove.registry.parameters import Parameter
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "ListedManifest",
    "PublishedDocument",
    "declared_parameters",
    "last_published",
    "listed_manifests",
    "newest_manifests",
    "program_sizes",
    "signatures_of",
]

NEWEST: int = 8  # versions that tell whether a store of blobs is the right one
PAGE: int = 500  # rows in memory; a manifest has some kilobytes


class ListedManifest(NamedTuple):
    """A version's row."""

    feature: str
    version: str
    team: str
    manifest_sha256: str
    manifest: bytes


async def listed_manifests(store: Store) -> AsyncIterator[ListedManifest]:
    """Give every version in the order of publication."""
    last = 0
    while True:
        query = (
            select(VersionRow, FeatureRow.team)
            .join(FeatureRow, FeatureRow.name == VersionRow.feature)
            .where(VersionRow.sequence > last)
            .order_by(VersionRow.sequence)
            .limit(PAGE)
        )
        async with store.read() as session:
            rows = (await session.execute(query)).all()
        for row, team in rows:
            yield ListedManifest(row.feature, row.version, team, row.manifest_sha256, row.manifest)
        if not rows:
            return
        last = rows[-1][0].sequence


async def newest_manifests(store: Store) -> list[bytes]:
    """Return the manifests of the versions that were published last, the newest first."""
    async with store.read() as session:
        query = select(VersionRow.manifest).order_by(VersionRow.sequence.desc()).limit(NEWEST)
        return list(await session.scalars(query))


async def program_sizes(session: AsyncSession, digests: Collection[str]) -> dict[str, int]:
    """Return the bytes of the largest program of each version, by manifest digest; versions never change."""
    unknown = sorted(digest for digest in digests if digest not in _SIZES)
    for start in range(0, len(unknown), PAGE):
        part = unknown[start : start + PAGE]
        query = select(VersionRow.manifest_sha256, VersionRow.manifest).where(VersionRow.manifest_sha256.in_(part))
        for digest, manifest in await session.execute(query):
            _SIZES[digest] = max((variant["size_bytes"] for variant in json.loads(manifest)["variants"]), default=0)
    return {digest: _SIZES[digest] for digest in digests if digest in _SIZES}


_SIZES: dict[str, int] = {}  # a number for each version that was ever compared


async def signatures_of(session: AsyncSession, digests: Collection[str]) -> dict[str, ModelSignature]:
    """Return what each version takes and gives, by manifest digest; of few versions at a time."""
    query = select(VersionRow.manifest_sha256, VersionRow.manifest).where(VersionRow.manifest_sha256.in_(digests))
    return {
        digest: ModelSignature.model_validate_json(json.dumps(json.loads(manifest)["signature"]))
        for digest, manifest in await session.execute(query)
    }


async def declared_parameters(session: AsyncSession, digests: Collection[str]) -> dict[str, tuple[Parameter, ...]]:
    """Return what each version declares for policies to change, by manifest digest; of few versions at a time."""
    query = select(VersionRow.manifest_sha256, VersionRow.manifest).where(VersionRow.manifest_sha256.in_(digests))
    return {digest: parameters_of(manifest) for digest, manifest in await session.execute(query)} if digests else {}


class PublishedDocument(NamedTuple):
    """The row of a "policy" or "halt" that is in the tree, or was until a newer one came."""

    kind: str
    app: str
    serial: int
    document: bytes


async def last_published(store: Store) -> list[PublishedDocument]:
    """Return the newest document of each kind and app that the tree is said to hold."""
    newest = (
        select(PublicationRow.kind, PublicationRow.app, func.max(PublicationRow.serial).label("serial"))
        .where(PublicationRow.is_published.is_(True))
        .group_by(PublicationRow.kind, PublicationRow.app)
        .subquery()
    )
    query = select(PublicationRow).join(
        newest,
        (PublicationRow.kind == newest.c.kind)
        & (PublicationRow.app == newest.c.app)
        & (PublicationRow.serial == newest.c.serial),
    )
    async with store.read() as session:
        rows = await session.scalars(query.order_by(PublicationRow.kind, PublicationRow.app))
        return [PublishedDocument(row.kind, row.app, row.serial, row.document) for row in rows]
