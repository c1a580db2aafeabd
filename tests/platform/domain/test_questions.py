"""Questions: devices are asked all guardrails at once or share them out, by what needs the fewest devices."""

from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, Question, RolloutPlan, Stage
from alcove.platform.domain.rollouts.analysis import StageCounts, analyze
from alcove.platform.domain.rollouts.machine import Action, transition
from alcove.platform.domain.rollouts.plan import validate_plan, validate_update
from alcove.platform.domain.rollouts.questions import SAFE_POWER, SAFE_SCORE, choose_questions, devices_needed
from alcove.platform.domain.rollouts.task import stage_tasks, tasks_of
from alcove.platform.stats import Aggregate, GuardKind, aggregate_from_randomized_response
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import Aggregation, Outcome, TaskPolicy

CRASH = GuardrailRecord("crash_fallback", 0.005)
ERROR = GuardrailRecord("error", 0.01)
REFUSED = GuardrailRecord("refused", 0.02)
SLOW = GuardrailRecord("latency", 20.0, 0.95)
ALL = (CRASH, ERROR, REFUSED, SLOW)
EDGES_MS = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0)
NOW_S = 100_000
PAIR = Aggregation(leader_url="https://leader.example", helper_url="https://helper.example", min_batch_size=100)


def plan(*guardrails: GuardrailRecord, **changes: Any) -> RolloutPlan:
    """One stage of a half, with these guardrails."""
    edges_ms = EDGES_MS if SLOW in guardrails else ()
    found = RolloutPlan((Stage(5000, 0, 100),), guardrails, epsilon="2", latency_edges_ms=edges_ms)
    return replace(found, **changes)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
@pytest.mark.parametrize("guardrails", [(CRASH,), (CRASH, ERROR), (CRASH, REFUSED), (CRASH, SLOW), ALL])
def test_the_choice_is_a_partition_that_is_never_worse_than_one_question(
    guardrails: tuple[GuardrailRecord, ...], epsilon: str
) -> None:
    """Each metric is in one question, shares are whole and add up, and splitting saves a tenth at least."""
    asked = plan(*guardrails, epsilon=epsilon)
    questions = choose_questions(asked)
    together = (Question(tuple(guardrail.metric for guardrail in guardrails)),)
    assert sorted(metric for question in questions for metric in question.metrics) == sorted(together[0].metrics)
    assert sum(question.share_basis_points for question in questions) == 10_000
    before, after = (devices_needed(asked, each, Behavior()) for each in (together, questions))
    assert after == before if questions == together else after < 0.9 * before
    tasks = tasks_of("ro-1", replace(asked, questions=questions), 0)
    assert [task.share_basis_points for task in tasks] == [question.share_basis_points for question in questions]


def test_four_guardrails_by_small_reports_need_fewer_devices() -> None:
    """52 cells in one report, by sets of them; apart 6 to 18 each, the narrowest margin asked of most devices."""
    asked = plan(*ALL)
    (everything,) = tasks_of("ro-1", asked, 0)
    questions = choose_questions(asked)
    cells = [task.cell_count for task in tasks_of("ro-1", replace(asked, questions=questions), 0)]
    assert (everything.cell_count, max(cells)) == (52, 18)
    together = (Question(tuple(guardrail.metric for guardrail in ALL)),)
    assert devices_needed(asked, together, Behavior()) > 1.3 * devices_needed(asked, questions, Behavior())
    assert "crash_fallback" in max(questions, key=lambda question: question.share_basis_points).metrics


def test_the_devices_needed_is_that_of_the_closed_form() -> None:
    """A crash guardrail alone: sampling and randomized response of two groups of two cells, over the squared margin."""
    mechanism = RandomizedResponse(4, Fraction(2))
    keep, other = mechanism.keep_probability, mechanism.other_probability
    rate, gap = 0.001, keep - other
    residuals = np.array([2 * (0 - rate), 2 * (1 - rate), -2 * (0 - rate), -2 * (1 - rate)])
    cells = np.array([1 - rate, rate, 1 - rate, rate]) / 2
    chances = np.full((4, 4), float(other)) + np.eye(4) * float(gap)
    noise = (cells * (chances @ residuals**2 - (chances @ residuals) ** 2)).sum() / float(gap) ** 2
    expected = (4 * rate * (1 - rate) + noise / 4) / 0.005**2  # four windows of epsilon 2 in 30 days
    expected *= (NormalDist().inv_cdf(SAFE_POWER) + SAFE_SCORE) ** 2
    whole = (Question(("crash_fallback",)),)
    assert devices_needed(plan(CRASH), whole, Behavior(crash_fallback=rate)) == pytest.approx(expected, rel=1e-4)
    half = (Question(("crash_fallback",), 5000),)
    assert devices_needed(plan(CRASH), half, Behavior(crash_fallback=rate)) == pytest.approx(2 * expected, rel=1e-4)


