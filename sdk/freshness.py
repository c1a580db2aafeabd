"""Knows how long ago the device last heard the server, whatever its wall clock says.

    data_dir/freshness.json     one record, replaced whole; changed under freshness.lock

    sync: tree, halt and minimum versions are read ─▶ hear(signed time): age 0
    start of the app, sync, prediction ──▶ look(): age grows by what both clocks say
                                     age > max_stale_s ─▶ overdue: the app's own models answer until the next hear
    the accepted signatures have expired by the wall clock or the floor, or age is above a day ─▶ stale

Two clocks are read, and neither is enough.  The monotonic one cannot be set, but restarts when the device starts and
says nothing of the time for which it was off.  The wall clock runs meanwhile, but may be held, set back, or wrong.

Invariants:
  F1  Within one start of the device, age grows by all of the monotonic time, asleep or not: no wall clock shortens it.
  F2  Beyond that the wall clock, and after a restart the time since the start, add to age at one look at most half of
      `max_stale_s`: one wrong jump, however far, makes nothing overdue.  Going back takes nothing away.
  F3  The floor of the clock is the newest signed time, and within one start of the device the monotonic time since it
      was heard; nothing that a wall clock alone said is in it.  It counts for the keys that signed it alone, so that it
      falls when root takes them away.
  F4  What was found expired stays so until something newer is heard, whatever the clocks say afterwards.
  F5  Only a new timestamp counts as hearing, and only with the halt that belongs to it: a mirror that repeats an old
      one, or holds the halt back, lets age grow.
  F6  Nothing here raises: a disk that fails loses at most what this process has counted.

What is not noticed: time for which the device was switched off while its wall clock was held, and a record that someone
who can write the data folder has changed.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.runtime.clock import Clock
from alcove.sdk.errors import DeviceStorageError, OutOfBoundError
from alcove.sdk.limits import FRESH_S, LOOK_STORE_S, MAX_FRESHNESS_BYTES, MIN_MAX_STALE_S
from alcove.sdk.storage import FileLock, Files

if TYPE_CHECKING:
    from alcove.registry.signed_time import SignedTime

FORMAT: Final = 1
NEVER_NS: Final = 1 << 62
"""A reading of the monotonic clock that none reaches: 146 years."""
_NS: Final = 1_000_000_000
_MAX_NUMBER: Final = 1 << 62

_Change = Callable[["Record"], "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept on the disk.

    Attributes:
        version: number of the newest timestamp that was heard; 0: none.
        signed_s: floor of the clock when it was heard, seconds since 1970.
        expires_s: when it ceases to hold.
        keys: ids of the keys that may sign it.
        is_expired: it was found expired.
        age_ns: time since it was heard, as far as the clocks show it (F1, F2).
        here_ns: the part of it within the present start of the device (F3).
        wall_s: latest time that the wall clock has shown since.
        monotonic_ns: monotonic clock at the last look.
        boot: start of the device at the last look.
    """

    version: int = 0
    signed_s: int = 0
    expires_s: int = 0
    keys: tuple[str, ...] = ()
    is_expired: bool = False
    age_ns: int = 0
    here_ns: int = 0
    wall_s: int = 0
    monotonic_ns: int = 0
    boot: str = ""

    def floor_s(self) -> int:
        """Return a moment that has passed for certain (F3)."""
        return self.signed_s + self.here_ns // _NS if self.signed_s else 0


