"""Removes blobs that nothing names (garbage collection), beside servers that publish.

The rules are `registry.garbage_collection`'s.  Here are the database's lock, for servers on other machines, and the
rows: what a row names is kept too, so that a tree restored from a backup loses nothing that it may yet get back.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.store import Store
from alcove.platform.store.manifests import listed_manifests
from alcove.registry.blobs import StoredBlob
from alcove.registry.garbage_collection import GRACE_MIN_S, find_garbage, remove_garbage
from alcove.registry.manifest import Manifest
from alcove.registry.repository import Repository

__all__ = ["CollectionResult", "collect_garbage"]

BATCH = 64  # blobs removed under one hold of the lock, so that a halt waits for no more


@dataclass(frozen=True)
class CollectionResult:
    """The result of a garbage collection.

    Attributes:
        removed: blobs that are gone, or would be.
        remains: leftovers of killed uploads that are gone; 0 when nothing was to be done.
    """

    removed: tuple[StoredBlob, ...]
    remains: int

    @property
    def freed_bytes(self) -> int:
        """The room that the blobs took."""
        return sum(blob.size_bytes for blob in self.removed)


async def collect_garbage(
    store: Store | None,
    tree: Repository,
    lock: AbstractAsyncContextManager[None],
    *,
    now_s: int,
    grace_s: int,
    is_dry: bool = False,
) -> CollectionResult:
    """Remove the blobs that neither tree nor rows name.

    Args:
        store: the rows; None where there is no database yet.
        tree: names blobs, and says where they are.
        lock: of all who change the tree.
        now_s: seconds since 1970.
        grace_s: seconds since its last put for which a blob is kept in any case.
        is_dry: only tell.

    Raises:
        InvalidFieldError: the grace is too short for a push.
        RegistryError: the tree is damaged, or the store of blobs fails; what was removed is gone, nothing else.
        StoreBusyError, StoreUnavailableError: the database.
    """
    if grace_s < GRACE_MIN_S:
        raise InvalidFieldError("grace", f"at least {GRACE_MIN_S} seconds", grace_s)
    before_s = now_s - grace_s
    also: set[str] = set() if store is None else await _named_by_rows(store)
    garbage = await asyncio.to_thread(find_garbage, tree, before_s=before_s, also_named=also)
    if is_dry:
        return CollectionResult(tuple(garbage), 0)
    removed: list[StoredBlob] = []
    for start in range(0, len(garbage), BATCH):
        async with lock:
            batch = garbage[start : start + BATCH]
            removed += await asyncio.to_thread(remove_garbage, tree, batch, before_s=before_s)
    return CollectionResult(tuple(removed), await asyncio.to_thread(tree.blobs.remove_remains, before_s))


async def _named_by_rows(store: Store) -> set[str]:
    """Return the digests that listed versions name; a row that cannot be read ends the collection."""
    named: set[str] = set()
    async for item in listed_manifests(store):
        named.update(Manifest.from_bytes(item.manifest).blobs())
    return named
