"""Defines what a network is measured with, and the scores that several share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    Score = Callable[[Any], float]


RECORDED: Final = 32


@dataclass(frozen=True)
class Network:
    """A network with data.

    Attributes:
        title: for people.
        module: with its weights.
        samples: for calibration, each its only input.
        score: how good a program is, in `unit`; more is better.
        unit: of the score.
        tested: what the score is of.
    """

    title: str
    module: nn.Module
    samples: list[Tensor]
    score: Score
    unit: str
    tested: str


class Recorder:
    """Runs a program, and keeps what it gives for the first inputs.

    Attributes:
        outputs: of each of them.
    """

    def __init__(self, run: Any) -> None:
        self._run = run
        self.outputs: list[list[Any]] = []

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return what the program gives."""
        found: list[Any] = self._run(*inputs)
        if len(self.outputs) < RECORDED:
            self.outputs.append([np.array(each) for each in found])
        return found


def noise_db(exact: Recorder, rough: Recorder) -> float:
    """Return how many dB the signal is above the noise of the worst output; 90 at most."""
    ratios = []
    for place in range(len(exact.outputs[0])):
        pairs = [(one[place], other[place]) for one, other in zip(exact.outputs, rough.outputs, strict=True)]
        signal = sum(float(np.square(one, dtype=np.float64).sum()) for one, _ in pairs)
        noise = sum(float(np.square(one.astype(np.float64) - other).sum()) for one, other in pairs)
        ratios.append(noise / signal)
    return -10 * float(np.log10(max(1e-9, *ratios)))


def accuracy(inputs: list[Any], labels: Any) -> Score:
    """Return a score: the share of right classes in percent."""

    def score(run: Any) -> float:
        return 100 * float((np.concatenate([run(x)[0].argmax(axis=1) for x in inputs]) == labels).mean())

    return score


def fidelity(inputs: list[Any], exact: list[Any]) -> Score:
    """Return a score: the PSNR in dB of images in [0, 1] beside those of float32, 90 at most."""

    def score(run: Any) -> float:
        noise = np.mean([np.square(run(x)[0] - one).mean() for x, one in zip(inputs, exact, strict=True)])
        return 10 * float(np.log10(1 / max(1e-9, float(noise))))

    return score
