"""How is a version published, so that it may be killed anywhere and repeated?

    blobs uploaded ─▶ package verified ─▶ tree accepts the team's metadata ─▶ row written = listed

Verifying a package may take long, so it holds up other publications of versions, and nothing else: a halt goes out
meanwhile.  The tree's lock is taken when the package is known to be good; what it is made of cannot change after that,
because blobs are named by their digests.

The tree is the truth about what is published: rows that a kill kept from being written are written at the next start.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

from alcove.platform.core.records import VersionRecord
from alcove.platform.store import Store
from alcove.platform.store.change import Change
from alcove.platform.store.versions import add_version, find_version
from alcove.registry.clock import Clock
from alcove.registry.errors import MissingBlobError, VersionExists
from alcove.registry.manifest import Manifest
from alcove.registry.package import CARD_FILE, Package, delta_file, program_file, verify_package
from alcove.registry.tree import Tree

__all__ = ["VersionPublisher"]

RECONCILED = "server/start"  # principal of rows that a restart completes


@dataclass(frozen=True)
class VersionPublisher:
    """Publishes versions, one at a time.

    Attributes:
        store: where versions are listed.
        tree: where devices read them; called in worker threads.
        lock: held while the tree changes; shared with everything else that changes it.
        clock: dates the rows.
        verifying: held while a package is verified, so that one at a time is in memory.
    """

    store: Store
    tree: Tree
    lock: AbstractAsyncContextManager[None]
    clock: Clock
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def to_tree(self, manifest: Manifest, team_metadata: bytes) -> None:
        """Verify the package and make it part of the tree; repeating is harmless.

        Args:
            manifest: of the new version; its blobs must have been uploaded.
            team_metadata: signed by the team's key, on top of what is current.

        Raises:
            VersionExists: the version was published before, with other metadata.
            MissingBlobError: a program or the card was not uploaded.
            RegistryError: whatever the package, the signature or the tree is refused for.
        """
        async with self.verifying:
            await asyncio.to_thread(self._verify, manifest, team_metadata)
        async with self.lock:
            await asyncio.to_thread(self._to_tree, manifest, team_metadata)

    async def to_row(self, change: Change, manifest: Manifest) -> VersionRecord:
        """List a version that the tree holds; return what is listed."""
        known = await find_version(change.session, manifest.feature, manifest.version)
        if known is not None:
            return known
        record = await add_version(
            change.session,
            feature=manifest.feature,
            version=manifest.version,
            team=manifest.team,
            manifest_sha256=manifest.sha256,
            manifest=manifest.to_bytes(),
            published_at_s=change.now_s,
            card=await asyncio.to_thread(self._card, manifest),
        )
        await change.audit(
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
        published = await asyncio.to_thread(self._published)
        added = 0
        async with self.store.write() as session:
            change = Change(session, RECONCILED, self.clock.now_s())
            for manifest in published:
                if await find_version(session, manifest.feature, manifest.version) is None:
                    await self.to_row(change, manifest)
                    added += 1
        return added

    def _verify(self, manifest: Manifest, team_metadata: bytes) -> None:
        if self._is_new(manifest, team_metadata):
            verify_package(self._package(manifest), base=partial(self._base, manifest))

    def _is_new(self, manifest: Manifest, team_metadata: bytes) -> bool:
        """Tell a first publication from a repeated one; raise VersionExists for another one under its number."""
        if self.tree.holds_team_metadata(manifest.team, team_metadata):
            return False
        if any(ref.version == manifest.version for ref in self.tree.versions(manifest.feature)):
            raise VersionExists(manifest.feature, manifest.version)
        return True

    def _to_tree(self, manifest: Manifest, team_metadata: bytes) -> None:
        self._is_new(manifest, team_metadata)
        self.tree.accept_team_metadata(team_metadata, {manifest.path: manifest.to_bytes()}, team=manifest.team)
        if self.tree.manifest(manifest.feature, manifest.version) != manifest:
            raise VersionExists(manifest.feature, manifest.version)

    def _package(self, manifest: Manifest) -> Package:
        blobs = self.tree.blobs
        for sha256, size_bytes in manifest.blobs().items():
            if blobs.size_bytes(sha256) != size_bytes:
                raise MissingBlobError(f"{manifest.feature} {manifest.version}", sha256)
        files = {CARD_FILE: blobs.get(manifest.card.sha256)}
        for variant in manifest.variants:
            files[program_file(variant.name)] = blobs.get(variant.sha256)
            files |= {delta_file(variant.name, delta.base_sha256): blobs.get(delta.sha256) for delta in variant.deltas}
        return Package(manifest, files)

    def _card(self, manifest: Manifest) -> str:
        """Return the model card, as far as it is text."""
        return self.tree.blobs.get(manifest.card.sha256).decode("utf-8", "replace")

    def _base(self, manifest: Manifest, sha256: str) -> bytes:
        """Return the program that a delta of the new version starts from: one that was published before."""
        if not self.tree.blobs.has(sha256):
            raise MissingBlobError(f"base of a delta of {manifest.feature} {manifest.version}", sha256)
        return self.tree.blobs.get(sha256)

    def _published(self) -> list[Manifest]:
        return list(self.tree.manifests())
