"""Compares the demo's winner with a trimmed copy of it, which is two points less accurate, at a planned power.

The plan is made before any report: so many devices, two interim analyses, 5 % false findings, 95 % power.  All reports
come in one window, so that the server makes one analysis, at their full number.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.demo.catalog import TRIMMED
from alcove.platform.cli.demo.clock import WINDOW_S
from alcove.platform.cli.demo.environment import APP, FEATURE
from alcove.platform.cli.demo.processes import ANSWER_TIMEOUT_S, DemoError
from alcove.platform.cli.demo.result import SmallDifference
from alcove.platform.client import ExperimentPlan
from alcove.platform.client.experiment_models import Arm
from alcove.platform.stats import Mechanism, PowerModel, share_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alcove.platform.client import PlatformClient
    from alcove.platform.client.experiment_models import Estimate, ExperimentReport

MDE = 0.02
POWER = 0.95
ANALYSES = 2
BASE_RATE = 0.85  # of the larger model's first guesses, as `python -m benchmarks --only demo` measures them
EPSILON = "1"
POLL_S = 0.2


def detectable(devices: int, bins: int) -> dict[str, float | None]:
    """Return the difference that so many devices find in one window with the planned power, by mechanism; None: none.

    Args:
        devices: that report.
        bins: latency bins of a report; randomized response pays for each.
    """
    model = share_model(BASE_RATE, bins=bins)
    ways = {
        f"two aggregators, ε = {EPSILON}": (Mechanism.PRIO3, EPSILON),
        "randomized response, ε = 2": (Mechanism.RANDOMIZED_RESPONSE, "2"),
        f"randomized response, ε = {EPSILON}": (Mechanism.RANDOMIZED_RESPONSE, EPSILON),
    }
    return {
        name: PowerModel(model, (0.5, 0.5), mechanism, Fraction(epsilon), power=POWER, analyses=ANALYSES).detectable(
            devices
        )
        for name, (mechanism, epsilon) in ways.items()
    }


def run_small_difference(
    operator: PlatformClient,
    control: str,
    run_fleet: Callable[[], int],
    *,
    devices: int,
    edges_ms: Sequence[float],
) -> SmallDifference:
    """Plan the experiment, run it on all devices, and read its one analysis.

    Args:
        operator: who plans it.
        control: version that all devices run.
        run_fleet: lets all devices take part and report; returns how many reports were released.
        devices: that are planned with.
        edges_ms: of the latency bins.

    Raises:
        DemoError: the server did not analyze the reports.
    """
    found = detectable(devices, len(edges_ms) + 1)
    arms = [
        Arm(name="control", version=control, share_basis_points=5_000),
        Arm(name="trimmed", version=TRIMMED, share_basis_points=5_000),
    ]
    plan = ExperimentPlan(mde=MDE, base_rate=BASE_RATE, interim_analyses=ANALYSES, horizon_reports=devices)
    draft = operator.create_experiment(
        APP, FEATURE, arms, epsilon=EPSILON, latency_edges_ms=edges_ms, window_s=WINDOW_S, plan=plan
    )
    experiment = operator.start_experiment(draft.experiment_id)
    reports = run_fleet()
    report = _wait_for_analysis(operator, experiment.experiment_id, reports)
    operator.stop_experiment(experiment.experiment_id)
    results = report.results
    analyses = report.experiment.interim_analyses
    estimate = analyses[-1].pairs[0].difference if analyses else None
    decision = results.decision
    return SmallDifference(
        control=control,
        treatment=TRIMMED,
        devices=reports,
        power=POWER,
        analyses=ANALYSES,
        detectable=found,
        decision=decision.kind,
        winner=None if decision.winner is None else arms[decision.winner].version,
        reason=name_arms(decision.reason, arms),
        difference=None if estimate is None else estimate.value,
        interval=None
        if estimate is None or estimate.low is None or estimate.high is None
        else (estimate.low, estimate.high),
    )


def interval_of(estimate: Estimate) -> tuple[float, float] | None:
    """Return an estimate's interval; None: it is unbounded."""
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


def _wait_for_analysis(operator: PlatformClient, experiment_id: str, reports: int) -> ExperimentReport:
    """Return the results once the server has made the analysis that all reports allow; without any there is none."""
    until_s = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        report = operator.results(experiment_id)
        if report.experiment.interim_analyses or not reports:
            return report
        if time.monotonic() >= until_s:
            raise DemoError(f"expected an interim analysis; saw {report.results.report_count} reports and none")
        time.sleep(POLL_S)
