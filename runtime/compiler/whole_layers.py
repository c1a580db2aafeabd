"""How are recurrent layers traced as one operator each?

Torch traces them step by step, so that tracing takes as long as the sequence and fixes its length.  For the time of a
trace the functions that torch.nn's layers call are replaced by operators that know the shapes of their results;
computing, they are torch's own.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import torch
from torch import Tensor

_STATES: Final = {"gru": 1, "lstm": 2, "rnn_tanh": 1, "rnn_relu": 1}
"""Torch's functions, with the number of states that a layer has."""

_LIBRARY: Final[Any] = cast("Any", torch.library).Library("alcove", "FRAGMENT")  # torch has no types for it
_BIASES: Final = 3
"""Position of `has_biases`; for packed sequences another argument stands there."""


def _register(name: str, states: int) -> None:
    """Define alcove::<name> with the parameters of torch's aten::<name>.input."""
    hx = "Tensor hx" if states == 1 else "Tensor[] hx"
    results = ", ".join(["Tensor"] * (1 + states))
    _LIBRARY.define(
        f"{name}(Tensor input, {hx}, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
        f"bool bidirectional, bool batch_first) -> ({results})"
    )
    plain = getattr(torch.ops.aten, name).input

    def compute(*arguments: Any) -> tuple[Tensor, ...]:
        return tuple(result.contiguous() for result in plain(*arguments))

    def shapes(*arguments: Any) -> tuple[Tensor, ...]:
        x, hx, bidirectional = arguments[0], arguments[1], arguments[-2]
        last = [hx] if isinstance(hx, Tensor) else hx
        width = last[0].shape[2] * (2 if bidirectional else 1)
        return x.new_empty((*x.shape[:2], width)), *(torch.empty_like(state) for state in last)

    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"alcove::{name}", shapes, lib=_LIBRARY)


for _name, _states in _STATES.items():
    _register(_name, _states)


def _whole(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return alcove's operator in place of torch's function, but for packed sequences."""
    operator = getattr(torch.ops.alcove, name)

    def call(*arguments: Any) -> Any:
        return (operator if isinstance(arguments[_BIASES], bool) else plain)(*arguments)

    return call


@contextlib.contextmanager
def whole_layers() -> Iterator[None]:
    """Let torch.nn's recurrent layers call one operator each; not for two threads at a time."""
    functions: Any = torch._VF  # noqa: SLF001 - what the layers call has no public name
    for name in _STATES:
        setattr(functions, name, _whole(getattr(functions, name), name))
    try:
        yield
    finally:
        for name in _STATES:
            delattr(functions, name)  # what was there before is found behind it
