"""Draws results with matplotlib: intervals over time, with the line that they are compared with.

Colours are those of Okabe and Ito, which people tell apart whatever colours they see; each series has a marker of its
own besides.  Source: M. Okabe and K. Ito, "Color Universal Design" (2008).
"""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from alcove.platform.client.records import decision_in_words, find_analyses, guardrails_of, name_of, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.platform.client.audit import AuditLine
    from alcove.platform.client.experiment_models import Estimate, Experiment, PairDifference, Results
    from alcove.platform.client.rollout_models import KeptAnalysis, Rollout
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_experiment", "plot_rollout"]

COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_MARGIN_COLOR: Final = "#D55E00"
_SCALES: Final = {"share": (100.0, "percentage points"), "ms": (1.0, "ms"), "own": (1.0, "in its own unit")}

Point = tuple[float, float, "float | None", "float | None"]
"""Place on the horizontal axis, value, and both ends of its interval; None: unbounded."""


def plot_experiment(experiment: Experiment, results: Results | None = None) -> Figure:
    """Return the differences of the arms to the control over the reports: at interim analyses, and now.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    unit = unit_of(experiment.primary)
    scale, words = _SCALES[unit]
    names = [arm.name for arm in experiment.arms]
    looks: list[tuple[int, tuple[PairDifference, ...]]] = [
        (look.report_count, look.pairs) for look in experiment.interim_analyses
    ]
    decision = experiment.decision
    if results is not None:
        looks.append((results.report_count, results.pairs))
        decision = decision or results.decision
    figure = _make_figure(1)
    axes = figure.subplots()
    ends: list[tuple[int, list[Point]]] = []
    for number in range(1, len(names)):
        points = [
            point
            for report_count, pairs in looks
            for pair in pairs
            if (pair.arm, pair.versus) in ((number, 0), (0, number))
            and (point := _point(report_count, pair.difference, scale if pair.arm == number else -scale)) is not None
        ]
        ends.append((number, points))
    _draw(axes, [(f"{names[number]} − {names[0]}", number - 1, points) for number, points in ends])
    axes.axhline(0.0, color="#666666", linewidth=1, label="no difference")
    if experiment.plan.mde and unit == "share":
        axes.axhline(
            experiment.plan.mde * scale, color=_MARGIN_COLOR, linestyle="--", linewidth=1, label="effect looked for"
        )
    axes.set(xlabel="reports", ylabel=f"{name_of(experiment.primary).replace('_', ' ')}: difference, {words}")
    _finish(figure, axes, f"{experiment.experiment_id}: {decision_in_words(names, decision)}")
    return figure


def plot_rollout(rollout: Rollout, history: Sequence[AuditLine | KeptAnalysis | Rollout] = ()) -> Figure:
    """Return each guardrail's difference to the control over time, with its margin.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    analyses = find_analyses(rollout, history)
    rails = guardrails_of(rollout)
    figure = _make_figure(max(1, len(rails)))
    grid = figure.subplots(max(1, len(rails)), 1, sharex=True, squeeze=False)
    from matplotlib.dates import date2num  # noqa: PLC0415 - as in `_make_figure`

    for number, (rail, axes) in enumerate(zip(rails, grid[:, 0], strict=False)):
        scale, words = _SCALES[rail.unit]
        points: list[Point] = []
        for analysis in analyses:
            interval = analysis.intervals[number] if number < len(analysis.intervals) else None
            if interval is not None and interval.difference is not None:
                when = datetime.fromtimestamp(analysis.analyzed_at_s, UTC)
                place = float(date2num(when))  # type: ignore[no-untyped-call]
                low, high = (None if end is None else end * scale for end in (interval.low, interval.high))
                points.append((place, interval.difference * scale, low, high))
        _draw(axes, [("treatment − control", 0, points)])
        axes.axhline(0.0, color="#666666", linewidth=1, label="no difference")
        axes.axhline(rail.margin * scale, color=_MARGIN_COLOR, linestyle="--", linewidth=1.5, label="margin")
        axes.set(ylabel=words)
        last = (
            analyses[-1].intervals[number].kind if analyses and number < len(analyses[-1].intervals) else "no reports"
        )
        axes.set_title(f"{rail.name}: {last}", fontsize="medium", loc="left")
        axes.legend(loc="best", fontsize="small")
        if points:
            axes.xaxis_date(tz="UTC")
    grid[-1, 0].set(xlabel="time (UTC)")
    why = "" if rollout.analysis is None else rollout.analysis.reason
    if rollout.ending is not None:
        why = rollout.ending.reason
    state = f"{rollout.rollout_id}: {rollout.state.replace('_', ' ')} at {rollout.share_basis_points / 100:g} %"
    _set_title(figure, f"{state}: {why}" if why else state)
    figure.autofmt_xdate()
    return figure


def _make_figure(rows: int) -> Figure:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - most calls draw nothing, and it may not be there
    except ModuleNotFoundError as error:
        message = "plots are drawn with matplotlib: pip install 'alcove-platform[plot]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    return Figure(figsize=(7.5, 1.6 + 2.6 * rows), layout="constrained")


def _point(place: float, difference: Estimate, scale: float) -> Point | None:
    """Return a point of a series; a negative scale turns the difference round."""
    if difference.value is None:
        return None
    ends = [None if end is None else end * scale for end in (difference.low, difference.high)]
    low, high = ends if scale > 0 else ends[::-1]
    return float(place), difference.value * scale, low, high


def _draw(axes: Axes, series: Sequence[tuple[str, int, Sequence[Point]]]) -> None:
    """Draw series of intervals beside each other; an end that is unbounded reaches to the edge of the picture."""
    known = [
        end
        for _, _, points in series
        for _, value, low, high in points
        for end in (value, low, high)
        if end is not None
    ]
    bottom, top = (min(known), max(known)) if known else (0.0, 0.0)
    reach = top - bottom or abs(top) or 1.0
    for label, number, points in series:
        values = [value for _, value, _, _ in points]
        below = [value - (bottom - reach if low is None else low) for _, value, low, _ in points]
        above = [(top + reach if high is None else high) - value for _, value, _, high in points]
        axes.errorbar(
            [place for place, _, _, _ in points],
            values,
            yerr=[below, above],
            fmt=MARKERS[number % len(MARKERS)],
            color=COLORS[number % len(COLORS)],
            capsize=4,
            label=label,
        )
    if not known:
        axes.text(0.5, 0.5, "no reports yet", transform=axes.transAxes, ha="center", va="bottom")


def _finish(figure: Figure, axes: Axes, title: str) -> None:
    axes.legend(loc="best", fontsize="small")
    _set_title(figure, title)


def _set_title(figure: Figure, title: str) -> None:
    figure.suptitle("\n".join(textwrap.wrap(title.replace("$", r"\$"), 90)), fontsize="medium", x=0.01, ha="left")
