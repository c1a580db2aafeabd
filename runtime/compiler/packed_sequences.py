"""Traces packed sequences through recurrent layers: padded tensors with lengths beside them.

`pack_padded_sequence` leaves out what is padded, so that its size depends on data.  For the time of a trace a packed
sequence holds the padded tensor and the lengths.  A layer runs over all steps: backwards over sequences that are each
turned around within their length, and the last states are picked at the last step of each.  An LSTM's cell is held
where a sequence has ended, by one input more that opens the forget gate and closes the input gate, both exactly.

What eager refuses (a length of 0, of more than there is, or out of order) ends the run.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from alcove.runtime.compiler.checks import PACKED
from alcove.runtime.compiler.traced_functions import zero_where
from torch import Tensor

_HOLD: Final = 1e4
"""Added to a gate, it is 0 or 1 exactly."""
_NAMES: Final = ("gru", "lstm", "rnn_tanh", "rnn_relu")
TOTAL_LENGTH: Final = (
    "pad_packed_sequence gives as many steps as the longest sequence has: say how many there are, "
    "pad_packed_sequence(..., total_length=x.shape[1])"
)


class PackedRows:
    """Stands for the data of a packed sequence: a padded tensor [steps, batch, width]."""

    def __init__(self, padded: Tensor) -> None:
        self.padded = padded
        self.dtype, self.device = padded.dtype, padded.device

    def dim(self) -> int:
        """Return what torch's layers ask for."""
        return 2

    def size(self, axis: int) -> int:
        """Return the width.

        Raises:
            ValueError: the number of rows is asked for, which depends on data.
        """
        if axis not in {-1, 1}:
            raise ValueError("the number of rows of a packed sequence depends on data")
        return self.padded.shape[-1]

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError: only layers know what to do with a packed sequence."""
        raise AttributeError(f"{name}: {PACKED}")


class _Steps(int):
    """The number of steps of the padded tensor, where eager has that of the longest sequence."""


class BatchSizes:
    """Stands for the batch sizes of a packed sequence: the length of each sequence, int64 [batch]."""

    def __init__(self, lengths: Tensor, steps: int) -> None:
        self.lengths = lengths
        self.device = torch.device("cpu")
        self._steps = steps

    def __getitem__(self, place: int) -> Any:
        """Return the first batch size, which is that of all sequences.

        Raises:
            ValueError: another one is asked for, which depends on data.
        """
        if place != 0:
            raise ValueError("the batch sizes of a packed sequence depend on data")
        return self.lengths.shape[0]

    def size(self, _axis: int) -> int:
        """Return the number of steps, marked as not that of eager."""
        return _Steps(self._steps)


def _pack(padded: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Any, Any]:
    x = padded.transpose(0, 1) if batch_first else padded
    is_right = (lengths >= 1) & (lengths <= x.shape[0])
    in_order = torch.cat([is_right, lengths[1:] <= lengths[:-1]])
    return PackedRows(x), BatchSizes(lengths + zero_where(in_order), x.shape[0])


def _pad(
    rows: PackedRows,
    sizes: BatchSizes,
    batch_first: bool,
    value: float,
    total_length: int,
) -> tuple[Tensor, Tensor]:
    if isinstance(total_length, _Steps):
        raise ValueError(TOTAL_LENGTH)  # noqa: TRY004 - no type is wrong
    steps = rows.padded.shape[0]
    made = torch.where(_is_used(sizes, steps), rows.padded, value)
    if total_length > steps:
        made = torch.cat([made, made.new_full((total_length - steps, *made.shape[1:]), value)])
    return made.transpose(0, 1) if batch_first else made, sizes.lengths


def _is_used(sizes: BatchSizes, steps: int) -> Tensor:
    """Return [steps, batch, 1]: whether a step is one of the sequence's."""
    return (torch.arange(steps)[:, None] < sizes.lengths)[:, :, None]


def _pick(x: Tensor, places: Tensor) -> Tensor:
    """Return elements of [steps, batch, width] at steps [some, batch]."""
    return x.gather(0, places[:, :, None].expand(-1, -1, x.shape[2]))


def _hold_cell(x: Tensor, is_used: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return an input and its weights [4 hidden, inputs] with one input more: 1 where the cell keeps its value."""
    hidden = weight.shape[0] // 4
    column = torch.cat([torch.full((hidden,), -_HOLD), torch.full((hidden,), _HOLD), torch.zeros(2 * hidden)])
    return torch.cat([x, (~is_used).to(x.dtype)], 2), torch.cat([weight, column[:, None]], 1)


def _layer(name: str, rows: PackedRows, sizes: BatchSizes, hx: Any, weights: Sequence[Tensor], *rest: Any) -> Any:
    """Stand for torch's function of a packed sequence: return its output and the last states."""
    has_biases, layers, dropout, train, bidirectional = rest
    operator = getattr(torch.ops.alcove, name)
    states = list(hx) if name == "lstm" else [hx]
    x, steps = rows.padded, rows.padded.shape[0]
    is_used = _is_used(sizes, steps)
    at = torch.arange(steps)[:, None]
    turned = torch.where(at < sizes.lengths, sizes.lengths - 1 - at, at)
    directions = 2 if bidirectional else 1
    count = len(weights) // (layers * directions)
    last: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            group = list(weights[place * count : (place + 1) * count])
            before = [state[place : place + 1] for state in states]
            z = _pick(x, turned) if direction else x
            if name == "lstm":
                z, group[0] = _hold_cell(z, is_used, group[0])
            first = before if name == "lstm" else before[0]
            y, *after = operator(z, first, group, has_biases, 1, dropout, train, False, False)
            last[0].append(_pick(y, sizes.lengths[None] - 1))
            for kept, state in zip(last[1:], after[1:], strict=True):
                kept.append(state)
            y = _pick(y, turned) if direction else y
            outputs.append(torch.where(is_used, y, 0.0))
        x = torch.cat(outputs, 2) if bidirectional else outputs[0]
    return PackedRows(x), *(torch.cat(kept) for kept in last)


def _choose_packed(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        is_packed = isinstance(arguments[0], PackedRows)
        return _layer(name, *arguments) if is_packed else plain(*arguments)

    return call


@contextlib.contextmanager
def trace_packed_sequences() -> Iterator[None]:
    """Let packed sequences be traced, within `keep_composite_ops`; one thread at a time."""
    functions: Any = torch._VF  # noqa: SLF001 - what the layers call has no public name
    before = {name: getattr(functions, name) for name in _NAMES}
    for name, plain in before.items():
        setattr(functions, name, _choose_packed(plain, name))
    functions._pack_padded_sequence = _pack  # noqa: SLF001 - see above
    functions._pad_packed_sequence = _pad  # noqa: SLF001 - see above
    try:
        yield
    finally:
        for name, plain in before.items():
            setattr(functions, name, plain)
        for name in ("_pack_padded_sequence", "_pad_packed_sequence"):
            delattr(functions, name)  # what was there before is found behind it
