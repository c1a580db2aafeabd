"""How much privacy budget a device has spent: a file of one line per report, written before the report exists.

    debit(task, window, epsilon)
      lock ─▶ read ─▶ [tail torn: end it with a mark ─▶ sync] ─▶ within the caps? ─▶ append line ─▶ sync ─▶ return
                                                                     └─ no: typed refusal, nothing written

A line is JSON: {"at_s": 1, "epsilon": "2", "task": "<64 hex>", "window": 3}; a mark is {"at_s": 1}.  Lines are only
ever added: nothing is rewritten, so no crash can take spent budget away.

Invariants:
  I1  `debit` returns after its line, and the directory entry of the file, are on the disk.
  I2  A (task, window) has at most one line, so at most one report.
  I3  The lines of any 24 hours and any 30 days sum to no more than the caps.
  I4  A line that cannot be read (a write cut short by a crash, damage) counts as a whole day's cap, at the latest time
      that it can have been written: that of the next readable line, or now.  The report it was for never existed.
  I5  A clock that goes back gives nothing: a line counts in a period unless it is older than the period by the present
      clock (one from the future counts), and no line is written with a time before an earlier one's.
  I6  Two processes that share the file take turns; each sees the other's lines.

The ledger is as old as its file: deleting it, or restoring an old copy, is outside of what a device can notice.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from alcove.privacy.errors import AlreadyReportedError, BudgetExceededError, LedgerStorageError, ParameterError
from alcove.privacy.limits import (
    DAY_S,
    EPSILON_PER_30_DAYS,
    EPSILON_PER_DAY,
    MAX_EPSILON,
    MAX_LEDGER_LINE_BYTES,
    MAX_WINDOW,
    MIN_EPSILON,
    TASK_ID_BYTES,
)

_RATIONAL = re.compile(r"[0-9]{1,40}(/[0-9]{1,40})?")
_HEX_TASK = re.compile(r"[0-9a-f]{64}")
_MAX_TIME_S = 1 << 53


class Clock(Protocol):
    """The device's wall clock."""

    def now_s(self) -> int:
        """Return seconds since 1970, by whatever the device believes."""
        ...


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
class BudgetLimits:
    """What a device may spend over all tasks, as exact epsilon."""

    per_day: Fraction = EPSILON_PER_DAY
    per_30_days: Fraction = EPSILON_PER_30_DAYS


@dataclass(frozen=True, slots=True)
class Debit:
    """Budget spent: by one report, or (`task_id` empty) by a line that a crash tore."""

    at_s: int
    epsilon: Fraction
    task_id: bytes = b""
    window: int = -1


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
        path: the file, made when the first debit comes; or a `LogFile`.
        limits: the caps.
        clock: the device's wall clock; it is not trusted to go forward.
    """

    def __init__(self, path: Path | LogFile, limits: BudgetLimits, clock: Clock) -> None:
        self._file = OsLogFile(path) if isinstance(path, Path) else path
        self._limits = limits
        self._clock = clock

    def debit(self, task_id: bytes, window: int, epsilon: Fraction) -> Debit:
        """Spend `epsilon` on the one report of a task's window; durable when it returns, before the report is made.

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
            now_s = self._clock.now_s()
            data = self._file.read()
            latest_s = max((debit.at_s for debit in _replay(data, now_s, self._limits)), default=0)
            at_s = max(now_s, latest_s)
            if _needs_mark(data):
                self._file.append((b"" if data.endswith(b"\n") else b"\n") + _line({"at_s": at_s}))
                data = self._file.read()
            debits = _replay(data, now_s, self._limits)
            if any(debit.task_id == task_id and debit.window == window for debit in debits):
                raise AlreadyReportedError(task_id=task_id.hex(), window=window)
            self._check_caps(debits, now_s, epsilon)
            fields: dict[str, int | str] = {"at_s": at_s, "epsilon": str(epsilon), "task": task_id.hex()}
            self._file.append(_line(fields | {"window": window}))
            return Debit(at_s, epsilon, task_id, window)

    def debits(self) -> tuple[Debit, ...]:
        """Return what was spent, oldest first, unreadable lines included; changes nothing.

        Raises:
            LedgerStorageError: the file could not be read.
        """
        return tuple(_replay(self._file.read(), self._clock.now_s(), self._limits))

    def spent(self) -> Spending:
        """Return what is spent by the present clock; changes nothing.

        Raises:
            LedgerStorageError: the file could not be read.
        """
        now_s = self._clock.now_s()
        debits = _replay(self._file.read(), now_s, self._limits)
        return Spending(
            day=_sum_within(debits, now_s, DAY_S),
            thirty_days=_sum_within(debits, now_s, 30 * DAY_S),
            total=sum((debit.epsilon for debit in debits), Fraction(0)),
            reports=sum(bool(debit.task_id) for debit in debits),
        )

    def _check_caps(self, debits: Iterable[Debit], now_s: int, cost: Fraction) -> None:
        debits = list(debits)
        periods = (("day", DAY_S, self._limits.per_day), ("30 days", 30 * DAY_S, self._limits.per_30_days))
        for period, length_s, cap in periods:
            spent = _sum_within(debits, now_s, length_s)
            if spent + cost > cap:
                raise BudgetExceededError(period=period, cap=str(cap), spent=str(spent), cost=str(cost))


