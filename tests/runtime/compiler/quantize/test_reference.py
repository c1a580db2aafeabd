"""Quantized operators equal their numpy reference on each instruction set, with zero tolerance."""

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from alcove.runtime import _native, export, load
from alcove.runtime.compiler import reference
from alcove.runtime.format.reader import read_spec
from numpy.typing import NDArray
from torch import nn

from tests.runtime.compiler.quantize.cases import Case, cases

CHILD = """
import pickle, sys
from alcove.runtime.model import load
cases = pickle.load(open(sys.argv[1], "rb"))
answers = {name: load(program)(*inputs)[0].tobytes() for name, (program, inputs) in cases.items()}
pickle.dump(answers, open(sys.argv[2], "wb"))
"""


def run_with(isa: str, cases: Mapping[str, Case], folder: Path) -> dict[str, bytes]:
    """Return the first output of each case under one instruction set."""
    (folder / "cases").write_bytes(pickle.dumps(cases))
    command = [sys.executable, "-c", CHILD, str(folder / "cases"), str(folder / "answers")]
    subprocess.run(command, check=True, env={**os.environ, "ALCOVE_ISA": isa})
    return dict(pickle.loads((folder / "answers").read_bytes()))


@pytest.fixture(scope="module")
def all_cases() -> dict[str, Case]:
    """Every quantized operator, with tails and corners."""
    return cases()


@pytest.fixture(scope="module")
def expected(all_cases: dict[str, Case]) -> dict[str, bytes]:
    """What numpy makes of them."""
    return {
        name: reference.run(read_spec(program), inputs)[0].tobytes() for name, (program, inputs) in all_cases.items()
    }


@pytest.mark.parametrize("isa", _native.machine_isas())
def test_every_quantized_operator_gives_the_bits_of_the_reference(
    isa: str, all_cases: dict[str, Case], expected: dict[str, bytes], tmp_path: Path
) -> None:
    """Bit for bit, in a child process whose kernels are those of one instruction set."""
    answers = run_with(isa, all_cases, tmp_path)
    differ = [name for name in all_cases if answers[name] != expected[name]]
    assert not differ, f"{len(differ)} of {len(all_cases)} differ: {differ[:8]}"


@pytest.mark.parametrize("mode", ["int8_weights", "int8_dynamic"])
def test_recurrent_layers_with_int8_weights_give_the_same_bits_everywhere(mode: str, tmp_path: Path) -> None:
    """Each instruction set as the scalar kernels; outputs, inputs and states that fill no panel."""
    argument = {}
    for make, hidden in ((nn.RNN, 5), (nn.GRU, 16), (nn.GRU, 19), (nn.LSTM, 7)):
        torch.manual_seed(hidden)
        x = torch.randn(6, 3, 11)
        program = export(make(11, hidden).eval(), (x,), quantize=mode)
        argument[f"{make.__name__} {hidden}"] = (bytes(program), [x.numpy()])
    scalar, *others = [run_with(isa, argument, tmp_path) for isa in _native.machine_isas()]
    assert all(other == scalar for other in others)


def panels_and_biases(packed: NDArray[np.int8], n: int, k: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the `panels_i8` and the biases [n] of `dynamic_panels_i8`, for k inputs."""
    panels = -(-n // 16)
    end = panels * (128 + 64 * -(-k // 4))
    return packed[:end].reshape(panels, -1), np.ascontiguousarray(packed[end:]).view("<f4")[:n]


def test_a_gru_with_quantized_rows_gives_the_bits_of_the_reference() -> None:
    """Its two products by the reference in numpy, its gates by the runtime's own sigmoid and tanh."""
    torch.manual_seed(8)
    x = torch.randn(6, 3, 11)
    program = export(nn.GRU(11, 19).eval(), (x,), quantize="int8_dynamic")
    (gru,) = [op for op in program.spec.ops if op.name == "gru"]
    product = reference.OPERATORS["linear_qd8_qc8w"]
    constants = [np.frombuffer(program.spec.tensors[index].data, np.int8) for index in gru.inputs[2:]]
    weights = [panels_and_biases(flat, 57, k) for flat, k in zip(constants, (11, 19), strict=True)]
    sigmoid, tanh = (load(bytes(export(make(), (torch.zeros(3, 19),)))) for make in (nn.Sigmoid, nn.Tanh))
    state = np.zeros((3, 19), np.float32)
    rows = []
    for step in x.numpy():
        a, b = (
            np.split(product((row, *weight), {}, (3, 57)), 3, axis=1)
            for row, weight in zip((step, state), weights, strict=True)
        )
        (reset,), (update,) = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        (new,) = tanh(reference.fma(reset, b[2], a[2]))
        state = reference.fma(state - new, update, new)
        rows.append(state)
    output, last = load(bytes(program))(x.numpy())
    assert output.tobytes() == np.stack(rows).tobytes()
    assert last.tobytes() == state.tobytes()


def test_the_cases_cover_every_quantized_operator(all_cases: dict[str, Case]) -> None:
    """Each operator of the manifest from code 90 to 103, and the product of 4 and 8 bits."""
    seen = {op.name for program, _ in all_cases.values() for op in read_spec(program).ops}
    assert seen == {op.name for op in _native.manifest() if 90 <= op.code < 104 or op.code == 120}


def test_fma_of_the_reference_rounds_once() -> None:
    """Against exact fractions, where f64 alone would round twice."""
    from fractions import Fraction

    random = np.random.default_rng(3)
    x, y = (random.standard_normal(4000).astype(np.float32) for _ in range(2))
    z = (random.standard_normal(4000) * 2.0 ** random.integers(-60, 20, 4000)).astype(np.float32)
    x[0], y[0], z[0] = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2.0**-70)
    result = reference.fma(x, y, z)
    for a, b, c, seen in zip(x, y, z, result, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        below, above = (np.nextafter(seen, np.float32(end)) for end in (-np.inf, np.inf))
        assert all(abs(exact - Fraction(float(seen))) <= abs(exact - Fraction(float(n))) for n in (below, above))
