"""`alcove holdout start | status | result | stop | plan`: what was shipped since a day did, by the devices held out."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.output import percent, print_json, print_rows, say, when
from alcove.platform.cli.plans import AskedMechanism, duration_s, mechanism_of
from alcove.platform.cli.policy import App, ValidateOnly, holdouts
from alcove.platform.cli.shares import share_basis_points

if TYPE_CHECKING:
    from alcove.platform.client import Mechanism, Readout, ReadoutForecast

__all__ = ["MeasureOptions", "holdouts"]


@dataclass(frozen=True)
class MeasureOptions:
    """The options that say what is measured, as Typer reads them."""

    metric: Annotated[
        str,
        typer.Option(
            help="What is compared: accepted, latency_mean, latency_share, or metric:NAME, a metric of the feature's "
            "team (with @VERSION, else the newest)."
        ),
    ] = "accepted"
    edge_ms: Annotated[
        float, typer.Option("--edge", help="Of latency_share: answers that take this long are slow, in ms.")
    ] = 0.0
    latency_edges_ms: Annotated[
        list[float] | None,
        typer.Option(
            "--latency-edge", help="Upper edge of a latency bin in ms, where latency is compared; repeatable."
        ),
    ] = None
    epsilon: Annotated[
        str, typer.Option(help="Privacy loss ε of one report (prio3: of a window's sums); 2 by default (prio3: 1).")
    ] = ""
    mechanism: AskedMechanism = None
    window: Annotated[
        str, typer.Option(help="Length of a window, a whole part of 30 days; a device reports once in each.")
    ] = "10d"
    months: Annotated[
        int, typer.Option(help="Months of 30 days that are measured; 0: all that fit but the first 30 days (plan: 3).")
    ] = 0

    @property
    def asked_mechanism(self) -> "Mechanism":
        """How reports become sums."""
        return "unspecified" if self.mechanism is None else mechanism_of(self.mechanism)

    @property
    def name_and_version(self) -> tuple[str, int]:
        """The metric's name, and the version of an own one; 0: the newest."""
        name, _, version = self.metric.partition("@")
        if version and not (version.isascii() and version.isdigit() and len(version) <= 6):
            raise typer.BadParameter(f"a version of a metric is written metric:NAME@2; got {self.metric!r}")
        return name, int(version or 0)


