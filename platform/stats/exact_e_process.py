"""Bounds differences of shares, and tests shares, from exact, rare counts: e-processes, valid at every analysis.

An asymptotic interval needs a burn-in that a crash which happens to one device in a thousand does not give. For exact
counts the test here needs none: an e-process, valid at every size and every analysis. With k_T events of n_T devices in
the treatment, k_C of n_C in the control, each device independent,

    E = m(k_T, n_T) m(k_C, n_C) / sup { L(p_T, p_C) : p_T - p_C <= d },   L = p_T^k_T (1-p_T)^(n_T-k_T) p_C^... ,
    m(k, n) = B(k + 1/2, n - k + 1/2) / B(1/2, 1/2)    (Jeffreys mixture over p)

is under `difference <= d` at most m m / L(true p), a test martingale of mean 1, so by Ville's inequality it exceeds
1 / alpha at any analysis with probability at most alpha. The largest d that E refuses is a lower bound, always valid.

Sources: universal inference with a mixture in the numerator, Wasserman, Ramdas and Balakrishnan, "Universal
inference", PNAS 2020 (arXiv 1912.11436), sections 3 and 8; mixtures for counts over time: Robbins 1970 and
Lindon and Malek, "Anytime-valid inference for multinomial count data", NeurIPS 2022 (arXiv 2011.03567).

Several stages: the product of their e-processes, each on the reports that came after those before, is one against "in
no stage is the difference above d"; its bounds are a difference that some stage surely has.

A device that reports in r pooled windows counts for one: all log-likelihoods are divided by r (counts enter as k / r).
At one analysis that is the geometric mean of r e-values, which is below their arithmetic mean and so itself an e-value.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from alcove.platform.stats.aggregate import FloatArray

ExactSums: TypeAlias = tuple[float, float, float, float]
"""Events and size of the treatment, then of the control."""

_STEPS = 48
"""Bisections of the nuisance rate: an interval of 1 shrinks below 1e-14."""

_POINTS = 65
_ROUNDS = 4
"""A bound is searched on a grid of 65 points, refined 4 times: exact to 1e-7."""


def log_evidence(
    treatment_events: FloatArray,
    treatment_size: FloatArray,
    control_events: FloatArray,
    control_size: FloatArray,
    difference: FloatArray | float,
) -> FloatArray:
    """Return log E against "treatment minus control is at most `difference`"; arrays broadcast.

    Args:
        treatment_events: devices with the event, in [0, size]; need not be whole (windows pooled).
        treatment_size: devices of the treatment, >= 0.
        control_events: as for the treatment.
        control_size: as for the treatment.
        difference: the largest share that the hypothesis allows, in (-1, 1).
    """
    kt, nt, kc, nc, d = np.broadcast_arrays(
        *(
            np.asarray(part, dtype=np.float64)
            for part in (treatment_events, treatment_size, control_events, control_size, difference)
        )
    )
    mixture = _log_mixture(kt, nt) + _log_mixture(kc, nc)
    free_t, free_c = _share(kt, nt), _share(kc, nc)
    low, high = np.maximum(0.0, -d), np.minimum(1.0, 1.0 - d)
    for _ in range(_STEPS):  # on the border p_T = p_C + d the log-likelihood is concave in p_C
        rate = (low + high) / 2.0
        rises = _slope(kt, nt, rate + d) + _slope(kc, nc, rate) > 0.0
        low, high = np.where(rises, rate, low), np.where(rises, high, rate)
    rate = (low + high) / 2.0
    on_border = _log_likelihood(kt, nt, rate + d) + _log_likelihood(kc, nc, rate)
    free = _log_likelihood(kt, nt, free_t) + _log_likelihood(kc, nc, free_c)
    evidence: FloatArray = mixture - np.where(free_t - free_c <= d, free, on_border)
    return evidence


def lower_bound(strata: Sequence[ExactSums], *, alpha: float) -> float:
    """Return the always-valid lower bound at `alpha` of the difference of two shares; -1 where nothing is known.

    Args:
        strata: of each stage: events and size of the treatment, then of the control; at least one.
        alpha: error of the bound over all analyses, in (0, 1).
    """
    kt, nt, kc, nc = np.array(strata, dtype=np.float64).T[..., None]
    low, high = -1.0, float((_share(kt, nt) - _share(kc, nc)).max())
    if high <= low:
        return low
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _POINTS)
        refused = log_evidence(kt, nt, kc, nc, grid[None, :]).sum(axis=0) >= -math.log(alpha)
        last = int(np.argmin(refused)) if not refused.all() else _POINTS - 1  # the evidence falls along the grid
        if last == 0:
            return low
        low, high = float(grid[last - 1]), float(grid[last])
    return low


def upper_bound(strata: Sequence[ExactSums], *, alpha: float) -> float:
    """Return the always-valid upper bound at `alpha`; as `lower_bound`."""
    return -lower_bound([(kc, nc, kt, nt) for kt, nt, kc, nc in strata], alpha=alpha)


def log_share_evidence(events: FloatArray, sizes: FloatArray, share: float) -> FloatArray:
    """Return log E against "the share of one arm is at most `share`"; for a test of several arms theirs add up."""
    kept = np.minimum(_share(events, sizes), share)
    evidence: FloatArray = _log_mixture(events, sizes) - _log_likelihood(events, sizes, kept)
    return evidence


def _share(events: FloatArray, sizes: FloatArray) -> FloatArray:
    share: FloatArray = np.where(sizes > 0.0, events / np.maximum(sizes, 1e-300), 0.5)
    return share


def _log_mixture(events: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return log m(k, n)."""
    from scipy.special import betaln  # noqa: PLC0415 - a quarter of a second, and only analyses need it

    mixed: FloatArray = betaln(events + 0.5, sizes - events + 0.5) - math.log(math.pi)
    return mixed


def _log_likelihood(events: FloatArray, sizes: FloatArray, rate: FloatArray) -> FloatArray:
    """Return k log p + (n - k) log(1 - p), with 0 log 0 = 0."""
    rate = np.clip(rate, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(events > 0.0, events * np.log(rate), 0.0)
        miss = np.where(sizes - events > 0.0, (sizes - events) * np.log1p(-rate), 0.0)
    likelihood: FloatArray = hit + miss
    return likelihood


def _slope(events: FloatArray, sizes: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the derivative of the log-likelihood by the rate; infinities where the rate is at an end it may not be."""
    rate = np.clip(rate, 1e-300, 1.0 - 1e-16)
    slope: FloatArray = events / rate - (sizes - events) / (1.0 - rate)
    return slope
