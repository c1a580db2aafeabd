"""Computes how often one device can report to one task: the schedule of a device that spends as soon as it may.

A report of window w is debited in w or in the window after it (I3 of `sdk/reports.py`), each window once.  The ledger
pays for floor(cap / epsilon) reports in each of its periods (or for one that is alone in it), so that a debit waits
until the one that many places before it is a period old.  The device that debits as early as it can, for the oldest
window that is still open, makes the j-th report no later, and of no later window, than any other device does (induction
over j: both rules only depend on earlier debits and earlier windows).  What it manages is therefore the most that any
device manages.
"""

from fractions import Fraction

from alcove.privacy.budget import BudgetLimits
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import EPSILON_PER_30_DAYS, MIN_EPSILON

__all__ = ["WIDEST", "debit_times_s"]

WIDEST = BudgetLimits(per_lone_report=EPSILON_PER_30_DAYS)
"""The most that any app may allow its devices."""


def debit_times_s(
    epsilon: Fraction, window_s: int, windows: int, *, may_use_reserve: bool, limits: BudgetLimits = WIDEST
) -> tuple[int, ...]:
    """Return the earliest times at which one device can pay for its reports of consecutive windows, rising.

    Args:
        epsilon: privacy loss of each report.
        window_s: seconds of a window, >= 1.
        windows: how many there are, >= 0.
        may_use_reserve: they are a guardrail's.
        limits: the device's; by default the widest.

    Returns:
        Seconds since the first window's start, one a report; there can be no more reports than these.

    Raises:
        ParameterError: an argument is out of its bound.
    """
    if epsilon < MIN_EPSILON:
        raise ParameterError(name="epsilon", bound=f"at least {MIN_EPSILON}", value=epsilon)
    if window_s < 1:
        raise ParameterError(name="window_s", bound="at least 1", value=window_s)
    caps = limits.caps(may_use_reserve=may_use_reserve)
    periods = [(cap.length_s, max(int(cap.most / epsilon), int(epsilon <= cap.most_of_one))) for cap in caps]
    times: list[int] = []
    window = 0  # the oldest one that may be reported next
    while all(reports for _, reports in periods):
        waits_s = [times[-reports] + length_s for length_s, reports in periods if len(times) >= reports]
        time_s = max([window * window_s, *waits_s])
        window = max(window, time_s // window_s - 1)
        if window >= windows:
            break
        times.append(time_s)
        window += 1
    return tuple(times)
