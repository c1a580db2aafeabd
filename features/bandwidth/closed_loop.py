"""Measures calls whose senders follow the feature or a baseline: over recorded and 5G-like paths, and after silences.

Everyone has the same paths, streams and losses.  Figures are means over calls, with intervals of 95 % by the bootstrap
over calls; differences are of pairs (Efron and Tibshirani, "An introduction to the bootstrap", 1993).

python -m alcove.features.bandwidth.closed_loop --traces TRACES.csv.xz    # over recorded capacities
python -m alcove.features.bandwidth.closed_loop                           # over 5G-like ones
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.bandwidth.baselines import BASELINES
from alcove.features.bandwidth.call import (
    MAX_VIDEO_BPS,
    EstimateFollower,
    Experience,
    FeatureFollower,
    Follower,
    ProbingGcc,
    experience_of,
    queueing_ms,
    run_calls,
)
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.contract import Bandwidth
from alcove.features.bandwidth.harness import ProgramEstimator
from alcove.features.bandwidth.link import Floats, Paths
from alcove.features.bandwidth.mmwave import draw_mmwave_paths
from alcove.features.bandwidth.observation import trailing_sum
from alcove.features.bandwidth.replay import pad_segments, random_paths, read_traces, segments_of
from alcove.runtime import Model, load

CALL_TICKS: Final = 500
"""30 s, over recorded capacities."""
MMWAVE_TICKS: Final = 1000
"""60 s: a baseline that grows by 8 % a second gets to the full rate."""
RESAMPLES: Final = 2000

SILENCE_BEGIN_TICK: Final = 200
SILENCE_BPS: Final = 40e3
AFTER_TICKS: Final = 300
SILENCE_LEVELS_BPS: Final = (1e6, 20e6)
CHANGES: Final = (0.4, 1.0, 1.0, 2.5)
"""Factors of the capacity during a silence, one drawn for each call."""
REGAINED: Final = 0.8
REGAIN_TICKS: Final = 10
SOON_TICKS: Final = 50
"""3 s after a silence, in which the harm of coming back is counted."""


def followers(model: Model) -> Mapping[str, Callable[[int], Follower]]:
    """Return who is compared, by the names that figures give them; the feature first."""
    made: dict[str, Callable[[int], Follower]] = {
        "bandwidth": lambda n: FeatureFollower(model, n),
        "its estimate alone": lambda n: EstimateFollower(ProgramEstimator(model, n)),
    }
    made |= {name: _follow(make) for name, make in BASELINES.items()}
    return made | {"GCC-like with probes": ProbingGcc}


def _follow(make: Callable[[int], Any]) -> Callable[[int], Follower]:
    return lambda n: EstimateFollower(make(n))


def compare(paths: Paths, seed: int, model: Model | None = None, only: Sequence[str] = ()) -> Mapping[str, Experience]:
    """Return the experience of calls by whom the sender follows, of `only` if any: the same paths for everyone."""
    known = followers(model or load(Bandwidth.default_program))
    chosen = {name: make for name, make in known.items() if not only or name in only}
    return {name: experience_of(run_calls(make, paths, seed), paths) for name, make in chosen.items()}


def summarize(found: Mapping[str, Experience], seed: int = 1) -> dict[str, Any]:
    """Return means with their intervals of 95 %, and the feature's ratio to each other, as JSON values."""
    names = [field.name for field in fields(Experience)]
    values = {who: np.stack([getattr(seen, name) for name in names]) for who, seen in found.items()}
    count = next(iter(values.values())).shape[1]
    rows = np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
    drawn = {who: each[:, rows].mean(axis=2) for who, each in values.items()}
    ours = next(iter(found))
    result: dict[str, Any] = {}
    for who, each in values.items():
        mean = each.mean(axis=1)
        result[who] = {"calls": count}
        for number, name in enumerate(names):
            result[who][name] = _interval(mean[number], drawn[who][number])
            if who != ours:
                ratio = values[ours][number].mean() / max(mean[number], 1e-9)
                ratios = drawn[ours][number] / np.maximum(drawn[who][number], 1e-9)
                result[who][f"{name}_ratio"] = _interval(ratio, ratios)
    return result


def _interval(value: float, drawn: Floats) -> list[float]:
    """Return a value and the ends of its interval of 95 %."""
    return [float(f"{each:.6g}") for each in (value, *np.quantile(drawn, [0.025, 0.975]))]


