"""The kernel benchmark has a case for each kernel with a SIMD version, with the same bits on each instruction set."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.cli.synthetic_inputs import timed_inputs
from alcove.runtime import _native, load
from alcove.runtime.format.reader import read_spec

from benchmarks import kernels
from benchmarks.kernel_cases import CASES, operators, optimized_kernels

CHILD = """
import hashlib, pickle, sys
from alcove.runtime.model import load
with open(sys.argv[1], "rb") as file:
    cases = pickle.load(file)
for name, (program, inputs) in sorted(cases.items()):
    digest = hashlib.sha256(b"".join(out.tobytes() for out in load(program)(*inputs)))
    print(*name, digest.hexdigest())
"""


def test_every_kernel_with_a_rival_has_a_case() -> None:
    """A new line in the manifest without a program here fails; and no case speaks of an operator that is gone."""
    assert optimized_kernels(_native.kernels()) <= set(CASES)
    assert {op for op, _ in CASES} <= {op.name for op in _native.manifest()}


def test_a_kernel_without_a_case_would_be_seen() -> None:
    """A test for the test."""
    results = [("new", "f32", "scalar", "new_f32_scalar"), ("new", "f32", "avx2", "new_f32_avx2")]
    assert optimized_kernels(results) == {("new", "f32")}
    assert optimized_kernels(results[:1]) == set()


@pytest.mark.parametrize("key", CASES, ids=" ".join)
def test_a_case_runs_its_operator(key: tuple[str, str]) -> None:
    """On tensors of its type, and its answers are numbers that say something."""
    op, dtype = key
    program = CASES[key]()
    riders = {"linear_f32_qc8w": {"gru"}} if dtype == "panels" else {}
    assert operators(program) == riders.get(op, {op})
    if dtype in {"f32", "i8"}:
        spec = read_spec(program)
        seen = {spec.tensors[index].dtype.name.lower() for index in (*spec.ops[0].inputs, *spec.ops[0].outputs)}
        assert dtype in seen
    model = load(program)
    (timed,) = timed_inputs(program, model)
    for out in model(*timed.inputs):
        assert np.isfinite(out).all()
        assert len(np.unique(out)) > 1


def test_the_cases_give_the_same_bits_on_every_instruction_set(tmp_path: Path) -> None:
    """Whatever is timed is also compared: made from the manifest, so that no optimized kernel is left out."""
    cases = {}
    for key, make in CASES.items():
        program = make()
        cases[key] = program, timed_inputs(program, load(program))[0].inputs
    (tmp_path / "cases").write_bytes(pickle.dumps(cases))
    said = {
        isa: subprocess.run(
            [sys.executable, "-c", CHILD, tmp_path / "cases"],
            env={**os.environ, "ALCOVE_ISA": isa},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for isa in _native.machine_isas()
    }
    for isa, lines in said.items():
        assert len(lines) == len(CASES)
        assert [line for line, other in zip(lines, said["scalar"], strict=True) if line != other] == [], isa


def test_a_row_has_a_time_for_each_instruction_set() -> None:
    """And the ratio of the reference to the best."""
    (row,) = kernels.measure([("softmax", "f32")], rounds=1, seconds=0.001, core=0, say=lambda _: None)
    assert (row.op, row.dtype) == ("softmax", "f32")
    assert list(row.times_us) == _native.machine_isas()
    assert row.ratio >= 1
