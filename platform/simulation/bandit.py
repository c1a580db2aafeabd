"""Simulates a bandit's month day by day, by the rule that moves shares, and what a fixed split would have lost.

day's devices ─▶ outcomes by arm ─▶ noise of the mechanism ─▶ window closed ─▶ epochs, posterior, next shares

Devices take part every day, report in the windows that their ledger pays for, and accept anew each day; the estimates
count a device's reports as one, the worst case, so that shares move later here than they could.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from alcove.platform.simulation.aggregation import aggregation_mechanism
from alcove.platform.stats import (
    Aggregate,
    AllocationRule,
    Mechanism,
    Metric,
    bayesian_view_of_epochs,
    estimate,
    next_buckets,
    pool,
)
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy import Aggregation, TaskPolicy, make_task
from numpy.typing import NDArray

__all__ = ["BanditRun", "BanditScenario", "simulate_bandit"]

_CLOSED_AFTER = {Mechanism.RANDOMIZED_RESPONSE: 4, Mechanism.PRIO3: 2}
"""Days from a window's begin until its reports may be read: devices have two more windows and a day, or one more."""


@dataclass(frozen=True)
class BanditScenario:
    """One experiment.

    Attributes:
        accepted: accepted share of each arm.
        mechanism: how reports become sums.
        epsilon: as in a task.
        devices: that take part each day.
        days: how long it runs.
        rule: the bounds of the shares.
        runs: how often it is simulated.
        seed: of everything random.
    """

    accepted: tuple[float, ...]
    mechanism: Mechanism
    epsilon: str = "1"
    devices: int = 100_000
    days: int = 30
    rule: AllocationRule = AllocationRule()  # noqa: RUF009 - immutable
    runs: int = 100
    seed: int = 1


@dataclass(frozen=True)
class BanditRun:
    """How one run ended.

    Attributes:
        regret: accepted share lost against the best arm, mean over devices and days.
        fixed_regret: the same with equal shares all the time.
        shares: of the arms on the last day, of sum 1.
        chances: of each arm to be the best one, at the last look; equal where there was none.
    """

    regret: float
    fixed_regret: float
    shares: tuple[float, ...]
    chances: tuple[float, ...]


def simulate_bandit(scenario: BanditScenario) -> Iterator[BanditRun]:
    """Give the runs of a scenario, the same ones each time."""
    for seed in np.random.SeedSequence(scenario.seed).spawn(scenario.runs):
        yield _simulate_one(scenario, np.random.default_rng(seed))


def _simulate_one(scenario: BanditScenario, rng: np.random.Generator) -> BanditRun:
    arms, task = len(scenario.accepted), _task_of(scenario)
    times_s = debit_times_s(task.epsilon_fraction, DAY_S, scenario.days, may_use_reserve=False)
    paid = {time_s // DAY_S for time_s in times_s}
    losses = max(scenario.accepted) - np.array(scenario.accepted)
    buckets = [POLICY_BUCKETS // arms] * arms
    buckets[0] += POLICY_BUCKETS - sum(buckets)
    chances = (1.0 / arms,) * arms
    windows: dict[int, tuple[tuple[int, ...], Aggregate]] = {}
    lost = 0.0
    for day in range(scenario.days):
        if (closed := day - _CLOSED_AFTER[scenario.mechanism]) in windows:
            epochs = groupby((windows[each] for each in sorted(windows) if each <= closed), key=lambda each: each[0])
            aggregates = [pool([aggregate for _, aggregate in group]) for _, group in epochs]
            repeats = sum(each <= closed for each in windows)
            metric = Metric(bin_values_ms=(0.0,), reports_per_device=repeats)
            view = bayesian_view_of_epochs([estimate(each, metric) for each in aggregates])
            if view.arms:
                chances = tuple(each.chance_best for each in view.arms)
                buckets = list(next_buckets(buckets, [each / sum(chances) for each in chances], scenario.rule))
        parts = np.array(buckets) / sum(buckets)
        lost += float(parts @ losses)
        if day in paid:
            sums = aggregation_mechanism(scenario.mechanism, task, rng)
            sums.add(_draw(scenario, parts, rng))
            windows[day] = tuple(buckets), sums.aggregate()
    return BanditRun(
        lost / scenario.days, float(losses.mean()), tuple(each / sum(buckets) for each in buckets), chances
    )


def _draw(scenario: BanditScenario, parts: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    accepted = np.array(scenario.accepted)
    cells = np.stack([parts * (1.0 - accepted), parts * accepted], axis=1).ravel()
    return rng.multinomial(scenario.devices, cells / cells.sum())


def _task_of(scenario: BanditScenario) -> TaskPolicy:
    aggregation = None
    if scenario.mechanism is Mechanism.PRIO3:
        aggregation = Aggregation(leader_url="https://a.example", helper_url="https://b.example", min_batch_size=100)
    return make_task(
        experiment_id="ex-simulated",
        epsilon=scenario.epsilon,
        arm_count=len(scenario.accepted),
        latency_edges_ms=(),
        window_s=DAY_S,
        first_window_start_s=0,
        aggregation=aggregation,
    )
