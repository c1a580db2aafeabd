"""Publishes versions, so that it may be killed anywhere and repeated.

    blobs uploaded ─▶ team's signature ─▶ programs checked ─▶ tree accepts the team's metadata ─▶ row written = listed

No program is opened before the team's key is known to have signed for it, and then in a process of its own
(`alcove.platform.services.validation`): a token without a key has nothing run.  Checks may take long, so nothing waits
for them but other checks: a halt goes out meanwhile.  The tree's lock is taken when the package is known to be good;
what it is made of cannot change after that, because blobs are named by their digests.

The tree is the truth about what is published: rows that a kill kept from being written are written at the next start.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from alcove.platform.domain.records import VersionRecord
from alcove.platform.services.validation import ProgramChecks, Supplies
from alcove.platform.store import Store
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import add_version, find_version
from alcove.registry.errors import MissingBlobError, PublishError, VersionExistsError
from alcove.registry.manifest import Manifest, Variant
from alcove.registry.repository import Repository
from alcove.runtime.clock import Clock

__all__ = ["VersionPublisher"]

RECONCILED = "server/start"  # principal of rows that a restart completes


@dataclass(frozen=True)
class VersionPublisher:
    """Publishes versions.

    Attributes:
        store: where versions are listed.
        tree: where devices read them; called in worker threads.
        lock: held while the tree changes; shared with everything else that changes it.
        clock: dates the rows.
        checks: opens and runs programs.
    """

    store: Store
    tree: Repository
    lock: AbstractAsyncContextManager[None]
    clock: Clock
    checks: ProgramChecks

    async def to_tree(self, manifest: Manifest, team_metadata: bytes) -> None:
        """Verify the package and make it part of the tree; repeating is harmless.

        Args:
            manifest: of the new version; its blobs must have been uploaded.
            team_metadata: signed by the team's key, on top of what is current.

        Raises:
            VersionExistsError: the version was published before, with other metadata.
            MissingBlobError: a program or the card was not uploaded.
            CheckBoundError, ChecksFullError: as `ProgramChecks.verify`.
            RegistryError: whatever the package, the signature or the tree is refused for.
        """
        for variant, supplies in await asyncio.to_thread(self._to_check, manifest, team_metadata):
            await self.checks.verify(manifest, variant, supplies)
        async with self.lock:
            await asyncio.to_thread(self._to_tree, manifest, team_metadata)

    async def to_row(self, uow: UnitOfWork, manifest: Manifest) -> VersionRecord:
        """List a version that the tree holds; return what is listed."""
        known = await find_version(uow.session, manifest.feature, manifest.version)
        if known is not None:
            return known
        record = await add_version(
            uow.session,
            feature=manifest.feature,
            version=manifest.version,
            team=manifest.team,
            manifest_sha256=manifest.sha256,
            manifest=manifest.to_bytes(),
            published_at_s=uow.now_s,
            card=await asyncio.to_thread(self._card, manifest),
        )
        await uow.audit(
            "publish version",
            f"{manifest.feature} {manifest.version}",
            team=manifest.team,
            manifest_sha256=manifest.sha256,
        )
        return record

    async def reconcile(self) -> int:
        """List every version that the tree holds and the rows lack; return how many.

        Raises:
            RegistryError: the tree is damaged.
        """
        published = await asyncio.to_thread(self._list_published)
        added = 0
        async with self.store.write() as session:
            uow = UnitOfWork(session, RECONCILED, self.clock.now_s())
            for manifest in published:
                if await find_version(session, manifest.feature, manifest.version) is None:
                    await self.to_row(uow, manifest)
                    added += 1
        return added

    def _to_check(self, manifest: Manifest, team_metadata: bytes) -> list[tuple[Variant, Supplies]]:
        """Return the programs of a version that its team has signed and that is not published; none if it is."""
        if not self._is_new(manifest, team_metadata):
            return []
        manifests = {manifest.path: manifest.to_bytes()}
        if manifest not in self.tree.verify_team_metadata(team_metadata, manifests, team=manifest.team):
            msg = f"the team's metadata does not sign {manifest.path} as it was sent"
            raise PublishError(msg)
        blobs = self.tree.blobs
        if blobs.size_bytes(manifest.card.sha256) != manifest.card.size_bytes:
            raise MissingBlobError(f"{manifest.feature} {manifest.version}", manifest.card.sha256)
        return [(variant, Supplies.of(blobs, manifest, variant)) for variant in manifest.variants]

    def _is_new(self, manifest: Manifest, team_metadata: bytes) -> bool:
        """Tell a first publication from a repeated one; raise VersionExistsError for another one under its number."""
        if self.tree.holds_team_metadata(manifest.team, team_metadata):
            return False
        if any(ref.version == manifest.version for ref in self.tree.versions(manifest.feature)):
            raise VersionExistsError(manifest.feature, manifest.version)
        return True

    def _to_tree(self, manifest: Manifest, team_metadata: bytes) -> None:
        self._is_new(manifest, team_metadata)
        self.tree.accept_team_metadata(team_metadata, {manifest.path: manifest.to_bytes()}, team=manifest.team)
        if self.tree.manifest(manifest.feature, manifest.version) != manifest:
            raise VersionExistsError(manifest.feature, manifest.version)

    def _card(self, manifest: Manifest) -> str:
        """Return the model card, as far as it is text."""
        return self.tree.blobs.get(manifest.card.sha256).decode("utf-8", "replace")

    def _list_published(self) -> list[Manifest]:
        return list(self.tree.manifests())
