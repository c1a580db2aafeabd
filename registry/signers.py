"""Loads signers by the file that names their key: a file here, a token or a cloud's key service elsewhere.

A public key file (`NAME.pub`; `ROLE.uri` of the server's keys) is JSON: the key as TUF writes it, its id, and for a
private key that is no file beside it the URI under which securesystemslib finds it::

    file:/safe/root.pem         a file (the same as naming the file itself); securesystemslib calls it file2:
    hsm:2?label=alcove          PKCS #11; the library in PYKCS11LIB, the PIN is asked for
    gcpkms:… awskms:… azurekms:… hv:…   the clouds' services and Vault, by securesystemslib's word

Ed25519 files are what the tests sign with.  The other kinds are securesystemslib's own, each with its own extra.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from alcove.registry._tuf import CryptoSigner, Key, Metadata, Signer, SSlibKey
from alcove.registry.canonical import canonical_json
from alcove.registry.errors import KeyFileError, SigningError
from alcove.registry.keys import KEY_FILE_MAX_BYTES, load_signer
from alcove.runtime.files import read_bounded
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.exceptions import UnverifiedSignatureError
from tuf.api.exceptions import UnsignedMetadataError

if TYPE_CHECKING:
    from collections.abc import Callable

PRIVATE: Final = ".pem"
PUBLIC: Final = ".pub"
_FILES: Final = ("file", CryptoSigner.SCHEME)
_PROBE: Final = b"alcove: does this key sign?"
_URI: Final = "uri"
_KEYID: Final = "keyid"


def key_to_bytes(key: Key, *, uri: str | None = None) -> bytes:
    """Return the public key file of `key`.

    Args:
        key: what others verify with.
        uri: where the private key is, for securesystemslib; None where it is a file that will be named.
    """
    fields = {_KEYID: key.keyid, **key.to_dict()} | ({} if uri is None else {_URI: uri})
    return canonical_json(fields) + b"\n"


def key_from_pem(path: Path) -> Key:
    """Return the key of a file that holds a public key in PEM, as a token or a key service hands it out.

    Raises:
        KeyFileError: absent, too long, or no public key of a kind that TUF knows.
    """
    try:
        return SSlibKey.from_crypto(load_pem_public_key(_read(path)))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(str(path), f"is not a public key in PEM that TUF knows: {error}") from None


def load_key(path: Path) -> Key:
    """Return the public key of a private key file or of a public key file.

    Raises:
        KeyFileError: absent, malformed, or a private key that is open to others.
    """
    if path.suffix == PRIVATE:
        return load_signer(path).public_key
    return _load_public(path)[0]


def load_any_signer(path: Path, *, secrets: Callable[[str], str] | None = None) -> Signer:
    """Return who signs with the key of a file: a private key, or a public one that says where its private key is.

    Args:
        path: `NAME.pem` or `NAME.pub`.
        secrets: asked for a PIN or passphrase by what the token calls it.

    Raises:
        KeyFileError: absent, malformed, open to others; or the URI leads to no key, or to another one.
    """
    if path.suffix == PRIVATE:
        return load_signer(path)
    key, uri = _load_public(path)
    if uri is None:
        raise KeyFileError(str(path), "names no private key; give the private key file, or a public one with its URI")
    file = _file_of(uri)
    if file is not None:
        signer: Signer = load_signer(file)
        if signer.public_key.keyid != key.keyid:
            raise KeyFileError(str(path), f"{uri} is another key, {signer.public_key.keyid}")
        return signer
    try:
        return Signer.from_priv_key_uri(uri, key, secrets)
    except Exception as error:
        # securesystemslib's signers raise whatever their services do, and it says so.
        raise KeyFileError(str(path), f"{uri}: {error}") from error


def load_service_signer(path: Path, *, secrets: Callable[[str], str]) -> Signer:
    """Return who signs with the key of a public key file, after it has signed something: no person is there later.

    Raises:
        KeyFileError: as `load_any_signer`; or it does not sign, or not with this key.
    """
    signer = load_any_signer(path, secrets=secrets)
    try:
        signature = signer.sign(_PROBE)
        signer.public_key.verify_signature(signature, _PROBE)
    except UnverifiedSignatureError:
        raise KeyFileError(str(path), "the key behind its URI is another one: its signature does not hold") from None
    except Exception as error:
        raise KeyFileError(str(path), f"does not sign: {error}") from error
    return signer


def private_file(path: Path) -> Path | None:
    """Return the private key file that a public key file names; None where it names another place, or none.

    Raises:
        KeyFileError: absent or malformed.
    """
    uri = _load_public(path)[1]
    return None if uri is None else _file_of(uri)


def sign_metadata(role: str, metadata: Metadata[Any], signer: Signer, *, append: bool = False) -> None:
    """Sign metadata, and see that the signature holds before anybody else does.

    Raises:
        SigningError: the key does not sign (its service does not answer), or what came is no signature by it.
    """
    key = signer.public_key
    try:
        key.verify_signature(metadata.sign(signer, append=append), metadata.signed_bytes)
    except UnsignedMetadataError as error:
        raise SigningError(role, key.keyid, str(error.__cause__ or error)) from error
    except UnverifiedSignatureError:
        raise SigningError(role, key.keyid, "what came back is no signature by it") from None


def _file_of(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(parts.path) if parts.scheme in _FILES else None


def _load_public(path: Path) -> tuple[Key, str | None]:
    data = _read(path)
    try:
        fields = json.loads(data)
        uri = fields.pop(_URI, None)
        key = Key.from_dict(fields.pop(_KEYID), fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KeyFileError(str(path), f"is not a public key file: {error}") from None
    if not isinstance(key, SSlibKey) or not (uri is None or isinstance(uri, str)):
        raise KeyFileError(str(path), "is not a public key file of a kind that TUF knows")
    return key, uri


def _read(path: Path) -> bytes:
    try:
        data = read_bounded(path, KEY_FILE_MAX_BYTES)
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error
    if data is None:
        raise KeyFileError(str(path), f"has more than {KEY_FILE_MAX_BYTES} bytes")
    return data
