"""Opens the signed tree: the registry's client, with this device's disk, clocks and transport."""

from pathlib import Path

from alcove.registry.client import RepositoryClient
from alcove.registry.signed_time import Floor
from alcove.runtime.clock import Clock
from alcove.runtime.files import Disk
from alcove.sdk.egress import TufFetcher
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport


def open_repository(
    folder: Path, *, server: str, trusted_root: bytes, transport: Transport, clock: Clock, floor: Floor, files: Files
) -> RepositoryClient:
    """Return the tree of `server` as far as it was read into `folder`; nothing is fetched yet."""
    fetcher = TufFetcher(transport, server)
    return RepositoryClient(folder, fetcher, server, trusted_root, clock=clock, floor=floor, files=Disk(files.on_step))
