"""Keeps a ledger of the privacy budget in a file of the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alcove.privacy.errors import LedgerStorageError
from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.storage import FileLock, Files


class LedgerFile:
    """A `LogFile` in a folder that exists; readable by its owner alone.

    The file is its own lock, and each holder opens it again, so threads of one process exclude each other too.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the file's lock.

        Raises:
            LedgerStorageError: the file could not be made or locked.
        """
        with _raise_ledger_errors(), FileLock(self._path).hold():
            yield

    def read(self) -> bytes:
        """Return all bytes; none where there is no file yet.

        Raises:
            LedgerStorageError: the file exists and could not be read.
        """
        try:
            return self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise LedgerStorageError(step="read", path=self._path.name, reason=str(error)) from error

    def append(self, data: bytes) -> None:
        """Add `data`, sync the file, then its folder.

        Raises:
            LedgerStorageError: a step failed; any part of `data` may be in the file.
        """
        with _raise_ledger_errors():
            self._files.append(self._path, data)
            self._files.sync_file(self._path)
            self._files.sync_folder(self._path.parent)


@contextmanager
def _raise_ledger_errors() -> Iterator[None]:
    try:
        yield
    except DeviceStorageError as error:
        raise LedgerStorageError(step=error.step, path=error.path, reason=error.reason) from error
