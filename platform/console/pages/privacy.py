"""Shows what the devices of an app may report, what it costs them, who sees what of it, and what was refused."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import NotFoundError, PlatformClient, PrivacyFigures, SignedPolicy, TaskReports
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.pages.policies import APP, apps_table
from alcove.platform.domain.observers import Observer, TrustMode, list_observers, trust_mode_of
from alcove.platform.domain.privacy_account import (
    AppCost,
    Cost,
    MeasuredTask,
    cost_of,
    list_tasks,
    report_parts,
    report_size,
    total_cost,
)
from alcove.privacy.limits import EPSILON_PER_DAY

__all__ = ["routes"]

TASKS_SHOWN: Final = 20  # on a page; each asks for its comparison
OFFSET_DIGITS: Final = 9
_QUANTITIES: Final = {
    "accepted": "share of reports that say the answer was kept",
    "error": "share of reports of an error",
    "fallback": "share of reports of a device that left its version",
    "latency": "latency, by the number of its bin",
    "metric": "the metric, by the number of its bin",
}
_REASONS: Final = {
    "busy": "the database did not take it in time; the device tries again",
    "closed_window": "of a window that is closed",
    "from_a_page": "from a page of the web",
    "full": "connections: all places were taken",
    "gave_way": "connections that waited and gave way to others",
    "malformed": "no report",
    "media_type": "of another media type",
    "no_length": "without a length",
    "packed": "packed",
    "too_large": "longer than any report",
    "too_many_connections": "connections beyond those of one address",
    "too_many_downloads": "downloads beyond those at once",
    "too_often": "requests or connections of one address, beyond its rate",
    "too_many": "beyond the rate that is taken; the device tries again",
    "too_slow": "did not come in time",
    "unknown_cell": "of a cell that its task has not, or of another number of cells",
    "unknown_task": "of no running task, or one of aggregators",
    "unknown_window": "of a window that has not begun",
    "waited_too_long": "connections that waited for too long",
}


@dataclass(frozen=True)
class _Noise:
    """Privacy noise in a comparison; `width` is how many times as wide it makes the interval."""

    arm: str
    quantity: str
    share: float
    width: float | None


@dataclass(frozen=True)
class _Task:
    """What is shown of a task."""

    one: MeasuredTask
    cost: Cost
    size_bytes: int | None
    parts: Sequence[tuple[str, tuple[str, ...]]]
    reports: TaskReports | None
    noise: Sequence[_Noise]
    minimum_cohort: int | None

    @property
    def address(self) -> str:
        """Page of the comparison; "": it has none."""
        return {"rollout": f"/rollouts/{self.one.part}", "experiment": f"/experiments/{self.one.part}"}.get(
            self.one.kind, ""
        )


@dataclass(frozen=True)
class _Found:
    """What was found of an app."""

    signed: SignedPolicy
    figures: PrivacyFigures
    tasks: list[_Task]
    all_tasks: list[MeasuredTask]
    offset: int


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def apps(request: web.Request) -> Answer:
        table = await pages.ask(request, lambda client: apps_table(client, request.query, "/privacy"))
        return Answer("privacy/apps.html", {"table": table, "cost": None}, table.to_json())

    async def app(request: web.Request) -> Answer:
        name, query = request.match_info["app"], request.query
        found = await pages.ask(request, lambda client: _read(client, name, query))
        total = total_cost(found.signed.policy)
        modes = _modes(found.all_tasks)
        end = found.offset + len(found.tasks)
        context = {
            "app": name,
            "policy": found.signed.policy,
            "tasks": found.tasks,
            "task_count": len(found.all_tasks),
            "offset": found.offset,
            "next_offset": end if end < len(found.all_tasks) else 0,
            "modes": modes,
            "total": total,
            "figures": found.figures,
            "reasons": _REASONS,
            "day_cap": EPSILON_PER_DAY,
            "epsilon": _epsilon,
        }
        return Answer("privacy/app.html", context, _to_json(found, total, modes))

    return [*pages.routes("/privacy", apps), *pages.routes(f"/privacy/{APP}", app)]


def _read(client: PlatformClient, app: str, query: Mapping[str, str]) -> _Found:
    text = query.get("page", "")
    offset = int(text) if text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS else 0
    signed = client.policy_at(app)
    tasks = list_tasks(signed.policy)
    wanted = tasks[offset : offset + TASKS_SHOWN]
    figures = client.privacy(app, [one.task.task_id for one in wanted])
    reports = {one.task_id: one for one in figures.tasks}
    cohorts: dict[str, int | None] = {}
    shown = []
    for one in wanted:
        if one.part not in cohorts:
            cohorts[one.part] = _minimum_cohort(client, one)
        shown.append(_task(one, reports.get(one.task.task_id), cohorts[one.part]))
    return _Found(signed, figures, shown, tasks, offset)


def _minimum_cohort(client: PlatformClient, one: MeasuredTask) -> int | None:
    """Return how many devices each side needs before anything is decided; None: the comparison has no such number."""
    try:
        if one.kind == "experiment":
            return client.experiment(one.part).minimum_cohort
        if one.kind == "rollout":
            rollout = client.rollout(one.part)
            return rollout.plan.stages[rollout.stage - 1].minimum_cohort if rollout.stage else None
    except NotFoundError:  # deleted since the policy was decided
        return None
    return None


def _task(one: MeasuredTask, reports: TaskReports | None, minimum_cohort: int | None) -> _Task:
    noise = () if reports is None else reports.noise
    return _Task(
        one,
        cost_of(one.task),
        report_size(one.task),
        report_parts(one),
        reports,
        [
            _Noise(
                one.arms[each.arm] if each.arm < len(one.arms) else str(each.arm),
                _QUANTITIES.get(each.quantity, each.quantity),
                each.share,
                1 / math.sqrt(1 - each.share) if each.share < 1 else None,
            )
            for each in noise
        ],
        minimum_cohort,
    )


def _modes(tasks: Sequence[MeasuredTask]) -> list[tuple[TrustMode, list[Observer]]]:
    """Return each mode that a task has, with who sees what, in the order of the tasks."""
    modes = dict.fromkeys(trust_mode_of(one.task) for one in tasks)
    return [(mode, list_observers(mode)) for mode in modes]


def _epsilon(value: Fraction) -> str:
    return f"{float(value):.4g}"


def _to_json(found: _Found, total: AppCost, modes: list[tuple[TrustMode, list[Observer]]]) -> dict[str, Any]:
    end = found.offset + len(found.tasks)
    more = end < len(found.all_tasks)
    app = found.signed.policy.app
    return {
        "app": app,
        "policy_serial": found.signed.policy.serial,
        "budget": {
            "per_day": _cost_json(total)["per_day"],
            "per_30_days": _cost_json(total)["per_30_days"],
            "of_experiments_per_30_days": float(total.experiments.per_30_days),
            "asked_per_30_days": float(total.all.asked_per_30_days),
            "day_cap": float(total.day_cap),
            "cap_of_30_days": float(total.month_cap),
            "experiments_cap_of_30_days": float(total.experiments_month_cap),
        },
        "modes": [
            {
                "title": mode.title,
                "is_attested": mode.is_attested,
                "evidence": mode.evidence,
                "existence": mode.existence,
                "observers": [vars(one) for one in observers],
            }
            for mode, observers in modes
        ],
        "tasks": [_task_json(task) for task in found.tasks],
        "next_page": f"/privacy/{app}?page={end}" if more else None,
        "reports": {
            "counts_refusals": found.figures.counts_refusals,
            "accepted": found.figures.accepted_count,
            "refused": {one.reason: one.count for one in found.figures.refused},
        },
    }


def _cost_json(total: AppCost) -> dict[str, float]:
    return {"per_day": float(total.all.per_day), "per_30_days": float(total.all.per_30_days)}


def _task_json(task: _Task) -> dict[str, Any]:
    one, terms = task.one, task.one.task
    return {
        "task_id": terms.task_id,
        "kind": one.kind,
        "part": one.part,
        "feature": one.feature,
        "value": one.value or None,
        "mechanism": one.mechanism.value,
        "promise": one.promise,
        "is_attested": one.is_attested,
        "epsilon": terms.epsilon,
        "window_s": terms.window_s,
        "cells": terms.cell_count,
        "cells_named": terms.subset_size,
        "report_bytes": task.size_bytes,
        "is_guardrail": terms.is_guardrail,
        "share_basis_points": terms.share_basis_points,
        "cost": {
            "per_day": float(task.cost.per_day),
            "per_30_days": float(task.cost.per_30_days),
            "asked_per_30_days": float(task.cost.asked_per_30_days),
        },
        "made_of": [{"question": question, "answers": list(answers)} for question, answers in task.parts],
        "minimum_batch": None if terms.aggregation is None else terms.aggregation.min_batch_size,
        "minimum_cohort": task.minimum_cohort,
        "reports": None if task.reports is None else task.reports.model_dump(mode="json"),
    }
