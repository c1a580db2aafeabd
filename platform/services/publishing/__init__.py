"""Publishes teams' versions, from the upload to the signed tree, and maintains the tree's blobs."""

from alcove.platform.services.publishing.garbage_collection import CollectionResult, collect_garbage
from alcove.platform.services.publishing.repository_lock import LockedDisk, RepositoryLock
from alcove.platform.services.publishing.store_audit import StoreReport, audit_store
from alcove.platform.services.publishing.uploads import receive_blob
from alcove.platform.services.publishing.version_publisher import VersionPublisher

__all__ = [
    "CollectionResult",
    "LockedDisk",
    "RepositoryLock",
    "StoreReport",
    "VersionPublisher",
    "audit_store",
    "collect_garbage",
    "receive_blob",
]
