"""`alcove simulate`: simulates a rollout on virtual devices before it starts."""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, show_progress
from alcove.platform.cli.plans import PlanOptions, behavior_of
from alcove.platform.domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from alcove.platform.client import Plan
    from alcove.platform.domain.rollout_records import RolloutPlan
    from alcove.platform.simulation.scenario import Behavior
    from alcove.platform.simulation.summary import Summary

__all__ = ["simulate"]

Version = Annotated[
    list[str] | None,
    typer.Option(
        help="How the version behaves, NAME=VALUE: crash_fallback=2.1%, error=0.2%, refused=20%, feedback=100%, "
        "latency=25ms. Repeatable; what is left out is as the control's, which crashes 0.1 %."
    ),
]


def simulate(
    *,
    devices: Annotated[int, typer.Option(help="Number of devices that have the app.")] = 1_000_000,
    windows: Annotated[int, typer.Option(help="Largest number of check-in periods to simulate.")] = 14,
    active: Annotated[str, typer.Option(help="Share of the devices that report in one period, such as 40%.")] = "100%",
    spent: Annotated[
        float, typer.Option(help="Privacy loss that devices have spent on other tasks, such as an experiment: 6 of 8.")
    ] = 0.0,
    lost_replies: Annotated[
        str,
        typer.Option(help="Share of randomized reports that count twice because their reply was lost, such as 1%."),
    ] = "0%",
    control: Version = None,
    treatment: Version = None,
    runs: Annotated[int, typer.Option(help="Number of repetitions of the whole simulation.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers, a whole number.")] = 1,
    is_advanced: Annotated[
        bool, typer.Option("--advance/--no-advance", help="Have a person advance as soon as a stage is safe.")
    ] = True,
    planned: PlanOptions,
    plot: Annotated[
        Path | None, typer.Option(help="File to draw it to: .png, .svg, .pdf, or .html for a page of its own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a rollout: how often harm is found, how soon, how often by mistake, and what it costs in privacy.

    Virtual devices go through the real policy, assignment, noise, statistics and rules.
    """
    from alcove.platform.simulation import run  # noqa: PLC0415 - loads statistics
    from alcove.platform.simulation.scenario import Behavior, Scenario  # noqa: PLC0415 - loads statistics
    from alcove.platform.simulation.summary import summarize  # noqa: PLC0415 - loads statistics
    from alcove.platform.stats import Mechanism  # noqa: PLC0415 - loads statistics
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    _validate_plot(plot)
    plan, _ = planned.plan()
    mechanism = Mechanism.PRIO3 if plan.mechanism == "prio3" else Mechanism.RANDOMIZED_RESPONSE
    if mechanism is Mechanism.PRIO3:
        note = "prio3 takes two aggregators (alcove serve --aggregators); without them devices send randomized-response"
        say(f"alcove: {note}", err=True)
    usual = _behavior("--control", control, Behavior())
    try:
        scenario = Scenario(
            plan=_record(plan),
            devices=devices,
            windows=windows,
            active=_share("--active", active),
            spent=spent,
            lost_replies=_share("--lost-replies", lost_replies),
            control=usual,
            treatment=_behavior("--treatment", treatment, usual),
            mechanism=mechanism,
            is_advanced=is_advanced,
            runs=runs,
            seed=seed,
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise typer.BadParameter(f"{'.'.join(map(str, fault['loc'])) or 'plan'}: {fault['msg']}") from None
    except InvalidFieldError as error:
        raise typer.BadParameter(str(error)) from None
    began_s = time.perf_counter()
    with show_progress() as progress:
        task = progress.add_task("runs", total=runs)
        results = list(run.simulate(scenario, lambda done: progress.update(task, completed=done)))
    summary = summarize(results, windows=windows, seconds=time.perf_counter() - began_s)
    if plot is not None:
        from alcove.platform.simulation.plots import write_plot  # noqa: PLC0415 - loads matplotlib

        write_plot(plot, scenario, summary)
    _show(summary, as_json=as_json)


def _show(summary: "Summary", *, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        print_json(asdict(summary))
        return
    rows = [
        {
            "window": analysis.window,
            "share": f"{analysis.share_basis_points / 100:g} %",
            "reports": f"{analysis.reports:,}",
            "decision": analysis.decision,
            "rule": analysis.code,
        }
        for analysis in summary.analyses
    ]
    print_rows(rows, as_json=False, empty="no window", title="first run")
    harmed, done = summary.harmed, summary.completed
    soon = "" if summary.windows_to_harm is None else f", after {summary.windows_to_harm:g} windows (median)"
    say(f"harm found in {harmed.share:.1%} of {summary.runs} runs ({harmed.low:.1%} to {harmed.high:.1%}){soon}")
    say(f"reached everybody in {done.share:.1%} ({done.low:.1%} to {done.high:.1%})")
    say(f"a device that took part spent epsilon {summary.epsilon_mean:.3g}, {summary.epsilon_max:.3g} at most")
    say(f"{summary.device_windows_per_s / 1e6:.1f} million device-windows a second")


def _validate_plot(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix.lower() not in (".png", ".svg", ".pdf", ".html"):
        raise typer.BadParameter(f"--plot: a name that ends in .png, .svg, .pdf or .html; got {path.name!r}")
    if not path.resolve().parent.is_dir():
        raise typer.BadParameter(f"--plot: {path.parent} is no folder")
    if find_spec("matplotlib") is None:
        raise typer.BadParameter("--plot draws with matplotlib: pip install 'alcove-platform[plot]'")


def _behavior(option: str, given: list[str] | None, usual: "Behavior") -> "Behavior":
    from alcove.platform.simulation.scenario import Behavior  # noqa: PLC0415 - loads statistics
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    try:
        return Behavior.model_validate(usual.model_dump() | behavior_of(option, given))
    except ValidationError as error:
        raise typer.BadParameter(f"{option}: {error.errors(include_url=False)[0]['msg']}") from None


def _share(option: str, text: str) -> float:
    if not text.strip().endswith("%"):
        raise typer.BadParameter(f"{option}: a share is written 2.5%, got {text!r}")
    return _number(option, text, text.strip().removesuffix("%")) / 100


def _number(option: str, whole: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{option}: {whole!r} holds no number") from None


def _record(plan: "Plan") -> "RolloutPlan":
    """Return the plan as the engine has it; what is left open gets the server's defaults there."""
    from alcove.platform.domain.rollout_records import GuardrailRecord, PlanAction, RolloutPlan, Stage  # noqa: PLC0415 - loads statistics

    return RolloutPlan(
        stages=tuple(Stage(each.share_basis_points, each.minimum_s, each.minimum_cohort) for each in plan.stages),
        guardrails=tuple(
            GuardrailRecord(each.metric, each.margin, each.quantile or None, each.edge_ms or None)
            for each in plan.guardrails
        ),
        on_harm=PlanAction.__members__.get(plan.on_harm.upper(), PlanAction.HALT),
        on_timeout=PlanAction.__members__.get(plan.on_timeout.upper(), PlanAction.HOLD),
        timeout_s=plan.timeout_s,
        auto_advance_reason=plan.auto_advance_reason,
        epsilon=plan.epsilon or ("1" if plan.mechanism == "prio3" else "2"),
        latency_edges_ms=plan.latency_edges_ms,
        window_s=plan.window_s,
    )
