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


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    parts = [goals(result), sources(result), certainty(result)]
    if "steps" in result:
        parts.append(steps(result))
    if "calls" in result:
        parts.append(calls(result))
    return "\n\n".join(parts)


def goals(result: Result) -> str:
    """Return how much better the feature is than the best baseline, by source and in the mean of the sources."""
    rows = []
    for source, by_name in [*result["sources"].items(), ("**mean**", mean_of_sources(result))]:
        ours = by_name[OURS]
        baselines = {name: values for name, values in by_name.items() if name != OURS}
        best = min(baselines, key=lambda name: baselines[name]["relative_error"])
        careful = min(baselines, key=lambda name: baselines[name]["over_rate"])
        rows.append(
            [
                source,
                best,
                less(ours["relative_error"], baselines[best]["relative_error"]),
                less(ours["over_rate"], baselines[best]["over_rate"]),
                careful,
                less(ours["relative_error"], baselines[careful]["relative_error"]),
                less(ours["over_rate"], baselines[careful]["over_rate"]),
            ]
        )
    heading = ["source", "most exact baseline", "error", "over-estimation", "most careful baseline", "error"]
    program = result["program"]
    size = table(
        ["program", "bytes", "a tick, median (µs)"],
        [[name, f"{each['size_bytes']:,}", f"{each['tick_us']:.1f}"] for name, each in program.items()],
    )
    return (
        "### Against the baselines: change of error and of over-estimation rate (goal: both -20 % or less)\n\n"
        + table([*heading, "over-estimation"], rows)
        + "\n\n### Size and time\n\n"
        + size
    )


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
        [source, *(f"{100 * values[key]:.0f}" for key in order)]
        for source, values in [*found.items(), ("**mean**", mean)]
    ]
    heading = ["source", "truths within 1 deviation (%)", "within 2 (%)", "more than 1 below (%)"]
    return (
        f"### How sure it is: truths about the middle, {MIDDLE} deviations above the estimate (goal: 68 %, 95 %)\n\n"
        + table([*heading, "more than 1 above (%)", "mean deviation of the mean capacity (%)"], rows)
    )


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


def calls(result: Result) -> str:
    """Return the experience of calls whose sender follows the estimate."""
    rows = [
        [
            f"**{name}**" if name == OURS else name,
            f"{seen['bitrate_bps'] / 1000:,.0f}",
            f"{seen['freezes_per_minute']:.2f}",
            f"{100 * seen['frozen_share']:.2f}",
            f"{seen['delay_p95_ms']:.0f}",
            f"{100 * seen['loss']:.2f}",
        ]
        for name, seen in result["calls"].items()
    ]
    heading = ["sender follows", "bitrate (kbps)", "freezes a minute", "frozen (%)", "delay p95 (ms)", "loss (%)"]
    return "### Calls whose sender follows the estimate\n\n" + table(heading, rows)


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
