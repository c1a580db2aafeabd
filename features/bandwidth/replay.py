"""Cuts traces of capacity into segments, replays them through the link model, and records the calls."""

import csv
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIN_CAPACITY_BPS, TICK_MS
from alcove.features.bandwidth.link import Floats, LinkModel, Paths
from alcove.features.bandwidth.observation import Floats32, statistics_of, trailing_sum
from alcove.features.bandwidth.sender import MIN_RATE_BPS, Demand, Policies, Sender, Streams, random_streams
from numpy.typing import NDArray

COLUMNS: Final = ("source", "trace_id", "split", "t_ms", "capacity_kbps")
"""Columns that a file of traces must have; `rtt_ms`, `loss_pct` and `link` may follow."""

SHORTEST_TICKS: Final = 150

TRUTH_TICKS: Final = 5
"""300 ms, what the short windows of an observation cover: what a link gives in one tick is up to its scheduler."""


@dataclass(frozen=True)
class Trace:
    """Capacity over time, as a file tells it.

    Attributes:
        source: where it comes from.
        trace_id: its name there.
        split: "train" or "dev"; empty if the file has no such column.
        time_ms: ascending, f64 [k].
        capacity_kbps: from each time to the next, f64 [k].
    """

    source: str
    trace_id: str
    split: str
    time_ms: Floats
    capacity_kbps: Floats

    def ticks_bps(self) -> Floats:
        """Return the mean capacity of each tick, bps, at most `MAX_CAPACITY_BPS`; the last sample ends the trace."""
        time = self.time_ms - self.time_ms[0]
        ticks = int(time[-1] // TICK_MS)
        rate = np.minimum(self.capacity_kbps, MAX_CAPACITY_BPS / 1000)
        sent = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(time))])
        at = np.interp(np.arange(ticks + 1) * TICK_MS, time, sent)
        result: Floats = np.maximum(np.diff(at), 0.0) * (1000 / TICK_MS)
        return result


def read_traces(path: Path) -> list[Trace]:
    """Return the traces of a CSV file, `.xz` or plain, in the form of the data folder.

    Raises:
        ValueError: a column is missing, a number is none, negative or not finite, or times do not ascend; names it.
    """
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
    return list(_traces(path.name, text.splitlines()))


def _traces(name: str, lines: Sequence[str]) -> Iterator[Trace]:
    reader = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ()) and column != "split"]
    if missing:
        raise ValueError(f"{name}: there is no column {', '.join(missing)}")
    key: tuple[str, str, str] | None = None
    rows: list[tuple[float, float]] = []
    for number, row in enumerate(reader, start=2):
        try:
            sample = float(row["t_ms"]), float(row["capacity_kbps"])
        except (TypeError, ValueError):
            raise ValueError(f"{name}, line {number}: time and capacity must be numbers") from None
        if not (np.isfinite(sample).all() and sample[1] >= 0):
            raise ValueError(f"{name}, line {number}: capacity must be finite and 0 or more, not {sample[1]}")
        now = row["source"], row["trace_id"], row.get("split") or ""
        if now != key:
            if key is not None and len(rows) > 1:
                yield _trace(key, rows)
            key, rows = now, []
        if rows and sample[0] <= rows[-1][0]:
            raise ValueError(f"{name}, line {number}: time {sample[0]:g} ms does not ascend")
        rows.append(sample)
    if key is not None and len(rows) > 1:
        yield _trace(key, rows)


def _trace(key: tuple[str, str, str], rows: list[tuple[float, float]]) -> Trace:
    samples = np.array(rows)
    return Trace(*key, samples[:, 0], samples[:, 1])


def segments_of(traces: Sequence[Trace], ticks: int) -> list[tuple[str, Floats]]:
    """Return source and capacities, bps, of consecutive segments of at most `ticks` ticks; short rests are dropped."""
    found = []
    for trace in traces:
        capacity = trace.ticks_bps()
        for begin in range(0, len(capacity), ticks):
            piece = capacity[begin : begin + ticks]
            if len(piece) >= min(ticks, SHORTEST_TICKS):
                found.append((trace.source, piece))
    return found


def pad_segments(segments: Sequence[Floats], ticks: int) -> Floats:
    """Return segments as f64 [n, ticks]; what is missing at an end is its last value, and is not scored."""
    return np.stack([np.pad(piece[:ticks], (0, max(0, ticks - len(piece))), mode="edge") for piece in segments])


