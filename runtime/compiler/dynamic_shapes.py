"""Generalizes a graph lowered at several sizes to one program for all sizes within bounds.

Numbers carry what they follow from (`sizes.py`): the graph at the largest sizes has the expression of each.  It is
lowered again at a few other sizes, one for each answer to what rules asked of sizes among them; there it must have the
same steps, numbers that follow from the same, and constants that are the beginning of the largest, which become slices.
Memory is planned for a few buckets of sizes, so that a short input does not pay for the longest.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from alcove.runtime.compiler.buckets import choose_buckets
from alcove.runtime.compiler.builder import row_major_strides
from alcove.runtime.compiler.capture import Captured, Symbol
from alcove.runtime.compiler.distinguishing_sizes import choose_samples
from alcove.runtime.compiler.expressions import Expression, evaluate
from alcove.runtime.compiler.graph import Array, Graph, Node, Value
from alcove.runtime.compiler.sizes import Size, term_of
from alcove.runtime.compiler.terms import Space, Term
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.attributes import AsStridedCopyAttributes
from alcove.runtime.format.spec import DType, Layout

Sizes = Mapping[str, int]

MAX_SAMPLES: Final = 96
"""Sizes at which one program is lowered; what rules ask of sizes has no more combinations of answers."""
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
        samples: sizes at which it was lowered, in the order of the symbols; the largest first.
    """

    graph: Graph
    symbols: tuple[Symbol, ...]
    dims: Mapping[tuple[str, int], Expression]
    attributes: Mapping[tuple[int, str], Expression]
    buckets: tuple[tuple[tuple[int, ...], Graph], ...]
    samples: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class _Sample:
    """A graph, and the sizes at which it was lowered."""

    sizes: Sizes
    graph: Graph


def infer_symbolic_shapes(
    captured: Captured,
    compile_at: Callable[[Sizes], Graph],
    *,
    more: Sequence[Sizes] = (),
    constant_scratch: Collection[str] = (),
) -> Dynamic:
    """Return the graph of `captured` for all sizes within its symbols' bounds.

    Args:
        captured: with at least one symbol.
        compile_at: all passes up to the memory plan, at given sizes.
        more: sizes at which it is lowered beside those that are chosen (`every_size.py`).
        constant_scratch: values, room to work in, that have their largest size at all sizes.

    Raises:
        ExportError: the graph changes with the sizes in a way that no program has; names the first place.
    """
    space = captured.space
    space.guards.clear()
    wanted = choose_samples(captured)
    wanted += [dict(sizes) for sizes in more if sizes not in wanted]
    samples: list[_Sample] = []
    while wanted:
        samples += [_Sample(sizes, compile_at(sizes)) for sizes in wanted]
        if len(samples) > MAX_SAMPLES:
            reason = f"its steps ask more than {MAX_SAMPLES} questions of sizes: fix one of them"
            raise ExportError([Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason)])
        known = {tuple(sample.sizes.values()) for sample in samples}
        wanted = [sizes for sizes in _missing_answers(captured, space, samples) if tuple(sizes.values()) not in known]
    return _generalize(captured, samples, constant_scratch)


def _missing_answers(captured: Captured, space: Space, samples: Sequence[_Sample]) -> list[dict[str, int]]:
    """Return sizes for each combination of answers to the guards that no sample gives."""
    if not space.guards:
        return []
    names = [symbol.name for symbol in captured.symbols]
    answers = np.stack(list(space.guards.values()), 1)
    _, first, groups = np.unique(answers, axis=0, return_index=True, return_inverse=True)
    groups = groups.reshape(-1)
    seen = {int(groups[row]) for sample in samples if (row := _row_of(space, sample.sizes)) is not None}
    missing = [row for row in first.tolist() if int(groups[row]) not in seen]
    return [dict(zip(names, space.rows[row].tolist(), strict=True)) for row in missing]


def _row_of(space: Space, sizes: Sizes) -> int | None:
    found = np.flatnonzero((space.rows == np.array(list(sizes.values()))).all(axis=1))
    return int(found[0]) if len(found) else None


