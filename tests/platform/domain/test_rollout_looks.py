"""A stage is found safe at the ends of windows up to its horizon, harm at any time; stages are read together."""

from dataclasses import replace

import numpy as np
import pytest
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import (
    AnalysisRecord,
    GuardrailRecord,
    RolloutPlan,
    Stage,
    StageDecisionKind,
)
from alcove.platform.domain.rollouts.analysis import AnalysisResult, StageCounts, analyze
from alcove.platform.domain.rollouts.decide import decide
from alcove.platform.domain.rollouts.looks import (
    EARLY_PART,
    MAX_LOOKS,
    begin_stage,
    default_horizon_windows,
    due_windows,
    early_windows,
    harm_planned_reports,
)
from alcove.platform.domain.rollouts.machine import Action, transition
from alcove.platform.domain.rollouts.plan import validate_plan, validate_update
from alcove.platform.stats import Aggregate, GuardKind
from alcove.registry.policy import Aggregation, Outcome

DAY = 86_400
START = 10 * DAY
AGGREGATION = Aggregation(
    leader_url="https://sums.example.com",
    helper_url="https://helper.other.example",
    min_batch_size=200,
)
PLAN = validate_plan(
    RolloutPlan(
        stages=(Stage(100, 0, 500), Stage(1000, 0, 500), Stage(5000, 0, 500)),
        guardrails=(GuardrailRecord("crash_fallback", 0.005),),
        epsilon="2",
    )
)


def begin(plan: RolloutPlan = PLAN) -> RolloutRecord:
    """A rollout at its first stage."""
    draft = RolloutRecord(
        1, "ro-1", "app", "f", "2.0.0", "0" * 64, "salt", RolloutState.DRAFT, 0, START, START, 0, plan=plan
    )
    return advance(draft, START)


def advance(rollout: RolloutRecord, now_s: int) -> RolloutRecord:
    """The same at its next stage."""
    return transition(rollout, Action.ADVANCE, now_s=now_s)


def counts(devices: int, crashed: tuple[float, float], *, deviation: float = 20.0) -> StageCounts:
    """Reports of groups of so many devices, control and treatment, with noise of this deviation in each cell."""
    estimates = np.zeros((2, len(Outcome), 1))
    for arm, rate in enumerate(crashed):
        estimates[arm, Outcome.FALLBACK], estimates[arm, Outcome.ACCEPTED] = rate * devices, (1.0 - rate) * devices
    return StageCounts(Aggregate(estimates, np.eye(estimates.size) * deviation**2, 2 * devices), 1)


def look(rollout: RolloutRecord, *given: StageCounts, days: float) -> tuple[RolloutRecord, AnalysisResult]:
    """Analyze so many days after the present stage began; return the rollout with what is kept of it."""
    result = analyze(rollout, [[each] for each in given], now_s=rollout.stage_started_at_s + round(days * DAY))
    return replace(rollout, evidence=replace(rollout.evidence, looks=result.looks)), result


def kinds(result: AnalysisResult) -> list[str]:
    """What the guardrails say."""
    return [str(verdict.kind) for verdict in result.verdicts]


def test_a_stage_is_found_safe_at_the_end_of_a_window_and_that_stands_until_the_next() -> None:
    """Before the first window is over nothing is asked; what a look said outlives reports that say less."""
    rollout, safe = begin(), counts(200_000, (0.001, 0.001))
    rollout, early = look(rollout, safe, days=0.5)
    assert (kinds(early), early.looks, early.is_past_horizon) == (["inconclusive"], (), False)
    assert early.next_look_at_s == START + DAY - 300
    assert early.horizon_at_s == START + 4 * DAY - 300
    rollout, first = look(rollout, safe, days=1.0)
    assert (kinds(first), len(first.looks)) == (["safe"], 1)
    rollout, between = look(rollout, counts(200_000, (0.001, 0.005)), days=1.9)
    assert (kinds(between), between.looks) == (["safe"], first.looks)
    assert between.verdicts[0].high == first.verdicts[0].high
    rollout, second = look(rollout, counts(200_000, (0.001, 0.0055)), days=2.0)
    assert (kinds(second), len(second.looks)) == (["inconclusive"], 2)


def test_harm_is_found_between_looks_and_after_the_last() -> None:
    """It is asked whenever somebody reads; a look that said safe does not hide it."""
    rollout, _ = look(begin(), counts(200_000, (0.001, 0.001)), days=1.0)
    rollout, harmed = look(rollout, counts(400_000, (0.001, 0.02)), days=1.5)
    assert kinds(harmed) == ["harmful"]
    rollout, _ = look(rollout, counts(400_000, (0.001, 0.006)), days=4.0)
    assert kinds(look(rollout, counts(900_000, (0.001, 0.02)), days=9.0)[1]) == ["harmful"]


