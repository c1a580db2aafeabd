"""Stores the analyses of a rollout's stages that found something new, a bounded number of each rollout."""

from alcove.platform.domain.records import Page, RolloutRecord
from alcove.platform.domain.rollout_records import AnalysisRecord, KeptAnalysis
from alcove.platform.domain.rollouts.history import KEPT_NEWEST, is_news, select_superfluous
from alcove.platform.store.tables import StageAnalysisRow
from pydantic import TypeAdapter
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["keep_analysis", "list_analyses"]

_ANALYSIS = TypeAdapter(AnalysisRecord)


async def keep_analysis(session: AsyncSession, rollout: RolloutRecord, found: AnalysisRecord) -> bool:
    """Write an analysis of a rollout's present stage if it found something new, and thin out old ones.

    Returns:
        Whether it did.
    """
    newest = select(StageAnalysisRow).where(StageAnalysisRow.rollout_sequence == rollout.sequence)
    row = await session.scalar(newest.order_by(StageAnalysisRow.sequence.desc()).limit(1))
    if not is_news(None if row is None else _read_row(row), rollout.stage, found):
        return False
    session.add(
        StageAnalysisRow(
            rollout_sequence=rollout.sequence,
            stage=rollout.stage,
            share_basis_points=rollout.share_basis_points,
            analyzed_at_s=found.analyzed_at_s,
            analysis=_ANALYSIS.dump_json(found).decode(),
        )
    )
    await session.flush()
    await _thin_out(session, rollout)
    return True


async def list_analyses(session: AsyncSession, rollout: RolloutRecord, page: Page) -> list[KeptAnalysis]:
    """Return the analyses of a rollout that are kept, the oldest first; the page's size and one more."""
    query = select(StageAnalysisRow).where(
        StageAnalysisRow.rollout_sequence == rollout.sequence, StageAnalysisRow.sequence > page.after
    )
    rows = await session.scalars(query.order_by(StageAnalysisRow.sequence).limit(page.size + 1))
    return [_read_row(row) for row in rows]


async def _thin_out(session: AsyncSession, rollout: RolloutRecord) -> None:
    query = select(StageAnalysisRow.sequence, StageAnalysisRow.analyzed_at_s)
    query = query.where(StageAnalysisRow.rollout_sequence == rollout.sequence).order_by(StageAnalysisRow.sequence)
    kept = (await session.execute(query)).all()
    if len(kept) <= KEPT_NEWEST:
        return
    places = select_superfluous([at_s for _, at_s in kept], rollout.plan.window_s)
    if places:
        await session.execute(
            delete(StageAnalysisRow).where(StageAnalysisRow.sequence.in_([kept[place][0] for place in places]))
        )


def _read_row(row: StageAnalysisRow) -> KeptAnalysis:
    return KeptAnalysis(row.sequence, row.stage, row.share_basis_points, _ANALYSIS.validate_json(row.analysis))
