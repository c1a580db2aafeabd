"""Analyzes each running rollout that has a control group, and acts as its plan says, without an operator's call.

    each ─▶ counts (reports.py) ─▶ analyze ─▶ decide (decide.py) ─▶ action of the plan ─▶ the arrows that people have
                                                     ├─ none: what was found is kept, for people to see
                                                     └─ alarm: likewise, and audited once a stage

An analysis is one transaction, which holds the database's writer lock: with several servers each analyzes, and what one
has done the next finds done.  All that it knows is in the database, so a restart changes nothing.  Its clock is the
change's.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Final

import structlog
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import AnalysisRecord, StageDecisionKind, VerdictRecord
from alcove.platform.domain.rollouts.analysis import AnalysisResult, analyze
from alcove.platform.domain.rollouts.decide import StageDecision, decide, keep_alarm
from alcove.platform.domain.rollouts.task import stage_tasks, tasks_of
from alcove.platform.domain.snapshots.rollout import ALARM, follow_plan
from alcove.platform.services.loading import load_rollout
from alcove.platform.services.rollouts.reports import ReportSource
from alcove.platform.services.saving import save_app
from alcove.platform.stats import StatsError
from alcove.platform.store.stage_analyses import keep_analysis
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["PRINCIPAL", "analyze_all", "analyze_rollout"]

PRINCIPAL: Final = "server/rollouts"  # of what happens by itself, in the audit log
_log = structlog.get_logger()

Act = Callable[[str, Callable[[UnitOfWork], Awaitable[RolloutRecord]]], Awaitable[RolloutRecord]]
"""Runs a change in a transaction of its own, as a principal, and publishes what it decided."""


async def analyze_all(rollout_ids: Iterable[str], act: Act, source: ReportSource) -> list[RolloutRecord]:
    """Analyze rollouts and return them; one that cannot be analyzed holds up no other.

    Args:
        rollout_ids: of those that are watched.
        act: makes the changes.
        source: where the counts come from.
    """
    seen = []
    for rollout_id in rollout_ids:

        async def work(uow: UnitOfWork, rollout_id: str = rollout_id) -> RolloutRecord:
            return await analyze_rollout(uow, rollout_id, source)

        try:
            seen.append(await act(PRINCIPAL, work))
        except PlatformError as error:
            _log.error("the analysis of a rollout failed", rollout=rollout_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others may be doing harm
            _log.error("the analysis of a rollout failed", rollout=rollout_id, exc_info=error)
    return seen


async def analyze_rollout(uow: UnitOfWork, rollout_id: str, source: ReportSource) -> RolloutRecord:
    """Analyze one rollout, act as its plan says, and return it as it is then.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        PlatformError: what the plan asks for cannot be done now.
    """
    before, rollout = await load_rollout(uow, rollout_id)
    if rollout.state is not RolloutState.RUNNING or not stage_tasks(rollout):
        return rollout
    try:
        counts = [
            [await source.read(uow.session, task) for task in tasks_of(rollout_id, rollout.plan, begun.started_at_s)]
            for begun in rollout.evidence.stages
        ]
        result = analyze(rollout, counts, now_s=uow.now_s)
    except StatsError as error:
        result = AnalysisResult(0, (), "", (), looks=rollout.evidence.looks)
        decision = StageDecision(StageDecisionKind.HOLD, "unreadable", f"the reports could not be read: {error}")
    else:
        decision = decide(rollout, result, now_s=uow.now_s)
    analysis = _analysis_record(rollout, result, keep_alarm(rollout, decision), uow.now_s)
    rollout = replace(rollout, evidence=replace(rollout.evidence, looks=result.looks))
    await keep_analysis(uow.session, rollout, analysis)
    after = follow_plan(before, rollout, analysis, now_s=uow.now_s, principal=uow.principal)
    if any(entry.action == ALARM for entry in after.entries):
        _log.error("reports that no devices can have sent", rollout=rollout_id, reason=analysis.reason)
    return (await save_app(uow, before, after)).rollouts[rollout_id]


def _analysis_record(
    rollout: RolloutRecord, result: AnalysisResult, decision: StageDecision, now_s: int
) -> AnalysisRecord:
    return AnalysisRecord(
        analyzed_at_s=now_s,
        decision=decision.kind,
        code=decision.code,
        reason=decision.reason,
        reports=result.reports,
        devices=result.devices,
        verdicts=tuple(
            VerdictRecord(name, str(each.kind), each.difference, each.low, each.high, each.reason)
            for name, each in zip(rollout.plan.watched, result.verdicts, strict=False)  # none without reports
        ),
        is_attested=result.is_attested,
        stages=result.stages,
        pooled_reports=result.pooled_reports,
        looks=len(result.looks),
        next_look_at_s=result.next_look_at_s,
        horizon_at_s=result.horizon_at_s,
    )
