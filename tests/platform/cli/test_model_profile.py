"""`alcove model profile` and `inspect` as they are typed: tables for people, JSON for programs, traces for Perfetto."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.platform.cli.terminal import Shop, alcove

TEXT = "Wo ist der Bahnhof?"


def test_a_profile_is_read_by_people_and_by_programs(classifier: Path, tmp_path: Path) -> None:
    """Operators by falling time, totals, the machine's limit; the same as JSON; a trace beside."""
    trace = tmp_path / "trace.json"
    arguments = ("model", "profile", classifier, "--input", TEXT, "--runs", "5")
    said = alcove(*arguments, "--trace", trace)
    assert (said.code, said.err) == (0, "")
    for words in ("ngram_hash", "of limit", "outside operators", "GFLOP/s f32", "GOP/s int8", "5 runs, given inputs"):
        assert words in said.out
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X", "C"}
    facts = alcove(*arguments, "--json").json
    times = [row["time_us"] for row in facts["rows"]]
    assert times == sorted(times, reverse=True)
    assert sum(times) == pytest.approx(facts["totals"]["ops_us"])
    assert sorted(row["index"] for row in facts["rows"]) == list(range(len(times)))
    assert all(re.fullmatch(r"[\w_]+\.py:\d+", row["source"]) for row in facts["rows"])
    assert facts["machine"]["f32_gflops"] > 0
    assert (facts["runs"], facts["inputs"], facts["by"]) == (5, "given", "op")


def test_rows_are_operators_types_or_modules(programs: tuple[Path, Path]) -> None:
    """Two linears are two rows, one row of a type, and one row for each module that has weights."""
    arguments = ("model", "profile", programs[0], "--runs", "3", "--json")
    by_op, by_type, by_module = (alcove(*arguments, "--by", by).json["rows"] for by in ("op", "type", "module"))
    assert sorted(row["name"] for row in by_op) == ["linear", "linear", "softmax"]
    assert {row["name"]: row["ops"] for row in by_type} == {"linear": 2, "softmax": 1}
    named = {row["name"]: row["ops"] for row in by_module}
    assert {"hidden": 1, "out": 1}.items() <= named.items()
    assert sum(named.values()) == 3
    for rows in (by_type, by_module):
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert sum(row["flops"] for row in rows) == sum(row["flops"] for row in by_op) == 2 * (16 * 8 + 8 * 2)
    for by in ("type", "module"):
        assert alcove("model", "profile", programs[0], "--runs", "3", "--by", by).code == 0


def test_only_the_slowest_are_shown_and_the_rest_is_summed(programs: tuple[Path, Path]) -> None:
    """`--top 1` of three leaves two more; `--top 0` leaves none out."""
    assert "2 more" in alcove("model", "profile", programs[0], "--runs", "3", "--top", "1").out
    assert " more" not in alcove("model", "profile", programs[0], "--runs", "3", "--top", "0").out


def test_an_array_comes_from_a_file(programs: tuple[Path, Path], tmp_path: Path) -> None:
    """`@FILE.npy`, for `run` too; what holds no array, or another shape, is reported."""
    np.save(tmp_path / "x.npy", np.full((1, 16), 0.5, np.float32))
    from_file = alcove("model", "run", programs[0], f"@{tmp_path}/x.npy", "--json").json
    assert from_file == alcove("model", "run", programs[0], json.dumps([[0.5] * 16]), "--json").json
    said = alcove("model", "profile", programs[0], "--input", f"@{tmp_path}/x.npy", "--runs", "2")
    assert (said.code, said.err) == (0, "")
    (tmp_path / "none.npy").write_bytes(b"none")
    said = alcove("model", "profile", programs[0], "--input", f"@{tmp_path}/none.npy")
    assert said.code == 2
    assert "holds no array" in said.err
    np.save(tmp_path / "y.npy", np.zeros((1, 3), np.float32))
    said = alcove("model", "profile", programs[0], "--input", f"@{tmp_path}/y.npy")
    assert said.code == 1
    assert "dimension 1 is 3, expected 16" in said.err


def test_wrong_use_is_reported_before_anything_is_measured(classifier: Path, tmp_path: Path) -> None:
    """Folders that are not there, inputs that are not taken, files that are no program."""
    for options, code, words in (
        (("--trace", tmp_path / "none" / "t.json"), 2, "is no folder"),
        (("--input", "a", "--input", "b"), 2, "takes 1 inputs"),
        (("--by", "line"), 2, "'line' is not one of"),
    ):
        said = alcove("model", "profile", classifier, *options)
        assert (said.code, said.out) == (code, "")
        assert words in said.err
    (tmp_path / "x.alc").write_bytes(b"no program")
    for command in ("profile", "inspect"):
        said = alcove("model", command, tmp_path / "x.alc")
        assert said.code == 1
        assert "file_too_small" in said.err or "shorter" in said.err
    said = alcove("model", "inspect", classifier, "--input", TEXT)
    assert said.code == 2
    assert "inputs are for --profile" in said.err


def test_inspect_tells_signature_sizes_certificate_and_provenance(programs: tuple[Path, Path]) -> None:
    """What a program is, in words and as JSON: ports, bytes, ceiling, what was certified, whose lines it is made of."""
    facts = alcove("model", "inspect", programs[0], "--json").json
    assert facts["size_bytes"] == programs[0].stat().st_size
    assert facts["weights_bytes"] == sum(weight["size_bytes"] for weight in facts["weights"]) > 0
    assert facts["arena_bytes"] < facts["memory_ceiling_bytes"]
    assert facts["certificate"]["samples"] == 3
    assert facts["certificate"]["licence"] == "procedural"
    assert facts["provenance"] == {"model_files": ["polite_model.py"], "package": None}
    assert [op["parts"] for op in facts["ops"]] == [["linear", "clamp"], ["linear"], ["softmax"]]
    said = alcove("model", "inspect", programs[0]).out
    for words in (facts["digest"], "a session takes at most", "3 samples (procedural)", "polite_model.py", "hidden.w"):
        assert words in said
    timed = alcove("model", "inspect", programs[0], "--profile", "--json").json
    assert all(op["time_us"] >= 0 for op in timed["ops"])
    assert timed["profile"]["call_us"] > 0
    assert "µs" in alcove("model", "inspect", programs[0], "--profile").out


def test_inspect_names_the_package_that_a_program_lies_in(
    shop: Shop, programs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Feature, version and lineage of the manifest that names these very bytes; another program there has none."""
    from alcove.registry.manifest import Lineage
    from alcove.registry.package import create_package, write_package

    lineage = Lineage(training_run="run-7", data="own text")
    package = create_package(
        feature="polite",
        team="writing",
        version="1.0.0",
        programs={"f32": programs[0].read_bytes()},
        card="# Polite\n",
        lineage=lineage,
    )
    write_package(package, tmp_path / "package")
    inside = tmp_path / "package" / "programs" / "f32.alc"
    found = alcove("model", "inspect", inside, "--json").json["provenance"]["package"]
    assert (found["feature"], found["version"], found["variant"]) == ("polite", "1.0.0", "f32")
    assert found["lineage"]["training_run"] == "run-7"
    assert "package: polite 1.0.0" in alcove("model", "inspect", inside).out
    inside.unlink()
    inside.write_bytes(programs[1].read_bytes())
    assert alcove("model", "inspect", inside, "--json").json["provenance"]["package"] is None
