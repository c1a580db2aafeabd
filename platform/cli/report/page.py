"""Writes an experiment's results as one page of HTML that loads nothing: tables, and pictures drawn inside.

Names and reasons come from other people: each is escaped, and the page's own policy forbids it to load or to run
anything.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Final

from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.dimensions import COLUMNS, dimension_notes, dimension_rows
from alcove.platform.cli.experiment_results import sentence
from alcove.platform.cli.few_reports import TOO_FEW, spell_p_value
from alcove.platform.cli.metric_units import spell_value
from alcove.platform.cli.output import plain, when
from alcove.platform.cli.parameter_values import version_text
from alcove.platform.cli.report.pictures import Bar, Row, draw_chances, draw_intervals
from alcove.platform.cli.secondary_metrics import spell_metric

if TYPE_CHECKING:
    from alcove.platform.client import Estimate, Experiment, ExperimentReport, Posterior, Results

__all__ = ["page_of"]

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f23; --paper: #fff; --line: #9aa4ad; --one: #0b5394; --two: #9c4a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --paper: #14181c; --line: #66717b; --one: #7db8f0; --two: #f0a860; }
}
body { font: 16px/1.5 sans-serif; color: var(--ink); background: var(--paper); }
main { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
caption { text-align: left; font-weight: bold; padding: .4rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; }
.verdict { border-left: .4rem solid var(--one); padding: .4rem 1rem; font-size: 1.1rem; }
.scroll { overflow-x: auto; }
figure { margin: 1rem 0; }
svg { width: 100%; height: auto; }
svg text { font: 13px sans-serif; fill: var(--ink); }
.rule, .frame { stroke: var(--line); fill: none; }
.zero { stroke: var(--ink); stroke-dasharray: 5 4; }
line.interval { stroke: var(--one); stroke-width: 4; } circle.interval { fill: var(--one); }
line.posterior { stroke: var(--two); stroke-width: 4; stroke-dasharray: 9 4; } circle.posterior { fill: var(--two); }
.bar { fill: var(--two); }
"""


def page_of(report: "ExperimentReport") -> str:
    """Return the page of an experiment's results."""
    experiment, found = report.experiment, report.results
    parts = [
        f"<h1>Experiment {_safe(experiment.experiment_id)}</h1>",
        f'<p class="verdict">{_safe(sentence(experiment.arms, found.decision))}</p>',
        _facts(experiment, found),
        _arms(experiment, found),
        *_pairs(experiment, found),
        *_dimension(experiment, found),
        *_secondary(experiment, found),
        *_bayesian(experiment, found),
        *_guardrails(found),
        f"<p>{_safe(found.promise)}</p>",
    ]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="referrer" content="no-referrer">',
            f"<title>Experiment {_safe(experiment.experiment_id)}</title>",
            f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
            *parts,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _facts(experiment: "Experiment", found: "Results") -> str:
    unit = "a window" if experiment.mechanism == "prio3" else "a report"
    rows = [
        ("App and feature", f"{experiment.app}, {experiment.feature}"),
        ("State", experiment.state),
        ("Started", when(experiment.started_at_s)),
        ("Stopped", when(experiment.stopped_at_s)),
        ("Reports", f"{found.report_count:,} in {found.window_count} windows"),
        ("Privacy", f"{experiment.mechanism}, ε = {experiment.epsilon} for {unit}"),
        ("Decided by", experiment.primary.metric or experiment.primary.kind),
        *([("Dimension", experiment.dimension)] if experiment.dimension else []),
    ]
    body = "".join(f'<tr><th scope="row">{name}</th><td>{_safe(text)}</td></tr>' for name, text in rows)
    return f"<table><caption>About</caption>{body}</table>"


def _arms(experiment: "Experiment", found: "Results") -> str:
    from alcove.platform.client import Estimate  # noqa: PLC0415 - loads gRPC

    own, spell = experiment.primary.metric, _unit(experiment)
    rows = [
        (
            arm.name,
            version_text(arm.version, experiment.arms[number].values),
            f"{arm.devices:,.0f}",
            _spell(arm.share, _percent),
            _spell(arm.own_metric or Estimate(), spell) if own else _spell(arm.accepted, _percent),
        )
        for number, arm in enumerate(found.arms)
    ]
    columns = ("Arm", "Version", "Devices", "Share of reports", own or "Accepted")
    return _table("Arms, with always-valid 95 % intervals", columns, rows)


