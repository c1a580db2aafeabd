"""Computes posterior distributions on an interval, and the chances and losses that follow from several of them.

A posterior is a Beta density on [low, high] times a normal likelihood: exact counts of a share give the first, an
estimate with a standard error the second. Everything else is an integral over one line, by Gauss and Legendre's rule
with 16 nodes on panels that follow the scales of all posteriors at once; no random numbers are drawn, and the same
counts give the same digits. With densities f, distribution functions F and arms that are independent given the reports:

    chance that arm a is best        integral of f_a prod_{b != a} F_b
    expected loss of choosing a      E[max_b x_b - x_a] = integral of F_a (1 - prod_{b != a} F_b)
    chance that x_a - x_b <= d       integral of f_b(x) F_a(x + d)

The first two are for "more is better"; `Posterior.mirror` turns the sign. Source: Stucchio, "Bayesian A/B testing at
VWO", 2015, for two arms; nodes: Abramowitz and Stegun, 25.4.29.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.confidence_sequence import normal_quantile
from alcove.platform.stats.errors import ArgumentError
from numpy.polynomial import legendre

_NODES = 16
_STEPS = 100
_PRECISION = 1e-9  # of an end of an interval, in standard deviations
# Ends of panels in standard deviations: fine where a normal density is, wide where a Beta's longer tail may be.
_PLACES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0, 40.0)


@dataclass(frozen=True)
class Posterior:
    """A distribution on [low, high]: Beta(alpha, beta) on that interval times the normal likelihood of an estimate.

    Attributes:
        alpha: first shape of the Beta factor, > 0; 1 with `beta` 1 is the uniform prior alone.
        beta: second shape, > 0.
        estimate: center of the normal likelihood; anything finite, inside the interval or not.
        standard_error: of it, > 0; infinite: there is no normal factor.
        low: lower end, below `high`.
        high: upper end.

    Raises:
        ArgumentError: a field is out of its bounds.
    """

    alpha: float = 1.0
    beta: float = 1.0
    estimate: float = 0.0
    standard_error: float = math.inf
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta), ("standard_error", self.standard_error)):
            if not value > 0.0 or (name != "standard_error" and math.isinf(value)):
                raise ArgumentError(name, "positive", value)
        if not math.isfinite(self.estimate):
            raise ArgumentError("estimate", "finite", self.estimate)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ArgumentError("low, high", "finite and rising", (self.low, self.high))

    def mirror(self) -> "Posterior":
        """Return the distribution of the negative."""
        return replace(self, alpha=self.beta, beta=self.alpha, estimate=-self.estimate, low=-self.high, high=-self.low)

    def moments(self) -> tuple[float, float]:
        """Return the mean and the standard deviation."""
        line = _Line((self,))
        mean = line.integrate(line.density[0] * line.nodes)
        return mean, math.sqrt(max(line.integrate(line.density[0] * (line.nodes - mean) ** 2), 0.0))

    def interval(self, mass: float) -> Interval:
        """Return the equal-tailed credible interval that holds `mass`, in (0, 1)."""
        tail = _validate_mass(mass)
        return _solve_ends(self._reach, tail, self.moments(), Interval(self.low, self.high))

    def panel_ends(self) -> FloatArray:
        """Return where this distribution's panels end, both ends of its interval among them; rising."""
        center, scale = self._center_and_scale()
        places = np.array(_PLACES) * scale
        ends = np.concatenate([[self.low, self.high], center - places, center + places])
        return np.unique(np.clip(ends, self.low, self.high))

    def log_density(self, values: FloatArray) -> FloatArray:
        """Return the logarithm of the density up to a constant; minus infinity outside the interval."""
        part = (values - self.low) / (self.high - self.low)
        is_inside = (part > 0.0) & (part < 1.0)
        safe = np.where(is_inside, part, 0.5)
        logs = (self.alpha - 1.0) * np.log(safe) + (self.beta - 1.0) * np.log1p(-safe)
        if math.isfinite(self.standard_error):
            logs -= 0.5 * ((values - self.estimate) / self.standard_error) ** 2
        return np.where(is_inside, logs, -np.inf)

    def _center_and_scale(self) -> tuple[float, float]:
        width, total = self.high - self.low, self.alpha + self.beta
        center = self.low + width * self.alpha / total
        scale = width * math.sqrt(self.alpha * self.beta / (total * total * (total + 1.0)))
        if self.standard_error < scale:
            return min(max(self.estimate, self.low), self.high), self.standard_error
        return center, scale

    def _reach(self, value: float) -> tuple[float, float]:
        """Return the distribution function and the density at a value."""
        line = _Line((self,), ends=(value,))
        below = line.integrate(np.where(line.nodes < value, line.density[0], 0.0))
        return below, float(np.exp(self.log_density(np.array(value)) - line.log_masses[0]))


