"""Experiments that a team's own metric decides, or that show one beside what decides."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.cli.report.cells import table_of
from alcove.platform.client import ExperimentReport
from alcove.platform.client.models import value_of
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord
from alcove.platform.domain.experiments.analysis import ExperimentResults, evaluate
from alcove.platform.domain.experiments.own_guardrails import validate_own
from alcove.platform.domain.experiments.plan import make_plan
from alcove.platform.domain.experiments.secondary import validate_secondary
from alcove.platform.domain.experiments.task import task_of, tasks_of
from alcove.platform.domain.experiments.views import make_views
from alcove.platform.domain.metric_definitions import MetricDefinition, validate_metric
from alcove.platform.domain.own_metrics import OwnGuardrail, OwnQuestion
from alcove.platform.domain.records import ArmRecord, ExperimentRecord
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.server.experiment_convert import experiment_message, results_message
from alcove.platform.server.experiment_views import bayesian_message, cells_message, secondary_view_message
from alcove.platform.stats import GuardKind, ReasonCode
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.metric import MetricKind

from tests.platform.domain.test_experiment_plans import record

EDITS = MetricDefinition(0, "f", "undone_edits", 0, MetricKind.COUNT, (3.0,), 0.0, False, "keyboard", "edits undone")
KEPT = replace(EDITS, name="kept", kind=MetricKind.SHARE, edges=(0.5,), more_is_better=True)
MINUTES = replace(EDITS, name="minutes", kind=MetricKind.VALUE, edges=(5.0,), more_is_better=True)
ASKED_EDITS, ASKED_KEPT, ASKED_MINUTES = (
    validate_metric(replace(each, version=1)).planned for each in (EDITS, KEPT, MINUTES)
)
FEW, MANY, NONE = (0.8, 0.15, 0.05), (0.5, 0.3, 0.2), (1.0, 0.0, 0.0)
HALF = (0.4, 0.3, 0.3)
BINS = (("0", "0.0"), ("1", "1.5"), ("2", "3.5"))
BY_EDITS = ExperimentPlan(primary="metric", own_primary=ASKED_EDITS)


def start(plan: ExperimentPlan, *, arms: int = 2) -> ExperimentRecord:
    """A started experiment of equal arms, the first the control, with what its plan needs."""
    draft = record(plan, ())
    share = 10_000 // arms
    sides = tuple(ArmRecord(f"arm-{n}", f"{n + 1}.0.0", f"{n}" * 64, share) for n in range(arms))
    draft = replace(draft, arms=sides, epsilon="2", started_at_s=1000)
    validate_own(draft)
    planned = replace(draft, plan=make_plan(draft, task_of(draft)), task_id=task_of(draft).task_id)
    validate_secondary(planned)
    return planned


def counts_of(task: TaskPolicy, arms: Sequence[Sequence[float]], devices: int) -> tuple[int, ...]:
    """What devices of each arm are expected to say, by randomized response."""
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    true = [devices * share for arm in arms for share in arm]
    return tuple(round(number * keep + (sum(true) - number) * other) for number in true)


def read(record: ExperimentRecord, *reports: tuple[Sequence[Sequence[float]], int]) -> Reports:
    """Reports of each task: shares of the cells of each arm, and devices of an arm."""
    first, *others = (
        Reports.of_cells(task, counts_of(task, arms, devices), 1)
        for task, (arms, devices) in zip(tasks_of(record), reports, strict=True)
    )
    return replace(first, others=tuple(others))


def show(experiment: ExperimentRecord, reports: Reports) -> ExperimentReport:
    """What a client gets."""
    results = results_message(experiment, evaluate(experiment, reports))
    views = make_views(experiment, reports, with_cells=True)
    assert views.cells is not None
    results.bayesian.CopyFrom(bayesian_message(views.bayesian))
    results.secondary.CopyFrom(secondary_view_message(views))
    results.cells.CopyFrom(cells_message(views.cells))
    return value_of(ExperimentReport, pb.GetResultsResponse(experiment=experiment_message(experiment), results=results))


def mean(shares: Sequence[float], values: Sequence[float] = (0.0, 1.5, 3.5)) -> float:
    """Mean of the bins' values."""
    return float(np.dot(shares, values))


def test_the_first_task_asks_for_the_metric_that_decides_and_outcomes_only_where_something_reads_them() -> None:
    """One task of its bins; with a guardrail of every feature a second one, each of half of the devices."""
    alone = start(BY_EDITS)
    (task,) = tasks_of(alone)
    assert task.metric == ASKED_EDITS.terms
    assert (task.cell_count, task.share_basis_points, alone.task_id) == (6, 10_000, task.task_id)
    plan = replace(
        BY_EDITS, guardrails=(GuardrailRecord("error", 0.01),), own_questions=(OwnQuestion(ASKED_KEPT, 1000),)
    )
    made = start(plan)
    names = [task.metric and task.metric.name for task in tasks_of(made)]
    assert names == ["undone_edits", None, "kept"]
    assert [task.share_basis_points for task in tasks_of(made)] == [4500, 4500, 1000]


