"""Evaluates what a rollout's plan watches: guardrails of outcomes and latency, and of own metrics.  Pure."""

from collections.abc import Sequence

from alcove.platform.domain.own_metrics import own_name
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.task import CONTROL, TREATMENT, questions_of
from alcove.platform.stats import (
    GuardMetric,
    Guardrail,
    GuardTests,
    GuardVerdict,
    Stratum,
    evaluate_bin_guardrail,
    evaluate_guardrail,
)

__all__ = ["evaluate_watched"]


def evaluate_watched(
    plan: RolloutPlan, strata: Sequence[Sequence[Stratum]], tests: GuardTests
) -> tuple[GuardVerdict, ...]:
    """Return the verdicts, in the order of `RolloutPlan.watched`.

    Args:
        plan: of the rollout.
        strata: of each question of the plan the reports of each stage, the present one last.
        tests: of all that is watched together: it shares the error of harm, and each is safe at full alpha.

    Raises:
        ArgumentError: the reports are none that can answer the plan.
    """
    if not plan.watched:
        return ()
    shared = tests.share(len(plan.watched))
    found = {
        name: of_question
        for question, of_question in zip(questions_of(plan), strata, strict=True)
        for name in question.metrics
    }
    common = [
        evaluate_guardrail(
            found[each.metric],
            Guardrail(GuardMetric(each.metric), each.margin, each.quantile, each.edge_ms),
            control=CONTROL,
            treatment=TREATMENT,
            tests=shared,
            edges_ms=plan.latency_edges_ms,
        )
        for each in plan.guardrails
    ]
    own = [
        evaluate_bin_guardrail(
            found[own_name(each.metric.name)],
            each.metric.bin_metric,
            each.margin,
            control=CONTROL,
            treatment=TREATMENT,
            tests=shared,
        )
        for each in plan.own_guardrails
    ]
    return (*common, *own)
