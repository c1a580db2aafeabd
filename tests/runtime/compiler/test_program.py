"""Saving a program is atomic: the whole new file, or the old one; reading one needs no torch."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alcove.runtime.compiler import export
from alcove.runtime.program import Program
from torch import nn


def test_saved_program_is_what_bytes_says(tmp_path: Path, text_model: nn.Module) -> None:
    """Digest, spec and file agree; the file is readable by all and nothing else is left in the folder."""
    program = export(text_model, ("a",))
    path = program.save(tmp_path / "model.alc")
    assert path.read_bytes() == bytes(program)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.alc"]
    again = Program(path.read_bytes())
    assert (again.spec, again.digest, again.explain()) == (program.spec, program.digest, "")
    assert program.digest[:12] in repr(program)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failing_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whichever step fails: the old content under the name, no temporary file."""
    path = tmp_path / "model.alc"
    path.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace" if call == "replace" else f"os.{call}", fail)
    with pytest.raises(OSError, match="No space"):
        Program(b"new").save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.alc"]  # noqa: PTH208 - as the system lists it


def test_program_from_any_bytes_needs_no_torch(text_model: nn.Module, tmp_path: Path) -> None:
    """Reading what a program says is for tools on machines without torch."""
    path = export(text_model, ("a",)).save(tmp_path / "m.alc")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from alcove.runtime.compiler import load_state\nfrom alcove.runtime.program import Program\n"
        f"print(sorted(load_state(Program(open({str(path)!r}, 'rb').read()).spec)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "hidden.weight" in done.stdout
    failed = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['torch'] = None\nfrom alcove.runtime import export"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "alcove-platform[export]" in failed.stderr
