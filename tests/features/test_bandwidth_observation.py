"""The 150 values of a bandwidth observation match their definitions, in order, and use past packets only."""

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from alcove.features.bandwidth.config import OBSERVATION_SIZE, STATISTICS
from alcove.features.bandwidth.link import AUDIO, PROBE, VIDEO, LinkModel, TickSums
from alcove.features.bandwidth.observation import newest, observations_of, statistics_of, trailing_min, trailing_sum
from alcove.features.bandwidth.replay import Trace, random_paths, read_traces, record, segments_of, truth_of
from alcove.features.bandwidth.sender import CONTROLLER, Sender, random_streams


def count_arrivals(arrivals: list[tuple[float, float, float, int, int]], ticks: int) -> TickSums:
    """Return what a receiver counts of (arrival ms, delay ms, bits, kind, packets lost just before), one by one."""
    sums, last = TickSums(1, ticks), None
    for arrival, delay, bits, kind, lost in arrivals:
        gap = 0.0 if last is None else arrival - last
        values = [1, bits, delay, float(last is not None), gap, gap**2, lost, float(lost > 0)]
        values += [float(kind == k) for k in (VIDEO, AUDIO, PROBE)]
        sums.add(
            np.zeros(1, np.int64), np.array([int(arrival // 60)]), np.array(values, float)[:, None], np.array([delay])
        )
        last = arrival
    return sums


ARRIVALS = [
    (10.0, 30.0, 8000.0, VIDEO, 0),
    (12.0, 32.0, 8000.0, VIDEO, 0),
    (50.0, 25.0, 800.0, AUDIO, 0),
    (70.0, 55.0, 9600.0, PROBE, 3),
    (200.0, 25.0, 4000.0, VIDEO, 1),
]


def test_statistics_of_a_window_are_those_of_its_packets() -> None:
    """Tick 0 by hand, and the long window that covers all."""
    short, long = (
        statistics_of(count_arrivals(ARRIVALS, 5))[0, 0, 0],
        statistics_of(count_arrivals(ARRIVALS, 5))[0, 4, 1],
    )
    delay = (30 + 32 + 25) / 3
    expected = [
        16800 / 0.06,
        3,
        2100,
        delay - 25,
        delay - 200,
        25,
        delay / 25,
        delay - 25,
        20,
        18,
        0,
        0,
        2 / 3,
        1 / 3,
        0,
    ]
    assert short == pytest.approx(expected, rel=1e-5)
    gaps = np.array([2.0, 38.0, 20.0, 130.0])
    delay = (30 + 32 + 25 + 55 + 25) / 5
    expected = [30400 / 0.6, 5, 3800, delay - 25, delay - 200, 25, delay / 25, delay - 25, gaps.mean(), gaps.std()]
    expected += [4 / 9, 2, 3 / 5, 1 / 5, 1 / 5]
    assert long == pytest.approx(expected, rel=1e-5)


def test_window_without_packets_is_zero_but_for_the_minimum_seen_delay() -> None:
    """Tick 2 has no packet; the least delay so far stays known."""
    empty = statistics_of(count_arrivals(ARRIVALS, 5))[0, 2, 0]
    assert np.flatnonzero(empty).tolist() == [5]
    assert empty[5] == 25


def test_places_of_an_observation_are_those_of_the_source() -> None:
    """Statistic n (from 1), short window w: (n - 1) * 10 + w; long: 5 more; the newest first."""
    rng = np.random.default_rng(0)
    statistics = rng.random((2, 80, 2, 15)).astype(np.float32)
    observations = observations_of(statistics)
    assert observations.shape == (2, 80, OBSERVATION_SIZE)
    for number in range(1, 16):
        for window in range(5):
            short = observations[:, 70, (number - 1) * 10 + window]
            long = observations[:, 70, (number - 1) * 10 + 5 + window]
            assert (short == statistics[:, 70 - window, 0, number - 1]).all()
            assert (long == statistics[:, 70 - 10 * window, 1, number - 1]).all()
    assert (observations[:, 2, 3] == 0).all()  # before the call there was nothing
    assert (newest(observations, "jitter_ms", is_long=True)[:, 9] == statistics[:, 9, 1, 9]).all()


@pytest.mark.parametrize(("begin", "end"), [(0, 20), (5, 30), (55, 80), (79, 80)])
def test_part_of_the_observations_is_a_part_of_all(begin: int, end: int) -> None:
    """A slice looks as far back as it has to."""
    statistics = np.random.default_rng(0).random((2, 80, 2, 15)).astype(np.float32)
    assert (observations_of(statistics, slice(begin, end)) == observations_of(statistics)[:, begin:end]).all()


def test_trailing_sums_and_minima_are_those_of_the_windows() -> None:
    """Against one window after the other."""
    values = np.random.default_rng(1).random((3, 40))
    for tick in range(40):
        window = values[:, max(0, tick - 9) : tick + 1]
        assert trailing_sum(values, 10)[:, tick] == pytest.approx(window.sum(axis=1))
        assert trailing_min(values, 10)[:, tick] == pytest.approx(window.min(axis=1))


def test_every_recorded_statistic_is_possible() -> None:
    """Paths of every kind: finite, within the bounds that the contract takes for granted, none always 0."""
    capacity = np.random.default_rng(2).choice([0.0, 1e5, 1e6, 2e7], (40, 8)).repeat(20, axis=1)
    made = record(random_paths(capacity, 3), random_streams(40, np.random.default_rng(4)), 5)
    for number, known in enumerate(STATISTICS):
        values = made.statistics[..., number]
        assert values.min() >= known.low, known.name
        assert values.max() <= known.high, known.name
        assert values.std() > 0, known.name


def test_sender_sends_its_rate_in_order() -> None:
    """Mean rate of the packets of every kind of stream, from 100 kbps to 60 Mbps."""
    for rate in (1e5, 2e6, 6e7):
        streams = replace(random_streams(100, np.random.default_rng(1)), probe_every_ms=np.full(100, np.inf))
        sender = Sender(streams, seed=2)
        bits = np.zeros(100)
        for tick in range(300):
            made = sender.packets(tick, np.full(100, rate))
            bits += made.bits.sum(axis=1)
            sent = made.bits > 0
            assert (np.diff(np.where(sent, made.time_ms, np.inf)[:, : sent.sum(axis=1).min()], axis=1) >= 0).all()
        assert bits.mean() / 18 == pytest.approx(rate, rel=0.03)


def test_truth_is_the_smaller_of_what_cross_traffic_and_policer_leave() -> None:
    """Mean of the latest five ticks."""
    paths = random_paths(np.full((200, 60), 1e6), 1)
    available = np.minimum(np.maximum(1e6 - paths.cross_bps, 0), paths.police_bps[:, None])
    assert truth_of(paths)[:, 30] == pytest.approx(available[:, 26:31].mean(axis=1), rel=1e-5)
    assert truth_of(paths)[:, 1] == pytest.approx(available[:, :2].mean(axis=1), rel=1e-5)


def test_statistics_do_not_depend_on_what_is_not_seen_yet() -> None:
    """Two capacities that part at tick 60: the same statistics until then, other ones after it."""
    first = np.full((6, 120), 1e6)
    second = np.where(np.arange(120) < 60, first, 2e5)
    found = []
    for capacity in (first, second):
        link = LinkModel(replace(random_paths(first, 1), capacity_bps=capacity), seed=1)
        sender = Sender(random_streams(6, np.random.default_rng(2)), seed=3)
        for tick in range(120):
            link.step(sender.packets(tick, np.full(6, 9e5)))
        found.append(statistics_of(link.received))
    assert (found[0][:, :60] == found[1][:, :60]).all()
    assert (found[0][:, 70:, 0, 3] < found[1][:, 70:, 0, 3]).mean() > 0.8  # a queue


def test_controllers_keep_the_queue_short_and_use_the_link() -> None:
    """The policies that react do: little delay and loss at a good use of a steady link."""
    paths = replace(random_paths(np.full((64, 400), 2e6), 1), loss=np.zeros(64), police_bps=np.full(64, np.inf))
    made = record(paths, random_streams(64, np.random.default_rng(2)), 3, np.full(64, CONTROLLER))
    late = made.statistics[:, 200:, 1]
    used = late[..., 0] / np.maximum(made.capacity_bps[:, 200:], 1e5)
    assert 0.4 < np.median(used) < 1.05
    assert np.median(late[..., 3]) < 100


def test_capacity_of_a_tick_is_the_mean_of_its_samples() -> None:
    """A step within a tick, and more than the bound of an estimate."""
    trace = Trace("s", "t", "", np.array([5.0, 95.0, 185.0]), np.array([1000.0, 3000.0, 0.0]))
    assert trace.ticks_bps() == pytest.approx([1e6, 2e6, 3e6])
    fast = Trace("s", "t", "", np.array([0.0, 120.0]), np.array([5e6, 0.0]))
    assert fast.ticks_bps() == pytest.approx([100e6, 100e6])


def test_file_of_traces_is_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    """Plain or compressed; a hole in it is an error with its line."""
    good = "source,trace_id,t_ms,capacity_kbps\na,1,0,10\na,1,60000,20\na,2,0,5\na,2,60000,5\n"
    (tmp_path / "t.csv").write_text(good)
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(good.encode()))
    for name in ("t.csv", "t.csv.xz"):
        traces = read_traces(tmp_path / name)
        assert [(t.source, t.trace_id, len(t.time_ms)) for t in traces] == [("a", "1", 2), ("a", "2", 2)]
        assert [(source, len(piece)) for source, piece in segments_of(traces, 400)] == [
            ("a", length) for length in (400, 400, 200)
        ] * 2
    for bad, message in [
        ("source,t_ms,capacity_kbps\n", "no column trace_id"),
        (good + "a,2,70000,-1\n", "line 6: capacity must be finite and 0 or more"),
        (good + "a,2,70000,nan\n", "line 6"),
        (good + "a,2,x,1\n", "line 6: time and capacity must be numbers"),
        (good + "a,2,10,1\n", "line 6: time 10 ms does not ascend"),
    ]:
        (tmp_path / "bad.csv").write_text(bad)
        with pytest.raises(ValueError, match=message):
            read_traces(tmp_path / "bad.csv")
