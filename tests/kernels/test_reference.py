"""Every operator agrees with a naive oracle in float64, on every instruction set of this machine.

The programs are those of `op_samples`; each operator is given what the runtime itself computed before it. Sums of
float32 may differ by 1e-4 of a number, or by 1e-5 of the greatest beside it; integers and bools not at all.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native
from alcove.runtime.format import attributes as operator_attributes
from alcove.runtime.format.halves import widen
from alcove.runtime.format.named_attributes import Attributes
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import HALVES, DType, Layout, ProgramSpec, TensorSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import NUMPY_TYPES, samples
from alcove.runtime.testing_ops import op_samples

from tests.kernels.reference import decoding, elements, images, movement, products, quantized, reductions, regions
from tests.kernels.reference.layouts import Array, Panels, read_panels
from tools.operator_attributes import class_name

FAMILIES = (decoding, elements, images, movement, products, quantized, reductions, regions)
RTOL, ATOL = 1e-4, 1e-5
PACKED = {"gru": (2, 3)} | dict.fromkeys(
    ("linear_i8", "conv2d_i8", "depthwise_conv2d_i8", "linear_qd8_qc8w", "linear_f32_qb4w", "linear_qd8_qb4w"), (1,)
)
"""Which operands are packed int8, with words and scales of 4 bytes among the weights."""


def find_oracle(op: str) -> Callable[..., list[Array | None]]:
    """Return the oracle of an operator: the function of its name."""
    found = [getattr(family, op) for family in FAMILIES if hasattr(family, op)]
    assert found, f"{op} has no oracle"
    return found[0]  # type: ignore[no-any-return]


def temper(spec: ProgramSpec) -> ProgramSpec:
    """Return the program with words and scales of sizes that a model has, and boundaries in order."""
    random, tensors = np.random.default_rng(12), list(spec.tensors)
    for op in spec.ops:
        for place in PACKED.get(op.name, ()):
            tensor = tensors[op.inputs[place]]
            is_i4 = op.name == "linear_f32_qb4w"
            if op.name == "linear_qd8_qb4w":
                group = operator_attributes.LinearQd8Qb4wAttributes.from_numbers(op.attributes).group
                tensors[op.inputs[place]] = replace(tensor, data=temper_heads(tensor, group, random))
                continue
            group = operator_attributes.LinearF32Qb4wAttributes.from_numbers(op.attributes).group if is_i4 else 0
            if tensor.dtype is DType.I8:
                inputs = spec.tensors[op.inputs[place - PACKED[op.name][0]]].shape[-1]
                is_dynamic = op.name == "linear_qd8_qc8w" or len(tensor.shape) == 1
                data = temper_groups(tensor, group, random) if group else temper_words(tensor, random)
                if is_dynamic:
                    data = sum_words(data, inputs, 1 if len(tensor.shape) == 1 else tensor.shape[0])
                tensors[op.inputs[place]] = replace(tensor, data=data)
    for index, tensor in enumerate(tensors):
        if tensor.name == "boundaries":
            tensors[index] = replace(tensor, data=np.sort(np.frombuffer(tensor.data, np.float32)).tobytes())
    return replace(spec, tensors=tuple(tensors))


def temper_groups(tensor: TensorSpec, group: int, random: np.random.Generator) -> bytes:
    """Return int4 weights with small scales."""
    groups = np.frombuffer(tensor.data, np.int8).copy().reshape(-1, 64 + 8 * group)
    groups[:, :64] = random.uniform(0.005, 0.02, (len(groups), 16)).astype(np.float32).view(np.int8)
    return groups.tobytes()


def temper_heads(tensor: TensorSpec, group: int | float, random: np.random.Generator) -> bytes:
    """Return int4 weights with small scales in front of them, in the upper halves of float32."""
    panels = np.frombuffer(tensor.data, np.int8).copy().reshape(tensor.shape)
    head = next(size for size in range(64, panels.shape[1], 64) if size // 32 * (32 + 8 * group) >= panels.shape[1])
    scales = random.uniform(0.005, 0.02, (len(panels), head // 2)).astype(np.float32)
    panels[:, :head] = (scales.view(np.uint32) >> 16).astype(np.uint16).view(np.int8)
    return panels.tobytes()


def temper_words(tensor: TensorSpec, random: np.random.Generator) -> bytes:
    """Return int8 weights with small scales; words are integers, or small float32 for layers of a recurrence."""
    panels = np.frombuffer(tensor.data, np.int8).copy().reshape(1 if len(tensor.shape) == 1 else tensor.shape[0], -1)
    words = random.integers(-500, 500, (len(panels), 16)).astype(np.int32)
    is_float = tensor.name.startswith("int8.")
    panels[:, :64] = (words.astype(np.float32) / 500 if is_float else words).view(np.int8)
    panels[:, 64:128] = random.uniform(0.001, 0.01, (len(panels), 16)).astype(np.float32).view(np.int8)
    if len(tensor.shape) == 1:
        panels[:, -64:] = random.standard_normal((1, 16)).astype(np.float32).view(np.int8)
    return panels.tobytes()


def sum_words(data: bytes, inputs: int, count: int) -> bytes:
    """Return int8 weights whose words are their sums, with zeros beyond the inputs."""
    panels = np.frombuffer(data, np.int8).copy().reshape(count, -1)
    weights = panels[:, 128 : 128 + 64 * -(-inputs // 4)].reshape(count, -1, 16, 4)
    lines = weights.transpose(0, 1, 3, 2).reshape(count, -1, 16)
    lines[:, inputs:] = 0
    weights[:] = lines.reshape(count, -1, 4, 16).transpose(0, 1, 3, 2)
    panels[:, 128 : 128 + weights[0].size] = weights.reshape(count, -1)
    panels[:, :64] = lines.sum(1, dtype=np.int32).view(np.int8)
    return panels.tobytes()


def read_attributes(op: str, numbers: tuple[int | float, ...]) -> Attributes:
    """Return an operator's attributes by name."""
    found: type[Attributes] = getattr(operator_attributes, class_name(op), Attributes)
    return found.from_numbers(numbers)