def _generalize(captured: Captured, samples: Sequence[_Sample], constant_scratch: Collection[str]) -> Dynamic:
    """Return what holds for all that was lowered; the first at the largest sizes."""
    _check_structure(samples)
    samples = _with_slices(samples)
    graph = samples[0].graph
    judge = _Judge(captured.space, samples)
    dims: dict[tuple[str, int], Expression] = {}
    room: dict[str, tuple[int, ...]] = {}
    scratch = _scratch(graph)
    for key, value in graph.values.items():
        if value.constant is not None:
            continue
        for axis in range(len(value.shape)):
            numbers = [sample.graph.values[key].shape[axis] for sample in samples]
            if key in scratch:
                found = None if key in constant_scratch else judge.room(numbers)
                if found is None:
                    room[key] = (max(map(int, numbers)),)
            else:
                found = judge.expression(graph.producer(key), f"dimension {axis} of its result", numbers)
            if found is not None:
                dims[key, axis] = found
    attributes: dict[tuple[int, str], Expression] = {}
    for index, node in enumerate(graph.nodes):
        by_name = [dict(sample.graph.nodes[index].attributes.items()) for sample in samples]
        for name in by_name[0]:
            found = judge.expression(node, f"{name} of {node.op}", [numbers[name] for numbers in by_name])
            if found is not None:
                attributes[index, name] = found
    names = [symbol.name for symbol in captured.symbols]
    graph = _resize(graph, room)
    bounds = [tuple(bucket[name] for name in names) for bucket in choose_buckets(captured.symbols)]
    buckets = tuple((bound, _at(graph, dims, bound)) for bound in bounds)
    sizes = tuple(tuple(sample.sizes[name] for name in names) for sample in samples)
    return Dynamic(graph, captured.symbols, dims, attributes, buckets, sizes)


class _Judge:
    """Decides what a number of the graph follows from, by what it is at the samples."""

    def __init__(self, space: Space, samples: Sequence[_Sample]) -> None:
        self._space = space
        self._samples = samples
        answers = np.stack(list(space.guards.values()), 1) if space.guards else np.zeros((len(space.rows), 1), bool)
        groups = np.unique(answers, axis=0, return_inverse=True)[1].reshape(-1)
        rows = [_row_of(space, sample.sizes) for sample in samples]
        self._groups = [None if row is None else groups == groups[row] for row in rows]
        self._rooms: dict[int, Expression] = {}

    def expression(self, node: Node | None, what: str, numbers: Sequence[int | float]) -> Expression | None:
        """Return the expression of a number, None for a constant.

        Args:
            node: what uses or makes it.
            what: the number's name.
            numbers: what it is at the samples.

        Raises:
            ExportError: it has none, or not the same at all samples.
        """
        first = numbers[0]
        if all(number is first or (number == first and type(number) is type(first)) for number in numbers):
            if not isinstance(first, Size):
                return None
            term = first.term
        else:
            if not all(isinstance(number, int) for number in numbers):
                raise make_error(node, f"a number that it uses changes with the sizes: {self._show(numbers)}")
            terms = [term_of(self._space, number) for number in numbers if isinstance(number, int)]
            term = self._one_of(terms, node, what, numbers)
            if term.is_constant:
                return None
        if term.expression is None:
            raise make_error(node, f"{what} has no rule: {self._show(numbers)}")
        return term.expression

    def _one_of(self, terms: Sequence[Term], node: Node | None, what: str, numbers: Sequence[int | float]) -> Term:
        """Return the one of the samples' terms that has the values of each wherever its sample stands for."""
        for term in dict.fromkeys(terms):
            if all(
                group is not None and bool((np.broadcast_to(term.values, group.shape) == other.values)[group].all())
                for other, group in zip(terms, self._groups, strict=True)
            ):
                return term
        raise make_error(node, f"{what} has no rule: {self._show(numbers)}")

    def room(self, numbers: Sequence[int]) -> Expression | None:
        """Return the expression of room to work in, or None if it is to have its largest size everywhere."""
        first = numbers[0]
        if not isinstance(first, Size) or any(number != first for number in numbers):
            return None
        if first.term.expression is None and id(first.term) not in self._rooms:
            self._rooms[id(first.term)] = _steps(self._space, first.term)
        return first.term.expression or self._rooms[id(first.term)]

    def _show(self, numbers: Sequence[int | float]) -> str:
        shown = zip(self._samples, numbers, strict=True)
        return ", ".join(f"{number} at {dict(sample.sizes)}" for sample, number in list(shown)[:3])


def _steps(space: Space, term: Term) -> Expression:
    """Return the least number that is enough at all sizes between two rungs of the buckets, for each such part."""
    buckets = [tuple(bucket.values()) for bucket in choose_buckets(space.symbols)]
    ladders = [sorted({bucket[place] for bucket in buckets}) for place in range(len(space.symbols))]
    places = np.stack([np.searchsorted(ladder, space.rows[:, at]) for at, ladder in enumerate(ladders)], 1)
    total: Expression | None = None
    for cell in np.unique(places, axis=0):
        most = int(np.broadcast_to(term.values, (len(places),))[(places == cell).all(axis=1)].max())
        part = Expression("constant", most)
        for place, (ladder, rung) in enumerate(zip(ladders, cell.tolist(), strict=True)):
            above, up_to = [None, *ladder][rung], [*ladder[:-1], None][rung]
            inside = _is_within(place, above, up_to)
            part = part if inside is None else Expression("mul", part, inside)
        total = part if total is None else Expression("add", total, part)
    if total is None:
        raise ValueError("no rows")
    return total


