"""`alcove experiment simulate`: simulates an experiment on virtual devices before it starts."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, show_progress
from alcove.platform.cli.plans import AskedMechanism

if TYPE_CHECKING:
    from alcove.platform.simulation.experiment import ExperimentScenario
    from alcove.platform.simulation.experiment_summary import ExperimentSummary

__all__ = ["simulate_experiment_command"]

_DEFAULT_RUNS = 20


def simulate_experiment_command(
    *,
    devices: Annotated[int, typer.Option(help="Number of devices that take part, half of them in each arm.")] = 100_000,
    base_rate: Annotated[float, typer.Option(help="Accepted share of the control.")] = 0.8,
    effect: Annotated[float, typer.Option(help="By how much more the treatment is accepted, such as 0.02.")] = 0.0,
    cuped: Annotated[
        str,
        typer.Option(
            help="Edges of the share that devices accepted before, such as 0.5,0.8; simulated without it too."
        ),
    ] = "",
    correlation: Annotated[
        float, typer.Option(help="Correlation of a device's earlier share and one later answer.")
    ] = 0.6,
    unknown: Annotated[float, typer.Option(help="Part of the devices that gave too few answers before.")] = 0.0,
    feedback: Annotated[float, typer.Option(help="Part of the answers that the app notes feedback of.")] = 1.0,
    epsilon: Annotated[str, typer.Option(help="Privacy loss ε of one report, or of a window's sums.")] = "",
    mechanism: AskedMechanism = None,
    windows: Annotated[int, typer.Option(help="Days that are simulated, in each of which a device may report.")] = 1,
    active: Annotated[float, typer.Option(help="Part of the devices that report in one window.")] = 1.0,
    spent: Annotated[float, typer.Option(help="Privacy loss that devices have spent on other tasks before.")] = 0.0,
    lost_replies: Annotated[float, typer.Option(help="Part of randomized reports that count twice.")] = 0.0,
    runs: Annotated[int, typer.Option(help="Number of repetitions of the whole simulation.")] = _DEFAULT_RUNS,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers, a whole number.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate an experiment of the accepted share: how often the better arm wins, and whether CUPED pays.

    Virtual devices go through the real assignment, task, noise and statistics.
    """
    from alcove.platform.domain.errors import InvalidFieldError  # noqa: PLC0415 - others need no simulation
    from alcove.platform.simulation.experiment import ExperimentScenario, simulate_experiment  # noqa: PLC0415
    from alcove.platform.simulation.experiment_summary import expected_ratio, summarize_experiment  # noqa: PLC0415
    from alcove.platform.stats import Mechanism  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    is_shared = mechanism == "prio3"
    try:
        scenario = ExperimentScenario(
            devices=devices,
            rate=base_rate,
            effect=effect,
            pre_edges=_edges(cuped),
            correlation=correlation,
            unknown=unknown,
            feedback=feedback,
            epsilon=epsilon or ("1" if is_shared else "2"),
            windows=windows,
            active=active,
            spent=spent,
            lost_replies=lost_replies,
            mechanism=Mechanism.PRIO3 if is_shared else Mechanism.RANDOMIZED_RESPONSE,
            runs=runs,
            seed=seed,
        )
        ways = (scenario, scenario.without_earlier_share()) if scenario.pre_edges else (scenario,)
        with show_progress() as progress:
            task = progress.add_task("runs", total=runs * len(ways))
            found = [
                summarize_experiment(list(simulate_experiment(each, lambda _: progress.advance(task)))) for each in ways
            ]
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"])) or "experiment"
        raise typer.BadParameter(f"{name}: {fault['msg']}") from None
    except InvalidFieldError as error:
        raise typer.BadParameter(str(error)) from None
    expected = expected_ratio(scenario) if scenario.pre_edges else None
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        print_json(
            {
                "experiment": asdict(found[0]),
                "without_earlier_share": asdict(found[1]) if len(found) > 1 else None,
                "error_ratio": _ratio(found),
                "expected_error_ratio": expected,
            }
        )
        return
    _show(scenario, found, expected)


def _show(scenario: "ExperimentScenario", found: "list[ExperimentSummary]", expected: float | None) -> None:
    names = ("with the earlier share", "without") if len(found) > 1 else ("",)
    rows = [
        {
            "window": window + 1,
            "reports": name,
            "standard error": "-" if error is None else f"{100 * error:.3g} points",
            "the treatment had won": f"{summary.won_within[window]:.1%}",
        }
        for window in range(scenario.windows)
        for name, summary in zip(names, found, strict=True)
        for error in (summary.standard_errors[window],)
    ]
    print_rows(rows, as_json=False, empty="no window", title=f"{found[0].runs} runs")
    won, lost = found[0].won, found[0].lost
    say(f"the treatment won in {won.share:.1%} of {found[0].runs} runs ({won.low:.1%} to {won.high:.1%})")
    say(f"the control won in {lost.share:.1%} ({lost.low:.1%} to {lost.high:.1%})")
    if expected is not None:
        ratio = _ratio(found)
        seen = "not known" if ratio is None else f"{ratio:.2f}"
        pays = "it pays" if expected < 1.0 else "it does not pay"
        say(f"standard error after one window, relative to reports without the earlier share: {seen}")
        say(f"where all devices report, the closed form says {expected:.2f}: {pays}")


def _ratio(found: "list[ExperimentSummary]") -> float | None:
    errors = [summary.standard_errors[0] for summary in found]
    return errors[0] / errors[1] if len(errors) > 1 and errors[0] and errors[1] else None


def _edges(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise typer.BadParameter(f"write edges such as 0.5,0.8; got {text!r}", param_hint="--cuped") from None
