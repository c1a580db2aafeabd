"""Combines the differences that several stages of a rollout measured, each against a control group of its own.

A stage is a stratum s: its aggregate has N_s reports, of which a part a_s is planned for the treatment and 1 - a_s for
the control; w_s = 4 N_s a_s (1 - a_s) are its *effective reports*, N_s where groups are equal. Each stage gives a
difference D_s of treatment minus control, and what is tested is their weighted mean D = sum g_s D_s, with g_s >= 0 and
sum g_s = 1. Only differences inside a stage enter, so that no change of the shares or of the devices from stage to
stage can be taken for an effect of the version (Simpson's paradox): where each stage's true difference is at most the
margin, D's is too.

**Devices in several stages.** Shares only widen, so a device of stage s reports in later stages too, and may say the
same each time. With r_s reports of one device at most in a stage, and m_s = w_s / r_s devices at least, the smaller
group lies in the worst case wholly in the larger one. With u the variance of what one device says,

    Cov(D_s, D_u) = u / max(m_s, m_u)  by which devices reported,  +  noise_s where s = u

for privacy noise is drawn anew for each report or window. (A device keeps its side up to a share of one half; one that
changes it makes the correlation negative.) The weights g are the best ones for that covariance with one u for all
stages: proportional to the reports where noise is large (Cochran 1954, Mantel and Haenszel 1959), and none for a stage
whose devices say nothing new. The standard error that is stated has each stage's own variance.

**Why looking at will stays valid.** The weights depend on the number of reports and on noise that is known, not on what
a stage says of its own difference. Estimates that are best at each analysis for all reports until then have scores of
independent increments, those of a Brownian motion at the time of their information (Jennison and Turnbull,
"Group-sequential analysis incorporating covariate information", JASA 1997, Theorem 1): what the confidence sequences of
`confidence_sequence.py` and the boundaries of `one_sided.py` are made for. Their clock is T = sum w_s, in proportion to
the information where reports vary alike. Where devices repeat themselves information grows more slowly than T, scores
are more alike than assumed, and false calls are rarer. A later stage adds terms and changes nothing of what was seen
before; nor does a change of the plan of later stages.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError

__all__ = ["CombinedDifference", "Stratum", "StratumDifference", "combine", "combine_weights", "effective_reports"]


@dataclass(frozen=True, eq=False)
class Stratum:
    """The reports of one stage.

    Attributes:
        aggregate: of its windows so far, pooled.
        treatment_share: planned part of the reports that come from the treatment, in (0, 1).
        reports_per_device: how many of the reports may come from one device, >= 1.

    Raises:
        ArgumentError: a field is out of its bounds.
    """

    aggregate: Aggregate
    treatment_share: float = 0.5
    reports_per_device: int = 1

    def __post_init__(self) -> None:
        if not 0.0 < self.treatment_share < 1.0:
            raise ArgumentError("treatment_share", "in (0, 1)", self.treatment_share)
        if self.reports_per_device < 1:
            raise ArgumentError("reports_per_device", "at least 1", self.reports_per_device)

    @property
    def effective_reports(self) -> float:
        """w_s of the module's docstring."""
        return 4.0 * self.aggregate.reports * self.treatment_share * (1.0 - self.treatment_share)


@dataclass(frozen=True, eq=False)
class StratumDifference:
    """The difference that one stratum measured, or many simulated ones at once.

    Attributes:
        value: treatment minus control; float64 [...].
        sampling: variance of it by which devices reported, `reports_per_device` counted in; [...].
        noise: variance of it by privacy noise; [...].
        devices: m_s, > 0.
    """

    value: FloatArray
    sampling: FloatArray
    noise: FloatArray
    devices: float


@dataclass(frozen=True, eq=False)
class CombinedDifference:
    """The weighted mean of differences with its standard error; arrays of the strata's leading shape."""

    value: FloatArray
    standard_error: FloatArray


def effective_reports(strata: Sequence[Stratum]) -> float:
    """Return T of the module's docstring, the clock of tests over several stages."""
    return math.fsum(stratum.effective_reports for stratum in strata)


def combine_weights(differences: Sequence[StratumDifference]) -> FloatArray:
    """Return g of the module's docstring, float64 [..., strata], not negative, of sum 1.

    Raises:
        ArgumentError: there is no stratum.
    """
    if not differences:
        raise ArgumentError("differences", "at least one", 0)
    devices = np.array([each.devices for each in differences])
    sampling = np.stack([np.maximum(each.sampling, 0.0) for each in differences], axis=-1)
    noise = np.stack([np.maximum(each.noise, 0.0) for each in differences], axis=-1)
    unit = (sampling * devices**2).sum(axis=-1) / devices.sum()
    covariance = unit[..., None, None] / np.maximum.outer(devices, devices)
    covariance = covariance + (noise + 1e-9 * unit[..., None] / devices)[..., None] * np.eye(len(devices))
    ones = np.ones((*covariance.shape[:-1], 1))
    best = np.maximum(np.linalg.solve(covariance, ones)[..., 0], 0.0)
    weights: FloatArray = best / best.sum(axis=-1, keepdims=True)
    return weights


def combine(differences: Sequence[StratumDifference], weights: FloatArray) -> CombinedDifference:
    """Return the weighted mean over strata with the standard error of the module's docstring.

    Args:
        differences: of the strata.
        weights: of `combine_weights`, [..., strata].
    """
    value, variance = np.zeros(()), np.zeros(())
    for place, one in enumerate(differences):
        part = weights[..., place]
        value = value + part * one.value
        variance = variance + part * part * (np.maximum(one.sampling, 0.0) + np.maximum(one.noise, 0.0))
        for before, other in enumerate(differences[:place]):
            ratio = one.devices / other.devices
            shared = np.sqrt(np.maximum(one.sampling, 0.0) * np.maximum(other.sampling, 0.0) * min(ratio, 1.0 / ratio))
            variance = variance + 2.0 * part * weights[..., before] * shared
    return CombinedDifference(value, np.sqrt(variance))
