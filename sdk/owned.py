"""Tells whether a folder is the SDK's own before anything in it is changed.

    absent or empty ─▶ marked ─▶ used          marked ─▶ used
    what an SDK from before the mark left ─▶ marked ─▶ used
    anything else, a part of ours that is a link ─▶ `ForeignFolderError`; nothing was touched

An SDK removes what a crash left in its folder, and versions that nothing names.  Given a folder of somebody else's, or
one that leads there by a link, it would remove that.
"""

import contextlib
from pathlib import Path
from typing import Final

from alcove.sdk.errors import DeviceStorageError, ForeignFolderError
from alcove.sdk.limits import MAX_STATE_BYTES
from alcove.sdk.state import state_from_bytes
from alcove.sdk.storage import PARTIAL, Files

MARK: Final = "alcove.folder"
"""Name of the file that says whose the folder is."""

_TEXT: Final = (
    b"This folder belongs to alcove, which removes what it does not need from it.  Keep nothing of yours here.\n"
)

PARTS: Final = ("downloads", "metadata", "reports", "staging", "tries", "versions")
"""Folders of ours."""

WITHIN: Final = ("metadata/documents", "metadata/manifests", "metadata/tuf", "metadata/tuf/root_history")
"""Folders within them that are written to without a look; others are removed where they are links."""

_FILES: Final = frozenset({"freshness.json", "freshness.lock", "identity", "identity.lock", "lock", "state.json"})
_BEFORE: Final = frozenset({"downloads", "lock", "staging", "versions"})
"""What an SDK from before the mark made at its first start, before anything else."""


def claim_folder(folder: Path, files: Files) -> None:
    """Make `folder` ours, or find that it is.

    Safe for several processes that start at a time.

    Raises:
        ForeignFolderError: it holds something that is not ours, or a part of ours is a link; nothing was changed.
        DeviceStorageError: it cannot be made, read or marked.
    """
    files.make_folder(folder)
    try:
        names = frozenset(path.name for path in folder.iterdir())
    except OSError as error:
        raise DeviceStorageError(step="read", path=folder.name, reason=error.strerror or str(error)) from error
    check_links(folder)
    if MARK in names:
        if not (folder / MARK).is_file() or (folder / MARK).is_symlink():
            raise ForeignFolderError(folder=str(folder), found=(MARK,))
        return
    if names and not _is_of_before(folder, files, names):
        if (folder / MARK).is_file():
            return  # another process has marked it, and made more, while it was listed
        raise ForeignFolderError(folder=str(folder), found=sorted(names))
    # Another process may do so now: then the text is there twice, and as true.
    files.append(folder / MARK, _TEXT)
    files.sync_file(folder / MARK)
    files.sync_folder(folder)


def check_links(folder: Path) -> None:
    """Check that no part of ours leads elsewhere: what is removed there would be somebody else's.

    Raises:
        ForeignFolderError: one is a link.
    """
    links = [name for name in PARTS + WITHIN if (folder / name).is_symlink()]
    if links:
        raise ForeignFolderError(folder=str(folder), found=links)


def _is_of_before(folder: Path, files: Files, names: frozenset[str]) -> bool:
    """Tell whether a folder without a mark is one of ours all the same: nothing else, and what only we make."""
    ours = all(name in _FILES or name in PARTS or name.endswith(PARTIAL) for name in names)
    folders = all((folder / name).is_dir() for name in names & frozenset(PARTS))
    is_begun = names >= _BEFORE and (folder / "lock").is_file()
    return ours and folders and (is_begun or _holds_state(folder, files))


def _holds_state(folder: Path, files: Files) -> bool:
    with contextlib.suppress(DeviceStorageError, ValueError):
        state_from_bytes(files.read(folder / "state.json", MAX_STATE_BYTES) or b"")
        return True
    return False
