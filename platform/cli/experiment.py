"""`alcove experiment`: compare versions, and read what private reports say."""

from contextlib import suppress
from typing import Annotated, Final, Literal, get_args

import typer
from alcove.platform.cli.connection import DEFAULT_SERVER, Server, TlsRoot, TokenFile, connect
from alcove.platform.cli.experiment_results import cuped_sentence, plan_sentence, sentence, show_results
from alcove.platform.cli.output import AsJson, percent, print_json, print_rows, say, when
from alcove.platform.cli.plans import duration_s, guardrail_of
from alcove.platform.cli.shares import segment_of, share_permyriad
from alcove.platform.client import Arm, Correction, DeadlineError, Experiment, ExperimentPlan, OutcomeName, Primary
from pydantic import TypeAdapter, ValidationError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Compare versions, decided by statistics over private reports.")

ExperimentId = Annotated[str, typer.Argument(help="Id of the experiment (ex-…).")]
Etag = Annotated[str, typer.Option(help="The experiment's etag as you know it; refused if it has changed since.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Check and plan everything and keep nothing.")]
Metric = Literal["accepted", "latency_mean", "latency_quantile", "ratio"]
PrimaryOption = Annotated[
    Metric | None,
    typer.Option(
        "--primary",
        help="What decides: the accepted share (the default), the answers' latency, or a ratio of outcomes.",
    ),
]
Numerator = Annotated[
    str | None,
    typer.Option(help="Outcomes that a ratio counts, such as accepted; of refused, accepted, error, fallback."),
]
Denominator = Annotated[str | None, typer.Option(help="Outcomes that they are a part of, such as accepted,refused.")]
LessIsBetter = Annotated[bool, typer.Option("--less-is-better", help="The lower ratio wins.")]
CorrectionOption = Annotated[
    Correction | None,
    typer.Option(help="How pairs of arms share the error: bonferroni (the default), or holm, which finds more."),
]
Looks = Annotated[
    int | None,
    typer.Option(help="How many planned looks decide, 2 to 20; else any number of them, which costs more devices."),
]
Horizon = Annotated[
    int | None, typer.Option(help="Reports at which the last look is due; else as many as --mde needs.")
]
DenominatorShare = Annotated[
    float | None, typer.Option(help="Expected part of all reports that is in a ratio's denominator, to plan it.")
]
Quantile = Annotated[float, typer.Option(help="Which quantile latency_quantile means.")]
Guards = Annotated[
    list[str] | None,
    typer.Option(
        "--guard",
        help="What the winner must not make worse, METRIC:MARGIN: crash_fallback:0.5%, error:1%, refused:2%, or "
        "latency:20ms[:QUANTILE]. Repeatable.",
    ),
]
Mde = Annotated[
    float | None, typer.Option(help="Smallest difference to find: 0.02 is 2 % of the devices, or ms of latency.")
]
Devices = Annotated[int | None, typer.Option(help="Devices that will take part, in all arms together.")]
BaseRate = Annotated[float | None, typer.Option(help="Expected accepted share; else a half, the worst case.")]
Arms = Annotated[
    list[str],
    typer.Option(
        "--arm", metavar="NAME=VERSION:SHARE", help="An arm, e.g. control=1.0.0:50%; the first is the control."
    ),
]
Cuped = Annotated[
    str | None,
    typer.Option(
        metavar="EDGES",
        help="Correct the accepted share by what each device accepted before (CUPED): edges of that share's bins, such "
        "as 0.5,0.8; '' for none. Each bin multiplies a report's cells: under randomised response that costs more "
        "precision than it brings. Devices with an SDK that does not know it keep their last policy.",
    ),
]
MEDIAN: Final = 0.5
_OUTCOMES: Final = TypeAdapter(tuple[OutcomeName, ...])


