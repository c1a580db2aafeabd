"""Rules of recurrent layers: torch's own where they compute the same, else step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.limits import MAX_STEPS
from alcove.platform.cli.importing.onnx_files.node import Call, Node, rule
from alcove.platform.cli.importing.onnx_files.rules.quantized_layers import round_to_levels
from torch import Tensor

GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
ORDER: Final = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
"""Of torch's gates, among those of ONNX: GRU reset, update, new; LSTM input, forget, cell, output."""
DEFAULTS: Final = {"RNN": ["tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}


@dataclass(frozen=True)
class Layer:
    """A recurrent layer of the file.

    Attributes:
        kind: RNN, GRU or LSTM.
        hidden: size of its state.
        directions: 1 or 2.
        is_backward: of a layer with one direction.
        batch_first: whether the batch comes before the time.
        activations: of one direction after the other, by small names.
        slopes: alpha and beta of each activation.
        clip: bound of what activations take, or None.
        resets_after: of a GRU, whether the reset gate works on the product with the state.
        couples: of an LSTM, whether the forget gate is what the input gate leaves.
        rounds: whether what its matrices take is rounded to 256 levels of its own range.
        has_lengths: whether sequences end before the tensor does.
    """

    kind: str
    hidden: int
    directions: int
    is_backward: bool
    batch_first: bool
    activations: tuple[str, ...]
    slopes: tuple[tuple[float | None, float | None], ...]
    clip: float | None
    resets_after: bool
    couples: bool
    rounds: bool = False
    has_lengths: bool = False

    @property
    def is_torch(self) -> bool:
        """Whether torch has a layer that computes the same, without peepholes."""
        names = DEFAULTS[self.kind] * self.directions
        is_plain = list(self.activations) == names or (
            self.kind == "RNN" and list(self.activations) == ["relu"] * self.directions
        )
        is_alone = self.clip is None and not (self.couples or self.rounds or self.has_lengths)
        return is_plain and is_alone and (self.kind != "GRU" or self.resets_after)


def _layer(node: Node) -> Layer:
    kind = node.kind.removeprefix("com.microsoft.DynamicQuantize")
    direction = node.text_of("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    default = DEFAULTS[kind] * directions
    names = [str(each).lower() for each in node.attributes.get("activations", [])] or default
    alphas, betas = node.attributes.get("activation_alpha", []), node.attributes.get("activation_beta", [])
    slopes = [(_at(alphas, index), _at(betas, index)) for index in range(len(names))]
    if len(names) != len(default) or any(name not in ACTIVATIONS for name in names):
        raise UnsupportedError(f"activations {names}")
    return Layer(
        kind,
        node.shape(2)[2] if kind == node.kind else node.shape(2)[1],
        directions,
        direction == "reverse",
        bool(node.int_of("layout")),
        tuple(names),
        tuple(slopes),
        node.float_of("clip") if "clip" in node.attributes else None,
        bool(node.int_of("linear_before_reset")),
        bool(node.int_of("input_forget")),
        kind != node.kind,
        _has_lengths(node),
    )


def _at(numbers: Sequence[float], index: int) -> float | None:
    return float(numbers[index]) if index < len(numbers) else None


def _with_slopes(default: float, function: Callable[[Tensor, float, float], Tensor], other: float = 0.0) -> Any:
    return lambda x, alpha, beta: function(x, default if alpha is None else alpha, other if beta is None else beta)


ACTIVATIONS: Final[dict[str, Callable[[Tensor, float | None, float | None], Tensor]]] = {
    "sigmoid": lambda x, _alpha, _beta: torch.sigmoid(x),
    "tanh": lambda x, _alpha, _beta: torch.tanh(x),
    "relu": lambda x, _alpha, _beta: torch.relu(x),
    "softsign": lambda x, _alpha, _beta: F.softsign(x),
    "softplus": lambda x, _alpha, _beta: F.softplus(x),
    "affine": _with_slopes(1.0, lambda x, a, b: x * a + b),
    "leakyrelu": _with_slopes(0.01, lambda x, a, _b: F.leaky_relu(x, a)),
    "thresholdedrelu": _with_slopes(1.0, lambda x, a, _b: F.threshold(x, a, 0.0)),
    "elu": _with_slopes(1.0, lambda x, a, _b: F.elu(x, a)),
    "hardsigmoid": _with_slopes(0.2, lambda x, a, b: torch.clamp(x * a + b, 0.0, 1.0), 0.5),
    "scaledtanh": _with_slopes(1.0, lambda x, a, b: a * torch.tanh(b * x), 1.0),
}


@rule("LSTM", "GRU", "RNN", "com.microsoft.DynamicQuantizeLSTM")
def recurrent(node: Node) -> Call:
    """A layer with one or two directions, over all steps."""
    layer = _layer(node)
    weights = _weights(node, layer)
    gates = GATES[layer.kind]
    bias = node.constant(3, "bias").float() if node.has(3) else torch.zeros(layer.directions, 2 * gates * layer.hidden)
    peepholes = node.constant(7, "peepholes").float() if layer.kind == "LSTM" and node.has(7) else None
    if peepholes is not None and not bool(peepholes.any()):
        peepholes = None
    steps = node.shape()[1 if layer.batch_first else 0]
    batch = node.shape()[0 if layer.batch_first else 1]
    if layer.is_torch and peepholes is None:
        extras = _torch_weights(layer, weights[0], weights[1], bias)
        run = _run_torch(layer, len(extras))
    else:
        if steps > MAX_STEPS:
            raise UnsupportedError(f"{steps} steps of a layer that torch has not; at most {MAX_STEPS} are unrolled")
        extras = (weights[0], weights[1], bias, *(() if peepholes is None else (peepholes,)))
        run = _run_steps(layer, len(extras), has_peepholes=peepholes is not None)
    count = len(node.inputs)
    has_states = node.has(5), layer.kind == "LSTM" and node.has(6)

    def function(*given: Tensor | None) -> tuple[Tensor, ...]:
        x = given[0]
        assert x is not None  # noqa: S101 - the schema has it
        states = []
        for index, is_there in zip((5, 6), has_states, strict=True):
            state = given[index] if is_there and index < count else None
            if state is None:
                state = x.new_zeros((layer.directions, batch, layer.hidden))
            elif layer.batch_first:
                state = state.transpose(0, 1)
            states.append(state)
        lengths = given[4] if layer.has_lengths else None
        y, hidden, cell = run(x.transpose(0, 1) if layer.batch_first else x, states, given[count:], lengths)
        # [steps, batch, directions * hidden] to [steps, directions, batch, hidden]
        y = y.reshape(steps, batch, layer.directions, layer.hidden)
        if layer.batch_first:
            found = [y.permute(1, 0, 2, 3), hidden.transpose(0, 1), cell.transpose(0, 1)]
        else:
            found = [y.permute(0, 2, 1, 3), hidden, cell]
        return tuple(found if layer.kind == "LSTM" else found[:2])

    unused = {1, 2, 3, 7, *range(8, 12)} | (set() if layer.has_lengths else {4})
    return Call(function, extras, frozenset(unused))


def _weights(node: Node, layer: Layer) -> list[Tensor]:
    """Return both matrices of each direction, [directions, gates * hidden, inputs], in float32."""
    found = [node.constant(index, "weights").float() for index in (1, 2)]
    if not layer.rounds:
        return found
    for index, (scale, zero) in enumerate(((8, 9), (10, 11))):
        factor = node.constant(scale, "scales").float().reshape(layer.directions, 1, -1)
        point = node.constant(zero, "zero points").float().reshape(layer.directions, 1, -1)
        found[index] = ((found[index] - point) * factor).transpose(1, 2).contiguous()
    return found


def _has_lengths(node: Node) -> bool:
    """Return whether sequences may end before the tensor does."""
    value = node.value(4)
    steps = node.shape()[1 if node.int_of("layout") else 0]
    return value is not None and not (value.is_constant and all(n == steps for n in node.integers(4, "lengths")))


def _torch_weights(layer: Layer, inner: Tensor, outer: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    """Return the weights in torch's order, four tensors a direction."""
    order = ORDER[layer.kind]
    found: list[Tensor] = []
    for direction in range(layer.directions):
        halves = bias[direction].chunk(2)
        for matrix in (inner[direction], outer[direction], *halves):
            parts = matrix.chunk(len(order))
            found.append(torch.cat([parts[index] for index in order]).contiguous())
    return tuple(found)


Run = Callable[[Tensor, Sequence[Tensor], Sequence[Any], Tensor | None], tuple[Tensor, Tensor, Tensor]]


def _run_torch(layer: Layer, count: int) -> Run:
    is_both = layer.directions == 2

    def run(
        x: Tensor, states: Sequence[Tensor], weights: Sequence[Any], _lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        flat = list(weights[len(weights) - count :])
        x = x.flip(0) if layer.is_backward else x
        if layer.kind == "LSTM":
            y, hidden, cell = torch.lstm(x, list(states), flat, True, 1, 0.0, False, is_both, False)
        else:
            relu = layer.kind == "RNN" and layer.activations[0] == "relu"
            function: Any = torch.gru if layer.kind == "GRU" else torch.rnn_relu if relu else torch.rnn_tanh
            y, hidden = function(x, states[0], flat, True, 1, 0.0, False, is_both, False)
            cell = hidden
        return y.flip(0) if layer.is_backward else y, hidden, cell

    return run


def _run_steps(layer: Layer, count: int, *, has_peepholes: bool) -> Run:
    def run(
        x: Tensor, states: Sequence[Tensor], weights: Sequence[Any], lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        own = weights[len(weights) - count :]
        x = round_to_levels(x) if layer.rounds else x
        found: list[Tensor] = []
        ends: list[tuple[Tensor, Tensor]] = []
        for direction in range(layer.directions):
            back = layer.is_backward or direction == 1
            cell = _Cell(layer, direction, own[:3], own[3] if has_peepholes else None)
            hidden, memory = states[0][direction], states[1][direction]
            gates = cell.product(x)
            rows: list[Tensor] = []
            for step in reversed(range(x.shape[0])) if back else range(x.shape[0]):
                new, kept = cell.step(gates[step], round_to_levels(hidden) if layer.rounds else hidden, memory)
                if lengths is None:
                    hidden, memory = new, kept
                    rows.append(hidden)
                    continue
                is_inside = (lengths > step)[:, None]
                hidden, memory = torch.where(is_inside, new, hidden), torch.where(is_inside, kept, memory)
                rows.append(torch.where(is_inside, new, torch.zeros_like(new)))
            found.append(torch.stack(rows[::-1] if back else rows))
            ends.append((hidden, memory))
        return torch.cat(found, -1), torch.stack([h for h, _ in ends]), torch.stack([c for _, c in ends])

    return run


class _Cell:
    """One direction of a layer, computed as ONNX defines it."""

    def __init__(self, layer: Layer, direction: int, weights: Sequence[Tensor], peepholes: Tensor | None) -> None:
        self.layer = layer
        inner, outer, bias = weights
        self.inner, self.outer = inner[direction], outer[direction]
        self.bias, self.recurrent_bias = bias[direction].chunk(2)
        # Parts of a GRU's weights are taken once: a program holds what each step takes anew as often as it is taken.
        two = 2 * layer.hidden
        self.gates, self.gate_shift = self.outer[:two], self.recurrent_bias[:two]
        self.new, self.new_shift = self.outer[two:], self.recurrent_bias[two:]
        self.peepholes = None if peepholes is None else peepholes[direction].chunk(3)
        self.first = direction * len(DEFAULTS[layer.kind])

    def activate(self, index: int, x: Tensor) -> Tensor:
        """Return an activation of what is clipped before."""
        layer = self.layer
        x = x if layer.clip is None else torch.clamp(x, -layer.clip, layer.clip)
        place = self.first + index
        return ACTIVATIONS[layer.activations[place]](x, *layer.slopes[place])

    def product(self, x: Tensor) -> Tensor:
        """Return what the inputs of all steps give to the gates."""
        return F.linear(x, self.inner, self.bias)

    def step(self, gates: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next state, by what the inputs of the step give to the gates."""
        if self.layer.kind == "GRU":
            return self._gru(gates, hidden), memory
        gates = gates + F.linear(hidden, self.outer, self.recurrent_bias)
        if self.layer.kind == "RNN":
            return self.activate(0, gates), memory
        return self._lstm(gates, memory)

    def _gru(self, gates: Tensor, hidden: Tensor) -> Tensor:
        size = self.layer.hidden
        two = gates[:, : 2 * size] + F.linear(hidden, self.gates, self.gate_shift)
        update, reset = self.activate(0, two).chunk(2, -1)
        if self.layer.resets_after:
            more = reset * F.linear(hidden, self.new, self.new_shift)
        else:
            more = F.linear(reset * hidden, self.new, self.new_shift)
        new = self.activate(1, gates[:, 2 * size :] + more)
        return (1 - update) * new + update * hidden

    def _lstm(self, gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        enter, leave, forget, cell = gates.chunk(4, -1)
        if self.peepholes is not None:
            enter, forget = enter + self.peepholes[0] * memory, forget + self.peepholes[2] * memory
        opened = self.activate(0, enter)
        kept = 1 - opened if self.layer.couples else self.activate(0, forget)
        memory = kept * memory + opened * self.activate(1, cell)
        if self.peepholes is not None:
            leave = leave + self.peepholes[1] * memory
        return self.activate(0, leave) * self.activate(2, memory), memory
