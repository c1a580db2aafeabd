"""Generalizes a graph lowered at several sizes to one program for all sizes within bounds.

The graph is lowered at several sizes (`shape_expressions.py`).  It must have the same nodes at each; a number that
differs becomes an expression of the symbols, and a constant that grows becomes the largest one with a slice before its
reader.  Memory is planned for a few buckets of sizes, so that a short input does not pay for the longest.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from alcove.runtime.compiler.builder import row_major_strides
from alcove.runtime.compiler.capture import Captured, Symbol
from alcove.runtime.compiler.graph import Array, Graph, Node, Value
from alcove.runtime.compiler.shape_expressions import (
    Expression,
    ExpressionFitter,
    beyond_of,
    evaluate,
    ones_of,
    samples_of,
)
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.attributes import AsStridedCopyAttributes
from alcove.runtime.format.spec import DType, Layout

Sizes = Mapping[str, int]

BUCKET_STEP: Final = 4
"""Each bucket holds sizes up to this many times those of the one before."""
MAX_BUCKETS: Final = 16
_PART: Final = ":part"


@dataclass(frozen=True, eq=False)
class Dynamic:
    """A graph whose sizes vary.

    Attributes:
        graph: at the largest sizes.
        symbols: what varies, in order.
        dims: (key of a value, axis) -> expression, for every size that varies.
        attributes: (index of a node, name of an attribute) -> expression.
        buckets: upper bounds of the symbols, in order, and the graph at them; rising, the largest last.
        samples: sizes at which it was compiled, in the order of the symbols; the largest first.
    """

    graph: Graph
    symbols: tuple[Symbol, ...]
    dims: Mapping[tuple[str, int], Expression]
    attributes: Mapping[tuple[int, str], Expression]
    buckets: tuple[tuple[tuple[int, ...], Graph], ...]
    samples: tuple[tuple[int, ...], ...]


def infer_symbolic_shapes(
    captured: Captured,
    compile_at: Callable[[Sizes], Graph],
    buckets: Sequence[Sizes] = (),
    *,
    more: Sequence[Sizes] = (),
    constant_scratch: Collection[str] = (),
) -> Dynamic:
    """Return the graph of `captured` for all sizes within its symbols' bounds, as the samples show it.

    Args:
        captured: with at least one symbol.
        compile_at: all passes up to the memory plan, at given sizes.
        buckets: upper bounds for which memory is planned; () chooses them.
        more: sizes at which it is compiled beside those that are chosen (`every_size.py`).
        constant_scratch: values, room to work in, that have their largest size at all sizes.

    Raises:
        ExportError: the graph changes with the sizes in a way that no program has; names the first place.
    """
    bounds = [dict(bucket) for bucket in buckets] or choose_buckets(captured.symbols)
    graphs: dict[tuple[tuple[str, int], ...], Graph] = {}

    def graph_at(sizes: Sizes) -> Graph:
        cache_key = tuple(sizes.items())
        if cache_key not in graphs:
            graphs[cache_key] = compile_at(sizes)
        return graphs[cache_key]

    shortest = ones_of(captured)
    shortest += [dict(sizes) for sizes in more if _is_shortest(captured, sizes) and sizes not in shortest]
    ones = [_Sample(sizes, graph_at(sizes)) for sizes in shortest]
    wanted = samples_of(captured)
    others = [*bounds, *(sizes for sizes in more if not _is_shortest(captured, sizes))]
    wanted += [dict(sizes) for sizes in others if sizes not in wanted]
    samples = [_Sample(sizes, graph_at(sizes)) for sizes in wanted]
    try:
        return _general(captured, samples + ones, bounds, constant_scratch)
    except ExportError:
        if not ones:
            raise
    # The rules took shortcuts at size 1; what holds for all other sizes holds there too, if its results are the same.
    samples += [_Sample(sizes, graph_at(sizes)) for sizes in beyond_of(captured)]
    dynamic = _general(captured, samples, bounds, constant_scratch)
    _check_results(dynamic, ones)
    return dynamic


def _is_shortest(captured: Captured, sizes: Sizes) -> bool:
    """Return whether rules take shortcuts at these sizes: one is 1 and could be more."""
    return any(sizes[symbol.name] == 1 < symbol.maximum for symbol in captured.symbols)


@dataclass(frozen=True, eq=False)
class _Sample:
    """A graph, and the sizes at which it was compiled."""

    sizes: Sizes
    graph: Graph


def _general(
    captured: Captured, compiled: Sequence[_Sample], bounds: Sequence[Sizes], constant_scratch: Collection[str]
) -> Dynamic:
    """Return what holds for all that was compiled; the first at the largest sizes."""
    samples, graphs = [sample.sizes for sample in compiled], [sample.graph for sample in compiled]
    _check_structure(samples, graphs)
    graphs = _with_slices(samples, graphs)
    fitter = ExpressionFitter(captured, samples)
    dims = _dims(graphs, fitter, samples, constant_scratch)
    attributes = _attributes(graphs, fitter, samples)
    room = {
        key: max(graph.values[key].shape for graph in graphs) for key in _scratch(graphs[0]) if (key, 0) not in dims
    }
    names = [symbol.name for symbol in captured.symbols]
    at_buckets = tuple((tuple(bucket[name] for name in names), graphs[samples.index(bucket)]) for bucket in bounds)
    return Dynamic(
        _with_room(graphs[0], room),
        captured.symbols,
        dims,
        attributes,
        tuple((bound, _with_room(graph, room)) for bound, graph in at_buckets),
        tuple(tuple(sizes[name] for name in names) for sizes in samples),
    )


def _check_results(dynamic: Dynamic, ones: Sequence[_Sample]) -> None:
    """Compare the shapes of outputs and states with those at sizes of 1.

    Raises:
        ExportError: one differs; names it.
    """
    for sample in ones:
        sizes = [sample.sizes[symbol.name] for symbol in dynamic.symbols]
        for port, other in zip(dynamic.graph.outputs, sample.graph.outputs, strict=True):
            shape, expected = shape_at(dynamic, port.value, sizes), sample.graph.values[other.value].shape
            if shape != expected:
                reason = (
                    f"at {dict(sample.sizes)} its shape is {list(expected)}, for larger sizes it follows another rule "
                    f"(that gives {list(shape)}): give the Dim a min of 2"
                )
                raise ExportError([Finding(op=f"output {port.name}", module_path="", source="", suggestion=reason)])


def shape_at(dynamic: Dynamic, key: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a value where the symbols have `sizes`."""
    shape = dynamic.graph.values[key].shape
    found = [dynamic.dims.get((key, axis)) for axis in range(len(shape))]
    return tuple(
        size if expression is None else evaluate(expression, sizes)
        for size, expression in zip(shape, found, strict=True)
    )


