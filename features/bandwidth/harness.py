"""Scores estimators by the same figures on the same recorded calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.bandwidth.baselines import BASELINES, Estimator
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIDDLE, TICK_MS
from alcove.features.bandwidth.observation import Floats32, observations_of
from alcove.features.bandwidth.replay import Recording, random_paths, record
from alcove.features.bandwidth.sender import random_streams
from alcove.runtime import Model
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WARM_UP_TICKS: Final = 17
"""The first second of a call is not scored: nobody knows anything yet."""

SETTLED: Final = 0.25
"""An estimate has settled when it is within this share of the new capacity, and stays there for `SETTLED_TICKS`."""
SETTLED_TICKS: Final = 8
STEP_TICK: Final = 167
STEP_TICKS: Final = 334
"""A step of capacity comes 10 s after the beginning and 10 s before the end of a call."""


class ProgramEstimator:
    """The feature's program, a session for each of n calls.

    Args:
        model: a loaded program.
        n: calls.
    """

    def __init__(self, model: Model, n: int) -> None:
        self._sessions = [model.session() for _ in range(n)]
        self.std_bps: Floats = np.zeros(n)

    def update(self, observation: Floats32) -> Floats:
        """Return the estimates, bps f64 [n], after a tick's observations f32 [n, 150]; `std_bps` is beside them."""
        estimates = np.empty(len(self._sessions))
        for row, session in enumerate(self._sessions):
            capacity, std = session(observation[row : row + 1])
            estimates[row], self.std_bps[row] = capacity[0, 0], std[0, 0]
        return estimates


class DeviationOf(ProgramEstimator):
    """The same program, for `estimates_of`: what it gives is the deviation beside each estimate, bps."""

    def update(self, observation: Floats32) -> Floats:
        """Return the deviations, bps f64 [n], after a tick's observations f32 [n, 150]."""
        super().update(observation)
        return self.std_bps


def estimates_of(make: Callable[[int], Estimator], statistics: Floats32, *, chunk: int = 50) -> Floats:
    """Return what an estimator says of recorded calls, bps f64 [n, ticks].

    Args:
        make: an estimator of n calls.
        statistics: of a recording.
        chunk: ticks whose observations are held at a time.
    """
    n, ticks = statistics.shape[:2]
    estimator = make(n)
    result = np.empty((n, ticks))
    for begin in range(0, ticks, chunk):
        observations = observations_of(statistics, slice(begin, min(begin + chunk, ticks)))
        for offset in range(observations.shape[1]):
            result[:, begin + offset] = estimator.update(np.ascontiguousarray(observations[:, offset]))
    return result


@dataclass(frozen=True)
class Score:
    """How far estimates are from the truth.

    Attributes:
        error_bps: mean absolute error, bit/s.
        relative_error: the same over the mean capacity.
        over_rate: share of ticks with an estimate above the capacity.
        overshoot: by how much estimates are above, mean over all ticks, over the mean capacity.
        ticks: that were scored.
    """

    error_bps: float
    relative_error: float
    over_rate: float
    overshoot: float
    ticks: int


def score(estimates: Floats, recording: Recording) -> Score:
    """Return the score of estimates f64 [n, ticks] of a recording.

    Raises:
        ValueError: nothing is left to score.
    """
    is_scored = select_scored_ticks(recording)
    truth = recording.capacity_bps[is_scored].astype(np.float64)
    off = estimates[is_scored] - truth
    mean = float(truth.mean())
    error = float(np.abs(off).mean())
    above = np.maximum(off, 0.0)
    return Score(error, error / mean, float((off > 0).mean()), float(above.mean()) / mean, len(truth))


def select_scored_ticks(recording: Recording) -> NDArray[np.bool_]:
    """Return which ticks count, bool [n, ticks]: those of the trace except for the first second.

    Raises:
        ValueError: none is left.
    """
    is_scored = recording.is_scored.copy()
    is_scored[:, :WARM_UP_TICKS] = False
    if not is_scored.any():
        raise ValueError(f"a recording needs more than {WARM_UP_TICKS} ticks")
    return is_scored


REACHES: Final = tuple(n / 4 for n in range(1, 17))
"""Numbers of deviations for which it is counted how many truths are within them."""

RESAMPLES: Final = 1000


