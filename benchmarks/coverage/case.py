"""Runs one call of an operator as a module, natively and in eager, and compares the outputs.

A sample's tensors become inputs of a module, what a model would hold as parameters becomes buffers, the rest is
captured.  The module is exported, run natively, and compared.
"""

import enum
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove import runtime
from alcove.runtime.errors import ExportError
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.coverage.sources import HELD_NAMES

RTOL: Final = 1e-4
ATOL: Final = 1e-5

# (rtol, atol) where the pair above does not fit, with the reason.
TOLERANCES: Final[dict[str, tuple[float, float, str]]] = {}

# Operators whose indices eager gives in no promised order where values are equal: indices then only have to pick them.
TIES: Final = frozenset({"sort", "topk"})

DTYPES: Final = frozenset({torch.float32, torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool})
"""Element types that a program has; samples with others do not apply."""

NO_ELEMENTS: Final = "a tensor has no elements"


class Status(enum.Enum):
    """What became of a sample."""

    PASSED = "passed"
    REFUSED = "refused"
    WRONG = "wrong"
    EMPTY = "no elements"  # refused by design: a tensor of a program has at least one element
    INAPPLICABLE = "inapplicable"  # an element type that programs don't have, or eager itself raises


@dataclass(frozen=True)
class Sample:
    """One call.

    Attributes:
        name: the operator that it is a sample of, such as "add".
        overload: "Tensor" if `call` is that overload of the operator; "" if `call` is a function that reaches it.
        source: where it comes from, for reports.
        call: the function or overload.
        args: arguments, tensors in any nesting.
        kwargs: keyword arguments.
        held: positions among all tensors of `args` and `kwargs` that a model holds as parameters.
    """

    name: str
    overload: str
    source: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    held: frozenset[int] = frozenset()

    def tensors(self) -> list[Tensor]:
        """Return all tensors, in the order of arguments."""
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]

    def describe(self) -> str:
        """Return the call as text: `source(f32[2, 3], 1, dim=0)`."""
        values = [_text(value) for value in self.args] + [f"{key}={_text(v)}" for key, v in self.kwargs.items()]
        return f"{self.source}({', '.join(values)})"


@dataclass(frozen=True)
class Outcome:
    """What became of one sample.

    Attributes:
        status: see `Status`.
        overload: of the sample.
        call: the sample as text.
        reason: for everything but PASSED.
        is_reached: the operator was called directly, or is in the traced graph.
    """

    status: Status
    overload: str
    call: str
    reason: str = ""
    is_reached: bool = False


class CallModule(nn.Module):
    """`forward(*inputs)` is the sample's call; returns the tensors of its result that have elements, as a tuple."""

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self._call = sample.call
        self._first_only = False
        leaves, self._spec = pytree.tree_flatten((sample.args, sample.kwargs))
        self._leaves: list[Any] = []
        self._is_input: list[bool] = []
        self.examples: list[Tensor] = []
        position = 0
        for leaf in leaves:
            is_input = False
            if isinstance(leaf, Tensor):
                is_input = position not in sample.held
                tensor = plain(leaf)
                if is_input:
                    self.examples.append(tensor)
                else:
                    self.register_buffer(f"held_{position}", tensor)
                position += 1
                leaf = None if is_input else f"held_{position - 1}"  # noqa: PLW2901 - where its tensor is
            self._is_input.append(is_input)
            self._leaves.append(leaf)
        self._is_held = [isinstance(leaf, Tensor) and not i for leaf, i in zip(leaves, self._is_input, strict=True)]
        self.has_inputs = bool(self.examples)
        if not self.has_inputs:
            self.examples.append(torch.ones(1))  # a program has an input, and may ignore it

    def first_output_only(self) -> "CallModule":
        """Leave out all outputs but the first; return the module itself."""
        self._first_only = True
        return self

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return what the call gives."""
        argument = iter(inputs)
        leaves = [
            next(argument) if is_input else self.get_buffer(leaf) if is_held else leaf
            for leaf, is_input, is_held in zip(self._leaves, self._is_input, self._is_held, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        result = self._call(*args, **kwargs)
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        if self._first_only:
            tensors = tensors[:1]
        return tuple(tensor for tensor in tensors if tensor.numel() > 0) or tuple(tensors)


def held_of(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> frozenset[int]:
    """Return the positions among all tensors of a direct call that are parameters by their names in the schema."""
    names = [argument.name for argument in op._schema.arguments]  # noqa: SLF001 - published nowhere else
    named = [*zip(names, args, strict=False), *kwargs.items()]
    owners = [key for key, value in named for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
    return frozenset(position for position, key in enumerate(owners) if key in HELD_NAMES)


def plain(tensor: Tensor) -> Tensor:
    """Return a contiguous copy without gradient or lazy conjugation: what a program's input can be."""
    return tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


NativeRun = Callable[[bytes, Sequence[NDArray[Any]]], list[NDArray[Any]]]


