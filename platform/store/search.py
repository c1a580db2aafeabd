"""Finds versions in the database.  One query a page, after the last version of the page before."""

from alcove.platform.domain.catalog.search import VersionOrder, VersionQuery
from alcove.platform.domain.records import VersionRecord
from alcove.platform.store.catalog_tables import AliasRow, TagRow, VersionFactsRow
from alcove.platform.store.tables import FeatureRow, VersionRow
from alcove.platform.store.versions import version_of, versions_query
from sqlalchemy import ColumnElement, and_, exists, or_
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["search_versions"]


async def search_versions(session: AsyncSession, query: VersionQuery) -> tuple[list[VersionRecord], bool]:
    """Return the versions of a page, in the query's order, and whether more follow."""
    statement = versions_query().where(*_filters(query)).limit(query.size + 1)
    match query.order:
        case VersionOrder.OLDEST:
            statement = statement.order_by(VersionRow.sequence)
        case VersionOrder.NEWEST:
            statement = statement.order_by(VersionRow.sequence.desc())
        case VersionOrder.HIGHEST:
            statement = statement.order_by(VersionRow.feature, VersionFactsRow.version_key.desc())
    found = [version_of(*row) for row in (await session.execute(statement)).all()]
    return found[: query.size], len(found) > query.size


def _filters(query: VersionQuery) -> list[ColumnElement[bool]]:
    filters: list[ColumnElement[bool]] = []
    if query.feature is not None:
        filters.append(VersionRow.feature == query.feature)
    if query.team is not None:
        filters.append(FeatureRow.team == query.team)
    if query.states:
        filters.append(VersionFactsRow.state.in_(query.states))
    if query.alias is not None:
        points = (AliasRow.feature == VersionRow.feature) & (AliasRow.version == VersionRow.version)
        filters.append(exists().where(points, AliasRow.alias == query.alias))
    for key, value in query.tags:
        has = (TagRow.version_sequence == VersionRow.sequence) & (TagRow.key == key)
        filters.append(exists().where(has if value is None else has & (TagRow.value == value)))
    filters += [_has_word(word) for word in query.words]
    if query.after is not None:
        filters.append(_is_after(query.order, *query.after))
    return filters


def _has_word(word: str) -> ColumnElement[bool]:
    """In a text, or in a tag's key or value; % and _ stand for themselves."""
    in_tag = TagRow.search_text.contains(word, autoescape=True)
    return or_(
        VersionFactsRow.search_text.contains(word, autoescape=True),
        exists().where(TagRow.version_sequence == VersionRow.sequence, in_tag),
    )


def _is_after(order: VersionOrder, feature: str, number: int) -> ColumnElement[bool]:
    match order:
        case VersionOrder.OLDEST:
            return VersionRow.sequence > number
        case VersionOrder.NEWEST:
            return VersionRow.sequence < number
        case VersionOrder.HIGHEST:
            is_lower = and_(VersionRow.feature == feature, VersionFactsRow.version_key < number)
            return or_(VersionRow.feature > feature, is_lower)
