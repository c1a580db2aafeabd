"""Has a version crashed this app three times?  Then it is never loaded here again.

    data_dir/tries/
      <manifest sha256>.<kind>.<token>.try      a version on trial in one process; one byte: in native code, or at rest
      <manifest sha256>.proven                  it has answered here
      <manifest sha256>.quarantined             it crashed three times in a row: never loaded or installed again

    begin: counted, synced ─▶ load ─▶ at rest ─▶ first run ─▶ healthy: one rename to .proven
              │                │                    └ killed here, by a signal or by its own fault: a crash
              │                └ killed here: a crash
              └ three crashes before it: .quarantined ─▶ previous slot, then the app's baseline

A version is healthy in a process once a prediction of it has returned a value there; the crashes counted so far are
then forgotten.  A crash in a later prediction is not counted: counting it would cost every prediction a write.  An app
that is killed while its version is at rest (between the load and the first prediction) has not crashed of it.

Invariants:
  T1  A try is on the disk, content and name, before the first byte of its program is loaded.  Where it cannot be
      written (a full disk), the version is loaded all the same: an answer comes before a count.
  T2  The process that makes a try holds a lock on its file until it ends, however it ends: a try that nobody holds and
      whose byte says "in native code" is a crash.  Processes never change each other's tries while they live.
  T3  Crashes count for each kind of process (its program's name): one that loops is caught beside one that is well.
  T4  A quarantine has no end.  It is by digest: the team publishes another version.
  T5  Nothing here is under the slots' lock (I6), so nobody who predicts waits for a sync.  An app of before this folder
      existed leaves it alone; `state.json` says nothing of it.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from alcove.sdk.errors import StorageError
from alcove.sdk.limits import MAX_CRASHES
from alcove.sdk.storage import PARTIAL, Files

TRY: Final = ".try"
PROVEN: Final = ".proven"
QUARANTINED: Final = ".quarantined"

_RUNNING: Final = 1
_AT_REST: Final = 0


class Trial:
    """One process's try of one version, from before its load to its first healthy prediction; safe for several threads.

    Attributes:
        is_over: it needs no more watching; read without a lock at each prediction.

    Args:
        files: the disk.
        path: the try.
        byte: its byte, shared and locked; None for a trial that is over before it begins.
        proven: what the try becomes.
        forgiven: crashes that are forgotten then.
    """

    __slots__ = ("_byte", "_files", "_forgiven", "_lock", "_path", "_proven", "_running", "is_over")

    def __init__(
        self,
        files: Files,
        path: Path,
        byte: "mmap.mmap | None",
        proven: Path,
        forgiven: tuple[Path, ...] = (),
    ) -> None:
        self._files = files
        self._path = path
        self._byte = byte
        self._proven = proven
        self._forgiven = forgiven
        # Held for a few writes to memory, and only by who predicts with a version on trial.
        self._lock = threading.Lock()
        self._running = 1
        self.is_over = byte is None

    def enter(self) -> None:
        """Native code begins; to be called before each run until the trial is over."""
        with self._lock:
            if not self.is_over and self._byte is not None:
                self._running += 1
                self._byte[0] = _RUNNING

    def leave(self, *, is_healthy: bool) -> None:
        """Native code has returned; raises nothing.

        Args:
            is_healthy: it was a prediction, and it had a value: the trial is over.
        """
        with self._lock:
            if self.is_over or self._byte is None:
                return
            self._running -= 1
            if not is_healthy:
                self._byte[0] = _RUNNING if self._running else _AT_REST
                return
            self.is_over = True
        with contextlib.suppress(StorageError):
            # Not synced: lost in a power cut, the version is merely on trial again.
            self._files.rename(self._path, self._proven)
        for crash in self._forgiven:
            with contextlib.suppress(StorageError):
                self._files.remove(crash)
        self._byte.close()

    def abandon(self) -> None:
        """End the trial with nothing learned, because the version was refused; raises nothing."""
        with self._lock:
            if self.is_over or self._byte is None:
                return
            self.is_over = True
        with contextlib.suppress(StorageError):
            self._files.remove(self._path)
        self._byte.close()


NO_TRIAL: Final = Trial(Files(), Path(), None, Path())
"""Of what needs none: the app's own baseline, and a version whose try could not be written."""


