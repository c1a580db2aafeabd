"""Garbage-collects blobs that no published version names, safely beside pushes that are under way.

    uploaded ──▶ named by the tree ──▶ kept for as long as the tree names it
        │
        └─ a grace long unnamed ──▶ seen ──▶ under the tree's lock: still unnamed, still old ──▶ removed

- C1  What the tree names is never removed: both are looked at while nothing can be published.
- C2  What was put within the grace is never removed: a push uploads first and publishes last.
- C3  A blob that is put or asked for again before a push is dated again, if it is older than `RENEW_S`.
- C4  Publishing looks for its blobs under the same lock.  So in the worst case a push that takes longer than the grace,
      or whose blob is dated again in the very moment of its removal, is refused for a missing blob and repeated; it is
      never published without it.
- C5  Each blob goes at once or stays: killed anywhere, the next collection carries on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from alcove.registry.blobs import StoredBlob
    from alcove.registry.repository import Repository

GRACE_MIN_S: Final = 3600  # seconds; a push of the largest package over a slow line takes minutes
GRACE_S: Final = 86_400  # seconds; unfinished uploads are kept for as long
RENEW_S: Final = GRACE_MIN_S // 2  # seconds; so that half of the shortest grace is left for the push itself


def list_referenced_blobs(tree: Repository) -> set[str]:
    """Return the digests of all blobs that published versions name.

    Raises:
        MetadataError, DocumentError, StorageError: the tree is damaged; then nothing may be removed.
    """
    return {sha256 for manifest in tree.manifests() for sha256 in manifest.blobs()}


def find_garbage(tree: Repository, *, before_s: int, also_named: Set[str] = frozenset()) -> list[StoredBlob]:
    """Return the blobs that nothing names and that were put before a time, the largest first.

    Args:
        tree: read without its lock; `remove_garbage` looks again.
        before_s: seconds since 1970.
        also_named: digests that are kept besides those of the tree.

    Raises:
        MetadataError, DocumentError, StorageError: the tree is damaged, or the store fails.
    """
    old = [blob for blob in tree.blobs.list_blobs() if blob.stored_at_s < before_s]
    named = list_referenced_blobs(tree)  # after the blobs: what is published in between is named here
    found = [blob for blob in old if blob.sha256 not in named and blob.sha256 not in also_named]
    return sorted(found, key=lambda blob: (-blob.size_bytes, blob.sha256))


def remove_garbage(tree: Repository, batch: Iterable[StoredBlob], *, before_s: int) -> list[StoredBlob]:
    """Remove those of the blobs that are garbage still; return them.

    The tree's lock is held meanwhile: give few at a time.

    Raises:
        MetadataError, DocumentError, StorageError: the tree is damaged, or the store fails; what was removed is gone.
    """
    removed = []
    with tree.exclusive():
        named = list_referenced_blobs(tree)
        for blob in batch:
            if blob.sha256 in named:
                continue
            found = tree.blobs.find(blob.sha256)
            if found is not None and found.stored_at_s < before_s:
                tree.blobs.remove(blob.sha256)
                removed.append(found)
    return removed
