"""Makes and keeps the secret of this installation: 32 bytes, made once, never sent or backed up.

A file of another size has lost the secret, and with it the arms that the device was in: nothing brings them back.  The
device then gets a new secret, as a new installation does, and the log says so; else it would be in no rollout and no
experiment for ever.  What it has spent of its privacy budget stays spent.
"""

import logging
from pathlib import Path
from typing import Final

from alcove.privacy.entropy import Entropy
from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.limits import SECRET_BYTES
from alcove.sdk.storage import FileLock, Files

_LOG: Final = logging.getLogger(__name__)


def installation_secret(path: Path, files: Files, entropy: Entropy) -> bytes:
    """Return the secret in `path`, made there first when absent or damaged; processes that race agree on one.

    Args:
        path: the file, mode 0600; its folder exists.
        files: the disk.
        entropy: source of unpredictable bytes.

    Raises:
        DeviceStorageError: it could not be read or made.
    """
    if _is_damaged(path):
        with FileLock(path.with_name(f"{path.name}.lock")).hold():  # one of those who found it so removes it
            if _is_damaged(path):
                _LOG.warning(
                    "%s has not %d bytes: a new one is made, and the device's arms change", path.name, SECRET_BYTES
                )
                files.remove(path)
    secret = files.read(path, SECRET_BYTES)
    if secret is None:
        files.create_once(path, entropy.random_bytes(SECRET_BYTES))
        secret = files.read(path, SECRET_BYTES)
    if secret is None:
        raise DeviceStorageError(step="read", path=path.name, reason="it vanished after it was made")
    return secret


def _is_damaged(path: Path) -> bool:
    try:
        return path.stat().st_size != SECRET_BYTES
    except OSError:
        return False  # absent, or what reading it will say
