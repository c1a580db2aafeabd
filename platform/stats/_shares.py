"""Estimates the difference of two arms' shares and its standard error, for one aggregate or a million at once.

A share is events / base inside one arm, both linear sums of cells: crash fallbacks of all devices, refusals of
answers. Of an aggregate only the four sums s = (events_T, base_T, events_C, base_C) and the covariance V of their noise
are read; numpy arrays in the leading dimensions make the same code serve the rollout engine and the simulator.

    difference  R_T - R_C,  R = events / base
    variance    sum over arms of  r p (1 - p) / base  +  g' V g,   g = gradient of the difference by s (delta method)

with r the reports that one device may have given and p = (events + 1) / (base + 2), a share that is never 0 or 1, for
the variance alone (Agresti and Coull 1998); it errs towards wider intervals. Sources: Cochran, Sampling Techniques,
3rd ed., sections 2.11 and 6.3 (ratio estimates), as in `_ratio.py`; arms are disjoint, so that the multinomial
covariance of two arms' ratios is zero.

A test that a difference is below a margin d asks what would vary if it were d: where few events were seen by chance,
the variance from what was seen is too small. `sampling_at_margin` has it at the likeliest shares with p_T = p_C + d
(Farrington and Manning, "Test statistics and sample size formulae for comparative binomial trials with null hypothesis
of non-zero risk difference", Statistics in Medicine 1990: the one root of a cubic that is a share).
"""

from dataclasses import dataclass

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray


@dataclass(frozen=True, eq=False)
class ShareSums:
    """The four sums of one comparison, or of many.

    Attributes:
        sums: float64 [..., 4]: events and base of the treatment, events and base of the control, in reports.
        noise: float64 [..., 4, 4]: covariance of the privacy noise in them, or one [4, 4] for all.
    """

    sums: FloatArray
    noise: FloatArray

    @property
    def is_exact(self) -> bool:
        """True where no sum holds noise."""
        return not self.noise.any()


@dataclass(frozen=True, eq=False)
class ShareDifference:
    """Differences of shares with their uncertainty; all arrays have the leading shape of the sums.

    Attributes:
        value: treatment minus control; meaningless where `size_variation` is infinite.
        standard_error: sampling and noise.
        size_variation: standard error of the smaller-known base from noise alone, relative to it; infinite for a
            base below one report.
        sampling: variance by which devices reported.
        noise: variance by privacy noise.
    """

    value: FloatArray
    standard_error: FloatArray
    size_variation: FloatArray
    sampling: FloatArray
    noise: FloatArray


def share_sums(
    aggregate: Aggregate, events: FloatArray, base: FloatArray, *, treatment: int, control: int
) -> ShareSums:
    """Return the sums of an aggregate for weights `events` and `base`, float64 [outcomes, bins], of 0 and 1."""
    weights = np.zeros((4, aggregate.arms, aggregate.outcomes, aggregate.bins))
    weights[0, treatment], weights[1, treatment] = events, base
    weights[2, control], weights[3, control] = events, base
    flat = weights.reshape(4, -1)
    return ShareSums(flat @ aggregate.estimates.ravel(), flat @ aggregate.noise_covariance @ flat.T)


def share_difference(shares: ShareSums, *, reports_per_device: int = 1) -> ShareDifference:
    """Return the difference of the shares and its standard error by the module's formula."""
    events, bases = shares.sums[..., 0::2], shares.sums[..., 1::2]
    safe = np.maximum(bases, 1.0)
    rates = events / safe
    smoothed = (np.clip(events, 0.0, safe) + 1.0) / (safe + 2.0)
    sampling = (reports_per_device * smoothed * (1.0 - smoothed) / safe).sum(axis=-1)
    gradient = np.stack(
        [1.0 / safe[..., 0], -rates[..., 0] / safe[..., 0], -1.0 / safe[..., 1], rates[..., 1] / safe[..., 1]], axis=-1
    )
    noise = np.einsum("...i,...ij,...j->...", gradient, np.broadcast_to(shares.noise, (*gradient.shape, 4)), gradient)
    deviations = np.sqrt(np.maximum(np.diagonal(shares.noise, axis1=-2, axis2=-1)[..., 1::2], 0.0))
    variation = np.where(bases < 1.0, np.inf, deviations / safe).max(axis=-1)
    noise = np.maximum(noise, 0.0)
    return ShareDifference(rates[..., 0] - rates[..., 1], np.sqrt(sampling + noise), variation, sampling, noise)


def sampling_at_margin(shares: ShareSums, margin: float, *, reports_per_device: int = 1) -> FloatArray:
    """Return the variance by which devices reported if the difference of the shares were `margin`, in [0, 1).

    Never below that of `share_difference`.
    """
    events, bases = shares.sums[..., 0::2], shares.sums[..., 1::2]
    safe = np.maximum(bases, 1.0)
    seen = np.clip(events / safe, 0.0, 1.0)
    control = _control_at_margin(seen[..., 0], seen[..., 1], safe[..., 1] / safe[..., 0], margin)
    rates = np.stack([control + margin, control], axis=-1)
    at_margin = (reports_per_device * rates * (1.0 - rates) / safe).sum(axis=-1)
    widest: FloatArray = np.maximum(at_margin, share_difference(shares, reports_per_device=reports_per_device).sampling)
    return widest


def _control_at_margin(treatment: FloatArray, control: FloatArray, ratio: FloatArray, margin: float) -> FloatArray:
    """Return the likeliest share of the control if that of the treatment is `margin` above it.

    Args:
        treatment: share that was seen.
        control: share that was seen.
        ratio: devices of the control for each of the treatment.
        margin: in [0, 1).

    Source: Farrington and Manning, 1990, appendix 1.
    """
    a = 1.0 + ratio
    b = -(1.0 + ratio + treatment + ratio * control + margin * (ratio + 2.0))
    c = margin * margin + margin * (2.0 * treatment + ratio + 1.0) + treatment + ratio * control
    d = -treatment * margin * (1.0 + margin)
    third = b / (3.0 * a)
    v = third**3 - b * c / (6.0 * a * a) + d / (2.0 * a)
    u = np.where(v < 0.0, -1.0, 1.0) * np.sqrt(np.maximum(third**2 - c / (3.0 * a), 0.0))
    cube = np.where(u == 0.0, 1.0, u**3)
    angle = (np.pi + np.arccos(np.clip(v / cube, -1.0, 1.0))) / 3.0
    found: FloatArray = np.clip(2.0 * u * np.cos(angle) - third - margin, 0.0, 1.0 - margin)
    return found
