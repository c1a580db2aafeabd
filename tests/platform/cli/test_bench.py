"""`alcove bench`: which rows it prints, which inputs it makes, what it refuses.  No time is judged here."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.features import catalogue
from alcove.platform.cli import synthetic_inputs, timing
from alcove.runtime import InputError, _native, load
from alcove.runtime.format.spec import DType, ExpressionKind
from alcove.runtime.testing import Assembly, samples

from tests.platform.cli.terminal import Said, alcove

QUICK = ("--rounds", 1, "--seconds", 0.001)


def bench(*arguments: object, isa: str = "") -> Said:
    """Run the command with kernels of this instruction set, or of the best."""
    return alcove("bench", *arguments, ALCOVE_ISA=isa)


def rows_of(folder: Path, *arguments: object) -> list[dict[str, Any]]:
    """What `alcove bench` writes as JSON."""
    code, _, err = bench(*arguments, *QUICK, "--json", folder / "rows.json")
    assert code == 0, err
    return list(json.loads((folder / "rows.json").read_text()))


def sample(folder: Path, name: str) -> Path:
    """A sample program's file."""
    path = folder / f"{name}.alc"
    path.write_bytes(samples()[name])
    return path


def test_without_programs_it_times_those_that_come_with_alcove(tmp_path: Path) -> None:
    """And the smallest call there is; every figure is there and sane."""
    rows = rows_of(tmp_path)
    folders = sorted(feature.default_program.parent for feature in catalogue().values())
    shipped = [path.stem for folder in folders for path in sorted(folder.glob("*.alc"))]
    assert {"bandwidth-1.2.0", "language_id-1.0.0"} <= set(shipped)
    # A program whose sizes vary has a row for each of some sizes.
    assert list(dict.fromkeys(row["program"] for row in rows)) == ["call (x + 1)", *shipped]
    for row in rows:
        assert 0 < row["p50_us"] <= row["p95_us"]
        assert row["cold_us"] > 0
        assert row["isa"] == _native.machine_isas()[-1]
        assert row["allowed_bytes"] == row["program_bytes"] + (4 << 20)
        assert row["memory_bytes"] is None or row["memory_bytes"] >= 0
        assert row["ratio"] == 1


@pytest.mark.thorough
def test_each_size_and_each_instruction_set_is_a_row(tmp_path: Path) -> None:
    """Sizes that vary: least, middle, greatest; `all` is what the machine has; the fastest has the ratio 1."""
    rows = rows_of(tmp_path, sample(tmp_path, "rows"), sample(tmp_path, "layers"), "--isa", "all", "--isa", "scalar")
    isas = _native.machine_isas()
    expected = [("rows.alc", size) for size in ("n=1, m=2", "n=16, m=11", "n=256, m=64")] + [("layers.alc", "")]
    assert [(row["program"], row["size"], row["isa"]) for row in rows] == [
        (*at, isa) for at in expected for isa in isas
    ]
    for name, size in expected:
        assert min(row["ratio"] for row in rows if (row["program"], row["size"]) == (name, size)) == 1


def test_the_table_says_what_a_person_needs(tmp_path: Path) -> None:
    """Columns with units, and on which core."""
    code, out, _ = bench(sample(tmp_path, "layers"), *QUICK)
    assert code == 0
    for word in ("layers.alc", "p50", "p95", "cold load", "memory", "allowed", "program size", "µs", "KiB", "core"):
        assert word in out


@pytest.mark.parametrize("isa", ["sse2", *sorted({"avx2", "avx512"} - set(_native.machine_isas()))])
def test_an_instruction_set_that_is_not_there_is_refused(tmp_path: Path, isa: str) -> None:
    """In a sentence, with exit code 1; the same where the environment names it."""
    path = sample(tmp_path, "layers")
    for code, out, err in (bench(path, *QUICK, "--isa", isa), bench(path, *QUICK, isa=isa)):
        assert (code, out.strip()) == (1, "")
        assert f"ALCOVE_ISA is {isa}" in err
        assert "Traceback" not in err


