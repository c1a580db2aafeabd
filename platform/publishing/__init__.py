"""How does a team's version get from an upload to the tree?"""

from alcove.platform.publishing.publisher import VersionPublisher
from alcove.platform.publishing.tree_lock import HeldDisk, TreeLock
from alcove.platform.publishing.uploads import receive_blob

__all__ = ["HeldDisk", "TreeLock", "VersionPublisher", "receive_blob"]
