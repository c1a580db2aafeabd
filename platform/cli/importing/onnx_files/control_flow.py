"""Puts graphs in graphs in their places: branches by conditions that are known, loops whose number of turns is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from alcove.platform.cli.importing.onnx_files.build import Builder, Place, Scope
from alcove.platform.cli.importing.onnx_files.errors import CUT, OnnxError, UnsupportedError
from alcove.platform.cli.importing.onnx_files.limits import MAX_STEPS
from alcove.platform.cli.importing.onnx_files.node import Function, Node, Value, normalize_axis
from alcove.platform.cli.importing.onnx_files.reader import attributes_of, name_of, sort_nodes
from alcove.platform.cli.importing.onnx_files.tensors import read_tensor
from onnx import GraphProto, NodeProto

Found = Value | list[Value] | None


class _UnknownError(Exception):
    """A node needs what another node that is not supported would make: that one's problem is written down."""


class _Control:
    """A node that reads graphs or sequences."""

    def __init__(self, builder: Builder, proto: NodeProto, place: Place) -> None:
        self.builder, self.proto, self.place = builder, proto, place
        self.scope = place.scope
        self.attributes = attributes_of(proto, builder.folder, place.given)

    def graph(self, name: str) -> GraphProto:
        graph = self.attributes.get(name)
        if not isinstance(graph, GraphProto):
            raise UnsupportedError(f"graph {name!r} is missing")
        return graph

    def run(self, graph: GraphProto, arguments: Sequence[Found]) -> list[Found]:
        """Return the outputs of a graph that sees what lies around it."""
        scope: Scope = dict(self.scope)
        for tensor in graph.initializer:
            scope[tensor.name] = Value(read_tensor(tensor, self.builder.folder))
        scope |= {each.name: value for each, value in zip(graph.input, arguments, strict=False)}
        wanted = [each.name for each in graph.output]
        own = {name for node in graph.node for name in node.output}
        nodes = sort_nodes(graph.node, set(scope) - own, wanted)
        self.builder.read_nodes(nodes, replace(self.place, scope=scope, depth=self.place.depth + 1))
        missing = [name for name in wanted if name not in scope]
        if missing:
            raise OnnxError(f"a graph in node {name_of(self.proto)!r} gives {missing[0]!r}, which nothing makes")
        return [scope[name] for name in wanted]

    def value(self, index: int) -> Found:
        name = self.proto.input[index] if index < len(self.proto.input) else ""
        if not name:
            return None
        if name not in self.scope:
            raise OnnxError(f"node {name_of(self.proto)!r} reads {name!r}, which nothing in the file makes")
        return self.scope[name]

    def has(self, index: int) -> bool:
        return index < len(self.proto.input) and bool(self.proto.input[index])

    def number(self, found: Found, what: str) -> Any:
        if found is None:
            raise _UnknownError
        if not isinstance(found, Value) or not found.is_constant:
            raise UnsupportedError(f"its {what} depends on the inputs of the graph; {CUT}")
        return found.tensor.flatten()[0].item()

    def call(self, kind: str, inputs: Sequence[Found], function: Function) -> list[Value | None]:
        """Return the outputs of a function of tensors, as if a node had it."""
        if None in inputs:
            raise _UnknownError
        values = [value for value in inputs if isinstance(value, Value)]
        if len(values) != len(inputs):
            raise UnsupportedError("a sequence in place of a tensor")
        is_folded = all(value.is_constant for value in values)
        node = Node(kind, name_of(self.proto), self.place.opset_of(""), {}, tuple(values), (), is_folded)
        return self.builder.compute(node, function)

    def give(self, outputs: Sequence[Found]) -> None:
        """Write the outputs down."""
        for name, value in zip(self.proto.output, outputs, strict=False):
            if name:
                self.scope[name] = value

    @property
    def is_unknown(self) -> bool:
        return any(name and self.scope.get(name, 0) is None for name in self.proto.input)


