"""A rollout's forecast agrees with the verdicts of simulated stages, says what holds for ever, and what would not."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.mechanism import report_model_of
from alcove.platform.domain.planning.choices import compare_choices
from alcove.platform.domain.planning.guardrails import guardrail_of
from alcove.platform.domain.planning.harm import harm_test
from alcove.platform.domain.planning.rollout import (
    HARM_POWER,
    SAFE_POWER,
    RolloutForecast,
    RolloutQuestion,
    count_text,
    forecast_rollout,
    schedule_reports,
)
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.plan import validate_plan
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.stats.guardrail_power import GuardrailModel, SafeTest
from alcove.privacy.limits import DAY_S

from benchmarks.statistics import guarded

CRASH, REFUSED = GuardrailRecord("crash_fallback", 0.005), GuardrailRecord("refused", 0.02)
FIRST, HALF = Stage(100, 0, 5_000), Stage(5_000, 0, 1_000)


def question(
    *guardrails: GuardrailRecord, devices: int = 0, epsilon: str = "2", stages: tuple[Stage, ...] = (FIRST,)
) -> RolloutQuestion:
    """A rollout that begins with one per cent."""
    plan = RolloutPlan(stages=stages, guardrails=guardrails, epsilon=epsilon, expected_devices=devices)
    return RolloutQuestion(validate_plan(plan))


def test_a_stage_with_the_devices_it_asks_for_finds_harm_and_safety_as_often_as_it_says() -> None:
    """Crashes and refusals in one report, 2,000 simulated stages: 95 % of harm in two days, 80 % of safety by each."""
    asked = question(CRASH, REFUSED)
    asked = replace(asked, plan=replace(asked.plan, questions=()))  # one report, as with small apps
    forecast = forecast_rollout(asked)
    task = task_of("ro-0", asked.plan, 0)
    assert (forecast.cells, forecast.horizon_windows, forecast.harm_windows) == (task.cell_count, 4, 2)
    rng = np.random.default_rng(20_271_120)
    (stage,) = forecast.stages
    for record, found in zip((CRASH, REFUSED), stage.guardrails, strict=True):
        guardrail = guardrail_of(record, task, asked.behavior, (0.5, 0.5), report_model_of(task))
        assert guardrail is not None
        assert isinstance(guardrail.model, GuardrailModel)
        assert guardrail.reporting == pytest.approx(1.0)
        harm, safe = harm_test(asked.plan, FIRST, (1, 2, 3, 4)), SafeTest.each_window(0.05, 4)
        harmful = guarded.Stage(guardrail.model, found.difference, found.devices_to_find_harm // 50, 2)
        calls = guarded.harm_calls(harmful, guarded.windows_of(harmful, rng, runs=2_000), harm)
        assert calls.any(axis=0).mean() == pytest.approx(HARM_POWER, abs=0.02)
        sound = guarded.Stage(guardrail.model, 0.0, found.devices_to_be_safe // 50, 4)
        calls = guarded.safe_calls(sound, guarded.windows_of(sound, rng, runs=2_000), safe)
        assert calls.any(axis=0).mean() == pytest.approx(SAFE_POWER, abs=0.04)
    assert stage.devices_to_be_safe >= max(each.devices_to_be_safe for each in stage.guardrails)


def test_a_stage_with_too_few_devices_is_said_to_hold_for_ever() -> None:
    """And one with enough says after how many days it is safe; later stages need fewer."""
    few = forecast_rollout(question(CRASH, devices=1_000_000, stages=(FIRST, HALF)))
    first, half = few.stages
    needs = f"it needs {count_text(first.devices_to_be_safe)} devices, the app has 1 M"
    assert first.warning == f"the stage of 1 % will hold for ever: to be found safe {needs}"
    assert few.warnings == (first.warning,)
    assert (first.days_to_be_safe, half.warning) == (0, "")
    assert 1 <= half.days_to_be_safe <= 4
    assert half.devices_to_be_safe < first.devices_to_be_safe / 40
    assert first.guardrails[0].harm_power < 0.5
    assert half.guardrails[0].harm_power > 0.95
    assert 0.0 < half.guardrails[0].detectable < first.guardrails[0].detectable
    curve = half.guardrails[0].curve
    assert [point.power for point in curve] == sorted(point.power for point in curve)
    enough = forecast_rollout(question(CRASH, devices=2 * first.devices_to_be_safe))
    assert 1 <= enough.stages[0].days_to_be_safe <= 4
    assert enough.warnings == ()


def test_a_horizon_and_devices_that_the_plan_names_are_those_of_the_forecast() -> None:
    """Two windows of four need more devices; the app's number need not be asked again."""
    plan = question(CRASH).plan
    short = forecast_rollout(RolloutQuestion(replace(plan, horizon_windows=2)))
    assert (short.horizon_windows, short.horizon_days) == (2, 2)
    assert short.stages[0].devices_to_be_safe > 1.5 * forecast_rollout(question(CRASH)).stages[0].devices_to_be_safe
    known = forecast_rollout(RolloutQuestion(replace(plan, expected_devices=9_000_000)))
    assert known.stages[0].days_to_be_safe > 0


