"""An experiment's dimension: a task for each value, results by value beside the decision, and what plans say of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import typer
from alcove.platform.cli.dimensions import one_dimension
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import BanditRecord, ExperimentPlan
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.dimension_view import compare_strata
from alcove.platform.domain.experiments.plan import make_plan, plan_primary
from alcove.platform.domain.experiments.questions import validate_dimension
from alcove.platform.domain.experiments.task import task_of, tasks_of
from alcove.platform.domain.experiments.views import make_views
from alcove.platform.domain.own_metrics import OwnMetric, OwnQuestion
from alcove.platform.domain.planning.experiment import forecast_experiment
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import Mechanism
from alcove.platform.stats.arm_covariance import ReportModel

from tests.platform.domain.test_experiment_plans import randomize, record
from tests.platform.domain.test_mechanism import AGGREGATION

BY_OS = ExperimentPlan(dimension="os=android,ios")
TAPS = OwnMetric("taps", 1)
LEVEL = [[[4.0], [6.0]], [[4.0], [6.0]]]
LIFT = [[[4.0], [6.0]], [[2.0], [8.0]]]
UNEVEN = [[[1.0], [1.0]], [[3.0], [3.0]]]
"""Refused and accepted answers in both arms: alike, one better, and one with three times the devices."""


def begin(plan: ExperimentPlan = BY_OS, **changes: object) -> ExperimentRecord:
    """A running experiment without latency bins."""
    return replace(record(plan, edges_ms=()), started_at_s=1, **changes)  # type: ignore[arg-type]


def collect(experiment: ExperimentRecord, *values: tuple[list[list[list[float]]], int], seed: int = 1) -> Reports:
    """Reports of each value, of arms with these shares and so many reports."""
    rng, plain = np.random.default_rng(seed), replace(experiment, plan=ExperimentPlan())
    strata = [
        Reports.of_cells(task, randomize(rng, plain, cells, count) if count else [0] * task.cell_count, 1)
        for task, (cells, count) in zip(tasks_of(experiment), values, strict=True)
    ]
    return Reports.of_strata(strata)


def test_the_deciding_question_has_a_task_for_each_value() -> None:
    """Own ids, the same terms and price; another question keeps one task for all."""
    experiment = begin()
    tasks = tasks_of(experiment)
    assert [task.stratum for task in tasks] == [0, 1, 2]
    assert len({task.task_id for task in tasks}) == 3
    assert {(task.epsilon, task.share_basis_points, task.cell_count) for task in tasks} == {("2", 10_000, 4)}
    assert tasks_of(begin(ExperimentPlan()))[0].stratum is None
    beside = begin(replace(BY_OS, own_questions=(OwnQuestion(TAPS, 2500),)))
    assert [(task.stratum, task.share_basis_points) for task in tasks_of(beside)] == [
        (0, 7500), (1, 7500), (2, 7500), (None, 2500),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("os=android,ios,web", "at most 3 values with 'other', beside 1 other questions, got"),
        ("os=android;app_version=2.0", "one dimension alone"),
        ("os=android,android", "share no device"),
        ("memory_mb=5000", "memory_mb from and below one of"),
        ("planet=mars", "no device has the attribute"),
    ],
)
def test_dimensions_without_room_or_meaning_are_refused(text: str, why: str) -> None:
    """Beside one other question two named values have room; memory is cut where devices are told apart."""
    plan = ExperimentPlan(dimension=text, own_questions=(OwnQuestion(TAPS, 2500),))
    with pytest.raises(InvalidFieldError, match=why) as refused:
        validate_dimension(plan)
    assert refused.value.field == "dimension"


def test_dimension_beside_a_bandit_is_refused() -> None:
    """Shares that move from window to window would have to be read by value and window."""
    with pytest.raises(InvalidFieldError, match="absent where a bandit"):
        validate_dimension(replace(BY_OS, bandit=BanditRecord(1000, 500)))


def test_two_dimensions_on_the_command_line_are_refused() -> None:
    """One is passed on as it is; of two none is chosen silently."""
    assert (one_dimension(None), one_dimension([""]), one_dimension(["os=ios"])) == (None, "", "os=ios")
    with pytest.raises(typer.BadParameter, match="one dimension"):
        one_dimension(["os=ios", "app_version=2.0"])


def test_all_values_together_read_as_one_task() -> None:
    """Estimates, noise, decision and guardrails are those of an experiment without a dimension and the same reports."""
    experiment = begin()
    reports = collect(experiment, (LIFT, 30_000), (LIFT, 20_000), (LIFT, 5_000))
    plain = begin(ExperimentPlan())
    whole = Reports.of_cells(task_of(plain), reports.counts, 1)
    found, expected = aggregate_of(reports), aggregate_of(whole)
    assert found.reports == expected.reports == 55_000
    np.testing.assert_allclose(found.estimates, expected.estimates, rtol=1e-12)
    np.testing.assert_allclose(found.noise_covariance, expected.noise_covariance, rtol=1e-9, atol=1e-6)
    decision = evaluate(experiment, reports).decision
    assert decision.kind == evaluate(plain, whole).decision.kind == "winner"
    assert reports.per_device == 1


def test_values_that_differ_are_shown_to_differ() -> None:
    """Better on one system alone: found there, not on the other, and heterogeneous; the decision is of all devices."""
    experiment = begin()
    reports = collect(experiment, (LIFT, 60_000), (LEVEL, 60_000), (LEVEL, 60_000))
    view = make_views(experiment, reports).dimension
    assert view is not None
    assert view.dimension == "os=android,ios"
    assert [(one.value, one.reports, one.obstacle) for one in view.strata] == [
        ("android", 60_000, ""), ("ios", 60_000, ""), ("other", 60_000, ""),
    ]  # fmt: skip
    android, ios, other = (one.differences[0] for one in view.strata)
    assert android.adjusted_p is not None
    assert android.adjusted_p < 1e-6
    assert android.low is not None
    assert android.low > 0.1
    for each in (ios, other):
        assert each.adjusted_p is not None
        assert each.adjusted_p > 0.05
    (heterogeneity,) = view.heterogeneity
    assert heterogeneity.p < 1e-6
    assert heterogeneity.degrees == 2
    assert evaluate(experiment, reports).decision.kind == "winner"


def test_values_of_too_few_reports_show_why_and_nothing_else() -> None:
    """None yet, fewer than the minimum cohort, and arms of other sizes than planned; the others are compared."""
    experiment = begin()
    reports = collect(experiment, (LEVEL, 50_000), (UNEVEN, 50_000), (LEVEL, 0))
    view = make_views(experiment, reports).dimension
    assert view is not None
    android, ios, other = view.strata
    assert android.differences
    assert (ios.differences, other.differences, view.heterogeneity) == ((), (), ())
    assert "share" in ios.obstacle
    assert "no report" in other.obstacle
    few = make_views(experiment, collect(experiment, (LEVEL, 50_000), (LEVEL, 120), (LEVEL, 0))).dimension
    assert few is not None
    assert "100" in few.strata[1].obstacle


@pytest.mark.thorough
def test_equal_values_are_called_different_in_few_experiments() -> None:
    """Of 200 experiments without any effect at most 5 % have a value below 0.05 after adjusting, within four errors."""
    experiment = begin()
    called = 0
    for seed in range(200):
        reports = collect(experiment, (LEVEL, 20_000), (LEVEL, 20_000), (LEVEL, 20_000), seed=seed)
        view = compare_strata(experiment, reports)
        assert view is not None
        adjusted = [each.adjusted_p for one in view.strata for each in one.differences]
        called += any(p is not None and p < 0.05 for p in adjusted)
    assert called <= 10 + 4 * (200 * 0.05 * 0.95) ** 0.5


def test_sums_of_values_carry_the_noise_of_each() -> None:
    """Aggregators add noise for each value; a value of which no window was released says so."""
    experiment = begin(replace(BY_OS, aggregation=AGGREGATION), epsilon="1")
    tasks = tasks_of(experiment)
    one = [Reports(task, (2000, 3000, 2000, 3000), 10_000, 2, released=10_000) for task in tasks]
    together = aggregate_of(Reports.of_strata(one))
    assert np.allclose(together.noise_covariance, 3 * aggregate_of(one[0]).noise_covariance)
    none = Reports(tasks[2], (0, 0, 0, 0), 0, 0)
    view = make_views(experiment, Reports.of_strata([one[0], one[1], none])).dimension
    assert view is not None
    assert view.strata[2].obstacle == "no window of at least 500 reports was released"
    assert view.strata[0].differences
    assert Reports.of_strata(one).per_device == one[0].per_device == 2


def test_plans_say_what_a_dimension_costs() -> None:
    """By aggregators each value adds its noise, and needs batches of its own; randomized reports cost nothing more."""
    asked = ExperimentPlan(mde=0.02, aggregation=AGGREGATION)
    drafts = [begin(replace(asked, dimension=text), epsilon="0.1") for text in ("", "os=android,ios")]
    errors = [plan_primary(draft, task_of(draft)).model.standard_error(1000) for draft in drafts]
    exact = plan_primary(drafts[0], task_of(drafts[0]), ReportModel(Mechanism.EXACT, Fraction(1))).model.standard_error(
        1000
    )
    noise = [error**2 - exact**2 for error in errors]
    assert noise[1] == pytest.approx(3 * noise[0])
    plain, split = (make_plan(draft, task_of(draft)).devices_needed for draft in drafts)
    assert split > plain
    batches = begin(replace(BY_OS, mde=0.5, aggregation=AGGREGATION), epsilon="1")
    assert make_plan(batches, task_of(batches)).devices_needed == 1500
    response = ExperimentPlan(mde=0.02, expected_devices=1_000_000)
    drafts = [begin(replace(response, dimension=text)) for text in ("", "os=android,ios")]
    same, apart = (make_plan(draft, task_of(draft)) for draft in drafts)
    assert replace(apart, dimension="") == same
    assert apart.dimension == "os=android,ios"


def test_plans_warn_of_values_with_too_few_devices() -> None:
    """Too few for the difference, too few for a batch; what a value needs is said."""
    few = replace(BY_OS, mde=0.2, expected_devices=1200, aggregation=AGGREGATION, interim_analyses=1)
    found = forecast_experiment(begin(few, epsilon="1", window_s=7 * 86_400))
    _, batch, difference = found.warnings
    assert batch.startswith("values may never be released: 400 of 1,200 devices in each of 3 values")
    assert difference.startswith("no value will show the difference by itself within 30 days: 400 of 1,200 devices")
    assert found.devices_needed_by_value == AGGREGATION.min_batch_size
    assert "no dimension" in [choice.change for choice in found.choices]
