"""Learns a user's taste on the device: one small vector, from what was taken and what was left.

The adapter is an offset o of the user vector, as many numbers as an item's vector has.  When the user takes item t of
those shown, one step up the logarithm of its probability p among them, then a fall towards zero, then a bound:

    o <- (1 - fall) o + rate (E_t - sum p_i E_i),        |o| <= radius |user vector|

That is the exact gradient of a softmax over what was shown; no model and no torch are needed.  Nothing of it leaves the
device: an adapter cannot be written, copied or printed, it lives as long as the process, and `reset` forgets it.
"""

from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

RATE: Final = 1.0
FALL: Final = 0.05
RADIUS: Final = 0.5


class Adapter:
    """What one device learned of its user's taste.

    Args:
        dim: of an item's vector.
        rate: of a step, above 0.
        fall: share that a step forgets, 0 to 1.
        radius: most length, as a share of the user vector's.

    Raises:
        ValueError: an argument is out of its range.
    """

    __slots__ = ("_fall", "_offset", "_radius", "_rate")

    def __init__(self, dim: int, *, rate: float = RATE, fall: float = FALL, radius: float = RADIUS) -> None:
        if dim < 1 or not 0 < rate <= 10 or not 0 <= fall <= 1 or not 0 < radius <= 10:
            raise ValueError(f"dim >= 1, 0 < rate <= 10, 0 <= fall <= 1, 0 < radius <= 10: {dim, rate, fall, radius}")
        self._offset = np.zeros((1, dim), np.float32)
        self._rate, self._fall, self._radius = rate, fall, radius

    @property
    def offset(self) -> NDArray[np.float32]:
        """What the program adds to the user vector, f32 [1, dim]: an input of it, and not for anything else."""
        return self._offset.copy()

    @property
    def is_neutral(self) -> bool:
        """Whether nothing was learned since the beginning or the last `reset`."""
        return not self._offset.any()

    def learn(self, outputs: list[np.ndarray[Any, Any]], chosen_item: int) -> None:
        """Take a step: of the candidates of one run of the program, the user took item `chosen_item`.

        Args:
            outputs: of the program, as they came.
            chosen_item: id of the item.

        Raises:
            ValueError: the item was no candidate or is unknown, or the outputs are of another program or not finite.
                What was learned before stays.
        """
        scores, users, rows = outputs[0][0].astype(np.float64), outputs[1][0], outputs[2][0]
        if users.shape[1:] != self._offset.shape[1:] or rows.shape[1:] != (self._offset.shape[1] + 1,):
            raise ValueError(f"outputs for vectors of {self._offset.shape[1]} numbers expected")
        known = rows.any(axis=1)
        places = np.flatnonzero((outputs[5][0] == chosen_item) & known)
        if not len(places):
            raise ValueError("the item that was taken is none of the candidates that the program knows")
        if not (np.isfinite(scores).all() and np.isfinite(rows).all() and np.isfinite(users[0]).all()):
            raise ValueError("the outputs hold a number that is not finite")
        vectors = rows[known, :-1].astype(np.float64)
        odds = np.exp(scores[known] - scores[known].max())
        gradient = rows[places[0], :-1] - (odds / odds.sum()) @ vectors
        offset = (1 - self._fall) * self._offset[0] + self._rate * gradient
        # Against the user vector without the offset, so that the bound does not grow with what it bounds.
        most = self._radius * float(np.linalg.norm(users[0] - self._offset[0]))
        length = float(np.linalg.norm(offset))
        self._offset = (offset * min(1.0, most / length if length > 0 else 1.0)).astype(np.float32)[None]

    def reset(self) -> None:
        """Forget everything."""
        self._offset = np.zeros_like(self._offset)

    def __repr__(self) -> str:
        """Return its kind, and nothing of what it learned."""
        return f"Adapter(dim={self._offset.shape[1]})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: what it learned stays where it was learned."""
        raise TypeError("an Adapter is not written or copied: what it learned stays on the device")