def _if(control: _Control) -> None:
    """One branch, if the condition is known; else both, and a choice between their outputs."""
    condition = control.value(0)
    branches = [control.graph(name) for name in ("then_branch", "else_branch")]
    if isinstance(condition, Value) and condition.is_constant:
        control.give(control.run(branches[0 if control.number(condition, "condition") else 1], ()))
        return
    pairs = list(zip(*(control.run(branch, ()) for branch in branches), strict=False))
    outputs: list[Found] = []
    for left, right in pairs:
        if left is None or right is None:
            raise _UnknownError
        shapes = [each.tensor.shape if isinstance(each, Value) else None for each in (left, right)]
        if None in shapes or shapes[0] != shapes[1]:
            raise UnsupportedError(f"its condition depends on the inputs, and its branches differ in shape; {CUT}")
        chosen = control.call("If", (condition, left, right), lambda c, a, b: torch.where(c.bool(), a, b))
        outputs.append(chosen[0])
    control.give(outputs)


def _loop(control: _Control) -> None:
    """Every turn, one after the other."""
    body = control.graph("body")
    limit = control.number(control.value(0), "number of turns") if control.has(0) else None
    goes = bool(control.number(control.value(1), "condition")) if control.has(1) else True
    carried = [control.value(index) for index in range(2, len(control.proto.input))]
    collected: list[list[Found]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    turn = 0
    while goes and (limit is None or turn < limit):
        if turn >= MAX_STEPS:
            raise UnsupportedError(f"more than {MAX_STEPS} turns")
        state = [Value(torch.tensor(turn)), Value(torch.tensor(goes))]
        found = control.run(body, [*state, *carried])
        goes = bool(control.number(found[0], "condition"))
        carried = found[1 : 1 + len(carried)]
        for column, value in zip(collected, found[1 + len(carried) :], strict=True):
            column.append(value)
        turn += 1
    stacks = [_stack(control, column, 0) for column in collected]
    control.give([*carried, *stacks])


def _stack(control: _Control, column: Sequence[Found], axis: int) -> Found:
    if not column:
        raise UnsupportedError("no turn, and an output that collects them")
    return control.call("Loop", column, lambda *tensors: torch.stack(tensors, axis))[0]


def _scan(control: _Control) -> None:
    """Every step of the sequences, one after the other; in version 8 those of each part of the batch."""
    is_old = control.place.opset_of("") < 9
    if is_old and control.has(0):
        raise UnsupportedError("sequences of other lengths than their tensors")
    first = int(is_old)  # the lengths come first
    count = int(control.attributes.get("num_scan_inputs", 0))
    states = len(control.proto.input) - count - first
    values = [control.value(index) for index in range(first, len(control.proto.input))]
    known = [each for each in values if isinstance(each, Value)]
    if len(known) != len(values) or count < 1 or states < 0:
        raise UnsupportedError(f"{len(values)} inputs, {count} of which are sequences")
    if not is_old:
        control.give(_scan_once(control, known[:states], known[states:]))
        return
    batch = known[states].tensor.shape[0]
    found: list[list[Found]] = []
    for index in range(batch):
        parts = [control.call("Scan", (each,), _select(0, index))[0] for each in known]
        part = [each for each in parts if each is not None]
        found.append(_scan_once(control, part[:states], part[states:]))
    control.give([_stack(control, column, 0) for column in zip(*found, strict=True)])


def _scan_once(control: _Control, carried: Sequence[Found], sequences: Sequence[Value]) -> list[Found]:
    """Return the states at the end, and what the steps gave."""
    body = control.graph("body")
    count, states = len(sequences), len(carried)
    collected: list[list[Found]] = [[] for _ in range(len(body.output) - states)]
    axes = control.attributes.get("scan_input_axes", [0] * count)
    backward = control.attributes.get("scan_input_directions", control.attributes.get("directions", [0] * count))
    axes = [normalize_axis(axis, each.tensor.dim()) for axis, each in zip(axes, sequences, strict=True)]
    length = sequences[0].tensor.shape[axes[0]]
    if length > MAX_STEPS:
        raise UnsupportedError(f"{length} steps; at most {MAX_STEPS} are unrolled")
    for step in range(length):
        slices = [
            control.call("Scan", (each,), _select(axis, length - 1 - step if is_back else step))[0]
            for each, axis, is_back in zip(sequences, axes, backward, strict=True)
        ]
        found = control.run(body, [*carried, *slices])
        carried = found[:states]
        for column, value in zip(collected, found[states:], strict=True):
            column.append(value)
    out_axes = control.attributes.get("scan_output_axes", [0] * len(collected))
    out_backward = control.attributes.get("scan_output_directions", [0] * len(collected))
    stacks = [
        _stack(control, column[::-1] if is_back else column, axis)
        for column, axis, is_back in zip(collected, out_axes, out_backward, strict=True)
    ]
    return [*carried, *stacks]


def _select(axis: int, index: int) -> Function:
    return lambda x: x.select(axis, index)


def _sequence(control: _Control) -> list[Value]:
    found = control.value(0)
    if not isinstance(found, list):
        raise UnsupportedError(f"{control.proto.input[0]!r} is no sequence")
    return found


def _position(control: _Control, index: int, length: int) -> int:
    position = int(control.number(control.value(index), "position"))
    if not -length <= position < max(length, 1):
        raise UnsupportedError(f"position {position} of {length}")
    return position + length if position < 0 else position


def _construct(control: _Control) -> None:
    """A sequence of tensors."""
    found = [control.value(index) for index in range(len(control.proto.input))]
    control.give([[value for value in found if isinstance(value, Value)]])


def _insert(control: _Control) -> None:
    """One tensor more."""
    values, new = list(_sequence(control)), control.value(1)
    at = len(values)
    if control.has(2):
        given = int(control.number(control.value(2), "position"))
        at = len(values) if given == len(values) else _position(control, 2, len(values))
    if isinstance(new, Value):
        values.insert(at, new)
    control.give([values])


def _erase(control: _Control) -> None:
    """One tensor less."""
    values = list(_sequence(control))
    del values[_position(control, 1, len(values)) if control.has(1) else -1]
    control.give([values])


def _at(control: _Control) -> None:
    """One tensor of a sequence."""
    values = _sequence(control)
    control.give([values[_position(control, 1, len(values))]])


def _length(control: _Control) -> None:
    """How many tensors there are."""
    control.give([Value(torch.tensor(len(_sequence(control))))])


def _join(control: _Control) -> None:
    """Tensors one after the other, or in a new axis."""
    axis, is_new = int(control.attributes.get("axis", 0)), bool(control.attributes.get("new_axis", 0))
    function = torch.stack if is_new else torch.cat
    control.give(control.call("ConcatFromSequence", _sequence(control), lambda *tensors: function(tensors, axis)))


def _split(control: _Control) -> None:
    """Parts of a tensor."""
    whole = control.value(0)
    if not isinstance(whole, Value):
        raise UnsupportedError("its input is not known")
    axis = normalize_axis(int(control.attributes.get("axis", 0)), whole.tensor.dim())
    sizes: int | list[int] = 1
    if control.has(1):
        given = control.value(1)
        control.number(given, "lengths")
        numbers = given.tensor.tolist() if isinstance(given, Value) else 1
        sizes = [int(each) for each in numbers] if isinstance(numbers, list) else int(numbers)
    is_single = not control.has(1) and not control.attributes.get("keepdims", 1)
    if is_single:
        parts = control.call("SplitToSequence", (whole,), lambda x: tuple(torch.unbind(x, axis)))
    else:
        parts = control.call("SplitToSequence", (whole,), lambda x: tuple(torch.split(x, sizes, axis)))
    control.give([[part for part in parts if part is not None]])


Read = Callable[[Builder, NodeProto, Place], None]


def _read_by(function: Callable[[_Control], None]) -> Read:
    def read(builder: Builder, proto: NodeProto, place: Place) -> None:
        control = _Control(builder, proto, place)
        if control.is_unknown:
            place.forget(proto)
            return
        try:
            function(control)
        except _UnknownError:
            place.forget(proto)

    return read


CONTROL: Final[dict[str, Read]] = {
    "ConcatFromSequence": _read_by(_join),
    "If": _read_by(_if),
    "Loop": _read_by(_loop),
    "Scan": _read_by(_scan),
    "SequenceAt": _read_by(_at),
    "SequenceConstruct": _read_by(_construct),
    "SequenceEmpty": _read_by(_construct),
    "SequenceErase": _read_by(_erase),
    "SequenceInsert": _read_by(_insert),
    "SequenceLength": _read_by(_length),
    "SplitToSequence": _read_by(_split),
}
"""Operators that read graphs or sequences."""
