"""`alcove metric`: defines what a team records beside what every feature reports."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, print_rows, when
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.metric_presets import METRIC_PRESETS, preset_of

if TYPE_CHECKING:
    from alcove.platform.client import Metric

__all__ = ["app"]

app = CommandGroup(
    no_args_is_help=True,
    help="Metrics of your own: apps record them by name (handle.record), plans of rollouts and experiments name them.",
)

Feature = Annotated[str, typer.Option("--feature", help="Feature whose handle records the metric.")]
Name = Annotated[str, typer.Argument(help="Name of the metric: lower-case letters, digits and _.")]


@app.command("create")
def create(
    *,
    name: Name,
    feature: Feature,
    kind: Annotated[
        Literal["count", "share", "value", "preference"],
        typer.Option(
            "--kind",
            help="What a device adds up in a window: count, how many times it was recorded; share, how large a part of "
            "the records was true; value, the sum of what was recorded; preference, which of two versions a "
            "person preferred.",
        ),
    ],
    more_is_better: Annotated[
        bool,
        typer.Option("--more-is-better/--less-is-better", help="Whether a higher mean is an improvement."),
    ],
    owner: Annotated[str, typer.Option(help="Who answers questions about it: a person or a group.")],
    description: Annotated[str, typer.Option(help="What is recorded, when, and in which unit.")],
    edge: Annotated[
        list[float] | None,
        typer.Option(
            "--edge",
            help="Where one bin ends and the next begins, in the metric's unit; repeatable, rising. A device reports "
            "its bin and no more. Fewer bins need fewer devices; a count may have no edge: recorded or not.",
        ),
    ] = None,
    cap: Annotated[
        float,
        typer.Option(help="Result that stands for everything above it; 0: the last bin is as wide as the one before."),
    ] = 0.0,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the definition, and store nothing.")
    ] = False,
    call: CallOptions,
) -> None:
    """Create a metric, or its next version if the definition differs; a version never changes."""
    with call.connect() as client:
        metric = client.create_metric(
            feature,
            name,
            kind,
            owner=owner,
            description=description,
            more_is_better=more_is_better,
            edges=edge or (),
            cap=cap,
            validate_only=validate_only,
        )
    _show([metric], as_json=call.as_json)


@app.command("presets")
def presets(*, as_json: AsJson = False) -> None:
    """List ready-made metrics of camera and calls, and how an app records each."""
    rows = [
        {
            "preset": name,
            "kind": str(preset.kind),
            "better": "more" if preset.more_is_better else "less",
            "features": ", ".join(preset.features),
            "recorded by": preset.call,
            "description": preset.description,
        }
        for name, preset in METRIC_PRESETS.items()
    ]
    print_rows(rows, as_json=as_json, empty="no preset")


@app.command("create-preset")
def create_preset(
    *,
    preset: Annotated[str, typer.Argument(help="Name of the preset, which the metric gets: alcove metric presets.")],
    feature: Feature,
    owner: Annotated[str, typer.Option(help="Who answers questions about it: a person or a group.")],
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the definition, and store nothing.")
    ] = False,
    call: CallOptions,
) -> None:
    """Create a ready-made metric for a feature; nothing changes where it was created before."""
    try:
        found = preset_of(preset)
    except InvalidFieldError as error:
        raise typer.BadParameter(str(error)) from None
    with call.connect() as client:
        metric = client.create_metric(
            feature,
            preset,
            found.kind.value,
            owner=owner,
            description=found.description,
            more_is_better=found.more_is_better,
            edges=found.edges,
            validate_only=validate_only,
        )
    _show([metric], as_json=call.as_json)


@app.command("list")
def list_command(
    *,
    feature: Annotated[str, typer.Option("--feature", help="List only metrics of this feature.")] = "",
    call: CallOptions,
) -> None:
    """List the newest version of each metric."""
    with call.connect() as client:
        _show(client.metrics(feature), as_json=call.as_json)


@app.command("show")
def show(*, name: Name, feature: Feature, call: CallOptions) -> None:
    """Show every version of a metric, newest first."""
    with call.connect() as client:
        _show(client.metric(feature, name), as_json=call.as_json)


@app.command("deprecate")
def deprecate(
    *,
    name: Name,
    feature: Feature,
    reason: Annotated[str, typer.Option(help="Why; audited, and shown to whoever still names the metric.")],
    successor: Annotated[str, typer.Option(help="Metric of the same feature to use instead.")] = "",
    yes: Yes = False,
    call: CallOptions,
) -> None:
    """Let no plan name a metric from now on; what runs with it goes on. A metric has no other name: make a new one."""
    with call.connect() as client:
        if not yes:
            held = client.metric(feature, name)[0]
            confirm(
                f"{feature}/{name} version {held.version}, owner {held.owner}: {held.description}",
                "no plan can name it from now on; what runs with it goes on",
                f"Deprecate {feature}/{name} for ever",
                yes=yes,
            )
        _show([client.deprecate_metric(feature, name, reason=reason, successor=successor)], as_json=call.as_json)


def _show(metrics: "list[Metric]", *, as_json: bool) -> None:
    if as_json:
        print_json(metrics)
        return
    rows = [
        {
            "metric": metric.name,
            "version": metric.version,
            "feature": metric.feature,
            "kind": metric.kind,
            "better": "more" if metric.more_is_better else "less",
            "bins": _bins(metric),
            "owner": metric.owner,
            "state": _state(metric),
            "created": when(metric.created_at_s),
            "description": metric.description,
        }
        for metric in metrics
    ]
    print_rows(rows, as_json=False, empty="no metric yet: alcove metric create")


def _bins(metric: "Metric") -> str:
    """Return the bins as people read them, each with the result that stands for it."""
    if metric.kind == "preference":
        return "nothing, the second preferred = 0, no preference = 0.5, the first preferred = 1"
    lows = ["nothing", *(f"{edge:g}+" for edge in ((1.0 if metric.kind == "count" else 0.0), *metric.edges))]
    return ", ".join(f"{low} = {value:g}" for low, value in zip(lows, metric.bin_values, strict=True))


def _state(metric: "Metric") -> str:
    if not metric.deprecated_at_s:
        return "in use"
    instead = f", use {metric.successor}" if metric.successor else ""
    return f"deprecated{instead}: {metric.deprecation_reason}"
