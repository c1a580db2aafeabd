"""Detects a tree restored from an old copy: notes how far this server has published, and refuses a tree with less.

Devices that saw more refuse an older tree by themselves, each with a typed error, and keep what they have; nobody is
rolled back silently.  But a server that continues from an old copy would give used numbers to other content, and
devices would follow once the numbers have caught up.  So the server notes, beside its keys and not beside the tree, how
far it has published, and publishes nothing on top of less::

    published N ─▶ noted N ─▶ tree at M < N: RollbackError until the newer files are back

They are public and prove themselves: any mirror or CDN has them.  Copied into the tree, they end the state.  Where they
are nowhere, deleting the note gives the numbers between up, in full knowledge.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import RollbackError, StorageError
from alcove.runtime.files import read_bounded, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from alcove.registry.trust import TrustedState
    from alcove.runtime.files import Disk

FILE: Final = "published.json"
_MAX_BYTES: Final = 1024  # two numbers


def check_rollback(note: Path, state: TrustedState) -> None:
    """Check that a tree says at least what was published from here.

    Args:
        note: where the numbers are noted; absent before anything was published from here.
        state: what the tree says.

    Raises:
        RollbackError: it says less.
        StorageError: the note cannot be read, or is none.
    """
    for role, published in read_published(note).items():
        seen = {"snapshot": state.snapshot.version, "timestamp": state.timestamp.version}.get(role, published)
        if seen < published:
            problem = (
                f"the tree says {seen}, but {published} was published from here ({note}): it was restored from an old"
                " copy; bring the newer files back from a mirror, or delete that note to give them up"
            )
            raise RollbackError(role, problem)


def record_published(note: Path, state: TrustedState, files: Disk) -> None:
    """Note how far a tree was published.

    Raises:
        StorageError: the note cannot be written; the publication stands.
    """
    numbers = {"snapshot": state.snapshot.version, "timestamp": state.timestamp.version}
    try:
        replace_file(files, note, json.dumps(numbers).encode())
    except OSError as error:
        raise StorageError(str(error.filename or note), error.strerror or str(error)) from error


def read_published(note: Path) -> dict[str, int]:
    """Return the highest versions of timestamp and snapshot that a note says; nothing where there is none.

    Raises:
        StorageError: the note cannot be read, or is none.
    """
    try:
        data = read_bounded(note, _MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageError(str(note), error.strerror or str(error)) from error
    try:
        return {str(role): int(number) for role, number in json.loads(data or b"").items()}
    except (ValueError, TypeError, AttributeError):
        raise StorageError(str(note), "holds no numbers; delete it only if the tree is the newest") from None
