"""Compares a rollout's plan with others that find a sound version safe with fewer devices, or sooner.  Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from alcove.platform.domain.own_metrics import own_name
from alcove.platform.domain.planning.rollout import (
    ReportSchedule,
    RolloutForecast,
    RolloutQuestion,
    StageForecast,
    StageNeeds,
    needs_of_first_stage,
)
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.task import tasks_of
from alcove.platform.stats import Mechanism
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.privacy.limits import DAY_S, EPSILON_PER_30_DAYS, EPSILON_PER_DAY
from alcove.registry.policy import TaskPolicy

__all__ = ["Choice", "compare_choices"]

_AGGREGATED: Final = ReportModel(Mechanism.PRIO3, Fraction(1))
_WIDER_STAGE: Final = 5  # times the first share


@dataclass(frozen=True)
class Choice:
    """Another plan, by its first stage.

    Attributes:
        change: what is different, for people.
        trade: what it costs besides, for people.
        cells: of a report.
        devices_to_be_safe: of the app; 0: no number.
        days_to_be_safe: with the app's devices; 0: not by the horizon, or their number is not known.
        is_offered: whether a plan can say so today.
        halves_the_devices: whether it needs at most half of the devices.
        halves_the_days: whether the app's devices need at most half of the days, or find it only so.
    """

    change: str
    trade: str
    cells: int
    devices_to_be_safe: int
    days_to_be_safe: int
    is_offered: bool
    halves_the_devices: bool
    halves_the_days: bool


def compare_choices(question: RolloutQuestion, forecast: RolloutForecast) -> tuple[Choice, ...]:
    """Return the other plans, those that need the fewest devices first.

    Args:
        question: as of the forecast.
        forecast: of the plan itself.
    """
    if not forecast.stages:
        return ()
    first, before = question.plan.stages[0], forecast.stages[0]
    alone = replace(question, plan=replace(question.plan, stages=(first,)))
    found = []
    for change, trade, other, is_offered in _others(alone):
        found.append(_choice(change, trade, needs_of_first_stage(other), before, is_offered=is_offered))
    return tuple(sorted(found, key=lambda choice: choice.devices_to_be_safe or float("inf")))


def _others(question: RolloutQuestion) -> Iterator[tuple[str, str, RolloutQuestion, bool]]:
    """Yield the other plans: what changes, what it costs, the question, and whether it can be asked for."""
    plan = question.plan
    task = tasks_of("ro-0", plan, 0)[0]
    if plan.aggregation is None:
        yield (
            "two aggregators, ε = 1 a window",
            "somebody else runs one of them",
            replace(question, plan=_with_one_question(plan), reports=_AGGREGATED),
            True,
        )
        yield from _more_privacy_loss(question, task)
    if len(plan.watched) > 1:
        for guardrail in plan.guardrails:
            bins = () if guardrail.metric != "latency" else plan.latency_edges_ms
            only = replace(plan, guardrails=(guardrail,), latency_edges_ms=bins, questions=(), own_guardrails=())
            yield f"only {guardrail.metric}", "nothing else is watched", replace(question, plan=only), True
        for own in plan.own_guardrails:
            only = replace(plan, guardrails=(), latency_edges_ms=(), questions=(), own_guardrails=(own,))
            yield f"only {own_name(own.metric.name)}", "nothing else is watched", replace(question, plan=only), True
    has_latency = any(guardrail.metric == "latency" for guardrail in plan.guardrails)
    if plan.latency_edges_ms and not has_latency:
        yield (
            "no latency bins",
            "latency is not shown; no guardrail reads it",
            replace(question, plan=replace(plan, latency_edges_ms=())),
            True,
        )
    stage = plan.stages[0]
    wider = min(_WIDER_STAGE * stage.share_basis_points, 5_000)
    if wider > stage.share_basis_points:
        stages = (replace(stage, share_basis_points=wider),)
        trade = f"{wider / 100:g} % of the devices have the version first"
        yield f"a first stage of {wider / 100:g} %", trade, replace(question, plan=replace(plan, stages=stages)), True
    doubled = tuple(replace(guardrail, margin=2.0 * guardrail.margin) for guardrail in plan.guardrails)
    owned = tuple(replace(own, margin=2.0 * own.margin) for own in plan.own_guardrails)
    fits = all(guardrail.quantile is not None or guardrail.margin < 1.0 for guardrail in doubled)
    if fits and all(own.margin < own.metric.bin_values[-1] for own in owned):
        trade = "a version that is worse by up to twice as much passes"
        wide = replace(plan, guardrails=doubled, own_guardrails=owned)
        yield "margins twice as wide", trade, replace(question, plan=wide), True


def _with_one_question(plan: RolloutPlan) -> RolloutPlan:
    """Return the plan whose devices are all asked everything; own metrics stay questions by themselves."""
    return plan if plan.own_guardrails else replace(plan, questions=())


def _more_privacy_loss(question: RolloutQuestion, task: TaskPolicy) -> Iterator[tuple[str, str, RolloutQuestion, bool]]:
    """Yield fewer and larger reports, or more of them a day, at the same sum of 30 days."""
    plan, epsilon = question.plan, task.epsilon_fraction
    if epsilon < EPSILON_PER_DAY:
        larger = replace(plan, epsilon=f"{float(EPSILON_PER_DAY):g}")
        trade = f"each report tells more: ε = {larger.epsilon} instead of {plan.epsilon}; fewer of them in 30 days"
        yield f"reports of ε = {larger.epsilon}", trade, replace(question, plan=larger), True
    a_day = int(EPSILON_PER_DAY / epsilon) * plan.window_s // DAY_S
    if a_day > 1 and plan.window_s // a_day >= 3600:
        shorter = replace(plan, window_s=plan.window_s // a_day)
        trade = "the same reports in fewer days; then silence until their 30 days are over"
        yield f"windows of {shorter.window_s // 3600} h", trade, replace(question, plan=shorter), True
    once = ReportModel(Mechanism.RANDOMIZED_RESPONSE, EPSILON_PER_30_DAYS)
    if epsilon < EPSILON_PER_30_DAYS:
        text = f"{float(EPSILON_PER_30_DAYS):g}"
        trade = f"the same sum in 30 days, all of it in one day, in apps that allow more than {EPSILON_PER_DAY}"
        other = replace(question, reports=once, schedule=ReportSchedule((1,), plan.window_s))
        yield f"one report of ε = {text} a stage", trade, other, True


def _choice(change: str, trade: str, after: StageNeeds, before: StageForecast, *, is_offered: bool) -> Choice:
    needs, needed = after.devices_to_be_safe, before.devices_to_be_safe
    days, took = after.days_to_be_safe, before.days_to_be_safe
    return Choice(
        change=change,
        trade=trade,
        cells=after.cells,
        devices_to_be_safe=needs,
        days_to_be_safe=days,
        is_offered=is_offered,
        halves_the_devices=needs > 0 and (not needed or 2 * needs <= needed),
        halves_the_days=days > 0 and (not took or 2 * days <= took),
    )
