"""Combines the differences that several stages of a rollout measured, each against a control group of its own.

A stage is a stratum s: its aggregate has N_s reports, of which a part a_s is planned for the treatment and 1 - a_s for
the control. Each stage gives a difference D_s of treatment minus control, and what is tested is their weighted mean

    D = sum w_s D_s / sum w_s,      w_s = 4 N_s a_s (1 - a_s)        "effective reports": N_s where groups are equal

(Cochran 1954, Mantel and Haenszel 1959: the weights are best where a report varies alike in all strata). Only
differences inside a stage enter, so that no change of the shares or of the devices from stage to stage can be taken for
an effect of the version (Simpson's paradox): where each stage's true difference is at most the margin, D's is too.

**Why looking at will stays valid.** The weights are fixed by the number of reports and by the plan, never by what the
reports say. So X = sum w_s (D_s - d_s), with d_s the true differences, grows by terms of mean zero as reports come in,
within a stage and from one to the next: up to a smaller order a martingale, whose variance grows in proportion to
T = sum w_s where reports vary alike (the variance of D_s is about 4 v / w_s). X / sd(X) is then what the confidence
sequences of `confidence_sequence.py` and the boundaries of `one_sided.py` are made for, with T as the number of
reports. A later stage adds terms and changes none of those before; nor does a change of the plan of later stages.

**Devices in several stages.** Shares only widen, so a device of stage s reports in later stages too and may say the
same each time. With r_s reports of one device at most in a stage, and m_s = N_s / r_s devices at least, the sampling
parts x_s of two stages' differences have in the worst case the correlation sqrt(min(m_s / m_u, m_u / m_s)): the smaller
group lies wholly in the larger one. A device keeps its side up to a share of one half; one that changes it makes the
correlation negative. Privacy noise is drawn anew for each report or window, so that its parts are independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError

__all__ = ["CombinedDifference", "Stratum", "StratumDifference", "combine", "effective_reports"]


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
        weight: w_s, the effective reports; 0 leaves the stratum out.
        devices: m_s, at least; > 0.
    """

    value: FloatArray
    sampling: FloatArray
    noise: FloatArray
    weight: float
    devices: float


@dataclass(frozen=True, eq=False)
class CombinedDifference:
    """The weighted mean of differences with its standard error; arrays of the strata's leading shape."""

    value: FloatArray
    standard_error: FloatArray


def effective_reports(strata: Sequence[Stratum]) -> float:
    """Return T of the module's docstring, the clock of tests over several stages."""
    return math.fsum(stratum.effective_reports for stratum in strata)


def combine(differences: Sequence[StratumDifference]) -> CombinedDifference:
    """Return the weighted mean over strata by the module's formulas.

    Raises:
        ArgumentError: no stratum has a weight.
    """
    kept = [each for each in differences if each.weight > 0.0]
    total = math.fsum(each.weight for each in kept)
    if not kept:
        raise ArgumentError("differences", "one of some weight at least", len(differences))
    value, variance = np.zeros(()), np.zeros(())
    for place, one in enumerate(kept):
        part = one.weight / total
        value = value + part * one.value
        variance = variance + part * part * (np.maximum(one.sampling, 0.0) + np.maximum(one.noise, 0.0))
        for other in kept[:place]:
            ratio = one.devices / other.devices
            shared = np.sqrt(np.maximum(one.sampling, 0.0) * np.maximum(other.sampling, 0.0) * min(ratio, 1.0 / ratio))
            variance = variance + 2.0 * part * (other.weight / total) * shared
    return CombinedDifference(value, np.sqrt(variance))
