"""Changes files so that a crash or a power cut leaves the old bytes or the new ones; the only module that syncs.

A file is written beside its place, synced, renamed over it, and the folder is synced.  Each change is a named step of a
`Disk`, whose observer hears of it before it happens: tests count the steps, then fail or kill the process at each of
them in turn.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

StepObserver = Callable[[str, Path], None]


class Disk:
    """The real disk.  Each method raises OSError where a step fails.

    Args:
        on_step: called with the step's name and its path before each change; what it raises is what the step raises.
    """

    def __init__(self, on_step: StepObserver | None = None) -> None:
        self.on_step = on_step

    def make_folder(self, folder: Path) -> None:
        """Make `folder` and its parents where absent, and make their names last."""
        new = [place for place in (folder, *folder.parents) if not place.is_dir()]
        with self.step("make folder", folder):
            folder.mkdir(parents=True, exist_ok=True)
        # A file that was synced is lost with its folder if a power cut forgets the folder's own name.
        for place in reversed(new):
            self.sync_folder(place.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file from its beginning and sync it; a failure here may leave a part behind."""
        with self.step("write", path):
            if path.is_symlink():
                path.unlink()  # what it leads to is nobody's to write here
            with open(path, "wb", opener=_open_here) as file:
                file.write(data)
                sync(file)

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, at once."""
        with self.step("rename", target):
            source.replace(target)

    def sync_file(self, path: Path) -> None:
        """Return when the bytes of a file are on the disk."""
        with self.step("sync file", path):
            _sync_path(path, os.O_RDONLY)

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on the disk, where the system can open folders."""
        with self.step("sync folder", folder):
            if hasattr(os, "O_DIRECTORY"):
                _sync_path(folder, os.O_RDONLY | os.O_DIRECTORY)

    @contextmanager
    def step(self, name: str, path: Path) -> Iterator[None]:
        """Announce a step, which is taken inside the context."""
        if self.on_step is not None:
            self.on_step(name, path)
        yield


DISK: Final = Disk()


def replace_file(files: Disk, path: Path, data: bytes) -> None:
    """Make `path` hold `data`; killed anywhere, it holds the old bytes or the new ones.

    One writer at a time: the temporary name is fixed, so that what a killed writer left is overwritten by the next.

    Raises:
        OSError: a step failed; the old bytes stand.
    """
    temporary = path.with_name(f".{path.name}.partial")
    files.make_folder(path.parent)
    files.write(temporary, data)
    files.rename(temporary, path)
    files.sync_folder(path.parent)


def sync(file: IO[bytes]) -> None:
    """Return when what was written to an open file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def read_bounded(path: Path, limit_bytes: int) -> bytes | None:
    """Return the file's bytes, or None if there are more than `limit_bytes`.

    Raises:
        OSError: absent or unreadable.
    """
    with path.open("rb") as file:
        data = file.read(limit_bytes + 1)
    return None if len(data) > limit_bytes else data


def _open_here(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _sync_path(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
