"""Stores state moves, tags, aliases and validations of versions, and the rules of features.

Histories are only ever added to.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from alcove.platform.domain import limits
from alcove.platform.domain.catalog.validation import measured_latencies_ms
from alcove.platform.domain.catalog_records import (
    AliasMove,
    AliasProposal,
    CheckResult,
    FeatureRules,
    ListedVersion,
    StateMove,
    Tag,
    ValidationRecord,
)
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.records import Page, VersionRecord, VersionState
from alcove.platform.store.catalog_tables import (
    AliasMoveRow,
    AliasProposalRow,
    AliasRow,
    FeatureRulesRow,
    StateMoveRow,
    TagRow,
    ValidationRow,
)
from alcove.platform.store.tables import FeatureRow
from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_alias_move",
    "add_proposal",
    "add_rules",
    "add_state_move",
    "add_validation",
    "alias_moves",
    "aliases_of_feature",
    "all_open_proposals",
    "find_alias",
    "find_tag",
    "get_proposal",
    "last_alias_move",
    "last_validation",
    "list_versions",
    "open_proposals",
    "remove_tag",
    "rules_of",
    "set_tag",
    "state_moves",
]

# States


async def add_state_move(session: AsyncSession, record: VersionRecord, move: StateMove) -> None:
    """Write one step of a version's life; the state itself is written with `save_state`."""
    session.add(StateMoveRow(version_sequence=record.sequence, **vars(move)))
    await session.flush()


async def state_moves(session: AsyncSession, record: VersionRecord) -> list[StateMove]:
    """Return the newest `HISTORY_SHOWN` steps of a version's life, oldest first."""
    query = select(StateMoveRow).where(StateMoveRow.version_sequence == record.sequence)
    query = query.order_by(StateMoveRow.sequence.desc()).limit(limits.HISTORY_SHOWN)
    return [
        StateMove(
            VersionState(row.from_state), VersionState(row.to_state), row.moved_by, row.moved_at_s, row.reason
        )
        for row in reversed((await session.scalars(query)).all())
    ]  # fmt: skip


# Tags, and what is listed with a version


async def find_tag(session: AsyncSession, record: VersionRecord, key: str) -> Tag | None:
    """Return a tag of a version, or None."""
    row = await session.get(TagRow, (record.sequence, key))
    return None if row is None else _tag(row)


async def set_tag(session: AsyncSession, record: VersionRecord, tag: Tag) -> None:
    """Write a tag, in the place of the one with its key."""
    text = f"{tag.key}\n{tag.value}".lower()
    await session.merge(TagRow(version_sequence=record.sequence, search_text=text, **vars(tag)))
    await session.flush()


async def remove_tag(session: AsyncSession, record: VersionRecord, key: str) -> None:
    """Take a tag away; it must be there."""
    await session.delete(await session.get_one(TagRow, (record.sequence, key)))
    await session.flush()


async def list_versions(session: AsyncSession, records: Sequence[VersionRecord]) -> list[ListedVersion]:
    """Return versions with what is listed with them now, in the order that was given."""
    if not records:
        return []
    tags: dict[int, list[Tag]] = {}
    sequences = [record.sequence for record in records]
    for tag in await session.scalars(select(TagRow).where(TagRow.version_sequence.in_(sequences)).order_by(TagRow.key)):
        tags.setdefault(tag.version_sequence, []).append(_tag(tag))
    aliases: dict[tuple[str, str], list[str]] = {}
    features = {record.feature for record in records}
    for row in await session.scalars(select(AliasRow).where(AliasRow.feature.in_(features)).order_by(AliasRow.alias)):
        aliases.setdefault((row.feature, row.version), []).append(row.alias)
    releases = {row.version_sequence: row for row in await session.scalars(_last_releases(sequences))}
    checks = {row.version_sequence: _checks(row) for row in await session.scalars(_last_validations(sequences))}
    listed = []
    for record in records:
        release, found = releases.get(record.sequence), checks.get(record.sequence, ())
        listed.append(
            ListedVersion(
                record,
                tuple(tags.get(record.sequence, ())),
                tuple(aliases.get((record.feature, record.version), ())),
                released_by="" if release is None else release.moved_by,
                released_at_s=0 if release is None else release.moved_at_s,
                checks=len(found),
                failed_checks=sum(not check.is_passed for check in found),
                latencies_ms=measured_latencies_ms(found),
            )
        )
    return listed


