"""`alcove experiment`: compares versions, and shows what private reports say."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from alcove.platform.cli import drafts
from alcove.platform.cli.allocation import AllocationKind, MaxStep, MinShare, bandit_of
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.dimensions import DIMENSION_HELP, one_dimension
from alcove.platform.cli.experiment_results import cuped_sentence, plan_sentence, sentence, show_results
from alcove.platform.cli.few_reports import results_json
from alcove.platform.cli.forecasts import show_experiment_forecast
from alcove.platform.cli.metric_units import unit_of
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import percent, print_json, print_rows, say, when
from alcove.platform.cli.override import find_override, override_json, override_lines
from alcove.platform.cli.own_guardrails import OWN_GUARD_HELP, own_guardrails_of, without_own
from alcove.platform.cli.parameter_values import SetInArm, arms_with_values, runtime_line, values_text, version_text
from alcove.platform.cli.plans import AskedMechanism, duration_s, guardrail_of, mechanism_of
from alcove.platform.cli.primary_metric import PRIMARY_HELP, QUESTION_HELP, own_questions_of, primary_of
from alcove.platform.cli.secondary_metrics import SECONDARY_HELP, secondary_metric
from alcove.platform.cli.shares import parts_of, segment_of, share_basis_points
from alcove.platform.cli.simulate_experiment import simulate_experiment_command
from alcove.platform.cli.simulate_rating import simulate_rating_command
from alcove.platform.domain.states import ExperimentState

if TYPE_CHECKING:
    from alcove.platform.client import Arm, Experiment

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Compare versions, decided by statistics over private reports.")

ExperimentId = Annotated[str, typer.Argument(help="Id of the experiment (ex-…).")]
Etag = Annotated[str, typer.Option(help="The experiment's etag as you know it; refused if it has changed since.")]
ValidateOnly = Annotated[
    bool, typer.Option("--validate-only", help="Check the request and compute the plan, and store nothing.")
]
Arms = Annotated[
    list[str],
    typer.Option(
        "--arm", metavar="NAME=VERSION:SHARE", help="An arm, e.g. control=1.0.0:50%; the first is the control."
    ),
]
MEDIAN: Final = 0.5


@dataclass(frozen=True)
class DesignOptions:
    """Options that say what decides an experiment and how much it needs, as Typer reads them."""

    primary: Annotated[
        str | None,
        typer.Option("--primary", metavar="METRIC", help=PRIMARY_HELP),
    ] = None
    quantile: Annotated[float, typer.Option(help="Quantile that latency_quantile compares, in (0, 1).")] = MEDIAN
    slower_than: Annotated[
        float | None,
        typer.Option(metavar="MS", help="Latency edge of latency_share: answers that take as long or longer are slow."),
    ] = None
    numerator: Annotated[
        str | None,
        typer.Option(help="Outcomes that a ratio counts, such as accepted; of refused, accepted, error, fallback."),
    ] = None
    denominator: Annotated[
        str | None, typer.Option(help="Outcomes that they are a part of, such as accepted,refused.")
    ] = None
    less_is_better: Annotated[bool, typer.Option("--less-is-better", help="Let the arm with the lower ratio win.")] = (
        False
    )
    interim_analyses: Annotated[
        int | None,
        typer.Option(
            help="Number of analyses that decide, 1 (a single one, at the horizon) to 20; else any number, which costs "
            "more devices."
        ),
    ] = None
    horizon: Annotated[
        int | None, typer.Option(help="Reports at which the last analysis is due; else as many as --mde needs.")
    ] = None
    denominator_share: Annotated[
        float | None, typer.Option(help="Expected part of all reports that is in a ratio's denominator, to plan it.")
    ] = None
    guard: Annotated[
        list[str] | None,
        typer.Option(
            "--guard",
            help="What the winner must not make worse, METRIC:MARGIN: crash_fallback:0.5%, error:1%, refused:2%, or "
            "latency:20ms[:QUANTILE] (bins no wider than the margin), or latency>160ms:1%, the share of answers that "
            f"take as long as a latency edge or longer; {OWN_GUARD_HELP}. Repeatable.",
        ),
    ] = None
    mde: Annotated[
        float | None,
        typer.Option(
            help="Smallest difference to find: 0.02 is 2 % of the devices, or ms of latency, or in the unit of a "
            "metric of your own."
        ),
    ] = None
    devices: Annotated[
        int | None, typer.Option(help="Number of devices that will take part, in all arms together.")
    ] = None
    base_rate: Annotated[
        float | None, typer.Option(help="Expected accepted share, in (0, 1); by default 0.5, the worst case.")
    ] = None
    base_distribution: Annotated[
        str | None,
        typer.Option(
            metavar="PARTS",
            help="For a metric of your own: expected part of the devices in each of its bins, such as 57%,24%,19%, "
            "devices that record nothing first; by default the worst case, half at either end. '' for none.",
        ),
    ] = None
    cuped: Annotated[
        str | None,
        typer.Option(
            metavar="EDGES",
            help="Correct the accepted share by what each device accepted before (CUPED): edges of that share's bins, "
            "such as 0.5,0.8; '' for none. Each bin multiplies a report's cells: under randomized response that costs "
            "more precision than it brings. Devices with an SDK that does not know it keep their last policy.",
        ),
    ] = None
    mechanism: AskedMechanism = None
    secondary: Annotated[list[str] | None, typer.Option("--secondary", help=SECONDARY_HELP)] = None
    question: Annotated[list[str] | None, typer.Option("--question", help=QUESTION_HELP)] = None
    allocation: AllocationKind = None
    min_share: MinShare = None
    max_step: MaxStep = None
    dimension: Annotated[
        list[str] | None, typer.Option("--dimension", metavar="ATTRIBUTE=VALUES", help=DIMENSION_HELP)
    ] = None

    def as_options(self) -> dict[str, object]:
        """Return the values by the fields of an experiment; those that are None were not given."""
        return {
            "primary": self.primary,
            "guardrails": self.guard,
            "own_guardrails": self.guard,
            "plan.mde": self.mde,
            "plan.expected_devices": self.devices,
            "plan.base_rate": self.base_rate,
            "plan.interim_analyses": self.interim_analyses,
            "plan.horizon_reports": self.horizon,
            "plan.denominator_share": self.denominator_share,
            "plan.base_distribution": None if self.base_distribution is None else parts_of(self.base_distribution),
            "pre_edges": self.cuped,
            "mechanism": self.mechanism,
            "secondary": self.secondary,
            "own_questions": self.question,
            "bandit": self.allocation,
            "dimension": self.dimension,
        }

    def parse(self) -> dict[str, Any]:
        """Return the client's arguments.

        Raises:
            typer.BadParameter: an option reads otherwise.
        """
        from alcove.platform.client import ExperimentPlan  # noqa: PLC0415 - loads gRPC

        plan = {
            name.removeprefix("plan."): value for name, value in self.as_options().items() if name.startswith("plan.")
        }
        return {
            "primary": primary_of(
                self.primary,
                self.quantile,
                self.numerator,
                self.denominator,
                less_is_better=self.less_is_better,
                slower_than=self.slower_than,
            ),
            "plan": ExperimentPlan.model_validate({name: value for name, value in plan.items() if value is not None}),
            "guardrails": [guardrail_of(text) for text in without_own(self.guard or ())],
            "own_guardrails": own_guardrails_of(self.guard or ()),
            "pre_edges": _edges(self.cuped or ""),
            "mechanism": mechanism_of(self.mechanism),
            "secondary": [secondary_metric(text) for text in self.secondary or () if text],
            "own_questions": own_questions_of(self.question or ()),
            "bandit": bandit_of(self.allocation, self.min_share, self.max_step),
            "dimension": one_dimension(self.dimension) or "",
        }


@app.command("create")
def create(
    *,
    app_name: Annotated[str, typer.Option("--app", help="Name of the app.")],
    feature: Annotated[str, typer.Option(help="Name of the feature, such as language_id.")],
    arm: Arms,
    values: SetInArm = None,
    epsilon: Annotated[
        str,
        typer.Option(
            help="Privacy loss ε of one report (prio3: of a window's sums), from 0.01 to 2; by default 2 (prio3: 1)."
            " Up to 6 where the app allows a report above 2 a day."
        ),
    ] = "",
    latency_edge_ms: Annotated[
        list[float] | None, typer.Option(help="Upper edge of a latency bin in ms; repeatable, rising.")
    ] = None,
    window_s: Annotated[
        int, typer.Option(help="Length of a window in seconds; a device reports once in each; 0: a day.")
    ] = 0,
    minimum_cohort: Annotated[
        int, typer.Option(help="Least number of devices in each arm before one can win; 0: the server's default.")
    ] = 0,
    design: DesignOptions,
    validate_only: ValidateOnly = False,
    audience: Annotated[
        str, typer.Option(help="Condition on the devices that take part, such as 'os in (ios) and app_version >= 2.1'.")
    ] = "",
    segment: Annotated[
        str, typer.Option(metavar="LAYER:FIRST-END", help="Part of a layer, e.g. search:0-2500 for its first quarter.")
    ] = "",
    start_now: Annotated[
        bool, typer.Option("--start", help="Start the experiment at once instead of leaving a draft.")
    ] = False,
    call: CallOptions,
) -> None:
    """Create an experiment, and say how many devices and days it needs."""
    arms = arms_with_values([_arm(text) for text in arm], values or ())
    designed = design.parse()
    with call.connect() as client:
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
            **designed,
            validate_only=validate_only,
        )
        if start_now and not validate_only:
            experiment = client.start_experiment(experiment.experiment_id)
    _show([experiment], as_json=call.as_json)
    if not call.as_json and any(each.values for each in experiment.arms):
        say(runtime_line())
    if not call.as_json and design.mde:
        say(plan_sentence(experiment))
    if not call.as_json and experiment.pre_edges:
        say(cuped_sentence(experiment))
    if not call.as_json and not validate_only:
        say(_next_line(experiment))


@app.command("plan")
def plan_command(
    *,
    share: Annotated[
        list[str] | None,
        typer.Option(
            help="Share of the devices in an arm, such as 50%; the control first. Repeatable; else two halves."
        ),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option(
            help="Privacy loss ε of one report (prio3: of a window's sums), from 0.01 to 2; by default 2 (prio3: 1)."
        ),
    ] = "",
    latency_edge_ms: Annotated[
        list[float] | None, typer.Option(help="Upper edge of a latency bin in ms; repeatable, rising.")
    ] = None,
    window_s: Annotated[
        int, typer.Option(help="Length of a window in seconds; a device reports once in each; 0: a day.")
    ] = 0,
    minimum_cohort: Annotated[
        int, typer.Option(help="Least number of devices in each arm before one can win; 0: the server's default.")
    ] = 0,
    feature: Annotated[str, typer.Option(help="Feature whose metrics of your own are named.")] = "",
    design: DesignOptions,
    call: CallOptions,
) -> None:
    """Say what an experiment would find, when, and with how many devices; nothing is created.

    An arm wins where it beats every other one; the plan is for the treatment with the smallest share. Prints the
    devices that --mde needs, the smallest difference that --devices find by each day, the chance to find larger and
    smaller ones, and other plans that need fewer.
    """
    if not (design.mde or design.devices):
        raise typer.BadParameter("give --mde, --devices, or both")
    designed = design.parse()
    secondary = designed.pop("secondary", None)
    if secondary:
        raise typer.BadParameter("secondary metrics decide nothing, and are not planned")
    if designed.pop("bandit", None):
        raise typer.BadParameter("a bandit promises no power, and is not planned; `alcove experiment create` takes it")
    with call.connect() as client:
        forecast = client.plan_experiment(
            [share_basis_points(each) for each in share or ("50%", "50%")],
            epsilon=epsilon,
            latency_edges_ms=latency_edge_ms or (),
            window_s=window_s,
            minimum_cohort=minimum_cohort,
            feature=feature,
            **designed,
        )
    if call.as_json:
        print_json(forecast)
        return
    unit = unit_of(designed["primary"])
    show_experiment_forecast(forecast, devices=design.devices or 0, mde=design.mde or 0.0, unit=unit)


@app.command("update")
def update(
    *,
    experiment_id: ExperimentId,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm", metavar="NAME=VERSION:SHARE", help="All arms of the experiment again, each as in create."
        ),
    ] = None,
    values: SetInArm = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Privacy loss ε of one report (prio3: of a window's sums), from 0.01 to 2; up to 6 where the"
            " app allows a report above 2 a day."
        ),
    ] = None,
    latency_edge_ms: Annotated[
        list[float] | None, typer.Option(help="Upper edge of a latency bin in ms; repeatable, rising.")
    ] = None,
    window_s: Annotated[
        int | None, typer.Option(help="Length of a window in seconds; a device reports once in each.")
    ] = None,
    minimum_cohort: Annotated[
        int | None, typer.Option(help="Least number of devices in each arm before one can win.")
    ] = None,
    design: DesignOptions,
    audience: Annotated[
        str | None, typer.Option(help="Condition on the devices that take part; '' is every device.")
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER:FIRST-END", help="Part of a layer, e.g. search:0-2500; '' takes it out of its layer."
        ),
    ] = None,
    etag: Etag = "",
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Change a draft; what it needs is computed again."""
    given = {
        "arms": arm,
        "epsilon": epsilon,
        "latency_edges_ms": latency_edge_ms,
        "window_s": window_s,
        "minimum_cohort": minimum_cohort,
        "audience": audience,
        "segment": segment,
        **design.as_options(),
    }
    fields = [name for name, value in given.items() if value is not None]
    designed = design.parse()
    arms = arms_with_values([_arm(text) for text in arm or ()], values or ())
    if not fields:
        raise typer.BadParameter("nothing to change: give an option")
    with call.connect() as client:
        experiment = client.update_experiment(
            experiment_id,
            fields=fields,
            arms=arms,
            epsilon=epsilon or "",
            latency_edges_ms=latency_edge_ms or (),
            window_s=window_s or 0,
            minimum_cohort=minimum_cohort or 0,
            **designed,
            audience=audience or "",
            segment=segment_of(segment) if segment else None,
            etag=etag,
            validate_only=validate_only,
        )
    _show([experiment], as_json=call.as_json)
    if not call.as_json and experiment.plan.mde:
        say(plan_sentence(experiment))
    if not call.as_json and experiment.pre_edges:
        say(cuped_sentence(experiment))


