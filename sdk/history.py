"""Records how a device's answers fared before it entered an experiment, in two small files that stay on the device.

    record_outcome ─▶ history.json: of each feature the last answers, 1 for an accepted one, 0 for a refused one
    sync settles a task ─▶ met.json: of each task the bin of the share until then ─▶ reports.py: a part of the true cell

Invariants:
  H1  The bin of a task is set once, before the device runs any arm of it: nothing that came after enters it.
  H2  A device that is in a task already, and has no bin of it (a file was damaged, or the user opted out), has bin 0,
      as one that nothing is known of: its history began after the exposure, or may have.
  H3  A bin goes when the policy names its task no more.
  H4  Damage and a failing disk lose history, never an answer or a report.
"""

import contextlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.limits import MAX_HISTORIES, MAX_HISTORY_ANSWERS, MAX_HISTORY_BYTES
from alcove.sdk.storage import FileLock, Files

if TYPE_CHECKING:
    from alcove.registry.policy import TaskPolicy

__all__ = ["History"]

_ACCEPTED: Final = "1"
_REFUSED: Final = "0"


class History:
    """The history of one device; safe for several threads and processes.

    Args:
        folder: holds the files; it exists.
        files: the disk.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self._answers_path = folder / "history.json"
        self._covariates_path = folder / "met.json"
        self._files = files
        self._lock = FileLock(folder / "history.lock")

    def note(self, feature: str, *, is_accepted: bool) -> None:
        """Remember how the user took an answer; a disk that fails loses it.

        It may be lost in a power cut too: it is not worth a wait for the disk on the app's thread.
        """
        with contextlib.suppress(DeviceStorageError), self._lock.hold():
            histories = self._read(self._answers_path)
            before = _answers(histories.pop(feature, ""))
            histories[feature] = (before + (_ACCEPTED if is_accepted else _REFUSED))[-MAX_HISTORY_ANSWERS:]
            while len(histories) > MAX_HISTORIES:
                del histories[next(iter(histories))]  # what was noted longest ago stands first
            self._files.write_whole(self._answers_path, json.dumps(histories).encode(), is_durable=False)

    def settle_covariate(self, feature: str, task: "TaskPolicy", *, is_in_it: bool) -> None:
        """Settle the bin of a task before the device runs an arm of it (H1); again: nothing.

        Args:
            feature: what the task is about.
            task: it has edges of the earlier share.
            is_in_it: the device may have run an arm of it before (H2).

        Raises:
            DeviceStorageError: the disk failed; the task is not met.
        """
        with self._lock.hold():
            met = self._read(self._covariates_path)
            if task.task_id in met:
                return
            answers = "" if is_in_it else _answers(self._read(self._answers_path).get(feature, ""))
            met[task.task_id] = task.pre_bin(len(answers), answers.count(_ACCEPTED))
            self._files.write_whole(self._covariates_path, json.dumps(met).encode())

    def keep_only(self, task_ids: Collection[str]) -> None:
        """Forget the bins of all other tasks (H3).

        Raises:
            DeviceStorageError: the disk failed.
        """
        if not self._covariates_path.exists():
            return
        with self._lock.hold():
            met = self._read(self._covariates_path)
            kept = {task_id: number for task_id, number in met.items() if task_id in task_ids}
            if kept != met:
                self._files.write_whole(self._covariates_path, json.dumps(kept).encode())

    def bin_of(self, task: "TaskPolicy") -> int:
        """Return the bin of a task, in [0, task.layout.covariate_bins); 0 where none is known."""
        if not task.pre_edges:
            return 0
        number = self._read(self._covariates_path).get(task.task_id)
        return number if type(number) is int and 0 <= number < task.layout.covariate_bins else 0

    def forget(self) -> None:
        """Remove everything (the user opted out); tasks that the device is in count it as unknown from now on (H2).

        Raises:
            DeviceStorageError: the disk failed.
        """
        with self._lock.hold():
            self._files.remove(self._answers_path)
            self._files.remove(self._covariates_path)

    def _read(self, path: Path) -> dict[str, Any]:
        """Return what a file of ours maps; empty for one that is absent, damaged or unreadable (H4)."""
        try:
            found = json.loads(self._files.read(path, MAX_HISTORY_BYTES) or b"{}")
        except (DeviceStorageError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def _answers(value: object) -> str:
    """Return the answers of a feature as the file has them; none where it has something else."""
    is_sound = isinstance(value, str) and set(value) <= {_ACCEPTED, _REFUSED}
    return str(value)[-MAX_HISTORY_ANSWERS:] if is_sound else ""
