"""Secondary metrics of an experiment: only what its reports can answer, and no part of the decision."""

from dataclasses import replace

import numpy as np
import pytest
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.secondary import validate_secondary
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.experiments.views import make_views
from alcove.platform.domain.limits import SECONDARY_MAX
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.rollout_records import GuardrailRecord

from tests.platform.domain.test_experiment_plans import EDGES_MS, randomize, record

ERRORS = MetricRecord("ratio", numerator=("error",), less_is_better=True)
MEAN = MetricRecord("latency_mean")
GUARDED = ExperimentPlan(guardrails=(GuardrailRecord("error", 0.01, None),))
"""Its reports count errors."""


@pytest.mark.parametrize(
    ("plan", "edges_ms", "why"),
    [
        (ExperimentPlan(secondary=(ERRORS,)), EDGES_MS, r"tell apart: refused; accepted"),
        (
            ExperimentPlan(primary="latency_mean", secondary=(MetricRecord("accepted"),)),
            EDGES_MS,
            "refused or accepted",
        ),
        (replace(GUARDED, secondary=(MEAN,)), (), "latency_edges_ms"),
        (replace(GUARDED, secondary=(MEAN, MEAN)), EDGES_MS, "each metric once"),
        (ExperimentPlan(secondary=(MetricRecord("accepted"),)), EDGES_MS, "that which decides"),
        (ExperimentPlan(secondary=(MetricRecord("revenue"),)), EDGES_MS, r"secondary\.kind"),
        (ExperimentPlan(secondary=(MetricRecord("latency_quantile"),)), EDGES_MS, r"secondary\.quantile"),
        (ExperimentPlan(secondary=(MetricRecord("ratio", numerator=("refused", "accepted")),)), EDGES_MS, "numerator"),
        (
            ExperimentPlan(
                secondary=tuple(MetricRecord("latency_quantile", n / 10) for n in range(1, SECONDARY_MAX + 2))
            ),
            EDGES_MS,
            f"at most {SECONDARY_MAX}",
        ),
    ],
)
def test_metrics_that_reports_cannot_answer_are_refused(
    plan: ExperimentPlan, edges_ms: tuple[float, ...], why: str
) -> None:
    """Beforehand, with what there is."""
    with pytest.raises(InvalidFieldError, match=why):
        validate_secondary(record(plan, edges_ms))


def test_a_metric_reads_the_outcome_that_stands_for_its_group() -> None:
    """Where answers are counted as one, latency still has them; where errors and crashes are one, both together."""
    crashes_and_errors = MetricRecord("ratio", numerator=("error", "fallback"), denominator=())
    plan = ExperimentPlan(
        primary="ratio", numerator=("refused",), denominator=("refused", "error", "fallback"),
        denominator_share=0.5, secondary=(crashes_and_errors,),
    )  # fmt: skip
    experiment = replace(record(plan, edges_ms=()), started_at_s=1)
    validate_secondary(experiment)
    task = task_of(experiment)
    assert task.cell_count == 6
    views = make_views(experiment, Reports.of_cells(task, [5000, 4000, 1000, 5000, 4000, 1000], 1))
    assert [each.value for each in views.secondary] == [0.0]
    with pytest.raises(InvalidFieldError, match="error or fallback"):
        validate_secondary(
            replace(experiment, plan=replace(plan, secondary=(MetricRecord("ratio", numerator=("error",)),)))
        )


def test_latency_is_read_beside_a_latency_that_decides() -> None:
    """Its reports count all answers as one, also those of which a user said nothing."""
    plan = ExperimentPlan(primary="latency_quantile", quantile=0.5, secondary=(MEAN,))
    experiment = replace(record(plan), started_at_s=1)
    validate_secondary(experiment)
    task = task_of(experiment)
    (difference,) = make_views(experiment, Reports.of_cells(task, [900, 300, 300, 900, 300, 300], 1)).secondary
    assert difference.value == 0.0


def test_secondary_metrics_are_compared_and_leave_the_decision_as_it_was() -> None:
    """The same reports with and without them."""
    rng = np.random.default_rng(8)
    plan = replace(GUARDED, secondary=(ERRORS, MEAN))
    experiment = replace(record(plan), started_at_s=1)
    validate_secondary(experiment)
    task = task_of(experiment)
    slow, fast = [3.0, 3.0, 3.0], [6.0, 2.0, 1.0]
    none = [0.0, 0.0, 0.0]
    cells = [[slow, slow, [1.0, 0.0, 0.0], none], [fast, fast, [1.0, 0.0, 0.0], none]]
    reports = Reports.of_cells(task, randomize(rng, experiment, cells, 400_000), 1)
    views = make_views(experiment, reports)
    assert [(each.metric, each.arm, each.versus) for each in views.secondary] == [(0, 1, 0), (1, 1, 0)]
    errors, mean = views.secondary
    assert errors.adjusted_p is not None
    assert errors.adjusted_p > 0.05
    assert mean.value is not None
    assert mean.value < -1.0
    assert mean.adjusted_p is not None
    assert mean.adjusted_p < 0.001
    assert not views.is_at_horizon
    plain = replace(experiment, plan=GUARDED)
    assert evaluate(plain, reports).decision == evaluate(experiment, reports).decision
    assert make_views(plain, reports).secondary == ()