def advance_record(record: Record, *, wall_s: int, monotonic_ns: int, boot: str, jump_ns: int) -> Record:
    """Return the record after both clocks were read; performs no I/O.

    Args:
        record: what was known.
        wall_s: the wall clock.
        monotonic_ns: the monotonic clock.
        boot: the present start of the device.
        jump_ns: most that may be added on the wall clock's word, or for a start that was not watched (F2).
    """
    is_same_start = boot == record.boot and monotonic_ns >= record.monotonic_ns
    certain_ns = monotonic_ns - record.monotonic_ns if is_same_start else 0
    # After a restart at least what the new start has run, and by the wall clock what it was off.
    claimed_ns = (wall_s - record.wall_s) * _NS
    unsure_ns = claimed_ns - certain_ns if is_same_start else max(claimed_ns, monotonic_ns)
    return replace(
        record,
        age_ns=record.age_ns + certain_ns + min(max(unsure_ns, 0), jump_ns),
        here_ns=record.here_ns + certain_ns if is_same_start else 0,
        wall_s=max(wall_s, record.wall_s),
        monotonic_ns=monotonic_ns,
        boot=boot,
    )


class Freshness:
    """How long ago one device heard its server; safe for several threads and processes.

    Attributes:
        overdue_at_ns: reading of the monotonic clock at which something becomes due: a prediction that comes later
            calls `check`.  `NEVER_NS` where nothing will.

    Args:
        folder: the app's data folder.
        files: the disk.
        clock: the device's clocks.
        max_stale_s: age above which what was installed answers no more; None: it always does.

    Raises:
        OutOfBoundError: `max_stale_s` is shorter than a tree is fresh for, or no number.
    """

    def __init__(self, folder: Path, files: Files, clock: Clock, max_stale_s: float | None) -> None:
        if max_stale_s is not None and not MIN_MAX_STALE_S <= max_stale_s <= _MAX_NUMBER // _NS:
            raise OutOfBoundError(name="max_stale_s", bound=f"at least {MIN_MAX_STALE_S}, or None", value=max_stale_s)
        self._path = folder / "freshness.json"
        self._state_path = folder / "state.json"
        self._files = files
        self._clock = clock
        self._limit_ns = NEVER_NS if max_stale_s is None else int(max_stale_s * _NS)
        self._lock = threading.Lock()
        self._file_lock = FileLock(folder / "freshness.lock")
        self._record: Record | None = None
        self._stored: Record | None = None
        self.overdue_at_ns = NEVER_NS

    @property
    def is_stale(self) -> bool:
        """Tell whether what the device knows has expired, by its wall clock or by its age."""
        with self._lock:
            record = self._record
            if record is None or record.version == 0:
                return record is not None
            now = self._advance(record)
            is_expired = now.is_expired or max(self._clock.now_s(), now.floor_s()) >= now.expires_s
            return is_expired or now.age_ns >= FRESH_S * _NS

    @property
    def is_overdue(self) -> bool:
        """Tell whether the last look found the device without word for longer than `max_stale_s`."""
        record = self._record
        return record is not None and record.age_ns > self._limit_ns

    @property
    def age_s(self) -> float | None:
        """Return the time since the server was last heard, as of the last look; None where nothing counts yet."""
        record = self._record
        return None if record is None else record.age_ns / _NS

    def floor_s(self, keys: Sequence[str]) -> int:
        """Return a moment that has passed for certain, if one of `keys` signed it; else 0 (F3)."""
        with self._lock:
            record = self._record
            if record is None or set(record.keys).isdisjoint(keys):
                return 0
            return self._advance(record).floor_s()

    def begin_in_child(self) -> None:
        """Wait in a forked child for no thread of the parent."""
        self._lock = threading.Lock()

    def check(self) -> bool:
        """Read both clocks and count what has passed; tell whether the device is overdue."""
        self._change(lambda record: record)
        return self.is_overdue

    def accept_time(self, time: "SignedTime") -> None:
        """Note that tree, halt and minimum versions were read, if they are newer than those heard before (F5)."""

        def renew_record(record: Record) -> Record:
            is_same_key = not set(record.keys).isdisjoint(time.keys)
            # A thief of the key may write any number; one that could not be kept would be news at every start.
            version = min(time.version, _MAX_NUMBER - 1)
            if is_same_key and version <= record.version:
                return record
            return replace(
                record,
                version=version,
                signed_s=max(time.signed_s, record.floor_s() if is_same_key else 0),
                expires_s=time.expires_s,
                keys=tuple(time.keys),
                is_expired=False,
                age_ns=0,
                here_ns=0,
                wall_s=self._clock.now_s(),
            )

        self._change(renew_record, begins=True)

    def expire(self) -> None:
        """Note that what the server repeats has expired (F4)."""
        self._change(lambda record: replace(record, is_expired=True))

    def _change(self, change: _Change, *, begins: bool = False) -> None:
        """Look, change the record, and keep it where something newer than the count of time is in it."""
        with self._lock:
            try:
                with self._file_lock.hold():
                    self._count(change, begins=begins)
            except DeviceStorageError:
                self._count(change, begins=begins)

    def _count(self, change: _Change, *, begins: bool) -> None:
        kept = self._read()
        before = self._newer(kept)
        if before is None:
            # Until there is something that could be stale, nothing is counted or written.
            if not begins and not self._state_path.exists():
                return
            before = Record(
                wall_s=self._clock.now_s(), monotonic_ns=self._clock.monotonic_ns(), boot=self._clock.boot_id()
            )
        record = change(self._advance(before))
        self._record = record
        left_ns = self._limit_ns - record.age_ns
        is_watched = self._limit_ns != NEVER_NS and left_ns >= 0
        self.overdue_at_ns = record.monotonic_ns + left_ns + 1 if is_watched else NEVER_NS
        if kept is None or _is_news(kept, record):
            with suppress(DeviceStorageError):
                self._files.write_whole(self._path, _to_bytes(record))

    def _advance(self, record: Record) -> Record:
        return advance_record(
            record,
            wall_s=self._clock.now_s(),
            monotonic_ns=self._clock.monotonic_ns(),
            boot=self._clock.boot_id(),
            jump_ns=0 if self._limit_ns == NEVER_NS else self._limit_ns // 2,
        )

    def _newer(self, kept: Record | None) -> Record | None:
        """Return the record that is further on: ours, or what another process has kept since."""
        own = self._record
        if own is None or kept is None:
            return own or kept
        if own.keys != kept.keys:
            return kept
        newer = max(own, kept, key=lambda record: (record.version, record.age_ns))
        return replace(newer, is_expired=any(one.is_expired for one in (own, kept) if one.version == newer.version))

    def _read(self) -> Record | None:
        try:
            data = self._files.read(self._path, MAX_FRESHNESS_BYTES)
            return None if data is None else _from_bytes(data)
        except (DeviceStorageError, ValueError):
            return None