def _is_within(place: int, above: int | None, up_to: int | None) -> Expression | None:
    """Return 1 where a symbol is above a bound and up to another, else 0; None if there are no bounds."""
    symbol, one, zero = Expression("symbol", place), Expression("constant", 1), Expression("constant", 0)

    def is_above(bound: int) -> Expression:
        beyond = Expression("max", Expression("sub", symbol, Expression("constant", bound)), zero)
        return Expression("min", beyond, one)

    if above is None:
        return None if up_to is None else Expression("sub", one, is_above(up_to))
    return is_above(above) if up_to is None else Expression("sub", is_above(above), is_above(up_to))


def _at(graph: Graph, dims: Mapping[tuple[str, int], Expression], sizes: Sequence[int]) -> Graph:
    """Return the graph with the shapes that it has where the symbols have `sizes`."""
    values = {}
    for key, value in graph.values.items():
        found = [dims.get((key, axis)) for axis in range(len(value.shape))]
        pairs = zip(value.shape, found, strict=True)
        shape = tuple(int(size) if each is None else evaluate(each, sizes) for size, each in pairs)
        values[key] = replace(value, shape=shape)
    return replace(graph, values=values)


def _resize(graph: Graph, room: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph with other sizes of the room to work in."""
    return replace(graph, values=dict(graph.values) | {k: replace(graph.values[k], shape=v) for k, v in room.items()})


def _check_structure(samples: Sequence[_Sample]) -> None:
    first = samples[0]
    for sample in samples[1:]:
        for one, other in zip(first.graph.nodes, sample.graph.nodes, strict=False):
            same = (one.op, one.inputs, one.outputs, len(one.attributes.numbers()))
            if same != (other.op, other.inputs, other.outputs, len(other.attributes.numbers())):
                what = f"{one.op} of other tensors" if one.op == other.op else other.op
                at = f"{one.op} at {dict(first.sizes)}, {what} at {dict(sample.sizes)}"
                reason = f"the steps change with the sizes: {at}; fix the size, or export a program for each"
                raise make_error(one, reason)
        if len(first.graph.nodes) != len(sample.graph.nodes):
            reason = f"the number of steps changes with the sizes: another at {dict(sample.sizes)}"
            raise make_error(first.graph.nodes[-1], reason)


def _with_slices(samples: Sequence[_Sample]) -> list[_Sample]:
    """Return the samples with every constant the same in all: the largest, sliced where it is read."""
    first = samples[0].graph
    constants = {key: value for key, value in first.values.items() if value.constant is not None}
    grown = {
        key: max((sample.graph.values[key] for sample in samples), key=lambda value: value.array.size)
        for key, value in constants.items()
        if any(isinstance(size, Size) for size in value.shape)
        or any(not _same(value.array, sample.graph.values[key].array) for sample in samples[1:])
    }
    for key, value in grown.items():
        for sample in samples:
            part = sample.graph.values[key].array
            if _same(value.array, part):
                continue
            is_part = value.layout is Layout.ROW_MAJOR and part.ndim == value.array.ndim
            if not is_part or not _same(value.array[tuple(slice(0, size) for size in part.shape)], part):
                reader = first.consumers(key)[0]
                shape, sizes = list(value.array.shape), dict(sample.sizes)
                reason = f"a constant {shape} that it reads follows from a size, another at {sizes}"
                raise make_error(reader, f"{reason}; compute it from tensors, or fix the size")
    return [replace(sample, graph=_slice_constants(sample.graph, grown)) for sample in samples]


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
                strides = row_major_strides(grown[key].array.shape)
                attributes = AsStridedCopyAttributes(offset=0, strides=strides)
                nodes.append(Node("as_strided_copy", (key,), (key + _PART,), attributes, node.origin))
        inputs = tuple(key + _PART if key in grown else key for key in node.inputs)
        nodes.append(replace(node, inputs=inputs))
    values |= {key: replace(value, shape=value.array.shape) for key, value in grown.items()}
    return replace(graph, values=values, nodes=tuple(nodes))


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


def make_error(node: Node | None, reason: str) -> ExportError:
    """Return what `export` raises of a node, or of no node."""
    if node is None:
        return ExportError([Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason)])
    origin = node.origin
    return ExportError([Finding(op=origin.op, module_path=origin.module_path, source=origin.source, suggestion=reason)])
