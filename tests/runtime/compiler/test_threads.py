"""Exported models give the same bits with any number of threads, for every op that can be shared out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import nn

SEED = 27


class Residual(nn.Module):
    """Expand, depthwise, project: one operator of the program, or three."""

    def __init__(self, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = 3 * channels
        self.expand = nn.Conv2d(channels, wide, 1)
        self.deep = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide)
        self.project = nn.Conv2d(wide, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [b, c, h / stride, w / stride] of [b, c, h, w]."""
        result: torch.Tensor = self.project(nn.functional.hardswish(self.deep(torch.relu(self.expand(x)))))
        return result + x if result.shape == x.shape else result


class Heads(nn.Module):
    """Attention in heads, with its projections."""

    def __init__(self) -> None:
        super().__init__()
        self.project_in, self.project_out = nn.Linear(48, 144), nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [b, n, 48] of [b, n, 48]."""
        b, n, _ = x.shape
        q, k, v = self.project_in(x).reshape(b, n, 3, 6, 8).permute(2, 0, 3, 1, 4).unbind(0)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        project_out: torch.Tensor = self.project_out(heads.transpose(1, 2).reshape(b, n, 48))
        return project_out


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "3x3, stride 1": (lambda: nn.Conv2d(5, 17, 3, padding=1), (2, 5, 13, 11)),
    "3x3, many channels": (lambda: nn.Conv2d(64, 64, 3, padding=1), (3, 64, 13, 14)),
    "3x3, many channels, one image": (lambda: nn.Conv2d(64, 64, 3, padding=1), (1, 64, 30, 29)),
    "3x3, stride 2": (lambda: nn.Conv2d(3, 16, 3, stride=2, padding=1), (3, 3, 17, 19)),
    "few outputs": (lambda: nn.Conv2d(8, 3, 5, padding=2), (2, 8, 9, 40)),
    "wide padding": (lambda: nn.Conv2d(4, 20, 3, stride=2, padding=(9, 2), dilation=(2, 1)), (2, 4, 5, 9)),
    "groups": (lambda: nn.Conv2d(12, 18, 3, padding=2, groups=3), (2, 12, 6, 7)),
    "kernel as high as the image": (lambda: nn.Conv2d(4, 18, (7, 3), padding=(0, 1)), (3, 4, 7, 9)),
    "1x1": (lambda: nn.Conv2d(33, 40, 1), (2, 33, 5, 7)),
    "1x1 of one pixel": (lambda: nn.Conv2d(33, 100, 1), (1, 33, 1, 1)),
    "1x1, stride 2": (lambda: nn.Conv2d(33, 40, 1, stride=2), (2, 33, 7, 9)),
    "one line": (lambda: nn.Conv1d(9, 20, 5, padding=2, stride=2), (2, 9, 61)),
    "depthwise": (lambda: nn.Conv2d(21, 21, 3, padding=1, groups=21), (3, 21, 11, 9)),
    "depthwise, stride 2": (lambda: nn.Conv2d(16, 32, 5, stride=2, padding=2, groups=16), (2, 16, 15, 9)),
    "depthwise, one line": (lambda: nn.Conv1d(16, 16, 7, padding=3, groups=16), (2, 16, 50)),
    "residual": (lambda: Residual(24, 3, 1), (2, 24, 15, 14)),
    "residual, stride 2": (lambda: Residual(24, 5, 2), (3, 24, 15, 17)),
    "residual, large": (lambda: Residual(24, 3, 1), (1, 24, 56, 56)),
    "heads": (Heads, (1, 33, 48)),
    "heads in a batch": (Heads, (3, 20, 48)),
}


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_gives_the_same_bytes(name: str) -> None:
    """Images in a batch, bands that end inside images, seams of tiles; and the answer is torch's."""
    make, shape = CASES[name]
    torch.manual_seed(SEED)
    module, x = make().eval().requires_grad_(requires_grad=False), torch.randn(shape)
    model = load(bytes(export(module, (x,))))
    (alone,) = model(x)
    torch.testing.assert_close(torch.from_numpy(alone), module(x), rtol=1e-4, atol=1e-4)
    for threads in (2, 3, 4, 7):
        (together,) = model._native.session(threads=threads, part_work=1)(x)
        assert together.tobytes() == alone.tobytes(), threads


def test_sizes_that_come_with_the_input_are_shared_out_again() -> None:
    """Scratch of threads grows with the session's memory, and moves with it."""
    torch.manual_seed(SEED)
    module = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).eval()
    sides = {dim: torch.export.Dim(name, min=4, max=64) for dim, name in ((2, "h"), (3, "w"))}
    model = load(bytes(export(module, (torch.zeros(1, 3, 16, 16),), dynamic_shapes=(sides,))))
    together: Any = model._native.session(threads=3, part_work=1)
    random = np.random.default_rng(SEED)
    memory = []
    for height, width in ((4, 5), (64, 64), (9, 33), (16, 16), (64, 4)):
        x = random.standard_normal((1, 3, height, width), np.float32)
        assert together(x)[0].tobytes() == model(x)[0].tobytes()
        memory.append(together.memory_bytes)
    assert memory[0] < memory[1] == memory[-1]
