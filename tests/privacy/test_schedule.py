"""The schedule of the fastest device is the most that any device can report."""

import contextlib
import itertools
from fractions import Fraction

import pytest
from alcove.privacy import BudgetExceededError, BudgetLimits, Ledger, ParameterError
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.runtime.testing_seams import ManualClock
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.privacy.test_ledger import NOON, TASK, CrashingLog

HOUR = 3600


@pytest.mark.parametrize(
    ("epsilon", "window_s", "windows", "reports"),
    [
        ("2", DAY_S, 1, 1),
        ("2", DAY_S, 29, 4),
        ("7", DAY_S, 29, 1),
        ("4", DAY_S, 29, 2),
        ("2", DAY_S, 30, 5),  # what was noted on the 30th day can be paid for on the 31st
        ("2", DAY_S, 33, 8),
        ("1", DAY_S, 29, 8),
        ("1/2", DAY_S, 29, 16),
        ("2", HOUR, 24, 2),  # the last hour's report is paid for in the hour after it
        ("2", HOUR, 23, 1),
        ("1", HOUR, 23, 2),
        ("1", 12 * HOUR, 10, 8),
        ("8", 30 * DAY_S, 3, 3),
        ("17/2", 30 * DAY_S, 3, 0),
    ],
)
def test_reports_are_as_many_as_windows_and_budget_allow(
    epsilon: str, window_s: int, windows: int, reports: int
) -> None:
    """One a window, 2 a day, 8 in 30 days."""
    assert len(debit_times_s(Fraction(epsilon), window_s, windows, may_use_reserve=True)) == reports


@pytest.mark.parametrize(
    ("epsilon", "window_s", "hours"),
    [("2", DAY_S, [0, 30, 60]), ("1", DAY_S, [0, 24, 48, 72, 96, 120]), ("6", 30 * DAY_S, [0]), ("8", 30 * DAY_S, [])],
)
def test_experiments_leave_six_hours_a_day_and_the_reserve(epsilon: str, window_s: int, hours: list[int]) -> None:
    """6 in 30 days, 2 in 30 hours."""
    windows = 1 if window_s > DAY_S else 28
    times_s = debit_times_s(Fraction(epsilon), window_s, windows, may_use_reserve=False)
    assert times_s == tuple(hour * HOUR for hour in hours)


@settings(max_examples=60)
@given(
    st.sampled_from(["5", "2", "3/2", "1", "2/3", "1/2"]),
    st.sampled_from([HOUR, 5 * HOUR, 12 * HOUR, DAY_S, 7 * DAY_S]),
    st.lists(st.integers(0, 40 * HOUR), max_size=60),
    st.booleans(),
)
def test_no_device_with_a_ledger_reports_more(
    epsilon: str, window_s: int, pauses_s: list[int], may_use_reserve: bool
) -> None:
    """Whenever a device comes, for the window before or the present one: its n-th report is no sooner."""
    start_s = NOON - NOON % window_s
    clock = ManualClock(start_s, 0, up_s=40 * DAY_S, names_starts=False)
    ledger = Ledger(CrashingLog(), BudgetLimits(per_lone_report=Fraction(8)), clock)
    made: list[tuple[int, int]] = []
    for pause_s in pauses_s:
        clock.pass_s(pause_s)
        passed_s = clock.now_s() - start_s
        for window in (passed_s // window_s - 1, passed_s // window_s):
            if window >= 0 and window not in {before for _, before in made}:
                with contextlib.suppress(BudgetExceededError):
                    ledger.debit(TASK, window, Fraction(epsilon), may_use_reserve=may_use_reserve)
                    made.append((passed_s, window))
    windows = sorted(window for _, window in made)
    for count, (passed_s, _) in enumerate(made, start=1):
        times_s = debit_times_s(Fraction(epsilon), window_s, 10_000, may_use_reserve=may_use_reserve)
        assert times_s[count - 1] <= passed_s
    for count, last in enumerate(windows, start=1):
        times_s = debit_times_s(Fraction(epsilon), window_s, last + 1, may_use_reserve=may_use_reserve)
        assert len(times_s) >= count


def test_schedule_is_one_that_a_ledger_pays_for() -> None:
    """The bound is reached: a device that comes at these times is paid each time."""
    epsilons = map(Fraction, ("2", "1", "1/3"))
    for epsilon, window_s, may_use_reserve in itertools.product(epsilons, (HOUR, DAY_S, 20 * DAY_S), (False, True)):
        clock = ManualClock(NOON, 0, up_s=40 * DAY_S, names_starts=False)
        ledger = Ledger(CrashingLog(), BudgetLimits(), clock)
        times_s = debit_times_s(epsilon, window_s, 1000, may_use_reserve=may_use_reserve)
        for number, time_s in enumerate(times_s[:40]):
            clock.pass_s(NOON + time_s - clock.now_s())
            ledger.debit(TASK, number, epsilon, may_use_reserve=may_use_reserve)


@pytest.mark.parametrize(("epsilon", "window_s", "name"), [(Fraction(0), 1, "epsilon"), (Fraction(1), 0, "window_s")])
def test_argument_out_of_bound_is_refused(epsilon: Fraction, window_s: int, name: str) -> None:
    """No endless schedule."""
    with pytest.raises(ParameterError, match=name):
        debit_times_s(epsilon, window_s, 1, may_use_reserve=True)
