"""Prints an experiment's results and interim analyses for people, and puts its plan and decision into words."""

from typing import TYPE_CHECKING

from alcove.platform.cli.allocation import show_allocation
from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.bayesian_results import show_bayesian
from alcove.platform.cli.collection import collection_lines
from alcove.platform.cli.dimensions import show_dimension
from alcove.platform.cli.few_reports import TOO_FEW, arm_note, is_known, spell_p_value
from alcove.platform.cli.metric_units import is_in_ms, unit_of
from alcove.platform.cli.output import print_table, say, when
from alcove.platform.cli.parameter_values import version_text
from alcove.platform.cli.secondary_metrics import show_secondary

if TYPE_CHECKING:
    from alcove.platform.client import (
        Arm,
        ArmResult,
        Decision,
        Estimate,
        Experiment,
        ExperimentReport,
        PairDifference,
        Results,
    )

__all__ = ["cuped_sentence", "plan_sentence", "sentence", "show_results"]


def show_results(report: "ExperimentReport") -> None:
    """Print arms, differences, interim analyses, guardrails and the decision."""
    from alcove.platform.client import Estimate  # noqa: PLC0415 - loads gRPC
    from alcove.platform.client.preferences import preference_sentences  # noqa: PLC0415 - as above

    experiment, found = report.experiment, report.results
    title = f"{experiment.experiment_id}: {found.report_count} reports, ε = {experiment.epsilon} {_unit(experiment)}"
    own = experiment.primary.metric
    values = [arm.values for arm in experiment.arms]
    rows = [
        [
            arm.name,
            version_text(arm.version, values[number]),
            f"{arm.devices:.0f}",
            _percentage(arm.share),
            *(
                [_plain(arm.own_metric or Estimate())]
                if own
                else [
                    _percentage(arm.accepted),
                    _latency(experiment, arm),
                ]
            ),
        ]
        for number, arm in enumerate(found.arms)
    ]
    columns = ["arm", "version", "devices", "share", *([own] if own else ["accepted", "latency"])]
    print_table(columns, rows, title=title)
    for arm in found.arms:
        note = arm_note(experiment, arm)
        if note:
            say(f"{arm.name}: {note}")
    if found.allocation is not None:
        show_allocation(experiment, found.allocation)
    for difference in () if own or found.allocation is not None else found.differences:
        names = f"{found.arms[difference.arm].name} - {found.arms[0].name}"
        say(f"{names}: {_percentage(difference.accepted)}, relative {_lift(difference.lift)}")
    for pair in found.primary:
        if pair.adjustment is not None:
            say(
                f"{found.arms[pair.arm].name} - {found.arms[0].name}, CUPED: {_percentage(pair.difference)}, "
                f"theta {pair.adjustment.theta:.3g}, variance {-pair.adjustment.variance_reduction_percent:+.1f} %"
            )
    if found.allocation is None:
        _show_pairs(experiment, found)
    for line in preference_sentences(report):
        say(line)
    show_dimension(experiment, found.dimension)
    show_secondary(experiment, found.secondary)
    show_bayesian(experiment, found.bayesian)
    _show_interim_analyses(experiment, found)
    for verdict in found.verdicts:
        say(f"{found.arms[verdict.arm].name}, {verdict.kind}: {verdict.reason}")
    say(found.promise)
    if found.collection is not None:
        for line in collection_lines(found.collection):
            say(line)
    say(sentence(experiment.arms, found.decision))


def _unit(experiment: "Experiment") -> str:
    return "a window" if experiment.mechanism == "prio3" else "each"


def _show_pairs(experiment: "Experiment", found: "Results") -> None:
    if experiment.primary.kind == "accepted" and len(found.arms) == 2 and found.pairs[0].p_value is None:
        return
    rows = [
        [_names(found, pair), _difference(experiment, pair.difference), _lift(pair.lift), spell_p_value(pair.p_value)]
        for pair in found.pairs
    ]
    metric = experiment.primary.metric or experiment.primary.kind
    say(f"by {metric}; intervals hold for all pairs together, each p-value for its own:")
    print_table(["pair", "difference", "relative", "p"], rows)