app.command("simulate")(simulate_experiment_command)
app.command("simulate-rating")(simulate_rating_command)


@app.command("watch")
def watch(
    *,
    experiment_id: ExperimentId,
    for_time: Annotated[str, typer.Option("--for", help="Time after which to stop, such as 8h or 30m.")] = "1d",
    call: CallOptions,
) -> None:
    """Print the experiment now and at each change, until it has stopped; with --json a line of JSON each time."""
    from alcove.platform.client import DeadlineError  # noqa: PLC0415 - loads gRPC

    with call.connect() as client, suppress(DeadlineError):
        for experiment in client.watch_experiment(experiment_id, timeout_s=duration_s(for_time)):
            line = f"{experiment.experiment_id} {experiment.state} (etag {experiment.etag})"
            say(experiment.model_dump_json() if call.as_json else line)


@app.command("start")
def start(*, experiment_id: ExperimentId, etag: Etag = "", call: CallOptions) -> None:
    """Put the arms on devices and collect reports."""
    with call.connect() as client:
        experiment = client.start_experiment(experiment_id, etag=etag)
    _show([experiment], as_json=call.as_json)
    if not call.as_json:
        say(_next_line(experiment))


@app.command("stop")
def stop(
    *,
    experiment_id: ExperimentId,
    reason: Annotated[str, typer.Option(help="Reason, for the audit log.")] = "",
    etag: Etag = "",
    call: CallOptions,
) -> None:
    """Take the arms from devices and keep the decision."""
    with call.connect() as client:
        experiment = client.stop_experiment(experiment_id, reason=reason, etag=etag)
    _show([experiment], as_json=call.as_json)
    if not call.as_json and experiment.decision is not None:
        say(sentence(experiment.arms, experiment.decision))


