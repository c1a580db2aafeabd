"""Provides signed packages, the tree that devices read, and the policy that chooses among versions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alcove.registry.audit import AuditProblem, AuditReport
    from alcove.registry.blobs import BlobStore, ObjectBlobStore, open_blob_store
    from alcove.registry.ceremony import initialize_repository
    from alcove.registry.client import RepositoryClient
    from alcove.registry.keys import KeyRing, OnlineKeys, create_keys, load_keys, load_signer
    from alcove.registry.manifest import Manifest, ModelSignature, PortSignature, PrivacyManifest, Variant
    from alcove.registry.online_keys import load_online_keys
    from alcove.registry.package import (
        Package,
        PackageReport,
        create_package,
        read_package,
        verify_package,
        write_package,
    )
    from alcove.registry.repository import RefreshResult, Repository, TeamPublication
    from alcove.registry.team import sign_min_version, sign_version

# Loaded on first use: a device needs the client and no key, a team the package and no tree.
_HOME: Final = {
    "AuditProblem": "audit",
    "AuditReport": "audit",
    "BlobStore": "blobs",
    "KeyRing": "keys",
    "Manifest": "manifest",
    "ModelSignature": "manifest",
    "ObjectBlobStore": "blobs",
    "OnlineKeys": "keys",
    "Package": "package",
    "PackageReport": "package",
    "PortSignature": "manifest",
    "PrivacyManifest": "manifest",
    "RefreshResult": "repository",
    "Repository": "repository",
    "RepositoryClient": "client",
    "TeamPublication": "repository",
    "Variant": "manifest",
    "create_keys": "keys",
    "create_package": "package",
    "initialize_repository": "ceremony",
    "load_keys": "keys",
    "load_online_keys": "online_keys",
    "load_signer": "keys",
    "open_blob_store": "blobs",
    "read_package": "package",
    "sign_min_version": "team",
    "sign_version": "team",
    "verify_package": "package",
    "write_package": "package",
}

__all__ = [
    "AuditProblem",
    "AuditReport",
    "BlobStore",
    "KeyRing",
    "Manifest",
    "ModelSignature",
    "ObjectBlobStore",
    "OnlineKeys",
    "Package",
    "PackageReport",
    "PortSignature",
    "PrivacyManifest",
    "RefreshResult",
    "Repository",
    "RepositoryClient",
    "TeamPublication",
    "Variant",
    "create_keys",
    "create_package",
    "initialize_repository",
    "load_keys",
    "load_online_keys",
    "load_signer",
    "open_blob_store",
    "read_package",
    "sign_min_version",
    "sign_version",
    "verify_package",
    "write_package",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