def choose_buckets(symbols: Sequence[Symbol]) -> list[dict[str, int]]:
    """Return upper bounds by factors of `BUCKET_STEP` down from each symbol's maximum, at most `MAX_BUCKETS` in all."""
    step = BUCKET_STEP
    while True:
        ladders = []
        for symbol in symbols:
            rungs = [symbol.maximum]
            while rungs[-1] // step >= max(symbol.minimum, 2):  # rules take shortcuts for a size of 1
                rungs.append(rungs[-1] // step)
            ladders.append(sorted(rungs))
        chosen = [dict(zip([s.name for s in symbols], sizes, strict=True)) for sizes in product(*ladders)]
        if len(chosen) <= MAX_BUCKETS:
            return chosen
        step *= 2


def _check_structure(samples: Sequence[Sizes], graphs: Sequence[Graph]) -> None:
    first = graphs[0]
    for sizes, graph in zip(samples[1:], graphs[1:], strict=True):
        for one, other in zip(first.nodes, graph.nodes, strict=False):
            same = (one.op, one.inputs, one.outputs, len(one.attributes.numbers()))
            if same != (other.op, other.inputs, other.outputs, len(other.attributes.numbers())):
                what = f"{one.op} of other tensors" if one.op == other.op else other.op
                reason = f"the steps change with the sizes: {one.op} at {dict(samples[0])}, {what} at {dict(sizes)}"
                raise _make_error(one, f"{reason}; fix the size, or export a program for each")
        if len(first.nodes) != len(graph.nodes):
            raise _make_error(first.nodes[-1], f"the number of steps changes with the sizes: another at {dict(sizes)}")


def _with_slices(samples: Sequence[Sizes], graphs: Sequence[Graph]) -> list[Graph]:
    """Return the graphs with every constant the same in all: the largest, sliced where it is read."""
    first = graphs[0]
    constants = {key: value for key, value in first.values.items() if value.constant is not None}
    grown = {
        key: max((graph.values[key] for graph in graphs), key=lambda value: value.array.size)
        for key, value in constants.items()
        if any(not _same(value.array, graph.values[key].array) for graph in graphs[1:])
    }
    for key, value in grown.items():
        for sizes, graph in zip(samples, graphs, strict=True):
            part = graph.values[key].array
            if _same(value.array, part):
                continue
            is_part = value.layout is Layout.ROW_MAJOR and part.ndim == value.array.ndim
            if not is_part or not _same(value.array[tuple(slice(0, size) for size in part.shape)], part):
                reader = first.consumers(key)[0]
                raise _make_error(
                    reader,
                    f"a constant {list(value.shape)} that it reads follows from a size, another at {dict(sizes)}; "
                    "compute it from tensors, or fix the size",
                )
    return [_slice_constants(graph, grown) for graph in graphs]


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _slice_constants(graph: Graph, grown: Mapping[str, Value]) -> Graph:
    values = dict(graph.values)
    nodes: list[Node] = []
    for node in graph.nodes:
        for key in node.inputs:
            if key in grown and key + _PART not in values:
                shape = graph.values[key].shape
                values[key + _PART] = Value(key + _PART, key + _PART, grown[key].dtype, shape)
                strides = row_major_strides(grown[key].shape)
                attributes = AsStridedCopyAttributes(offset=0, strides=strides)
                nodes.append(Node("as_strided_copy", (key,), (key + _PART,), attributes, node.origin))
        inputs = tuple(key + _PART if key in grown else key for key in node.inputs)
        nodes.append(replace(node, inputs=inputs))
    values |= grown
    return replace(graph, values=values, nodes=tuple(nodes))


def _dims(
    graphs: Sequence[Graph], fitter: ExpressionFitter, samples: Sequence[Sizes], constant_scratch: Collection[str]
) -> dict[tuple[str, int], Expression]:
    found: dict[tuple[str, int], Expression] = {}
    scratch = _scratch(graphs[0])
    for key, value in graphs[0].values.items():
        if value.constant is not None or key in constant_scratch:
            continue
        for axis, size in enumerate(value.shape):
            numbers = [graph.values[key].shape[axis] for graph in graphs]
            if all(number == size for number in numbers):
                continue
            expression = fitter.fit(numbers)
            if expression is None and key not in scratch:
                writer = graphs[0].producer(key)
                raise _make_error(
                    writer, f"dimension {axis} of its result has no rule: {_format_samples(samples, numbers)}"
                )
            if expression is not None:
                found[key, axis] = expression
    return found


def _attributes(
    graphs: Sequence[Graph], fitter: ExpressionFitter, samples: Sequence[Sizes]
) -> dict[tuple[int, str], Expression]:
    found: dict[tuple[int, str], Expression] = {}
    for index, node in enumerate(graphs[0].nodes):
        samples_by_name = [dict(graph.nodes[index].attributes.items()) for graph in graphs]
        for name, value in node.attributes.items():
            numbers = [argument[name] for argument in samples_by_name]
            if all(number == value for number in numbers):
                continue
            if any(isinstance(number, float) for number in numbers):
                raise _make_error(
                    node, f"a number that it uses changes with the sizes: {_format_samples(samples, numbers)}"
                )
            expression = fitter.fit([int(number) for number in numbers])
            if expression is None:
                raise _make_error(node, f"{name} of {node.op} has no rule: {_format_samples(samples, numbers)}")
            found[index, name] = expression
    return found


def _scratch(graph: Graph) -> set[str]:
    """Return the values that are room to work in: nobody reads them, and their size is a lower bound."""
    read = {key for node in graph.nodes for key in node.inputs}
    return {
        node.outputs[-1]
        for node in graph.nodes
        if node.outputs[-1] not in read
        and not graph.is_output(node.outputs[-1])
        and graph.values[node.outputs[-1]].dtype is DType.U8
    }


def _with_room(graph: Graph, room: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return a bucket's graph with as much room to work in as any sizes need, where its size has no rule."""
    values = dict(graph.values) | {key: replace(graph.values[key], shape=shape) for key, shape in room.items()}
    return replace(graph, values=values)


def _format_samples(samples: Sequence[Sizes], numbers: Sequence[int | float]) -> str:
    return ", ".join(f"{number} at {dict(sizes)}" for sizes, number in list(zip(samples, numbers, strict=True))[:3])


def _make_error(node: Node | None, reason: str) -> ExportError:
    if node is None:
        return ExportError([Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason)])
    origin = node.origin
    return ExportError([Finding(op=origin.op, module_path=origin.module_path, source=origin.source, suggestion=reason)])
