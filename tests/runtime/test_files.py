"""Programs are read from files, mapped where these are read-only; what is no regular file is refused."""

import os
from pathlib import Path

import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.testing import samples

PROGRAM = samples()["classifier_int8"]
TEXT = "Wo ist der Bahnhof?"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A read-only file of ours, as slots hold them."""
    path = tmp_path / "installed.alc"
    path.write_bytes(PROGRAM)
    path.chmod(0o444)
    return path


def test_a_read_only_file_is_mapped_and_a_writable_one_is_read(installed: Path, tmp_path: Path) -> None:
    """A writer of the file could change what was checked, so its bytes are copied at once."""
    expected = [out.tolist() for out in load(PROGRAM)(TEXT)]
    assert load(installed).is_mapped
    assert not load(PROGRAM).is_mapped
    for mode in (0o644, 0o600, 0o464, 0o446, 0o200 | 0o444):
        path = tmp_path / f"{mode:o}.alc"
        path.write_bytes(PROGRAM)
        path.chmod(mode)
        model = load(path)
        assert not model.is_mapped, oct(mode)
        path.write_bytes(b"")
        assert [out.tolist() for out in model(TEXT)] == expected
        model.verify_weights()
    for argument in (installed, str(installed)):
        assert [out.tolist() for out in load(argument)(TEXT)] == expected


def test_a_mapped_program_outlives_its_name(installed: Path, tmp_path: Path) -> None:
    """Renamed over, or removed: the model in use stays, a new load sees the new file."""
    model = load(installed)
    expected = [out.tolist() for out in model(TEXT)]
    newer = tmp_path / "newer.alc"
    newer.write_bytes(samples()["layers"])
    newer.chmod(0o444)
    newer.replace(installed)
    assert [out.tolist() for out in model(TEXT)] == expected
    assert load(installed).digest != model.digest
    installed.unlink()
    model.verify_weights()
    assert [out.tolist() for out in model.session()(TEXT)] == expected


def test_a_session_keeps_the_mapping(installed: Path) -> None:
    """The model object may be gone."""
    session = load(installed).session()
    assert len(session(TEXT)) == 2


def test_digest_is_of_the_whole_file(installed: Path) -> None:
    """Mapped or copied: SHA-256 of all bytes."""
    assert load(installed).digest == load(PROGRAM).digest


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes (no waiting), a device, a socket-like name."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    for path in (tmp_path, fifo, Path("/dev/null"), Path("/dev/zero")):
        with pytest.raises(ProgramError) as caught:
            load(path)
        assert caught.value.code == "file_not_regular"
        assert str(path) in str(caught.value)


def test_a_missing_or_forbidden_file_is_an_os_error(tmp_path: Path) -> None:
    """With the system's own error, so that callers can tell them apart."""
    with pytest.raises(FileNotFoundError, match=r"absent\.alc"):
        load(tmp_path / "absent.alc")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="loop"):
        load(loop)
    with pytest.raises(NotADirectoryError):
        load(Path(__file__) / "x")


def test_paths_of_any_bytes_work_and_are_quoted(tmp_path: Path) -> None:
    """Not UTF-8, long, many bytes a character: opened, or named in an error, never another error."""
    odd = os.fsencode(tmp_path) + b"/\xff\xfe.alc"
    Path(os.fsdecode(odd)).write_bytes(PROGRAM)
    assert len(load(Path(os.fsdecode(odd)))(TEXT)) == 2
    for name in ("é" * 100, "x" + "é" * 100, "😀" * 60, "\udcff" * 200):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / name)
    with pytest.raises(ValueError, match="null"):
        load(f"{tmp_path}/a\0b")


def test_small_files_are_refused(tmp_path: Path) -> None:
    """Empty, and shorter than a header, read or mapped."""
    path = tmp_path / "small.alc"
    for size in (0, 1, 63):
        for mode in (0o644, 0o444):
            path.unlink(missing_ok=True)
            path.write_bytes(PROGRAM[:size])
            path.chmod(mode)
            with pytest.raises(ProgramError) as caught:
                load(path)
            assert caught.value.code == "file_too_small"
