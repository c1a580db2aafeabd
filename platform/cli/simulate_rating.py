"""`alcove experiment simulate-rating`: simulates an experiment by what people prefer or how they rate."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.output import AsJson, print_json, say, show_progress
from alcove.platform.cli.plans import AskedMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Simulate an experiment by preferences (--preference) or by ratings (--good), such as of two noise suppressors.

    Virtual devices go through the real assignment, task, noise and statistics.
    """
    from alcove.platform.domain.errors import InvalidFieldError  # noqa: PLC0415 - others need no simulation
    from alcove.platform.simulation import own_metric  # noqa: PLC0415
    from alcove.platform.stats import Mechanism  # noqa: PLC0415
    from alcove.registry.policy.metric import MetricKind  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    if (preference is None) == (not good):
        raise typer.BadParameter("give one of --preference and --good")
    is_shared = mechanism == "prio3"
    try:
        if preference is None:
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
            task = progress.add_task("runs", total=runs)
            found = list(own_metric.simulate_own_metric(scenario, lambda _: progress.advance(task)))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise typer.BadParameter(f"{'.'.join(map(str, fault['loc'])) or 'experiment'}: {fault['msg']}") from None
    except (InvalidFieldError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        print_json([asdict(run) for run in found])
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


def _pair(text: str) -> tuple[float, float]:
    try:
        control, treatment = map(float, text.split(","))
    except ValueError:
        raise typer.BadParameter(f"write two parts such as 0.80,0.82; got {text!r}", param_hint="--good") from None
    return control, treatment