def test_aggregators_ask_every_device_everything() -> None:
    """Their noise is that of a window, whoever reports; so is a plan without guardrails."""
    assert len(choose_questions(plan(*ALL, aggregation=PAIR))) == 1
    assert choose_questions(plan()) == ()


def test_the_plan_keeps_its_questions_once_it_has_begun() -> None:
    """Validation fills them in, keeps those that are there, and refuses others for what runs."""
    made = validate_plan(plan(CRASH, SLOW))
    assert made.questions == choose_questions(made) != ()
    one = (Question(("crash_fallback", "latency")),)
    assert validate_plan(replace(made, questions=one)).questions == one
    with pytest.raises(InvalidFieldError, match="unchanged"):
        validate_update(running(made), replace(made, questions=one))


def running(asked: RolloutPlan) -> RolloutRecord:
    """A rollout at its first stage."""
    draft = RolloutRecord(
        sequence=1, rollout_id="ro-1", app="app", feature="f", version="2.0.0", manifest_sha256="2" * 64, salt="s",
        state=RolloutState.DRAFT, share_basis_points=0, created_at_s=NOW_S, updated_at_s=NOW_S, policy_serial=1,
        plan=asked,
    )  # fmt: skip
    return transition(draft, Action.ADVANCE, now_s=NOW_S)


def collect(task: TaskPolicy, arms: tuple[Behavior, Behavior], devices: int) -> StageCounts:
    """What a task's part of so many devices a group is expected to report, randomized."""
    true = np.concatenate([np.array(each.cells(task)) for each in arms]) * devices * task.share_basis_points / 10_000
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    counts = np.rint(true.sum() * other + (keep - other) * true).astype(int).tolist()
    return StageCounts(aggregate_from_randomized_response(counts, task.layout, epsilon=task.epsilon_fraction), 1)


def test_each_guardrail_is_read_from_the_question_that_has_it() -> None:
    """Harm in one metric is found by its own question's reports, and the groups' sizes come from all of them."""
    rollout = running(validate_plan(plan(CRASH, ERROR, REFUSED, SLOW)))
    tasks = stage_tasks(rollout)
    assert len(tasks) > 1
    sound, failing = Behavior(), Behavior(refused=0.35)
    found = analyze(rollout, [[collect(task, (sound, failing), 4_000_000) for task in tasks]], now_s=NOW_S)
    kinds = [verdict.kind for verdict in found.verdicts]
    assert kinds[2] is GuardKind.HARMFUL
    assert GuardKind.HARMFUL not in (kinds[0], kinds[1], kinds[3])
    assert found.verdicts[2].difference == pytest.approx(0.15, abs=1e-3)
    assert found.reports == pytest.approx(8_000_000, abs=100)
    assert found.devices == pytest.approx((4_000_000, 4_000_000), rel=1e-3)
    assert (found.mismatch, found.alarm) == ("", "")


def test_an_impossible_count_of_any_question_is_an_alarm() -> None:
    """One cell named again and again, in the smallest of the questions."""
    rollout = running(validate_plan(plan(CRASH, SLOW)))
    tasks = stage_tasks(rollout)
    large, small = (collect(task, (Behavior(), Behavior()), 1_000_000) for task in tasks)
    counts = [0] * tasks[1].cell_count
    counts[tasks[1].cell_index(1, Outcome.REFUSED, 0.0)] = 100_000
    forged = aggregate_from_randomized_response(counts, tasks[1].layout, epsilon=tasks[1].epsilon_fraction)
    assert analyze(rollout, [[large, small]], now_s=NOW_S).alarm == ""
    assert "estimate of" in analyze(rollout, [[large, replace(small, aggregate=forged)]], now_s=NOW_S).alarm


def test_a_group_that_is_missing_in_all_questions_is_a_mismatch() -> None:
    """Sample ratio over all questions together: exact counts of groups of 55 and 45 in a hundred."""
    rollout = running(validate_plan(plan(CRASH, SLOW)))
    collected = []
    for task in stage_tasks(rollout):
        arms = [np.array(Behavior().cells(task)) * devices for devices in (55_000, 45_000)]
        full = task.layout.expand(np.rint(np.concatenate(arms)))
        full = full.reshape(*full.shape[:2], -1)
        exact = Aggregate(full, np.zeros((full.size, full.size)), int(full.sum()))
        collected.append(StageCounts(exact, 1))
    assert "control should send 0.5000" in analyze(rollout, [collected], now_s=NOW_S).mismatch
