"""Records the privacy budget that a device has spent: one line per report, written before the report exists.

    debit(task, window, epsilon, may_use_reserve)
      lock ─▶ read ─▶ [tail torn: end it with a mark ─▶ sync] ─▶ within the caps? ─▶ append line ─▶ sync ─▶ return
                                                                     └─ no: typed refusal, nothing written

A line is JSON: {"at_s": 1, "epsilon": "2", "task": "<64 hex>", "up_s": 5, "wall_s": 1, "window": 3}, and "boot" where
the device's start has a name; "reserve": true in the line of a guardrail's report.  A mark is one without epsilon, task
and window.  Lines are only ever added: nothing is rewritten, so no crash can take spent budget away.

Time is the ledger's own (`at_s`): it begins with the wall clock at the first line, and from one line to the next goes
on by the lesser of what the wall clock shows and the time that the device has run (`wall_s` and `up_s` are both clocks
at a line).  Where the device was started since, it has run since its start, and may have been off for a day before.

Invariants:
  I1  `debit` returns after its line, and the directory entry of the file, are on the disk.
  I2  A (task, window) has at most one line, so at most one report.
  I3  The lines of any 24 hours and any 30 days of the ledger's time sum to no more than the caps (`budget.py`), and the
      lines that may not use the reserve to no more than theirs; one that does not say whether it may, may not.
  I4  A line that cannot be read (a write cut short by a crash, damage) counts as the largest report that the limits
      allow, of an experiment, at the latest time that it can have been written: that of the next readable line, or now.
      The report it was for never existed.
  I5  Within one start of the device the ledger's time is never faster than the time that passes, whatever the wall
      clock shows; each start adds a day at most.  A clock that is set forward, or back, gives nothing.
  I6  A clock that was wrong and is set right stops nothing for long: a mark notes it when it is seen, and the ledger's
      time continues from there.
  I7  Two processes that share the file take turns; each sees the other's lines.

The ledger is as old as its file: deleting it, or restoring an old copy, is outside of what a device can notice.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from alcove.privacy.budget import BudgetLimits
from alcove.privacy.errors import AlreadyReportedError, BudgetExceededError, ParameterError
from alcove.privacy.limits import (
    DAY_S,
    MAX_BOOT_CHARACTERS,
    MAX_EPSILON,
    MAX_LEDGER_LINE_BYTES,
    MAX_WINDOW,
    MIN_EPSILON,
    TASK_ID_BYTES,
)

if TYPE_CHECKING:
    from alcove.runtime.clock import Clock

_RATIONAL = re.compile(r"[0-9]{1,40}(/[0-9]{1,40})?")
_HEX_TASK = re.compile(r"[0-9a-f]{64}")
_MAX_TIME_S = 1 << 53


class LogFile(Protocol):
    """A file that only grows."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other threads and processes out of the file while the context lasts."""
        ...

    def read(self) -> bytes:
        """Return all bytes."""
        ...

    def append(self, data: bytes) -> None:
        """Add `data` at the end; when it returns, the bytes and the file's name are on the disk."""
        ...


@dataclass(frozen=True, slots=True)
class Debit:
    """Budget spent: by one report, or (`task_id` empty) by a line that a crash tore."""

    at_s: int
    epsilon: Fraction
    task_id: bytes = b""
    window: int = -1
    may_use_reserve: bool = False


@dataclass(frozen=True, slots=True)
class _Moment:
    """Times of one moment, in seconds.

    Attributes:
        at_s: the ledger's.
        wall_s: the wall clock's.
        up_s: since the device's start; None: not known.
        boot: names the start; "": it has no name.
    """

    at_s: int
    wall_s: int
    up_s: int | None
    boot: str = ""

    def is_before_start_of(self, later: "_Moment") -> bool:
        """Tell whether the device was started between two moments; where that cannot be known, it was not."""
        if self.up_s is None or later.up_s is None or later.up_s < self.up_s:
            return True
        return bool(self.boot and later.boot and self.boot != later.boot)

    def then(self, clocks: "_Moment") -> "_Moment":
        """Return the moment at which the clocks show this (I5)."""
        up_s = clocks.up_s or 0
        ran_s = up_s + DAY_S if self.is_before_start_of(clocks) else up_s - (self.up_s or 0)
        passed_s = max(min(clocks.wall_s - self.wall_s, ran_s), 0)
        return replace(clocks, at_s=min(self.at_s + passed_s, _MAX_TIME_S))

    def fields(self) -> dict[str, int | str]:
        """Return what a line says of it."""
        clocks: dict[str, int | str] = {"at_s": self.at_s, "wall_s": self.wall_s, "up_s": self.up_s or 0}
        return clocks | ({"boot": self.boot} if self.boot else {})


