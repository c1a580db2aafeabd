"""Looks at each running rollout that has a control group, and acts as its plan says, without an operator's call.

    each ─▶ counts ─▶ examine (evidence.py) ─▶ judge (judge.py) ─▶ action of the plan ─▶ the arrows that people have
                                                     ├─ none: what was found is kept, for people to see
                                                     └─ alarm: likewise, and audited once a stage

A look is one transaction, which holds the database's writer lock: with several servers each looks, and what one has
done the next finds done.  All that it knows is in the database, so a restart changes nothing.  Its clock is the
change's.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import Examination, Judgement, VerdictRecord
from alcove.platform.domain.rollouts.analysis import Finding, examine
from alcove.platform.domain.rollouts.judge import Judged, judge, keep_alarm
from alcove.platform.domain.rollouts.task import stage_task
from alcove.platform.domain.snapshots.rollout import ALARM, follow_plan
from alcove.platform.services.loading import load_rollout
from alcove.platform.services.rollouts.evidence import Evidence
from alcove.platform.services.saving import save_app
from alcove.platform.stats import StatsError
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["PRINCIPAL", "look", "look_at_all"]

PRINCIPAL: Final = "server/rollouts"  # of what happens by itself, in the audit log
_log = structlog.get_logger()

Act = Callable[[str, Callable[[UnitOfWork], Awaitable[RolloutRecord]]], Awaitable[RolloutRecord]]
"""Runs a change in a transaction of its own, as a principal, and publishes what it decided."""


async def look_at_all(rollout_ids: Iterable[str], act: Act, evidence: Evidence) -> list[RolloutRecord]:
    """Look at rollouts and return them; one that cannot be looked at holds up no other.

    Args:
        rollout_ids: of those that are watched.
        act: makes the changes.
        evidence: where the counts come from.
    """
    seen = []
    for rollout_id in rollout_ids:

        async def work(uow: UnitOfWork, rollout_id: str = rollout_id) -> RolloutRecord:
            return await look(uow, rollout_id, evidence)

        try:
            seen.append(await act(PRINCIPAL, work))
        except PlatformError as error:
            _log.error("rollout not looked at", rollout=rollout_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others may be doing harm
            _log.error("rollout not looked at", rollout=rollout_id, exc_info=error)
    return seen


async def look(uow: UnitOfWork, rollout_id: str, evidence: Evidence) -> RolloutRecord:
    """Look at one rollout, act as its plan says, and return it as it is then.

    Raises:
        NotFoundError: there is no such rollout.
        PlatformError: what the plan asks for cannot be done now.
    """
    before, rollout = await load_rollout(uow, rollout_id)
    task = stage_task(rollout)
    if rollout.state is not RolloutState.RUNNING or task is None:
        return rollout
    try:
        finding = examine(rollout, *await evidence.read(uow.session, task))
    except StatsError as error:
        finding = Finding(0, (), "", ())
        judged = Judged(Judgement.HOLD, "unreadable", f"the reports could not be read: {error}")
    else:
        judged = judge(rollout, finding, now_s=uow.now_s)
    examination = _examination(rollout, finding, keep_alarm(rollout, judged), uow.now_s)
    after = follow_plan(before, rollout, examination, now_s=uow.now_s, principal=uow.principal)
    if any(entry.action == ALARM for entry in after.entries):
        _log.error("reports that no devices can have sent", rollout=rollout_id, reason=examination.reason)
    return (await save_app(uow, before, after)).rollouts[rollout_id]


def _examination(rollout: RolloutRecord, finding: Finding, judged: Judged, now_s: int) -> Examination:
    return Examination(
        examined_at_s=now_s,
        judgement=judged.judgement,
        code=judged.code,
        reason=judged.reason,
        reports=finding.reports,
        devices=finding.devices,
        verdicts=tuple(
            VerdictRecord(guardrail.metric, str(said.kind), said.difference, said.low, said.high, said.reason)
            for guardrail, said in zip(rollout.plan.guardrails, finding.verdicts, strict=False)  # none without reports
        ),
        is_attested=finding.is_attested,
    )
