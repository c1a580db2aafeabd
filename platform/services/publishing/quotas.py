"""Bounds the bytes that a team has uploaded and nothing names: database and blobs share a disk.

    announced ─▶ reserved ─▶ stored, noted for the team ─▶ named by a version, or collected: no longer counted

A team's note is a file of lines beside the uploads, so that a restart forgets nothing; it is written again without what
is named or gone when the team comes to its bound, which is when that is worth knowing.
"""

import asyncio
import fcntl
import hashlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from alcove.platform.core.turns import Turns
from alcove.platform.domain.errors import QuotaError
from alcove.registry.blobs import BlobStore
from alcove.registry.errors import StorageError

__all__ = ["UploadQuotas"]


class UploadQuotas:
    """Counts what teams have uploaded and not published.

    Args:
        folder: where uploads lie.
        blobs: says which blobs there are.
        named: returns the digests that versions name.
        most_bytes: of one team, unfinished uploads and those under way counted.
        least_bytes: that each blob counts as, however small: files take blocks, and a line of the note.
        most_parts: unfinished uploads of one team.
    """

    def __init__(
        self,
        folder: Path,
        blobs: BlobStore,
        named: Callable[[], set[str]],
        *,
        most_bytes: int,
        most_parts: int,
        least_bytes: int = 1,
    ) -> None:
        self._folder = folder
        self._blobs = blobs
        self._named = named
        self._most_bytes = most_bytes
        self._most_parts = most_parts
        self._least_bytes = least_bytes
        self._reserved: defaultdict[str, int] = defaultdict(int)
        self._looking = Turns(1)  # of each team: to count takes as long as the tree has versions

    @asynccontextmanager
    async def room_for(self, sender: str, sha256: str, size_bytes: int) -> AsyncIterator[None]:
        """Reserve room for an upload while the block runs; where it ends well, the blob is noted for the team.

        Raises:
            QuotaError: the team has no room left, or too many unfinished uploads.
            StorageError: the disk failed.
        """
        size_bytes = max(size_bytes, self._least_bytes)
        async with self._looking.turn(sender):
            used = await asyncio.to_thread(self._count_used_bytes, sender, sha256, size_bytes + self._reserved[sender])
            if used + self._reserved[sender] + size_bytes > self._most_bytes:
                used_bytes = used + self._reserved[sender]
                raise QuotaError(sender, "bytes that no version names", self._most_bytes, used_bytes + size_bytes)
            self._reserved[sender] += size_bytes
        try:
            yield
            await asyncio.to_thread(self._note, sender, sha256, size_bytes)
        finally:
            self._reserved[sender] -= size_bytes
            if not self._reserved[sender]:
                del self._reserved[sender]

    def _count_used_bytes(self, sender: str, sha256: str, wanted_bytes: int) -> int:
        parts = {path: path.stat().st_size for path in self._folder.glob(f"{_key(sender)}-*.part") if path.exists()}
        others = [path for path in parts if sha256 not in path.name]
        if len(others) >= self._most_parts:
            raise QuotaError(sender, "unfinished uploads", self._most_parts, len(others) + 1)
        unfinished = sum(parts[path] for path in others)
        noted = self._read_note(sender)
        used = unfinished + sum(size for other, size in noted.items() if other != sha256)
        if used + wanted_bytes > self._most_bytes:
            noted = self._renew(sender)
            used = unfinished + sum(size for other, size in noted.items() if other != sha256)
        return used

    def _read_note(self, sender: str) -> dict[str, int]:
        """Return the blobs noted for a team; a line that a kill cut short says nothing."""
        found: dict[str, int] = {}
        try:
            lines = self._path(sender).read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StorageError(str(self._path(sender)), error.strerror or str(error)) from error
        for line in lines:
            try:
                sha256, size_bytes = json.loads(line)
                found[str(sha256)] = int(size_bytes)
            except (ValueError, TypeError):
                continue
        return found

    def _note(self, sender: str, sha256: str, size_bytes: int) -> None:
        if sha256 in self._read_note(sender):
            return  # or the note of one who sends the same again and again would have no end
        try:
            with self._path(sender).open("a", encoding="ascii") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(json.dumps([sha256, size_bytes]) + "\n")
        except OSError as error:
            raise StorageError(str(self._path(sender)), error.strerror or str(error)) from error

    def _renew(self, sender: str) -> dict[str, int]:
        """Write a team's note again, without what versions name or what is gone; return it."""
        named = self._named()
        path = self._path(sender)
        try:
            with path.open("a+", encoding="ascii") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                noted = self._read_note(sender)
                left = {
                    sha256: size for sha256, size in noted.items() if sha256 not in named and self._blobs.has(sha256)
                }
                file.seek(0)
                file.truncate()
                file.writelines(json.dumps([sha256, size]) + "\n" for sha256, size in left.items())
        except OSError as error:
            raise StorageError(str(path), error.strerror or str(error)) from error
        return left

    def _path(self, sender: str) -> Path:
        return self._folder / f"{_key(sender)}.noted"


def _key(sender: str) -> str:
    """Return what names a sender's files, as `uploads.py` has it."""
    return hashlib.sha256(sender.encode()).hexdigest()[:16]