def _last_releases(sequences: Sequence[int]) -> Select[StateMoveRow]:
    last = select(func.max(StateMoveRow.sequence)).where(
        StateMoveRow.version_sequence.in_(sequences), StateMoveRow.to_state == VersionState.RELEASED
    )
    return select(StateMoveRow).where(StateMoveRow.sequence.in_(last.group_by(StateMoveRow.version_sequence)))


def _last_validations(sequences: Sequence[int]) -> Select[ValidationRow]:
    last = select(func.max(ValidationRow.sequence)).where(ValidationRow.version_sequence.in_(sequences))
    return select(ValidationRow).where(ValidationRow.sequence.in_(last.group_by(ValidationRow.version_sequence)))


def _checks(row: ValidationRow) -> tuple[CheckResult, ...]:
    return tuple(CheckResult(**check) for check in json.loads(row.checks))


# Aliases


async def find_alias(session: AsyncSession, feature: str, alias: str) -> str | None:
    """Return the version that an alias points to, or None."""
    row = await session.get(AliasRow, (feature, alias))
    return None if row is None else row.version


async def aliases_of_feature(session: AsyncSession, feature: str) -> list[AliasMove]:
    """Return the last move of each alias that a feature has, by name."""
    last = (
        select(func.max(AliasMoveRow.sequence))
        .where(AliasMoveRow.feature == feature)
        .group_by(AliasMoveRow.alias)
        .scalar_subquery()
    )
    query = select(AliasMoveRow).where(AliasMoveRow.sequence.in_(last), AliasMoveRow.to_version.is_not(None))
    return [_move(row) for row in await session.scalars(query.order_by(AliasMoveRow.alias))]


async def last_alias_move(session: AsyncSession, feature: str, alias: str) -> AliasMove | None:
    """Return the last move that an alias made, or None when it never existed."""
    query = select(AliasMoveRow).where(AliasMoveRow.feature == feature, AliasMoveRow.alias == alias)
    row = await session.scalar(query.order_by(AliasMoveRow.sequence.desc()).limit(1))
    return None if row is None else _move(row)


async def alias_moves(session: AsyncSession, page: Page, feature: str, alias: str | None) -> list[AliasMove]:
    """Return moves of a feature's aliases, or of one of them, in the order in which they were made."""
    query = select(AliasMoveRow).where(AliasMoveRow.feature == feature, AliasMoveRow.sequence > page.after)
    if alias is not None:
        query = query.where(AliasMoveRow.alias == alias)
    return [_move(row) for row in await session.scalars(query.order_by(AliasMoveRow.sequence).limit(page.size))]


async def add_alias_move(session: AsyncSession, move: AliasMove) -> AliasMove:
    """Write a move and where the alias points to after it; return it with its sequence number."""
    row = AliasMoveRow(**{name: value for name, value in vars(move).items() if name != "sequence"})
    session.add(row)
    if move.to_version is None:
        await session.delete(await session.get_one(AliasRow, (move.feature, move.alias)))
    else:
        await session.merge(AliasRow(feature=move.feature, alias=move.alias, version=move.to_version))
    await session.flush()
    return replace(move, sequence=row.sequence)


async def add_proposal(session: AsyncSession, proposal: AliasProposal) -> None:
    """Write a move that waits for approval."""
    session.add(AliasProposalRow(**vars(proposal)))
    await session.flush()


