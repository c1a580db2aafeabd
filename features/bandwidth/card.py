"""Formats the card's figures as Markdown tables and pictures, from what `evaluate.py` measured."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from alcove.features.bandwidth.config import MIDDLE
from alcove.features.bandwidth.harness import REACHES
from alcove.features.bandwidth.picture import Axis, picture
from alcove.features.card_figures import table

Result = Mapping[str, Any]
"""What `evaluate.evaluate` returns."""

OURS: Final = "bandwidth"
RIVAL: Final = "GCC-like"

WITHIN: Final = (0.64, 0.72)
"""Goal of the share of truths within one deviation, on every source."""
QUEUE_RATIO: Final = 1.2
"""Goal of the 95th percentile of queueing delay in calls, over the rival's."""


def figures(result: Result) -> str:
    """Return all figures of an evaluation, the goals first."""
    parts = [goals(result)]
    if "mmwave" in result:
        parts.append(calls(result["mmwave"], "Calls over 5G-like paths"))
        parts.append(silences(result))
    parts.append(certainty(result))
    parts.append(baselines(result))
    if "seeds" in result:
        parts.append(seeds(result))
    if "steps" in result:
        parts.append(steps(result))
    if "calls" in result:
        parts.append(calls(result["calls"], "Calls over recorded capacities"))
    parts.extend([sources(result), size(result)])
    return "\n\n".join(parts)


def goals(result: Result) -> str:
    """Return each goal, its figure, and whether it is met."""
    within = {source: found["within_1"] for source, found in result["certainty"].items()}
    off = {source for source, share in within.items() if not WITHIN[0] <= share <= WITHIN[1]}
    best = {key: _worst_change(result, key) for key in ("relative_error", "over_rate")}
    rows = [
        [
            "truths within one deviation: 64 to 72 % on each source",
            ", ".join(f"{source} {100 * share:.1f}" for source, share in within.items()),
            _verdict(not off, f"no: {', '.join(sorted(off))}"),
        ],
        [
            "on each source less error than the most exact baseline",
            f"{100 * best['relative_error']:+.0f} % or less",
            _verdict(best["relative_error"] < 0),
        ],
        [
            "on each source less often above the truth than the most careful baseline",
            f"{100 * best['over_rate']:+.0f} % or less",
            _verdict(best["over_rate"] < 0),
        ],
    ]
    if "mmwave" in result:
        theirs = result["mmwave"][RIVAL]
        freezes, bitrate, queue = (
            theirs[f"{key}_ratio"] for key in ("freezes_per_minute", "bitrate_bps", "queue_p95_ms")
        )
        for text, ratio, is_met in (
            ("fewer freezes than the GCC-like one on 5G-like paths, its interval below 1", freezes, freezes[2] < 1),
            ("at no less bitrate", bitrate, bitrate[0] >= 1),
            (f"at {QUEUE_RATIO} times its queueing delay (p95) or less", queue, queue[0] <= QUEUE_RATIO),
        ):
            rows.append([f"{text}: ratio, 95 % interval", _ratio(ratio), _verdict(is_met)])
    if "silences" in result:
        for length, by_name in result["silences"].items():
            ours, without = by_name[OURS], by_name[UNPROBED]
            rows.append(
                [
                    f"after a silence of {length} s, back sooner with probes: nine of ten calls (s)",
                    f"{_seconds(ours['p90_s'])} against {_seconds(without['p90_s'])} without",
                    _verdict((ours["p90_s"] or 99) < (without["p90_s"] or 99)),
                ]
            )
    return "### Goals\n\n" + table(["goal", "measured", "met"], rows)


def _verdict(is_met: bool, otherwise: str = "no") -> str:
    return "yes" if is_met else f"**{otherwise}**"


def _ratio(values: Sequence[float]) -> str:
    return f"{values[0]:.2f} ({values[1]:.2f} to {values[2]:.2f})"