class OsLogFile:
    """A `LogFile` in a folder that exists; readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the file's lock; each call opens the file anew, so threads of one process exclude each other too.

        Raises:
            LedgerStorageError: the file could not be made or locked.
        """
        with self._step("lock"):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with self._step("lock"):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> bytes:
        """Return all bytes; none where there is no file yet.

        Raises:
            LedgerStorageError: the file exists and could not be read.
        """
        with self._step("read"):
            return self._path.read_bytes() if self._path.exists() else b""

    def append(self, data: bytes) -> None:
        """Add `data`, sync the file, then its folder.

        Raises:
            LedgerStorageError: a step failed; any part of `data` may be in the file.
        """
        with self._step("append"):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _step(self, step: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerStorageError(step=step, path=self._path.name, reason=str(error)) from error


def _line(fields: dict[str, int | str]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _needs_mark(data: bytes) -> bool:
    """Whether the file ends in bytes that no later line dates (I4)."""
    return bool(data) and (not data.endswith(b"\n") or _parse(_lines(data)[-1]) is None)


def _replay(data: bytes, now_s: int, limits: BudgetLimits) -> list[Debit]:
    """Return what was spent, oldest first, unreadable lines included (I4)."""
    debits: list[Debit] = []
    undated = 0
    for line in _lines(data):
        parsed = _parse(line)
        if parsed is None:
            undated += 1
            continue
        debits += [Debit(parsed.at_s, limits.per_day)] * undated
        undated = 0
        if parsed.task_id:
            debits.append(parsed)
    return debits + [Debit(now_s, limits.per_day)] * undated


def _parse(line: bytes) -> Debit | None:
    """Return the debit of a line, a debit of nothing for a mark, or None if it is no line of ours."""
    try:
        fields = json.loads(line) if len(line) <= MAX_LEDGER_LINE_BYTES else None
        match fields:
            case {"at_s": int(at_s), "epsilon": str(epsilon), "task": str(task), "window": int(window), **more}:
                is_exact = _RATIONAL.fullmatch(epsilon) and _HEX_TASK.fullmatch(task) and 0 <= window <= MAX_WINDOW
                if is_exact and not more and 0 <= at_s <= _MAX_TIME_S:
                    return Debit(at_s, Fraction(epsilon), bytes.fromhex(task), window)
            case {"at_s": int(at_s), **more} if not more and 0 <= at_s <= _MAX_TIME_S:
                return Debit(at_s, Fraction(0))
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    return None


def _sum_within(debits: Iterable[Debit], now_s: int, length_s: int) -> Fraction:
    """Return the epsilon of the debits that are not older than `length_s`; those from the future count (I5)."""
    return sum((debit.epsilon for debit in debits if debit.at_s > now_s - length_s), Fraction(0))
