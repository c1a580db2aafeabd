"""Puts experiments into words: metrics, values with units and intervals, and the checks."""

import re
from typing import Final

from alcove.platform.client import (
    Arm,
    Estimate,
    Experiment,
    ExperimentReport,
    GuardrailPlan,
    OwnGuardrail,
    Primary,
    SampleRatio,
)
from alcove.platform.client.records import decision_in_words, unit_of

__all__ = [
    "TOO_FEW",
    "UNITS",
    "analysis_words",
    "arm_names",
    "decision_sentence",
    "guardrail_name",
    "mechanism_words",
    "metric_name",
    "name_arms",
    "noise_sentence",
    "p_value",
    "ratio_sentence",
    "scale_of",
    "show",
    "show_share",
]

TOO_FEW: Final = "too few reports"
UNITS: Final = {"share": "percentage points", "ms": "ms", "own": "in its own unit"}
_SCALES: Final = {"share": 100.0, "ms": 1.0, "own": 1.0}
_ARM: Final = re.compile(r"\barm (\d+)\b", re.ASCII)


def arm_names(experiment: Experiment) -> list[str]:
    """Return the names of the arms, the control first."""
    return [arm.name for arm in experiment.arms]


def name_arms(text: str, arms: tuple[Arm, ...]) -> str:
    """Return a sentence of the server with the names of the arms, which it numbers."""
    return _ARM.sub(lambda found: arms[int(found[1])].name if int(found[1]) < len(arms) else found[0], text)


def decision_sentence(report: ExperimentReport) -> str:
    """Return the decision that holds: the one that was kept when it stopped, else that of now."""
    experiment = report.experiment
    decision = experiment.decision or report.results.decision
    return name_arms(decision_in_words(arm_names(experiment), decision), experiment.arms)


def metric_name(metric: Primary) -> str:
    """Return a metric in a few words."""
    if metric.metric:
        return metric.metric + (f" (version {metric.metric_version})" if metric.metric_version else "")
    match metric.kind:
        case "ratio":
            below = ", ".join(metric.denominator) or "all that is counted"
            return f"{', '.join(metric.numerator)} of {below}"
        case "latency_share":
            return f"answers that take {metric.edge_ms:g} ms or longer"
        case "latency_quantile":
            return f"latency that {100 * metric.quantile:g} % of the answers keep"
        case "latency_mean":
            return "mean latency"
        case _:
            return "accepted answers"


def guardrail_name(experiment: Experiment, place: int) -> tuple[str, float, str]:
    """Return name, margin and unit of a guardrail, by its place in the verdicts."""
    rails: list[GuardrailPlan | OwnGuardrail] = [*experiment.guardrails, *experiment.own_guardrails]
    rail = rails[place]
    if isinstance(rail, OwnGuardrail):
        return rail.metric, rail.margin, "own"
    name = rail.metric.replace("_", " ")
    if rail.metric != "latency":
        return name, rail.margin, "share"
    if rail.edge_ms:
        return f"{name}: {rail.edge_ms:g} ms or longer", rail.margin, "share"
    return f"{name} that {100 * (rail.quantile or 0.95):g} % keep", rail.margin, "ms"


def scale_of(unit: str) -> float:
    """Return what a value in a unit is multiplied by to be shown: shares are parts of 1, shown in points."""
    return _SCALES[unit]


def show(estimate: Estimate | None, unit: str) -> str:
    """Return a difference with its unit and interval."""
    if estimate is None or estimate.value is None:
        return TOO_FEW
    return _text(estimate, scale_of(unit), {"share": " pp", "ms": " ms", "own": ""}[unit], sign="+")


def show_share(estimate: Estimate | None, sign: str = "") -> str:
    """Return a part in per cent with its interval; one without an interval says nothing."""
    if estimate is None or estimate.value is None or (estimate.low, estimate.high) == (None, None):
        return TOO_FEW
    return _text(estimate, 100.0, " %", sign)


def p_value(p: float | None) -> str:
    """Return a p-value to two digits."""
    return "none yet" if p is None else f"{p:.2g}" if p >= 0.0001 else "below 0.0001"


def ratio_sentence(experiment: Experiment, found: SampleRatio) -> str:
    """Return what the sample-ratio check says, with its figures."""
    if not found.arms:
        return "The server does not give the figures of the check."
    if all(arm.observed.value is None for arm in found.arms):
        return "There are no reports yet to check."
    names = arm_names(experiment)
    wrong = [name for name, arm in zip(names, found.arms, strict=False) if arm.is_mismatch]
    sure = f"{100 * (1 - found.alpha):g} % intervals that hold at all times and for all arms together"
    if not wrong:
        return f"Sound: each arm has the part of the reports that it should have ({sure})."
    arms = ", ".join(wrong)
    return (
        f"Mismatch at {arms}: something loses or invents devices, so that no arm is named ({sure}). Look for an arm "
        "that crashes or does not report."
    )


def noise_sentence(report: ExperimentReport) -> str:
    """Return which part of the intervals is the noise of privacy; "" where nothing is known of it."""
    known = [pair.noise_percent for pair in report.results.pairs if pair.noise_percent is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    part = f"{low:.0f} %" if high - low < 1 else f"{low:.0f} to {high:.0f} %"
    return f"Privacy makes up {part} of the width of these intervals: without its noise they would be so much narrower."


def mechanism_words(experiment: Experiment) -> str:
    """Return how reports become sums, with its privacy loss."""
    if experiment.mechanism == "prio3":
        return f"Prio3: two aggregators, ε = {experiment.epsilon} for the sums of a window"
    return f"randomized response on the device, ε = {experiment.epsilon} for each report"


def analysis_words(experiment: Experiment) -> list[str]:
    """Return the notes on method: tests, error, privacy, and what the intervals contain."""
    plan = experiment.plan
    test = "Intervals of all pairs hold together (Bonferroni) and at every reading (confidence sequences)."
    if plan.interim_analyses:
        test = (
            f"{plan.interim_analyses} interim analyses by group-sequential boundaries decide, the last at "
            f"{plan.planned_reports:,} reports. Intervals beside them hold at every reading."
        )
    if experiment.bandit is not None:
        test = "A bandit moves the shares by Thompson sampling; no winner is named by tests of a fixed split."
    notes = [test]
    if experiment.secondary or experiment.dimension:
        notes.append("Secondary metrics and values of a dimension decide nothing; Benjamini and Hochberg adjust p.")
    if experiment.pre_edges:
        notes.append("CUPED corrects the primary metric by what each device accepted before the experiment.")
    notes.append(f"Each interval contains sampling and the noise of privacy: {mechanism_words(experiment)}.")
    notes.append(f"No arm is named while one has fewer than {experiment.minimum_cohort:,} estimated devices.")
    return notes


def _text(estimate: Estimate, factor: float, unit: str, sign: str) -> str:
    value = 0.0 if estimate.value is None else estimate.value
    low, high = ("…" if end is None else f"{end * factor:.4g}" for end in (estimate.low, estimate.high))
    return f"{value * factor:{sign}.4g}{unit} [{low}, {high}]"


def unit_words(metric: Primary) -> str:
    """Return the unit of a metric's differences."""
    return UNITS[unit_of(metric)]