def test_no_stage_is_safe_below_its_minimum_cohort() -> None:
    """Two aggregators would do with fewer; the plan's own minimum asks for half a million."""
    asked = question(CRASH)
    choices = {choice.change: choice for choice in compare_choices(asked, forecast_rollout(asked))}
    assert choices["two aggregators, ε = 1 a window"].devices_to_be_safe == 500_000
    loose = question(CRASH, stages=(Stage(100, 0, 50),))
    choices = {choice.change: choice for choice in compare_choices(loose, forecast_rollout(loose))}
    assert choices["two aggregators, ε = 1 a window"].devices_to_be_safe < 250_000


def test_choices_say_which_of_them_halve_the_need() -> None:
    """Fewer cells, larger reports, a wider stage, a wider margin; what is not offered says so."""
    asked = question(CRASH, REFUSED, epsilon="1", devices=1_000_000)
    before = forecast_rollout(asked)
    found = compare_choices(asked, before)
    needs = [choice.devices_to_be_safe for choice in found]
    assert needs == sorted(needs)
    by_change = {choice.change: choice for choice in found}
    assert set(by_change) == {
        "two aggregators, ε = 1 a window",
        "reports of ε = 2",
        "windows of 12 h",
        "one report of ε = 8 a stage",
        "only crash_fallback",
        "only refused",
        "a first stage of 5 %",
        "margins twice as wide",
    }
    assert all(choice.is_offered for choice in found)
    assert "one report of ε = 8 a stage" in [choice.change for choice in found]
    for choice in found:
        assert choice.halves_the_devices == (2 * choice.devices_to_be_safe <= before.stages[0].devices_to_be_safe)
    assert by_change["reports of ε = 2"].halves_the_devices
    assert not by_change["only crash_fallback"].halves_the_devices
    sooner = question(CRASH, epsilon="1", devices=30_000_000)
    twelve = next(
        choice for choice in compare_choices(sooner, forecast_rollout(sooner)) if choice.change == "windows of 12 h"
    )
    assert (twelve.halves_the_devices, twelve.halves_the_days) == (False, True)


def test_reports_are_in_on_the_days_that_a_ledger_pays_for() -> None:
    """A rollout spends 8 in 30 days, an experiment 6; windows of twelve hours: two a day, and the same sum."""

    def days(epsilon: int, window_s: int = DAY_S, *, may_use_reserve: bool = True) -> tuple[int, ...]:
        return schedule_reports(Fraction(epsilon), window_s, may_use_reserve=may_use_reserve).days

    assert days(2) == (1, 2, 3, 4)
    assert days(2, may_use_reserve=False) == (1, 2, 3)
    assert days(1) == tuple(range(1, 9))
    assert days(1, DAY_S // 2) == (1, 1, 2, 2, 3, 3, 4, 4)
    assert days(1, 7 * DAY_S) == (7, 14, 21, 28)


def test_a_quantile_of_the_latency_is_planned_in_ms_and_nothing_is_refused() -> None:
    """Too few devices hold; a plan without guardrails has no stages to forecast; crashes of everybody neither."""
    edges = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
    plan = RolloutPlan(
        stages=(FIRST,),
        guardrails=(GuardrailRecord("latency", 20.0, 0.95),),
        latency_edges_ms=edges,
        expected_devices=1_000,
    )
    (stage,) = forecast_rollout(RolloutQuestion(plan)).stages
    (found,) = stage.guardrails
    assert (found.is_planned, found.difference, found.safe_power) == (True, 80.0, 0.0)
    assert found.base_rate == pytest.approx(20.0 * 2.276, rel=0.001)
    assert stage.devices_to_be_safe == found.devices_to_be_safe > 1_000
    assert "will hold for ever" in stage.warning
    assert forecast_rollout(RolloutQuestion(validate_plan(RolloutPlan(stages=(FIRST,))))) == RolloutForecast(
        (), 2, 4, 4, 2
    )
    gone = RolloutQuestion(question(CRASH, devices=10).plan, behavior=Behavior(crash_fallback=0.999, error=0.0))
    assert forecast_rollout(gone).stages[0].guardrails[0].detectable == 0.0


def test_numbers_are_said_shortly() -> None:
    """With three digits, and a unit."""
    said = [count_text(devices) for devices in (7, 12_345, 657_412, 1_000_000, 6_574_144, 187_123_456, 2_340_000_000)]
    assert said == ["7", "12,345", "657,000", "1 M", "6.57 M", "187 M", "2.34 G"]