@app.command("list")
def list_command(
    *,
    app_name: Annotated[str, typer.Option("--app", help="List only what belongs to this app.")] = "",
    feature: Annotated[str, typer.Option(help="List only what belongs to this feature.")] = "",
    state: Annotated[
        list[ExperimentState] | None, typer.Option(help="List only experiments in this state; repeatable.")
    ] = None,
    text: Annotated[str, typer.Option(help="List only where each word occurs in id, app, feature or arms.")] = "",
    call: CallOptions,
) -> None:
    """List experiments, oldest first."""
    with call.connect() as client:
        _show(client.experiments(app_name, feature, states=state or (), text=text), as_json=call.as_json)


@app.command("show")
def show(*, experiment_id: ExperimentId, call: CallOptions) -> None:
    """Show one experiment: its arms, what decides it, what it needs, and its decision once it has stopped."""
    with call.connect() as client:
        experiment = client.experiment(experiment_id)
        override = find_override(client.overrides(), experiment)
    if call.as_json:
        print_json([experiment.model_dump(mode="json") | override_json(override)])
        return
    _show([experiment], as_json=False)
    for line in override_lines(override):
        say(line)
    for arm in experiment.arms:
        if arm.values:
            say(f"values of {arm.name}: {values_text(arm.values)}")
    say(f"audience: {experiment.audience or 'every device'}")
    if experiment.plan.mde:
        say(plan_sentence(experiment))
    if experiment.pre_edges:
        say(cuped_sentence(experiment))
    if experiment.decision is not None:
        say(sentence(experiment.arms, experiment.decision))
    say(_next_line(experiment))