def _seconds(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "> 10"


def _worst_change(result: Result, key: str) -> float:
    """Return the change of a figure from the best baseline to the feature on the source where it is least good."""
    changes = []
    for by_name in result["sources"].values():
        best = min(float(values[key]) for name, values in by_name.items() if name != OURS)
        changes.append(float(by_name[OURS][key]) / best - 1 if best else 0.0)
    return max(changes)


def baselines(result: Result) -> str:
    """Return how much better the feature is than the best baseline, by source and in the mean of the sources."""
    rows = []
    for source, by_name in [*result["sources"].items(), ("**mean**", mean_of_sources(result))]:
        ours = by_name[OURS]
        rivals = {name: values for name, values in by_name.items() if name != OURS}
        best = min(rivals, key=lambda name: rivals[name]["relative_error"])
        careful = min(rivals, key=lambda name: rivals[name]["over_rate"])
        rows.append(
            [
                source,
                best,
                less(ours["relative_error"], rivals[best]["relative_error"]),
                less(ours["over_rate"], rivals[best]["over_rate"]),
                careful,
                less(ours["relative_error"], rivals[careful]["relative_error"]),
                less(ours["over_rate"], rivals[careful]["over_rate"]),
            ]
        )
    heading = ["source", "most exact baseline", "error", "over-estimation", "most careful baseline", "error"]
    return (
        "### Against the baselines: change of error and of over-estimation rate (goal: both -20 % or less)\n\n"
        + table([*heading, "over-estimation"], rows)
    )


def size(result: Result) -> str:
    """Return what the programs take."""
    rows = [[name, f"{each['size_bytes']:,}", f"{each['tick_us']:.1f}"] for name, each in result["program"].items()]
    return "### Size and time\n\n" + table(["program", "bytes", "a tick, median (µs)"], rows)


def less(ours: float, theirs: float) -> str:
    """Return the change from theirs to ours in percent."""
    return f"{100 * (ours / theirs - 1):+.0f} %" if theirs > 0 else "–"


def mean_of_sources(result: Result) -> dict[str, dict[str, float]]:
    """Return each estimator's figures, each source counting the same."""
    found = list(result["sources"].values())
    return {
        name: {key: sum(by_name[name][key] for by_name in found) / len(found) for key in found[0][name]}
        for name in found[0]
    }


def sources(result: Result) -> str:
    """Return the errors by source."""
    rows = []
    for source, by_name in [*result["sources"].items(), ("mean of sources", mean_of_sources(result))]:
        for name, values in by_name.items():
            rows.append(
                [
                    source,
                    f"**{name}**" if name == OURS else name,
                    f"{values['error_bps'] / 1000:,.0f}",
                    f"{100 * values['relative_error']:.1f}",
                    f"{100 * values['over_rate']:.1f}",
                    f"{100 * values['overshoot']:.2f}",
                ]
            )
    heading = ["source", "estimator", "mean absolute error (kbps)", "of the mean capacity (%)"]
    return "### Error by source\n\n" + table([*heading, "ticks above (%)", "mean overshoot (%)"], rows)


def certainty(result: Result) -> str:
    """Return how often the truth is within the deviations of the middle, by source and in the mean of the sources."""
    found = result["certainty"]
    order = ("within_1", "within_2", "below_1", "above_1", "deviation")
    mean = {key: sum(values[key] for values in found.values()) / len(found) for key in order}
    rows = [
        [
            source,
            f"{100 * values['within_1']:.0f}" + (f" ({_percents(values)})" if "within_1_interval" in values else ""),
            *(f"{100 * values[key]:.0f}" for key in order[1:]),
        ]
        for source, values in [*found.items(), ("**mean**", mean)]
    ]
    heading = ["source", "truths within 1 deviation (%, interval)", "within 2 (%)", "more than 1 below (%)"]
    return (
        f"### How sure it is: truths about the middle, {MIDDLE} deviations above the estimate (goal: 68 %, 95 %)\n\n"
        + table([*heading, "more than 1 above (%)", "mean deviation of the mean capacity (%)"], rows)
    )


def _percents(values: Mapping[str, Any]) -> str:
    return " to ".join(f"{100 * end:.0f}" for end in values["within_1_interval"])


def steps(result: Result) -> str:
    """Return the settling times."""
    rows = [
        [
            factor,
            f"**{name}**" if name == OURS else name,
            *(f"{values[key]:.2f}" if values[key] is not None else "> 10" for key in ("p25_s", "median_s", "p75_s")),
            f"{values['curve_s']:.2f}" if values["curve_s"] is not None else "> 10",
            f"{100 * values['within_1_s']:.0f}",
        ]
        for factor, by_name in result["steps"].items()
        for name, values in by_name.items()
    ]
    heading = ["step", "estimator", "quarter of calls (s)", "median (s)", "three quarters (s)", "median curve (s)"]
    return "### Settling after a step\n\n" + table([*heading, "calls within 1 s (%)"], rows)


def calls(found: Mapping[str, Mapping[str, Any]], title: str) -> str:
    """Return the experience of calls by whom the sender follows, with the feature's ratios to each."""
    rows = [
        [
            f"**{name}**" if name == OURS else name,
            _mean(seen["bitrate_bps"], 1e-3, 0),
            _mean(seen["freezes_per_minute"], 1.0, 2),
            f"{100 * seen['frozen_share'][0]:.2f}",
            _mean(seen["queue_p95_ms"], 1.0, 0),
            f"{100 * seen['loss'][0]:.2f}",
            *(_ratio(seen[f"{key}_ratio"]) if f"{key}_ratio" in seen else "–" for key in COMPARED),
        ]
        for name, seen in found.items()
    ]
    heading = [
        "sender follows",
        "bitrate (kbps)",
        "freezes a minute",
        "frozen (%)",
        "queueing delay p95 (ms)",
        "loss (%)",
    ]
    ratios = ["bandwidth's bitrate over this", "its freezes over these", "its delay over this"]
    return f"### {title} ({found[OURS]['calls']}; intervals of 95 %)\n\n" + table([*heading, *ratios], rows)


COMPARED: Final = ("bitrate_bps", "freezes_per_minute", "queue_p95_ms")


def _mean(values: Sequence[float], factor: float, digits: int) -> str:
    """Return a mean and its interval."""
    mean, low, high = (f"{value * factor:,.{digits}f}" for value in values)
    return f"{mean} ({low} to {high})"


UNPROBED: Final = "without probes"


def silences(result: Result) -> str:
    """Return how fast calls come back after silences, and what that costs."""
    rows = [
        [
            length,
            f"**{name}**" if name == OURS else name,
            *(_seconds(seen[key]) for key in ("median_s", "p75_s", "p90_s")),
            f"{seen['soon_bps'] / 1000:,.0f}",
            f"{seen['queue_p95_ms']:.0f}",
            f"{100 * seen['loss']:.2f}",
        ]
        for length, by_name in result["silences"].items()
        for name, seen in by_name.items()
    ]
    heading = ["silence (s)", "sender follows", "median (s)", "three quarters (s)", "nine of ten (s)"]
    after = ["bitrate (kbps)", "queueing delay p95 (ms)", "loss (%)"]
    return "### Back to 80 % of the rate after a silence, and the 3 s after it\n\n" + table([*heading, *after], rows)


def seeds(result: Result) -> str:
    """Return the goals' figures of programs trained from other seeds; the committed one first."""
    rows = []
    for number, found in enumerate(result["seeds"]):
        mmwave = found.get("mmwave")
        rows.append(
            [
                "committed" if number == 0 else f"another ({number})",
                f"{100 * found['relative_error']:.1f}",
                f"{100 * found['over_rate']:.1f}",
                ", ".join(f"{100 * share:.0f}" for share in found["within_1"].values()),
                *(_ratio(mmwave[f"{key}_ratio"]) if mmwave else "–" for key in COMPARED),
            ]
        )
    heading = ["seed", "error (%)", "ticks above (%)", "within one deviation, by source (%)"]
    ratios = ["5G-like: bitrate over GCC-like's", "freezes", "queueing delay p95"]
    return "### Three seeds of training\n\n" + table([*heading, *ratios], rows)


def step_picture(factor: str, curves: Mapping[str, Sequence[float]], tick_s: float, first_s: float) -> str:
    """Return an SVG: the median of estimates over the capacity before a step, the capacity itself in black.

    Args:
        factor: of the step.
        curves: by estimator, a value each tick.
        tick_s: seconds between values.
        first_s: time of the first value, the step is at 0.
    """
    last_s = first_s + tick_s * (len(next(iter(curves.values()))) - 1)
    top = 1.2 * max(1.0, float(factor))
    return picture(
        f"capacity times {factor} at 0 s: median estimate / capacity before",
        Axis(first_s, last_s, {second: f"{second} s" for second in range(int(first_s), int(last_s) + 1)}),
        Axis(0.0, top, {tenth / 10: f"{tenth / 10:g}" for tenth in range(0, int(top * 10) + 1, 5)}),
        {name: [(first_s + tick_s * i, value) for i, value in enumerate(values)] for name, values in curves.items()},
        reference=[(first_s, 1.0), (0.0, 1.0), (0.0, float(factor)), (last_s, float(factor))],
        bold=OURS,
    )


def certainty_picture(result: Result) -> str:
    """Return an SVG: the share of truths within so many deviations of the middle, by source; a normal one in black."""
    most = REACHES[-1]
    normal = [(most * n / 60, math.erf(most * n / 60 / math.sqrt(2))) for n in range(61)]
    return picture(
        "share of truths within so many deviations of the middle; black: a normal distribution",
        Axis(0.0, most, {float(n): str(n) for n in range(int(most) + 1)}),
        Axis(0.0, 1.0, {n / 4: f"{25 * n} %" for n in range(5)}),
        {
            source: [(0.0, 0.0), *zip(REACHES, found["within"], strict=True)]
            for source, found in result["certainty"].items()
        },
        reference=normal,
        bold="",
    )
