"""Publishes decided documents to the signed tree, also those that a killed server left unpublished."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog
from alcove.platform.core.tracing import span
from alcove.platform.store import Store
from alcove.platform.store.publications import Publication, list_unpublished, mark_published
from alcove.registry.errors import RegistryError

__all__ = ["PolicyPublisher", "PolicyRepository"]

_log = structlog.get_logger()


class PolicyRepository(Protocol):
    """The part of `alcove.registry.repository.Repository` that publishing uses; every call may be repeated."""

    def publish_policy(self, app: str, policy_bytes: bytes) -> bool:
        """Sign and publish a policy document; False if it is published already."""
        ...

    def publish_halt(self, app: str, halt_bytes: bytes) -> bool:
        """Sign and publish a halt document; False if it is published already."""
        ...


class PolicyPublisher:
    """Publishes what was decided, in order, one at a time.

    Args:
        store: where decisions are kept.
        tree: where devices read them; called in a worker thread.
        repository_lock: held while the tree changes; shared with everything else that changes it.
    """

    def __init__(
        self, store: Store, tree: PolicyRepository, repository_lock: AbstractAsyncContextManager[None]
    ) -> None:
        self._store = store
        self._tree = tree
        self._lock = repository_lock

    async def flush(self) -> dict[tuple[str, str], RegistryError]:
        """Publish all that the tree is missing; return what could not be, by kind and app, and why.

        Of several policies of one app only the newest is published: devices read the newest anyway.  What could not be
        published is tried again at the next flush, or is overtaken by a newer document; it holds up no other app.
        """
        failures: dict[tuple[str, str], RegistryError] = {}
        async with self._store.read() as session:
            if not await list_unpublished(session):
                return failures  # the rule: most changes decide nothing, and the lock may be another server's
        async with self._lock:
            async with self._store.read() as session:
                waiting = await list_unpublished(session)
            newest = {(item.kind, item.app): item for item in waiting}
            for item in newest.values():
                try:
                    with span("publish", **{"alcove.kind": item.kind}):
                        await asyncio.to_thread(self._publish, item)
                except RegistryError as error:
                    _log.error("not published", kind=item.kind, app=item.app, serial=item.serial, error=str(error))
                    failures[item.kind, item.app] = error
                    continue
                async with self._store.write() as session:
                    await mark_published(session, item)
        return failures

    def _publish(self, item: Publication) -> None:
        if item.kind == "halt":
            self._tree.publish_halt(item.app, item.document)
        else:
            self._tree.publish_policy(item.app, item.document)