def run_natively(program: bytes, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return what a program gives for `inputs`."""
    return runtime.load(program)(*inputs)


def check(sample: Sample, *, first_output_only: bool = False, run: NativeRun = run_natively) -> Outcome:
    """Export, run and compare one sample.

    Args:
        sample: the call.
        first_output_only: see `sources.FIRST_OUTPUT_ONLY`.
        run: runs a program; a test passes a wrong one.

    Returns:
        WRONG for every difference, and for every exception of export or run that is not `ExportError`.
    """

    def outcome(status: Status, reason: str, is_reached: bool = False) -> Outcome:
        return Outcome(status, sample.overload, sample.describe(), reason, is_reached)

    module = CallModule(sample).eval()
    if first_output_only:
        module.first_output_only()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = module(*[plain(example) for example in module.examples])
    except Exception as error:  # noqa: BLE001 - whatever eager raises, the sample is none
        return outcome(Status.INAPPLICABLE, f"eager raises {type(error).__name__}: {_first_line(error)}")
    everything = [*sample.tensors(), *expected]
    foreign = sorted({str(tensor.dtype) for tensor in everything if tensor.dtype not in DTYPES})
    if foreign or not expected:
        return outcome(Status.INAPPLICABLE, f"{', '.join(foreign)} in or out" if foreign else "gives no tensor")
    return outcome(*_compare(sample, module, expected, run))


def _compare(
    sample: Sample, module: CallModule, expected: Sequence[Tensor], run: NativeRun
) -> tuple[Status, str, bool]:
    """Export and run a module, compare with what eager gave; return status, reason, and whether the op was reached."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = runtime.export(module, tuple(module.examples))
    except ExportError as error:
        if any(tensor.numel() == 0 for tensor in [*sample.tensors(), *expected]):
            return Status.EMPTY, NO_ELEMENTS, False
        return Status.REFUSED, refusal(error), False
    except Exception as error:  # noqa: BLE001 - every other exception is the exporter's fault
        return Status.WRONG, f"export raises {type(error).__name__}: {_first_line(error)}", False
    is_reached = bool(sample.overload) or re.search(rf"\baten\.{sample.name}\b", program.explain()) is not None
    try:
        argument = run(bytes(program), [plain(example).numpy() for example in module.examples])
    except Exception as error:  # noqa: BLE001 - eager takes these inputs
        return Status.WRONG, f"run raises {type(error).__name__}: {_first_line(error)}", is_reached
    rtol, atol, _ = TOLERANCES.get(sample.name, (RTOL, ATOL, ""))
    difference = first_difference([plain(tensor).numpy() for tensor in expected], argument, rtol=rtol, atol=atol)
    if difference and not (sample.name in TIES and picks_the_same(sample, expected, argument)):
        return Status.WRONG, difference, is_reached
    return Status.PASSED, "", is_reached


def first_difference(
    expected: Sequence[NDArray[Any]], argument: Sequence[NDArray[Any]], *, rtol: float = RTOL, atol: float = ATOL
) -> str:
    """Return a sentence about the first output that differs, "" if none does.

    Number, shapes and types must be equal; integers and bools exactly; floats within `atol + rtol * |expected|`, with
    NaN and infinities at the same places.
    """
    if len(expected) != len(argument):
        return f"{len(argument)} outputs, eager gives {len(expected)}"
    for index, (want, have) in enumerate(zip(expected, argument, strict=True)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {index} is {have.dtype}{list(have.shape)}, eager gives {want.dtype}{list(want.shape)}"
        is_float = want.dtype.kind == "f"
        bad = ~np.isclose(have, want, rtol=rtol, atol=atol, equal_nan=True) if is_float else have != want
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return f"output {index}{list(at)} is {have[at]}, eager gives {want[at]} ({int(bad.sum())} of {want.size})"
    return ""


def picks_the_same(sample: Sample, expected: Sequence[Tensor], actual: Sequence[NDArray[Any]]) -> bool:
    """Return whether (values, indices) differ from eager's only by which of several equal elements they name.

    Values must be eager's; along some dimension the indices must be distinct and pick those values from the input.
    """
    if len(actual) != 2 or sample.kwargs.get("stable") or actual[1].dtype != np.int64:
        return False
    if first_difference([plain(expected[0]).numpy()], actual[:1]):
        return False
    x, indices = plain(sample.tensors()[0]).numpy(), actual[1]
    if indices.shape != actual[0].shape or indices.ndim != x.ndim or indices.ndim == 0:
        return False
    for dim in range(x.ndim):
        others = [size for axis, size in enumerate(x.shape) if axis != dim]
        fits = others == [size for axis, size in enumerate(indices.shape) if axis != dim]
        if not fits or not ((indices >= 0) & (indices < x.shape[dim])).all():
            continue
        in_order = np.sort(indices, axis=dim)
        is_distinct = (np.diff(in_order, axis=dim) > 0).all()
        if is_distinct and np.array_equal(
            np.take_along_axis(x, indices, dim), actual[0], equal_nan=x.dtype.kind == "f"
        ):
            return True
    return False


def refusal(error: ExportError) -> str:
    """Return the distinct findings of an error in one line."""
    return "; ".join(dict.fromkeys(f"{finding.op}: {finding.suggestion}" for finding in error.findings))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        inner = ", ".join(_text(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)
