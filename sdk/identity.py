"""Makes and keeps the secret of this installation: 32 bytes, made once, never sent or backed up."""

from pathlib import Path

from alcove.privacy.entropy import Entropy
from alcove.sdk.errors import DeviceStorageError, InstallationIdentityError
from alcove.sdk.limits import SECRET_BYTES
from alcove.sdk.storage import Files


def installation_secret(path: Path, files: Files, entropy: Entropy) -> bytes:
    """Return the secret in `path`, made there first when absent; two processes that race agree on one.

    Args:
        path: the file, mode 0600; its folder exists.
        files: the disk.
        entropy: source of unpredictable bytes.

    Raises:
        InstallationIdentityError: the file has another size.
        DeviceStorageError: it could not be read or made.
    """
    secret = files.read(path, SECRET_BYTES * 2)
    if secret is None:
        files.create_once(path, entropy.random_bytes(SECRET_BYTES))
        secret = files.read(path, SECRET_BYTES * 2)
    if secret is None:
        raise DeviceStorageError(step="read", path=path.name, reason="it vanished after it was made")
    if len(secret) != SECRET_BYTES:
        raise InstallationIdentityError(path=path.name, expected_bytes=SECRET_BYTES, seen_bytes=len(secret))
    return secret
