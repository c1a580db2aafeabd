"""A buffer written at a place that another buffer counts is a state of the program, as eager leaves it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, export, load
from torch import Tensor, nn


class Ring(nn.Module):
    """Keeps rows in turn, and gives their mean."""

    buffer: Tensor
    position: Tensor

    def __init__(self, write: Callable[["Ring", Tensor], None]) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("buffer", torch.zeros(4, 3))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.write(self, x)
        self.position.add_(1)
        return self.buffer * torch.arange(4.0)[:, None]


def _add(ring: Ring, x: Tensor) -> None:
    ring.buffer[ring.position % 3] += x


def _from_behind(ring: Ring, x: Tensor) -> None:
    ring.buffer[-1 - ring.position % 4, 1:] = x[None, 1:]
    ring.buffer[..., ring.position % 3] = 7


def _element(ring: Ring, x: Tensor) -> None:
    ring.buffer[ring.position % 4, ring.position % 3] = ring.buffer[ring.position % 4, 0] + x[0]


@pytest.mark.parametrize("write", [_add, _from_behind, _element])
def test_ring_is_kept_from_run_to_run(write: Callable[[Ring, Tensor], None]) -> None:
    """Nine runs, round the ring more than twice."""
    eager = Ring(write)
    session = load(bytes(export(Ring(write), (torch.randn(3),)))).session()
    for _ in range(9):
        x = torch.randn(3)
        np.testing.assert_array_equal(session(x.numpy())[0], eager(x).numpy())


def test_place_outside_the_buffer_stops_the_run() -> None:
    """The fifth of four rows, as in eager."""

    def write(ring: Ring, x: Tensor) -> None:
        ring.buffer[ring.position] = x

    session = load(bytes(export(Ring(write), (torch.randn(3),)))).session()
    for _ in range(4):
        session(torch.ones(3).numpy())
    with pytest.raises(InputError):
        session(torch.ones(3).numpy())
