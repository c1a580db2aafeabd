"""Keeps installed versions, and which one answers.

    data_dir/
      alcove.folder                             says that the folder is ours; see `owned.py`
      identity, identity.lock                   the installation's secret; see `identity.py`
      lock                                      held by the process that changes what is below
      freshness.json, freshness.lock            when the server was last heard; see `freshness.py`
      state.json                                which version is current and previous, per feature
      metadata/                                 the signed tree, as far as it was read
      downloads/<sha256>.part                   a program on its way
      staging/<manifest sha256>/                a version being put together
      versions/<feature>/<manifest sha256>/     an installed version: manifest.json, program.alc; read-only
      reports/                                  ledger, outbox, history of answers
      tries/                                    which versions crashed or answered here; see `load_attempts.py`

    download ─▶ downloads/ ─verify─▶ staging/ ─sync─▶ rename ─▶ versions/ ─state.json replaced─▶ current
                                                                             current ─▶ previous ─▶ removed
    halted, damaged, or crashed three times:   current ─▶ previous ─▶ baseline (in the app: there is always an answer)

Invariants:
  I1  A folder under versions/ is whole, verified and on the disk: it came there by one rename after the syncs.
  I2  Files under versions/ are read-only and never written again; a version is removed only when no slot names it.
  I3  state.json is the old or the new one; it names a version only after I1 holds for it.
  I4  What is under staging/, or ends in .partial, is nobody's: the holder of the lock may remove it.
  I5  downloads/ are trusted for nothing: their bytes are hashed again before they count.
  I6  Only the holder of the lock changes anything here, reports/, tries/ and identity aside; readers need no lock.
  I7  Nothing is removed, or written, through a link: a part of the folder that is one is refused.
"""

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from alcove.registry.limits import MANIFEST_MAX_BYTES
from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.limits import MAX_STATE_BYTES
from alcove.sdk.load_attempts import AttemptLog
from alcove.sdk.owned import check_links, claim_folder
from alcove.sdk.state import State, state_from_bytes, state_to_bytes
from alcove.sdk.storage import PARTIAL, READ_ONLY, FileLock, Files

MANIFEST: Final = "manifest.json"
PROGRAM: Final = "program.alc"