@dataclass(frozen=True, slots=True)
class Spending:
    """What a ledger says: exact epsilon of the last day, the last 30 days and all time, and how many reports."""

    day: Fraction
    thirty_days: Fraction
    total: Fraction
    reports: int


class Ledger:
    """The budget of one device.

    Args:
        log: where the lines are.
        limits: the caps.
        clock: the device's clocks; the wall clock is not trusted either way.
    """

    def __init__(self, log: LogFile, limits: BudgetLimits, clock: "Clock") -> None:
        self._file = log
        self._limits = limits
        self._clock = clock

    def debit(self, task_id: bytes, window: int, epsilon: Fraction, *, may_use_reserve: bool = False) -> Debit:
        """Spend `epsilon` on the one report of a task's window; durable when it returns, before the report is made.

        Args:
            task_id: of the report.
            window: of the task.
            epsilon: what it costs.
            may_use_reserve: it is a guardrail's, for which experiments leave a reserve.

        Raises:
            ParameterError: an argument is out of its bound.
            AlreadyReportedError: the window had its report.
            BudgetExceededError: a cap would be passed.
            LedgerStorageError: the file could not be read, written or synced; make no report.
        """
        if len(task_id) != TASK_ID_BYTES:
            raise ParameterError(name="task_id", bound=f"{TASK_ID_BYTES} bytes", value=task_id)
        if not 0 <= window <= MAX_WINDOW:
            raise ParameterError(name="window", bound=f"in [0, {MAX_WINDOW}]", value=window)
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise ParameterError(name="epsilon", bound=f"in [{MIN_EPSILON}, {MAX_EPSILON}]", value=epsilon)
        with self._file.exclusive():
            data = self._file.read()
            now = self._now(data)
            if _needs_mark(data) or _is_behind(now, data):
                self._mark(data, now)
                data = self._file.read()
            debits = _replay(data, now.at_s, self._limits)
            if any(debit.task_id == task_id and debit.window == window for debit in debits):
                raise AlreadyReportedError(task_id=task_id.hex(), window=window)
            debit = Debit(now.at_s, epsilon, task_id, window, may_use_reserve)
            self._check_caps(debits, debit)
            fields: dict[str, int | str] = {"epsilon": str(epsilon), "task": task_id.hex(), "window": window}
            reserve: dict[str, int | str] = {"reserve": True} if may_use_reserve else {}
            self._file.append(_line(now.fields() | fields | reserve))
            return debit

    def note_time(self) -> None:
        """Write a mark where a day has passed since the last line, or a clock restarted; else do nothing.

        Time that no line notes before the device is started again is lost except for a day (I5): call it now and then.

        Raises:
            LedgerStorageError: the file could not be read, written or synced.
        """
        data = self._file.read()
        if not data:
            return
        with self._file.exclusive():
            data = self._file.read()
            last, now = _last_moment(data), self._now(data)
            if last is None or last.is_before_start_of(now) or now.at_s - last.at_s >= DAY_S or _is_behind(now, data):
                self._mark(data, now)

    def debits(self) -> tuple[Debit, ...]:
        """Return what was spent, oldest first, unreadable lines included; changes nothing.

        Raises:
            LedgerStorageError: the file could not be read.
        """
        data = self._file.read()
        return tuple(_replay(data, self._now(data).at_s, self._limits))

    def spending(self) -> Spending:
        """Return what is spent by the present clock; changes nothing.

        Raises:
            LedgerStorageError: the file could not be read.
        """
        data = self._file.read()
        now_s = self._now(data).at_s
        debits = _replay(data, now_s, self._limits)
        return Spending(
            day=_sum_within(debits, now_s, DAY_S),
            thirty_days=_sum_within(debits, now_s, 30 * DAY_S),
            total=sum((debit.epsilon for debit in debits), Fraction(0)),
            reports=sum(bool(debit.task_id) for debit in debits),
        )

    def _now(self, data: bytes) -> _Moment:
        wall_s = min(max(self._clock.now_s(), 0), _MAX_TIME_S)
        up_s = self._clock.monotonic_ns() // 1_000_000_000
        boot = self._clock.boot_id()[:MAX_BOOT_CHARACTERS]
        clocks, last = _Moment(wall_s, wall_s, up_s, boot), _last_moment(data)
        return clocks if last is None else last.then(clocks)

    def _mark(self, data: bytes, now: _Moment) -> None:
        self._file.append((b"" if not data or data.endswith(b"\n") else b"\n") + _line(now.fields()))

    def _check_caps(self, debits: Iterable[Debit], new: Debit) -> None:
        debits = list(debits)
        for cap in self._limits.caps(may_use_reserve=new.may_use_reserve):
            counted = [debit for debit in debits if not (cap.is_of_experiments and debit.may_use_reserve)]
            spent = _sum_within(counted, new.at_s, cap.length_s)
            if not cap.allows(spent, new.epsilon):
                most = cap.most if spent else cap.most_of_one
                raise BudgetExceededError(period=cap.period, cap=str(most), spent=str(spent), cost=str(new.epsilon))