async def get_proposal(session: AsyncSession, proposal_id: str) -> AliasProposal:
    """Return the proposal.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.scalar(select(AliasProposalRow).where(AliasProposalRow.proposal_id == proposal_id))
    if row is None:
        raise ResourceNotFoundError("proposal", proposal_id)
    return _proposal(row)


async def open_proposals(session: AsyncSession, feature: str) -> list[AliasProposal]:
    """Return the newest `HISTORY_SHOWN` proposals of a feature that can still be approved, oldest first."""
    query = select(AliasProposalRow).where(AliasProposalRow.feature == feature, _is_open())
    query = query.order_by(AliasProposalRow.sequence.desc()).limit(limits.HISTORY_SHOWN)
    return [_proposal(row) for row in reversed((await session.scalars(query)).all())]


async def all_open_proposals(session: AsyncSession, page: Page, *, team: str = "") -> list[tuple[int, AliasProposal]]:
    """Return proposals of all features, or of a team's, that can still be approved, the newest first.

    Each comes with its sequence number; the page is what lies before `page.after`, where it is not 0.
    """
    query = select(AliasProposalRow).where(_is_open())
    if page.after:
        query = query.where(AliasProposalRow.sequence < page.after)
    if team:
        query = query.join(FeatureRow, FeatureRow.name == AliasProposalRow.feature).where(FeatureRow.team == team)
    rows = await session.scalars(query.order_by(AliasProposalRow.sequence.desc()).limit(page.size))
    return [(row.sequence, _proposal(row)) for row in rows]


def _is_open() -> ColumnElement[bool]:
    """Whether no move of the alias came after what the proposal was made on."""
    last = (
        select(func.coalesce(func.max(AliasMoveRow.sequence), 0))
        .where(AliasMoveRow.feature == AliasProposalRow.feature, AliasMoveRow.alias == AliasProposalRow.alias)
        .scalar_subquery()
    )
    return AliasProposalRow.base_sequence == last


# Validations and rules


async def add_validation(session: AsyncSession, record: VersionRecord, validation: ValidationRecord) -> None:
    """Write what a validation found."""
    row = ValidationRow(
        version_sequence=record.sequence,
        is_passed=validation.is_passed,
        checks=json.dumps([asdict(check) for check in validation.checks]),
        validated_by=validation.validated_by,
        validated_at_s=validation.validated_at_s,
    )
    session.add(row)
    await session.flush()


async def last_validation(session: AsyncSession, record: VersionRecord) -> ValidationRecord | None:
    """Return what the last validation of a version found, or None when there was none."""
    query = select(ValidationRow).where(ValidationRow.version_sequence == record.sequence)
    row = await session.scalar(query.order_by(ValidationRow.sequence.desc()).limit(1))
    if row is None:
        return None
    return ValidationRecord(row.is_passed, _checks(row), row.validated_by, row.validated_at_s)


async def rules_of(session: AsyncSession, feature: str) -> FeatureRules:
    """Return the rules that versions of a feature must meet now; none where none were set."""
    query = select(FeatureRulesRow).where(FeatureRulesRow.feature == feature)
    row = await session.scalar(query.order_by(FeatureRulesRow.sequence.desc()).limit(1))
    if row is None:
        return FeatureRules()
    values = json.loads(row.rules)
    values.pop("must_be_released", None)  # of rows from before every feature had it
    values["allowed_ops"] = tuple(values["allowed_ops"])
    return FeatureRules(**values, set_by=row.set_by, set_at_s=row.set_at_s)


async def add_rules(session: AsyncSession, feature: str, rules: FeatureRules) -> None:
    """Write the rules that hold from now on."""
    values = {name: value for name, value in asdict(rules).items() if name not in ("set_by", "set_at_s")}
    row = FeatureRulesRow(feature=feature, rules=json.dumps(values), set_by=rules.set_by, set_at_s=rules.set_at_s)
    session.add(row)
    await session.flush()


def _tag(row: TagRow) -> Tag:
    return Tag(row.key, row.value, row.set_by, row.set_at_s)


def _move(row: AliasMoveRow) -> AliasMove:
    return AliasMove(
        sequence=row.sequence,
        feature=row.feature,
        alias=row.alias,
        from_version=row.from_version,
        to_version=row.to_version,
        moved_by=row.moved_by,
        moved_at_s=row.moved_at_s,
        reason=row.reason,
        approved_by=row.approved_by,
    )


def _proposal(row: AliasProposalRow) -> AliasProposal:
    return AliasProposal(
        proposal_id=row.proposal_id,
        feature=row.feature,
        alias=row.alias,
        base_sequence=row.base_sequence,
        from_version=row.from_version,
        to_version=row.to_version,
        proposed_by=row.proposed_by,
        proposed_at_s=row.proposed_at_s,
        reason=row.reason,
    )
