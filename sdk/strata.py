"""Keeps as which value of a dimension a device takes part in an experiment, in a small file that stays on the device.

    sync meets an experiment with a dimension ─▶ its value, once ─▶ strata.json ─▶ the task of that value, to the end

Invariants:
  V1  The value of an experiment is settled once, before the device reports of it, and stays: a device that is updated
      or gets another owner reports as before.  So it sends one report a window and pays once, no device is in two
      strata, and nothing that an arm does moves a device to another one.
  V2  A value goes when the policy names its experiment no more.
  V3  Damage loses values, never an answer: they are settled anew.  A disk that fails keeps the device out.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from alcove.sdk.limits import MAX_STATE_BYTES
from alcove.sdk.storage import FileLock, Files

__all__ = ["Strata"]

_FILE: Final = "strata.json"


class Strata:
    """The values of one device; safe for several threads and processes.

    Args:
        folder: holds the file; it exists.
        files: the disk.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self._path = folder / _FILE
        self._files = files
        self._lock = FileLock(folder / "strata.lock")

    def settle(self, experiment_id: str, value: Callable[[], int], *, count: int) -> int:
        """Return the number of the device's value in an experiment, settled by `value` where it is not yet (V1).

        Args:
            experiment_id: of the experiment.
            value: gives the number; it is on the disk before this returns.
            count: how many values there are; another number in the file is damage (V3).

        Raises:
            DeviceStorageError: the disk failed; nothing is settled.
        """
        with self._lock.hold():
            known = self._read()
            number = known.get(experiment_id, count)
            if number < count:
                return number
            known[experiment_id] = value()
            self._files.write_whole(self._path, json.dumps(known).encode())
            return known[experiment_id]

    def find(self, experiment_id: str) -> int | None:
        """Return the number of the device's value in an experiment; None: it is not settled.

        Raises:
            DeviceStorageError: the disk failed.
        """
        return self._read().get(experiment_id)

    def keep_only(self, experiment_ids: Collection[str]) -> None:
        """Forget the values of all other experiments (V2).

        Raises:
            DeviceStorageError: the disk failed.
        """
        if not self._path.exists():
            return
        with self._lock.hold():
            known = self._read()
            kept = {name: number for name, number in known.items() if name in experiment_ids}
            if kept != known:
                self._files.write_whole(self._path, json.dumps(kept).encode())

    def _read(self) -> dict[str, int]:
        """Return the settled values; what is damaged is left out (V3)."""
        data = self._files.read(self._path, MAX_STATE_BYTES)
        try:
            found = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            return {}
        entries = found.items() if isinstance(found, dict) else ()
        return {name: number for name, number in entries if type(number) is int and number >= 0}
