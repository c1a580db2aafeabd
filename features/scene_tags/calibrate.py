"""Calibrates tag scores: one slope for all tags and a shift for each, fitted to pictures kept back.

Source: Platt, "Probabilistic outputs for support vector machines" (1999); Guo et al., "On calibration of modern neural
networks" (2017).  Mixed pictures and smoothed targets make a network timid; the slope undoes that.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

SHIFT_PENALTY: Final = 0.002
"""What a squared shift costs beside the mean cross entropy: a tag seen twice is not to be trusted."""


def fit_scores(logits: NDArray[np.float32], tags: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
    """Return slope and shifts [tags] that make sigmoid(slope · logit + shift) likely.

    Args:
        logits: f32 [pictures, tags], of pictures that were not trained on.
        tags: f32 [pictures, tags], 1 for those that they have.
    """
    x, y = torch.from_numpy(logits), torch.from_numpy(tags)
    slope = torch.ones((), requires_grad=True)
    shift = torch.zeros(x.shape[1], requires_grad=True)
    optimiser = torch.optim.LBFGS([slope, shift], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        cost = functional.binary_cross_entropy_with_logits(x * slope + shift, y)
        cost = cost + SHIFT_PENALTY * (shift * shift).mean()
        torch.autograd.backward(cost)
        return cost

    step: Callable[[Callable[[], Tensor]], Any] = optimiser.step
    step(closure)
    return float(slope.detach()), shift.detach().numpy()
