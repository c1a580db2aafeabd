"""`alcove rollout`: moves an app's devices to a version, step by step."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from alcove.platform.cli import drafts
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.explanations import Explained, show_explanations
from alcove.platform.cli.few_reports import group_notes
from alcove.platform.cli.forecasts import show_rollout_forecast
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import percent, print_json, print_rows, say, when
from alcove.platform.cli.override import find_override, override_json
from alcove.platform.cli.own_guardrails import own_spreads_of, without_own
from alcove.platform.cli.parameter_values import SetInRollout, runtime_line, values_of, values_text, version_text
from alcove.platform.cli.plans import PlanOptions, behavior_of, differences_of, duration_s
from alcove.platform.cli.rollout_details import next_line, question_lines, show_details
from alcove.platform.cli.shares import share_basis_points
from alcove.platform.domain.states import RolloutState

if TYPE_CHECKING:
    from alcove.platform.client import Rollout

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Move an app's devices to a version, step by step.")

RolloutId = Annotated[str, typer.Argument(help="Id of the rollout (ro-…).")]
Override = Annotated[
    str,
    typer.Option(
        help="Why to advance although the stage was not found safe, or no experiment named the version the winner; "
        "audited."
    ),
]
Audience = Annotated[
    str, typer.Option(help="Condition on the devices that take part, such as 'os in (ios) and app_version >= 2.1'.")
]
Etag = Annotated[str, typer.Option(help="The rollout's etag as you know it; refused if it has changed since.")]
ValidateOnly = Annotated[
    bool, typer.Option("--validate-only", help="Check the request and its fields, and store nothing.")
]
Reason = Annotated[str, typer.Option(help="Reason for the change, in words; kept in the audit log.")]
OptionalReason = Annotated[str, typer.Option("--reason", help="Reason, in words; kept in the audit log.")]


@app.command("create")
def create(
    *,
    app_name: Annotated[str, typer.Option("--app", help="Name of the app.")],
    feature: Annotated[str, typer.Option(help="Name of the feature, such as language_id.")],
    version: Annotated[str, typer.Option(help="Published version, MAJOR.MINOR.PATCH.")],
    share: Annotated[
        str | None, typer.Option(help="Advance to this share at once, without stages; else it stays a draft.")
    ] = None,
    override_reason: Override = "",
    audience: Audience = "",
    values: SetInRollout = None,
    planned: PlanOptions,
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Create a rollout: by hand, or in stages that are watched.

    With --set the version may be the one that the app's devices run: their values change, and nothing is downloaded.
    """
    wanted = None if share is None else share_basis_points(share)
    plan, planned_fields = planned.plan()
    given = values_of(values or ())
    with call.connect() as client:
        rollout = client.create_rollout(
            app_name,
            feature,
            version,
            plan=plan if planned_fields else None,
            audience=audience,
            validate_only=validate_only,
            share_basis_points=wanted or 0,
            override_reason=override_reason,
            values=given,
        )
        is_watched = bool(rollout.plan.stages and (rollout.plan.guardrails or rollout.plan.own_guardrails))
        is_watched = is_watched and rollout.plan.expected_devices > 0
        warnings = client.plan_rollout(rollout.plan, feature=feature).warnings if is_watched else ()
    _show([rollout], as_json=call.as_json)
    if not call.as_json and rollout.values:
        say(f"values: {values_text(rollout.values)}", runtime_line())
    for line in () if call.as_json else question_lines(rollout.plan):
        say(line)
    if not call.as_json and not validate_only:
        say(next_line(rollout))
    for warning in warnings:
        say(f"warning: {warning}", err=True)


