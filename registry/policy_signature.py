"""Says who signed an app's policy, and until when the signature holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.registry.layout import policy_path
from alcove.registry.rules import delegations

if TYPE_CHECKING:
    from alcove.registry.trust import TrustedState

__all__ = ["PolicySignature", "read_policy_signature"]


@dataclass(frozen=True, slots=True)
class PolicySignature:
    """The signature of the role that names the policy of each app.

    Attributes:
        version: of the role's metadata.
        key_ids: of the keys that may sign for it.
        signing_key_ids: those of them whose signature this version has; at least `threshold`.
        threshold: how many have to sign.
        expires_at_s: until when it holds, seconds since 1970-01-01 UTC.
    """

    version: int
    key_ids: tuple[str, ...]
    signing_key_ids: tuple[str, ...]
    threshold: int
    expires_at_s: int


def read_policy_signature(state: TrustedState, app: str, document: bytes) -> PolicySignature | None:
    """Return who signed a policy document; None where the tree names another one, or none.

    Args:
        state: what the tree says, proved.
        app: whose policy it is.
        document: its canonical bytes.
    """
    role = state.roles["policy"].metadata
    target = role.signed.targets.get(policy_path(app))
    if target is None or target.hashes.get("sha256") != hashlib.sha256(document).hexdigest():
        return None
    delegator = delegations(state.targets)["policy"]
    verified = role.signed
    result = state.targets.get_verification_result("policy", role.signed_bytes, role.signatures)
    return PolicySignature(
        version=verified.version,
        key_ids=tuple(sorted(delegator.keyids)),
        signing_key_ids=tuple(sorted(result.signed)),
        threshold=delegator.threshold,
        expires_at_s=int(verified.expires.timestamp()),
    )