def test_harm_is_found_sooner_by_the_looks_of_the_first_two_days() -> None:
    """The same reports call nothing on the first day or the third, in a later stage or at any time; K3 and K4."""
    given = counts(60_000, (0.001, 0.0075))  # two and a half standard errors above the margin
    rollout = begin()
    assert (rollout.evidence.stages[0].early_windows, rollout.evidence.early_part) == (2, EARLY_PART)
    rollout, first = look(rollout, given, days=1.0)
    assert kinds(first) == ["inconclusive"]
    rollout, second = look(rollout, given, days=2.0)
    assert kinds(second) == ["harmful"]
    rollout, between = look(rollout, counts(60_000, (0.001, 0.007)), days=2.5)
    assert (kinds(between), between.verdicts[0].low) == (["harmful"], second.verdicts[0].low)
    rollout, third = look(rollout, given, days=3.0)
    assert kinds(third) == ["inconclusive"]

    for elsewhere in (advance(begin(), START), begin(validate_plan(replace(PLAN, is_open_ended=True)))):
        alone = replace(elsewhere, evidence=replace(elsewhere.evidence, stages=elsewhere.evidence.stages[-1:]))
        assert alone.evidence.stages[0].early_windows == 0
        assert kinds(look(alone, given, days=2.0)[1]) == ["inconclusive"]


def test_a_look_that_is_late_is_the_last_early_one() -> None:
    """A server that was off for the first two days spends what is left of the early error on the third."""
    given = counts(60_000, (0.001, 0.0075))
    rollout, found = look(begin(), given, days=3.2)
    assert (kinds(found), [each.windows for each in found.looks]) == (["harmful"], [3])
    assert kinds(look(rollout, given, days=4.0)[1]) == ["inconclusive"]