def _pairs(experiment: "Experiment", found: "Results") -> list[str]:
    spell = _unit(experiment)
    names = [arm.name for arm in found.arms]
    shown = [(f"{names[pair.arm]} - {names[pair.versus]}", pair.difference) for pair in found.pairs]
    relative = [_spell(pair.lift, _percent) if pair.lift is not None else TOO_FEW for pair in found.pairs]
    columns = ("Arms", "Difference", "Relative to the other")
    cells = [(name, _spell(each, spell), lift) for (name, each), lift in zip(shown, relative, strict=True)]
    rows = [Row(name, each.value, each.low, each.high) for name, each in shown if each.value is not None]
    parts = [_table("Differences that decide", columns, cells)]
    if rows:
        title = "Differences in the metric that decides, with their intervals"
        parts.append(draw_intervals("differences", title, rows, spell, marks_zero=True))
    return parts


def _dimension(experiment: "Experiment", found: "Results") -> list[str]:
    view = found.dimension
    if view is None:
        return []
    spell = _unit(experiment)
    rows = [
        Row(
            f"{one.value}, {experiment.arms[each.arm].name}",
            each.difference.value,
            each.difference.low,
            each.difference.high,
        )
        for one in view.strata
        for each in one.differences
        if each.difference.value is not None
    ]
    parts = [
        "<h2>By value</h2>",
        *(f"<p>{_safe(note)}</p>" for note in dimension_notes(experiment, view)),
        _table(f"By {view.dimension}", COLUMNS, [tuple(row) for row in dimension_rows(experiment, view)]),
    ]
    if rows:
        title = "Differences from the control by value, with their intervals"
        parts.append(draw_intervals("values", title, rows, spell, marks_zero=True))
    return parts


def _secondary(experiment: "Experiment", found: "Results") -> list[str]:
    view = found.secondary
    if not view.differences:
        return []
    how = "at the last planned analysis" if view.is_at_horizon else "valid whenever they are read"
    names = [arm.name for arm in found.arms]
    rows = []
    for each in view.differences:
        metric = experiment.secondary[each.metric]
        spell = partial(spell_value, metric)
        arms = f"{names[each.arm]} - {names[each.versus]}"
        rows.append(
            (
                spell_metric(metric),
                arms,
                _spell(each.difference, spell),
                spell_p_value(each.p),
                spell_p_value(each.adjusted_p),
            )
        )
    columns = ("Metric", "Arms", "Difference", "p", "p adjusted (Benjamini and Hochberg)")
    return [
        "<h2>Secondary metrics</h2>",
        f"<p>They decide nothing. The p-values are {how}.</p>",
        _table("Secondary metrics", columns, rows),
    ]


def _bayesian(experiment: "Experiment", found: "Results") -> list[str]:
    view, spell = found.bayesian, _unit(experiment)
    heading = "<h2>Bayesian view</h2>"
    if view.obstacle:
        return [heading, f"<p>There is none: {_safe(name_arms(view.obstacle, experiment.arms))}.</p>"]
    if not view.arms:
        return []
    names = [arm.name for arm in found.arms]
    rows = [
        (names[each.arm], _posterior(each.value, spell), f"{each.chance_best:.1%}", spell(each.expected_loss))
        for each in view.arms
    ]
    columns = ("Arm", "Posterior mean and 95 % interval", "Chance to be best", "Expected loss")
    title = "Posterior of each arm, 95 %"
    remark = "It decides nothing, and its chances are not corrected for how often they are read."
    return [
        heading,
        f"<p>{remark} Prior: {_safe(view.prior)}.</p>",
        _table("Posteriors", columns, rows),
        draw_intervals(
            "posteriors",
            title,
            [Row(names[e.arm], e.value.mean, e.value.low, e.value.high, is_posterior=True) for e in view.arms],
            spell,
            marks_zero=False,
        ),
        draw_chances("chances", "Chance to be best", [Bar(names[each.arm], each.chance_best) for each in view.arms]),
    ]


def _guardrails(found: "Results") -> list[str]:
    if not found.verdicts:
        return []
    rows = [(found.arms[each.arm].name, each.kind, each.reason) for each in found.verdicts]
    return [_table("Guardrails", ("Arm", "Verdict", "Why"), rows)]


def _table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_safe(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{_safe(first)}</th>{"".join(f"<td>{_safe(each)}</td>" for each in others)}</tr>'
        for first, *others in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{_safe(caption)}" tabindex="0"><table>'
        f"<caption>{_safe(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _unit(experiment: "Experiment") -> Callable[[float], str]:
    return partial(spell_value, experiment.primary)


def _spell(estimate: "Estimate", spell: Callable[[float], str]) -> str:
    if estimate.value is None:
        return TOO_FEW
    low, high = ("…" if end is None else spell(end) for end in (estimate.low, estimate.high))
    return f"{spell(estimate.value)} [{low}, {high}]"


def _posterior(posterior: "Posterior", spell: Callable[[float], str]) -> str:
    return f"{spell(posterior.mean)} [{spell(posterior.low)}, {spell(posterior.high)}]"


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _safe(text: str) -> str:
    return escape(plain(text))
