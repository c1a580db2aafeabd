"""Lists features with the states of their versions: two queries a page, however many versions there are."""

from collections import defaultdict

from alcove.platform.domain.catalog.names import version_of_key
from alcove.platform.domain.catalog_records import FeatureSummary
from alcove.platform.domain.records import VersionState
from alcove.platform.store.catalog_tables import VersionFactsRow
from alcove.platform.store.tables import FeatureRow, VersionRow
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["list_features"]


async def list_features(
    session: AsyncSession, *, team: str = "", text: str = "", after: str = "", size: int
) -> tuple[list[FeatureSummary], bool]:
    """Return the features of a page, by name, and whether more follow.

    Args:
        session: of the database.
        team: only of this team; "": of any.
        text: only where it occurs in the name; "": any.
        after: name of the last feature of the page before; "": the first page.
        size: most features.
    """
    statement = select(FeatureRow.name, FeatureRow.team).order_by(FeatureRow.name).limit(size + 1)
    if team:
        statement = statement.where(FeatureRow.team == team)
    if text:
        statement = statement.where(FeatureRow.name.contains(text, autoescape=True))
    if after:
        statement = statement.where(FeatureRow.name > after)
    found = (await session.execute(statement)).all()
    names = [name for name, _ in found[:size]]
    counts = (
        select(
            VersionRow.feature,
            VersionFactsRow.state,
            func.count(),
            func.max(VersionFactsRow.version_key),
            func.max(VersionRow.published_at_s),
        )
        .join(VersionFactsRow, VersionFactsRow.version_sequence == VersionRow.sequence)
        .where(VersionRow.feature.in_(names))
        .group_by(VersionRow.feature, VersionFactsRow.state)
    )
    states: dict[str, dict[VersionState, int]] = defaultdict(dict)
    newest: dict[str, str] = {}
    published_at_s: dict[str, int] = defaultdict(int)
    for feature, state, count, highest, at_s in await session.execute(counts):
        states[feature][VersionState(state)] = count
        published_at_s[feature] = max(published_at_s[feature], at_s)
        if state == VersionState.RELEASED:
            newest[feature] = version_of_key(highest)
    summaries = [
        FeatureSummary(name, owner, newest.get(name, ""), published_at_s[name], states[name])
        for name, owner in found[:size]
    ]
    return summaries, len(found) > size
