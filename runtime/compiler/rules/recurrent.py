"""Lowers recurrent layers and cells: one op for each layer and direction, its weights in panels.

A parameter of torch's layers keeps its name: the panels are called "gru.weight_ih_l0+gru.bias_ih_l0".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.pack import joined_name
from alcove.runtime.compiler.panels import panels
from alcove.runtime.compiler.rules.matmul import FLOAT_ONLY
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import GruAttributes, LstmAttributes, RnnAttributes
from alcove.runtime.format.spec import DType, Layout

Recurrent: TypeAlias = RnnAttributes | GruAttributes | LstmAttributes
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True)
class _Weights:
    """Of one layer in one direction: weights [gates * hidden, inputs], biases of as many, or None."""

    w_input: Value
    w_state: Value
    b_input: Value | None = None
    b_state: Value | None = None
    projection: Value | None = None


def _panels(b: Builder, weight: Value, bias: Value | None) -> Value:
    """Return the PANEL16 constant of a weight [n, k] and its bias; one for all steps that share them."""
    if weight.constant is None or (bias is not None and bias.constant is None):
        raise Refused("weights that are parameters, or follow from parameters alone")
    key = f"{weight.key}+{'' if bias is None else bias.key}:panels"
    if key in b.values:
        return b.values[key]
    name = joined_name(weight, b.zeros(weight.shape[0]) if bias is None else bias)
    packed = panels(weight.array, None if bias is None else bias.array)
    return b.add(Value(key, name, DType.F32, weight.shape, constant=packed, layout=Layout.PANEL16))


def _layer(
    b: Builder, kind: str, x: Value, states: Sequence[Value], weights: _Weights, *, attributes: Recurrent
) -> tuple[Value, ...]:
    """Add one layer in one direction.

    Args:
        b: the graph in the making.
        kind: "rnn", "gru" or "lstm".
        x: f32 [steps, batch, inputs].
        states: f32 [batch, width], for an lstm also the cell [batch, hidden].
        weights: its constants.
        attributes: the op's.

    Returns:
        The output [steps, batch, width], then the last states.
    """
    if any(value.dtype is not DType.F32 for value in (x, *states, weights.w_input)):
        raise Refused(FLOAT_ONLY)
    steps, batch, _ = x.shape
    hidden = weights.w_input.shape[0] // GATES[kind]
    width = states[0].shape[1]
    inputs = [x, *states, _panels(b, weights.w_input, weights.b_input), _panels(b, weights.w_state, weights.b_state)]
    if weights.projection is not None:
        inputs.append(_panels(b, weights.projection, None))
    is_projected = int(weights.projection is not None)
    scratch = scratch_bytes(kind, steps=steps, batch=batch, hidden=hidden, is_projected=is_projected)
    shapes = [(steps, batch, width), *(state.shape for state in states)]
    outputs = [*((DType.F32, shape) for shape in shapes), (DType.U8, (scratch,))]
    return b.ops(kind, inputs, outputs, attributes)[:-1]


def _attributes(call: Call, kind: str, direction: int) -> Recurrent:
    if kind == "gru":
        return GruAttributes(is_reversed=direction)
    if kind == "lstm":
        return LstmAttributes(is_reversed=direction)
    return RnnAttributes(is_reversed=direction, is_relu=int("rnn_relu" in call.target))


def _group_weights(call: Call, *, has_projection: bool) -> list[_Weights]:
    """Return the weights of each layer and direction, in torch's order."""
    count = 2 + 2 * int(call["has_biases"]) + int(has_projection)
    flat = call.tensors("params")
    groups = []
    for start in range(0, len(flat), count):
        group = flat[start : start + count]
        projection = group.pop() if has_projection else None
        w_input, w_state, *biases = group
        b_input, b_state = biases or (None, None)
        groups.append(_Weights(w_input, w_state, b_input, b_state, projection))
    return groups


def _layers(call: Call, b: Builder, kind: str, states: Sequence[Value]) -> tuple[Value, ...]:
    """Return the output and the last states of all layers in their directions.

    Args:
        call: with input, params, has_biases, num_layers, dropout, train, bidirectional and batch_first.
        b: the graph in the making.
        kind: "rnn", "gru" or "lstm".
        states: f32 [layers * directions, batch, width] each.
    """
    if call["train"] and call["dropout"] > 0:
        raise Refused("module.eval() before export: dropout between layers is for training")
    if 0 in call.tensor("input").shape:
        raise Refused("sequences with elements")
    x = b.permute(call.tensor("input"), (1, 0, 2)) if call["batch_first"] else call.tensor("input")
    has_projection = kind == "lstm" and states[0].shape[2] != states[1].shape[2]
    groups = _group_weights(call, has_projection=has_projection)
    directions = 2 if call["bidirectional"] else 1
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(call["num_layers"]):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            before = [b.reshape(b.slice(state, 0, place, place + 1), state.shape[1:]) for state in states]
            y, *after = _layer(b, kind, x, before, groups[place], attributes=_attributes(call, kind, direction))
            outputs.append(y)
            for kept, state in zip(last, after, strict=True):
                kept.append(b.reshape(state, (1, *state.shape)))
        x = b.concat(outputs, 2)
    output = b.permute(x, (1, 0, 2)) if call["batch_first"] else x
    return output, *(b.concat(kept, 0) for kept in last)


@rule("alcove.gru.default")
@rule("aten.gru.input", keep=True)
def gru(call: Call, b: Builder) -> tuple[Value, ...]:
    """Layers, directions, with or without biases."""
    return _layers(call, b, "gru", [call.tensor("hx")])


@rule("alcove.lstm.default")
@rule("aten.lstm.input", keep=True)
def lstm(call: Call, b: Builder) -> tuple[Value, ...]:
    """Layers, directions, with or without biases and projections."""
    return _layers(call, b, "lstm", call.tensors("hx"))


@rule("alcove.rnn_tanh.default", "alcove.rnn_relu.default")
@rule("aten.rnn_tanh.input", "aten.rnn_relu.input", keep=True)
def rnn(call: Call, b: Builder) -> tuple[Value, ...]:
    """Layers, directions, with or without biases."""
    return _layers(call, b, "rnn", [call.tensor("hx")])


# -- cells: one step of a layer ---------------------------------------------------------------------------------------


def _cell(call: Call, b: Builder, kind: str, states: Sequence[Value]) -> tuple[Value, ...]:
    """Return the states after one step over input [batch, inputs]."""
    x = call.tensor("input")
    biases = (call.optional("b_ih"), call.optional("b_hh"))
    weights = _Weights(call.tensor("w_ih"), call.tensor("w_hh"), *biases)
    return _layer(b, kind, b.reshape(x, (1, *x.shape)), states, weights, attributes=_attributes(call, kind, 0))[1:]


@rule("aten.gru_cell.default", keep=True)
def gru_cell(call: Call, b: Builder) -> Value:
    """One step of a GRU."""
    return _cell(call, b, "gru", [call.tensor("hx")])[0]


@rule("aten.lstm_cell.default", keep=True)
def lstm_cell(call: Call, b: Builder) -> tuple[Value, ...]:
    """One step of an LSTM."""
    return _cell(call, b, "lstm", call.tensors("hx"))


@rule("aten.rnn_tanh_cell.default", "aten.rnn_relu_cell.default", keep=True)
def rnn_cell(call: Call, b: Builder) -> Value:
    """One step of a plain recurrent layer."""
    return _cell(call, b, "rnn", [call.tensor("hx")])[0]
