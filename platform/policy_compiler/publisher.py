"""How do decided documents reach the signed tree, also when the server was killed in between?"""

import asyncio
from typing import Protocol

from alcove.platform.store import Store
from alcove.platform.store.publications import Publication, mark_published, unpublished

__all__ = ["Publisher", "SignedTree"]


class SignedTree(Protocol):
    """What publishing needs of `alcove.registry.tree.Tree`; every call may be repeated."""

    def publish_policy(self, app: str, policy_bytes: bytes) -> bool:
        """Sign and publish a policy document; False if it is published already."""
        ...

    def publish_halt(self, app: str, halt_bytes: bytes) -> bool:
        """Sign and publish a halt document; False if it is published already."""
        ...


class Publisher:
    """Publishes what was decided, in order, one at a time.

    Args:
        store: where decisions are kept.
        tree: where devices read them; called in a worker thread.
        tree_lock: held while the tree changes; shared with everything else that changes it.
    """

    def __init__(self, store: Store, tree: SignedTree, tree_lock: asyncio.Lock) -> None:
        self._store = store
        self._tree = tree
        self._lock = tree_lock

    async def flush(self) -> int:
        """Publish all that the tree is missing; return how many documents were.

        Of several policies of one app only the newest is published: devices read the newest anyway.

        Raises:
            RegistryError: the tree refuses or the disk fails; what is left is tried again at the next flush.
        """
        async with self._lock:
            async with self._store.read() as session:
                waiting = await unpublished(session)
            newest = {(item.kind, item.app): item for item in waiting}
            for item in newest.values():
                await asyncio.to_thread(self._publish, item)
                async with self._store.write() as session:
                    await mark_published(session, item)
            return len(newest)

    def _publish(self, item: Publication) -> None:
        if item.kind == "halt":
            self._tree.publish_halt(item.app, item.document)
        else:
            self._tree.publish_policy(item.app, item.document)
