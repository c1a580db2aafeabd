"""Sets the bounds of an aggregate, and the thresholds and defaults of the decision rules."""

from typing import Final

MAX_CELLS: Final = 1024
"""Cells (arms x outcomes x bins). The covariance has its square: 8 MiB of float64, checked in well under a second."""

MAX_REPORTS: Final = 10**12
"""Reports in one aggregate. Squares of counts stay far from the end of float64's exact range of exponents."""

MAX_MAGNITUDE: Final = 1e24
"""Largest absolute estimate or covariance entry: (10**12 reports) squared, so that products stay finite."""

COVARIANCE_TOLERANCE: Final = 1e-9
"""Asymmetry or negative eigenvalue forgiven, as a fraction of the largest entry: rounding, not a wrong matrix."""

DEFAULT_MINIMUM_COHORT: Final = 1000
"""Estimated devices each arm must have before anything is decided. The interval is asymptotic: it needs a burn-in."""

DEFAULT_PLANNED_REPORTS: Final = 10_000
"""Reports at which the confidence sequence is tightest; ten times more or fewer widen it by a third at most."""

ALARM_ALPHA: Final = 0.001
"""Chance, over all analyses together, that counts which devices sent are called impossible."""

SAMPLE_RATIO_ALPHA: Final = 0.01
"""Chance, over all analyses together, that a sound assignment is called a sample-ratio mismatch."""

MAX_SIZE_VARIATION: Final = 0.1
"""Largest standard error of an arm's size relative to it for which a ratio is nearly normal and nearly unbiased.

Cochran, Sampling Techniques (3rd ed., 1977), section 6.8: coefficients of variation below 10 %.
"""
