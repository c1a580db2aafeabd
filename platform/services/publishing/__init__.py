"""Publishes teams' versions, from the upload to the signed tree, and maintains the tree's blobs."""

from alcove.platform.services.publishing.collection import Collected, collect
from alcove.platform.services.publishing.inspection import StoreReport, inspect_store
from alcove.platform.services.publishing.publisher import VersionPublisher
from alcove.platform.services.publishing.tree_lock import HeldDisk, TreeLock
from alcove.platform.services.publishing.uploads import receive_blob

__all__ = [
    "Collected",
    "HeldDisk",
    "StoreReport",
    "TreeLock",
    "VersionPublisher",
    "collect",
    "inspect_store",
    "receive_blob",
]
