"""Computes how many devices an app needs for the questions of a first rollout and a first experiment.

Each number is that of the planner, for the cells and the tests of today; beside it stand what simulated stages find
with it, and a floor: what a test at a fixed horizon with the same error would need of the same cells and reports.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.mechanism import report_model_of
from alcove.platform.domain.planning.guardrails import guardrail_of
from alcove.platform.domain.planning.harm import harm_test
from alcove.platform.domain.planning.rollout import (
    HARM_POWER,
    SAFE_POWER,
    ReportSchedule,
    RolloutQuestion,
    forecast_rollout,
    schedule_reports,
)
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.analysis import ALPHA
from alcove.platform.domain.rollouts.plan import validate_plan
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.stats import Mechanism
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import GuardrailModel, SafeTest, devices_for
from alcove.privacy.limits import DAY_S

from benchmarks.sections import Section, table_lines
from benchmarks.statistics import found, guarded

SECTION = Section("needs", "python -m benchmarks.statistics --needs --write docs/statistics.md")
MARGIN, HARM, HARM_DAYS, FIRST_SHARE = 0.005, 0.02, 2, 100
RATE, EFFECT = 0.8, 0.02
RESPONSE, SHARED = Mechanism.RANDOMIZED_RESPONSE, Mechanism.PRIO3
WAYS = (
    ("randomized response, ε = 2", ReportModel(RESPONSE, Fraction(2)), DAY_S),
    ("randomized response, ε = 1", ReportModel(RESPONSE, Fraction(1)), DAY_S),
    ("randomized response, ε = 1, windows of 12 h", ReportModel(RESPONSE, Fraction(1)), DAY_S // 2),
    ("randomized response, one report of ε = 8", ReportModel(RESPONSE, Fraction(8)), 0),
    ("two aggregators, ε = 1", ReportModel(SHARED, Fraction(1)), DAY_S),
)
"""Names, how reports are made private, and seconds of a window; 0: one report in a stage."""


@dataclass(frozen=True)
class Need:
    """One row.

    Attributes:
        question: for people.
        way: of the reports, for people.
        cells: of a report.
        reports: of one device.
        devices: of the app, or of both arms.
        floor: of them that a fixed-horizon test needs.
        promise: chance that they are planned for.
        found: part of the simulated runs in which it was.
    """

    question: str
    way: str
    cells: int
    reports: int
    devices: int
    floor: int
    promise: float
    found: float


def rollout_needs(runs: int, rng: np.random.Generator) -> list[Need]:
    """Return what the first stage of a rollout needs to find harm, and to find a sound version safe."""
    rows = []
    for way, reports, window_s in WAYS:
        schedule = None if window_s else ReportSchedule((1,), DAY_S)
        plan = validate_plan(
            RolloutPlan(
                stages=(Stage(FIRST_SHARE, 0, 50),),
                guardrails=(GuardrailRecord("crash_fallback", MARGIN),),
                epsilon=f"{float(reports.epsilon):g}",
                window_s=window_s,
            )
        )
        question = RolloutQuestion(plan, differences=(HARM,), harm_days=HARM_DAYS, reports=reports, schedule=schedule)
        forecast = forecast_rollout(question)
        found_by = forecast.stages[0].guardrails[0]
        model = _model(plan, reports)
        windows, within = forecast.horizon_windows, forecast.harm_windows
        ends = (schedule or schedule_reports(reports.epsilon, plan.window_s, may_use_reserve=True)).ends
        harm = harm_test(plan, plan.stages[0], ends)
        safe = SafeTest(ALPHA, ends, ends[-1])
        part = 2 * FIRST_SHARE / 10_000
        stage = guarded.Stage(model, HARM, round(found_by.devices_to_find_harm * part), within)
        called = guarded.harm_calls(stage, guarded.windows_of(stage, rng, runs=runs), harm)
        rows.append(
            Need(
                f"+{100 * HARM:g} points of crashes found within {HARM_DAYS} days",
                way,
                forecast.cells,
                within,
                found_by.devices_to_find_harm,
                round(_floor(model, HARM - MARGIN, HARM, windows=within, power=HARM_POWER) / part),
                HARM_POWER,
                float(called.any(axis=0).mean()),
            )
        )
        stage = guarded.Stage(model, 0.0, round(found_by.devices_to_be_safe * part), windows)
        called = guarded.safe_calls(stage, guarded.windows_of(stage, rng, runs=runs), safe)
        rows.append(
            Need(
                "a sound version found safe within 30 days",
                way,
                forecast.cells,
                windows,
                found_by.devices_to_be_safe,
                round(_floor(model, MARGIN, 0.0, windows=windows, power=SAFE_POWER) / part),
                SAFE_POWER,
                float(called.any(axis=0).mean()),
            )
        )
    return sorted(rows, key=lambda row: row.question != rows[0].question)


def experiment_needs(runs: int, rng: np.random.Generator) -> list[Need]:
    """Return what two equal arms need to find two points of accepted share within 30 days."""
    rows = []
    for analyses, how in ((0, "at will"), (1, "one analysis")):
        for way, reports, window_s in (("exact counts", ReportModel(Mechanism.EXACT, Fraction(1)), DAY_S), *WAYS):
            if window_s != DAY_S:
                continue
            windows = len(schedule_reports(reports.epsilon, window_s, may_use_reserve=False).ends)
            planned = found.Plan((0.5, 0.5), RATE, EFFECT, reports.mechanism, reports.epsilon, analyses, windows)
            one = found.measure(planned, rng, runs=runs)
            floor = _experiment_floor(planned)
            rows.append(
                Need(
                    f"{100 * EFFECT:g} points of accepted share, two equal arms, {how}",
                    way,
                    4,
                    windows,
                    one.devices,
                    floor,
                    found.POWER,
                    one.wins,
                )
            )
    return rows


def need_table(runs: int, seed: int) -> tuple[list[str], list[Need]]:
    """Return the table of needs."""
    rng = np.random.default_rng(seed)
    needs = [*rollout_needs(runs, rng), *experiment_needs(runs, rng)]
    rows = [
        (
            need.question,
            need.way,
            str(need.cells),
            str(need.reports),
            _millions(need.devices),
            _millions(need.floor),
            f"{need.devices / need.floor:.2f}",
            f"{need.promise:.0%}",
            f"{need.found:.1%}",
        )
        for need in needs
    ]
    return [
        "### What an app needs",
        "",
        f"Devices of an app whose rollout begins with {FIRST_SHARE / 100:g} %, with one guardrail on crashes (0.1 % of",
        f"the devices; margin {100 * MARGIN:g} points), and devices of both arms of an experiment ({RATE:.0%}",
        "accepted). *Floor*: of a one-sided test (experiments: two-sided) at a fixed horizon with the same error, of",
        "the same cells and reports. *Of a device*: reports within the two days, or the 30.",
        f"*Promise*: what the need is computed for; *found*: in {runs:,} simulated runs with so many devices.",
        "",
        *table_lines(
            ("question", "reports", "cells", "of a device", "needs", "floor", "ratio", "promise", "found"), rows
        ),
    ], needs


def _model(plan: RolloutPlan, reports: ReportModel) -> GuardrailModel:
    task = task_of("ro-0", plan, 0)
    used = reports if reports.mechanism is SHARED else replace(report_model_of(task), epsilon=reports.epsilon)
    planned = guardrail_of(plan.guardrails[0], task, Behavior(), (0.5, 0.5), used)
    assert planned is not None
    assert isinstance(planned.model, GuardrailModel)
    return planned.model


def _experiment_floor(plan: found.Plan) -> int:
    """Return the devices in both arms with which a two-sided test, made once, finds the effect."""
    error = plan.model().standard_error
    needed = NormalDist().inv_cdf(1.0 - found.ALPHA / 2.0) + NormalDist().inv_cdf(found.POWER)

    def reaches(devices: int) -> float:
        return float(plan.effect / error(devices, plan.windows, effect=plan.effect) >= needed)

    return devices_for(reaches, 0.5) or 0


def _floor(model: GuardrailModel, distance: float, difference: float, *, windows: int, power: float) -> float:
    """Return the devices in both groups with which a one-sided test at ALPHA, made once, finds a distance."""
    normal = NormalDist()
    needed = normal.inv_cdf(1.0 - ALPHA) + normal.inv_cdf(power)
    covariance = model.covariance(difference)
    contrast = np.array([-1.0, 1.0])

    def reaches(devices: int) -> float:
        return float(distance / math.sqrt(contrast @ covariance.total(devices, windows) @ contrast) >= needed)

    return float(devices_for(reaches, 0.5) or 0)


def _millions(devices: int) -> str:
    return f"{devices / 1e6:.3g} M" if devices >= 10**6 else f"{devices:,}"
