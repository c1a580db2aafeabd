"""Keeps whether the user of a device lets it report; it does unless the user said no.

    data_dir/reports/off     there: nothing is recorded and nothing is sent, in any process, until it is gone

C1  No survives restarts, updates of the app, and full disks: what cannot be written holds for this process at least.
C2  Every outcome asks before it is recorded and every report before it is sent; what was kept until the no is removed.
"""

from pathlib import Path

from alcove.sdk.storage import Files

__all__ = ["Consent"]


class Consent:
    """What the user of one device said.

    Args:
        folder: of the reports; it exists.
        files: the disk.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self._path = folder / "off"
        self._files = files
        self._is_refused_here = False
        self._is_overridden = False

    @property
    def is_given(self) -> bool:
        """Tell whether the device may record and report."""
        return not self._is_overridden and not self._is_refused_here and not self._path.exists()

    def refuse_here(self) -> None:
        """Let this process record and report nothing; what the user said, and other processes, are not touched."""
        self._is_overridden = True

    def give(self) -> None:
        """Let the device report from now on.

        Raises:
            DeviceStorageError: the disk failed; it does not report.
        """
        self._files.remove(self._path)
        self._is_refused_here = False

    def refuse(self) -> None:
        """Let the device record and report nothing from now on.

        Raises:
            DeviceStorageError: the disk failed; it holds for this process, and not for the next.
        """
        self._is_refused_here = True
        self._files.write_whole(self._path, b"")
