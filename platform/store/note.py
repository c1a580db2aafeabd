"""Notes in a data folder which database and which blobs belong to it, so that it is never served with others.

    stores.json    {"blobs": "tree/blobs" or a URL, "database": "alcove.db" or postgresql://host:port/name}

The first server that starts writes it; every later one, and what works beside a server, compares.  Who moves a store
removes the file: the next start writes it anew.  It holds no user and no password.
"""

import json
from pathlib import Path
from typing import Final

from alcove.platform.domain.errors import OtherStoreError
from alcove.platform.store.dialects import where_of_url
from alcove.runtime.files import DISK, replace_file

__all__ = ["NOTE", "compare_stores", "note_stores"]

NOTE: Final = "stores.json"
_OPTIONS: Final = {"database": "--database (ALCOVE_DATABASE)", "blobs": "--blobs (ALCOVE_BLOBS)"}
_LARGEST_BYTES: Final = 16 * 1024  # two URLs


def compare_stores(data_dir: Path, *, database: Path | str, blobs: str | None = None, has_blobs: bool = True) -> None:
    """Refuse other stores than those that were noted; without a note every store is taken.

    Args:
        data_dir: of the server.
        database: its file in the folder, or its URL.
        blobs: URL of the store of blobs; None: the tree's own folder.
        has_blobs: whether blobs are read at all.

    Raises:
        OtherStoreError: the note names another store, or cannot be read.
        StoreUnavailableError: the database's URL is none.
    """
    path = data_dir / NOTE
    try:
        with path.open("rb") as file:
            noted = json.loads(file.read(_LARGEST_BYTES))
        held = {name: str(noted[name]) for name in _OPTIONS}
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OtherStoreError(path, f"cannot be read ({type(error).__name__}): repair or remove it") from None
    given = _stores(database, blobs)
    for name, option in _OPTIONS.items():
        if given[name] != held[name] and (has_blobs or name != "blobs"):
            raise OtherStoreError(
                path,
                f"{name}: {held[name]} belongs to this folder, and {given[name]} was given: see {option}; if it was "
                "moved there, remove this file",
            )


def note_stores(data_dir: Path, *, database: Path | str, blobs: str | None) -> None:
    """Write down the stores of a server that has started, unless they are noted.

    Raises:
        OSError: the note cannot be written.
    """
    path = data_dir / NOTE
    if not path.exists():
        replace_file(DISK, path, json.dumps(_stores(database, blobs), indent=1, sort_keys=True).encode() + b"\n")


def _stores(database: Path | str, blobs: str | None) -> dict[str, str]:
    return {
        "blobs": "tree/blobs" if blobs is None else blobs.rstrip("/"),
        "database": where_of_url(database) if isinstance(database, str) else database.name,
    }
