"""The simulated link agrees with queueing theory on delay, backlog, loss and policing, and conserves every bit."""

import numpy as np
import pytest
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.link import VIDEO, Floats, LinkModel, Packets, Paths
from alcove.features.bandwidth.sender import Sender, random_streams

N = 16
SIZE = 8000.0
"""Bits of a packet: 8 ms at 1 Mbps."""


def paths(capacity_bps: Floats | float, ticks: int, n: int = N, **changes: Floats | float) -> Paths:
    """Return n equal paths: no cross traffic, delay, loss, jitter, policer, an endless queue; but for `changes`."""
    given: dict[str, Floats | float] = {
        "base_delay_ms": 0.0,
        "queue_bits": np.inf,
        "loss": 0.0,
        "jitter_ms": 0.0,
        "police_bps": np.inf,
        "police_bits": 0.0,
    }
    given |= {key: value for key, value in changes.items() if key != "cross_bps"}
    return Paths(
        capacity_bps=np.broadcast_to(capacity_bps, (n, ticks)).astype(float),
        cross_bps=np.broadcast_to(changes.get("cross_bps", 0.0), (n, ticks)).astype(float),
        **{key: np.broadcast_to(value, n).astype(float) for key, value in given.items()},
    )


def packets(time_ms: Floats, bits: float = SIZE, count: float = 1.0) -> Packets:
    """Return packets at times f64 [n, p]; inf for no packet."""
    is_there = np.isfinite(time_ms)
    return Packets(
        np.where(is_there, time_ms, 0.0),
        np.where(is_there, bits, 0.0),
        np.full(time_ms.shape, count),
        np.full(time_ms.shape, VIDEO),
    )


def arrivals(rng: np.random.Generator, tick: int, n: int, per_ms: float) -> Packets:
    """Return the packets of a Poisson process in one tick."""
    counts = rng.poisson(per_ms * TICK_MS, n)
    width = max(1, int(counts.max()))
    at = np.where(np.arange(width) < counts[:, None], rng.random((n, width)), np.inf)
    return packets(np.sort((tick + at) * TICK_MS, axis=1))


def poisson(link: LinkModel, ticks: int, per_ms: float, seed: int = 0) -> None:
    """Send packets of a Poisson process."""
    rng = np.random.default_rng(seed)
    n = len(link.paths.capacity_bps)
    for tick in range(ticks):
        link.step(arrivals(rng, tick, n, per_ms))


def steady(link: LinkModel, ticks: int, per_tick: int) -> None:
    """Send `per_tick` packets in each tick, evenly."""
    n = len(link.paths.capacity_bps)
    for tick in range(ticks):
        link.step(packets(np.broadcast_to((tick + np.arange(per_tick) / per_tick) * TICK_MS, (n, per_tick))))


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_mean_wait_of_poisson_arrivals_is_that_of_pollaczek_and_khinchine(load: float) -> None:
    """M/D/1: mean wait = load / (2 (1 - load)) times of service, here 8 ms."""
    ticks, service_ms = 200, 8.0
    link = LinkModel(paths(1e6, ticks, n=512), seed=1)
    poisson(link, ticks, load / service_ms)
    sums = link.received.sums
    wait_ms = sums["delay_ms"].sum() / sums["packets"].sum() - service_ms
    assert wait_ms == pytest.approx(load / (2 * (1 - load)) * service_ms, rel=0.05)


def test_packets_in_the_system_are_arrival_rate_times_their_time_there() -> None:
    """Little's law: the backlog, sampled at ticks' ends, against rate x mean delay."""
    ticks, per_ms, n = 200, 0.07, 512
    link = LinkModel(paths(1e6, ticks, n=n), seed=1)
    rng = np.random.default_rng(2)
    seen = []
    for tick in range(ticks):
        link.step(arrivals(rng, tick, n, per_ms))
        seen.append(link.backlog_bits((tick + 1) * TICK_MS).mean() / SIZE)
    sums = link.received.sums
    # Half a packet on average is in service for as long as the server is busy: the backlog in bits counts what is left.
    busy = per_ms * 8.0
    in_system = np.mean(seen) + busy / 2
    assert in_system == pytest.approx(per_ms * sums["delay_ms"].sum() / sums["packets"].sum(), rel=0.05)


@pytest.mark.parametrize("overload", [1.2, 2.0])
def test_constant_overload_loses_what_does_not_fit_and_delays_by_the_full_queue(overload: float) -> None:
    """Drop-tail: 1 - 1 / overload is lost, the rest waits for a full queue."""
    ticks, queue_ms = 800, 200.0
    per_tick = int(7.5 * overload * 4)
    link = LinkModel(paths(4e6, ticks, queue_bits=queue_ms * 4000), seed=1)
    steady(link, ticks, per_tick)
    late = slice(200, None)
    sums = {name: values[:, late].sum() for name, values in link.received.sums.items()}
    assert sums["lost"] / (sums["lost"] + sums["packets"]) == pytest.approx(1 - 1 / overload, rel=0.02)
    assert sums["delay_ms"] / sums["packets"] == pytest.approx(queue_ms, rel=0.03)
    assert sums["bits"] / N / (600 * TICK_MS / 1000) == pytest.approx(4e6, rel=0.01)