def test_early_windows_are_those_of_two_days_and_one_at_least() -> None:
    """Windows of six hours, of a day and of a week; no more than the stage has."""
    assert [early_windows(window_s, 90) for window_s in (DAY // 4, DAY, 7 * DAY)] == [8, 2, 1]
    assert early_windows(3600, 30) == 30


def test_after_the_horizon_the_stage_is_held_and_says_what_a_person_can_do() -> None:
    """However many reports come later; a late server makes one look of what is there."""
    rollout, unsure = begin(), counts(3_000, (0.001, 0.004))
    rollout, last = look(rollout, unsure, days=7.3)
    assert (len(last.looks), last.next_look_at_s, last.is_past_horizon) == (1, 0, True)
    rollout, later = look(rollout, counts(900_000, (0.001, 0.001)), days=9.0)
    assert later.looks == last.looks
    decision = decide(rollout, later, now_s=START + 9 * DAY)
    assert (decision.kind, decision.code) == (StageDecisionKind.HOLD, "past_horizon")
    assert "advance with a reason, roll back" in decision.reason


def test_an_open_ended_rollout_is_safe_at_any_time_and_needs_more_for_it() -> None:
    """No looks, no horizon; the bound of the same reports is wider than that of the last look."""
    rollout = begin(validate_plan(replace(PLAN, is_open_ended=True)))
    _, found = look(rollout, counts(200_000, (0.001, 0.001)), days=0.1)
    assert (kinds(found), found.looks, found.horizon_at_s) == (["safe"], (), 0)
    _, planned = look(begin(), counts(200_000, (0.001, 0.001)), days=4.0)
    assert found.verdicts[0].high is not None
    assert planned.verdicts[0].high is not None
    assert planned.verdicts[0].high < found.verdicts[0].high


def test_stages_are_read_together_and_sizes_of_the_present_one_alone() -> None:
    """What an earlier stage reported narrows the bound of harm."""
    rollout = advance(begin(), START + DAY)
    first, second = counts(20_000, (0.002, 0.005), deviation=40.0), counts(60_000, (0.002, 0.002), deviation=70.0)
    _, found = look(rollout, first, second, days=0.5)
    assert (found.stages, found.reports, found.pooled_reports) == (2, 120_000, 160_000)
    difference, low = found.verdicts[0].difference, found.verdicts[0].low
    alone = replace(rollout, evidence=replace(rollout.evidence, stages=rollout.evidence.stages[1:]))
    _, only = look(alone, second, days=0.5)
    assert found.devices == only.devices
    assert difference is not None
    assert low is not None
    assert only.verdicts[0].low is not None
    assert 0.0 < difference < 0.001
    assert difference - low < -only.verdicts[0].low


def test_a_stage_whose_reports_were_not_believed_is_not_read_later() -> None:
    """Impossible counts, or groups that do not have their sizes: a person went on, without what they say."""
    for kind, code in (
        (StageDecisionKind.ALARM, "impossible_reports"),
        (StageDecisionKind.HOLD, "sample_ratio_mismatch"),
    ):
        seen = AnalysisRecord(START, kind, code, "", 1, (), ())
        assert [each.stage for each in advance(replace(begin(), analysis=seen), START + DAY).evidence.stages] == [2]
    assert [each.stage for each in advance(begin(), START + DAY).evidence.stages] == [1, 2]


def test_edits_of_later_stages_change_nothing_of_what_the_same_reports_say() -> None:
    """Audited: a lower bound of 0.00471 became 0.00565, above the margin, when the stages to come were dropped."""
    rollout = begin()
    given = counts(60_000, (0.001, 0.0076))
    _, before = look(rollout, given, days=0.5)
    assert before.verdicts[0].low is not None
    assert 0.0045 < before.verdicts[0].low < 0.005
    for stages in (PLAN.stages[:1], (*PLAN.stages[:2], Stage(9000, 0, 500), Stage(9900, 0, 500)), PLAN.stages[:1]):
        plan = validate_plan(replace(rollout.plan, stages=stages, expected_devices=10**8, horizon_windows=9))
        validate_update(rollout, plan)
        rollout = replace(rollout, plan=plan)
        assert look(rollout, given, days=0.5)[1] == before
    assert advance(replace(begin(), plan=plan), START).evidence.planned_reports == begin().evidence.planned_reports


def test_the_horizon_is_what_a_budget_of_thirty_days_pays_for() -> None:
    """Reports of epsilon 2 on four days, of 1 on eight; in windows of an hour until the last of them is paid."""
    assert [default_horizon_windows(epsilon, DAY) for epsilon in ("2", "1", "0.5", "0.1")] == [4, 8, 16, 30]
    assert default_horizon_windows("2", 3600) == 3 * 24 + 1
    assert default_horizon_windows("2", 40 * DAY) == 1


def test_looks_are_at_most_twenty_and_the_last_is_at_the_horizon() -> None:
    """A long horizon in short windows is looked at in even steps."""
    plan = validate_plan(replace(PLAN, window_s=3600, horizon_windows=90))
    rollout, windows = begin(plan), []
    for hour in range(1, 120):
        before = len(rollout.evidence.looks)
        rollout, _ = look(rollout, counts(1_000 * hour, (0.001, 0.003)), days=hour / 24)
        windows += [each.windows for each in rollout.evidence.looks[before:]]
    assert windows == sorted({*range(5, 91, 5), 48})  # two days are over after 48
    assert len(windows) <= MAX_LOOKS


def test_collected_windows_count_where_aggregators_add_up() -> None:
    """A window is collected after its end; one that is given up is waited for two weeks and no longer."""
    plan = validate_plan(replace(PLAN, aggregation=AGGREGATION, epsilon="1"))
    stage = begin_stage(plan, 1, started_at_s=START)

    def due(days: int, collected: int) -> int | None:
        return due_windows(plan, stage, (), now_s=START + days * DAY, collected=collected)

    assert [due(3, 0), due(3, 2), due(12, 7), due(30, 7)] == [None, 2, 7, 16]


def test_tests_are_sharpest_where_the_plan_expects_reports() -> None:
    """Devices of the first watched stage times its windows, and those of all stages; else from their cohorts."""
    sized = replace(PLAN, expected_devices=1_000_000)
    assert begin_stage(sized, 1, started_at_s=0).planned_reports == 20_000 * 4
    assert begin_stage(sized, 3, started_at_s=0).planned_reports == 1_000_000 * 4
    assert harm_planned_reports(sized) == (80_000, (80_000 + 800_000 + 4_000_000) // 2)
    assert harm_planned_reports(replace(sized, stages=sized.stages[:1])) == (80_000, 80_000)
    assert harm_planned_reports(PLAN) == (2 * 4 * 4 * 500, 3 * 4 * 4 * 500)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"horizon_windows": 91}, "horizon_windows"),
        ({"horizon_windows": -1}, "horizon_windows"),
        ({"horizon_windows": 3, "is_open_ended": True}, "horizon_windows"),
        ({"expected_devices": -1}, "expected_devices"),
        ({"expected_devices": 10**11}, "expected_devices"),
    ],
)
def test_a_plan_out_of_its_bounds_is_refused(change: dict[str, int], field: str) -> None:
    """Typed, with the field."""
    with pytest.raises(InvalidFieldError, match=field):
        validate_plan(replace(PLAN, **change))  # type: ignore[arg-type]


def test_verdicts_of_no_reports_hold() -> None:
    """Nothing came by the end of a window: no look is spent on it."""
    rollout, found = look(begin(), counts(0, (0.0, 0.0), deviation=0.0), days=2.0)
    assert (found.looks, [verdict.kind for verdict in found.verdicts]) == ((), [GuardKind.INCONCLUSIVE])
    assert decide(rollout, found, now_s=START + 2 * DAY).code == "no_reports"