app.command("status", hidden=True)(show)
app.command("delete")(drafts.delete_experiment)


@app.command("results")
def results(
    *,
    experiment_id: ExperimentId,
    export: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .html for a page of its own, .csv or .parquet for the cells of the reports, .ipynb "
            "for a notebook that computes the numbers again."
        ),
    ] = None,
    call: CallOptions,
) -> None:
    """Show every arm with its intervals, and the decision."""
    from alcove.platform.cli.report import validate_path, write_report  # noqa: PLC0415 - other commands need no page

    if export is not None:
        validate_path(export)
    with call.connect() as client:
        report = client.results(experiment_id, with_cells=export is not None)
        override = find_override(client.overrides(), report.experiment)
    if export is not None:
        write_report(export, report)
        say(f"{export}: {export.stat().st_size:,} bytes", err=call.as_json)
    if call.as_json:
        print_json(results_json(report) | override_json(override))
    elif export is None:
        show_results(report)
        for line in override_lines(override):
            say(line)


def _arm(text: str) -> "Arm":
    from alcove.platform.client import Arm  # noqa: PLC0415 - loads gRPC

    name, equals, rest = text.partition("=")
    version, colon, share = rest.partition(":")
    if not (name and equals and version and colon and share):
        raise typer.BadParameter(
            f"write NAME=VERSION:SHARE, such as control=1.0.0:50%; got {text!r}", param_hint="--arm"
        )
    return Arm(name=name, version=version, share_basis_points=share_basis_points(share))