@dataclass(frozen=True)
class Certainty:
    """The fit of the deviations to the errors of the estimates.

    Attributes:
        within_1: share of truths within one deviation of the middle (`BandwidthAnswer.middle_bps`); 0.68 of a normal
            distribution.
        within_1_interval: of 95 %, by the bootstrap over calls.
        within_2: within two; 0.95 of a normal distribution.
        below_1: share of truths more than one deviation below the middle.
        above_1: share of truths more than one deviation above it.
        deviation: mean deviation over the mean capacity.
        within: share of truths within each of `REACHES` deviations.
    """

    within_1: float
    within_1_interval: tuple[float, float]
    within_2: float
    below_1: float
    above_1: float
    deviation: float
    within: tuple[float, ...]


def certainty(estimates: Floats, deviations: Floats, recording: Recording) -> Certainty:
    """Return how estimates and their deviations, bps f64 [n, ticks], fit the truth of a recording.

    Raises:
        ValueError: nothing is left to score.
    """
    is_scored = select_scored_ticks(recording)
    truth = recording.capacity_bps.astype(np.float64)
    off = truth - np.minimum(estimates + MIDDLE * deviations, MAX_CAPACITY_BPS)
    is_within = (np.abs(off) <= deviations) & is_scored
    rows = np.random.default_rng(1).integers(0, len(truth), (RESAMPLES, len(truth)))
    drawn = is_within.sum(axis=1)[rows].sum(axis=1) / np.maximum(is_scored.sum(axis=1)[rows].sum(axis=1), 1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    truth, deviation, off = truth[is_scored], deviations[is_scored], off[is_scored]
    return Certainty(
        within_1=float((np.abs(off) <= deviation).mean()),
        within_1_interval=(round(float(low), 4), round(float(high), 4)),
        within_2=float((np.abs(off) <= 2 * deviation).mean()),
        below_1=float((off < -deviation).mean()),
        above_1=float((off > deviation).mean()),
        deviation=float(deviation.mean() / truth.mean()),
        within=tuple(round(float((np.abs(off) <= reach * deviation).mean()), 4) for reach in REACHES),
    )


def estimators(program: Model | None = None) -> Mapping[str, Callable[[int], Estimator]]:
    """Return who is compared, by the names that figures give them; the feature's program first."""
    ours: dict[str, Callable[[int], Estimator]] = {}
    if program is not None:
        ours["bandwidth"] = lambda n: ProgramEstimator(program, n)
    return ours | BASELINES


def step_recording(factor: float, n: int, seed: int) -> Recording:
    """Return calls over links whose capacity, 200 kbps to 20 Mbps, becomes `factor` times as much, once.

    Without cross traffic and policers, so that the truth is the step; everything else is as in other calls.
    """
    rng = np.random.default_rng(seed)
    before = np.exp(rng.uniform(np.log(2e5), np.log(2e7), n))[:, None]
    capacity = np.where(np.arange(STEP_TICKS) < STEP_TICK, before, before * factor)
    drawn = random_paths(capacity, seed)
    paths = type(drawn)(
        **{
            **vars(drawn),
            "cross_bps": np.zeros_like(capacity),
            "police_bps": np.full(n, np.inf),
        }
    )
    made = record(paths, random_streams(n, rng), seed)
    return Recording(made.statistics, capacity.astype(np.float32), made.is_scored)


def settling_s(estimates: Floats, recording: Recording) -> Floats:
    """Return the seconds from the step until estimates are near the new capacity and stay, f64 [n]; inf for never."""
    after = estimates[:, STEP_TICK:] / recording.capacity_bps[:, STEP_TICK:]
    is_near = np.abs(after - 1) <= SETTLED
    run = np.asarray(np.lib.stride_tricks.sliding_window_view(is_near, SETTLED_TICKS, axis=1)).all(axis=2)
    first = np.where(run.max(axis=1), run.argmax(axis=1).astype(float), np.inf)
    result: Floats = (first + 1) * TICK_MS / 1000
    return result


def step_response(estimates: Floats, recording: Recording) -> Floats:
    """Return the median of the estimates over the capacity before the step, f64 [ticks]."""
    result: Floats = np.median(estimates / recording.capacity_bps[:, :1], axis=0)
    return result