def test_the_arm_with_the_better_mean_wins_and_everything_that_is_shown_is_in_the_metrics_unit() -> None:
    """Fewer undone edits are better: difference, lift, posterior, means of arms, cells and their weights."""
    experiment = start(BY_EDITS)
    reports = read(experiment, ((MANY, FEW), 50_000))
    results = evaluate(experiment, reports)
    assert results.verdict.winner == 1
    assert "arm 1 is better in undone_edits than the other arm by at least" in results.verdict.reason
    found = show(experiment, reports)
    assert found.experiment.primary.metric == "undone_edits"
    assert found.experiment.primary.metric_version == 1
    (pair,) = found.results.pairs
    assert pair.difference.value == pytest.approx(mean(FEW) - mean(MANY), abs=1e-3)
    assert pair.p_value is not None
    assert pair.p_value < 0.001
    assert pair.lift is not None
    assert pair.lift.value == pytest.approx(mean(FEW) / mean(MANY) - 1.0, abs=1e-3)
    old, new = found.results.arms
    assert old.own_metric is not None
    assert new.own_metric is not None
    assert old.own_metric.value == pytest.approx(mean(MANY), abs=1e-3)
    assert new.own_metric.value == pytest.approx(mean(FEW), abs=1e-3)
    assert old.accepted.value is old.latency_ms.value is None
    view = found.results.bayesian
    assert view.prior.startswith("uniform on [0, 3.5]")
    assert view.arms[1].chance_best > 0.999
    assert view.differences[0].difference.mean == pytest.approx(mean(FEW) - mean(MANY), abs=2e-3)
    table = table_of(found).splitlines()
    assert table[0].endswith("numerator_weight,denominator_weight,metric_bin,note")
    assert [line.rsplit(",", 4)[1:] for line in table[1:4]] == [
        ["0.0", "1.0", "0", ""],
        ["1.5", "1.0", "1", ""],
        ["3.5", "1.0", "2", ""],
    ]


def test_a_share_leaves_out_who_recorded_nothing_and_the_higher_one_wins() -> None:
    """Half of one arm's devices record nothing: its share is that of the others."""
    experiment = start(ExperimentPlan(primary="metric", own_primary=ASKED_KEPT))
    results = evaluate(experiment, read(experiment, (((0.2, 0.4, 0.4), (0.6, 0.05, 0.35)), 100_000)))
    (pair,) = results.comparison.primary_pairs
    assert pair.value == pytest.approx((0.05 * 0.25 + 0.35 * 0.75) / 0.4 - 0.5, abs=1e-3)
    assert results.verdict.winner == 1


def test_an_arm_has_to_beat_every_other_one() -> None:
    """Of three arms two are better than the control and alike: nobody wins; then one is best."""
    experiment = start(BY_EDITS, arms=3)
    tied = evaluate(experiment, read(experiment, ((MANY, FEW, FEW), 100_000)))
    assert tied.verdict.code is ReasonCode.INTERVAL_INCLUDES_ZERO
    best = evaluate(experiment, read(experiment, ((MANY, HALF, FEW), 100_000)))
    assert best.verdict.winner == 2


def test_secondary_metrics_are_read_from_the_tasks_that_ask_for_them() -> None:
    """One of outcomes beside an own primary, own ones beside outcomes; adjusted together."""
    plan = replace(
        BY_EDITS, guardrails=(GuardrailRecord("refused", 0.02),), own_questions=(OwnQuestion(ASKED_KEPT, 2000),),
        secondary=(MetricRecord("accepted"), MetricRecord("metric", own=ASKED_KEPT)),
    )  # fmt: skip
    experiment = start(plan)
    reports = read(
        experiment, ((FEW, FEW), 80_000), (((0.4, 0.6), (0.2, 0.8)), 80_000), ((HALF, (0.4, 0.1, 0.5)), 40_000)
    )
    accepted, kept = make_views(experiment, reports).secondary
    assert (accepted.metric, kept.metric) == (0, 1)
    assert accepted.value == pytest.approx(0.2, abs=1e-3)
    assert kept.value == pytest.approx(0.5 / 0.6 * 0.75 + 0.1 / 0.6 * 0.25 - 0.5, abs=2e-3)
    assert kept.p is not None
    assert kept.adjusted_p is not None
    assert kept.p <= kept.adjusted_p < 0.05
    assert evaluate(experiment, reports).verdict.winner is None


