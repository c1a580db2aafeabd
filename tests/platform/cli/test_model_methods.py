"""`alcove model run`, `inspect` and `profile` take the name of a method."""

import json
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.cli.model import make_app
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from alcove.runtime.profile import Machine, profile_program
from alcove.runtime.testing import Assembly
from alcove.runtime.testing_methods import prefill_and_decode
from typer.testing import CliRunner

ROW = ["[2]", "[[1.0, 0.0, 0.0]]"]


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program whose "prefill" writes four rows of a cache of six, and "decode" one."""
    path = tmp_path / "methods.alc"
    path.write_bytes(write_program(prefill_and_decode()))
    return str(path)


def test_a_method_runs_by_its_name_and_another_is_refused_by_it(program: str) -> None:
    """Decode alone gives scores; whoever has no such method is told those there are."""
    run = CliRunner().invoke(make_app(), ["run", program, *ROW, "--method", "decode", "--json"])
    assert set(json.loads(run.output)) == {"seen", "count", "scores"}
    run = CliRunner().invoke(make_app(), ["run", program, *ROW, "--method", "forward"])
    assert run.exit_code == 2
    assert "it has prefill, decode" in " ".join(run.output.replace("│", "").split())


def test_inspect_tells_the_methods_and_shows_one(program: str) -> None:
    """The first, or the one that is named."""
    found = {
        name: json.loads(CliRunner().invoke(make_app(), ["inspect", program, "--json", *words]).output)
        for name, words in {"prefill": [], "decode": ["--method", "decode"]}.items()
    }
    assert [(facts["method"], facts["methods"]) for facts in found.values()] == [
        (name, ["prefill", "decode"]) for name in found
    ]
    assert len(found["decode"]["ops"]) == len(found["prefill"]["ops"]) + 1


def test_a_method_is_profiled_by_its_name(program: str) -> None:
    """Decode has two products, prefill one."""
    words = ["--method", "decode", "--input", ROW[0], "--input", ROW[1], "--runs", "3", "--json"]
    facts = json.loads(CliRunner().invoke(make_app(), ["profile", program, *words]).stdout)
    assert [row["name"] for row in facts["rows"]].count("linear") == 2


def test_a_profile_of_a_full_cache_resets_the_session() -> None:
    """More runs than the cache has places for, one row a run, where the count says."""
    build = Assembly()
    cache = build.state("cache", np.zeros((5, 2), np.float32))
    build.update(cache, cache)
    count = build.state("count", np.zeros(1, np.int64))
    row = build.input("row", DType.F32, (1, 2))
    build.op("write_rows", [cache, count, row], (DType.F32, (1, 2)), attributes=(0, 0))
    (one,) = build.op("fill", [], (DType.I64, (1,)), attributes=(1,))
    (more,) = build.op("binary", [count, one], (DType.I64, (1,)), attributes=(1,))
    build.update(count, more)
    build.output("count", more)
    given = [np.ones((1, 2), np.float32)]
    machine = Machine(isa="scalar", threads=1, f32_gflops=1.0, i8_gops=1.0, reads=((1 << 14, 1.0),), clock_ns=0.0)
    assert profile_program(build.program(), given, runs=33, machine=machine).runs == 33
