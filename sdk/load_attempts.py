"""Counts how often a version ended this app, and keeps one that does so from being loaded here again.

    data_dir/tries/
      <manifest sha256>.<kind>.<token>.running  a version in one living process: what `LoadAttempt` maps
      <manifest sha256>.<kind>.<number>.crash   the same, of a process that ended in native code; numbers rise
      <manifest sha256>.proven                  it has answered here
      <manifest sha256>.quarantined             it crashed in a row: never loaded or installed again
      <manifest sha256>.refused                 its program was refused at its installation: a line of JSON each time

    begin: counted, synced ─▶ load ─▶ at rest ⇄ a run, each of them                 the app ends
              │                │                  └ ends here, by a signal or by its own fault: .crash
              │                └ ends here: .crash                    └ at rest, after an answer: crashes before it go
              └ the crashes are a loop: .quarantined ─▶ previous slot, then the app's baseline

The rule (`is_crash_loop`).  A process that ends in native code has crashed of the version.  A system or a user that
kills apps at random moments does that too, the more often the more time an app spends there; so a crash weighs 1 where
the process had spent at most a second in native code, and 1/s after s seconds.  Crashes count in a row: a process that
got an answer and ended at rest forgives those before it.  Among the newest four, weights of 3 are a loop, and so are
three crashes after the same number of answers, as far into the run (within a quarter, or a second): so crashes a
program, and no killer.

Invariants:
  T1  An attempt is on the disk, content and name, before the first byte of its program is loaded.  Where it cannot be
      written (a full disk), the version is loaded all the same: an answer comes before a count.
  T2  The process that makes an attempt locks its file until it ends, however it ends: one that nobody holds and
      that says "in native code" is a crash.  Processes never change each other's attempts while they live.
  T3  Crashes count for each kind of process (its program's name): one that loops is caught beside one that is well.
  T4  A quarantine has no end.  It is by digest: the team publishes another version.
  T5  Nothing here is under the slots' lock (I6), so nobody who predicts waits for a sync.  An app of before this folder
      existed leaves it alone; `state.json` says nothing of it.
  T6  A version that was refused `MAX_REFUSALS` times is fetched again for another version of the runtime only: to check
      it may take a minute of a processor, and comes to the same.
  T7  A run writes to mapped memory, twice, and takes no other step; but while a version has not answered, or takes
      `SLOW_RUN_S` and more for an answer, a thread notes four times a second how far the run is.  The child of a fork
      is not counted.
"""

import atexit
import contextlib
import fcntl
import json
import mmap
import os
import struct
import sys
import threading
import time
import weakref
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.limits import (
    ALIKE,
    CRASH_WEIGHT_S,
    MAX_CRASHES,
    MAX_CRASHES_KEPT,
    MAX_REASON,
    MAX_REFUSALS,
    MAX_REFUSALS_BYTES,
    PULSE_S,
    SLOW_RUN_S,
)
from alcove.sdk.storage import PARTIAL, Files

RUNNING: Final = ".running"
CRASH: Final = ".crash"
HEALTHY: Final = ".proven"
QUARANTINED: Final = ".quarantined"
REFUSED: Final = ".refused"
_OF_BEFORE: Final = ".try"
"""What apps of before 0.2 wrote: a byte, until the first answer."""

_RECORD: Final = struct.Struct("=QQQQ")
"""Runs at hand, answers, nanoseconds in native code, and in the run at hand: of this machine, so in its own order."""
_RUNS, _ANSWERS, _NATIVE_NS, _RUN_NS = range(4)


@dataclass(frozen=True, slots=True)
class Crash:
    """What is known of a process that ended in native code.

    Attributes:
        answers: how many healthy ones it had before.
        native_ns: how long it had been in native code before the run that it ended in, in nanoseconds.
        run_ns: how far that run was, as far as noted.
    """

    answers: int
    native_ns: int
    run_ns: int = 0


def is_crash_loop(crashes: Sequence[Crash]) -> bool:
    """Tell whether these crashes, in a row, are the version's fault."""
    whole_ns = CRASH_WEIGHT_S * 1e9
    weight = sum(1 / max(1.0, (crash.native_ns + crash.run_ns) / whole_ns) for crash in crashes)
    runs_ns: defaultdict[int, list[float]] = defaultdict(list)
    for crash in crashes:
        runs_ns[crash.answers].append(max(whole_ns, crash.run_ns))
    return weight >= MAX_CRASHES or any(_has_alike(sorted(spent)) for spent in runs_ns.values())


