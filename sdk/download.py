"""Brings a program's bytes onto the device, in as few as can be.

    an installed program is the base of a signed delta ─▶ delta downloaded, resumed ─▶ applied ─▶ digest ─▶ downloads/
      └─ no base, no such file, another result ─▶ the whole program downloaded, resumed ─▶ digest ─▶ downloads/

Which base is taken follows from what is installed, which is the same in all arms of an experiment: a request for a
delta tells of an arm no more than a request for a program does.  A download continues at a multiple of 64 KiB: the
exact byte at which it broke would name the device that comes back.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import DeltaError, IntegrityError
from alcove.sdk.errors import NoSpaceError, ResponseTooLargeError, StatusError, TransportError
from alcove.sdk.limits import CHUNK_BYTES, DISK_RESERVE_BYTES
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport

if TYPE_CHECKING:
    from alcove.registry.manifest import Delta, Variant

__all__ = ["Downloader", "file_sha256"]


APPLYING: Final = ".applying"
"""End of the name of a delta while it is applied."""


class Downloader:
    """Fills files under downloads/; its caller holds the slots' lock.

    Args:
        slots: where programs lie that deltas may start from.
        files: the disk.
        transport: the way to the server.
    """

    def __init__(self, slots: SlotStore, files: Files, transport: Transport) -> None:
        self._slots = slots
        self._files = files
        self._transport = transport

    def program(self, feature: str, variant: "Variant") -> Path:
        """Return the file that holds a variant's program, whole and with the signed digest.

        Raises:
            IntegrityError: what came differs from what was signed.
            RemoteError: the download broke; it continues from there next time.
            DeviceStorageError: the disk failed; `NoSpaceError` where the download would fill it.
        """
        part = self._slots.part_path(variant.sha256)
        if not part.exists() and variant.deltas:
            for base, delta in self._bases(feature, variant):
                if self._apply(base, delta, variant, part):
                    return part
        self._download(part, variant.sha256, variant.size_bytes)
        return part

    def _bases(self, feature: str, variant: "Variant") -> list[tuple[Path, "Delta"]]:
        """Return installed programs of the feature that a delta starts from, the smallest delta first."""
        wanted = {delta.base_sha256: delta for delta in variant.deltas}
        found = [(path, wanted.get(file_sha256(path))) for path in self._slots.installed_programs(feature)]
        known = [(path, delta) for path, delta in found if delta is not None]
        return sorted(known, key=lambda each: each[1].size_bytes)

    def _apply(self, base: Path, delta: "Delta", variant: "Variant", part: Path) -> bool:
        """Make the program of an installed one; tell whether that went well.

        A delta that the server does not have, or that makes something else, costs a request and nothing more; a
        transient failure ends the sync as it would for the program itself.  One in which the process ended is not tried
        again: it takes several times the program's size of memory, for which a system may end an app each time.
        """
        from alcove.registry.delta import apply_delta  # noqa: PLC0415 - loads Zstandard

        file = self._slots.part_path(delta.sha256)
        at_hand = file.with_name(file.name + APPLYING)
        if at_hand.exists() or at_hand.is_symlink():
            self._files.remove(at_hand)
            return False
        if self._files.free_bytes(part.parent) < delta.size_bytes + variant.size_bytes + DISK_RESERVE_BYTES:
            return False
        try:
            self._download(file, delta.sha256, delta.size_bytes)
            self._files.rename(file, at_hand)
            made = apply_delta(base.read_bytes(), at_hand.read_bytes(), variant.size_bytes)
        except (DeltaError, IntegrityError, StatusError, MemoryError):
            made = b""
        for left in (file, at_hand):
            self._files.remove(left)
        if hashlib.sha256(made).hexdigest() != variant.sha256:
            return False
        self._files.append(part, made)
        return True

    def _download(self, part: Path, sha256: str, size_bytes: int) -> None:
        """Fill `part` with a blob: what is there already is kept and hashed again."""
        thing = f"blob {sha256}"
        if part.is_symlink():
            self._files.remove(part)
        size = part.stat().st_size if part.exists() else 0
        if size > size_bytes:
            self._files.remove(part)
            size = 0
        if size % CHUNK_BYTES and size < size_bytes:
            # The exact place where a download broke would tie it to the request that continues from there.
            size -= size % CHUNK_BYTES
            self._files.truncate(part, size)
        digest = _file_digest(part) if size else hashlib.sha256()
        if size < size_bytes:
            self._check_space(part, size_bytes - size)
            path = f"/blobs/{sha256}"
            try:
                with self._transport.get(path, max_bytes=size_bytes, start=size) as download:
                    if download.start != size:
                        self._files.remove(part)
                        size, digest = 0, hashlib.sha256()
                    for chunk in download.chunks:
                        self._files.append(part, chunk)
                        digest.update(chunk)
                        size += len(chunk)
            except ResponseTooLargeError as error:
                self._files.remove(part)
                expected, seen = f"{size_bytes} bytes", f"more than {error.limit_bytes}"
                raise IntegrityError(thing, expected=expected, seen=seen) from error
            if size < size_bytes:
                reason = f"it ended after {size} of {size_bytes} bytes"
                raise TransportError(method="GET", path=path, reason=reason)
        if digest.hexdigest() != sha256:
            self._files.remove(part)
            raise IntegrityError(thing, expected=sha256, seen=digest.hexdigest())

    def _check_space(self, part: Path, missing_bytes: int) -> None:
        """Refuse a download that would fill the disk, before its first byte; what is there already needs no room."""
        needed, free = missing_bytes + DISK_RESERVE_BYTES, self._files.free_bytes(part.parent)
        if free < needed:
            raise NoSpaceError(path=part.name, needed_bytes=needed, free_bytes=free)


def file_sha256(path: Path) -> str:
    """Return the digest of a file's bytes, 64 hexadecimal digits."""
    return _file_digest(path).hexdigest()


def _file_digest(path: Path) -> "hashlib._Hash":
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest
