"""Checks a program of varying sizes at every size, not only at the samples that it was made from.

What samples show is proposed (`dynamic_shapes.py`); here it is held, at all sizes of a short range and a dense sample
of a long one (`ranges.py`), against the shapes that torch's own expressions give, the constants that torch computes,
and the rules by which devices judge a program before each run.  Sizes at which it fails become one more sample, so that
the next proposal knows them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, cast

import numpy as np
import torch
from alcove.runtime import _native
from alcove.runtime.compiler.boxes import most_elements
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.codegen import RecordText, generate_dynamic_program
from alcove.runtime.compiler.dynamic_shapes import Dynamic, Sizes, infer_symbolic_shapes
from alcove.runtime.compiler.emit import order_of
from alcove.runtime.compiler.expressions import Expression, evaluate_all
from alcove.runtime.compiler.graph import Graph, Origin
from alcove.runtime.compiler.grown_constants import GrownConstants
from alcove.runtime.compiler.layout import EmptyTensorError
from alcove.runtime.compiler.lower import lower_with_taps
from alcove.runtime.compiler.lowering.nodes import origin_of
from alcove.runtime.compiler.ranges import Rows, rows_of
from alcove.runtime.compiler.symbolic import Numbers, integers_of
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.spec import DType
from torch import fx

MAX_ROUNDS: Final = 12
"""Sizes that are added one by one before a program is refused."""
_ROUNDS_OF_SCRATCH: Final = 4
"""Rounds after which the room that an operator works in has its largest size everywhere."""


@dataclass(frozen=True)
class Failure:
    """Sizes at which a program fails.

    Attributes:
        sizes: by name.
        origin: where in the user's model.
        reason: what is wrong at these sizes.
        scratch: key of the value whose size may be too small; "" for other failures.
    """

    sizes: dict[str, int]
    origin: Origin
    reason: str
    scratch: str = ""

    def error(self) -> ExportError:
        """Return it as what `export` raises."""
        named = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        reason = f"it has no program at {named}: {self.reason}; let the Dim end before it or begin after it"
        op, path, source = self.origin.op, self.origin.module_path, self.origin.source
        return ExportError([Finding(op=op, module_path=path, source=source, suggestion=reason)])


def program_at_every_size(
    captured: Captured,
    compile_at: Callable[[Sizes], Graph],
    record: RecordText,
    *,
    has_constants: bool,
    half: DType | None = None,
) -> bytes:
    """Return the program of `captured` for all sizes within its symbols' bounds.

    Args:
        captured: with at least one symbol.
        compile_at: all passes up to the memory plan, at given sizes.
        record: takes the names of the passes after these, and their graphs as text.
        has_constants: whether what torch computes from sizes is a constant, and not computed on the device.
        half: what constants that lose nothing by it are stored in: F16 or BF16; None for float32.

    Raises:
        ExportError: no program serves all sizes; names the first place or the first sizes.
    """
    graphs: dict[tuple[int, ...], Graph] = {}

    def graph_at(sizes: Sizes) -> Graph:
        cache_key = tuple(sizes[symbol.name] for symbol in captured.symbols)
        if cache_key not in graphs:
            try:
                graphs[cache_key] = compile_at(sizes)
            except (ValueError, ZeroDivisionError) as error:
                failure = _find_empty(captured, sizes, error)
                if failure is None:
                    raise
                raise failure.error() from None
        return graphs[cache_key]

    more: list[dict[str, int]] = []
    constant: set[str] = set()
    constants = GrownConstants(captured) if has_constants else None
    while True:
        dynamic = infer_symbolic_shapes(captured, graph_at, more=more, constant_scratch=constant)
        rows = rows_of(captured.symbols, [bounds for bounds, _ in dynamic.buckets])
        failure = first_wrong_shape(captured, dynamic, rows)
        if failure is None and constants is not None:
            failure = first_wrong_constant(constants, dynamic, rows)
        if failure is None:
            finished = _Finished(with_room(dynamic), half)
            failure = first_refused(finished.data, dynamic, rows)
            if failure is None:
                finished.show(record)
                return finished.data
        is_known = tuple(failure.sizes.values()) in dynamic.samples
        if failure.scratch and failure.scratch not in constant and (is_known or len(more) >= _ROUNDS_OF_SCRATCH):
            constant.add(failure.scratch)
        elif is_known or len(more) >= MAX_ROUNDS:
            raise failure.error()
        if not is_known:
            more.append(failure.sizes)


class _Finished:
    """A program that may be thrown away, with the names and texts of its last passes."""

    def __init__(self, dynamic: Dynamic, half: DType | None) -> None:
        self._texts: list[tuple[str, str]] = []
        self.data = generate_dynamic_program(dynamic, lambda name, text: self._texts.append((name, text)), half)

    def show(self, record: RecordText) -> None:
        """Tell what the passes gave."""
        for name, text in self._texts:
            record(name, text)


def first_refused(data: bytes, dynamic: Dynamic, rows: Rows) -> Failure | None:
    """Return the first sizes at which a device refuses to bind the program, without a run; None if it takes all."""
    dimensions = rows * [symbol.factor for symbol in dynamic.symbols] + [symbol.addend for symbol in dynamic.symbols]
    refused = _native.open_bytes(data).first_refused(np.ascontiguousarray(dimensions, dtype=np.uint32))
    if refused is None:
        return None
    row, op, tensor, message = refused
    writer = dynamic.graph.nodes[op] if op >= 0 else None
    if writer is None and tensor >= 0:
        writer = dynamic.graph.producer(order_of(dynamic.graph)[tensor])
    is_scratch = writer is not None and "its scratch has" in message
    scratch = writer.outputs[-1] if writer is not None and is_scratch else ""
    origin = Origin("dynamic_shapes") if writer is None else writer.origin
    return Failure(_name_sizes(dynamic, rows[row]), origin, message, scratch)


def with_room(dynamic: Dynamic) -> Dynamic:
    """Return `dynamic` with buckets in which each tensor has room for its most elements at any of their sizes.

    A size that falls where a symbol rises (`n % 7`) has them elsewhere than at the bucket's bounds.
    """
    varying = {key for key, _ in dynamic.dims}
    low = [symbol.minimum for symbol in dynamic.symbols]
    buckets = []
    for bounds, graph in dynamic.buckets:
        values = dict(graph.values)
        known: dict[tuple[int, ...], int] = {}  # expressions are one where sizes are
        for key in varying:
            shape = values[key].shape
            sizes = [dynamic.dims.get((key, axis), dynamic.graph.values[key].shape[axis]) for axis in range(len(shape))]
            cache_key = tuple(size if isinstance(size, int) else -id(size) for size in sizes)
            if cache_key not in known:
                known[cache_key] = most_elements(sizes, low, bounds)
            if known[cache_key] > prod(shape):
                values[key] = replace(values[key], shape=(known[cache_key], *(1 for _ in shape[1:])))
        buckets.append((bounds, replace(graph, values=values)))
    return replace(dynamic, buckets=tuple(buckets))


def first_wrong_shape(captured: Captured, dynamic: Dynamic, rows: Rows) -> Failure | None:
    """Return the first sizes at which a tensor has another shape than torch's expressions say, or None.

    Compared is every tensor that is the one result of a node of torch's and has torch's shape at the samples.
    """
    samples = np.array(dynamic.samples, dtype=np.int64)
    rows = np.concatenate([samples, rows])
    columns = [rows[:, place] for place in range(rows.shape[1])]
    numbers = {symbol.expression: column for symbol, column in zip(captured.symbols, columns, strict=True)}
    expected: dict[Any, Numbers | None] = {}
    seen: set[tuple[Any, Expression | int]] = set()
    first: tuple[int, fx.Node, str] | None = None
    for node, key in _torch_values(captured, dynamic.graph):
        for axis, size in enumerate(node.meta["val"].shape):
            theirs = size.node.expr if isinstance(size, torch.SymInt) else int(size)
            ours = dynamic.dims.get((key, axis), dynamic.graph.values[key].shape[axis])
            if (theirs, ours) in seen:
                continue
            seen.add((theirs, ours))
            if theirs not in expected:
                whole = isinstance(theirs, int)
                expected[theirs] = np.full(len(rows), theirs) if whole else integers_of(theirs, numbers)
            wanted = expected[theirs]
            if wanted is None:
                continue
            found = _column(dynamic, key, axis, columns)
            wrong = np.flatnonzero(found != wanted)
            if len(wrong) == 0 or wrong[0] < len(samples):
                continue  # a layout of ours: the samples were compiled at these very sizes
            row = int(wrong[0])
            if first is None or row < first[0]:
                first = row, node, f"dimension {axis} of its result is {wanted[row]}, the rule found gives {found[row]}"
    if first is None:
        return None
    row, node, reason = first
    return Failure(_name_sizes(dynamic, rows[row]), origin_of(node), reason)


def first_wrong_constant(constants: GrownConstants, dynamic: Dynamic, rows: Rows) -> Failure | None:
    """Return the first sizes at which a constant is not the beginning of the one at the largest sizes, or None."""
    wrong = constants.first_wrong(rows, np.array(dynamic.samples, dtype=np.int64))
    if wrong is None:
        return None
    row, origin = wrong
    return Failure(_name_sizes(dynamic, rows[row]), origin, "a constant that it reads follows another rule there")


def _find_empty(captured: Captured, sizes: Sizes, error: Exception) -> Failure | None:
    """Return why there is no graph at these sizes, if a tensor without elements is the reason."""
    empty = _first_empty(captured, sizes)
    if empty is not None:
        return Failure(dict(sizes), origin_of(empty), "its result has no elements")
    if isinstance(error, EmptyTensorError):
        return Failure(dict(sizes), error.origin, "a tensor that it works with has no elements")
    return None


def _first_empty(captured: Captured, sizes: Sizes) -> fx.Node | None:
    """Return the first node of torch's whose result has no elements at these sizes."""
    numbers = captured.substitution(sizes)
    for node in captured.program.graph.nodes:
        fake = node.meta.get("val")
        shape: list[Any] = list(fake.shape) if isinstance(fake, torch.Tensor) else []
        for size in shape:
            if isinstance(size, torch.SymInt) and size.node.expr.subs(numbers) == 0:
                return cast("fx.Node", node)
    return None


def _torch_values(captured: Captured, graph: Graph) -> Iterator[tuple[fx.Node, str]]:
    """Yield torch's nodes, with the value of the finished graph that is the only result of each."""
    _, taps = lower_with_taps(captured)
    for node in captured.program.graph.nodes:
        keys, fake = taps.get(node.name, ()), node.meta.get("val")
        if len(keys) != 1 or keys[0] not in graph.values or not isinstance(fake, torch.Tensor):
            continue
        value = graph.values[keys[0]]
        if value.constant is None and not value.is_ragged and len(value.shape) == fake.dim():
            yield node, value.key


def _column(dynamic: Dynamic, key: str, axis: int, columns: list[Numbers]) -> Numbers:
    """Return a dimension of a value at many sizes."""
    expression = dynamic.dims.get((key, axis))
    if expression is None:
        return np.full(len(columns[0]), dynamic.graph.values[key].shape[axis], dtype=np.int64)
    return evaluate_all(expression, columns)


def _name_sizes(dynamic: Dynamic, row: Rows) -> dict[str, int]:
    return {symbol.name: int(size) for symbol, size in zip(dynamic.symbols, row, strict=True)}
