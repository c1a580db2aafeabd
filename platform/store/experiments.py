"""Stores experiments, and finds those that run and the one that was stopped last for a feature."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Final

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.experiment_records import Allocation, ExperimentPlan, InterimAnalysis
from alcove.platform.domain.experiments.search import ExperimentOrder, ExperimentQuery, has_words
from alcove.platform.domain.records import (
    ArmRecord,
    ExperimentRecord,
    ExperimentState,
    SegmentRecord,
    StoredDecision,
)
from alcove.platform.stats import DecisionKind
from alcove.platform.store.dialects import json_integer, json_text
from alcove.platform.store.tables import ExperimentRow
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_experiment",
    "count_experiments",
    "delete_experiment",
    "experiments_stopped_since",
    "get_experiment",
    "last_stopped",
    "list_experiments",
    "running_experiments",
    "save_experiment",
]

_DAY_S: Final = 86_400
_PLAN = TypeAdapter(ExperimentPlan)
_ARMS = TypeAdapter(tuple[ArmRecord, ...])
_INTERIM_ANALYSES = TypeAdapter(tuple[InterimAnalysis, ...])
_ALLOCATION = TypeAdapter(Allocation)


async def add_experiment(session: AsyncSession, record: ExperimentRecord) -> ExperimentRecord:
    """Write a new experiment; return it with its sequence number."""
    row = ExperimentRow(
        experiment_id=record.experiment_id,
        app=record.app,
        feature=record.feature,
        salt=record.salt,
        arms=_ARMS.dump_json(record.arms).decode(),
        state=record.state,
        epsilon=record.epsilon,
        latency_edges_ms=json.dumps(record.latency_edges_ms),
        window_s=record.window_s,
        minimum_cohort=record.minimum_cohort,
        created_at_s=record.created_at_s,
        policy_serial=record.policy_serial,
        plan=_PLAN.dump_json(record.plan).decode(),
        revision=1,
        audience=record.audience,
        layer="" if record.segment is None else record.segment.layer,
        segment_first=0 if record.segment is None else record.segment.first,
        segment_count=0 if record.segment is None else record.segment.count,
        interim_analyses=_INTERIM_ANALYSES.dump_json(record.interim_analyses).decode(),
        allocation=_ALLOCATION.dump_json(record.allocation).decode(),
    )
    session.add(row)
    await session.flush()
    return _record(row)


async def save_experiment(session: AsyncSession, record: ExperimentRecord) -> ExperimentRecord:
    """Write what can change, a draft's terms among it; return it with its next revision."""
    row = await session.get_one(ExperimentRow, record.sequence)
    row.arms = _ARMS.dump_json(record.arms).decode()
    row.epsilon = record.epsilon
    row.latency_edges_ms = json.dumps(record.latency_edges_ms)
    row.window_s = record.window_s
    row.minimum_cohort = record.minimum_cohort
    row.audience = record.audience
    row.layer = "" if record.segment is None else record.segment.layer
    row.segment_first = 0 if record.segment is None else record.segment.first
    row.segment_count = 0 if record.segment is None else record.segment.count
    row.plan = _PLAN.dump_json(record.plan).decode()
    row.revision += 1
    row.state = record.state
    row.started_at_s = record.started_at_s
    row.stopped_at_s = record.stopped_at_s
    row.task_id = record.task_id
    row.decision = None if record.decision is None else json.dumps(asdict(record.decision))
    row.policy_serial = record.policy_serial
    row.interim_analyses = _INTERIM_ANALYSES.dump_json(record.interim_analyses).decode()
    row.allocation = _ALLOCATION.dump_json(record.allocation).decode()
    await session.flush()
    return replace(record, revision=row.revision)


async def delete_experiment(session: AsyncSession, record: ExperimentRecord) -> None:
    """Delete the row of an experiment; the audit log keeps what was done to it."""
    await session.delete(await session.get_one(ExperimentRow, record.sequence))
    await session.flush()


