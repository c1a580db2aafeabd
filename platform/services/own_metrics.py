"""Finds the definitions of the metrics that a plan names."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.own_metrics import OwnGuardrail, OwnMetric
from alcove.platform.services.metric_definitions import usable_metric
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["find_own_guardrails", "find_own_metrics"]


async def find_own_guardrails(
    session: AsyncSession, feature: str, asked: Sequence[OwnGuardrail], before: Sequence[OwnGuardrail] = ()
) -> tuple[OwnGuardrail, ...]:
    """Return guardrails with the definitions that they name; what the plan had before keeps the version it had.

    Args:
        session: of the store.
        feature: whose metrics they are.
        asked: name and version are read; a version of 0 is the newest.
        before: guardrails of the plan as it is.

    Raises:
        ResourceNotFoundError: there is no such metric, or no such version.
        MetricDeprecatedError: it is to be used no more.
    """
    known = {each.metric.name: each.metric for each in before}
    return tuple([replace(each, metric=await _find(session, feature, each.metric, known)) for each in asked])


async def find_own_metrics(
    session: AsyncSession, feature: str, plan: ExperimentPlan, before: ExperimentPlan | None = None
) -> ExperimentPlan:
    """Return an experiment's plan with the definitions of all metrics that it names, whatever they are there for.

    Args:
        session: of the store.
        feature: whose metrics they are.
        plan: name and version of each are read; a version of 0 is the newest.
        before: the plan as it is: its metrics keep the version that they had.

    Raises:
        InvalidFieldError: the plan names two versions of one metric.
        ResourceNotFoundError: there is no such metric, or no such version.
        MetricDeprecatedError: it is to be used no more.
    """
    known = {} if before is None else {metric.name: metric for metric in _list_metrics(before)}
    found: dict[str, OwnMetric] = {}
    for asked in sorted(_list_metrics(plan), key=lambda metric: -metric.version):
        metric = await _find(session, feature, asked, {**known, **found})
        if found.setdefault(metric.name, metric).version != metric.version:
            bound = f"one version of {metric.name}, and {found[metric.name].version} is named too"
            raise InvalidFieldError("metric_version", bound, metric.version)
    own = None if plan.own_primary is None else found[plan.own_primary.name]
    return replace(
        plan,
        own_primary=own,
        own_guardrails=tuple(replace(each, metric=found[each.metric.name]) for each in plan.own_guardrails),
        own_questions=tuple(replace(each, metric=found[each.metric.name]) for each in plan.own_questions),
        secondary=tuple(
            each if each.own is None else replace(each, own=found[each.own.name]) for each in plan.secondary
        ),
    )


def _list_metrics(plan: ExperimentPlan) -> Iterable[OwnMetric]:
    """Return every metric that a plan names, as often as it does."""
    primary = () if plan.own_primary is None else (plan.own_primary,)
    watched = (each.metric for each in plan.own_guardrails)
    asked = (each.metric for each in plan.own_questions)
    return (*primary, *watched, *asked, *(each.own for each in plan.secondary if each.own is not None))


async def _find(session: AsyncSession, feature: str, asked: OwnMetric, known: dict[str, OwnMetric]) -> OwnMetric:
    metric = known.get(asked.name)
    if metric is not None and asked.version in (0, metric.version):
        return metric
    return (await usable_metric(session, feature, asked.name, asked.version)).planned
