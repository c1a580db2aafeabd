"""The privacy ledger gives a device no new budget after a crash or a wrong clock."""

import contextlib
from collections.abc import Iterator
from fractions import Fraction

import pytest
from alcove.privacy import (
    AlreadyReportedError,
    BudgetExceededError,
    BudgetLimits,
    Debit,
    Ledger,
    LogFile,
    ParameterError,
)
from alcove.runtime.testing_seams import ManualClock
from hypothesis import given, settings
from hypothesis import strategies as st

DAY = 86_400
HOUR = 3600
NOON = 1_800_000_000
TASK = bytes(range(32))
ONE = Fraction(1)


class CrashError(BaseException):
    """The power went."""


class CrashingLog:
    """A log in memory whose power goes within its nth append, after a given number of that append's bytes."""

    def __init__(self, data: bytes = b"", crash_at: int | None = None, keep_bytes: int = 0) -> None:
        self.data = data
        self.crash_at = crash_at
        self.keep_bytes = keep_bytes
        self.appends = 0

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else is here."""
        yield

    def read(self) -> bytes:
        """Return what is on the disk."""
        return self.data

    def append(self, data: bytes) -> None:
        """Add `data`, or a part of it and crash."""
        self.appends += 1
        if self.appends == self.crash_at:
            self.data += data[: self.keep_bytes]
            raise CrashError
        self.data += data


def clock_at(time_s: int = NOON) -> ManualClock:
    """Return the clocks of a device that has run for 40 days at noon, and whose starts have no names."""
    return ManualClock(time_s, 0, up_s=time_s - NOON + 40 * DAY, names_starts=False)


def ledger_of(log: LogFile, clock: ManualClock | None = None) -> Ledger:
    """Return a ledger over a log."""
    return Ledger(log, BudgetLimits(), clock or clock_at())


def test_window_has_one_report_ever() -> None:
    """A second debit of a (task, window) is refused, by a new ledger of the same file too (I2)."""
    clock, log = clock_at(), CrashingLog()
    ledger_of(log, clock).debit(TASK, 7, ONE)
    clock.pass_s(400 * DAY)
    with pytest.raises(AlreadyReportedError) as caught:
        ledger_of(log, clock).debit(TASK, 7, ONE)
    assert (caught.value.task_id, caught.value.window) == (TASK.hex(), 7)
    ledger_of(log, clock).debit(TASK, 8, ONE)


def test_caps_of_a_day_and_of_30_days_hold() -> None:
    """2 a day, 8 in 30 days; the error names period, cap, spent and cost (I3)."""
    clock = clock_at()
    ledger = ledger_of(CrashingLog(), clock)
    window = iter(range(100))
    for day in range(4):
        clock.pass_s(DAY if day else 0)
        ledger.debit(TASK, next(window), ONE, may_use_reserve=True)
        ledger.debit(TASK, next(window), ONE, may_use_reserve=True)
        with pytest.raises(BudgetExceededError, match=r"epsilon per day is at most 2; 2 is spent"):
            ledger.debit(TASK, next(window), Fraction(1, 100), may_use_reserve=True)
    clock.pass_s(DAY)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.debit(TASK, next(window), ONE, may_use_reserve=True)
    assert (caught.value.period, caught.value.cap, caught.value.spent, caught.value.cost) == ("30 days", "8", "8", "1")
    clock.pass_s(26 * DAY)
    ledger.debit(TASK, next(window), Fraction(2))
    assert ledger.spending().total == 10
    assert ledger.spending().reports == 9


def test_refusal_writes_nothing() -> None:
    """A refused debit leaves the file as it was."""
    log = CrashingLog()
    ledger = ledger_of(log)
    ledger.debit(TASK, 0, Fraction(2))
    before = log.data
    with pytest.raises(BudgetExceededError):
        ledger.debit(TASK, 1, ONE)
    with pytest.raises(AlreadyReportedError):
        ledger.debit(TASK, 0, ONE)
    assert log.data == before


def test_crash_after_each_byte_of_each_write_never_gives_budget() -> None:
    """Power goes at every byte of an append, twice in a row: never more than the cap, and days later work continues."""
    whole = CrashingLog()
    ledger_of(whole).debit(TASK, 0, ONE)
    line_bytes = len(whole.data)
    for first_cut in range(line_bytes + 1):
        log = CrashingLog(crash_at=1, keep_bytes=first_cut)
        with pytest.raises(CrashError):
            ledger_of(log).debit(TASK, 0, Fraction(2))
        data = log.data
        for second_cut in (0, 1, 2, line_bytes // 8, line_bytes):
            log = CrashingLog(data, crash_at=1, keep_bytes=second_cut)
            made = 0
            for window in range(4):
                with contextlib.suppress(CrashError, BudgetExceededError, AlreadyReportedError):
                    ledger_of(log).debit(TASK, window, ONE)
                    made += 1
            torn_cost = 2 if data else 0
            assert made + torn_cost <= 2, (first_cut, second_cut)
            later = ledger_of(CrashingLog(log.data), clock_at(NOON + 31 * DAY))
            assert later.debit(TASK, 99, ONE).window == 99


def test_torn_line_counts_as_spent_for_a_day_and_then_no_more() -> None:
    """The line that a crash tore costs a day's cap from when it is found, not for ever (I4)."""
    clock = clock_at()
    log = CrashingLog(crash_at=2, keep_bytes=20)
    ledger = ledger_of(log, clock)
    ledger.debit(TASK, 0, ONE)
    with pytest.raises(CrashError):
        ledger.debit(TASK, 1, ONE)
    assert ledger.spending().day == 3
    clock.pass_s(DAY // 2)
    with pytest.raises(BudgetExceededError):
        ledger.debit(TASK, 1, ONE)
    clock.pass_s(DAY // 2)
    with pytest.raises(BudgetExceededError):
        ledger.debit(TASK, 1, ONE)
    clock.pass_s(DAY // 2)
    assert ledger.debit(TASK, 1, ONE, may_use_reserve=True).epsilon == 1
    assert ledger.spending().thirty_days == 4


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\x00" * 40,
        b"[" * 5000,
        b"9" * 5000,
        b"null",
        b'{"at_s": -1}',
        b'{"at_s": 99999999999999999999}',
        b'{"at_s": 1, "epsilon": "1/0", "task": "' + b"00" * 32 + b'", "window": 0}',
        b'{"at_s": 1, "epsilon": "-1", "task": "' + b"00" * 32 + b'", "window": 0}',
        b'{"at_s": 1, "epsilon": 1, "task": "' + b"00" * 32 + b'", "window": 0}',
        b'{"at_s": 1, "epsilon": "1", "task": "00", "window": 0}',
        b'{"at_s": 1, "epsilon": "1", "task": "' + b"00" * 32 + b'", "window": 0, "more": 1}',
        b'{"at_s": 1, "epsilon": "1", "reserve": 1, "task": "' + b"00" * 32 + b'", "window": 0}',
    ],
)
def test_damaged_line_counts_as_spent(line: bytes) -> None:
    """Whatever stands there, it costs a day's cap at the time of the next good line, or now."""
    last = CrashingLog(line + b"\n")
    with pytest.raises(BudgetExceededError):
        ledger_of(last).debit(TASK, 0, ONE)
    middle = CrashingLog(line + b"\n" + b'{"at_s": %d}\n' % (NOON - 2 * DAY))
    ledger = ledger_of(middle)
    assert ledger.spending().thirty_days == 2
    ledger.debit(TASK, 0, ONE)


def within(debits: list[Debit], end_s: int, length_s: int) -> list[Debit]:
    """The debits of a period that ends at a time."""
    return [debit for debit in debits if end_s - length_s < debit.at_s <= end_s]


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(-40 * DAY, 40 * DAY), st.sampled_from(["1/2", "1", "2", "5", "8"]), st.booleans()),
        max_size=25,
    ),
    st.sampled_from([BudgetLimits(), BudgetLimits(ONE, Fraction(4)), BudgetLimits(per_lone_report=Fraction(8))]),
)
def test_no_sequence_of_reports_passes_the_caps(steps: list[tuple[int, str, bool]], limits: BudgetLimits) -> None:
    """However the clock jumps, whoever reports: no period has more than its cap by the times written down (I3, I5).

    Experiments never eat the reserve, and leave six hours of a day.
    """
    clock = clock_at()
    log = CrashingLog()
    made: list[Debit] = []
    for window, (step, epsilon, may_use_reserve) in enumerate(steps):
        clock.time_s = max(0, clock.time_s + step)
        clock.pass_s(max(step, 0) // 8)
        with contextlib.suppress(BudgetExceededError):
            ledger = Ledger(log, limits, clock)
            made.append(ledger.debit(TASK, window, Fraction(epsilon), may_use_reserve=may_use_reserve))
    times = [debit.at_s for debit in made]
    assert times == sorted(times)
    experiments = [debit for debit in made if not debit.may_use_reserve]
    for end in times:
        for debits, length_s in ((made, DAY), (experiments, 30 * HOUR)):
            period = within(debits, end, length_s)
            cap = limits.per_day if len(period) > 1 else limits.largest_report
            assert sum(debit.epsilon for debit in period) <= cap
        assert sum(debit.epsilon for debit in within(made, end, 30 * DAY)) <= limits.per_30_days
        assert sum(debit.epsilon for debit in within(experiments, end, 30 * DAY)) <= limits.per_30_days * Fraction(3, 4)
    assert list(Ledger(log, limits, clock).debits()) == made


def test_experiment_that_spends_what_it_may_leaves_a_rollout_heard() -> None:
    """At epsilon 2 for an experiment on days 0 to 3, and a rollout from day 4: the device reports for it on day 4."""
    clock = clock_at()
    ledger = ledger_of(CrashingLog(), clock)
    paid = []
    for day in range(5):
        with contextlib.suppress(BudgetExceededError):
            paid.append((day, ledger.debit(TASK, day, Fraction(2), may_use_reserve=day == 4).may_use_reserve))
        clock.pass_s(DAY)
    assert paid == [(0, False), (2, False), (4, True)]


def test_experiment_that_spent_all_that_it_may_leaves_the_reserve() -> None:
    """Six of eight are an experiment's, one and one a rollout's; then nobody reports until the first is 30 days old."""
    clock = clock_at()
    ledger = ledger_of(CrashingLog(), clock)
    for window in range(3):
        ledger.debit(TASK, window, Fraction(2))
        clock.pass_s(30 * HOUR)
    with pytest.raises(BudgetExceededError, match="30 days of experiments"):
        ledger.debit(TASK, 3, Fraction(1, 100))
    for window in (4, 5):
        ledger.debit(TASK, window, ONE, may_use_reserve=True)
    clock.pass_s(DAY)
    with pytest.raises(BudgetExceededError, match="epsilon per 30 days is at most 8"):
        ledger.debit(TASK, 6, ONE, may_use_reserve=True)
    clock.pass_s(30 * DAY - 4 * 30 * HOUR + 6 * HOUR)
    assert ledger.debit(TASK, 6, Fraction(2)).epsilon == 2


def test_read_out_after_a_quiet_month_is_paid_in_each_window() -> None:
    """Experiments spent all until its first day; then three reports of epsilon 2 in 30 days, and never more than 6."""
    clock = clock_at()
    ledger = ledger_of(CrashingLog(), clock)
    for window in range(3):
        ledger.debit(TASK, window, Fraction(2))
        clock.pass_s(30 * HOUR)
    readout, paid = bytes(32), dict[int, int]()
    for day in range(120):
        for window in ((day - 30) // 10 - 1, (day - 30) // 10):
            if window >= 0 and window not in paid:
                with contextlib.suppress(BudgetExceededError):
                    ledger.debit(readout, window, Fraction(2))
                    paid[window] = day
        assert ledger.spending().thirty_days <= 6
        clock.pass_s(DAY)
    assert {window: (day - 30) // 10 for window, day in paid.items()} == {window: window for window in range(9)}


def test_day_of_an_experiment_ends_six_hours_before_its_next_one() -> None:
    """An experiment that would spend each day's cap: 24 hours later a rollout may, and it may not until 30 are over."""
    clock = clock_at()
    ledger = ledger_of(CrashingLog(), clock)
    ledger.debit(TASK, 0, Fraction(2))
    with pytest.raises(BudgetExceededError, match="per day"):
        ledger.debit(TASK, 1, ONE, may_use_reserve=True)
    clock.pass_s(DAY)
    with pytest.raises(BudgetExceededError, match="30 hours of experiments"):
        ledger.debit(TASK, 2, ONE)
    ledger.debit(TASK, 1, ONE, may_use_reserve=True)
    clock.pass_s(6 * HOUR)
    ledger.debit(TASK, 2, ONE)


def test_line_that_does_not_say_whose_it_is_is_an_experiments() -> None:
    """A ledger that was written before there was a reserve is read, and keeps the reserve for guardrails."""
    lines = [
        b'{"at_s": %d, "epsilon": "2", "task": "%s", "up_s": 5, "wall_s": %d, "window": %d}' % (at, b"00" * 32, at, day)
        for day, at in enumerate(NOON - (4 - day) * 2 * DAY for day in range(3))
    ]
    ledger = ledger_of(CrashingLog(b"\n".join(lines) + b"\n"))
    assert [(debit.epsilon, debit.may_use_reserve) for debit in ledger.debits()] == [(Fraction(2), False)] * 3
    with pytest.raises(BudgetExceededError, match="30 days of experiments"):
        ledger.debit(TASK, 0, ONE)
    assert ledger.debit(TASK, 0, ONE, may_use_reserve=True) in ledger.debits()


def test_lone_report_may_cost_more_where_the_app_says_so() -> None:
    """One of 6 is alone in its day, of whatever kind the others are; without the app's word there is none."""
    clock, log = clock_at(), CrashingLog()
    with pytest.raises(BudgetExceededError, match="per day is at most 2; 0 is spent"):
        ledger_of(log, clock).debit(TASK, 0, Fraction(6))
    ledger = Ledger(log, BudgetLimits(per_lone_report=Fraction(6)), clock)
    ledger.debit(TASK, 0, Fraction(1, 100), may_use_reserve=True)
    with pytest.raises(BudgetExceededError, match="per day"):
        ledger.debit(TASK, 1, Fraction(6))
    clock.pass_s(DAY)
    ledger.debit(TASK, 1, Fraction(6))
    with pytest.raises(BudgetExceededError, match="per day"):
        ledger.debit(TASK, 2, Fraction(1, 100), may_use_reserve=True)
    clock.pass_s(2 * DAY)
    with pytest.raises(BudgetExceededError, match="30 days of experiments"):
        ledger.debit(TASK, 3, ONE)
    ledger.debit(TASK, 2, Fraction(199, 100), may_use_reserve=True)
    torn = Ledger(CrashingLog(b"{"), BudgetLimits(per_lone_report=Fraction(6)), clock)
    assert torn.spending().day == 6


def test_clock_going_back_gives_nothing() -> None:
    """Spent now, refused yesterday, last year and at the clock's beginning (I5)."""
    clock = clock_at()
    log = CrashingLog()
    ledger_of(log, clock).debit(TASK, 0, Fraction(2))
    for earlier in (NOON - 1, NOON - 2 * DAY, NOON - 400 * DAY, 0):
        clock.time_s = earlier
        with pytest.raises(BudgetExceededError):
            ledger_of(log, clock).debit(TASK, 1, ONE)


@pytest.mark.parametrize(
    ("task", "window", "epsilon", "name"),
    [
        (b"", 0, ONE, "task_id"),
        (TASK, -1, ONE, "window"),
        (TASK, 0, Fraction(0), "epsilon"),
        (TASK, 0, Fraction(99), "epsilon"),
    ],
)
def test_argument_out_of_bound_is_refused(task: bytes, window: int, epsilon: Fraction, name: str) -> None:
    """Nothing is written for a call that is wrong."""
    log = CrashingLog()
    with pytest.raises(ParameterError, match=name):
        ledger_of(log).debit(task, window, epsilon)
    assert log.data == b""