@app.command("plan")
def plan_command(
    *,
    harm: Annotated[
        list[str] | None,
        typer.Option(
            help="How much worse a version is that shall be found, METRIC:POINTS, such as crash_fallback:2%, or "
            "metric:undone_edits:0.5; else four margins. Repeatable."
        ),
    ] = None,
    harm_days: Annotated[int, typer.Option(help="Days of a stage within which harm shall be found.")] = 2,
    behavior: Annotated[
        list[str] | None,
        typer.Option(
            help="How the version in use behaves, NAME=VALUE: crash_fallback=0.1%, error=0.2%, refused=20%, "
            "latency=20ms, or metric:undone_edits=57%,24%,19%, the part of the devices in each bin of a metric of your "
            "own. Repeatable."
        ),
    ] = None,
    feature: Annotated[str, typer.Option(help="Feature whose metrics of your own are watched.")] = "",
    planned: PlanOptions,
    call: CallOptions,
) -> None:
    """Say what a rollout would find, and with how many devices; nothing is created.

    For each stage: devices of the app with which a harmful version is found within --harm-days (95 %), and with which a
    sound one is found safe within the 30-day budget (80 %); a curve of what is found; other plans that need fewer; and
    a warning for each stage that would hold for ever.
    """
    plan, _ = planned.plan()
    if not (plan.stages and (plan.guardrails or plan.own_guardrails)):
        raise typer.BadParameter("give at least one --stage and one --guard: nothing else is watched")
    with call.connect() as client:
        forecast = client.plan_rollout(
            plan,
            behavior=behavior_of("--behavior", without_own(behavior or ())),
            differences=differences_of(plan, harm or ()),
            harm_days=harm_days,
            feature=feature,
            own_spreads=own_spreads_of(behavior or ()),
        )
    if call.as_json:
        print_json(forecast)
    else:
        show_rollout_forecast(forecast, devices=plan.expected_devices)


