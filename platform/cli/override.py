"""`alcove override`: sets values of a feature over every rollout and experiment, as a kill switch, and undoes it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import print_json, print_rows, say, when
from alcove.platform.cli.parameter_values import SetEverywhere, values_of, values_text

if TYPE_CHECKING:
    from alcove.platform.client import Experiment, Rollout, ValueOverride

__all__ = ["app", "find_override", "override_json", "override_lines"]

app = CommandGroup(no_args_is_help=True, help="Values on every device at once, over rollouts and experiments.")

Feature = Annotated[str, typer.Argument(help="Name of the feature, such as language_id.")]
App = Annotated[str, typer.Option("--app", help="Name of the app.")]
Reason = Annotated[str, typer.Option(help="Why, in words; kept in the audit log.")]
ValidateOnly = Annotated[
    bool, typer.Option("--validate-only", help="Check the request and its fields, and store nothing.")
]


@app.command("set")
def set_command(
    *,
    feature: Feature,
    app_name: App,
    values: SetEverywhere = None,
    reason: Reason,
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Give parameters a value on every device of an app at its next check-in, whatever runs there: a kill switch.

    Running rollouts of the feature pause; experiments keep their arms and get no reports until the override ends.

    Examples:
      alcove override set language_id --app messenger --set enabled=false --reason X
    """
    given = values_of(values or ())
    if not given:
        raise typer.BadParameter("give at least one value, such as enabled=false", param_hint="--set")
    with call.connect() as client:
        result = client.override_values(app_name, feature, given, reason=reason, validate_only=validate_only)
    if call.as_json:
        print_json(result)
        return
    _show([result.override])
    if result.paused_rollout_ids:
        say(f"paused: {', '.join(result.paused_rollout_ids)}; a person resumes them after the override ends")
    if result.silent_experiment_ids:
        say(f"without reports until then, on their arms: {', '.join(result.silent_experiment_ids)}")
    if not result.paused_rollout_ids and not result.silent_experiment_ids:
        say("no rollout or experiment of the feature runs")
    say(f"next: alcove override clear {feature} --app {app_name} --reason REASON")


@app.command("clear")
def clear(
    *, feature: Feature, app_name: App, reason: Reason, validate_only: ValidateOnly = False, call: CallOptions
) -> None:
    """End an override: devices have the values of their rollout, arm or default again; rollouts stay paused.

    Examples:
      alcove override clear language_id --app messenger --reason "fixed in 1.2.1"
    """
    with call.connect() as client:
        result = client.clear_override(app_name, feature, reason=reason, validate_only=validate_only)
    if call.as_json:
        print_json(result)
        return
    ended = result.override
    say(f"{ended.feature} in {ended.app} is no longer overridden: {values_text(ended.values)} (set by {ended.set_by})")
    for rollout_id in result.paused_rollout_ids:
        say(f"next: alcove rollout resume {rollout_id} (it was paused), or roll it back")


@app.command("list")
def list_command(
    *,
    app_name: Annotated[str, typer.Option("--app", help="List only what belongs to this app.")] = "",
    call: CallOptions,
) -> None:
    """List the overrides that stand."""
    with call.connect() as client:
        found = client.overrides(app_name)
    if call.as_json:
        print_json(found)
    elif found:
        _show(found)
    else:
        say("no value is overridden: alcove override set")


def find_override(overrides: "list[ValueOverride]", subject: "Rollout | Experiment") -> "ValueOverride | None":
    """Return the override that stands over a rollout or an experiment; None: none does."""
    over = (one for one in overrides if (one.app, one.feature) == (subject.app, subject.feature))
    return next(over, None)


def override_json(override: "ValueOverride | None") -> dict[str, Any]:
    """Return what the JSON of a rollout or an experiment has besides: the override that stands over it, or null."""
    return {"override": None if override is None else override.model_dump(mode="json")}


def override_lines(override: "ValueOverride | None") -> list[str]:
    """Return what a status says of an override, and which versions it does not reach; nothing where none stands."""
    if override is None:
        return []
    by = f"by {override.set_by} since {when(override.set_at_s)}: {override.reason}"
    return [
        f"OVERRIDDEN on every device: {values_text(override.values)}, {by}",
        f"until alcove override clear {override.feature} --app {override.app} no device reports on the feature",
        *_unreached_lines(override),
    ]


def _unreached_lines(override: "ValueOverride") -> list[str]:
    if not override.unreached_versions:
        return []
    names = ", ".join(override.unreached_versions)
    return [f"warning: not taken by {override.feature} {names}, which knows no such parameter or value: halt it"]


def _show(found: "list[ValueOverride]") -> None:
    rows = [
        {
            "app": one.app,
            "feature": one.feature,
            "values": values_text(one.values),
            "by": one.set_by,
            "since": when(one.set_at_s),
            "reason": one.reason,
        }
        for one in found
    ]
    print_rows(rows, as_json=False, empty="")
    for one in found:
        for line in _unreached_lines(one):
            say(line)