class Tries:
    """The tries, proofs and quarantines of one device's data folder; safe for several threads and processes.

    Args:
        folder: "tries" in the data folder; made when first needed.
        files: the disk.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._kind = hashlib.sha256((sys.argv[0] if sys.argv else "").encode(errors="replace")).hexdigest()[:8]

    def begin(self, manifest_sha256: str) -> Trial | None:
        """Count a try of a version that is about to be loaded; None where it is quarantined.

        The trial begins in native code; `leave` when the load has returned.
        """
        try:
            if self.is_quarantined(manifest_sha256):
                return None
            crashes = self._crashes(manifest_sha256)
            if _is_loop(crashes):
                self._quarantine(manifest_sha256)
                return None
            return self._counted(manifest_sha256, tuple(crashes.get(self._kind, ())))
        except (StorageError, OSError):
            return NO_TRIAL

    def is_proven(self, manifest_sha256: str) -> bool:
        """Tell whether a version has answered here."""
        return (self._folder / f"{manifest_sha256}{PROVEN}").exists()

    def is_quarantined(self, manifest_sha256: str) -> bool:
        """Tell whether a version must not be loaded or installed here."""
        return (self._folder / f"{manifest_sha256}{QUARANTINED}").exists()

    def quarantined(self) -> frozenset[str]:
        """Return the manifest digests of all that must not be loaded or installed here."""
        for digest in {path.name.partition(".")[0] for path in self._listed(f"*{TRY}")}:
            if _is_loop(self._crashes(digest)):
                self._quarantine(digest)
        return frozenset(path.name.removesuffix(QUARANTINED) for path in self._listed(f"*{QUARANTINED}"))

    def keep_only(self, manifest_digests: frozenset[str]) -> None:
        """Remove what is known of versions that are no longer here; quarantines stay (T4), and so do living tries (T2).

        Raises:
            StorageError: a step failed; what is left goes next time.
        """
        for path in self._listed("*"):
            digest = path.name.partition(".")[0]
            is_named = digest in manifest_digests and path.suffix != PARTIAL
            if path.suffix == QUARANTINED or is_named or _is_held(path):
                continue
            self._files.remove(path)

    def _counted(self, digest: str, forgiven: tuple[Path, ...]) -> Trial:
        """Return a try that is locked, written and synced before it has its name (T1, T2)."""
        self._files.make_folder(self._folder)
        path = self._folder / f"{digest}.{self._kind}.{os.urandom(8).hex()}{TRY}"
        made = path.with_name(path.name + PARTIAL)
        byte = None
        try:
            self._files.append(made, bytes([_RUNNING]))
            byte = _held_byte(made)
            self._files.sync_file(made)
            self._files.rename(made, path)
            self._files.sync_folder(self._folder)
        except (StorageError, OSError):
            if byte is not None:
                byte.close()
            for left in (made, path):
                with contextlib.suppress(StorageError):
                    self._files.remove(left)
            raise
        return Trial(self._files, path, byte, self._folder / f"{digest}{PROVEN}", forgiven)

    def _crashes(self, digest: str) -> dict[str, list[Path]]:
        """Return the tries of a version that ended in native code, by kind of process; those that ended at rest go."""
        crashes: dict[str, list[Path]] = {}
        for path in self._listed(f"{digest}.*{TRY}"):
            if _is_held(path):
                continue
            try:
                is_crash = path.read_bytes() != bytes([_AT_REST])
            except FileNotFoundError:
                continue
            if is_crash:
                crashes.setdefault(path.name.split(".")[1], []).append(path)
            else:
                with contextlib.suppress(StorageError):
                    self._files.remove(path)
        return crashes

    def _quarantine(self, digest: str) -> None:
        """Write the quarantine down; where that fails, the crashes stay and say the same."""
        with contextlib.suppress(StorageError):
            self._files.create_once(self._folder / f"{digest}{QUARANTINED}", b"")
            for path in self._listed(f"{digest}.*"):
                if path.suffix != QUARANTINED and not _is_held(path):
                    self._files.remove(path)

    def _listed(self, pattern: str) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield from sorted(self._folder.glob(pattern))


def _is_loop(crashes: dict[str, list[Path]]) -> bool:
    return any(len(paths) >= MAX_CRASHES for paths in crashes.values())


def _held_byte(path: Path) -> "mmap.mmap":
    """Return the first byte of a file, shared and locked: the map keeps the lock until it, or the process, ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return mmap.mmap(descriptor, 1)
    finally:
        os.close(descriptor)


def _is_held(path: Path) -> bool:
    """Tell whether a living process holds a try; those who only look don't keep each other out."""
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
