"""Says in words where there are too few reports for a number: in a table, in JSON and in a file of cells alike."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from alcove.platform.client import ArmResult, Estimate, Experiment, ExperimentReport, Rollout


__all__ = ["TOO_FEW", "arm_note", "group_notes", "is_known", "results_json", "spell_p_value"]

TOO_FEW: Final = "too few reports"


def is_known(estimate: "Estimate | None") -> bool:
    """Tell whether an estimate says anything: one without an interval may lie anywhere."""
    return estimate is not None and estimate.value is not None and (estimate.low, estimate.high) != (None, None)


def arm_note(experiment: "Experiment", arm: "ArmResult") -> str:
    """Return why nothing can be said of an arm yet, with the bound; "" where its own estimate and size are there."""
    if arm.devices < experiment.minimum_cohort:
        return f"{TOO_FEW}: about {max(arm.devices, 0.0):.0f} devices of at least {experiment.minimum_cohort}"
    return "" if is_known(arm.own_metric or arm.accepted) else TOO_FEW


def results_json(report: "ExperimentReport") -> dict[str, Any]:
    """Return results as JSON; each arm has a `note`, "" where its numbers may be read."""
    found = report.model_dump(mode="json")
    for shown, arm in zip(found["results"]["arms"], report.results.arms, strict=True):
        shown["note"] = arm_note(report.experiment, arm)
    return found


def group_notes(rollout: "Rollout") -> list[str]:
    """Return what a rollout's last analysis has too few reports for: groups, and guardrails without a difference."""
    analysis = rollout.analysis
    if analysis is None:
        return []
    stages = rollout.plan.stages
    least = stages[rollout.stage - 1].minimum_cohort if 0 < rollout.stage <= len(stages) else 0
    groups = zip(("control", "treatment"), analysis.devices or (0.0, 0.0), strict=False)
    notes = [
        f"{TOO_FEW}: the {name} group has about {max(devices, 0.0):.0f} devices of at least {max(least, 1)}"
        for name, devices in groups
        if devices < max(least, 1)
    ]
    named = zip(rollout.plan.guardrails, analysis.verdicts, strict=False)
    unknown = [guardrail.metric for guardrail, verdict in named if verdict.difference is None]
    return notes + ([f"{TOO_FEW} for {', '.join(unknown)}"] if unknown else [])


def spell_p_value(p: float | None) -> str:
    """Return a p-value to two digits, or in words that there is none."""
    return "none yet" if p is None else f"{p:.2g}"
