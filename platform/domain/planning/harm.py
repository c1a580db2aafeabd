"""Gives plans the test of harm that a stage of a rollout will have."""

from dataclasses import replace
from typing import Final

from alcove.platform.domain.rollout_records import RolloutPlan, Stage
from alcove.platform.domain.rollouts.analysis import ALPHA
from alcove.platform.domain.rollouts.looks import EARLY_PART, control_share, early_windows, harm_planned_reports
from alcove.platform.stats.guardrail_power import HarmTest, SafeTest
from alcove.registry.limits import POLICY_BUCKETS

__all__ = ["harm_test"]

_ANY_DEVICES: Final = 10**8


def harm_test(plan: RolloutPlan, stage: Stage, ends: tuple[int, ...]) -> HarmTest:
    """Return the test of each guardrail in a stage, as if the plan stated the app's devices: it is sharpest there.

    Args:
        plan: with guardrails, its defaults in place.
        stage: of the plan; only the first one with a control group has early looks.
        ends: windows that are over when the first, second, ... report of a device is in, up to the horizon.
    """
    devices = plan.expected_devices or _ANY_DEVICES
    own = devices * (stage.share_basis_points + control_share(stage.share_basis_points)) / POLICY_BUCKETS
    planned, later = (reports / own for reports in harm_planned_reports(replace(plan, expected_devices=devices)))
    alpha = ALPHA / max(1, len(plan.watched))
    watched = [each for each in plan.stages if control_share(each.share_basis_points)]
    if plan.is_open_ended:
        return HarmTest(alpha, planned, later)
    early = None
    if not watched or stage == watched[0]:
        last = early_windows(plan.window_s, plan.horizon_windows or ends[-1])
        early = SafeTest(alpha * EARLY_PART, _last_looks(ends, last), last)
    return HarmTest(alpha * (1.0 - EARLY_PART), planned, later, early)


def _last_looks(ends: tuple[int, ...], last: int) -> tuple[int, ...]:
    """Return the windows after which each report in the first `last` windows is looked at before there is another."""
    following = (*ends[1:], last + 1)
    return tuple(min(after - 1, last) for end, after in zip(ends, following, strict=True) if end <= last)
