"""Opens the signed tree: the registry's client, with this device's disk, clocks and transport."""

from pathlib import Path

from alcove.registry._tuf import Root
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import DocumentTooLargeError, MetadataError
from alcove.registry.limits import ROOT_METADATA_MAX_BYTES
from alcove.registry.signed_time import Floor
from alcove.registry.trust import parse
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


def check_trusted_root(trusted_root: Path | str | bytes) -> None:
    """Check that what the app ships as root metadata is some, before python-tuf says so without its file's name.

    Raises:
        DeviceStorageError: the file cannot be read.
        MetadataError: it holds something else.
    """
    name = "trusted_root" if isinstance(trusted_root, bytes) else f"trusted_root {str(trusted_root)!r}"
    try:
        parse(Root, "root", _root_bytes(trusted_root), ROOT_METADATA_MAX_BYTES)
    except (MetadataError, DocumentTooLargeError) as error:
        raise MetadataError("", f"{name} must be the root.json of the server's tree; {error}") from error


def _root_bytes(trusted_root: Path | str | bytes) -> bytes:
    if isinstance(trusted_root, bytes):
        return trusted_root
    path = Path(trusted_root)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DeviceStorageError(step="read", path=f"trusted_root {str(path)!r}", reason=str(error.strerror)) from error
