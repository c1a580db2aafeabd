"""Stores published versions with their teams and states."""

import json
from typing import Any

from alcove.platform.domain.catalog.names import sort_key
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.limits import SEARCH_TEXT_LENGTH
from alcove.platform.domain.records import VariantRecord, VersionRecord, VersionState
from alcove.platform.store.catalog_tables import VersionFactsRow
from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import FeatureRow, VersionRow
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_version",
    "find_team",
    "find_version",
    "get_version",
    "previous_version",
    "save_state",
    "version_of",
    "version_states",
    "versions_query",
]


async def add_version(
    session: AsyncSession,
    *,
    feature: str,
    version: str,
    team: str,
    manifest_sha256: str,
    manifest: bytes,
    published_at_s: int,
    card: str = "",
) -> VersionRecord:
    """Write a version, and its feature when it is the first one; return it with its sequence number.

    Of `card` the first `SEARCH_TEXT_LENGTH` characters are kept, for searching.
    """
    await session.execute(insert(session, FeatureRow).values(name=feature, team=team).on_conflict_do_nothing())
    row = VersionRow(
        feature=feature,
        version=version,
        manifest_sha256=manifest_sha256,
        manifest=manifest,
        published_at_s=published_at_s,
    )
    session.add(row)
    await session.flush()
    lineage = _document(row).get("lineage") or {}
    text = "\n".join((feature, version, team, *map(str, lineage.values()), card))
    facts = VersionFactsRow(
        version_sequence=row.sequence,
        version_key=sort_key(version),
        search_text=text.lower()[:SEARCH_TEXT_LENGTH].replace("\0", ""),  # PostgreSQL's texts hold no NUL
        state=VersionState.REGISTERED,
    )
    session.add(facts)
    await session.flush()
    return version_of(row, team, facts.state)


def versions_query() -> Select[VersionRow, str, str]:
    """Return the query of all versions, each with its team and state, as `version_of` takes them."""
    return (
        select(VersionRow, FeatureRow.team, VersionFactsRow.state)
        .join(FeatureRow, FeatureRow.name == VersionRow.feature)
        .join(VersionFactsRow, VersionFactsRow.version_sequence == VersionRow.sequence)
    )


async def find_team(session: AsyncSession, feature: str) -> str | None:
    """Return the team that owns a feature with published versions, or None."""
    row = await session.get(FeatureRow, feature)
    return None if row is None else row.team


async def find_version(session: AsyncSession, feature: str, version: str) -> VersionRecord | None:
    """Return the version, or None."""
    query = versions_query().where(VersionRow.feature == feature, VersionRow.version == version)
    found = (await session.execute(query)).one_or_none()
    return None if found is None else version_of(*found)


async def get_version(session: AsyncSession, feature: str, version: str) -> VersionRecord:
    """Return the version.

    Raises:
        ResourceNotFoundError: it was never published.
    """
    record = await find_version(session, feature, version)
    if record is None:
        raise ResourceNotFoundError("version", f"{feature} {version}")
    return record


async def version_states(session: AsyncSession, feature: str) -> dict[str, VersionState]:
    """Return the state of each version of a feature, by version."""
    query = select(VersionRow.version, VersionFactsRow.state)
    query = query.join(VersionFactsRow, VersionFactsRow.version_sequence == VersionRow.sequence)
    found = await session.execute(query.where(VersionRow.feature == feature))
    return {version: VersionState(state) for version, state in found}


async def previous_version(session: AsyncSession, record: VersionRecord) -> VersionRecord | None:
    """Return the version whose callers `record` must not break: the highest released one, itself left out.

    Where none is released, the highest below it that is not revoked; None where there is neither.
    """
    others = versions_query().where(VersionRow.feature == record.feature, VersionRow.sequence != record.sequence)
    others = others.order_by(VersionFactsRow.version_key.desc()).limit(1)
    for query in (
        others.where(VersionFactsRow.state == VersionState.RELEASED),
        others.where(
            VersionFactsRow.version_key < sort_key(record.version), VersionFactsRow.state != VersionState.REVOKED
        ),
    ):
        found = (await session.execute(query)).one_or_none()
        if found is not None:
            return version_of(*found)
    return None


async def save_state(session: AsyncSession, record: VersionRecord) -> None:
    """Write where a version stands; the move itself is written with `add_state_move`."""
    facts = await session.get_one(VersionFactsRow, record.sequence)
    facts.state = record.state
    await session.flush()


def version_of(row: VersionRow, team: str, state: str) -> VersionRecord:
    """Return the version of a row."""
    variants = _document(row)["variants"]
    return VersionRecord(
        sequence=row.sequence,
        feature=row.feature,
        version=row.version,
        team=team,
        manifest_sha256=row.manifest_sha256,
        manifest=row.manifest,
        variants=tuple(
            VariantRecord(v["name"], v["engine"], v["sha256"], v["size_bytes"], v["memory_ceiling_bytes"])
            for v in variants
        ),
        published_at_s=row.published_at_s,
        state=VersionState(state),
    )


def _document(row: VersionRow) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(row.manifest)
    return document
