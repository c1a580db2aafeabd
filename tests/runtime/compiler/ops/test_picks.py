"""What a mask picks is computed as the whole tensor with the mask beside it, or refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn
from torch.export import Dim

Agrees = Callable[..., None]


def put(x: Tensor, index: Any, value: Any) -> Tensor:
    """Return a copy with a place written."""
    x = x.clone()
    x[index] = value
    return x


class Of(nn.Module):
    """A function of a tensor and what makes its mask."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        """Run."""
        return self.function(x, y)


def test_picked_places_are_changed_and_written_back(agrees: Agrees) -> None:
    """Elementwise, rows through layers, under a mask that is computed twice, over some dimensions or all."""
    weight = torch.randn(3, 3)
    agrees(
        {
            "number": lambda x, y, i: put(x, y > 0, x[y > 0] + 1),
            "layers": lambda x, y, i: put(x, y > 0, F.layer_norm(torch.relu(x[y > 0] @ weight), (3,))),
            "columns": lambda x, y, i: put(x, (slice(None), y[0] > 0), x[:, y[0] > 0].softmax(1)),
            "where": lambda x, y, i: put(y, y > 0, torch.where(y[y > 0] > 0.5, y[y > 0], 0.0)),
            "rows of a table": lambda x, y, i: put(x, i < 3, weight[i[i < 3]]),
            "quotient": lambda x, y, i: put(i, i > 0, 7 // i[i > 0]),
        },
        torch.randn(4, 5, 3),
        torch.randn(4, 5),
        torch.randint(0, 9, (4, 5)),
    )


def test_picked_places_are_summed_up(agrees: Agrees) -> None:
    """Sums, means, spreads and counts leave the other places out, though those hold infinities; of none as in eager."""
    x = torch.randn(4, 5, 3)
    x[0, 0, 0] = torch.inf
    y = torch.randn(4, 5)
    y[0, 0] = -1
    y[1, 1] = 1
    y[2, 2] = 2
    agrees(
        {
            "sum": lambda x, y: (x[y > 0].sum(), x[:, y[2] > 0].sum(1)),
            "mean": lambda x, y: (x[y > 0].mean(0), x[y > 0].mean(1).sum(), x[y > 99].mean()),
            "spread": lambda x, y: x[y > 0].std(),
            "count": lambda x, y: x[y > 0].sum(0) / x[y > 0].shape[0],
            "truth": lambda x, y: (x[y > 0] > -9).all(0),
            "weighted": lambda x, y: (x[y > 0] * y[y > 0].softmax(0)[:, None]).sum(0),
        },
        x,
        y,
    )


def test_greatest_of_nothing_is_an_error() -> None:
    """The greatest of what a mask picks is that of eager, and where it picks nothing both stop."""
    program = load(bytes(export(Of(lambda x, y: x[y > 0].max()), (torch.randn(4, 3), torch.randn(4)))))
    x, y = torch.randn(4, 3), torch.tensor([1.0, -1.0, 2.0, -1.0])
    assert program(x.numpy(), y.numpy())[0] == x[y > 0].max()
    with pytest.raises(InputError):
        program(x.numpy(), -y.abs().numpy())


def test_module_that_asserts_a_pick_stops_where_it_picks_nothing() -> None:
    """The assertion holds in a program too, and others than that are refused."""

    def nonempty(x: Tensor, y: Tensor) -> Tensor:
        torch._check(x[y > 0].shape[0] != 0)  # type: ignore[no-untyped-call]
        return x.sum()

    def few(x: Tensor, y: Tensor) -> Tensor:
        torch._check(x[y > 0].shape[0] <= 2)  # type: ignore[no-untyped-call]
        return x.sum()

    program = load(bytes(export(Of(nonempty), (torch.randn(4), torch.randn(4)))))
    assert program(torch.ones(4).numpy(), torch.ones(4).numpy())[0] == 4
    with pytest.raises(InputError):
        program(torch.ones(4).numpy(), (-torch.ones(4)).numpy())
    with pytest.raises(ExportError, match="asserts"):
        export(Of(few), (torch.randn(4), torch.randn(4)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x[y > 0],
        lambda x, y: put(x, y > 0, x[y > 0].flip(0)),
        lambda x, y: put(x, y > 0, x[~(y > 0)]),
        lambda x, y: x[y > 0][x[y > 0][:, 0] > 0].sum(),
        lambda x, y: (y[y > 0][:, None] * y[y > 0][None, :]).sum(),
        lambda x, y: x.masked_scatter(y[:, None] > 0, x[y > 0]),
    ],
)
def test_what_the_whole_tensor_cannot_stand_for_is_refused(function: Callable[..., Any]) -> None:
    """Places that change their order or meet each other, other masks, and outputs of unknown size."""
    with pytest.raises(ExportError, match="depends on data"):
        export(Of(function), (torch.randn(4, 3), torch.randn(4)))


def test_picks_follow_sizes_that_vary() -> None:
    """One program sums up and writes back at each size."""
    function = Of(lambda x, y: put(x, y > 0, x[y > 0] - x[y > 0].mean(0)))
    n = Dim("n", min=2, max=6)
    program = load(bytes(export(function, (torch.randn(4, 3), torch.randn(4)), dynamic_shapes=({0: n}, {0: n}))))
    for size in (2, 6):
        x, y = torch.randn(size, 3), torch.randn(size)
        torch.testing.assert_close(torch.from_numpy(program(x.numpy(), y.numpy())[0]), function(x, y))
