"""Which names of the TUF libraries does the registry use?  All of them, in one place.

The libraries list no public names (`__all__`), so strict type checkers refuse the imports that their own
documentation shows; the reason is given once, here.
"""

from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]
from tuf.api.metadata import (  # type: ignore[attr-defined]
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

__all__ = [
    "CryptoSigner",
    "DelegatedRole",
    "Delegations",
    "MetaFile",
    "Metadata",
    "Root",
    "Signed",
    "Snapshot",
    "TargetFile",
    "Targets",
    "Timestamp",
]
