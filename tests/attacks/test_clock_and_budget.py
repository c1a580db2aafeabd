"""Attack: somebody has power over a device's clock, and wants reports that the budget would refuse.

Clocks are jumped, held, set back and set right, devices are started again; what was spent is compared with the time
that really passed.
"""

import contextlib
from fractions import Fraction
from pathlib import Path

import pytest
from alcove.privacy import BudgetExceededError, BudgetLimits, Ledger, ParameterError
from alcove.privacy.limits import DAY_S, EPSILON_PER_30_DAYS, EPSILON_PER_DAY
from alcove.sdk.ledger_file import LedgerFile
from alcove.sdk.storage import Files
from alcove.sdk.testing import ManualClock
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.privacy.test_ledger import CrashingLog

TASK = bytes(32)
CAPS = ((DAY_S, EPSILON_PER_DAY), (30 * DAY_S, EPSILON_PER_30_DAYS))


class Spender:
    """Takes whatever the ledger gives, and notes when it did by the time that really passed."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = CrashingLog()
        self.real_s = 0
        self.starts = 0
        self.made: list[tuple[int, int, Fraction]] = []
        self._window = 0

    def spend(self, epsilon: Fraction = EPSILON_PER_DAY) -> None:
        """Ask for one report after the other until one is refused."""
        with contextlib.suppress(BudgetExceededError):
            while True:
                self._window += 1
                ledger = Ledger(self.log, BudgetLimits(), self.clock)
                ledger.note_time()
                ledger.debit(TASK, self._window, epsilon, may_use_reserve=True)
                self.made.append((self.real_s, self.starts, epsilon))

    def most_within(self, length_s: int) -> Fraction:
        """Return the most that was spent in any period of this much real time."""
        ends = {at for at, _, _ in self.made}
        sums = (sum((cost for at, _, cost in self.made if end - length_s < at <= end), Fraction(0)) for end in ends)
        return max(sums, default=Fraction(0))

    @property
    def total(self) -> Fraction:
        """All that was spent."""
        return sum((cost for _, _, cost in self.made), Fraction(0))


def test_twelve_jumps_of_thirty_days_in_a_minute_spend_one_day() -> None:
    """The clock runs ahead by a year: what it gives is what a minute gives."""
    spender = Spender()
    for _ in range(12):
        spender.spend()
        spender.clock.time_s += 30 * DAY_S
        spender.clock.pass_s(5)
        spender.real_s += 5
    spender.spend()
    assert spender.total == EPSILON_PER_DAY


@pytest.mark.parametrize("wrong_s", [365 * DAY_S, -365 * DAY_S, 40 * 365 * DAY_S, 3600])
def test_clock_that_is_set_right_afterwards_silences_nobody(wrong_s: int) -> None:
    """A wrong clock, seen by the ledger, and then the right one: a day later there is a day's budget."""
    spender = Spender()
    spender.spend()
    spender.clock.time_s = max(0, spender.clock.time_s + wrong_s)
    spender.spend()
    spender.clock.pass_s(60)
    spender.spend()
    spender.clock.time_s = max(0, spender.clock.time_s - wrong_s)
    spender.spend()
    before = spender.total
    spender.clock.pass_s(DAY_S)
    spender.spend()
    assert before == EPSILON_PER_DAY
    assert spender.total == 2 * EPSILON_PER_DAY