def test_a_guardrail_of_every_feature_holds_back_a_winner_by_an_own_metric() -> None:
    """It is read from the task of outcomes, which is not the one that decides."""
    experiment = start(replace(BY_EDITS, guardrails=(GuardrailRecord("refused", 0.02),)))
    sound = evaluate(experiment, read(experiment, ((MANY, FEW), 50_000), (((0.2, 0.8),) * 2, 400_000)))
    assert (sound.verdict.winner, sound.verdicts[0][0].kind) == (1, GuardKind.SAFE)
    harms = evaluate(experiment, read(experiment, ((MANY, FEW), 50_000), (((0.2, 0.8), (0.4, 0.6)), 400_000)))
    assert (harms.verdict.winner, harms.verdict.code) == (None, ReasonCode.GUARDRAIL)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"secondary": (MetricRecord("metric", own=ASKED_KEPT),)}, r"--question metric:kept:20%"),
        ({"secondary": (MetricRecord("latency_mean"),)}, r"--guard error:1%"),
        ({"secondary": (MetricRecord("metric", own=ASKED_EDITS),)}, "other metrics than that which decides"),
        ({"own_guardrails": (OwnGuardrail(ASKED_EDITS, 0.1),)}, "other metrics than that which decides"),
        ({"own_questions": (OwnQuestion(ASKED_KEPT, 20),)}, "100 to 10000"),
        ({"own_questions": (OwnQuestion(ASKED_KEPT, 9950),)}, "leave each of 2 questions at least 100"),
        ({"own_questions": (OwnQuestion(ASKED_KEPT, 1000),) * 2}, "each metric once"),
        ({"less_is_better": True}, "less_is_better"),
        ({"mde": 3.5}, r"mde.*in \[0, 3.5\)"),
        ({"base_distribution": (0.5, 0.5)}, "3 parts of the devices"),
        ({"base_distribution": (0.5, 0.4, 0.2)}, "of sum 1"),
        ({"base_distribution": (1.0, 0.0, 0.0)}, "at least two bins"),
        ({"base_distribution": (math.nan, 0.5, 0.5)}, "of sum 1"),
        ({"base_rate": 0.2}, "base_distribution"),
        ({"pre_edges": (0.5,)}, "pre_edges"),
        ({"primary": "accepted"}, "own"),
        ({"own_primary": None}, "own"),
    ],
)
def test_what_no_task_answers_is_refused_with_what_to_do(changes: dict[str, Any], words: str) -> None:
    """The error names the field, the bound and the value."""
    with pytest.raises(InvalidFieldError, match=words):
        start(replace(BY_EDITS, **changes))


def test_more_questions_than_a_device_can_be_drawn_to_are_refused() -> None:
    """An own primary, outcomes for a guardrail, and three other metrics are five."""
    watched = tuple(OwnGuardrail(replace(ASKED_KEPT, name=name), 0.1) for name in ("kept", "one", "two"))
    with pytest.raises(InvalidFieldError, match="at most 4 questions"):
        start(replace(BY_EDITS, guardrails=(GuardrailRecord("error", 0.01),), own_guardrails=watched))


def verdict_of(experiment: ExperimentRecord, *reports: tuple[Sequence[Sequence[float]], int]) -> ExperimentResults:
    """What the reports say."""
    return evaluate(experiment, read(experiment, *reports))


def test_reports_that_say_nothing_have_a_stated_verdict() -> None:
    """None at all, all in one bin, and an arm without devices: never a winner, and the reason is said."""
    experiment = start(BY_EDITS)
    none = verdict_of(experiment, ((NONE, NONE), 0))
    assert (none.verdict.winner, none.verdict.code) == (None, ReasonCode.NO_REPORTS)
    mute = verdict_of(experiment, ((NONE, NONE), 100_000))
    assert (mute.verdict.winner, mute.verdict.code) == (None, ReasonCode.METRIC_SAYS_NOTHING)
    assert "is it recorded under this name?" in mute.verdict.reason
    last = verdict_of(experiment, (((0.0, 0.0, 1.0),) * 2, 100_000))
    assert "all reports are in the bin of 3.5" in last.verdict.reason
    empty = verdict_of(experiment, (((0.0, 0.0, 0.0), FEW), 100_000))
    assert (empty.verdict.winner, empty.verdict.code) == (None, ReasonCode.SAMPLE_RATIO_MISMATCH)
    assert make_views(experiment, read(experiment, (((0.0, 0.0, 0.0), FEW), 100_000))).bayesian.obstacle
    one_arm = verdict_of(experiment, ((MANY, NONE), 100_000))
    assert one_arm.verdict.winner == 1  # a failure that is gone; docs/metrics.md says what to watch beside it


def test_what_a_difference_needs_is_planned_in_the_metrics_unit() -> None:
    """The worst case by default; a stated spread needs fewer; questions for part of the devices need more of them."""
    plans = [
        start(replace(BY_EDITS, mde=0.1, expected_devices=500_000, **changes)).plan
        for changes in (
            {},
            {"base_distribution": (0.575, 0.2375, 0.1875)},
            {"own_questions": (OwnQuestion(ASKED_KEPT, 5000),)},
        )
    ]
    worst, stated, halved = (plan.devices_needed for plan in plans)
    assert 0 < stated < worst
    assert halved == pytest.approx(2 * worst, rel=0.001)
    assert 0.0 < plans[1].detectable < 0.1
