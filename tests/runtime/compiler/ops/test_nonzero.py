"""Rows that are found by `nonzero` and `torch.where(mask)` are read, written and added as eager mode does it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn
from torch.export import Dim

Agrees = Callable[..., None]


def rows(x: Tensor) -> Tensor:
    """Return which rows begin with a number above 0."""
    return (x[:, 0] > 0).nonzero().squeeze(1)


def write(x: Tensor) -> Tensor:
    """Return `x` with rows and elements written in place."""
    x = x.clone()
    places = rows(x)
    x[places] = x[places] * 2
    x[torch.where(x[:, 1] > 0)[0]] += 1
    x[places, 0] = 7.0
    marks = torch.argwhere(x > 1)
    x[marks[:, 0], marks[:, 1]] *= -1
    return x


def test_rows_are_read_written_and_added(agrees: Agrees) -> None:
    """By one number or several, in any dimension, of any type; numbers that are computed are still numbers."""
    agrees(
        {
            "written": write,
            "added": lambda x: torch.ones(4, 3).index_add(0, rows(x), x[rows(x)] * 2),
            "columns": lambda x: torch.ones(4, 3).index_add(1, rows(x.T), x[:, rows(x.T)], alpha=3),
            "computed": lambda x: x.index_put((rows(x) - 1,), x[rows(x)]),
            "counted": lambda x: torch.zeros(2, 2).index_put(
                tuple(place // 2 for place in torch.where(x[:, :3] > 0)), torch.ones(()), accumulate=True
            ),
            "beside another": lambda x: x.index_put((torch.arange(4)[:, None], rows(x.T)), x[:, rows(x.T)] + 1),
            "bools": lambda x: (x > 0).index_put((rows(x),), torch.tensor(True)),
            "sums": lambda x: (torch.nonzero(x > 0).sum(0), torch.nonzero(x).float().mean(0)),
            "count": lambda x: x.sum() / rows(x).shape[0],
        },
        torch.tensor([[1.0, -1.0, 2.0], [-1.0, 1.0, 0.0], [2.0, 0.5, -0.5], [-2.0, -1.0, -3.0]]),
    )


class Experts(nn.Module):
    """A mixture of experts, as it is written most often: each expert gets the tokens that were routed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        tokens = x.view(-1, 4)
        weights, chosen = self.gate(tokens).softmax(-1).topk(2)
        masks = F.one_hot(chosen, 3).permute(2, 1, 0)
        result = torch.zeros_like(tokens)
        for mask, expert in zip(masks, self.experts, strict=True):
            place, token = torch.where(mask)
            made = expert(tokens[None, token].reshape(-1, 4)) * weights[token, place, None]
            result.index_add_(0, token, made)
        return result.view_as(x)


def test_experts_take_the_tokens_that_are_routed_to_them() -> None:
    """At every size of a batch."""
    module = Experts().eval()
    shapes = ({0: Dim("batch", min=1, max=4), 1: Dim("steps", min=1, max=3)},)
    model = load(bytes(export(module, (torch.randn(2, 2, 4),), dynamic_shapes=shapes)))
    for batch in range(1, 5):
        for steps in range(1, 4):
            x = torch.randn(batch, steps, 4)
            with torch.no_grad():
                np.testing.assert_allclose(model(x.numpy())[0], module(x).numpy(), rtol=1e-4, atol=1e-5)


class Of(nn.Module):
    """A module made of a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return self.function(x)


def test_a_number_out_of_range_ends_the_run_where_it_is_picked() -> None:
    """And nowhere else."""
    module = Of(lambda x: x.index_put((rows(x) + 1,), x[rows(x)])).eval()
    model = load(bytes(export(module, (torch.tensor([[1.0], [-1.0]]),))))
    assert model(np.array([[1], [-1]], np.float32))[0].tolist() == [[1], [1]]
    with pytest.raises(InputError):
        model(np.array([[1], [1]], np.float32))


@pytest.mark.parametrize(
    "function",
    [
        torch.nonzero,
        lambda x: rows(x)[0],
        lambda x: x[rows(x)].topk(1).values,
        lambda x: x.index_put((rows(x),), x[rows(-x)]),
        lambda x: torch.cat([x[rows(x)], x]).sum(),
    ],
)
def test_what_depends_on_how_many_there_are_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    """With what to do instead."""
    with pytest.raises(ExportError, match="depends on data"):
        export(Of(function).eval(), (torch.tensor([[1.0], [-1.0]]),))
