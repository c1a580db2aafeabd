"""Exported cond, while_loop, map and scan agree with eager, step by step, or are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn
from torch._higher_order_ops import cond
from torch._higher_order_ops import while_loop as torch_while_loop
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan

while_loop: Any = torch_while_loop  # it has no types


class Of(nn.Module):
    """A function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        """Run."""
        return self.function(x, y)


def compare(function: Callable[..., Any], *samples: tuple[Tensor, Tensor]) -> None:
    """Compare a program with eager on each sample."""
    module = Of(function)
    program = load(bytes(export(module, samples[0])))
    for x, y in samples:
        wanted = module(x, y)
        for got, tensor in zip(
            program(x.numpy(), y.numpy()), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
        ):
            np.testing.assert_allclose(got, tensor.numpy(), rtol=1e-5, atol=1e-6)


X = torch.tensor([0.5, -1.0, 2.0, 0.25])


def test_cond_chooses_a_side() -> None:
    """Sides within sides."""
    compare(
        lambda x, y: cond(
            x.sum() > 0,
            lambda x, y: cond(y[0] > 1, lambda x, y: x * 3, lambda x, y: y * 4, (x, y)),
            lambda x, y: x - y.max(),
            (x, y),
        ),
        (X, X),
        (X, X + 1),
        (-X, X),
    )


def test_side_that_is_not_chosen_stops_nothing() -> None:
    """An index or a divisor of the other side that eager never sees; the chosen side's stops the run."""

    def rows(x: Tensor, y: Tensor) -> Any:
        return cond(y.sum() < 0, lambda x, y: x[y + 77], lambda x, y: x[y], (x, y))

    def quotients(x: Tensor, y: Tensor) -> Any:
        return cond((y == 0).any(), lambda x, y: y + 1, lambda x, y: 7 // y, (x, y))

    places = torch.tensor([0, 3, 2, 1])
    compare(rows, (X, places))
    compare(quotients, (X, places), (X, places + 1))
    program = load(bytes(export(Of(rows), (X, places))))
    with pytest.raises(InputError):
        program(X.numpy(), (-places).numpy())


def test_loop_of_known_length_is_written_out() -> None:
    """Counted by a number."""
    compare(lambda x, y: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * i), (1, x))[1] + y, (X, X))


def test_loop_with_a_bound_ends_where_the_data_say() -> None:
    """After no step, some, and after all that the bound allows; later steps stop nothing."""
    steps = torch.tensor(0)

    def rows(x: Tensor, y: Tensor) -> Any:
        return while_loop(
            lambda i, total: (i < 4) & (i < y[0]),
            lambda i, total: (i + 1, total + x.index_select(0, i.reshape(1) + 4 - y[0])),
            (steps.clone(), torch.zeros(1)),
        )[1]

    compare(rows, (X, torch.tensor([2])), (X, torch.tensor([4])), (X, torch.tensor([1])), (X, torch.tensor([0])))


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x, y: while_loop(lambda x: x.sum() < 90, lambda x: (x * 1.5,), (x,))[0], "256 steps"),
        (lambda x, y: torch_map(lambda a, b: a * b, torch.ones(300) * x[0], y), "at most 256 steps"),
    ],
)
def test_loop_without_a_bound_is_refused(function: Callable[..., Any], word: str) -> None:
    """With a finding that says how to give it one."""
    with pytest.raises(ExportError, match=word):
        export(Of(function), (X, X))


def test_map_and_scan_run_for_each_slice() -> None:
    """A slice after the other, or the last one first."""
    rows = torch.randn(6, 4)
    compare(lambda x, y: torch_map(lambda a, b: a * b + 1, x, y), (rows, X))
    compare(lambda x, y: scan(lambda c, a: (c + a, c * a), y, x, reverse=True), (rows, X))
