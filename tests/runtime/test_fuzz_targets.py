"""`make fuzz` begins with valid programs, reports libFuzzer's figures, and fails when a parser breaks."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from alcove.runtime import _native

SAID = """INFO: seed corpus
#2	INITED cov: 11 ft: 12 corp: 1/1b exec/s: 0 rss: 30Mb
#24814	DONE   cov: 2088 ft: 5380 corp: 362/5603Kb lim: 49152 exec/s: 3544 rss: 403Mb
Done 24814 runs in 7 second(s)
stat::number_of_executed_units: 24814
"""


@pytest.fixture
def robustness(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/robustness.py, keeping findings and its record in a temporary folder."""
    monkeypatch.syspath_prepend(str(repository))
    module = import_module("benchmarks.robustness")
    monkeypatch.setattr(module.fuzz_parsers, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(module.fuzz_parsers, "BUILT", tmp_path / "built")
    monkeypatch.setattr(module, "RECORD", tmp_path / "record.json")
    return module


def test_figures_of_a_run_are_those_that_libfuzzer_printed_last(robustness: ModuleType) -> None:
    """Inputs, seconds, corpus, branches."""
    outcome = robustness.fuzz_native.parse("open", SAID, 99.0, ())
    assert (outcome.inputs, outcome.seconds, outcome.corpus, outcome.coverage) == (24814, 7, 362, 2088)


def test_the_verifier_begins_with_a_small_valid_program_of_each_operator(robustness: ModuleType) -> None:
    """They open; those whose weights need no page of their own have at most 2 KB."""
    seeds = robustness.fuzz_native.seeds("open")
    assert {name.rpartition("-")[0] for name in seeds} >= {op.name for op in _native.manifest()}
    for name, program in seeds.items():
        _native.open_bytes(program)
        assert len(program) > 16384 or len(program) < 2048 or "-" not in name, name


def write_driver(folder: Path, script: str) -> Path:
    """An executable that plays the driver."""
    path = folder / "driver"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('for each; do echo "$each: ok"; done', (4, ())),
        ('echo "$1: ok"; kill -SEGV $$', (1, ("driver-second.alc",))),
        ('echo "$1: ok"; exec sleep 600', (1, ("driver-second.alc",))),
        ('for each; do echo "$each: ok"; done; exit 23', (2, ("kept",))),
    ],
    ids=["good", "crash", "hang", "leak"],
)
def test_a_driver_that_ends_badly_leaves_the_program_that_was_to_blame(
    robustness: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    found: tuple[int, tuple[str, ...]],
) -> None:
    """Each file runs on each instruction set; what did it lies in the folder, or the folder where no file did."""
    monkeypatch.setattr(robustness.fuzz_native, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(robustness.fuzz_native, "HANG_S", 0.5)
    files = [tmp_path / "first", tmp_path / "second"]
    for file in files:
        file.write_bytes(b"a program")
    outcome = robustness.fuzz_native.replay(write_driver(tmp_path, script), ("scalar", "avx2"), files, 60)
    assert (outcome.inputs, tuple(path.name for path in outcome.findings)) == found


def test_changed_documents_are_read_or_refused(robustness: ModuleType) -> None:
    """What `make fuzz` does for minutes, for a second; branches guide it."""
    outcome = robustness.fuzz_parsers.fuzz(1.0, 7)
    assert outcome.findings == ()
    assert outcome.inputs > 0
    assert outcome.coverage > 100


BROKEN = """
from benchmarks.documents import Kind
def kinds(_):
    return (Kind("text", lambda data: data.decode("ascii"), b"all is well"),)
"""


def test_a_parser_that_lets_an_error_escape_ends_the_run_with_a_file_and_exit_code_1(
    robustness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document stays; the record counts it."""
    (tmp_path / "broken.py").write_text(BROKEN, encoding="ascii")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(robustness.fuzz_parsers, "KINDS", "broken:kinds")
    monkeypatch.setattr(sys, "argv", ["robustness", "--target", "parsers", "--seconds", "20", "--record"])
    with pytest.raises(SystemExit) as caught:
        robustness.main()
    assert caught.value.code == 1
    (kept,) = (tmp_path / "kept").iterdir()
    assert not kept.read_bytes().isascii()
    assert "| 1 |" in robustness.table()
