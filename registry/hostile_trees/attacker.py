"""Makes the one attack that got through before there were `rules.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alcove.registry import layout
from alcove.registry._tuf import (
    CryptoSigner,
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Signer,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from alcove.registry.hostile_trees.case import DAY_S
from alcove.registry.signed_time import utc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.registry.testing import RepositoryFixture


@dataclass(frozen=True, slots=True)
class Shadow:
    """A role of the thief's under the name of another: what python-tuf confuses without our rules.

    Attributes:
        delegator: whose key is stolen; its new metadata hands its paths on.
        name: of the role that is shadowed; its number stays what it is, and the snapshot gives no digest of it.
        documents: what the shadow names, by path.
    """

    delegator: str
    name: str
    documents: Mapping[str, bytes]

    def files(self, world: RepositoryFixture, stolen: Mapping[str, Signer]) -> dict[str, bytes]:
        """Return what to serve in the place of an honest tree; what no stolen key signs, a key of the thief does."""
        own = CryptoSigner(Ed25519PrivateKey.generate())
        state = world.tree.state()
        expires = utc(world.clock.now_s() + 20 * DAY_S)
        pattern = {"policy": "policy/*.json", "halt": "halt/*.json"}.get(self.delegator, "*/*")
        delegated = DelegatedRole(self.name, [own.public_key.keyid], 1, True, [pattern])
        delegating = Targets(
            version=state.roles[self.delegator].version + 1,
            expires=expires,
            delegations=Delegations({own.public_key.keyid: own.public_key}, {self.name: delegated}),
        )
        files, targets = {}, {}
        for path, data in self.documents.items():
            targets[path] = TargetFile.from_data(path, data, ["sha256"])
            files[layout.target_file(path, targets[path].hashes["sha256"])] = data
        shadow = Targets(version=state.roles[self.name].version, expires=expires, targets=targets)
        snapshot = Snapshot(state.snapshot.version + 1, expires=expires, meta=dict(state.snapshot.meta))
        snapshot.meta[f"{self.name}.json"] = MetaFile(shadow.version)
        snapshot.meta[f"{self.delegator}.json"] = MetaFile(delegating.version)
        link = MetaFile(snapshot.version)
        timestamp = Timestamp(state.timestamp.version + 1, expires=expires, snapshot_meta=link)
        roles = {self.delegator: delegating, self.name: shadow, "snapshot": snapshot, "timestamp": timestamp}
        for name, signed in roles.items():
            metadata: Metadata[Any] = Metadata(signed)
            metadata.sign(own if name == self.name else stolen.get(name, own))
            files[layout.metadata_file(name, None if name == "timestamp" else signed.version)] = metadata.to_bytes()
        return files