def make_inputs(spec: ProgramSpec) -> list[Any]:
    """Return numbers around 0, indices of any of three rows, ascending offsets."""
    random, made = np.random.default_rng(11), []
    for port in spec.inputs:
        tensor = spec.tensors[port.tensor]
        if tensor.dtype is DType.F32:
            made.append(random.standard_normal(tensor.shape, np.float32))
        else:
            made.append(random.integers(0, 3, tensor.shape).astype(NUMPY_TYPES[tensor.dtype]))
        if port.name == "offsets":
            made[-1] = np.sort(made[-1])
            made[-1][0] = 0
    return made


def read_constant(tensor: TensorSpec) -> Array | Panels:
    """Return weights as numbers."""
    is_half = tensor.dtype in HALVES  # operators see it as float32
    data: Array = (
        widen(np.frombuffer(tensor.data, np.uint16), tensor.dtype)
        if is_half
        else np.frombuffer(tensor.data, NUMPY_TYPES[tensor.dtype])
    )
    if tensor.layout is Layout.PANEL16:
        return read_panels(data.reshape(-1, tensor.shape[1] + 1, 16), tensor.shape[0])
    return data.reshape(tensor.shape)


def compute(spec: ProgramSpec, inputs: list[Any], outputs: list[bytes]) -> Iterator[tuple[str, Array, Array]]:
    """Give the name, the runtime's and the oracle's numbers of each result of each operator."""
    values: dict[int, Any] = {i: read_constant(tensor) for i, tensor in enumerate(spec.tensors) if tensor.data}
    values |= {port.tensor: value for port, value in zip(spec.inputs, inputs, strict=True)}
    values |= {state.tensor: values[state.initial] for state in spec.states}
    for port, data in zip(spec.outputs, outputs, strict=True):
        tensor = spec.tensors[port.tensor]
        values[port.tensor] = np.frombuffer(data, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)
    for op in spec.ops:
        oracle = find_oracle(op.name)
        shape = {"shape": spec.tensors[op.outputs[0]].shape} if "shape" in inspect.signature(oracle).parameters else {}
        attributes = read_attributes(op.name, op.attributes)
        with np.errstate(all="ignore"):
            expected = oracle(attributes, *(values[i] for i in op.inputs), **shape)
        if op.name == "write_rows":  # what reads the state after it shows what it wrote
            values[op.inputs[0]] = expected[0]
            continue
        for index, wanted in zip(op.outputs, expected, strict=False):
            if wanted is None:
                continue  # scratch between results
            yield f"{op.name} {op.attributes}", values[index], wanted


def assert_close(name: str, seen: Array, wanted: Array) -> None:
    """Compare by the rule of this file."""
    assert seen.shape == wanted.shape, name
    if seen.dtype == np.float32:
        finite = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64)
        atol = ATOL * float(finite.max(initial=0.0))
        np.testing.assert_allclose(seen, wanted, rtol=RTOL, atol=atol, err_msg=name)
    else:
        whole = wanted if seen.dtype == np.bool_ else np.trunc(wanted).astype(np.int64)
        np.testing.assert_array_equal(seen, whole.astype(seen.dtype), err_msg=name)


@pytest.fixture(scope="module")
def specs() -> dict[str, ProgramSpec]:
    """Programs that together have every operator but those of texts, which their own tests write again."""
    programs = {name: program for name, program in op_samples().items() if name not in {"methods", "tokens"}}
    found = {name: temper(read_spec(program)) for name, program in programs.items()}
    return found | {"bags": read_spec(samples()["caller_ids"])}


def test_every_operator_has_an_oracle_and_a_program(specs: Mapping[str, ProgramSpec]) -> None:
    """Nothing of the manifest is left out."""
    operators = {op.name for op in _native.manifest()} - {"ngram_hash", "tokenize", "detokenize"}
    assert {op.name for spec in specs.values() for op in spec.ops} == operators
    assert all(find_oracle(op) for op in operators)


@pytest.mark.parametrize("isa", _native.machine_isas())
def test_every_operator_agrees_with_its_oracle(
    specs: Mapping[str, ProgramSpec], isa: str, run_with: Callable[..., Any]
) -> None:
    """All results of all operators, given the same operands."""
    cases = {name: (write_program(spec), make_inputs(spec)) for name, spec in specs.items()}
    answers = run_with(isa, cases)
    for name, spec in specs.items():
        for op, seen, wanted in compute(spec, cases[name][1], answers[name]):
            assert_close(op, seen, wanted)


def test_a_wrong_answer_is_found() -> None:
    """A test for the test: an element off by a thousandth, or by one."""
    for dtype, off in ((np.float32, 1e-3), (np.int8, 1)):
        wanted = np.arange(1, 7).reshape(2, 3)
        seen = wanted.astype(dtype)
        assert_close("right", seen, wanted)
        seen[1, 2] += dtype(off) * seen[1, 2].dtype.type(1)
        with pytest.raises(AssertionError):
            assert_close("wrong", seen, wanted)