async def get_experiment(session: AsyncSession, experiment_id: str) -> ExperimentRecord:
    """Return the experiment.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.scalar(select(ExperimentRow).where(ExperimentRow.experiment_id == experiment_id))
    if row is None:
        raise ResourceNotFoundError("experiment", experiment_id)
    return _record(row)


async def list_experiments(session: AsyncSession, query: ExperimentQuery) -> tuple[list[ExperimentRecord], bool]:
    """Return the experiments of a page, in the query's order, and whether more follow.

    One statement a page: the database looks for a word in the arms' text as it is stored, where it can also stand in
    a name of a field; the few pages in which it does take another statement.
    """
    found: list[ExperimentRecord] = []
    while len(found) <= query.size:
        rows = (await session.scalars(_list_statement(session, query))).all()
        found += [record for record in map(_record, rows) if has_words(query, record)]
        if len(rows) <= query.size:
            break
        query = replace(query, after=rows[-1].sequence)
    return found[: query.size], len(found) > query.size


async def count_experiments(session: AsyncSession, query: ExperimentQuery) -> int:
    """Return how many experiments fit every filter, on whichever page; a word may stand in any text of the arms."""
    return await session.scalar(select(func.count(ExperimentRow.sequence)).where(*_conditions(session, query))) or 0


def _list_statement(session: AsyncSession, query: ExperimentQuery) -> Select[ExperimentRow]:
    """Return what reads one more row than a page has."""
    statement = select(ExperimentRow).where(*_conditions(session, query)).limit(query.size + 1)
    is_newest = query.order is ExperimentOrder.NEWEST
    statement = statement.order_by(ExperimentRow.sequence.desc() if is_newest else ExperimentRow.sequence)
    if query.after is not None:
        follows = ExperimentRow.sequence < query.after if is_newest else ExperimentRow.sequence > query.after
        statement = statement.where(follows)
    return statement


def _conditions(session: AsyncSession, query: ExperimentQuery) -> Iterator[ColumnElement[bool]]:
    if query.app is not None:
        yield ExperimentRow.app == query.app
    if query.feature is not None:
        yield ExperimentRow.feature == query.feature
    if query.states:
        yield ExperimentRow.state.in_(query.states)
    texts = (ExperimentRow.experiment_id, ExperimentRow.app, ExperimentRow.feature, ExperimentRow.arms)
    for word in query.words:
        yield or_(*(func.lower(text).contains(word, autoescape=True) for text in texts))
    if query.needs_decision_at_s is not None:
        days = json_integer(session, ExperimentRow.plan, "days_needed")
        is_over = and_(days > 0, ExperimentRow.started_at_s + days * _DAY_S <= query.needs_decision_at_s)
        has_winner = json_text(session, ExperimentRow.decision, "kind") == DecisionKind.WINNER
        yield ExperimentRow.state == ExperimentState.RUNNING
        yield or_(has_winner, is_over)


async def running_experiments(session: AsyncSession, app: str | None = None) -> list[ExperimentRecord]:
    """Return the running experiments, of one app or of all."""
    query = select(ExperimentRow).where(ExperimentRow.state == ExperimentState.RUNNING)
    if app is not None:
        query = query.where(ExperimentRow.app == app)
    return [_record(row) for row in await session.scalars(query.order_by(ExperimentRow.sequence))]


async def last_stopped(session: AsyncSession, app: str, feature: str) -> ExperimentRecord | None:
    """Return the experiment of a feature in an app that was stopped last, or None."""
    query = (
        select(ExperimentRow)
        .where(
            ExperimentRow.app == app,
            ExperimentRow.feature == feature,
            ExperimentRow.state == ExperimentState.STOPPED,
        )
        .order_by(ExperimentRow.stopped_at_s.desc(), ExperimentRow.sequence.desc())
        .limit(1)
    )
    row = await session.scalar(query)
    return None if row is None else _record(row)


async def experiments_stopped_since(session: AsyncSession, time_s: int) -> list[ExperimentRecord]:
    """Return the experiments that were stopped at or after a time, seconds since 1970, in order of creation."""
    query = select(ExperimentRow).where(
        ExperimentRow.state == ExperimentState.STOPPED, ExperimentRow.stopped_at_s >= time_s
    )
    return [_record(row) for row in await session.scalars(query.order_by(ExperimentRow.sequence))]


def _record(row: ExperimentRow) -> ExperimentRecord:
    return ExperimentRecord(
        sequence=row.sequence,
        experiment_id=row.experiment_id,
        app=row.app,
        feature=row.feature,
        salt=row.salt,
        arms=_ARMS.validate_json(row.arms),
        state=ExperimentState(row.state),
        epsilon=row.epsilon,
        latency_edges_ms=tuple(json.loads(row.latency_edges_ms)),
        window_s=row.window_s,
        minimum_cohort=row.minimum_cohort,
        created_at_s=row.created_at_s,
        started_at_s=row.started_at_s,
        stopped_at_s=row.stopped_at_s,
        task_id=row.task_id,
        decision=None if row.decision is None else StoredDecision(**json.loads(row.decision)),
        policy_serial=row.policy_serial,
        plan=_PLAN.validate_json(row.plan),
        revision=row.revision,
        audience=row.audience,
        segment=SegmentRecord(row.layer, row.segment_first, row.segment_count) if row.layer else None,
        interim_analyses=_INTERIM_ANALYSES.validate_json(row.interim_analyses),
        allocation=_ALLOCATION.validate_json(row.allocation),
    )
