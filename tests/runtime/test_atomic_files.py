"""Files are synced before they are renamed into place, and their folder after it; reads stop at a bound."""

import os
from pathlib import Path

import pytest
from alcove.runtime.files import DISK, read_bounded, replace_file


def test_bytes_are_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut leaves is the old file or the new one."""
    events: list[tuple[str, str]] = []
    rename = Path.replace

    def record_sync(descriptor: int) -> None:
        events.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))

    def record_rename(source: Path, target: Path) -> Path:
        events.append(("rename", target.name))
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_rename)
    replace_file(DISK, tmp_path / "folder" / "file", b"new")
    # The folder is new: its own name is synced in the folder above it, before anything is put into it.
    assert events == [("sync", tmp_path.name), ("sync", ".file.partial"), ("rename", "file"), ("sync", "folder")]
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["file"]


def test_reading_stops_at_the_bound(tmp_path: Path) -> None:
    """A file of exactly the bound is read, one byte more is not."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    assert read_bounded(path, 4) is None
