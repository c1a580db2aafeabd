"""`alcove experiment simulate-rating`: simulates an experiment by what people prefer or how they rate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.output import AsJson, print_json, say, show_progress
from alcove.platform.cli.plans import AskedMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.platform.simulation.calls import OutcomeRun
    from alcove.platform.simulation.own_metric import OwnMetricRun, OwnMetricScenario

__all__ = ["simulate_rating_command"]


def simulate_rating_command(
    *,
    preference: Annotated[
        float | None,
        typer.Option(help="Part of comparisons in which the treatment is preferred, ties half to each: 0.56."),
    ] = None,
    ties: Annotated[float, typer.Option(help="Part of comparisons in which people prefer neither.")] = 0.0,
    order_effect: Annotated[
        float, typer.Option(help="By how much more often than half what is shown first is preferred, such as 0.03.")
    ] = 0.0,
    good: Annotated[
        str,
        typer.Option(help="Part of the rating devices whose calls are good, of control and treatment: 0.80,0.82."),
    ] = "",
    calls: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Table of calls that both versions heard, with quality and frame times."
        ),
    ] = None,
    good_from: Annotated[
        float, typer.Option(help="Quality of what is heard from which a call of the table is rated good, dB.")
    ] = 12.0,
    frame_budget_ms: Annotated[float, typer.Option(help="Time for a frame of a call of the table, ms.")] = 16.0,
    slowdown: Annotated[
        float, typer.Option(help="How many times as long a frame takes on a device as in the table of calls.")
    ] = 1.0,
    answering: Annotated[float, typer.Option(help="Part of the devices that compare or rate in one window.")] = 0.3,
    devices: Annotated[int, typer.Option(help="Number of devices that take part, half of them in each arm.")] = 100_000,
    windows: Annotated[int, typer.Option(help="Days that are simulated, in each of which a device may report.")] = 1,
    active: Annotated[float, typer.Option(help="Part of the devices that report in one window.")] = 1.0,
    epsilon: Annotated[str, typer.Option(help="Privacy loss ε of one report, or of a window's sums.")] = "",
    mechanism: AskedMechanism = None,
    runs: Annotated[int, typer.Option(help="Number of repetitions of the whole simulation.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers, a whole number.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate an experiment by preferences (--preference), ratings (--good) or measured calls (--calls FILE).

    Such as of two noise suppressors. Virtual devices go through the real assignment, task, noise and statistics.
    """
    from alcove.platform.domain.errors import InvalidFieldError  # noqa: PLC0415 - others need no simulation
    from alcove.platform.simulation import own_metric  # noqa: PLC0415
    from alcove.platform.simulation.calls import read_calls, simulate_calls  # noqa: PLC0415
    from alcove.platform.stats import Mechanism  # noqa: PLC0415
    from alcove.registry.policy.metric import MetricKind  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    if (preference is not None) + bool(good) + (calls is not None) != 1:
        raise typer.BadParameter("give one of --preference and --good and --calls")
    is_shared = mechanism == "prio3"
    try:
        table = None if calls is None else read_calls(calls)
        rated = None if table is None else table.good_shares(good_from)
        if rated is not None:
            kind, parts = MetricKind.SHARE, own_metric.share_parts(*rated)
        elif preference is None:
            kind, parts = MetricKind.SHARE, own_metric.share_parts(*_pair(good))
        else:
            kind = MetricKind.PREFERENCE
            parts = own_metric.preference_parts(preference, ties=ties, order_effect=order_effect)
        scenario = own_metric.OwnMetricScenario(
            kind=kind,
            parts=parts,
            answering=answering,
            devices=devices,
            epsilon=epsilon or ("1" if is_shared else "2"),
            windows=windows,
            active=active,
            mechanism=Mechanism.PRIO3 if is_shared else Mechanism.RANDOMIZED_RESPONSE,
            runs=runs,
            seed=seed,
        )
        with show_progress() as progress:
            task = progress.add_task("runs", total=runs if table is None else 2 * runs)
            if table is None or rated is None:
                outcomes, found = [], list(own_metric.simulate_own_metric(scenario, lambda _: progress.advance(task)))
            else:
                in_time = table.in_time_shares(frame_budget_ms * 1000.0, slowdown)
                outcomes = list(simulate_calls(scenario, rated, in_time, lambda _: progress.advance(task)))
                found = [each.run for each in outcomes]
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise typer.BadParameter(f"{'.'.join(map(str, fault['loc'])) or 'experiment'}: {fault['msg']}") from None
    except (InvalidFieldError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        print_json([asdict(run) for run in outcomes or found])
        return
    if outcomes:
        _show_calls(scenario, outcomes)
        return
    _show(scenario, found)


def _show(scenario: "OwnMetricScenario", found: "Sequence[OwnMetricRun]") -> None:
    from alcove.platform.client.preferences import spell_preference  # noqa: PLC0415 - loads gRPC
    from alcove.platform.simulation.summary import share_part  # noqa: PLC0415 - loads statistics

    first = found[0]
    if first.difference is None:
        say("first run: noise hides the size of an arm")
    elif first.preference is not None:
        for line in spell_preference(first.preference, "control", "treatment"):
            say(f"first run: {line}")
    else:
        ends = " (any)" if first.low is None or first.high is None else f" ({first.low:+.1%} to {first.high:+.1%})"
        say(f"first run: the treatment's share is {first.difference:+.1%}{ends} more than the control's")
    for name, windows in (
        ("treatment", [run.won_window for run in found]),
        ("control", [run.lost_window for run in found]),
    ):
        won = share_part(sum(each is not None for each in windows), len(windows))
        say(f"the {name} won in {won.share:.1%} of {len(found)} runs ({won.low:.1%} to {won.high:.1%})")
    say(f"by {scenario.devices:,} devices in {scenario.windows} {'window' if scenario.windows == 1 else 'windows'}")


_OUTCOMES = {"call_good": "rated good", "frame_budget_kept": "without a missed frame budget"}


def _show_calls(scenario: "OwnMetricScenario", found: "Sequence[OutcomeRun]") -> None:
    for outcome, words in _OUTCOMES.items():
        runs = [each for each in found if each.outcome == outcome]
        control, treatment = runs[0].shares
        say(f"calls {words}: {treatment:.1%} with the treatment, {control:.1%} with the control in the table")
        first = runs[0].run
        if first.difference is None:
            say("  first run: noise hides the size of an arm")
        else:
            ends = "any" if first.low is None or first.high is None else f"{first.low:+.1%} to {first.high:+.1%}"
            better = {(True, False): "the treatment is better", (False, True): "the control is better"}.get(
                (first.won_window is not None, first.lost_window is not None), "neither is known to be better"
            )
            say(f"  first run: the treatment has {first.difference:+.1%} ({ends}) more of them: {better}")
        answering = scenario.answering if outcome == "call_good" else 1.0
        for name, windows in (
            ("treatment", [each.run.won_window for each in runs]),
            ("control", [each.run.lost_window for each in runs]),
        ):
            say(f"  the {name} won in {sum(each is not None for each in windows)} of {len(runs)} runs")
        say(f"  {_spell_calls(scenario, (control, treatment), answering)}")
    say(f"by {scenario.devices:,} devices in {scenario.windows} {'window' if scenario.windows == 1 else 'windows'}")


def _spell_calls(scenario: "OwnMetricScenario", shares: tuple[float, float], answering: float) -> str:
    from fractions import Fraction  # noqa: PLC0415

    from alcove.platform.simulation.calls import calls_needed  # noqa: PLC0415 - loads statistics

    if shares[0] == shares[1]:
        return "the two are alike in the table: there is nothing to find"
    devices = calls_needed(shares, answering, scenario.mechanism, Fraction(scenario.epsilon))
    if devices is None:
        return "no number of calls finds this difference"
    rated = "" if answering == 1.0 else f", {round(devices * answering):,} of them rated"
    return f"{devices:,} calls, one a device{rated}, find this difference in 80 % of experiments"


def _pair(text: str) -> tuple[float, float]:
    try:
        control, treatment = map(float, text.split(","))
    except ValueError:
        raise typer.BadParameter(f"write two parts such as 0.80,0.82; got {text!r}", param_hint="--good") from None
    return control, treatment
