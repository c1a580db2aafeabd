"""The fuzzer notices drivers that crash, hang or end badly, and keeps the input that was to blame."""

from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest


@pytest.fixture
def fuzz(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/fuzz.py, keeping what it finds in a temporary folder and waiting a moment only."""
    monkeypatch.syspath_prepend(str(repository))
    module = import_module("benchmarks.fuzz")
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(module, "HANG_S", 0.2)
    return module


def child(folder: Path, script: str) -> Path:
    """An executable that plays the driver."""
    path = folder / "driver"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("why", "script"),
    [
        ("crash", "head -c 4 >/dev/null; kill -SEGV $$"),
        ("crash", "echo said before it died >&2; exit 0"),
        ("crash", "printf half; head -c 8 >/dev/null"),
        ("hang", "cat >&2; :"),
    ],
)
def test_a_broken_driver_ends_the_run_and_its_input_is_kept(
    fuzz: ModuleType, tmp_path: Path, why: str, script: str
) -> None:
    """Non-zero exit, and the bytes that did it in a file named after what happened."""
    driver = fuzz.Driver(child(tmp_path, script), "scalar")
    with pytest.raises(SystemExit) as caught:
        fuzz.fuzz([driver], SimpleNamespace(next=lambda: b"the program"), 5)
    assert caught.value.code != 0
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.read_bytes() == b"the program"
    assert kept.name.startswith(why)


def test_a_driver_that_ends_badly_is_noticed(fuzz: ModuleType, tmp_path: Path) -> None:
    """Leaks are reported at the end, when no input is to blame."""
    driver = fuzz.Driver(child(tmp_path, "cat >/dev/null; exit 23"), "scalar")
    with pytest.raises(SystemExit) as caught:
        fuzz.fuzz([driver], SimpleNamespace(next=lambda: b"x"), 0)
    assert "crash after 0 inputs" in str(caught.value.code)


def test_a_good_driver_is_counted_by_code(fuzz: ModuleType, tmp_path: Path) -> None:
    """One line an input."""
    answering = child(tmp_path, "while head -c 5 | grep -q .; do echo ok; done")
    driver = fuzz.Driver(answering, "scalar")
    assert driver.judge(b"x") == "ok"
    driver.close()
    assert fuzz.fuzz([], SimpleNamespace(next=lambda: b"x"), 0) == Counter()