def test_what_is_no_program_is_refused_by_name(tmp_path: Path) -> None:
    """A missing file, a text, a program cut short: nothing is timed, nothing is written."""
    text, cut = tmp_path / "text.alc", tmp_path / "cut.alc"
    text.write_text("hello " * 100)
    cut.write_bytes(samples()["layers"][:-1])
    for path in (tmp_path / "none.alc", text, cut, tmp_path):
        code, out, err = bench(path, *QUICK, "--json", tmp_path / "rows.json")
        assert (code, out.strip()) == (1, ""), path
        assert str(path) in err
        assert "Traceback" not in err
    assert not (tmp_path / "rows.json").exists()


def test_threads_are_of_every_row(tmp_path: Path) -> None:
    """Two, whether or not there are as many cores; more than a session may have are refused."""
    (row,) = rows_of(tmp_path, sample(tmp_path, "layers"), "--threads", 2)
    assert row["threads"] == 2
    assert row["p50_us"] > 0
    code, _, err = bench(sample(tmp_path, "layers"), "--threads", 17)
    assert code == 2
    assert "--threads" in err


def test_wrong_options_are_named(tmp_path: Path) -> None:
    """A core that is not there, no rounds, no folder for the file."""
    for option, value in (("--core", 10_000), ("--rounds", 0), ("--seconds", 0), ("--json", tmp_path / "no" / "file")):
        code, _, err = bench(sample(tmp_path, "layers"), option, value)
        assert code == 2
        assert option in err


def test_inputs_are_those_of_the_certificate_where_there_is_one() -> None:
    """Else made, and taken by the program: indices no larger than its tables."""
    for name, program in samples().items():
        model = load(program)
        for timed in synthetic_inputs.timed_inputs(program, model):
            assert timed.origin == "made", name
            assert len(timed.inputs) == len(model.inputs)
            model(*timed.inputs)
    data = catalogue()["language_id"].default_program.read_bytes()
    (timed,) = synthetic_inputs.timed_inputs(data, load(data))
    assert timed.origin == "certificate"
    assert isinstance(timed.inputs[0], str)


def test_sizes_that_do_not_go_together_are_left_out() -> None:
    """X is n by n mod 4, of which there is none at the middle size, 4; what remains is timed."""
    build = Assembly()
    n = build.sizes.symbol("n", 1, 17)
    shape = (n, build.sizes.combine(ExpressionKind.MOD, n, 4))
    build.output("y", build.op("cast", [build.input("x", DType.F32, shape)], (DType.I32, shape))[0])
    program = build.program()
    assert [timed.size for timed in synthetic_inputs.timed_inputs(program, load(program))] == ["n=1", "n=17"]


def test_made_numbers_stay_within_the_smallest_table() -> None:
    """4 rows: the ids are 0 and 1, and both occur."""
    program = samples()["caller_ids"]
    (timed,) = synthetic_inputs.timed_inputs(program, load(program))
    for ids in timed.inputs:
        assert isinstance(ids, np.ndarray)
        assert set(ids.tolist()) <= {0, 1, 2, 3}


def test_a_program_that_no_inputs_fit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the runtime's own sentence."""
    program = samples()["caller_ids"]
    monkeypatch.setattr(synthetic_inputs, "BOUNDS", (2**31 - 1,))
    with pytest.raises(InputError, match="allowed are 0 to 3"):
        synthetic_inputs.timed_inputs(program, load(program))


def test_a_process_that_dies_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its last words."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    code, _, err = bench(sample(tmp_path, "layers"), *QUICK)
    assert code == 1
    assert "layers.alc was not timed: its process ended with 1: it said nothing" in err


def test_memory_is_what_a_program_takes_beyond_the_process(tmp_path: Path) -> None:
    """Weights that are read are counted: a megabyte and no more than the promise, where the system tells."""
    build = Assembly()
    weights = build.constant("weights", np.ones((512, 512), np.float32))
    x = build.input("x", DType.F32, (512, 512))
    add = _native.functions("binary")["add"]
    build.output("y", build.op("binary", [x, weights], (DType.F32, (512, 512)), attributes=(add,))[0])
    path = tmp_path / "big.alc"
    path.write_bytes(build.program())
    (row,) = rows_of(tmp_path, path)
    if timing.resident_bytes("VmHWM") is None:
        assert row["memory_bytes"] is None
    else:
        assert row["memory_bytes"] >= 1 << 20