def _show(experiments: "list[Experiment]", *, as_json: bool) -> None:
    if as_json:
        print_json(experiments)
        return
    rows = [
        {
            "experiment": experiment.experiment_id,
            "app": experiment.app,
            "feature": experiment.feature,
            "arms": ", ".join(
                f"{arm.name} {version_text(arm.version, arm.values)} ({percent(arm.share_basis_points)})"
                for arm in experiment.arms
            ),
            "state": experiment.state,
            "ε": experiment.epsilon,
            "mechanism": experiment.mechanism,
            "started": when(experiment.started_at_s),
        }
        for experiment in experiments
    ]
    print_rows(rows, as_json=False, empty="no experiment yet: alcove experiment create")


def _next_line(experiment: "Experiment") -> str:
    """Return the commands that usually come next."""
    name = experiment.experiment_id
    if experiment.state == "draft":
        return f"next: alcove experiment start {name} (or alcove experiment delete {name})"
    if experiment.state == "running":
        return f"next: alcove experiment results {name}, then alcove experiment stop {name}"
    return f"next: alcove experiment results {name}; alcove rollout create for the arm that won"


def _edges(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(edge) for edge in text.split(",")) if text else ()
    except ValueError:
        raise typer.BadParameter(f"write edges such as 0.5,0.8; got {text!r}", param_hint="--cuped") from None
