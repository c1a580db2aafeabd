"""Plans when it is looked whether a stage is safe, and by how many reports.  Pure.

A stage may be found safe at the ends of windows only, up to a horizon that is fixed when it begins
(`stats/one_sided.py`).  By default the horizon is as many windows as a device's budget of 30 days pays for: after them
the same devices are silent for weeks.  It is looked at the end of each window, at most `MAX_LOOKS` times, and at the
end of the early ones.  At early looks harm is called by the nearer of two bounds.

K1  What a stage began with (horizon, shares, expected reports) never changes; an update of the plan holds from the next
    stage on.
K2  When a look is made depends on the clock and on which windows were collected, never on what the reports say.
K3  What a look said stands until the next one; after the last one nothing is found safe by itself.
K4  Early looks at harm are those of the first `EARLY_S` of the first watched stage.  They have a part of the error of
    harm that is fixed with it and that nothing else ever has, made or not.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from alcove.platform.domain.experiments.task import first_window_start_s
from alcove.platform.domain.limits import COLLECT_FOR_S
from alcove.platform.domain.rollout_records import BegunStage, LookRecord, RolloutPlan, Stage
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.registry.limits import POLICY_BUCKETS

__all__ = [
    "EARLY_PART",
    "MAX_LOOKS",
    "begin_stage",
    "control_share",
    "default_horizon_windows",
    "due_windows",
    "early_windows",
    "harm_planned_reports",
    "next_windows",
    "window_end_s",
]

MAX_LOOKS: Final = 20  # of one stage; more would find it hardly sooner
EARLY_S: Final = 2 * DAY_S
"""Of the first watched stage: what crashes should not run for longer."""

EARLY_PART: Final = 0.3
"""Of the error of harm, for early looks: a third fewer devices find it by then, a twentieth more at any time later."""

_BUDGET_S: Final = 30 * DAY_S
_ABOVE_MINIMUM: Final = 4  # groups are larger than the least that a stage asks for: hundreds of times, or hardly


def default_horizon_windows(epsilon: str, window_s: int) -> int:
    """Return the windows up to the last one that a device's budget of 30 days pays for; at least 1."""
    times_s = debit_times_s(Fraction(epsilon), window_s, max(1, _BUDGET_S // window_s), may_use_reserve=True)
    paid = [time_s for time_s in times_s if time_s < _BUDGET_S]
    return paid[-1] // window_s + 1 if paid else 1


def control_share(share_basis_points: int) -> int:
    """Return the control group of a watched stage: as large as the treatment, above one half what is left."""
    return min(share_basis_points, POLICY_BUCKETS - share_basis_points)


def early_windows(window_s: int, horizon_windows: int) -> int:
    """Return at the ends of how many windows harm is looked at early, where a stage has such a horizon; at least 1."""
    return min(max(1, EARLY_S // window_s), horizon_windows)


def begin_stage(plan: RolloutPlan, number: int, *, started_at_s: int, is_first: bool = False) -> BegunStage:
    """Return what a watched stage of the plan begins with.

    Args:
        plan: with its defaults in place.
        number: of the stage, from 1; it has a control group.
        started_at_s: seconds since 1970.
        is_first: no other watched stage began before it.
    """
    stage, horizon = plan.stages[number - 1], 0 if plan.is_open_ended else _horizon_windows(plan)
    return BegunStage(
        stage=number,
        started_at_s=started_at_s,
        share_basis_points=stage.share_basis_points,
        control_basis_points=control_share(stage.share_basis_points),
        horizon_windows=horizon,
        planned_reports=_expected_reports(plan, stage),
        early_windows=early_windows(plan.window_s, horizon) if is_first and horizon else 0,
    )


def harm_planned_reports(plan: RolloutPlan) -> tuple[int, int]:
    """Return the pooled reports at which the test of harm, one for the whole rollout, shall be sharp.

    Those of the first watched stage, for harm should be found while few devices have it, and half of those of all of
    them, where what is found early counts for little.
    """
    expected = [_expected_reports(plan, stage) for stage in plan.stages if control_share(stage.share_basis_points)] or [
        1
    ]
    return expected[0], max(expected[0], min(sum(expected) // 2, MAX_REPORTS))


def due_windows(
    plan: RolloutPlan, stage: BegunStage, looks: Sequence[LookRecord], *, now_s: int, collected: int | None
) -> int | None:
    """Return of how many windows a look is due now; None: none is.

    Args:
        plan: of the rollout.
        stage: the present one.
        looks: that were made.
        now_s: seconds since 1970.
        collected: windows that were collected from aggregators; None: reports are counted as they come.
    """
    following = next_windows(stage, looks)
    if following is None:
        return None
    over = (now_s - _first_window_s(plan, stage)) // plan.window_s
    if collected is not None:  # a window is collected after it is over; one that is given up is waited for no longer
        waited = (now_s - COLLECT_FOR_S - _first_window_s(plan, stage)) // plan.window_s - 1
        over = max(collected, waited)
    return over if over >= following else None


def next_windows(stage: BegunStage, looks: Sequence[LookRecord]) -> int | None:
    """Return after how many windows the next look is due; None: there is no other."""
    done = looks[-1].windows if looks else 0
    if not stage.horizon_windows or done >= stage.horizon_windows:
        return None
    step = math.ceil(stage.horizon_windows / MAX_LOOKS)
    following = min((done // step + 1) * step, stage.horizon_windows)
    return min(following, stage.early_windows) if done < stage.early_windows else following


def window_end_s(plan: RolloutPlan, stage: BegunStage, windows: int) -> int:
    """Return when so many windows of a stage are over, seconds since 1970."""
    return _first_window_s(plan, stage) + windows * plan.window_s


def _first_window_s(plan: RolloutPlan, stage: BegunStage) -> int:
    return first_window_start_s(stage.started_at_s, plan.window_s, plan.aggregation)


def _expected_reports(plan: RolloutPlan, stage: Stage) -> int:
    """Return the reports that a stage's groups send up to its horizon, as far as the plan knows."""
    groups = stage.share_basis_points + control_share(stage.share_basis_points)
    devices = plan.expected_devices * groups // POLICY_BUCKETS or 2 * _ABOVE_MINIMUM * stage.minimum_cohort
    paid = len(debit_times_s(Fraction(plan.epsilon), plan.window_s, _horizon_windows(plan), may_use_reserve=True))
    return max(1, min(devices * max(1, paid), MAX_REPORTS))


def _horizon_windows(plan: RolloutPlan) -> int:
    return plan.horizon_windows or default_horizon_windows(plan.epsilon, plan.window_s)
