"""An export takes little more memory than the weights as they are packed, and the file."""

import gc
import sys
import tracemalloc
from collections.abc import Mapping

import torch
from alcove.runtime import Method, export, load
from torch import Tensor, nn

WIDTH = 512
LAYERS = 4


class Decoder(nn.Module):
    """Products with a megabyte of weights each, and a second entry point."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the shape of x."""
        result: Tensor = self.layers(x)
        return result

    def last(self, x: Tensor) -> Tensor:
        """Return the last row."""
        result: Tensor = self.layers(x)[-1:]
        return result


def peak_in_files(module: nn.Module | Mapping[str, Method], args: tuple[Tensor, ...] | None) -> float:
    """Return the most that Python and numpy hold while a program is packed and written, in sizes of its file."""

    def progress(step: str) -> None:
        if step.endswith("pack") and not tracemalloc.is_tracing():
            tracemalloc.start()

    try:
        size = len(bytes(export(module, args, progress=progress)))
        return tracemalloc.get_traced_memory()[1] / size
    finally:
        tracemalloc.stop()


def test_an_export_holds_packed_weights_and_the_file_and_no_third_copy() -> None:
    """The first layer packed takes a copy for its time; methods share, and the one at hand has its own."""
    module, x = Decoder().eval(), torch.ones(2, WIDTH)
    assert peak_in_files(module, (x,)) < 2.4
    assert peak_in_files({"whole": Method(module, (x,)), "last": Method(module.last, (x,))}, None) < 2.6


def test_a_model_keeps_the_bytes_it_was_opened_from_and_its_sessions_too() -> None:
    """A copy would take their size again; they go when the last session goes."""
    data = bytes(export(nn.Linear(8, 4).eval(), (torch.ones(1, 8),)))
    before = sys.getrefcount(data)
    session = load(data).session()
    gc.collect()
    assert sys.getrefcount(data) == before + 1
    del session
    assert sys.getrefcount(data) == before
