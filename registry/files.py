"""Writes files atomically, so that each is on the disk whole or not at all.

A file is written beside its place, synced, renamed over it, and the folder is synced.  The steps go through a small
protocol so that a test can fail each of them in turn.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Files(Protocol):
    """The steps that change a disk; each raises OSError."""

    def make_folder(self, folder: Path) -> None:
        """Make `folder` and its parents where absent, and make their names last."""
        ...

    def write(self, path: Path, data: bytes) -> None:
        """Write a file from its beginning and sync it; a failure here may leave a part behind."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, at once."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Make the names in `folder` last."""
        ...


class Disk:
    """The real disk."""

    def make_folder(self, folder: Path) -> None:
        """Make `folder` and its parents where absent, and make their names last."""
        new = [place for place in (folder, *folder.parents) if not place.is_dir()]
        folder.mkdir(parents=True, exist_ok=True)
        # A file that was synced is lost with its folder if a power cut forgets the folder's own name.
        for place in reversed(new):
            self.sync_folder(place.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file from its beginning and sync it."""
        if path.is_symlink():
            path.unlink()  # what it leads to is nobody's to write here
        with open(path, "wb", opener=_open_here) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, at once."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in `folder` last."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_here(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


DISK: Final = Disk()


def replace_file(files: Files, path: Path, data: bytes) -> None:
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


def read_bounded(path: Path, limit_bytes: int) -> bytes | None:
    """Return the file's bytes, or None if there are more than `limit_bytes`.

    Raises:
        OSError: absent or unreadable.
    """
    with path.open("rb") as file:
        data = file.read(limit_bytes + 1)
    return None if len(data) > limit_bytes else data
