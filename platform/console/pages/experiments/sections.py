"""Makes the tables and charts of an experiment's results: a function for each section of the page."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from alcove.platform.client import Experiment, ExperimentReport, PairDifference, Posterior
from alcove.platform.client.records import unit_of
from alcove.platform.console.charts import Axis, Chart, Line, Point, Series
from alcove.platform.console.pages.experiments.later_looks import LaterLook
from alcove.platform.console.pages.experiments.words import (
    UNITS,
    arm_names,
    guardrail_name,
    metric_name,
    name_arms,
    p_value,
    scale_of,
    show,
    show_share,
    unit_words,
)
from alcove.platform.console.tables import Column, Table

__all__ = ["make_sections"]

Row = dict[str, Any]
LOSS_SHOWN: Final = 1e-6
"""Of an expected loss, in the unit that is shown; below it are errors of the arithmetic."""
NUMBERS: Final = frozenset({"devices", "reports"})


def make_sections(report: ExperimentReport, now_s: int, later: Sequence[LaterLook] = ()) -> dict[str, Any]:
    """Return the tables and charts by name; a section that an experiment does not have is None.

    Args:
        report: as the server gives it.
        now_s: time of the reading, seconds since 1970-01-01 UTC.
        later: looks that are planned.
    """
    return {
        "arms": _arms(report),
        "ratio": _ratio(report),
        "over_time": _over_time(report, now_s),
        "looks": _looks(report.experiment, later),
        "pairs": _pairs(report),
        "secondary": _secondary(report),
        "guardrails": _guardrails(report),
        "cuped": _adjustments(report),
        "bayesian": _bayesian(report),
        "shares": _shares(report, now_s),
        "dimension": _dimension(report),
    }


def _table(name: str, caption: str, titles: tuple[str, ...], rows: list[Row], empty: str = "") -> Table[Row]:
    def column(title: str) -> Column[Row]:
        return Column(title, title, lambda row: row[title], "number" if title in NUMBERS else "text")

    return Table(name, caption, [column(title) for title in titles], rows, "", empty=empty or "No reports yet.")


def _arms(report: ExperimentReport) -> Table[Row]:
    experiment, found = report.experiment, report.results
    own = experiment.primary.metric
    rows = []
    for arm, result in zip(experiment.arms, found.arms, strict=True):
        row: Row = {
            "arm": arm.name,
            "version": arm.version,
            "values": ", ".join(f"{name} = {value}" for name, value in arm.values.items()),
            "planned share": f"{arm.share_basis_points / 100:g} %",
            "devices": round(max(result.devices, 0.0)),
            "of all reports": show_share(result.share),
        }
        if own:
            row[own] = show(result.own_metric, "own").lstrip("+")
        else:
            row["accepted"] = show_share(result.accepted)
            if experiment.latency_edges_ms:
                row["mean latency"] = show(result.latency_ms, "ms").lstrip("+")
                row["median latency"] = show(result.median_latency_ms, "ms").lstrip("+")
        rows.append(row)
    if not any(row["values"] for row in rows):
        rows = [{name: value for name, value in row.items() if name != "values"} for row in rows]
    return _table("arms", "Arms, each estimate with its interval", tuple(rows[0]), rows)


def _ratio(report: ExperimentReport) -> Table[Row]:
    found = report.results.sample_ratio
    rows = [
        {
            "arm": name,
            "should have": f"{100 * arm.expected:.4g} %",
            "has": show_share(arm.observed),
            "says": "mismatch" if arm.is_mismatch else "fits",
        }
        for name, arm in zip(arm_names(report.experiment), found.arms, strict=False)
        if arm.observed.value is not None
    ]
    return _table("ratio", "Part of all reports", ("arm", "should have", "has", "says"), rows)


def _over_time(report: ExperimentReport, now_s: int) -> Chart:
    experiment, found = report.experiment, report.results
    unit = unit_of(experiment.primary)
    names = arm_names(experiment)
    looks = [(look.analyzed_at_s, look.pairs) for look in experiment.interim_analyses]
    if found.report_count:
        looks.append((experiment.stopped_at_s or now_s, found.pairs))
    series = []
    for arm in range(1, len(names)):
        points = [
            point
            for at_s, pairs in looks
            for pair in pairs
            if (pair.arm, pair.versus) in ((arm, 0), (0, arm))
            and (point := _point(at_s, pair, scale_of(unit) * (1 if pair.arm == arm else -1))) is not None
        ]
        series.append(Series(f"{names[arm]} − {names[0]}", points))
    lines = [Line("no difference", 0.0, is_bound=False)]
    if experiment.plan.mde:
        lines.append(Line("effect that is looked for", experiment.plan.mde * scale_of(unit), is_bound=False))
    return Chart(
        "primary",
        f"{metric_name(experiment.primary)}: difference from {names[0]}, with its interval",
        Axis("Time", kind="time"),
        Axis("Difference", UNITS[unit]),
        series,
        lines,
    )


def _point(at_s: int, pair: PairDifference, scale: float) -> Point | None:
    found = pair.difference
    if found.value is None:
        return None
    ends = [None if end is None else end * scale for end in (found.low, found.high)]
    low, high = ends if scale > 0 else ends[::-1]
    return Point(at_s, found.value * scale, low, high)


def _looks(experiment: Experiment, later: Sequence[LaterLook]) -> Table[Row] | None:
    """Return the looks that were made, and those that are planned after them."""
    plan = experiment.plan
    if not plan.interim_analyses:
        return None
    names = arm_names(experiment)
    unit = unit_of(experiment.primary)
    rows: list[Row] = [
        {
            "look": number,
            "reports": look.report_count,
            "of the plan": f"{look.fraction:.0%}",
            "boundary": _boundary(look.boundary),
            "difference": "; ".join(
                f"{names[pair.arm]} − {names[pair.versus]}: {show(pair.difference, unit)}, p = {p_value(pair.p_value)}"
                for pair in look.pairs
            ),
            "said": f"{look.decision.kind}: {name_arms(look.decision.reason, experiment.arms)}",
            "made": look.analyzed_at_s,
        }
        for number, look in enumerate(experiment.interim_analyses, 1)
    ]
    rows += [
        {
            "look": number,
            "reports": look.report_count,
            "of the plan": f"{look.fraction:.0%}",
            "boundary": _boundary(look.boundary),
            "difference": "",
            "said": "planned",
            "made": 0,
        }
        for number, look in enumerate(later, len(rows) + 1)
    ]
    columns = [
        Column[Row](name, name, itemgetter(name), "number" if name in ("look", "reports") else "text")
        for name in ("look", "reports", "of the plan", "boundary", "difference", "said")
    ]
    columns.append(Column("made", "made", lambda row: row["made"], "time"))
    return Table(
        "looks",
        "Interim analyses that were made, and those that follow if none is late",
        columns,
        rows,
        "",
        empty="None was made yet.",
    )


def _boundary(boundary: float | None) -> str:
    return "none so early" if boundary is None else f"{boundary:.3f} standard errors"


def _pairs(report: ExperimentReport) -> Table[Row]:
    experiment = report.experiment
    names, unit = arm_names(experiment), unit_of(experiment.primary)
    rows = [
        {
            "pair": f"{names[pair.arm]} − {names[pair.versus]}",
            "difference": show(pair.difference, unit),
            "relative": show_share(pair.lift, "+"),
            "p": p_value(pair.p_value),
            "noise of privacy": "unknown" if pair.noise_percent is None else f"{pair.noise_percent:.0f} %",
        }
        for pair in report.results.pairs
    ]
    caption = f"All pairs by {metric_name(experiment.primary)}, {unit_words(experiment.primary)}"
    return _table("pairs", caption, ("pair", "difference", "relative", "p", "noise of privacy"), rows)


def _secondary(report: ExperimentReport) -> Table[Row] | None:
    experiment, found = report.experiment, report.results.secondary
    if not experiment.secondary:
        return None
    names = arm_names(experiment)
    rows = [
        {
            "metric": metric_name(experiment.secondary[each.metric]),
            "pair": f"{names[each.arm]} − {names[each.versus]}",
            "difference": show(each.difference, unit_of(experiment.secondary[each.metric])),
            "p": p_value(each.p),
            "adjusted p": p_value(each.adjusted_p),
        }
        for each in found.differences
    ]
    how = "at the last planned look" if found.is_at_horizon else "valid whenever they are read"
    caption = f"Secondary metrics, which decide nothing; 95 % intervals one by one; p {how}"
    return _table("secondary", caption, ("metric", "pair", "difference", "p", "adjusted p"), rows)


def _guardrails(report: ExperimentReport) -> Table[Row] | None:
    experiment = report.experiment
    if not experiment.guardrails and not experiment.own_guardrails:
        return None
    rows = []
    for verdict in report.results.verdicts:
        name, margin, unit = guardrail_name(experiment, verdict.guardrail)
        suffix = {"share": " pp", "ms": " ms", "own": ""}[unit]
        rows.append(
            {
                "guardrail": name,
                "arm": experiment.arms[verdict.arm].name,
                "says": verdict.kind,
                "more than the control by": show(verdict.difference, unit),
                "margin": f"{margin * scale_of(unit):g}{suffix}",
                "why": name_arms(verdict.reason, experiment.arms),
            }
        )
    titles = ("guardrail", "arm", "says", "more than the control by", "margin", "why")
    return _table("guardrails", "What a winner must not make worse", titles, rows)


def _adjustments(report: ExperimentReport) -> Table[Row] | None:
    experiment = report.experiment
    if not experiment.pre_edges:
        return None
    names = arm_names(experiment)
    rows = [
        {
            "pair": f"{names[each.arm]} − {names[0]}",
            "unadjusted": show(each.adjustment.unadjusted, "share"),
            "adjusted": show(each.difference, "share"),
            "variance": f"{-each.adjustment.variance_reduction_percent:+.1f} %",
            "theta": f"{each.adjustment.theta:.3g}",
        }
        for each in report.results.primary
        if each.adjustment is not None
    ]
    caption = "CUPED: the difference as counted, and corrected by earlier answers"
    return _table("cuped", caption, ("pair", "unadjusted", "adjusted", "variance", "theta"), rows)


def _bayesian(report: ExperimentReport) -> Table[Row]:
    experiment, view = report.experiment, report.results.bayesian
    names, unit = arm_names(experiment), unit_of(experiment.primary)
    suffix = {"share": " %", "ms": " ms", "own": ""}[unit]

    def spell(found: Posterior) -> str:
        mean, low, high = (end * scale_of(unit) for end in (found.mean, found.low, found.high))
        return f"{mean:.4g}{suffix} [{low:.4g}, {high:.4g}]"

    def row(name: str, found: Posterior, chance: float, loss: float) -> Row:
        return {
            "arm": name,
            "posterior, 95 %": spell(found),
            "chance to be better": f"{100 * chance:.1f} %",
            "expected loss": f"{loss * scale_of(unit):.3g}{suffix}" if loss * scale_of(unit) >= LOSS_SHOWN else "none",
        }

    rows = [row(names[each.arm], each.value, each.chance_best, each.expected_loss) for each in view.arms]
    rows += [
        row(f"{names[each.arm]} − {names[each.versus]}", each.difference, each.chance_better, each.expected_loss)
        for each in view.differences
    ]
    titles = ("arm", "posterior, 95 %", "chance to be better", "expected loss")
    empty = name_arms(view.obstacle, experiment.arms) if view.obstacle else ""
    return _table("bayesian", "Posteriors in the primary metric, which decide nothing", titles, rows, empty)


def _shares(report: ExperimentReport, now_s: int) -> Chart | None:
    experiment, view = report.experiment, report.results.allocation
    if view is None:
        return None
    end_s = experiment.stopped_at_s or now_s
    series = []
    for arm, name in enumerate(arm_names(experiment)):
        points = [Point(change.changed_at_s, change.shares_basis_points[arm] / 100) for change in view.changes]
        if points and points[-1].x < end_s:
            points.append(Point(end_s, points[-1].y))
        series.append(Series(name, points, "steps"))
    return Chart(
        "shares",
        "Shares of the arms, as the bandit moved them",
        Axis("Time", kind="time"),
        Axis("Share of all devices", "%"),
        series,
    )


def _dimension(report: ExperimentReport) -> Table[Row] | None:
    experiment, view = report.experiment, report.results.dimension
    if view is None:
        return None
    names, unit = arm_names(experiment), unit_of(experiment.primary)
    rows: list[Row] = []
    for stratum in view.strata:
        if not stratum.differences:
            rows.append(
                {
                    "value": stratum.value,
                    "reports": stratum.report_count,
                    "pair": "",
                    "difference": name_arms(stratum.obstacle, experiment.arms),
                    "p": "",
                    "adjusted p": "",
                }
            )
        rows += [
            {
                "value": stratum.value,
                "reports": stratum.report_count,
                "pair": f"{names[each.arm]} − {names[each.versus]}",
                "difference": show(each.difference, unit),
                "p": p_value(each.p),
                "adjusted p": p_value(each.adjusted_p),
            }
            for each in stratum.differences
        ]
    caption = f"The primary metric by {view.dimension}, which decides nothing"
    return _table("dimension", caption, ("value", "reports", "pair", "difference", "p", "adjusted p"), rows)
