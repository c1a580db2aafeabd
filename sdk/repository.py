"""Opens the signed tree: the registry's client, with this device's disk, clocks and transport."""

from pathlib import Path

from alcove.registry.client import RepositoryClient
from alcove.registry.signed_time import Floor
from alcove.runtime.clock import Clock
from alcove.runtime.files import Disk
from alcove.sdk.egress import TufFetcher
from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport


def open_repository(
    folder: Path,
    *,
    server: str,
    trusted_root: Path | str | bytes,
    transport: Transport,
    clock: Clock,
    floor: Floor,
    files: Files,
) -> RepositoryClient:
    """Return the tree of `server` as far as it was read into `folder`; nothing is fetched yet.

    Raises:
        DeviceStorageError: the root metadata's file cannot be read.
    """
    root, fetcher = _root_bytes(trusted_root), TufFetcher(transport, server)
    return RepositoryClient(folder, fetcher, server, root, clock=clock, floor=floor, files=Disk(files.on_step))


def _root_bytes(trusted_root: Path | str | bytes) -> bytes:
    if isinstance(trusted_root, bytes):
        return trusted_root
    path = Path(trusted_root)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DeviceStorageError(step="read", path=path.name, reason=str(error)) from error