def _show_interim_analyses(experiment: "Experiment", found: "Results") -> None:
    if not experiment.plan.interim_analyses:
        return
    rows = [
        [
            str(number),
            f"{analysis.report_count:,} ({analysis.fraction:.0%})",
            "none" if analysis.boundary is None else f"{analysis.boundary:.3f}",
            "\n".join(
                f"{_names(found, pair)}: {_difference(experiment, pair.difference)}, p = {spell_p_value(pair.p_value)}"
                for pair in analysis.pairs
            ),
            analysis.decision.kind,
            when(analysis.analyzed_at_s),
        ]
        for number, analysis in enumerate(experiment.interim_analyses, start=1)
    ]
    if rows:
        print_table(["analysis", "reports", "boundary", "difference", "decision", "analyzed"], rows)
    count_text = f"{len(rows)} of {experiment.plan.interim_analyses} interim analyses made"
    due = (
        f"; the next is due at {found.next_analysis_reports:,} reports"
        if found.next_analysis_reports
        else "; no other follows"
    )
    say(count_text + due)


def _names(found: "Results", pair: "PairDifference") -> str:
    return f"{found.arms[pair.arm].name} - {found.arms[pair.versus].name}"


def _difference(experiment: "Experiment", estimate: "Estimate") -> str:
    if experiment.primary.metric:
        return _plain(estimate)
    return _milliseconds(estimate) if is_in_ms(experiment.primary) else _percentage(estimate)


def _lift(lift: "Estimate | None") -> str:
    """Return a relative lift; where the control may be zero it can be anything."""
    if lift is None or lift.value is None:
        return TOO_FEW
    if lift.low is None or lift.high is None:
        return "not distinguishable"
    return f"{lift.value:+.1%} {_interval(lift, 100, 1)}"


def plan_sentence(experiment: "Experiment") -> str:
    """Return how many devices and days an experiment needs."""
    plan = experiment.plan
    unit = unit_of(experiment.primary)
    by = "two aggregators" if experiment.mechanism == "prio3" else "randomized response"
    parts = [f"by {by}, ε = {experiment.epsilon}, a difference of {plan.mde:g}{unit} needs "]
    parts.append(
        f"{plan.devices_needed:,} devices in one window" if plan.devices_needed else "more devices than there are"
    )
    if plan.expected_devices and plan.days_needed:
        parts.append(f"; {plan.expected_devices:,} devices find it in {plan.days_needed} days")
    elif plan.expected_devices:
        only = f", only {plan.detectable:.3g}{unit}" if plan.detectable else ", nor any larger one"
        parts.append(f"; {plan.expected_devices:,} devices don't find it in 30 days{only}")
    if plan.interim_analyses:
        parts.append(f"; {plan.interim_analyses} interim analyses, the last at {plan.planned_reports:,} reports")
    return "".join(parts)


def cuped_sentence(experiment: "Experiment") -> str:
    """Return what CUPED is expected to do to an experiment's intervals."""
    ratio = experiment.plan.cuped_error_ratio
    says = f"CUPED narrows the intervals to about {ratio:.0%}"
    if ratio >= 1.0:
        says = f"warning: CUPED widens the intervals to about {ratio:.2g} times"
    return (
        f"{says} what reports without it give, where earlier answers correlate with later ones by 0.6; "
        "it multiplies the cells of a report, and with them the noise"
    )


def sentence(arms: "tuple[Arm, ...]", decision: "Decision") -> str:
    """Return a decision in words, with the arms by their names."""
    reason = name_arms(decision.reason, arms)
    if decision.winner is None:
        return f"inconclusive, hold: {reason}"
    winner = arms[decision.winner]
    return f"winner: {winner.name} ({winner.version}): {reason}"


def _percentage(estimate: "Estimate") -> str:
    if estimate.value is None or not is_known(estimate):
        return TOO_FEW  # a share without an interval, which may lie beyond 100 %, says nothing
    return f"{estimate.value:.1%} {_interval(estimate, 100, 1)}"


def _milliseconds(estimate: "Estimate") -> str:
    if estimate.value is None:
        return TOO_FEW
    return f"{estimate.value:.3g} ms {_interval(estimate, 1, 3)}"


def _latency(experiment: "Experiment", arm: "ArmResult") -> str:
    return _milliseconds(arm.latency_ms) if experiment.latency_edges_ms else "not asked"


def _plain(estimate: "Estimate") -> str:
    if estimate.value is None:
        return TOO_FEW
    return f"{estimate.value:.4f} {_interval(estimate, 1, 4)}"


def _interval(estimate: "Estimate", factor: float, digits: int) -> str:
    low, high = ("…" if end is None else f"{end * factor:.{digits}f}" for end in (estimate.low, estimate.high))
    return f"[{low}, {high}]"