@app.command("update")
def update(
    *,
    rollout_id: RolloutId,
    audience: Annotated[
        str | None, typer.Option(help="Condition on the devices that take part; '' is every device.")
    ] = None,
    planned: PlanOptions,
    etag: Etag = "",
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Change a draft; of a live rollout the stages to come, what happens by itself, and the audience (wider only)."""
    plan, given = planned.plan()
    fields = tuple(f"plan.{name}" for name in given) + (() if audience is None else ("audience",))
    if not fields:
        raise typer.BadParameter("nothing to change: give an option")
    with call.connect() as client:
        rollout = client.update_rollout(
            rollout_id, fields=fields, plan=plan, audience=audience or "", etag=etag, validate_only=validate_only
        )
    _show([rollout], as_json=call.as_json)
    if not call.as_json:
        say(f"audience: {rollout.audience or 'every device'}")


@app.command("status")
def status(
    *,
    rollout_id: Annotated[
        str | None, typer.Argument(help="Id of the rollout (ro-…); by default all are listed.")
    ] = None,
    app_name: Annotated[str, typer.Option("--app", help="List only what belongs to this app.")] = "",
    feature: Annotated[str, typer.Option(help="List only what belongs to this feature.")] = "",
    is_explained: Explained.Flag = False,
    device: Explained.Device = "",
    secret: Explained.Secret = "",
    call: CallOptions,
) -> None:
    """Show one rollout with its plan and its last analysis, or list all; --explain: what one device would run."""
    with call.connect() as client:
        if is_explained:
            show_explanations(client, app_name, feature, device=device, secret=secret, as_json=call.as_json)
            return
        rollouts = [client.rollout(rollout_id)] if rollout_id else client.rollouts(app_name, feature)
        overrides = client.overrides()
    if call.as_json:
        over = [find_override(overrides, rollout) for rollout in rollouts]
        pairs = zip(rollouts, over, strict=True)
        print_json([_json(rollout) | override_json(one) for rollout, one in pairs])
        return
    _show(rollouts, as_json=False)
    if rollout_id:
        show_details(rollouts[0], find_override(overrides, rollouts[0]))
        say(next_line(rollouts[0]))


@app.command("list")
def list_command(
    *,
    app_name: Annotated[str, typer.Option("--app", help="List only what belongs to this app.")] = "",
    feature: Annotated[str, typer.Option(help="List only what belongs to this feature.")] = "",
    state: Annotated[
        list[RolloutState] | None, typer.Option(help="List only rollouts in this state; repeatable.")
    ] = None,
    text: Annotated[str, typer.Option(help="List only where each word occurs in id, app, feature or version.")] = "",
    call: CallOptions,
) -> None:
    """List rollouts, oldest first."""
    with call.connect() as client:
        _show(client.rollouts(app_name, feature, states=state or (), text=text), as_json=call.as_json)


app.command("delete")(drafts.delete_rollout)


@app.command("watch")
def watch(
    *,
    rollout_id: RolloutId,
    for_time: Annotated[str, typer.Option("--for", help="Time after which to stop, such as 8h or 30m.")] = "1d",
    call: CallOptions,
) -> None:
    """Print the rollout now and at each change, until it has ended; with --json a line of JSON each time."""
    from alcove.platform.client import DeadlineError  # noqa: PLC0415 - loads gRPC

    with call.connect() as client, suppress(DeadlineError):
        for rollout in client.watch_rollout(rollout_id, timeout_s=duration_s(for_time)):
            say(rollout.model_dump_json() if call.as_json else _line(rollout))


@app.command("advance")
def advance(
    *,
    rollout_id: RolloutId,
    share: Annotated[
        str, typer.Option(help="Share of the devices: 25% or 2500 (1/10 000); 100% completes; else the next stage's.")
    ] = "",
    override_reason: Override = "",
    etag: Etag = "",
    call: CallOptions,
) -> None:
    """Raise the share to that of the next stage, or to the one given; 100% makes the version the default."""
    wanted = share_basis_points(share) if share else 0
    with call.connect() as client:
        rollout = client.advance_rollout(rollout_id, wanted, override_reason=override_reason, etag=etag)
    _show([rollout], as_json=call.as_json)
    if not call.as_json:
        say(next_line(rollout))


@app.command("approve")
def approve(*, rollout_id: RolloutId, etag: Etag = "", call: CallOptions) -> None:
    """Make the advance that somebody else has proposed."""
    with call.connect() as client:
        _show([client.approve_rollout(rollout_id, etag=etag)], as_json=call.as_json)


@app.command("pause")
def pause(*, rollout_id: RolloutId, reason: OptionalReason = "", etag: Etag = "", call: CallOptions) -> None:
    """Keep the share and refuse to advance."""
    with call.connect() as client:
        _show([client.pause_rollout(rollout_id, reason, etag=etag)], as_json=call.as_json)


@app.command("resume")
def resume(*, rollout_id: RolloutId, reason: OptionalReason = "", etag: Etag = "", call: CallOptions) -> None:
    """Allow to advance again."""
    with call.connect() as client:
        _show([client.resume_rollout(rollout_id, reason, etag=etag)], as_json=call.as_json)


@app.command("rollback")
def rollback(*, rollout_id: RolloutId, reason: Reason, etag: Etag = "", call: CallOptions) -> None:
    """Return all devices to the default version."""
    with call.connect() as client:
        _show([client.roll_back_rollout(rollout_id, reason, etag=etag)], as_json=call.as_json)


@app.command("halt")
def halt(*, rollout_id: RolloutId, reason: Reason, etag: Etag = "", yes: Yes = False, call: CallOptions) -> None:
    """Forbid the version in the app, whatever runs it; a draft, running, paused or completed rollout names it.

    Only the team's own key lifts a halt (alcove keys reinstate).
    """
    with call.connect() as client:
        if not yes:
            known = client.rollout(rollout_id)
            confirm(
                f"{rollout_id}: {known.feature} {known.version} in app {known.app},"
                f" {known.state.replace('_', ' ')} at {percent(known.share_basis_points)}",
                "every device of the app drops the version at its next check-in, whatever runs it; only the team's key"
                " lifts a halt (alcove keys reinstate)",
                f"Halt {known.feature} {known.version} in {known.app}",
                yes=yes,
            )
        _show([client.halt_rollout(rollout_id, reason, etag=etag)], as_json=call.as_json)


def _show(rollouts: "list[Rollout]", *, as_json: bool) -> None:
    if as_json:
        print_json(rollouts)
        return
    rows = [
        {
            "rollout": rollout.rollout_id,
            "app": rollout.app,
            "feature": rollout.feature,
            "version": version_text(rollout.version, rollout.values),
            "state": rollout.state.replace("_", " "),
            "share": percent(rollout.share_basis_points),
            "stage": f"{rollout.stage} of {len(rollout.plan.stages)}" if rollout.plan.stages else "-",
            "last analysis": rollout.analysis.decision if rollout.analysis else "none yet",
            "changed": when(rollout.updated_at_s),
        }
        for rollout in rollouts
    ]
    print_rows(rows, as_json=False, empty="no rollout yet: alcove rollout create")


def _json(rollout: "Rollout") -> dict[str, Any]:
    return rollout.model_dump(mode="json") | {"notes": group_notes(rollout)}


def _line(rollout: "Rollout") -> str:
    analysis = rollout.analysis
    verdict = "" if analysis is None else f"; {analysis.decision}: {analysis.reason}"
    waits = "" if rollout.proposal is None else f"; {rollout.proposal.proposed_by} proposes to advance"
    state = f"{rollout.state.replace('_', ' ')} at {percent(rollout.share_basis_points)}"
    return f"{when(rollout.updated_at_s)}  {state}{verdict}{waits}"
