"""Opens the signed tree: the registry's client, with this device's disk, clocks and transport."""

from pathlib import Path

from alcove.registry.client import RepositoryClient
from alcove.registry.files import Disk
from alcove.registry.signed_time import Floor
from alcove.runtime.clock import Clock
from alcove.sdk.egress import TufFetcher
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport


class _RepositoryDisk(Disk):
    """The registry's disk, whose steps the SDK's observer hears of."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def make_folder(self, folder: Path) -> None:
        """Make `folder` and its parents where absent."""
        self._files.notice("make folder", folder)
        super().make_folder(folder)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file from its beginning and sync it."""
        self._files.notice("write", path)
        super().write(path, data)

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, at once."""
        self._files.notice("rename", target)
        super().rename(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in `folder` last."""
        self._files.notice("sync folder", folder)
        super().sync_folder(folder)


def open_repository(
    folder: Path, *, server: str, trusted_root: bytes, transport: Transport, clock: Clock, floor: Floor, files: Files
) -> RepositoryClient:
    """Return the tree of `server` as far as it was read into `folder`; nothing is fetched yet."""
    fetcher = TufFetcher(transport, server)
    return RepositoryClient(
        folder, fetcher, server, trusted_root, clock=clock, floor=floor, files=_RepositoryDisk(files)
    )