@app.command("create")
def create(
    *,
    app_name: Annotated[str, typer.Option("--app", help="The app.")],
    feature: Annotated[str, typer.Option(help="The feature.")],
    arm: Arms,
    epsilon: Annotated[str, typer.Option(help="Privacy loss of one report, a decimal number.")] = "2",
    latency_edge_ms: Annotated[
        list[float] | None, typer.Option(help="Upper edge of a latency bin; repeatable, rising.")
    ] = None,
    window_s: Annotated[int, typer.Option(help="Seconds in which a device reports once; 0: a day.")] = 0,
    minimum_cohort: Annotated[int, typer.Option(help="Fewest devices per arm for a winner; 0: the server's.")] = 0,
    primary: PrimaryOption = None,
    quantile: Quantile = MEDIAN,
    numerator: Numerator = None,
    denominator: Denominator = None,
    less_is_better: LessIsBetter = False,
    correction: CorrectionOption = None,
    looks: Looks = None,
    horizon: Horizon = None,
    denominator_share: DenominatorShare = None,
    guard: Guards = None,
    mde: Mde = None,
    devices: Devices = None,
    base_rate: BaseRate = None,
    cuped: Cuped = None,
    validate_only: ValidateOnly = False,
    audience: Annotated[
        str, typer.Option(help="Who may take part, such as 'os in (ios) and app_version >= 2.1'; else every device.")
    ] = "",
    segment: Annotated[
        str, typer.Option(metavar="LAYER:FIRST-END", help="Part of a layer, e.g. search:0-2500 for its first quarter.")
    ] = "",
    start_now: Annotated[bool, typer.Option("--start", help="Start it at once.")] = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Create an experiment, and say how many devices and days it needs.

    Example: --arm old=1.0.0:50% --arm new=2.0.0:50% --mde 0.02 --devices 500000 --guard crash_fallback:0.5%
    """
    arms = [_arm(text) for text in arm]
    deciding = _primary(primary, quantile, numerator, denominator, less_is_better=less_is_better)
    plan = _plan(
        mde=mde,
        base_rate=base_rate,
        expected_devices=devices,
        looks=looks,
        horizon_reports=horizon,
        denominator_share=denominator_share,
    )
    with connect(server, token_file, tls_root) as client:
        experiment = client.create_experiment(
            app_name,
            feature,
            arms,
            epsilon=epsilon,
            latency_edges_ms=latency_edge_ms or (),
            window_s=window_s,
            minimum_cohort=minimum_cohort,
            audience=audience,
            segment=segment_of(segment) if segment else None,
            primary=deciding,
            correction=correction or "bonferroni",
            guardrails=[guardrail_of(text) for text in guard or ()],
            plan=plan,
            pre_edges=_edges(cuped or ""),
            validate_only=validate_only,
        )
        if start_now and not validate_only:
            experiment = client.start_experiment(experiment.experiment_id)
    _show([experiment], as_json=as_json)
    if not as_json and mde:
        say(plan_sentence(experiment))
    if not as_json and experiment.pre_edges:
        say(cuped_sentence(experiment))


@app.command("update")
def update(
    *,
    experiment_id: ExperimentId,
    arm: Annotated[
        list[str] | None, typer.Option("--arm", metavar="NAME=VERSION:SHARE", help="All arms anew; as in create.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="Privacy loss of one report, a decimal number.")] = None,
    latency_edge_ms: Annotated[
        list[float] | None, typer.Option(help="Upper edge of a latency bin; repeatable, rising.")
    ] = None,
    window_s: Annotated[int | None, typer.Option(help="Seconds in which a device reports once.")] = None,
    minimum_cohort: Annotated[int | None, typer.Option(help="Fewest devices per arm for a winner.")] = None,
    primary: PrimaryOption = None,
    quantile: Quantile = MEDIAN,
    numerator: Numerator = None,
    denominator: Denominator = None,
    less_is_better: LessIsBetter = False,
    correction: CorrectionOption = None,
    looks: Looks = None,
    horizon: Horizon = None,
    denominator_share: DenominatorShare = None,
    guard: Guards = None,
    mde: Mde = None,
    devices: Devices = None,
    base_rate: BaseRate = None,
    cuped: Cuped = None,
    audience: Annotated[str | None, typer.Option(help="Who may take part; '' for every device.")] = None,
    segment: Annotated[
        str | None, typer.Option(metavar="LAYER:FIRST-END", help="Part of a layer; '' for none.")
    ] = None,
    etag: Etag = "",
    validate_only: ValidateOnly = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Change a draft; what it needs is computed anew."""
    given = {
        "arms": arm,
        "epsilon": epsilon,
        "latency_edges_ms": latency_edge_ms,
        "window_s": window_s,
        "minimum_cohort": minimum_cohort,
        "primary": primary,
        "correction": correction,
        "guardrails": guard,
        "plan.mde": mde,
        "plan.expected_devices": devices,
        "plan.base_rate": base_rate,
        "plan.looks": looks,
        "plan.horizon_reports": horizon,
        "plan.denominator_share": denominator_share,
        "audience": audience,
        "segment": segment,
        "pre_edges": cuped,
    }
    fields = [name for name, value in given.items() if value is not None]
    deciding = _primary(primary, quantile, numerator, denominator, less_is_better=less_is_better)
    plan = _plan(
        mde=mde,
        base_rate=base_rate,
        expected_devices=devices,
        looks=looks,
        horizon_reports=horizon,
        denominator_share=denominator_share,
    )
    if not fields:
        raise typer.BadParameter("nothing to change: give an option")
    with connect(server, token_file, tls_root) as client:
        experiment = client.update_experiment(
            experiment_id,
            fields=fields,
            arms=[_arm(text) for text in arm or ()],
            epsilon=epsilon or "",
            latency_edges_ms=latency_edge_ms or (),
            window_s=window_s or 0,
            minimum_cohort=minimum_cohort or 0,
            primary=deciding,
            correction=correction or "bonferroni",
            guardrails=[guardrail_of(text) for text in guard or ()],
            plan=plan,
            pre_edges=_edges(cuped or ""),
            audience=audience or "",
            segment=segment_of(segment) if segment else None,
            etag=etag,
            validate_only=validate_only,
        )
    _show([experiment], as_json=as_json)
    if not as_json and experiment.plan.mde:
        say(plan_sentence(experiment))
    if not as_json and experiment.pre_edges:
        say(cuped_sentence(experiment))


@app.command("watch")
def watch(
    *,
    experiment_id: ExperimentId,
    for_time: Annotated[str, typer.Option("--for", help="Stop after this long, such as 8h.")] = "1d",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Print the experiment now and at each change, until it has stopped; with --json a line of JSON each time."""
    with connect(server, token_file, tls_root) as client, suppress(DeadlineError):
        for experiment in client.watch_experiment(experiment_id, timeout_s=duration_s(for_time)):
            line = f"{experiment.experiment_id} {experiment.state} (etag {experiment.etag})"
            say(experiment.model_dump_json() if as_json else line)


@app.command("start")
def start(
    *,
    experiment_id: ExperimentId,
    etag: Etag = "",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Put the arms on devices and collect reports."""
    with connect(server, token_file, tls_root) as client:
        _show([client.start_experiment(experiment_id, etag=etag)], as_json=as_json)


@app.command("stop")
def stop(
    *,
    experiment_id: ExperimentId,
    etag: Etag = "",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Take the arms from devices and keep the decision."""
    with connect(server, token_file, tls_root) as client:
        experiment = client.stop_experiment(experiment_id, etag=etag)
    _show([experiment], as_json=as_json)
    if not as_json and experiment.decision is not None:
        say(sentence(experiment.arms, experiment.decision))


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
        show_results(report)


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


def _edges(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(edge) for edge in text.split(",")) if text else ()
    except ValueError:
        raise typer.BadParameter(f"write edges such as 0.5,0.8; got {text!r}", param_hint="--cuped") from None


def _plan(**given: float | None) -> ExperimentPlan:
    return ExperimentPlan.model_validate({name: value for name, value in given.items() if value is not None})


def _primary(
    kind: Metric | None, quantile: float, numerator: str | None, denominator: str | None, *, less_is_better: bool
) -> Primary:
    if kind != "ratio" and (numerator or denominator or less_is_better):
        raise typer.BadParameter("outcomes and --less-is-better belong to --primary ratio", param_hint="--primary")
    return Primary(
        kind=kind or "accepted",
        quantile=quantile if kind == "latency_quantile" else 0.0,
        numerator=_outcomes(numerator, "--numerator"),
        denominator=_outcomes(denominator, "--denominator"),
        less_is_better=less_is_better,
    )


def _outcomes(text: str | None, option: str) -> tuple[OutcomeName, ...]:
    try:
        return _OUTCOMES.validate_python([each.strip() for each in text.split(",")] if text else [])
    except ValidationError:
        known = ", ".join(get_args(OutcomeName))
        raise typer.BadParameter(f"write some of {known}, with commas; got {text!r}", param_hint=option) from None