def _has_alike(spent_ns: list[float]) -> bool:
    """Tell whether enough of these times, in order, are alike."""
    span = MAX_CRASHES - 1
    return any(longer <= ALIKE * shorter for shorter, longer in zip(spent_ns, spent_ns[span:], strict=False))


class LoadAttempt:
    """A process's attempt to load one version, until the process ends; safe for several threads.

    Attributes:
        is_over: it needs no watching; read without a lock at each prediction.
        is_slow: its next run may take long, so that it is noted how far it is.

    Args:
        files: the disk.
        path: the attempt's file.
        record: its bytes, shared and locked; None for an attempt that is over before it begins.
        healthy_marker: the marker of a version that has answered.
    """

    __slots__ = (
        "__weakref__",
        "_files",
        "_healthy_marker",
        "_lock",
        "_path",
        "_pulse",
        "_record",
        "is_over",
        "is_slow",
    )

    def __init__(self, files: Files, path: Path, record: "memoryview[int] | None", healthy_marker: Path) -> None:
        self._files = files
        self._path = path
        self._record = record
        self._healthy_marker = healthy_marker
        # Held for a few writes to memory.
        self._lock = threading.Lock()
        self._pulse: _Pulse | None = None
        self.is_over = record is None
        self.is_slow = record is not None
        if record is not None:
            _LIVING.add(self)
            self._begin_pulse()

    def enter(self) -> None:
        """Native code begins; to be called before each run."""
        with self._lock:
            if self._record is not None:
                self._record[_RUNS] += 1
                if self.is_slow and self._pulse is None:
                    self._begin_pulse()

    def leave(self, *, is_healthy: bool, native_ns: int = 0) -> None:
        """Native code has returned; raises nothing.

        Args:
            is_healthy: it was a prediction, and it had a value.
            native_ns: how long it took, in nanoseconds.
        """
        with self._lock:
            record = self._record
            if record is None:
                return
            record[_NATIVE_NS] += native_ns
            if is_healthy:
                record[_ANSWERS] += 1
            record[_RUNS] -= 1
            self.is_slow = record[_ANSWERS] == 0 or native_ns >= SLOW_RUN_S * 1e9
            if record[_RUNS] == 0 or not self.is_slow:
                self._end_pulse(record)
            is_first = is_healthy and record[_ANSWERS] == 1
        if is_first and not self._healthy_marker.exists():
            with contextlib.suppress(DeviceStorageError):
                # Not synced: lost in a power cut, it is merely marked later.
                self._files.append(self._healthy_marker, b"")

    def abandon(self) -> None:
        """End the attempt, because the version was refused or left; raises nothing.

        An attempt that had an answer stays, at rest, for the next process to see; of another nothing is learned.
        """
        with self._lock:
            record, self._record = self._record, None
            self.is_over = True
            if record is None:
                return
            has_answered = record[_ANSWERS] > 0
            record[_RUNS] = 0
            self._end_pulse(record)
            record.release()
        if not has_answered:
            with contextlib.suppress(DeviceStorageError):
                self._files.remove(self._path)

    def forget(self) -> None:
        """Leave the attempt to the process that this one was forked from."""
        self._lock = threading.Lock()  # its holder is not in this process
        self.is_over = True
        self._record = self._pulse = None

    def note(self, run_ns: int) -> None:
        """Note how far the run at hand is, in nanoseconds; raises nothing."""
        with self._lock:
            if self._record is not None and self._pulse is not None:
                self._record[_RUN_NS] = run_ns

    def _begin_pulse(self) -> None:
        with contextlib.suppress(RuntimeError):  # no thread to be had: how far the run is stays unknown
            self._pulse = _Pulse(self)

    def _end_pulse(self, record: "memoryview[int]") -> None:
        if self._pulse is not None:
            self._pulse.end()
            self._pulse = None
        record[_RUN_NS] = 0