class SlotStore:
    """The slots of one device.

    Attributes:
        folder: the app's data folder.
        attempts: which versions crashed or answered here.

    Args:
        folder: the app's data folder; made when absent.
        files: the disk.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self.folder = folder
        self._files = files
        self._lock = FileLock(folder / "lock")
        self._downloads = folder / "downloads"
        self._staging = folder / "staging"
        self._versions = folder / "versions"
        self._own_folders = (self._downloads, self._staging, self._versions, folder / "reports")
        self.attempts = AttemptLog(folder / "tries", files)

    @property
    def metadata_folder(self) -> Path:
        """Where the signed tree is kept."""
        return self.folder / "metadata"

    @property
    def identity_path(self) -> Path:
        """Where the secret is kept."""
        return self.folder / "identity"

    def prepare(self) -> None:
        """Make the folders and, unless another process is at work, remove what a crash left (I4).

        Raises:
            ForeignFolderError: it holds something that is not ours (`owned.py`); nothing was touched.
            DeviceStorageError: a folder could not be made.
        """
        self._make_folders()
        with self._lock.hold_if_free() as is_held:
            if is_held:
                with contextlib.suppress(DeviceStorageError):
                    self._remove_leftovers()

    def _make_folders(self) -> None:
        claim_folder(self.folder, self._files)
        for folder in self._own_folders:
            self._files.make_folder(folder)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock of this folder (I6); one that was removed while the app ran is made again.

        Raises:
            ForeignFolderError: a part of the folder is a link by now (I7), or its place holds something else.
            DeviceStorageError: the lock could not be made.
        """
        if not all(folder.is_dir() for folder in self._own_folders):
            self._make_folders()
        with self._lock.hold():
            check_links(self.folder)
            yield

    def read_state(self) -> State:
        """Return what is on the disk; the empty state if there is none or it is damaged."""
        try:
            data = self._files.read(self.folder / "state.json", MAX_STATE_BYTES)
            return State() if data is None else state_from_bytes(data)
        except (DeviceStorageError, ValueError):
            return State()

    def write_state(self, state: State) -> None:
        """Replace the state (I3).

        Raises:
            DeviceStorageError: a step failed; the old or the new state stands.
        """
        self._files.write_whole(self.folder / "state.json", state_to_bytes(state))

    def version_folder(self, feature: str, manifest_sha256: str) -> Path:
        """Return where a version is, or would be, installed."""
        return self._versions / feature / manifest_sha256

    def program_path(self, feature: str, manifest_sha256: str) -> Path:
        """Return where the program of a version is, or would be."""
        return self.version_folder(feature, manifest_sha256) / PROGRAM

    def read_manifest(self, feature: str, manifest_sha256: str) -> bytes | None:
        """Return the manifest of an installed version, None where there is none.

        Raises:
            DeviceStorageError: it cannot be read.
        """
        return self._files.read(self.version_folder(feature, manifest_sha256) / MANIFEST, MANIFEST_MAX_BYTES)

    def is_installed(self, feature: str, manifest_sha256: str) -> bool:
        """Tell whether a version is here (then it is whole, I1)."""
        return self.program_path(feature, manifest_sha256).is_file()

    def installed_programs(self, feature: str) -> list[Path]:
        """Return the programs of all installed versions of a feature, in the order of their folders' names."""
        return sorted(self._versions.glob(f"{feature}/*/{PROGRAM}"))

    def part_path(self, sha256: str) -> Path:
        """Return where the bytes of a program gather while it is downloaded."""
        return self._downloads / f"{sha256}.part"

    def install(self, feature: str, manifest_sha256: str, manifest: bytes, part: Path) -> None:
        """Make a verified download an installed version (I1, I2).

        Args:
            feature: its feature.
            manifest_sha256: digest of `manifest`.
            manifest: bytes of the manifest.
            part: the verified, whole program; moved.

        Raises:
            DeviceStorageError: a step failed; nothing is installed.
        """
        staged = self._staging / manifest_sha256
        target = self.version_folder(feature, manifest_sha256)
        self._files.remove(staged)
        self._files.make_folder(staged)
        self._files.write_whole(staged / MANIFEST, manifest, READ_ONLY)
        self._files.set_mode(part, READ_ONLY)
        self._files.sync_file(part)
        self._files.rename(part, staged / PROGRAM)
        self._files.sync_folder(staged)
        if target.parent.is_symlink():
            self._files.remove(target.parent)
        self._files.make_folder(target.parent)
        self._files.sync_folder(self._versions)
        self._files.remove(target)
        self._files.rename(staged, target)
        self._files.sync_folder(target.parent)

    def discard(self, feature: str, manifest_sha256: str) -> None:
        """Remove an installed version that turned out damaged; the name goes first, so it is never half there (I1).

        Raises:
            DeviceStorageError: a step failed.
        """
        folder = self.version_folder(feature, manifest_sha256)
        if folder.exists():
            doomed = self._staging / manifest_sha256
            self._files.remove(doomed)
            self._files.rename(folder, doomed)
            self._files.remove(doomed)

    def keep_only(self, wanted: frozenset[tuple[str, str]]) -> None:
        """Remove every started download, and every installed version that is not named.

        Args:
            wanted: (feature, manifest digest) of what stays, the slots among them.

        Raises:
            DeviceStorageError: a step failed; what is left goes next time.
        """
        self.keep_versions(wanted)
        for part in sorted(self._downloads.iterdir()):
            self._files.remove(part)
        self.attempts.keep_only(frozenset(digest for _, digest in wanted))

    def keep_versions(self, wanted: frozenset[tuple[str, str]], unsettled: Collection[str] = ()) -> None:
        """Remove every installed version that is not named.

        Args:
            wanted: (feature, manifest digest) of what stays, the slots among them.
            unsettled: features of which it is not known now what they are to have: all of theirs stay.

        Raises:
            DeviceStorageError: a step failed; what is left goes next time.
        """
        for feature, digest in self._list_installed():
            if (feature, digest) not in wanted and feature not in unsettled:
                self.discard(feature, digest)

    def _list_installed(self) -> Iterator[tuple[str, str]]:
        for feature in sorted(self._versions.iterdir()):
            if feature.is_symlink():
                self._files.remove(feature)
                continue
            for version in sorted(feature.iterdir()):
                yield feature.name, version.name

    def _remove_leftovers(self) -> None:
        check_links(self.folder)
        for path in [*self._staging.iterdir(), *self.folder.glob(f"*{PARTIAL}")]:
            self._files.remove(path)
