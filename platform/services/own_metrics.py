"""Finds the definitions of the metrics that a plan names."""

from collections.abc import Sequence
from dataclasses import replace

from alcove.platform.domain.own_metrics import OwnGuardrail
from alcove.platform.services.metric_definitions import usable_metric
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["find_own_guardrails"]


async def find_own_guardrails(
    uow: UnitOfWork, feature: str, asked: Sequence[OwnGuardrail], before: Sequence[OwnGuardrail] = ()
) -> tuple[OwnGuardrail, ...]:
    """Return guardrails with the definitions that they name; what the plan had before keeps the version it had.

    Args:
        uow: the mutation under way.
        feature: whose metrics they are.
        asked: name and version are read; a version of 0 is the newest.
        before: guardrails of the plan as it is.

    Raises:
        ResourceNotFoundError: there is no such metric, or no such version.
        MetricDeprecatedError: it is to be used no more.
    """
    known = {guardrail.metric.name: guardrail.metric for guardrail in before}
    found = []
    for guardrail in asked:
        name, version = guardrail.metric.name, guardrail.metric.version
        metric = known.get(name)
        if metric is None or version not in (0, metric.version):
            metric = (await usable_metric(uow.session, feature, name, version)).planned
        found.append(replace(guardrail, metric=metric))
    return tuple(found)
