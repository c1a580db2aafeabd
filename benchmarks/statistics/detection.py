"""Simulates how soon a version that crashes on more devices is halted, under each privacy mechanism.

The cells of a report, who is asked, and the test of harm are those of a rollout's plan today.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.planning.guardrails import guardrail_of
from alcove.platform.domain.planning.harm import harm_test
from alcove.platform.domain.planning.rollout import schedule_reports
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.plan import validate_plan
from alcove.platform.domain.rollouts.task import questions_of, tasks_of
from alcove.platform.stats import Mechanism
from alcove.platform.stats._shares import share_difference
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import GuardrailModel
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.registry.limits import POLICY_BUCKETS

from benchmarks.statistics import guarded

FLEET_DEVICES = 1_000_000
EXPOSURE = 0.05
BASE_RATE = 0.01
MORE_CRASHES = 0.02
MARGIN = 0.005
PERIODS = 2
CRASH = GuardrailRecord("crash_fallback", MARGIN)
ERROR = GuardrailRecord("error", MARGIN)
SLOW = GuardrailRecord("latency", 0.01, edge_ms=160.0)
EDGES_MS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
WATCHED = {
    "crashes": ((CRASH,), ()),
    "crashes, errors": ((CRASH, ERROR), ()),
    "crashes, errors, latency in eight bins": ((CRASH, ERROR, SLOW), EDGES_MS),
}
"""Guardrails and edges of the latency, by words for people."""


@dataclass(frozen=True)
class Detection:
    """Parts of the runs that were halted.

    Attributes:
        mechanism: how reports are private.
        epsilon: of a report, or of a window.
        watched: by the plan, as in `WATCHED`.
        cells: of a report that tells of crashes.
        asked: part of the devices that send such reports.
        by_period: harmful version halted by the end of each check-in period.
        harmless: an equal version halted by the last period.
        half_width: standard error of the difference after the last period, mean over runs; None where nothing is read.
    """

    mechanism: Mechanism
    epsilon: Fraction
    watched: str
    cells: int
    asked: float
    by_period: tuple[float, ...]
    harmless: float
    half_width: float | None


def detect(rng: np.random.Generator, mechanism: Mechanism, epsilon: Fraction, *, watched: str, runs: int) -> Detection:
    """Simulate a guardrail on crash fallbacks with equal treatment and control, 5 % of the fleet each.

    Raises:
        ValueError: reports name sets of cells, which is not simulated here.
    """
    guardrails, edges_ms = WATCHED[watched]
    stage = Stage(round(EXPOSURE * POLICY_BUCKETS), 0, 50)
    plan = validate_plan(
        RolloutPlan(
            stages=(stage,),
            guardrails=guardrails,
            epsilon=f"{float(epsilon):g}",
            latency_edges_ms=edges_ms,
            expected_devices=FLEET_DEVICES,
        )
    )
    if mechanism is Mechanism.PRIO3:
        plan = replace(plan, questions=())  # all devices are asked everything
    tasks = tasks_of("ro-0", plan, 0)
    task = next(
        own for question, own in zip(questions_of(plan), tasks, strict=True) if CRASH.metric in question.metrics
    )
    if mechanism is Mechanism.RANDOMIZED_RESPONSE and task.subset_size > 1:
        raise ValueError(task)
    planned = guardrail_of(CRASH, task, Behavior(crash_fallback=BASE_RATE), (0.5, 0.5), ReportModel(mechanism, epsilon))
    assert planned is not None
    assert isinstance(planned.model, GuardrailModel)
    asked = task.share_basis_points / POLICY_BUCKETS
    devices = round(2 * FLEET_DEVICES * EXPOSURE * asked * planned.reporting)
    test = harm_test(plan, stage, schedule_reports(epsilon, plan.window_s, may_use_reserve=True).ends)
    found, half_width = {}, None
    for more in (MORE_CRASHES, 0.0):
        fleet = guarded.Stage(planned.model, more, devices, PERIODS)
        windows = guarded.windows_of(fleet, rng, runs=runs)
        called = guarded.harm_calls(fleet, windows, test)
        found[more] = tuple(float(called[:period].any(axis=0).mean()) for period in range(1, PERIODS + 1))
        last = share_difference(windows[-1], reports_per_device=PERIODS)
        is_read = float((last.size_variation <= MAX_SIZE_VARIATION).mean()) > 0.5
        half_width = float(last.standard_error.mean()) if is_read else None
    return Detection(
        mechanism, epsilon, watched, task.cell_count, asked, found[MORE_CRASHES], found[0.0][-1], half_width
    )
