"""Says where a server keeps its data, for a backup of it and for a restore to it."""

from dataclasses import dataclass
from pathlib import Path

from alcove.platform.store.database import database_of
from alcove.registry.blobs import open_blob_store
from alcove.registry.repository import Repository

__all__ = ["ServerData"]


@dataclass(frozen=True)
class ServerData:
    """Where a server's data lies, or is to lie.

    Attributes:
        data_dir: the data folder.
        database: URL of the database; None: a file in the folder.
        blobs: URL of the blobs; None: in the folder.
        keys: the folder of the server's keys.
    """

    data_dir: Path
    keys: Path
    database: str | None = None
    blobs: str | None = None

    @property
    def location(self) -> Path | str:
        """File or URL of the database."""
        return database_of(self.data_dir, self.database)

    def open_tree(self) -> Repository:
        """Return the signed tree, for reading.

        Raises:
            StorageError: the blobs' store cannot be opened.
        """
        return Repository(self.data_dir / "tree", blobs=None if self.blobs is None else open_blob_store(self.blobs))
