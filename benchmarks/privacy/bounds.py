"""Bounds the privacy loss of a mechanism from below, from outputs for two neighbouring inputs.

If an event has probability p with one input and p' with the other, the loss is at least ln(p / p'). The event is chosen
on one half of the outputs and its probabilities are bounded on the other half, so that the choice costs nothing of the
confidence. Where the guarantee holds, the bound is above epsilon once in 1,000 audits at most.

Source: Clopper and Pearson, "The use of confidence or fiducial limits" (1934); Ding, Wang, Wang, Zhang and Kifer,
"Detecting violations of differential privacy" (2018), for the choice of events.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

IntArray = NDArray[np.int64]

CONFIDENCE: Final = 0.999
"""Of one bound."""

CHOICE: Final = 1 - 1e-6
"""Of the bounds among which the event is chosen: of thousands of rare events none is chosen for its luck."""

REACH: Final = 8
"""Outputs further than this from the first input's sum are told apart no more: they are rare."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on the privacy loss.

    Attributes:
        loss: at least this, with `CONFIDENCE`.
        event: by which output the inputs are told apart.
        outputs: how many of each input it is from, the half that chose the event not counted.
        first: in how many outputs of the first input the event was.
        second: the same of the second.
    """

    loss: float
    event: str
    outputs: int
    first: int
    second: int


def bound_loss(first: Mapping[str, IntArray], second: Mapping[str, IntArray]) -> Bound:
    """Return the bound from the best event.

    Args:
        first: for each thing that can be computed from an output, its values, [outputs, 2]: in the cell that the report
            is in and in the cell that it moves to, less their sums under the first input.
        second: the same with the report in the other cell.
    """
    chosen = max(
        (
            (loss, name, event)
            for name in first
            for loss, event in _rate_events(_half(first[name], 0), _half(second[name], 0))
        ),
        key=lambda one: one[0],
    )
    _, name, (is_first, kinds, limits) = chosen
    halves = (_half(first[name], 1), _half(second[name], 1))
    favored, other = halves if is_first else halves[::-1]
    hits = [int(_hit(half, kinds, limits).sum()) for half in (favored, other)]
    loss = float(lower_log_ratio(hits[0], len(favored), hits[1], len(other)))
    first_hits, second_hits = hits if is_first else hits[::-1]
    text = f"{name}: {kinds[0]} {limits[0]:+d} and {kinds[1]} {limits[1]:+d}" if loss else "none"
    return Bound(loss, text, len(halves[0]), first_hits, second_hits)


def lower_log_ratio(
    hits: object, outputs: int, other_hits: object, other_outputs: int, confidence: float = CONFIDENCE
) -> NDArray[np.float64]:
    """Return a lower bound on the logarithm of the ratio of two probabilities, 0 at least; arrays work too."""
    wrong = (1 - confidence) / 2
    k, m = np.asarray(hits), np.asarray(other_hits)
    least = np.where(k > 0, beta.ppf(wrong, np.maximum(k, 1), outputs - k + 1), 0.0)
    most = np.where(m < other_outputs, beta.ppf(1 - wrong, m + 1, np.maximum(other_outputs - m, 1)), 1.0)
    with np.errstate(divide="ignore"):
        ratio: NDArray[np.float64] = np.maximum(np.log(least) - np.log(most), 0.0)
    return ratio


_Event = tuple[bool, tuple[str, str], tuple[int, int]]
"""Whether the first input favors it, how each cell is compared, and with what."""


def _half(values: IntArray, which: int) -> IntArray:
    return values[which::2].clip(-REACH, REACH)


def _hit(values: IntArray, kinds: tuple[str, str], limits: tuple[int, int]) -> NDArray[np.bool_]:
    return _COMPARE[kinds[0]](values[:, 0], limits[0]) & _COMPARE[kinds[1]](values[:, 1], limits[1])


_COMPARE: Final[dict[str, Callable[[IntArray, int], NDArray[np.bool_]]]] = {
    "≥": lambda values, limit: values >= limit,
    "=": lambda values, limit: values == limit,
    "≤": lambda values, limit: values <= limit,
}


def _rate_events(first: IntArray, second: IntArray) -> Iterator[tuple[float, _Event]]:
    """Give the best event of each kind, with its bound on this half."""
    tables = [_tabulate(values) for values in (first, second)]
    for one, other in product(_COMPARE, repeat=2):
        kinds = (one, other)
        hits = [_accumulate(_accumulate(table, one, 0), other, 1) for table in tables]
        for is_first in (True, False):
            favored, rival = hits if is_first else hits[::-1]
            losses = lower_log_ratio(favored, len(first), rival, len(second), CHOICE)
            place = np.unravel_index(int(losses.argmax()), losses.shape)
            yield float(losses[place]), (is_first, kinds, (int(place[0]) - REACH, int(place[1]) - REACH))


def _tabulate(values: IntArray) -> IntArray:
    table = np.zeros((2 * REACH + 1, 2 * REACH + 1), np.int64)
    np.add.at(table, (values[:, 0] + REACH, values[:, 1] + REACH), 1)
    return table


def _accumulate(table: IntArray, kind: str, axis: int) -> IntArray:
    if kind == "=":
        return table
    if kind == "≤":
        return table.cumsum(axis)
    return np.flip(np.flip(table, axis).cumsum(axis), axis)
