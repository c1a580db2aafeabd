"""Reads which of two versions people prefer from an experiment whose arms are the order in which they are shown.

A device of arm k shows version k first.  Its report is the score of the version shown first in one comparison: 1, 0, or
1/2 where the person prefers neither.  With s_k the mean score of an arm, and P(k | j first) the part of comparisons,
ties half to each side, in which k is preferred where j is shown first,

    s_0 = P(0 | 0 first)        s_1 = P(1 | 1 first) = 1 - P(0 | 1 first)

    preference for 1, over both orders     q = (P(1 | 1 first) + P(1 | 0 first)) / 2 = (1 + s_1 - s_0) / 2
    advantage of the version shown first   a = (P(0 | 0 first) + P(1 | 1 first)) / 2 - 1/2 = (s_0 + s_1 - 1) / 2

so that any effect of the order cancels in q, whatever the arms' sizes: nothing is assumed of it.  s_1 - s_0 is the
difference of two means that an experiment by an own metric decides by, and its interval, always valid and with the
noise of privacy in it, gives that of q.  The interval of a comes of both arms' intervals (Zou and Donner, Statistics in
Medicine 2008).  Of two versions the model of Bradley and Terry (Biometrika 1952) is one number, the log odds of q;
Davidson's ties (JASA 1970) move both odds alike and leave its sign, and where q = 1/2, as they are.
"""

import math
from dataclasses import dataclass

from alcove.platform.stats._ratio import Interval

__all__ = ["Preference", "read_preference"]


@dataclass(frozen=True)
class Preference:
    """How often people prefer version 1 to version 0, ties half to each.

    Attributes:
        share: in [0, 1], over both orders.
        interval: of it; None: unbounded.
        order_effect: by how much more often than half the version shown first is preferred, in [-1/2, 1/2]; None: an
            arm's mean is not known.
        order_interval: of it; None: unbounded.
    """

    share: float
    interval: Interval | None
    order_effect: float | None
    order_interval: Interval | None

    @property
    def log_odds(self) -> float:
        """Strength of version 1 less that of version 0 by the model of Bradley and Terry; infinite at 0 and 1."""
        if self.share in (0.0, 1.0):
            return math.copysign(math.inf, self.share - 0.5)
        return math.log(self.share / (1.0 - self.share))


def read_preference(
    difference: tuple[float, Interval | None], means: tuple[tuple[float, Interval | None], ...] | None
) -> Preference:
    """Return the preference for version 1.

    Args:
        difference: mean score of arm 1 less that of arm 0, in [-1, 1] but for noise, and its interval.
        means: of both arms, with their intervals; None: one is not known.
    """
    value, interval = difference
    shown = None if interval is None else Interval(_share(interval.low), _share(interval.high))
    effect, effect_interval = None, None
    if means is not None:
        (one, of_one), (other, of_other) = means
        effect = (one + other - 1.0) / 2.0
        if of_one is not None and of_other is not None:
            low = math.hypot(one - of_one.low, other - of_other.low) / 2.0
            high = math.hypot(of_one.high - one, of_other.high - other) / 2.0
            effect_interval = Interval(max(effect - low, -0.5), min(effect + high, 0.5))
    return Preference(_share(value), shown, effect, effect_interval)


def _share(difference: float) -> float:
    return min(max((1.0 + difference) / 2.0, 0.0), 1.0)
