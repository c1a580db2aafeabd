"""A mistake in arguments is refused before a command loads what it would need: gRPC, numpy, the tree, torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform.cli.terminal import COMMANDS

HEAVY = ("cryptography", "google", "grpc", "numpy", "scipy", "sqlalchemy", "torch", "tuf")

MISTAKES = f"""
import contextlib, io, sys
from alcove.platform.cli.entry import main
for line in sys.argv[1:]:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(line.split())
    assert code == 2, (line, code, said.getvalue())
    assert said.getvalue().startswith("alcove: "), said.getvalue()
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    assert not loaded, (line, loaded)
"""


def make_mistakes(folder: Path, *lines: str) -> None:
    """Make mistakes one after the other in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", MISTAKES, *lines], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_unknown_option_of_any_command_loads_nothing_heavy(tmp_path: Path) -> None:
    """All commands but an aggregator's, which is a server."""
    names = [name for name in sorted(COMMANDS) if not name.startswith("aggregator ")]
    assert len(names) > 80
    make_mistakes(tmp_path, *(f"{name} --no-such-option" for name in names))


@pytest.mark.parametrize(
    "line",
    [
        "feature run language_id --input absent.txt",
        "model export absent.py:Model --out a.alc",
        "model import absent --out a.alc",
        "model push absent.alc --feature polite --version 1.0.0 --team text --key absent.pem",
        "rollout create --app reader --feature polite --version 1.0.0 --plan absent.json",
    ],
)
def test_absent_file_is_refused_before_anything_heavy_is_loaded(line: str, tmp_path: Path) -> None:
    """By name, with the code of wrong use."""
    make_mistakes(tmp_path, line)