def _is_news(kept: Record, record: Record) -> bool:
    """Tell whether a record is worth a write: something else than a little time has changed."""
    facts = (record.version, record.keys, record.is_expired, record.boot)
    return facts != (kept.version, kept.keys, kept.is_expired, kept.boot) or (
        record.age_ns - kept.age_ns >= LOOK_STORE_S * _NS
    )


def _to_bytes(record: Record) -> bytes:
    return json.dumps({"format": FORMAT} | asdict(record), sort_keys=True).encode()


def _from_bytes(data: bytes) -> Record:
    """Return the record that `data` holds.

    Raises:
        ValueError: `data` is no record of this format.
    """
    try:
        fields = json.loads(data)
        if fields.pop("format") != FORMAT:
            raise ValueError("a record of another format")
        keys, boot, is_expired = fields.pop("keys"), fields.pop("boot"), fields.pop("is_expired")
        if not isinstance(boot, str) or not all(isinstance(key, str) for key in keys):
            raise ValueError("keys and start are text")
        if not all(type(number) is int and 0 <= number < _MAX_NUMBER for number in fields.values()):
            raise ValueError("a number is out of bounds")
        return Record(keys=tuple(keys), boot=boot, is_expired=bool(is_expired), **fields)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no record: {type(error).__name__}") from error
