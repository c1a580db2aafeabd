"""Measures where CUPED pays: standard errors with it relative to those of reports without the earlier share."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from alcove.platform.domain.mechanism import choose_subset
from alcove.platform.simulation.aggregation import aggregation_mechanism
from alcove.platform.stats import (
    Aggregate,
    Mechanism,
    aggregate_from_noised_histogram,
    cuped_error_ratio,
    ratio_difference,
    split_pre_period,
)
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.platform.stats.cuped_gain import joint_model
from alcove.platform.stats.decision import Difference
from alcove.platform.stats.pre_period import corrected_pairs
from alcove.privacy.limits import DAY_S
from alcove.registry.policy import TaskPolicy, make_task

RATE = 0.6
DEVICES = (1_000, 10_000, 100_000, 1_000_000)
CASES = (
    ((0.5, 0.8), 0.6, 1),
    ((0.5, 0.8), 0.3, 1),
    ((0.7,), 0.6, 1),
    ((0.2, 0.4, 0.6, 0.8), 0.6, 1),
    ((0.5, 0.8), 0.6, 8),
)
"""Edges, correlation, latency bins."""
MECHANISMS = (
    (Mechanism.EXACT, Fraction(1)),
    (Mechanism.PRIO3, Fraction(1)),
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(2)),
)


@dataclass(frozen=True)
class Gain:
    """What CUPED does to a standard error; below 1 it pays.

    Attributes:
        edges: of the earlier share.
        correlation: of a device's earlier share and a later outcome.
        latency_bins: that reports tell apart; the latency is the same in all devices.
        mechanism: how reports are private.
        epsilon: of a report, or of a window.
        devices: in both arms together; each reports once.
        forecast: ratio of standard errors, by `cuped_error_ratio`.
        simulated: ratio of the mean standard errors of simulated fleets.
    """

    edges: tuple[float, ...]
    correlation: float
    latency_bins: int
    mechanism: Mechanism
    epsilon: Fraction
    devices: int
    forecast: float
    simulated: float


def gains(rng: np.random.Generator, *, runs: int) -> list[Gain]:
    """Return every case, by mechanism and number of devices; two equal arms."""
    found = []
    for edges, correlation, latency_bins in CASES:
        by_outcome = joint_model(edges, RATE, correlation=correlation).T
        fine = np.tile(by_outcome, (2, 1, latency_bins)) / (2.0 * latency_bins)  # [arms, outcomes, latency x pre bins]
        plain = fine.reshape(2, 2, latency_bins, -1).sum(axis=3)
        for mechanism, epsilon in MECHANISMS:
            for devices in DEVICES:
                tasks = tuple(_task(epsilon, latency_bins, pre_edges) for pre_edges in ((), edges))
                forecast = cuped_error_ratio(
                    edges,
                    rate=RATE,
                    shares=(0.5, 0.5),
                    mechanism=mechanism,
                    epsilon=epsilon,
                    devices=devices,
                    latency_bins=latency_bins,
                    correlation=correlation,
                    subset_sizes=(tasks[0].subset_size, tasks[1].subset_size),
                )
                errors = np.array(
                    [
                        (
                            _corrected_error(_draw(rng, fine, devices, mechanism, tasks[1]), edges),
                            _plain_error(_draw(rng, plain, devices, mechanism, tasks[0])),
                        )
                        for _ in range(runs)
                    ]
                )
                simulated = float(errors[:, 0].mean() / errors[:, 1].mean())
                gain = Gain(edges, correlation, latency_bins, mechanism, epsilon, devices, forecast, simulated)
                found.append(gain)
    return found


def _plain_error(aggregate: Aggregate) -> float:
    accepted = np.zeros((aggregate.outcomes, aggregate.bins))
    accepted[1] = 1.0
    found = ratio_difference(aggregate, accepted, np.ones(accepted.shape), arm=1, versus=0, critical_value=1.0)
    assert found is not None
    return found.standard_error


def _corrected_error(aggregate: Aggregate, edges: tuple[float, ...]) -> float:
    _, pre_period = split_pre_period(aggregate, edges)
    ((after,), _) = corrected_pairs(
        pre_period, (Difference(1, 0, 0.0, None, 0.0, 0.0),), success_outcome=1, critical_value=1.0
    )
    assert after.standard_error is not None
    return after.standard_error


def _task(epsilon: Fraction, latency_bins: int, pre_edges: tuple[float, ...]) -> TaskPolicy:
    """Return the task of randomized reports as the server chooses it: one cell a report, or a set of them."""
    task = make_task(
        experiment_id="ex-0",
        epsilon=f"{float(epsilon):g}",
        arm_count=2,
        latency_edges_ms=tuple(float(edge) for edge in range(1, latency_bins)),
        window_s=DAY_S,
        first_window_start_s=0,
        pre_edges=pre_edges,
    )
    return choose_subset(task)


def _draw(
    rng: np.random.Generator, arms: FloatArray, devices: int, mechanism: Mechanism, task: TaskPolicy
) -> Aggregate:
    """Return what one fleet's reports estimate; arms [arms, outcomes, bins] are the true cells' probabilities."""
    cells = rng.multinomial(devices, arms.ravel())
    if mechanism is Mechanism.EXACT:
        return Aggregate(cells.reshape(arms.shape).astype(float), np.zeros((cells.size, cells.size)), devices)
    if mechanism is Mechanism.PRIO3:
        noised = cells.reshape(arms.shape) + draw_noise(rng, arms.shape, task.epsilon_fraction)
        return aggregate_from_noised_histogram(noised, reports=devices, epsilon=task.epsilon_fraction)
    responses = aggregation_mechanism(Mechanism.RANDOMIZED_RESPONSE, task, rng)
    responses.add(cells)
    return responses.aggregate()
