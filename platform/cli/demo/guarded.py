"""Rolls out the demo's harmful version to a tenth of the devices, and lets their reports stop it.

The plan says halt. Reports with tokens are attested, and the server halts by itself; randomized ones are not, so they
pause and do no more: a person reads the analysis and halts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from alcove.platform.cli.demo.catalog import SPOILED
from alcove.platform.cli.demo.clock import WINDOW_S
from alcove.platform.cli.demo.environment import APP, FEATURE
from alcove.platform.cli.demo.processes import DemoError
from alcove.platform.cli.demo.result import GuardOutcome
from alcove.platform.client import DeadlineError, GuardrailPlan, Plan, Rollout, StagePlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from alcove.platform.cli.demo.environment import Devices
    from alcove.platform.client import PlatformClient
    from alcove.platform.client.rollout_models import Mechanism

SHARE_BASIS_POINTS = 1000
IDLE_NOISE = 60  # by which the server's count of reports may be off: both aggregators' noise in one cell
PATIENCE_S = 60.0  # the server analyzes twice a second; a loaded machine may be slow
PLAN = Plan(
    stages=(StagePlan(share_basis_points=SHARE_BASIS_POINTS), StagePlan(share_basis_points=5000)),
    guardrails=(
        GuardrailPlan(metric="refused", margin=0.05),
        GuardrailPlan(metric="crash_fallback", margin=0.01),
    ),
    on_harm="halt",
)


def run_guarded(
    operator: PlatformClient,
    devices: Devices,
    run_fleet: Callable[[], int],
    say: Callable[[str], None],
    *,
    mechanism: Mechanism,
    epsilon: str,
) -> GuardOutcome:
    """Roll the harmful version out and wait for the server to stop it; else a person rolls it back.

    Args:
        operator: who plans the rollout.
        devices: in processes; a tenth of them gets the version.
        run_fleet: lets the fleet report; returns how many reports there are.
        say: shows what is going on.
        mechanism: of the reports.
        epsilon: of them.

    Raises:
        DemoError: the server did not analyze the reports.
    """
    plan = PLAN.model_copy(update={"mechanism": mechanism, "epsilon": epsilon, "window_s": WINDOW_S})
    rollout = operator.create_rollout(APP, FEATURE, SPOILED, plan=plan)
    rollout = operator.advance_rollout(rollout.rollout_id)
    say(f"{SPOILED} is on a tenth of the devices; another tenth is the control group")
    devices.ask("sync")
    ran_it = sum(answer["version"] == SPOILED for answer in devices.ask("read", count=1))
    began_s = time.monotonic()
    reports = run_fleet()
    say(f"{reports:,} private reports are in; nobody touches the rollout")
    rollout = _wait_for_analysis(operator, rollout.rollout_id, reports)
    stopped_by_itself = rollout.state
    seconds = time.monotonic() - began_s if stopped_by_itself in ("paused", "halted") else None
    analysis = rollout.analysis
    if rollout.state == "paused":
        say("paused by the server; reports that are not attested do no more, so a person halts it")
        rollout = operator.halt_rollout(rollout.rollout_id, "demo: a person read the analysis and agrees")
    elif rollout.state == "running":
        rollout = operator.roll_back_rollout(rollout.rollout_id, "demo: too few devices to tell")
    return GuardOutcome(
        version=SPOILED,
        share=SHARE_BASIS_POINTS / 10_000,
        ran_it=ran_it,
        state=rollout.state,
        decision="hold" if analysis is None else analysis.decision,
        reason="too few reports to tell" if analysis is None else analysis.reason,
        reports=0 if analysis is None else analysis.report_count,
        seconds=seconds,
        by_itself=stopped_by_itself if seconds is not None else "",
    )


def _wait_for_analysis(operator: PlatformClient, rollout_id: str, reports: int) -> Rollout:
    """Return the rollout once the server has paused it, or has read all reports and found nothing."""
    rollout = operator.rollout(rollout_id)
    try:
        for rollout in operator.watch_rollout(rollout_id, timeout_s=PATIENCE_S):
            analysis = rollout.analysis
            if rollout.state != "running" or (analysis is not None and analysis.report_count >= reports - IDLE_NOISE):
                return rollout
    except DeadlineError:
        pass
    raise DemoError(f"expected an analysis at {reports} reports within {PATIENCE_S:.0f} s; saw {rollout.analysis}")