WALKS = st.lists(
    st.tuples(
        st.integers(0, 3 * DAY_S),  # passes in truth
        st.sampled_from([0, 0, 0, 1, -1, 60, DAY_S, -DAY_S, 30 * DAY_S, -30 * DAY_S, 3650 * DAY_S, -3650 * DAY_S]),
        st.sampled_from([Fraction(2), Fraction(1), Fraction(1, 2), Fraction(1, 3)]),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(WALKS)
def test_no_walk_of_the_wall_clock_passes_the_caps_of_real_time(steps: list[tuple[int, int, Fraction]]) -> None:
    """However it is set: in any 24 hours and any 30 days that really pass, no more than is promised."""
    spender = Spender()
    for passed_s, jump_s, epsilon in steps:
        spender.clock.pass_s(passed_s)
        spender.real_s += passed_s
        spender.clock.time_s = max(0, spender.clock.time_s + jump_s)
        spender.spend(epsilon)
    for length_s, cap in CAPS:
        assert spender.most_within(length_s) <= cap


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(WALKS, st.sets(st.integers(0, 29), max_size=6))
def test_a_start_of_the_device_gives_a_day_at_most(steps: list[tuple[int, int, Fraction]], starts: set[int]) -> None:
    """Between two starts only the wall clock advances: setting it gains a day's cap with each, and no more."""
    spender = Spender()
    for number, (passed_s, jump_s, epsilon) in enumerate(steps):
        if number in starts:
            spender.clock.restart()
            spender.starts += 1
        spender.clock.pass_s(passed_s)
        spender.real_s += passed_s
        spender.clock.time_s = max(0, spender.clock.time_s + jump_s)
        spender.spend(epsilon)
    days = spender.real_s // DAY_S + 1 + spender.starts + 1
    assert spender.total <= EPSILON_PER_DAY * days
    assert spender.total <= EPSILON_PER_30_DAYS * (days // 30 + 1)


def test_device_that_is_off_at_night_has_its_budget_each_day() -> None:
    """Eight hours of use and sixteen of rest: the time in which it was off counts."""
    spender = Spender()
    for _ in range(4):
        spender.spend()
        spender.clock.pass_s(8 * 3600)
        spender.clock.restart(16 * 3600 + 60)
    assert spender.total == 4 * EPSILON_PER_DAY


def test_ledger_of_before_clocks_were_noted_continues() -> None:
    """Lines without clocks are read; the first new line brings what can be known, and no more than a day."""
    spender = Spender()
    old_s = spender.clock.now_s() - 20 * DAY_S
    spender.log.data = b'{"at_s": %d, "epsilon": "2", "task": "%s", "window": 9000}\n' % (old_s, b"00" * 32)
    spender.clock.pass_s(3 * DAY_S)
    spender.spend()
    assert spender.total == EPSILON_PER_DAY
    ledger = Ledger(spender.log, BudgetLimits(), spender.clock)
    assert ledger.spending().thirty_days == 2 * EPSILON_PER_DAY


@pytest.mark.parametrize(("per_day", "per_30_days"), [(10**6, 8), (2, 10**6), (3, 8), (2, 9), (-1, 8), (2, -1)])
def test_caps_above_what_is_promised_are_refused(per_day: int, per_30_days: int) -> None:
    """An app may promise less, never more spending than the documents say."""
    with pytest.raises(ParameterError, match="per_"):
        BudgetLimits(per_day=Fraction(per_day), per_30_days=Fraction(per_30_days))
    assert BudgetLimits(per_day=Fraction(0), per_30_days=Fraction(1, 2)).per_day == 0


@pytest.mark.parametrize("per_lone_report", ["801/100", "199/100", "-1"])
def test_lone_report_is_between_the_caps_of_a_day_and_of_30_days(per_lone_report: str) -> None:
    """An app may give up the promise of a day for one report, and never that of 30 days."""
    with pytest.raises(ParameterError, match="per_lone_report"):
        BudgetLimits(per_lone_report=Fraction(per_lone_report))


def test_marks_keep_the_file_small(tmp_path: Path) -> None:
    """Noting the time each hour of a year writes a line a day."""
    clock = ManualClock()
    ledger = Ledger(LedgerFile(tmp_path / "ledger", Files()), BudgetLimits(), clock)
    ledger.note_time()
    assert not (tmp_path / "ledger").exists()
    ledger.debit(TASK, 0, Fraction(1))
    for _ in range(30 * 24):
        clock.pass_s(3600)
        ledger.note_time()
    assert 25 <= len((tmp_path / "ledger").read_bytes().splitlines()) <= 32