def chances_best(posteriors: Sequence[Posterior]) -> tuple[float, ...]:
    """Return each one's chance to be the largest; they sum to 1."""
    line = _Line(posteriors)
    return tuple(
        line.integrate(line.density[arm] * np.delete(line.cumulative, arm, axis=0).prod(axis=0))
        for arm in range(len(posteriors))
    )


def expected_losses(posteriors: Sequence[Posterior]) -> tuple[float, ...]:
    """Return by how much the largest is expected to exceed each one, in their unit, >= 0."""
    line = _Line(posteriors)
    return tuple(
        line.integrate(line.cumulative[arm] * (1.0 - np.delete(line.cumulative, arm, axis=0).prod(axis=0)))
        for arm in range(len(posteriors))
    )


def difference_interval(one: Posterior, other: Posterior, mass: float) -> Interval:
    """Return the equal-tailed credible interval of `one` minus `other` that holds `mass`, in (0, 1)."""
    tail = _validate_mass(mass)

    def reach(difference: float) -> tuple[float, float]:
        line = _Line((one, other), shifts=(difference, 0.0))
        return line.integrate(line.density[1] * line.cumulative[0]), line.integrate(line.density[1] * line.density[0])

    (mean, deviation), (other_mean, other_deviation) = one.moments(), other.moments()
    moments = mean - other_mean, math.hypot(deviation, other_deviation)
    return _solve_ends(reach, tail, moments, Interval(one.low - other.high, one.high - other.low))


class _Line:
    """Nodes on a line, and the densities and distribution functions of several posteriors at them.

    Attributes:
        nodes: float64 [panels, nodes of a panel].
        density: float64 [posteriors, panels, nodes], each of mass 1.
        cumulative: distribution functions, likewise.
        log_masses: float64 [posteriors]: logarithm of what each `log_density` integrates to.
    """

    def __init__(
        self, posteriors: Sequence[Posterior], *, shifts: Sequence[float] = (), ends: Sequence[float] = ()
    ) -> None:
        moved = shifts or (0.0,) * len(posteriors)
        every = [each.panel_ends() - shift for each, shift in zip(posteriors, moved, strict=True)]
        edges = np.unique(np.concatenate([*every, np.array(ends, dtype=np.float64)]))
        points, weights, primitive = _rule()
        self._half_widths = 0.5 * np.diff(edges)[:, None]
        self.nodes = 0.5 * (edges[:-1] + edges[1:])[:, None] + self._half_widths * points
        self._weights = self._half_widths * weights
        logs = np.stack([each.log_density(self.nodes + shift) for each, shift in zip(posteriors, moved, strict=True)])
        peaks = logs.max(axis=(1, 2), keepdims=True)
        raw = np.exp(logs - peaks)
        masses = (raw * self._weights).sum(axis=2)
        total = masses.sum(axis=1)[:, None, None]
        self.density = raw / total
        self.log_masses = (peaks + np.log(total)).ravel()
        before = np.cumsum(masses, axis=1) - masses
        self.cumulative = np.clip((before[:, :, None] + self._half_widths * (raw @ primitive.T)) / total, 0.0, 1.0)

    def integrate(self, values: FloatArray) -> float:
        """Return the integral of values at the nodes."""
        return math.fsum((values * self._weights).ravel().tolist())


@lru_cache(maxsize=1)
def _rule() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1], and the matrix that integrates values at the nodes from -1 up to each."""
    points, weights = legendre.leggauss(_NODES)
    values = legendre.legvander(points, _NODES - 1)
    integrals = np.stack([legendre.legval(points, legendre.legint(row, lbnd=-1.0)) for row in np.eye(_NODES)], axis=1)
    return points, weights, integrals @ np.linalg.inv(values)


def _solve_ends(
    reach: Callable[[float], tuple[float, float]], tail: float, moments: tuple[float, float], bounds: Interval
) -> Interval:
    """Return where a distribution function reaches `tail` and its complement.

    Args:
        reach: distribution function and density at a value.
        tail: part below the lower end, in (0, 0.5).
        moments: mean and standard deviation, from which the search begins.
        bounds: of all values.
    """
    mean, deviation = moments
    ends = []
    for part in (tail, 1.0 - tail):
        low, high = bounds
        value = min(
            max(mean + deviation * normal_quantile(part), low + 0.01 * (mean - low)), high - 0.01 * (high - mean)
        )
        for _ in range(_STEPS):
            below, density = reach(value)
            low, high = (value, high) if below < part else (low, value)
            following = value - (below - part) / density if density > 0.0 else math.inf
            if not low < following < high:  # Newton's step leaves what is known: halve that
                following = 0.5 * (low + high)
            is_found = abs(following - value) <= _PRECISION * deviation
            value = following
            if is_found:
                break
        ends.append(value)
    return Interval(*ends)


def _validate_mass(mass: float) -> float:
    """Return the part in each tail."""
    if not 0.0 < mass < 1.0:
        raise ArgumentError("mass", "in (0, 1)", mass)
    return 0.5 * (1.0 - mass)
