"""Keeps in which tasks of two aggregators a device takes part, and says when the report of a window is due.

    sync ─▶ what the policy has the device in ─▶ tasks.json: task, first window, last window, key of the upload times
    window w is over ─▶ due at a time of window w + 1 that the key draws ─▶ reports.py makes and sends it, idle or not

Whether there is a report must say nothing of what happened on the device, so that it is decided here, from the policy
and the clock alone.

Invariants:
  T1  What is kept depends on the policy, the halt, the installation's secret, the audiences and dimensions that the
      device answers to and, where a read-out of the holdout ends, the clock: never on an arm, on whether its version
      could be had, runs or crashes, or on what the app did.
  T2  A device takes part in the windows from that in which a sync put it into the task to that in which one took it
      out, both included, and in no other.  One window is due at a time, the one before the present: what was missed
      because the device was off, or its clock jumped, is not made up for.
  T3  The upload time of a window is drawn evenly over the first three quarters of the next one, by a key that is drawn
      when the task is met: a restart draws no second time.  The last quarter is for devices that were off.  When the
      next window is over the report is given up.
  T4  A clock that stood too far ahead when the task was met silences nobody: the next sync puts the first window right.
  T5  Damage, and a disk that fails, lose reports; the next sync puts the device into its tasks again.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.privacy.entropy import Entropy
from alcove.runtime.clock import Clock
from alcove.sdk.consent import Consent
from alcove.sdk.limits import MAX_PENDING, MAX_STATE_BYTES
from alcove.sdk.storage import FileLock, Files

if TYPE_CHECKING:
    from alcove.registry.policy.task import TaskPolicy

__all__ = ["Membership", "Participation"]

KEY_BYTES: Final = 16
"""Size of the key of a task's upload times: they need not be guessed at, and say nothing of the device."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The part that a device takes in one task.

    Attributes:
        feature: what the task is about.
        task: it names aggregators.
        first_window: first window that is reported.
        last_window: last one; None: the device still takes part.
        key: draws the upload times, `KEY_BYTES` bytes.
    """

    feature: str
    task: "TaskPolicy"
    first_window: int
    last_window: int | None
    key: bytes

    def has_window(self, window: int) -> bool:
        """Tell whether the device took part in a window (T2)."""
        return self.first_window <= window and (self.last_window is None or window <= self.last_window)

    def due_at_s(self, window: int) -> int:
        """Return when the report of a window is to leave, in seconds since 1970 (T3)."""
        end_s = self.task.first_window_start_s + (window + 1) * self.task.window_s
        return end_s + (3 * self.task.window_s * self._draw(b"", window) >> 66)

    def token_at_s(self, window: int) -> int:
        """Return when the token of a window's report is to be asked for, in seconds since 1970: in the window itself.

        The draw has nothing to do with that of the report, so that the two moments tie nothing.
        """
        start_s = self.task.first_window_start_s + window * self.task.window_s
        return start_s + (self.task.window_s * self._draw(b"token", window) >> 64)

    def _draw(self, purpose: bytes, window: int) -> int:
        """Return a number below 2^64."""
        import hashlib  # noqa: PLC0415 - loads OpenSSL; an app that only predicts needs none

        return int.from_bytes(hashlib.sha256(self.key + window.to_bytes(8, "big") + purpose).digest()[:8], "big")


class Participation:
    """The tasks of one device; safe for several threads and processes.

    Args:
        folder: holds the file; it exists.
        files: the disk.
        clock: gives the windows.
        entropy: source of the keys.
        consent: without it the device takes part in nothing.
    """

    def __init__(self, folder: Path, files: Files, clock: Clock, entropy: Entropy, *, consent: Consent) -> None:
        self._path = folder / "tasks.json"
        self._files = files
        self._clock = clock
        self._entropy = entropy
        self._consent = consent
        self._lock = FileLock(folder / "tasks.lock")

    def settle(self, tasks: "Mapping[str, TaskPolicy | None]", unsettled: Collection[str] = ()) -> None:
        """Take part in what the policy has the device in, from the present window on, and in nothing else.

        Args:
            tasks: of each feature of the policy the task that the device is in, or None.
            unsettled: features of which this sync could not tell; they stay as they are.

        Raises:
            DeviceStorageError: the disk failed; nothing changed.
        """
        wanted = {name: task for name, task in tasks.items() if task is not None and task.aggregation is not None}
        if not wanted and not self._path.exists():
            return
        with self._lock.hold():
            if not self._consent.is_given:  # asked under the lock: what is written before a no is removed after it
                return
            before = self.read()
            after = [
                one if one.feature in unsettled else self._continue(one, wanted.get(one.feature)) for one in before
            ]
            open_now = {one.feature for one in after if one.last_window is None}
            after += [self._begin(name, task) for name, task in wanted.items() if name not in open_now]
            after = [one for one in after if one.last_window is None or one.last_window >= self._window(one) - 1]
            if after != before:
                self._write(after[-MAX_PENDING:])

    def read(self) -> list[Membership]:
        """Return the tasks that the device is in, or was in lately.

        Raises:
            DeviceStorageError: the disk failed.
        """
        data = self._files.read(self._path, MAX_STATE_BYTES)
        try:
            entries = json.loads(data) if data else []
        except (ValueError, RecursionError):
            entries = []
        found = [_read_entry(entry) for entry in entries] if isinstance(entries, list) else []
        return [one for one in found if one is not None]

    def forget(self) -> None:
        """Take part in nothing until the next sync (the user opted out).

        Raises:
            DeviceStorageError: the disk failed.
        """
        with self._lock.hold():
            self._files.remove(self._path)

    def _window(self, one: Membership) -> int:
        return _present(one.task, self._clock)

    def _continue(self, one: Membership, task: "TaskPolicy | None") -> Membership:
        """Return a membership after a sync that has the device in `task`."""
        window = self._window(one)
        if task is None or task.task_id != one.task.task_id:
            return one if one.last_window is not None else replace(one, last_window=window)
        if one.last_window is not None and one.last_window < window - 1:
            return replace(one, first_window=window, last_window=None)
        return replace(one, first_window=min(one.first_window, window), last_window=None)

    def _begin(self, feature: str, task: "TaskPolicy") -> Membership:
        return Membership(feature, task, _present(task, self._clock), None, self._entropy.random_bytes(KEY_BYTES))

    def _write(self, entries: list[Membership]) -> None:
        fields = [
            {
                "feature": one.feature,
                "task": one.task.model_dump_json(),
                "first_window": one.first_window,
                "last_window": one.last_window,
                "key": one.key.hex(),
            }
            for one in entries
        ]
        self._files.write_whole(self._path, json.dumps(fields).encode())


def _present(task: "TaskPolicy", clock: Clock) -> int:
    """Return the present window; before the first one it is that."""
    return task.window_at(clock.now_s()) or 0


def _read_entry(fields: Any) -> Membership | None:
    """Return what an entry of the file says; None if it is damaged (T5)."""
    from alcove.registry.errors import DocumentError  # noqa: PLC0415 - loads pydantic
    from alcove.registry.policy.task import TaskPolicy  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        task = TaskPolicy.model_validate_json(fields["task"])
        last = fields["last_window"]
        windows = int(fields["first_window"]), None if last is None else int(last)
        one = Membership(str(fields["feature"]), task, *windows, bytes.fromhex(fields["key"]))
    except (ValidationError, DocumentError, ValueError, KeyError, TypeError):
        return None
    is_sound = len(one.key) == KEY_BYTES and one.first_window >= 0 and task.aggregation is not None
    return one if is_sound else None
