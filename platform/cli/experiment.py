"""`alcove experiment`: compare versions, and read what private reports say."""

from typing import Annotated

import typer
from alcove.platform.cli.connection import DEFAULT_SERVER, Server, TlsRoot, TokenFile, connect
from alcove.platform.cli.output import AsJson, percent, print_json, print_rows, print_table, when
from alcove.platform.cli.shares import share_permyriad
from alcove.platform.client import Arm, Decision, Estimate, Experiment, ExperimentReport

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Compare versions, decided by statistics over private reports.")

ExperimentId = Annotated[str, typer.Argument(help="Id of the experiment (ex-…).")]


@app.command("create")
def create(
    *,
    app_name: Annotated[str, typer.Option("--app", help="The app.")],
    feature: Annotated[str, typer.Option(help="The feature.")],
    arm: Annotated[
        list[str],
        typer.Option(metavar="NAME=VERSION:SHARE", help="An arm, e.g. control=1.0.0:50%; the first is the control."),
    ],
    epsilon: Annotated[str, typer.Option(help="Privacy loss of one report, a decimal number.")] = "2",
    latency_edge_ms: Annotated[
        list[float] | None, typer.Option(help="Upper edge of a latency bin; repeatable, rising.")
    ] = None,
    window_s: Annotated[int, typer.Option(help="Seconds in which a device reports once; 0: a day.")] = 0,
    minimum_cohort: Annotated[int, typer.Option(help="Fewest devices per arm for a winner; 0: the server's.")] = 0,
    start_now: Annotated[bool, typer.Option("--start", help="Start it at once.")] = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Create an experiment."""
    arms = [_arm(text) for text in arm]
    with connect(server, token_file, tls_root) as client:
        experiment = client.create_experiment(
            app_name,
            feature,
            arms,
            epsilon=epsilon,
            latency_edges_ms=latency_edge_ms or (),
            window_s=window_s,
            minimum_cohort=minimum_cohort,
        )
        if start_now:
            experiment = client.start_experiment(experiment.experiment_id)
    _show([experiment], as_json=as_json)


@app.command("start")
def start(
    *,
    experiment_id: ExperimentId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Put the arms on devices and collect reports."""
    with connect(server, token_file, tls_root) as client:
        _show([client.start_experiment(experiment_id)], as_json=as_json)


@app.command("stop")
def stop(
    *,
    experiment_id: ExperimentId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Take the arms from devices and keep the decision."""
    with connect(server, token_file, tls_root) as client:
        experiment = client.stop_experiment(experiment_id)
    _show([experiment], as_json=as_json)
    if not as_json and experiment.decision is not None:
        typer.echo(_sentence(experiment.arms, experiment.decision))


@app.command("list")
def list_command(
    *,
    app_name: Annotated[str, typer.Option("--app", help="Only of this app.")] = "",
    feature: Annotated[str, typer.Option(help="Only of this feature.")] = "",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """List experiments."""
    with connect(server, token_file, tls_root) as client:
        _show(client.experiments(app_name, feature), as_json=as_json)


@app.command("results")
def results(
    *,
    experiment_id: ExperimentId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Show every arm with its intervals, and the decision."""
    with connect(server, token_file, tls_root) as client:
        report = client.results(experiment_id)
    if as_json:
        print_json(report)
    else:
        _show_results(report)


def _arm(text: str) -> Arm:
    name, equals, rest = text.partition("=")
    version, colon, share = rest.partition(":")
    if not (name and equals and version and colon and share):
        raise typer.BadParameter(
            f"write NAME=VERSION:SHARE, such as control=1.0.0:50%; got {text!r}", param_hint="--arm"
        )
    return Arm(name=name, version=version, share_permyriad=share_permyriad(share))


def _show(experiments: list[Experiment], *, as_json: bool) -> None:
    if as_json:
        print_json(experiments)
        return
    rows = [
        {
            "experiment": experiment.experiment_id,
            "app": experiment.app,
            "feature": experiment.feature,
            "arms": ", ".join(f"{arm.name} {arm.version} ({percent(arm.share_permyriad)})" for arm in experiment.arms),
            "state": experiment.state,
            "ε": experiment.epsilon,
            "started": when(experiment.started_at_s),
        }
        for experiment in experiments
    ]
    print_rows(rows, as_json=False, empty="no experiment yet: alcove experiment create")


def _show_results(report: ExperimentReport) -> None:
    experiment, found = report.experiment, report.results
    title = f"{experiment.experiment_id}: {found.report_count} reports, ε = {experiment.epsilon} each"
    rows = [
        [
            arm.name,
            arm.version,
            f"{arm.devices:.0f}",
            _percentage(arm.share),
            _percentage(arm.accuracy),
            _milliseconds(arm.latency_ms),
        ]
        for arm in found.arms
    ]
    print_table(["arm", "version", "devices", "share", "accepted", "latency"], rows, title=title)
    for difference in found.differences:
        typer.echo(f"{found.arms[difference.arm].name} - {found.arms[0].name}: {_percentage(difference.accuracy)}")
    typer.echo(_sentence(experiment.arms, found.decision))


def _sentence(arms: tuple[Arm, ...], decision: Decision) -> str:
    if decision.winner is None:
        return f"inconclusive, hold: {decision.reason}"
    winner = arms[decision.winner]
    return f"winner: {winner.name} ({winner.version}): {decision.reason}"


def _percentage(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    return f"{estimate.value:.1%} {_interval(estimate, 100, 1)}"


def _milliseconds(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    return f"{estimate.value:.3g} ms {_interval(estimate, 1, 3)}"


def _interval(estimate: Estimate, factor: float, digits: int) -> str:
    low, high = ("…" if end is None else f"{end * factor:.{digits}f}" for end in (estimate.low, estimate.high))
    return f"[{low}, {high}]"
