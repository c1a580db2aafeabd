"""Re-exports every name of the TUF libraries that the registry uses, in one place.

The libraries list no public names (`__all__`), so strict type checkers refuse the imports that their own
documentation shows; the reason is given once, here.
"""

from securesystemslib.signer import CryptoSigner, Key, Signer, SSlibKey  # type: ignore[attr-defined]
from tuf.api.metadata import (  # type: ignore[attr-defined]
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Role,
    Root,
    Signed,
    Snapshot,
    SuccinctRoles,
    TargetFile,
    Targets,
    Timestamp,
)

__all__ = [
    "CryptoSigner",
    "DelegatedRole",
    "Delegations",
    "Key",
    "MetaFile",
    "Metadata",
    "Role",
    "Root",
    "SSlibKey",
    "Signed",
    "Signer",
    "Snapshot",
    "SuccinctRoles",
    "TargetFile",
    "Targets",
    "Timestamp",
]
