"""Small networks and procedural data for the tests of quantization."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SIZE = 16


def bars(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images [count, 1, 16, 16] of a bar in one of four directions, with noise; and the directions."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 4, count)
    rows, columns = np.mgrid[:SIZE, :SIZE] - SIZE / 2 + 0.5
    angles = labels * np.pi / 4
    shift = random.uniform(-4, 4, count)
    distance = np.cos(angles)[:, None, None] * rows + np.sin(angles)[:, None, None] * columns - shift[:, None, None]
    images = np.exp(-(distance**2)) + 0.3 * random.standard_normal((count, SIZE, SIZE))
    return torch.from_numpy(images[:, None].astype(np.float32)), torch.from_numpy(labels)


class SmallCnn(nn.Module):
    """Every int8 form: convolutions, a residual, squeeze and excite, pooling, a table, a linear."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 12, 3, 1, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU6())
        self.deep = nn.Sequential(nn.Conv2d(12, 12, 3, 1, 1, groups=12), nn.BatchNorm2d(12), nn.Hardswish())
        self.point = nn.Conv2d(12, 12, 1)
        self.squeeze = nn.Conv2d(12, 4, 1)
        self.excite = nn.Conv2d(4, 12, 1)
        self.pool = nn.MaxPool2d(2)
        self.grouped = nn.Conv2d(12, 20, 3, 2, 1, groups=4)
        self.head = nn.Linear(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [n, 4]."""
        x = self.stem(x)
        y = torch.relu(x + self.point(self.deep(x)))
        gate = nn.functional.hardsigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        y = torch.relu(self.grouped(self.pool(y * gate)))
        logits: Tensor = self.head(y.mean((2, 3)))
        return logits


class SmallMlp(nn.Module):
    """Three linears."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(SIZE * SIZE, 40), nn.ReLU(), nn.Linear(40, 24), nn.Tanh(), nn.Linear(24, 4)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [n, 4] of images."""
        logits: Tensor = self.layers(x.flatten(1))
        return logits


def train_net(make: Callable[[], nn.Module], steps: int = 120) -> nn.Module:
    """Return a network that tells most of the bars' directions."""
    torch.manual_seed(1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = make().train()
    images, labels = bars(1024, 1)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(steps):
        part = slice(step * 128 % 1024, step * 128 % 1024 + 128)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(images[part]), labels[part])
        torch.autograd.backward([loss])
        optimiser.step()
    torch.set_num_threads(threads)
    return model.eval()


def accuracy(run: Callable[..., list[Any]], count: int = 256, seed: int = 2) -> float:
    """Return the share of bars whose direction a program with inputs [1, 1, 16, 16] tells."""
    images, labels = bars(count, seed)
    right = sum(
        int(run(image[None].numpy())[0].argmax()) == int(label) for image, label in zip(images, labels, strict=True)
    )
    return right / count


def samples(count: int, seed: int = 3) -> list[tuple[Tensor]]:
    """Calibration samples."""
    return [(image[None],) for image in bars(count, seed)[0]]
