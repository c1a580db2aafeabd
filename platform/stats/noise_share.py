"""Says which part of a comparison's uncertainty is privacy noise: of the variance of a difference of two arms.

With D = R_1 - R_0, R a ratio of sums inside an arm, Var(D) = sampling + noise (`metrics.py`), and the share is
noise / (sampling + noise).  An interval of D is wider than without privacy by the factor 1 / sqrt(1 - share).
"""

from alcove.platform.stats._ratio import Moments
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.ratio_pairs import ratio_pair

__all__ = ["noise_share"]


def noise_share(
    aggregate: Aggregate,
    numerator: FloatArray,
    denominator: FloatArray,
    *,
    arm: int,
    versus: int = 0,
    reports_per_device: int = 1,
) -> float | None:
    """Return the part of the variance of a difference that is privacy noise, in [0, 1]; None: too few reports.

    Args:
        aggregate: the counts.
        numerator: float64 [outcomes, bins], weight of each cell.
        denominator: float64 [outcomes, bins], weight of each cell, >= 0.
        arm: index of one arm.
        versus: index of the other.
        reports_per_device: as in `Metric`.
    """
    pair = ratio_pair(
        Moments(aggregate, reports_per_device), numerator.ravel(), denominator.ravel(), arm=arm, versus=versus
    )
    if pair is None:
        return None
    variance = pair.variance
    sampling, noise = max(variance.sampling, 0.0), max(variance.noise, 0.0)
    return None if sampling + noise <= 0.0 else noise / (sampling + noise)
