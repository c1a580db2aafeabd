"""Prints one rollout's plan, stage by stage, and its last analysis."""

from typing import TYPE_CHECKING

from alcove.platform.cli.collection import collection_lines
from alcove.platform.cli.few_reports import TOO_FEW, group_notes
from alcove.platform.cli.output import percent, print_rows, say, when
from alcove.platform.cli.override import override_lines
from alcove.platform.cli.parameter_values import values_text

if TYPE_CHECKING:
    from alcove.platform.client import GuardrailPlan, Plan, Rollout, StageAnalysis, ValueOverride

__all__ = ["next_line", "question_lines", "show_details"]


def show_details(rollout: "Rollout", override: "ValueOverride | None" = None) -> None:
    """Print stages, audience, proposal and verdicts, as far as there are any, and what stands over its values."""
    lines = override_lines(override)
    if rollout.values:
        lines.append(f"values: {values_text(rollout.values)}")
    if rollout.audience:
        lines.append(f"audience: {rollout.audience}")
    if rollout.control_basis_points:
        lines.append(f"control group: {percent(rollout.control_basis_points)} of the devices keep the default version")
    if rollout.proposal is not None:
        proposal = rollout.proposal
        lines.append(
            f"{proposal.proposed_by} proposes {percent(proposal.share_basis_points)}: a second person approves it with"
            f" 'alcove rollout approve {rollout.rollout_id}'"
        )
    if rollout.plan.stages:
        lines.append(rollout.promise)
    lines.extend(question_lines(rollout.plan))
    if rollout.collection is not None:
        lines.extend(collection_lines(rollout.collection))
    if rollout.ending is not None:
        ending = rollout.ending
        state = rollout.state.replace("_", " ")
        lines.append(f"{state} {when(ending.ended_at_s)} by {ending.principal}: {ending.reason}")
    for line in lines:
        say(line)
    _show_stages(rollout)
    _show_analysis(rollout)


def question_lines(plan: "Plan") -> list[str]:
    """Return a line for each question of a plan: what part of the devices is asked, and what."""
    lines = []
    for question in plan.questions:
        part = "every device of both groups"
        if len(plan.questions) > 1:
            part = f"{percent(question.share_basis_points)} of the devices"
        lines.append(f"{part} reports on: {', '.join(question.metrics)}")
    return lines


def next_line(rollout: "Rollout") -> str:
    """Return the command that usually comes next, with what it waits for."""
    name = rollout.rollout_id
    if rollout.proposal is not None:
        return f"next: a second person's alcove rollout approve {name}"
    if rollout.state == "running" and 0 < rollout.stage <= len(rollout.plan.stages):
        stage = rollout.plan.stages[rollout.stage - 1]
        waits = f"after {stage.minimum_s / 3600:g} h" if stage.minimum_s else "when the analysis says ready"
        cohort = f" and {stage.minimum_cohort} devices in each group" if stage.minimum_cohort else ""
        return f"next: alcove rollout watch {name}; alcove rollout advance {name} {waits}{cohort}"
    following = {
        "draft": f"alcove rollout advance {name} (or alcove rollout delete {name})",
        "running": f"alcove rollout advance {name} --share SHARE, or pause, rollback, halt",
        "paused": f"alcove rollout resume {name}, rollback or halt",
        "halted": "only the team's key lifts the halt: alcove keys reinstate",
        "completed": f"apps take it at their next sync; alcove rollout halt {name} forbids the version again",
    }
    return f"next: {following.get(rollout.state, 'nothing; another rollout moves devices again')}"


def _show_stages(rollout: "Rollout") -> None:
    plan = rollout.plan
    if not plan.stages:
        return
    rows = [
        {
            "stage": number,
            "share": percent(stage.share_basis_points),
            "at least": f"{stage.minimum_s / 3600:g} h",
            "devices each": stage.minimum_cohort,
            "": _progress(rollout, number),
        }
        for number, stage in enumerate(plan.stages, 1)
    ]
    by_itself = "advances by itself" if plan.auto_advance_reason else "a person advances"
    harm = plan.on_harm.replace("_", " ")
    harm += "" if plan.on_harm == "pause" else " (a pause by itself, while reports are not attested)"
    unit = "a window (two aggregators)" if plan.mechanism == "prio3" else "a report (randomized response)"
    title = f"harm: {harm}; safe: {by_itself}; epsilon {plan.epsilon} {unit}"
    print_rows(rows, as_json=False, empty="", title=title)


def _progress(rollout: "Rollout", number: int) -> str:
    """Return where a rollout stands with one of its stages."""
    if number < rollout.stage or (number == rollout.stage and rollout.state == "completed"):
        return "done"
    if number > rollout.stage:
        return ""
    since = when(rollout.stage_started_at_s)
    return f"ended here, begun {since}" if rollout.state in ("rolled_back", "halted") else f"now, since {since}"


def _show_analysis(rollout: "Rollout") -> None:
    analysis = rollout.analysis
    if analysis is None:
        return
    title = f"last analysis {when(analysis.analyzed_at_s)}: {analysis.decision}; {analysis.reason} "
    title += f"({analysis.report_count} reports)"
    say(_evidence(rollout, analysis))
    rows = [
        {
            "guardrail": _name(guardrail),
            "margin": _value(guardrail.margin, guardrail),
            "difference": _value(verdict.difference, guardrail),
            "interval": _interval(_value(verdict.low, guardrail), _value(verdict.high, guardrail)),
            "says": verdict.kind,
        }
        for guardrail, verdict in zip(rollout.plan.guardrails, analysis.verdicts, strict=False)
    ] + [
        {
            "guardrail": f"metric {own.metric} (version {own.metric_version})",
            "margin": f"{own.margin:g}",
            "difference": _number(found.difference),
            "interval": _interval(_number(found.low), _number(found.high)),
            "says": found.kind,
        }
        for own, found in zip(rollout.plan.own_guardrails, analysis.own_verdicts, strict=False)
    ]
    print_rows(rows, as_json=False, empty=title, title=title)
    for note in group_notes(rollout):
        say(note)


def _evidence(rollout: "Rollout", analysis: "StageAnalysis") -> str:
    """Return which reports the guardrails read, and when it is looked whether the stage is safe."""
    pooled = f"evidence pooled over {analysis.stage_count} of {len(rollout.plan.stages)} stages"
    pooled += f" ({analysis.pooled_report_count:,} reports)"
    if not analysis.horizon_at_s:
        return f"{pooled}; safe is asked at any time"
    looks = f"{analysis.look_count} look{'s' if analysis.look_count != 1 else ''} at safety"
    due = f"the next is due {when(analysis.next_look_at_s)}" if analysis.next_look_at_s else "no other follows"
    return f"{pooled}; {looks}, {due}; horizon {when(analysis.horizon_at_s)}"


def _interval(low: str, high: str) -> str:
    return low if low == high == TOO_FEW else f"{low.replace(TOO_FEW, '…')} to {high.replace(TOO_FEW, '…')}"


def _name(guardrail: "GuardrailPlan") -> str:
    return f"latency > {guardrail.edge_ms:g} ms" if guardrail.edge_ms else guardrail.metric


def _number(value: float | None) -> str:
    return TOO_FEW if value is None else f"{value:.4g}"


def _value(value: float | None, guardrail: "GuardrailPlan") -> str:
    if value is None:
        return TOO_FEW
    return f"{value:g} ms" if guardrail.metric == "latency" and not guardrail.edge_ms else f"{100 * value:.3g} %"