class _Pulse:
    """Notes four times a second how far an attempt's run is, until it is ended; holds no lock between."""

    def __init__(self, attempt: LoadAttempt) -> None:
        self._attempt = weakref.ref(attempt)
        self._start_ns = time.monotonic_ns()
        self._ended = threading.Event()
        threading.Thread(target=self._beat, name="alcove-pulse", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _beat(self) -> None:
        while not self._ended.wait(PULSE_S):
            attempt = self._attempt()
            if attempt is None:
                return
            attempt.note(time.monotonic_ns() - self._start_ns)


_LIVING: "weakref.WeakSet[LoadAttempt]" = weakref.WeakSet()


def _forget_all() -> None:
    for attempt in list(_LIVING):
        attempt.forget()


def _abandon_all() -> None:
    """Let an orderly end of the process be no crash, also while a late run is on a thread that nobody waits for."""
    for attempt in list(_LIVING):
        attempt.abandon()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_abandon_all)

NO_ATTEMPT: Final = LoadAttempt(Files(), Path(), None, Path())
"""Of what needs none: the app's own baseline, and a version whose attempt could not be written."""


class AttemptLog:
    """The load attempts, health markers and quarantines of a data folder; safe for several threads and processes.

    Args:
        folder: "tries" in the data folder; made when first needed.
        files: the disk.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        # Tells an app's own programs apart; a digest of hashlib would load OpenSSL into every app.
        self._kind = f"{zlib.crc32(_program_name().encode(errors='replace')):08x}"

    def begin(self, manifest_sha256: str) -> LoadAttempt | None:
        """Count a load attempt of a version that is about to be loaded; None where it is quarantined.

        The attempt begins in native code; `leave` when the load has returned.
        """
        try:
            if self.is_quarantined(manifest_sha256):
                return None
            if self._is_loop(manifest_sha256):
                self._quarantine(manifest_sha256)
                return None
            return self._count_attempt(manifest_sha256)
        except (DeviceStorageError, OSError):
            return NO_ATTEMPT

    def is_healthy(self, manifest_sha256: str) -> bool:
        """Tell whether a version has answered here."""
        return (self._folder / f"{manifest_sha256}{HEALTHY}").exists()

    def is_quarantined(self, manifest_sha256: str) -> bool:
        """Tell whether a version must not be loaded or installed here."""
        return (self._folder / f"{manifest_sha256}{QUARANTINED}").exists()

    def refuse(self, manifest_sha256: str, variant: str, runtime: str, reason: str) -> None:
        """Remember that this version of the runtime refused a program; where that fails, it is not remembered."""
        line = json.dumps({"reason": reason[:MAX_REASON], "runtime": runtime, "variant": variant}) + "\n"
        with contextlib.suppress(DeviceStorageError):
            self._files.make_folder(self._folder)
            self._files.append(self._folder / f"{manifest_sha256}{REFUSED}", line.encode())

    def accept(self, manifest_sha256: str) -> None:
        """Forget that a program was refused, because another runtime took it."""
        path = self._folder / f"{manifest_sha256}{REFUSED}"
        if path.exists():
            self._drop(path)

    def refusal(self, manifest_sha256: str, variant: str, runtime: str) -> str | None:
        """Return the reason, where this version of the runtime refused the program often enough."""
        try:
            with (self._folder / f"{manifest_sha256}{REFUSED}").open("rb") as file:
                lines = file.read(MAX_REFUSALS_BYTES).splitlines()
            found = [json.loads(line) for line in lines]
            here = (variant, runtime)
            reasons = [str(one["reason"]) for one in found if (one["variant"], one["runtime"]) == here]
        except (OSError, ValueError, LookupError, TypeError):
            return None  # damaged: it is fetched once more, and refused again
        return reasons[-1] if len(reasons) >= MAX_REFUSALS else None

    def list_quarantined(self) -> frozenset[str]:
        """Return the manifest digests of all that must not be loaded or installed here."""
        counted = [*self._list_files(f"*{RUNNING}"), *self._list_files(f"*{CRASH}")]
        for digest in {path.name.partition(".")[0] for path in counted}:
            if self._is_loop(digest):
                self._quarantine(digest)
        return frozenset(path.name.removesuffix(QUARANTINED) for path in self._list_files(f"*{QUARANTINED}"))

    def keep_only(self, manifest_digests: frozenset[str]) -> None:
        """Remove the records of versions that are gone; quarantines stay (T4), and so do living attempts (T2).

        Raises:
            DeviceStorageError: a step failed; what is left goes next time.
        """
        for path in self._list_files("*"):
            digest = path.name.partition(".")[0]
            is_named = digest in manifest_digests and path.suffix not in (PARTIAL, _OF_BEFORE)
            if path.suffix == QUARANTINED or is_named or _is_held(path):
                continue
            self._files.remove(path)

    def _count_attempt(self, digest: str) -> LoadAttempt:
        """Return an attempt that is locked, written and synced before it has its name (T1, T2)."""
        self._files.make_folder(self._folder)
        path = self._folder / f"{digest}.{self._kind}.{os.urandom(8).hex()}{RUNNING}"
        made = path.with_name(path.name + PARTIAL)
        record = None
        try:
            self._files.append(made, _RECORD.pack(1, 0, 0, 0))
            record = _map_locked(made)
            self._files.sync_file(made)
            self._files.rename(made, path)
            self._files.sync_folder(self._folder)
        except (DeviceStorageError, OSError):
            if record is not None:
                record.release()
            for left in (made, path):
                with contextlib.suppress(DeviceStorageError):
                    self._files.remove(left)
            raise
        return LoadAttempt(self._files, path, record, self._folder / f"{digest}{HEALTHY}")

    def _is_loop(self, digest: str) -> bool:
        """Settle the attempts of ended processes, and judge the rest, for each kind of process."""
        by_kind: dict[str, list[Path]] = {}
        for path in self._list_files(f"{digest}.*{CRASH}"):
            by_kind.setdefault(_kind_of(path), []).append(path)
        found: list[Path] = []
        for path in self._list_files(f"{digest}.*{RUNNING}"):
            if _is_held(path):
                continue
            record = _read(path)
            if record is None:
                continue
            running, answers = record[:2]
            if running:
                found.append(path)
                continue
            # At rest.  What was found together with it may be younger, and stays.
            if answers:
                for crash in by_kind.pop(_kind_of(path), ()):
                    self._drop(crash)
            self._drop(path)
        for path in found:
            crashes = by_kind.setdefault(_kind_of(path), [])
            crashes.append(self._record_crash(path, crashes))
        return any(is_crash_loop(self._crashes(paths)) for paths in by_kind.values())

    def _record_crash(self, path: Path, earlier: list[Path]) -> Path:
        """Name a crash as one, behind earlier ones; where that fails, it is found again and counted just so."""
        numbers = (crash.name.split(".")[2] for crash in earlier if crash.suffix == CRASH)
        number = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
        digest, kind, _ = path.name.split(".", 2)
        crash = path.with_name(f"{digest}.{kind}.{number:010d}{CRASH}")
        with contextlib.suppress(DeviceStorageError):
            self._files.rename(path, crash)
        return crash if crash.exists() else path

    def _crashes(self, paths: list[Path]) -> list[Crash]:
        """Return what is known of the newest crashes, and forget the others."""
        for path in paths[:-MAX_CRASHES_KEPT]:
            self._drop(path)
        records = (_read(path) for path in paths[-MAX_CRASHES_KEPT:])
        return [Crash(*record[1:]) for record in records if record is not None]

    def _drop(self, path: Path) -> None:
        with contextlib.suppress(DeviceStorageError):
            self._files.remove(path)

    def _quarantine(self, digest: str) -> None:
        """Write the quarantine down; where that fails, the crashes stay and say the same."""
        with contextlib.suppress(DeviceStorageError):
            self._files.create_once(self._folder / f"{digest}{QUARANTINED}", b"")
            for path in self._list_files(f"{digest}.*"):
                if path.suffix != QUARANTINED and not _is_held(path):
                    self._files.remove(path)

    def _list_files(self, pattern: str) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield from sorted(self._folder.glob(pattern))


def _program_name() -> str:
    """Return the program's name without its folder: an app that is mounted or unpacked anew is elsewhere each time."""
    path = Path(sys.argv[0] if sys.argv else "")
    return f"{path.parent.name}/{path.name}" if path.name == "__main__.py" else path.name


def _kind_of(path: Path) -> str:
    return path.name.split(".")[1]


def _read(path: Path) -> tuple[int, ...] | None:
    """Return an attempt, as `_RECORD` has it; None if it is gone.  What is no attempt's file says that it crashed."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) != _RECORD.size:
        return 1, 0, 0, 0
    return _RECORD.unpack(data)


def _map_locked(path: Path) -> "memoryview[int]":
    """Return the bytes of an attempt, shared and locked: the map keeps the lock until it, or the process, ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return memoryview(mmap.mmap(descriptor, _RECORD.size)).cast("Q")
    finally:
        os.close(descriptor)


def _is_held(path: Path) -> bool:
    """Tell whether a living process holds an attempt; those who only look don't keep each other out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