def draw_segments(traces: Path, calls: int, split: str = "dev") -> list[Floats]:
    """Return capacities for calls from a file of traces, as many of each source."""
    rng = np.random.default_rng(1)
    known = read_traces(traces)
    chosen = [trace for trace in known if trace.split in {split, ""}] or known
    by_source: dict[str, list[Floats]] = {}
    for source, piece in segments_of(chosen, CALL_TICKS):
        by_source.setdefault(source, []).append(piece)
    each = max(1, calls // max(1, len(by_source)))
    return [pieces[i] for pieces in by_source.values() for i in rng.permutation(len(pieces))[:each]]


def recorded_paths(segments: Sequence[Floats], seed: int = 3) -> Paths:
    """Return random paths over recorded capacities."""
    return random_paths(pad_segments(segments, CALL_TICKS), seed)


def silence_calls(n: int, silence_s: float, seed: int) -> tuple[Paths, Floats]:
    """Return paths whose capacity may change during a silence, and what the apps want, f64 [n, ticks]."""
    rng = np.random.default_rng((seed, 6))
    ends = SILENCE_BEGIN_TICK + round(silence_s * 1000 / TICK_MS)
    ticks = ends + AFTER_TICKS
    low, high = np.log(SILENCE_LEVELS_BPS)
    level = np.exp(rng.uniform(low, high, n))[:, None] * rng.gamma(60.0, 1 / 60.0, (n, ticks))
    changes_at = rng.integers(SILENCE_BEGIN_TICK, ends, n)[:, None]
    capacity = np.where(np.arange(ticks) < changes_at, level, level * rng.choice(CHANGES, n)[:, None])
    drawn = random_paths(capacity, seed)
    paths = replace(drawn, cross_bps=np.zeros_like(capacity), police_bps=np.full(n, np.inf))
    is_silent = (np.arange(ticks) >= SILENCE_BEGIN_TICK) & (np.arange(ticks) < ends)
    return paths, np.broadcast_to(np.where(is_silent, SILENCE_BPS, MAX_VIDEO_BPS), (n, ticks))


def of_silences(model: Model, calls: int, seed: int, lengths_s: Sequence[float] = (5.0, 15.0, 30.0)) -> dict[str, Any]:
    """Return how fast calls come back after silences, and what that does to the path, as JSON values."""
    known: dict[str, Callable[[int], Follower]] = {
        "bandwidth": lambda n: FeatureFollower(model, n),
        "without probes": lambda n: FeatureFollower(model, n, is_probing=False),
        "GCC-like": _follow(BASELINES["GCC-like"]),
        "GCC-like with probes": ProbingGcc,
    }
    result: dict[str, Any] = {}
    for length in lengths_s:
        paths, wanted = silence_calls(calls, length, seed)
        begin = wanted.shape[1] - AFTER_TICKS
        goal = REGAINED * np.minimum(paths.available_bps, MAX_VIDEO_BPS)
        result[f"{length:g}"] = {}
        for who, make in known.items():
            received = run_calls(make, paths, seed, wanted)
            rate = trailing_sum(received.sums["bits"], REGAIN_TICKS) * (1000 / TICK_MS / REGAIN_TICKS)
            is_back = rate[:, begin:] >= goal[:, begin:]
            regained = np.where(is_back.any(axis=1), (is_back.argmax(axis=1) + 1) * TICK_MS / 1000, np.inf)
            soon = slice(begin, begin + SOON_TICKS)
            queue = queueing_ms(received, paths)[:, soon]
            lost, packets = (received.sums[name][:, soon].sum() for name in ("lost", "packets"))
            quarters = np.quantile(regained, [0.5, 0.75, 0.9], method="lower")
            result[f"{length:g}"][who] = {
                **dict(zip(("median_s", "p75_s", "p90_s"), (_finite(value) for value in quarters), strict=True)),
                "soon_bps": float(received.sums["bits"][:, soon].mean() * 1000 / TICK_MS),
                "queue_p95_ms": float(np.nanpercentile(queue, 95)),
                "loss": float(lost / max(lost + packets, 1.0)),
            }
    return result


def _finite(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None


def main() -> None:
    """Print the experience of calls by whom the sender follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="CSV in the form of the data folder")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.traces is None:
        paths = draw_mmwave_paths(arguments.calls, MMWAVE_TICKS, arguments.seed)
    else:
        paths = recorded_paths(draw_segments(arguments.traces, arguments.calls), arguments.seed)
    print(f"{'':18}  bitrate kbps  freezes/min  frozen %  queue p95 ms  loss %")  # noqa: T201 (what the command is for)
    for name, seen in compare(paths, arguments.seed).items():
        print(  # noqa: T201
            f"{name:18}  {seen.bitrate_bps.mean() / 1000:12.0f}  {seen.freezes_per_minute.mean():11.2f}"
            f"  {100 * seen.frozen_share.mean():8.2f}  {seen.queue_p95_ms.mean():12.0f}  {100 * seen.loss.mean():6.2f}"
        )


if __name__ == "__main__":
    main()
