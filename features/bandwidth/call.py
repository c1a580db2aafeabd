"""Simulates calls whose senders follow an estimate in closed loop; shows how an app uses the feature.

python -m alcove.features.bandwidth.call --traces TRACES.csv.xz    # over recorded capacities
python -m alcove.features.bandwidth.call                                                  # over made-up ones
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from alcove.features.bandwidth.baselines import START_BPS, Estimator
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.contract import Bandwidth
from alcove.features.bandwidth.dataset import make_capacities
from alcove.features.bandwidth.harness import estimators
from alcove.features.bandwidth.link import Floats, LinkModel, Paths, TickSums
from alcove.features.bandwidth.observation import Floats32, observations_of, statistics_of
from alcove.features.bandwidth.replay import pad_segments, random_paths, read_traces, segments_of
from alcove.features.bandwidth.sender import MIN_RATE_BPS, Sender, random_streams
from alcove.runtime import load

CALL_TICKS: Final = 500
"""30 s."""
MAX_VIDEO_BPS: Final = 6e6
"""What the best picture of a call takes; the sender asks for no more."""
LATE_MS: Final = 400.0
"""Of packets that come later than that after the fastest one: they miss their picture."""
FREEZE_TICKS: Final = 4
"""240 ms without a picture are a freeze."""
_REACH: Final = 64
"""Ticks of which the latest observation needs to know."""


@dataclass(frozen=True)
class Experience:
    """What calls were like.

    Attributes:
        bitrate_bps: received, mean.
        freezes_per_minute: stretches of `FREEZE_TICKS` or more in which nothing came, or all too late.
        frozen_share: of the time.
        delay_p95_ms: of a tick's mean delay of packets.
        loss: share of packets.
    """

    bitrate_bps: float
    freezes_per_minute: float
    frozen_share: float
    delay_p95_ms: float
    loss: float


def run_calls(make: Callable[[int], Estimator], paths: Paths, seed: int) -> TickSums:
    """Return what receivers counted in calls whose senders follow an estimator.

    Args:
        make: an estimator of n calls.
        paths: of the calls.
        seed: of senders, loss and jitter.
    """
    n, ticks = paths.capacity_bps.shape
    link, estimator = LinkModel(paths, seed), make(n)
    sender = Sender(random_streams(n, np.random.default_rng(seed)), seed + 1)
    estimates_bps = np.full((n, ticks + 1), START_BPS)  # estimates by the tick in which they were made
    back = 1 + np.ceil(paths.base_delay_ms / TICK_MS).astype(np.int64)  # the estimate travels back to the sender
    rows = np.arange(n)
    for tick in range(ticks):
        rate = estimates_bps[rows, np.maximum(tick - back + 1, 0)]
        link.step(sender.packets(tick, np.clip(rate, MIN_RATE_BPS, MAX_VIDEO_BPS)))
        estimates_bps[:, tick + 1] = estimator.update(latest_observation(link.received, tick))
    return link.received


def latest_observation(received: TickSums, tick: int) -> Floats32:
    """Return the observations after a tick, f32 [n, 150]: what an app's receiver computes every 60 ms."""
    begin = max(0, tick + 1 - _REACH)
    recent = TickSums(len(received.min_delay_ms), tick + 1 - begin)
    for name, values in recent.sums.items():
        values[:] = received.sums[name][:, begin : tick + 1]
    recent.min_delay_ms[:] = received.min_delay_ms[:, begin : tick + 1]
    seen = received.min_delay_ms[:, :begin].min(axis=1) if begin else None
    statistics = statistics_of(recent, seen)
    last = observations_of(statistics, slice(statistics.shape[1] - 1, None))
    return np.ascontiguousarray(last[:, 0])


def experience_of(received: TickSums) -> Experience:
    """Return what the calls were like; the first second is left out."""
    first = 17
    sums = {name: values[:, first:] for name, values in received.sums.items()}
    packets = sums["packets"]
    delay = sums["delay_ms"] / np.maximum(packets, 1.0)
    least = received.min_delay_ms.min(axis=1, keepdims=True)
    is_still = (packets == 0) | (delay - np.where(np.isfinite(least), least, 0.0) > LATE_MS)
    runs = [_long_runs(row) for row in is_still]
    minutes = packets.size * TICK_MS / 60_000
    return Experience(
        bitrate_bps=float(sums["bits"].mean() * 1000 / TICK_MS),
        freezes_per_minute=sum(len(found) for found in runs) / minutes,
        frozen_share=sum(sum(found) for found in runs) / packets.size,
        delay_p95_ms=float(np.percentile(delay[packets > 0], 95)),
        loss=float(sums["lost"].sum() / max(1.0, sums["lost"].sum() + packets.sum())),
    )


def _long_runs(flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[int]:
    """Return the lengths of the runs of True of `FREEZE_TICKS` or more."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    lengths = edges[1::2] - edges[::2]
    return [int(length) for length in lengths if length >= FREEZE_TICKS]


def compare(segments: Sequence[Floats], seed: int = 3) -> Mapping[str, Experience]:
    """Return the experience of calls over capacities, by estimator: the same paths and streams for everyone."""
    paths = random_paths(pad_segments(segments, CALL_TICKS), seed)
    makers = estimators(load(Bandwidth.default_program))
    return {name: experience_of(run_calls(make, paths, seed)) for name, make in makers.items()}


def draw_segments(traces: Path | None, calls: int, split: str = "dev") -> list[Floats]:
    """Return capacities for calls: from a file of traces, as many of each source, or made up."""
    rng = np.random.default_rng(1)
    if traces is None:
        return list(make_capacities(calls, CALL_TICKS, rng))
    known = read_traces(traces)
    chosen = [trace for trace in known if trace.split in {split, ""}] or known
    by_source: dict[str, list[Floats]] = {}
    for source, piece in segments_of(chosen, CALL_TICKS):
        by_source.setdefault(source, []).append(piece)
    each = max(1, calls // max(1, len(by_source)))
    return [pieces[i] for pieces in by_source.values() for i in rng.permutation(len(pieces))[:each]]


def main() -> None:
    """Print the experience of calls by estimator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="CSV in the form of the data folder")
    parser.add_argument("--calls", type=int, default=96)
    arguments = parser.parse_args()
    found = compare(draw_segments(arguments.traces, arguments.calls))
    print(f"{'':18}  bitrate kbps  freezes/min  frozen %  delay p95 ms  loss %")  # noqa: T201 (what the command is for)
    for name, seen in found.items():
        print(  # noqa: T201
            f"{name:18}  {seen.bitrate_bps / 1000:12.0f}  {seen.freezes_per_minute:11.2f}"
            f"  {100 * seen.frozen_share:8.2f}  {seen.delay_p95_ms:12.0f}  {100 * seen.loss:6.2f}"
        )


if __name__ == "__main__":
    main()
