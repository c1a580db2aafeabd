"""Changes a device's disk step by step, so that a crash between any two steps leaves something whole."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from alcove.runtime.files import Disk
from alcove.sdk.errors import DeviceStorageError

PARTIAL: Final = ".partial"
"""Suffix of what is being made; nothing reads it, and recovery removes it."""

READ_ONLY: Final = 0o444
PRIVATE: Final = 0o600


class Files(Disk):
    """The device's disk, whose steps fail with `DeviceStorageError`."""

    def make_folder(self, folder: Path) -> None:
        """Make `folder` and its parents where absent, for this user alone."""
        if folder.is_dir():
            return
        with self.step("make folder", folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def append(self, path: Path, data: bytes) -> None:
        """Add `data` to the end of a file, made when absent; not yet synced."""
        with self.step("append", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)

    def truncate(self, path: Path, size_bytes: int) -> None:
        """Take away what a file has beyond a size; not yet synced."""
        with self.step("truncate", path):
            os.truncate(path, size_bytes)

    def set_mode(self, path: Path, mode: int) -> None:
        """Change who may do what with a file."""
        with self.step("set mode", path):
            path.chmod(mode)

    def remove(self, path: Path) -> None:
        """Remove a file or a folder with all in it; fine when absent."""
        if not path.exists() and not path.is_symlink():
            return
        with self.step("remove", path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def write_whole(self, path: Path, data: bytes, mode: int = PRIVATE, *, is_durable: bool = True) -> None:
        """Put `data` in the place of what `path` holds, at once: old or new, never a part.

        Two processes may write the same path at a time: each makes its own temporary file.

        Args:
            path: the file.
            data: its new bytes.
            mode: who may do what with it.
            is_durable: return when it is on the disk; else it may be the old one after a power cut.
        """
        temporary = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
        try:
            self.remove(temporary)
            self.append(temporary, data)
            if mode != PRIVATE:
                self.set_mode(temporary, mode)
            if is_durable:
                self.sync_file(temporary)
            self.rename(temporary, path)
        except DeviceStorageError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if is_durable:
            self.sync_folder(path.parent)

    def create_once(self, path: Path, data: bytes) -> bool:
        """Make a private file with all of `data` unless there is one; tell whether it was made.

        The temporary file is nobody else's, not even another thread's, or that of a process of the same number in
        another container: what they appended to it would be in the file that it becomes.
        """
        temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}{PARTIAL}")
        self.append(temporary, data)
        self.sync_file(temporary)
        try:
            with self.step("link", path):
                try:
                    path.hardlink_to(temporary)
                except FileExistsError:
                    return False
        finally:
            self.remove(temporary)
        self.sync_folder(path.parent)
        return True

    def free_bytes(self, path: Path) -> int:
        """Return how many bytes this app may still write where an existing folder lies.

        Raises:
            DeviceStorageError: the system does not say.
        """
        try:
            return shutil.disk_usage(path).free
        except OSError as error:
            raise DeviceStorageError(step="reserve", path=path.name, reason=str(error)) from error

    def read(self, path: Path, limit_bytes: int) -> bytes | None:
        """Return the bytes of a file, or None when it is absent.

        Raises:
            DeviceStorageError: unreadable, or longer than `limit_bytes`.
        """
        try:
            with path.open("rb") as file:
                data = file.read(limit_bytes + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DeviceStorageError(step="read", path=path.name, reason=str(error)) from error
        if len(data) > limit_bytes:
            raise DeviceStorageError(step="read", path=path.name, reason=f"more than {limit_bytes} bytes")
        return data

    @contextlib.contextmanager
    def step(self, name: str, path: Path) -> Iterator[None]:
        """Announce a step, which is taken inside the context.

        Raises:
            DeviceStorageError: the step failed, or the observer made it fail.
        """
        try:
            with super().step(name, path):
                yield
        except OSError as error:
            raise DeviceStorageError(step=name, path=path.name, reason=error.strerror or str(error)) from error


class FileLock:
    """One holder at a time over all threads and processes; the system gives it back when a holder dies.

    Args:
        path: a file that is made and never removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for the lock and hold it.

        Raises:
            DeviceStorageError: the file could not be made or locked.
        """
        with self._open() as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                raise DeviceStorageError(step="lock", path=self._path.name, reason=str(error)) from error
            try:
                yield
            finally:
                _unlock(descriptor)

    @contextlib.contextmanager
    def hold_if_free(self) -> Iterator[bool]:
        """Hold the lock if nobody else does; tell whether it is held.

        Raises:
            DeviceStorageError: the file could not be made.
        """
        with self._open() as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                try:
                    yield True
                finally:
                    _unlock(descriptor)

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
        except OSError as error:
            raise DeviceStorageError(step="lock", path=self._path.name, reason=str(error)) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _unlock(descriptor: int) -> None:
    """Give a lock back: closing does not, while a child that was forked meanwhile has a copy of the descriptor."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