def random_paths(capacity_bps: Floats, seed: int) -> Paths:
    """Return paths of every kind for capacities f64 [n, ticks]: delay, queue, cross traffic, loss, jitter, policing."""
    rng = np.random.default_rng(seed)
    n, ticks = capacity_bps.shape
    mean = np.maximum(capacity_bps.mean(axis=1), 50e3)
    queue_ms = np.exp(rng.uniform(np.log(40), np.log(800), n))
    has_cross = np.less(rng.random(n), 0.3)
    level = np.where(rng.random((n, ticks)) < 0.02, rng.uniform(0, 0.5, (n, ticks)), np.nan)
    level[:, 0] = rng.uniform(0, 0.5, n)
    last = np.maximum.accumulate(np.where(np.isnan(level), 0, np.arange(ticks)), axis=1)
    share = np.take_along_axis(level, last, axis=1) * has_cross[:, None]
    is_policed = rng.random(n) < 0.1
    return Paths(
        capacity_bps=capacity_bps,
        cross_bps=share * mean[:, None] * rng.gamma(8.0, 1 / 8.0, (n, ticks)),
        base_delay_ms=np.exp(rng.uniform(np.log(4), np.log(150), n)),
        queue_bits=np.maximum(mean * queue_ms / 1000, 12 * 12000.0),
        loss=np.where(rng.random(n) < 0.3, rng.uniform(0, 0.03, n), 0.0),
        jitter_ms=np.where(rng.random(n) < 0.6, np.exp(rng.uniform(np.log(0.05), np.log(4), n)), 0.02),
        police_bps=np.where(is_policed, mean * rng.uniform(0.4, 1.1, n), np.inf),
        police_bits=np.maximum(mean * rng.uniform(0.05, 0.5, n), 12 * 12000.0),
    )


@dataclass(frozen=True)
class Recording:
    """What receivers saw in n calls.

    Attributes:
        statistics: f32 [n, ticks, 2, 15], see `observation.statistics_of`.
        capacity_bps: the truth, f32 [n, ticks]: what the path had available, mean of the latest `TRUTH_TICKS` ticks.
        is_scored: bool [n, ticks]; False beyond the end of a trace.
    """

    statistics: Floats32
    capacity_bps: Floats32
    is_scored: NDArray[np.bool_]


def record(
    paths: Paths,
    streams: Streams,
    seed: int,
    kinds: NDArray[np.int64] | None = None,
    demand: Demand | None = None,
) -> Recording:
    """Return a recording of calls over `paths`.

    Args:
        paths: of the calls.
        streams: of the senders.
        seed: of everything random.
        kinds: of the policies that rates follow; drawn if None.
        demand: what there is to send; as much as the policies say if None.
    """
    n, ticks = paths.capacity_bps.shape
    link = LinkModel(paths, seed)
    sender = Sender(streams, seed + 1)
    doubt = np.exp(np.random.default_rng((seed, 3)).uniform(-0.7, 0.7, n))
    typical = np.maximum(np.median(paths.available_bps, axis=1), 50e3) * doubt
    policies = Policies(typical, seed + 2, kinds)
    for tick in range(ticks):
        rate, probe = policies.rates(tick, link.received), None
        if demand is not None:
            rate = np.maximum(np.minimum(rate, demand.limit_bps[:, tick]), MIN_RATE_BPS)
            probe = demand.probe_bps[:, tick]
        link.step(sender.packets(tick, rate, probe))
    return Recording(statistics_of(link.received), truth_of(paths), np.ones((n, ticks), dtype=bool))


def truth_of(paths: Paths) -> Floats32:
    """Return what estimates are compared with, bps f32 [n, ticks]: mean available in the latest `TRUTH_TICKS` ticks."""
    counts = np.minimum(np.arange(1, paths.capacity_bps.shape[1] + 1), TRUTH_TICKS)
    available = np.clip(paths.available_bps, 0.0, MAX_CAPACITY_BPS)
    mean = trailing_sum(available, TRUTH_TICKS) / counts
    return np.clip(mean, MIN_CAPACITY_BPS, MAX_CAPACITY_BPS).astype(np.float32)


def record_segments(segments: Sequence[Floats], ticks: int, seed: int, *, chunk: int = 256) -> Recording:
    """Return a recording of one call over each segment, on random paths."""
    parts = []
    for begin in range(0, len(segments), chunk):
        some = segments[begin : begin + chunk]
        paths = random_paths(pad_segments(some, ticks), seed + begin)
        made = record(paths, random_streams(len(some), np.random.default_rng((seed, begin))), seed + begin)
        lengths = np.array([len(piece) for piece in some])
        parts.append(replace(made, is_scored=np.arange(ticks) < lengths[:, None]))
    return join_recordings(parts)


def join_recordings(parts: Sequence[Recording]) -> Recording:
    """Return recordings of equal length as one."""
    return Recording(
        np.concatenate([part.statistics for part in parts]),
        np.concatenate([part.capacity_bps for part in parts]),
        np.concatenate([part.is_scored for part in parts]),
    )
