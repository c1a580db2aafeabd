"""Moves the arms' shares of a running experiment by Thompson sampling, from its reports.  Pure.

windows that are closed ─▶ epochs of equal shares ─▶ posterior ─▶ chances to be best ─▶ shares within bounds ─▶ buckets

N1  Only windows to which nothing can be added are read: of randomized reports those that are closed, of aggregators
    those that were collected.  The same counts give the same shares; nothing is drawn.
N2  Shares are looked at once a day, or once a window where that is longer, in the first quarter of a window and only if
    a window was closed since: what the reports of a window say of their shares holds for nearly all of it.
N3  Counts of windows with different shares are never pooled for an estimate (`platform.stats.epochs`).
N4  Where the reports cannot be trusted or say too little, shares stay, with the reason: `find_obstacle`.
N5  Shares move among the experiment's own devices; each keeps the plan's least share and changes by its largest step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import Allocation, BanditRecord, ShareChange
from alcove.platform.domain.experiments.buckets import move_buckets
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, pool_windows
from alcove.platform.domain.windows import first_open_window
from alcove.platform.stats import (
    AllocationRule,
    BayesianView,
    Comparison,
    Decision,
    DecisionKind,
    Difference,
    Estimates,
    PrimaryKind,
    ReasonCode,
    combine_epochs,
    expected_share_bounds,
    next_buckets,
)
from alcove.privacy.limits import DAY_S
from alcove.registry.limits import ARM_RANGES_MAX, POLICY_BUCKETS

__all__ = [
    "NOTHING_TO_MOVE",
    "AllocationView",
    "closed_reports",
    "describe_bandit",
    "expected_shares_of",
    "find_obstacle",
    "is_due",
    "mark_held",
    "mark_moved",
    "newest_closed",
    "planned_part",
    "propose_shares",
    "read_allocation",
    "split_epochs",
    "validate_bandit",
]

_QUARTER: Final = 4
NOTHING_TO_MOVE: Final = "no share would change by a hundredth of the experiment's devices"
_NOT_TESTED: Final = (  # fields of a plan that only tests of a fixed split read, or that ask a part of the devices
    ("plan.mde", "mde", "0"),
    ("plan.interim_analyses", "interim_analyses", "0"),
    ("pre_edges", "pre_edges", "absent"),
    ("secondary", "secondary", "absent"),
    ("primary.metric", "own_primary", "absent"),
    ("own_guardrails", "own_guardrails", "absent"),
    ("own_questions", "own_questions", "absent"),
)


@dataclass(frozen=True)
class AllocationView:
    """How a bandit's shares moved, and what that is expected to have cost.

    Attributes:
        changes: the shares of the start, and each change.
        held: why shares stayed when they were last looked at; "": they moved, or were not looked at.
        expected_regret: expected loss of one report against the best arm, with the shares as they are now, in the
            metric's unit; None: there is no posterior.
        regret_so_far: the same, summed over all reports until now with the shares that each had.
        fixed_regret_so_far: what it would be, had all reports been made with the first shares.
    """

    changes: tuple[ShareChange, ...]
    held: str
    expected_regret: float | None = None
    regret_so_far: float | None = None
    fixed_regret_so_far: float | None = None


def validate_bandit(record: ExperimentRecord) -> None:
    """Refuse bounds that cannot be kept, and plans of tests that moving shares would break.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    plan, bandit = record.plan, record.plan.bandit
    if bandit is None:
        return
    least, step, arms = bandit.min_share_basis_points, bandit.max_step_basis_points, len(record.arms)
    (lowest, highest), steps = limits.BANDIT_MIN_SHARE, limits.BANDIT_MAX_STEP
    highest = min(highest, POLICY_BUCKETS // arms)
    if not lowest <= least <= highest:
        bound = f"{lowest} to {highest}, so that {arms} arms can have it"
        raise InvalidFieldError("bandit.min_share_basis_points", bound, least)
    if not steps[0] <= step <= steps[1]:
        raise InvalidFieldError("bandit.max_step_basis_points", f"{steps[0]} to {steps[1]}", step)
    total = sum(arm.share_basis_points for arm in record.arms)
    for arm in record.arms:
        if arm.share_basis_points * POLICY_BUCKETS < least * total:
            bound = f"at least {least / 100:g} % of the experiment's {total}, where a bandit moves shares"
            raise InvalidFieldError("arms.share_basis_points", bound, arm.share_basis_points)
    if plan.primary == PrimaryKind.LATENCY_QUANTILE:
        bound = "one that has a posterior, where a bandit moves shares: a share or a mean"
        raise InvalidFieldError("primary.kind", bound, plan.primary)
    for field, name, bound in _NOT_TESTED:
        if value := getattr(plan, name):
            raise InvalidFieldError(
                field, f"{bound} where a bandit moves shares: a fixed split's tests do not hold", value
            )


def is_due(record: ExperimentRecord, now_s: int) -> bool:
    """Return whether the time to look at the shares has come (N2)."""
    if record.plan.bandit is None or record.started_at_s is None:
        return False
    task = task_of(record)
    present = task.window_at(now_s)
    if present is None:
        return False
    elapsed_s = now_s - task.first_window_start_s - present * task.window_s
    last = record.allocation.looked_window
    is_time = last < 0 or present - last >= -(-DAY_S // task.window_s)
    return is_time and elapsed_s * _QUARTER <= task.window_s


def closed_reports(reports: Reports, now_s: int) -> Reports:
    """Return the reports of the windows to which none can be added (N1)."""
    if reports.task.aggregation is not None:
        return reports
    first_open = first_open_window(reports.task, now_s)
    return pool_windows(reports.task, [each for each in reports.by_window if each.window < (first_open or 0)])


def newest_closed(reports: Reports) -> int:
    """Return the newest window that has reports; -1: none has."""
    return reports.by_window[-1].window if reports.by_window else -1


def split_epochs(record: ExperimentRecord, reports: Reports) -> tuple[Reports, ...]:
    """Return the reports of each run of windows in which the arms had the same shares, in order (N3)."""
    groups = groupby(reports.by_window, key=lambda each: _shares_at(record.allocation, each.window))
    return tuple(pool_windows(reports.task, list(windows)) for _, windows in groups)


def expected_shares_of(record: ExperimentRecord, reports: Reports, observed: Sequence[float]) -> tuple[float, ...]:
    """Return the parts of the reports that arms should have, by the shares of each window.

    Where shares moved there is a range of parts that are right (`expected_share_bounds`); of it the parts nearest to
    those observed are returned, so that a test of them finds a mismatch only where no part of the range fits.

    Args:
        record: of the experiment.
        reports: of all windows that are compared.
        observed: estimated parts of the reports.
    """
    now, before = [], []
    windows = [each for each in reports.by_window if each.reports > 0]
    for each in windows:
        now.append(_fractions(_shares_at(record.allocation, each.window)))
        before.append(_fractions(_shares_at(record.allocation, each.window - 1)))
    if not windows:
        return _fractions(record.allocation.changes[0].shares)
    bounds = expected_share_bounds([each.reports for each in windows], now, before)
    nearest = [min(max(part, low), high) for part, (low, high) in zip(observed, bounds, strict=True)]
    return tuple(part / sum(nearest) for part in nearest)


def planned_part(record: ExperimentRecord, window: int, arm: int) -> float:
    """Return which part of a stratum's reports counts as the treatment's in the clock of guardrails, in (0, 1/2].

    With shares a and c of arm and control, a stratum's effective reports are N 4 a c / (a + c), those of two groups of
    equal size that tell as much: the part t with t (1 - t) = a c / (a + c).
    """
    shares = _fractions(_shares_at(record.allocation, window))
    product = shares[0] * shares[arm] / (shares[0] + shares[arm])
    return (1.0 - math.sqrt(max(1.0 - 4.0 * product, 0.0))) / 2.0


def describe_bandit(comparison: Comparison, epochs: Sequence[Estimates], view: BayesianView) -> Comparison:
    """Return what a bandit's reports allow to say: estimates over all epochs, and no claim of a winner.

    Intervals and p-values of a fixed split are left out; the posterior is beside the results. What obstructs any
    reading (no reports, arms of the wrong size, noise) is said as in a fixed split.
    """
    found = combine_epochs(epochs) if epochs else None
    is_accepted = comparison.primary.kind is PrimaryKind.ACCEPTED

    def pair(each: Difference) -> Difference:
        bare = Difference(each.arm, each.versus, None, None, None, None)
        if found is None:
            return bare
        one, other = each.arm, each.versus
        variance = found.covariance[one, one] + found.covariance[other, other] - 2.0 * found.covariance[one, other]
        value = float(found.values[one] - found.values[other])
        return replace(bare, value=value, standard_error=float(max(variance, 0.0)) ** 0.5)

    primary = tuple(map(pair, comparison.primary_pairs))
    shown = primary if is_accepted else tuple(replace(each, value=None, standard_error=None) for each in primary)
    arms = tuple(
        replace(
            each,
            accepted=float(found.values[each.arm]) if is_accepted and found is not None else None,
            accepted_interval=None,
            accepted_standard_error=None,
            latency_ms=None,
            latency_interval=None,
            median_latency_ms=None,
            median_latency_interval=None,
        )
        for each in comparison.arms
    )
    decision = comparison.decision
    if decision.code in (ReasonCode.BETTER, ReasonCode.INTERVAL_INCLUDES_ZERO):
        decision = Decision(DecisionKind.INCONCLUSIVE, None, ReasonCode.ADAPTIVE_ALLOCATION, _sentence(view))
    return replace(
        comparison,
        arms=arms,
        differences=shown[: len(arms) - 1],
        pairs=shown,
        primary_pairs=primary,
        p_values=(None,) * len(primary),
        adjustments=(),
        decision=decision,
    )


def find_obstacle(record: ExperimentRecord, comparison: Comparison, epochs: Sequence[Estimates], alarm: str) -> str:
    """Return why shares stay (N4); "": nothing is in the way.

    Args:
        record: of the experiment.
        comparison: by `describe_bandit`, of the closed windows.
        epochs: likewise.
        alarm: why no devices can have sent these counts; "" where they can.
    """
    if alarm:
        return alarm
    if comparison.decision.code is not ReasonCode.ADAPTIVE_ALLOCATION:
        return comparison.decision.reason
    found = combine_epochs(epochs)
    if found is None or found.read[-1] != len(epochs) - 1:
        shares = ", ".join(f"{100 * part:.0f} %" for part in _fractions(record.allocation.changes[-1].shares))
        return f"too few reports with shares {shares}: privacy noise leaves the size of an arm uncertain"
    return ""


def propose_shares(record: ExperimentRecord, bandit: BanditRecord, view: BayesianView) -> tuple[int, ...]:
    """Return the arms' shares of the next step, in buckets; those of now where no step is worth it (N5)."""
    rule = AllocationRule(bandit.min_share_basis_points / POLICY_BUCKETS, bandit.max_step_basis_points / POLICY_BUCKETS)
    chances = [each.chance_best for each in view.arms]
    total = sum(chances)
    return next_buckets(record.allocation.changes[-1].shares, [each / total for each in chances], rule)


def mark_held(record: ExperimentRecord, reports: Reports, reason: str, *, now_s: int) -> ExperimentRecord:
    """Return the experiment after a look that left the shares as they are."""
    return replace(record, allocation=_look(record, reports, reason, now_s))


def mark_moved(
    record: ExperimentRecord, reports: Reports, view: BayesianView, shares: tuple[int, ...], *, now_s: int
) -> ExperimentRecord:
    """Return the experiment with new shares; where the buckets would be too many ranges for a policy, it is held."""
    ranges = move_buckets(record.allocation.ranges, shares)
    if len(ranges) > ARM_RANGES_MAX:
        reason = f"the arms' buckets would be {len(ranges)} ranges, and a policy holds at most {ARM_RANGES_MAX}"
        return mark_held(record, reports, reason, now_s=now_s)
    change = ShareChange(
        first_window=max(task_of(record).window_at(now_s) or 0, record.allocation.changes[-1].first_window),
        changed_at_s=now_s,
        shares=shares,
        reports=reports.reports,
        chances=tuple(each.chance_best for each in view.arms),
        expected_losses=tuple(each.expected_loss for each in view.arms),
    )
    allocation = _look(record, reports, "", now_s)
    arms = tuple(replace(arm, share_basis_points=share) for arm, share in zip(record.arms, shares, strict=True))
    return replace(
        record, arms=arms, allocation=replace(allocation, changes=(*allocation.changes, change), ranges=ranges)
    )


def read_allocation(record: ExperimentRecord, reports: Reports, view: BayesianView) -> AllocationView:
    """Return how the shares moved, with the regret that is expected by the posterior of now."""
    allocation = record.allocation
    shown = AllocationView(allocation.changes, allocation.held)
    if not (allocation.changes and view.arms):
        return shown
    losses = [each.expected_loss for each in view.arms]

    def regret(shares: Sequence[int]) -> float:
        return sum(part * loss for part, loss in zip(_fractions(shares), losses, strict=True))

    return replace(
        shown,
        expected_regret=regret(allocation.changes[-1].shares),
        regret_so_far=sum(each.reports * regret(_shares_at(allocation, each.window)) for each in reports.by_window),
        fixed_regret_so_far=reports.reports * regret(allocation.changes[0].shares),
    )


def _look(record: ExperimentRecord, reports: Reports, held: str, now_s: int) -> Allocation:
    present = task_of(record).window_at(now_s)
    return replace(
        record.allocation,
        looked_window=-1 if present is None else present,
        read_window=newest_closed(reports),
        held=held,
    )


def _shares_at(allocation: Allocation, window: int) -> tuple[int, ...]:
    """Return the shares that the arms had in a window."""
    found = [change.shares for change in allocation.changes if change.first_window <= window]
    return found[-1] if found else allocation.changes[0].shares


def _fractions(shares: Sequence[int]) -> tuple[float, ...]:
    total = sum(shares)
    return tuple(share / total for share in shares)


def _sentence(view: BayesianView) -> str:
    rule = "shares follow the reports, so that no test of a fixed split holds"
    if not view.arms:
        return f"{rule}; {view.obstacle}"
    best = max(view.arms, key=lambda each: each.chance_best)
    return (
        f"{rule}; arm {best.arm} is the best one with a chance of {100 * best.chance_best:.1f} %,"
        f" and choosing it is expected to lose {best.expected_loss:.4f}"
    )
