"""`alcove model validate | release | deprecate | revoke | rules`: changes the state of a version."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.exit_codes import FAILED
from alcove.platform.cli.output import print_json, print_rows, say, when
from alcove.platform.cli.references import VersionArgument, resolve

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient, Version

__all__ = ["deprecate", "release", "revoke", "rules", "validate"]

Reason = Annotated[
    str, typer.Option(help="Reason for the change, in words; kept with the version and in the audit log.")
]


def validate(*, name: VersionArgument, call: CallOptions) -> None:
    """Recompute the certificate on the server and compare every figure with its bound; exit code 1 if one fails."""
    with call.connect() as client:
        version, validation = client.validate_version(*resolve(client, name))
    if call.as_json:
        print_json({"version": version, "validation": validation})
    else:
        rows = [
            {
                "check": check.name,
                "variant": check.variant or "all",
                "": "passed" if check.is_passed else "FAILED",
                "figure": check.figure,
                "bound": check.bound or "none set",
            }
            for check in validation.checks
        ]
        print_rows(rows, as_json=False, empty="")
        say(f"{version.feature} {version.version} is {version.state}")
        if validation.is_passed:
            say(f"next: alcove model release {version.feature}@{version.version} --reason REASON")
    if not validation.is_passed:
        raise typer.Exit(FAILED)


def release(*, name: VersionArgument, reason: Reason, call: CallOptions) -> None:
    """Release a validated (or deprecated) version for use."""
    with call.connect() as client:
        version = client.release_version(*resolve(client, name), reason=reason)
    _tell(version, as_json=call.as_json)
    if not call.as_json:
        say(f"next: alcove rollout create --app APP --feature {version.feature} --version {version.version}")


def deprecate(*, name: VersionArgument, reason: Reason, call: CallOptions) -> None:
    """Deprecate a released version: devices that have it keep it, and nothing new should choose it."""
    with call.connect() as client:
        version = client.deprecate_version(*resolve(client, name), reason=reason)
    _tell(version, as_json=call.as_json)


def revoke(*, name: VersionArgument, reason: Reason, yes: Yes = False, call: CallOptions) -> None:
    """Forbid a version for ever: every device of every app drops it at its next check-in.  There is no way back."""
    with call.connect() as client:
        feature, number = resolve(client, name)
        if not yes:
            confirm(*_revocation(client, feature, number), f"Revoke {feature} {number} for ever", yes=yes)
        version, apps = client.revoke_version(feature, number, reason=reason)
    if call.as_json:
        print_json({"version": version, "apps": apps})
        return
    where = f"devices of {', '.join(apps)} drop it at their next check-in" if apps else "no app ever used it"
    say(f"{version.feature} {version.version} is revoked: {where}")


def _revocation(client: "PlatformClient", feature: str, number: str) -> list[str]:
    """Return what a revocation would take away: the version, its aliases, and the rollouts that brought it to apps."""
    version = client.version_details(feature, version=number).version
    aliases = "".join(f" @{alias}" for alias in version.aliases)
    lines = [f"{feature} {number}{aliases} is {version.state}"]
    lines += [
        f"app {rollout.app}: {rollout.rollout_id} is {rollout.state} at {rollout.share_basis_points / 100:g} %"
        for rollout in client.rollouts(feature=feature)
        if rollout.version == number and rollout.state in ("running", "paused", "completed")
    ]
    lines += [
        f"app {experiment.app}: {experiment.experiment_id} compares it"
        for experiment in client.experiments(feature=feature)
        if experiment.state == "running" and number in [arm.version for arm in experiment.arms]
    ]
    return [*lines, "every device of every app drops it at its next check-in"]


def rules(
    *,
    feature: Annotated[str, typer.Argument(help="Name of the feature, such as language_id.")],
    max_size_bytes: Annotated[
        int | None, typer.Option(min=0, help="Largest size of a program in bytes; 0: no bound.")
    ] = None,
    max_memory_bytes: Annotated[
        int | None, typer.Option(min=0, help="Largest memory of one run in bytes, besides the program; 0: no bound.")
    ] = None,
    max_latency_ms: Annotated[
        float | None, typer.Option(min=0, help="Largest median time of one run on the server in ms; 0: no bound.")
    ] = None,
    allowed_op: Annotated[
        list[str] | None,
        typer.Option(help="An operator that programs may use; repeatable; 'any' removes the bound."),
    ] = None,
    must_approve_aliases: Annotated[
        bool | None,
        typer.Option(
            "--approve-aliases/--no-approve-aliases", help="Require a second person's approval to move an alias."
        ),
    ] = None,
    must_approve_rollouts: Annotated[
        bool | None,
        typer.Option(
            "--approve-rollouts/--no-approve-rollouts", help="Require a second person's approval to advance a rollout."
        ),
    ] = None,
    accepts_any_state: Annotated[
        bool | None,
        typer.Option(
            "--any-state/--released-only",
            help="Let rollouts, experiments and aliases take versions that are not released, too.",
        ),
    ] = None,
    call: CallOptions,
) -> None:
    """Show the rules that versions of a feature must meet; options set some and keep the others."""
    ops = None if allowed_op is None else () if allowed_op == ["any"] else tuple(allowed_op)
    given = {
        "max_size_bytes": max_size_bytes,
        "max_memory_bytes": max_memory_bytes,
        "max_latency_ms": max_latency_ms,
        "allowed_ops": ops,
        "must_approve_aliases": must_approve_aliases,
        "must_approve_rollouts": must_approve_rollouts,
        "accepts_any_state": accepts_any_state,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    with call.connect() as client:
        held = client.rules(feature)
        if changes:
            held = client.set_rules(feature, held.model_copy(update=changes))
    if call.as_json:
        print_json(held)
        return
    rows = [
        {"rule": field.replace("_", " "), "value": ", ".join(value) if isinstance(value, tuple) else value or "-"}
        for field, value in held
        if field not in ("set_by", "set_at_s")
    ]
    print_rows(rows, as_json=False, empty="")
    say(f"set {when(held.set_at_s)} by {held.set_by}" if held.set_by else "nobody has set any")


def _tell(version: "Version", *, as_json: bool) -> None:
    if as_json:
        print_json(version)
    else:
        say(f"{version.feature} {version.version} is {version.state}")