def test_policer_lets_its_rate_pass_and_a_burst_of_its_depth() -> None:
    """Token bucket: first the depth, then the rate; nothing is delayed."""
    ticks, depth = 500, 40 * SIZE
    link = LinkModel(paths(100e6, ticks, police_bps=1e6, police_bits=depth), seed=1)
    steady(link, ticks, 15)  # 2 Mbps
    bits = link.received.sums["bits"].sum(axis=1)
    assert bits == pytest.approx(depth + 1e6 * ticks * TICK_MS / 1000, rel=0.01)
    assert link.policed_bits.min() > 0
    assert link.received.sums["delay_ms"].sum() / link.received.sums["packets"].sum() == pytest.approx(0.08, rel=0.01)
    burst = LinkModel(paths(100e6, 2, police_bps=1e3, police_bits=depth), seed=1)
    burst.step(packets(np.zeros((N, 100))))
    assert burst.received.sums["packets"][:, 0] == pytest.approx(40)


def test_every_bit_is_received_queued_or_lost_somewhere() -> None:
    """Conservation, with everything on and a capacity that is sometimes 0."""
    rng = np.random.default_rng(5)
    ticks = 400
    capacity = rng.choice([0.0, 3e5, 2e6, 6e6], (N, ticks))
    capacity[:, -60:] = 1e9  # the queue runs empty
    link = LinkModel(
        paths(
            capacity, ticks, cross_bps=2e5, queue_bits=3e5, loss=0.05, jitter_ms=3.0, police_bps=1.5e6, police_bits=1e5
        ),
        seed=3,
    )
    sender = Sender(random_streams(N, rng), seed=4)
    sent = np.zeros(N)
    for tick in range(ticks):
        made = sender.packets(tick, np.full(N, 2e6 if tick < ticks - 30 else 1e4))
        sent += np.where(made.bits > 0, made.bits, 0.0).sum(axis=1)
        link.step(made)
    received = link.received.sums["bits"].sum(axis=1)
    assert (link.dropped_bits > 0).all()
    assert (link.policed_bits > 0).all()
    assert (link.lost_bits > 0).all()
    rest = sent - received - link.dropped_bits - link.policed_bits - link.lost_bits
    assert np.abs(rest / sent).max() < 2e-3  # what is on its way in the last tick


def test_capacity_that_changes_is_served_exactly() -> None:
    """A queue that a halt of the link filled leaves at the capacity that follows, to the millisecond."""
    capacity = np.array([1e6, 0.0, 0.0, 2e6, 2e6, 2e6])
    link = LinkModel(paths(capacity, 6, n=1, base_delay_ms=0.5), seed=1)
    link.step(packets(np.zeros((1, 10))))  # 10 x 8 ms: 60 ms of it now, the rest when the link is back
    for _ in range(5):
        link.step(packets(np.full((1, 1), np.inf)))
    got = link.received.sums["packets"][0]
    assert got.tolist() == [7, 0, 0, 3, 0, 0]
    # 20,000 bits are left at 180 ms; packets 8, 9, 10 leave 2, 6 and 10 ms later.
    assert link.received.sums["delay_ms"][0, 3] == pytest.approx(182 + 186 + 190 + 3 * 0.5)


def test_cross_traffic_takes_its_part() -> None:
    """A sender that is too fast receives what is left."""
    link = LinkModel(paths(4e6, 300, cross_bps=1e6, queue_bits=8e5), seed=1)
    steady(link, 300, 60)
    assert link.received.sums["bits"][:, 100:].mean() / (TICK_MS / 1000) == pytest.approx(3e6, rel=0.01)
    assert link.paths.available_bps == pytest.approx(3e6)


def test_random_loss_is_counted_in_packets_and_in_runs() -> None:
    """Bernoulli loss p: a share p is lost, in runs of mean length 1 / (1 - p)."""
    link = LinkModel(paths(100e6, 400, n=64, loss=0.2), seed=7)
    steady(link, 400, 12)
    sums = {name: values.sum() for name, values in link.received.sums.items()}
    assert sums["lost"] / (sums["lost"] + sums["packets"]) == pytest.approx(0.2, rel=0.03)
    assert sums["lost"] / sums["loss_runs"] == pytest.approx(1.25, rel=0.03)


def test_jitter_delays_and_never_reorders() -> None:
    """Gaps between arrivals are 0 or more and add up to the time between the first and the last."""
    link = LinkModel(paths(100e6, 200, n=8, jitter_ms=10.0, base_delay_ms=5.0), seed=7)
    steady(link, 200, 20)
    sums = link.received.sums
    assert (sums["gap_ms"] >= 0).all()
    assert sums["gap_ms"].sum(axis=1) == pytest.approx(200 * TICK_MS, rel=0.01)
    assert sums["delay_ms"].sum() / sums["packets"].sum() > 15.0
    assert link.received.min_delay_ms.min() >= 5.0


def test_train_counts_as_its_packets() -> None:
    """Ten packets back to back, once as ten and once as one train: the same counts, delays, gaps."""
    single, train = (LinkModel(paths(1e6, 4, n=1, base_delay_ms=3.0), seed=1) for _ in range(2))
    for tick in range(2):
        single.step(packets(np.full((1, 10), tick * 120.0 + 1e-6), 4000.0))
        train.step(packets(np.full((1, 1), tick * 120.0 + 1e-6), 40000.0, 10.0))
        for link in (single, train):
            link.step(packets(np.full((1, 1), np.inf)))
    for name in ("packets", "bits", "delay_ms", "gap_ms", "gap_ms2", "gaps"):
        expected, seen = (link.received.sums[name].sum() for link in (single, train))
        tolerance = 0.03 if name.startswith("gap") else 1e-6  # the first gap of the first train is not known
        assert seen == pytest.approx(expected, rel=tolerance), name
    assert train.received.min_delay_ms.min() == pytest.approx(single.received.min_delay_ms.min())