@holdouts.command("start")
def start(
    *,
    features: Annotated[
        list[str], typer.Argument(help="Features whose present versions held-out devices keep; the first is measured.")
    ],
    app_name: App,
    until: Annotated[str, typer.Option(help="Last day, YYYY-MM-DD, UTC: from its end on nothing is kept.")],
    measure: MeasureOptions,
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Compare held-out devices, which keep today's versions, with a mirror group that runs what everybody runs.

    Both groups take part in no experiment and report nothing else until then.  There is one analysis, on the last day.
    """
    metric, version = measure.name_and_version
    with call.connect() as client:
        readout = client.start_readout(
            app_name,
            features,
            until_s=_end_of(until),
            metric=metric,
            metric_version=version,
            edge_ms=measure.edge_ms,
            latency_edges_ms=measure.latency_edges_ms or (),
            epsilon=measure.epsilon,
            mechanism=measure.asked_mechanism,
            window_s=duration_s(measure.window),
            months=measure.months,
            validate_only=validate_only,
        )
    _show([readout], as_json=call.as_json)


@holdouts.command("status")
def status(*, app_name: App, call: CallOptions) -> None:
    """List the read-outs of an app's holdout, what each keeps, and when it has a result."""
    with call.connect() as client:
        found = client.readouts(app_name)
    _show(found, as_json=call.as_json)


@holdouts.command("result")
def result(
    *, readout_id: Annotated[str, typer.Argument(help="Id of the read-out, from `holdout status`.")], call: CallOptions
) -> None:
    """Show what a read-out found; before its last day, when it will say so: nothing before that decides."""
    with call.connect() as client:
        readout = client.readout(readout_id)
    if call.as_json:
        print_json(readout)
        return
    say(readout.summary)
    found = readout.result
    if found is None:
        return
    rows = [
        {
            "compared": readout.metric,
            "held out": _number(found.held_out),
            "difference": _number(found.difference.value),
            "95 %": _range(found.difference.low, found.difference.high),
            "p": _number(found.p_value),
            "lift": _share(found.lift.value),
            "lift 95 %": f"{_share(found.lift.low)} to {_share(found.lift.high)}",
            "reports": found.report_count,
            "months read": found.months,
        }
    ]
    print_rows(rows, as_json=False, empty="")
    say(readout.promise)


@holdouts.command("stop")
def stop(
    *,
    readout_id: Annotated[str, typer.Argument(help="Id of the read-out.")],
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")],
    etag: Annotated[
        str, typer.Option(help="The read-out's etag as you know it; refused if it has changed since.")
    ] = "",
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Stop a read-out without a result: held-out devices run what everybody runs again."""
    with call.connect() as client:
        readout = client.stop_readout(readout_id, reason=reason, etag=etag, validate_only=validate_only)
    _show([readout], as_json=call.as_json)


@holdouts.command("plan")
def plan(
    *,
    devices: Annotated[
        int, typer.Option(help="Devices of the app with something to report in a window, such as a rated answer.")
    ],
    share: Annotated[str, typer.Option(help="Share that is held out: 5% or 500 (1/10 000).")],
    measure: MeasureOptions,
    base_rate: Annotated[float, typer.Option(help="Expected share in the holdout; by default a half.")] = 0.0,
    mde: Annotated[float, typer.Option(help="Smallest difference that shall be found: a share, or ms.")] = 0.0,
    call: CallOptions,
) -> None:
    """Say which difference a read-out would find, before anything is held out; nothing is stored."""
    with call.connect() as client:
        forecast = client.plan_readout(
            devices=devices,
            share_basis_points=share_basis_points(share),
            metric=measure.name_and_version[0],
            edge_ms=measure.edge_ms,
            latency_edges_ms=measure.latency_edges_ms or (),
            epsilon=measure.epsilon,
            mechanism=measure.asked_mechanism,
            window_s=duration_s(measure.window),
            months=measure.months,
            base_rate=base_rate,
            mde=mde,
        )
    if call.as_json:
        print_json(forecast)
        return
    _show_forecast(forecast, mde=mde, unit=" ms" if measure.metric == "latency_mean" else "")


def _show(found: "list[Readout]", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        {
            "read-out": one.readout_id,
            "state": one.state,
            "keeps": ", ".join(f"{kept.feature} {kept.version}" for kept in one.kept),
            "compares": one.metric,
            "groups": percent(one.share_basis_points),
            "months": one.months,
            "first window": when(one.measured_from_s),
            "last day ends": when(one.until_s),
            "etag": one.etag,
        }
        for one in found
    ]
    print_rows(rows, as_json=False, empty="no read-out yet: alcove holdout start")
    for one in found:
        say(f"{one.readout_id}: {one.summary}")


def _show_forecast(forecast: "ReadoutForecast", *, mde: float, unit: str) -> None:
    say(
        f"{forecast.group_devices:,} devices in each group; at least {forecast.days} days from the first to the last;"
        f" {forecast.cell_count} cells in a report"
    )
    rows = [
        {
            "measured months": each.months,
            "smallest difference found (80 %)": f"{each.difference:.3g}{unit}" if each.difference else "none",
        }
        for each in forecast.detectable_by_months
    ]
    print_rows(rows, as_json=False, empty="")
    if mde:
        needed = f"{forecast.devices_needed:,}" if forecast.devices_needed else "no number of"
        say(f"a difference of {mde:g}{unit} needs {needed} devices of the app")
    say(forecast.promise)
    for warning in forecast.warnings:
        say(f"warning: {warning}")


def _end_of(day: str) -> int:
    """Return when a day ends, seconds since 1970.

    Raises:
        typer.BadParameter: `day` is none.
    """
    try:
        found = date.fromisoformat(day)
    except ValueError:
        raise typer.BadParameter(f"a day is written 2027-03-31; got {day!r}") from None
    following = datetime(found.year, found.month, found.day, tzinfo=UTC) + timedelta(days=1)
    return int(following.timestamp())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"


def _range(low: float | None, high: float | None) -> str:
    return f"{_number(low)} to {_number(high)}"