def _line(fields: dict[str, int | str]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _needs_mark(data: bytes) -> bool:
    """Whether the file ends in bytes that no later line dates (I4)."""
    return bool(data) and (not data.endswith(b"\n") or _parse(_lines(data)[-1]) is None)


def _last_moment(data: bytes) -> _Moment | None:
    """Return the moment of the last line that can be read; None: there is none."""
    for line in reversed(_lines(data)):
        parsed = _parse(line)
        if parsed is not None:
            return parsed[1]
    return None


def _is_behind(now: _Moment, data: bytes) -> bool:
    """Tell whether the wall clock shows less than it did at the last line (I6)."""
    last = _last_moment(data)
    return last is not None and now.wall_s < last.wall_s


def _replay(data: bytes, now_s: int, limits: BudgetLimits) -> list[Debit]:
    """Return what was spent, oldest first, unreadable lines included (I4)."""
    debits: list[Debit] = []
    undated = 0
    for line in _lines(data):
        parsed = _parse(line)
        if parsed is None:
            undated += 1
            continue
        debit, moment = parsed
        debits += [Debit(moment.at_s, limits.largest_report)] * undated
        undated = 0
        if debit is not None:
            debits.append(debit)
    return debits + [Debit(now_s, limits.largest_report)] * undated


def _parse(line: bytes) -> tuple[Debit | None, _Moment] | None:
    """Return the debit of a line, None for a mark, and its moment; None if it is no line of ours."""
    try:
        fields = json.loads(line) if len(line) <= MAX_LEDGER_LINE_BYTES else None
        match fields:
            case {"at_s": int(at_s), "epsilon": str(epsilon), "task": str(task), "window": int(window), **more}:
                is_exact = _RATIONAL.fullmatch(epsilon) and _HEX_TASK.fullmatch(task) and 0 <= window <= MAX_WINDOW
                reserve = more.pop("reserve", False)
                moment = _moment(at_s, more)
                if is_exact and moment is not None and isinstance(reserve, bool):
                    return Debit(at_s, Fraction(epsilon), bytes.fromhex(task), window, reserve), moment
            case {"at_s": int(at_s), **more}:
                moment = _moment(at_s, more)
                return None if moment is None else (None, moment)
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    return None


def _moment(at_s: int, more: Mapping[Any, object]) -> _Moment | None:
    """Return the moment of a line; one without clocks is of the time when `at_s` was the wall clock's."""
    match more:
        case {"wall_s": int(wall_s), "up_s": int(up_s), **rest} if rest.keys() <= {"boot"}:
            boot = rest.get("boot", "")
            is_sane = isinstance(boot, str) and all(0 <= time <= _MAX_TIME_S for time in (at_s, wall_s, up_s))
            return _Moment(at_s, wall_s, up_s, str(boot)) if is_sane else None
        case {} if not more:
            return _Moment(at_s, at_s, None) if 0 <= at_s <= _MAX_TIME_S else None
    return None


def _sum_within(debits: Iterable[Debit], now_s: int, length_s: int) -> Fraction:
    """Return the epsilon of the debits that are not older than `length_s`; those from the future count."""
    return sum((debit.epsilon for debit in debits if debit.at_s > now_s - length_s), Fraction(0))
