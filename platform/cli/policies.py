"""`alcove policy list | diff`: the signed policies of an app, and what devices do otherwise by one than by another."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import print_json, print_rows, say, when
from alcove.platform.cli.policy import App

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient, SignedPolicy

__all__ = ["policies"]

policies = CommandGroup(no_args_is_help=True, help="See the signed policies of an app, and what one of them changed.")

Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most policies in the answer.")]


@policies.command("list")
def list_(*, app_name: App, limit: Limit = 20, call: CallOptions) -> None:
    """List the policies of an app, the newest first: who decided each, and why."""
    with call.connect() as client:
        found = client.policies_page(app_name, size=limit).items
    if call.as_json:
        print_json(found)
        return
    rows = [
        {
            "serial": one.serial,
            "decided": when(one.decided_at_s),
            "by": one.decided_by or "-",
            "because of": "; ".join(f"{cause.action} {cause.object}" for cause in one.causes) or "-",
        }
        for one in found
    ]
    print_rows(rows, as_json=False, empty="no policy yet: alcove rollout create")


@policies.command("diff")
def diff(
    *,
    first: Annotated[
        int | None,
        typer.Argument(metavar="SERIAL", min=1, help="The policy before; alone: the one that changed something."),
    ] = None,
    second: Annotated[int | None, typer.Argument(metavar="SERIAL", min=1, help="The policy after.")] = None,
    app_name: App,
    call: CallOptions,
) -> None:
    """Say what devices do otherwise by one policy than by another.

    Without serials: the newest policy against the one before it; with one serial: that policy against the one before.
    """
    from alcove.platform.domain.policy_changes import list_changes  # noqa: PLC0415 - mistakes load little

    with call.connect() as client:
        after = client.policy_at(app_name, second or first or 0)
        if first is not None and second is not None:
            before: SignedPolicy | None = client.policy_at(app_name, first)
        else:
            before = _before(client, app_name, after.policy.serial)
    if before is None:
        problem = f"policy {after.policy.serial} of {app_name} is the first: there is none before it"
        raise typer.BadParameter(problem, param_hint="SERIAL")
    changes = list_changes(before.policy, after.policy)
    if call.as_json:
        print_json(
            {
                "app": app_name,
                "before": before.policy.serial,
                "after": after.policy.serial,
                "changes": [{"feature": change.feature, "text": change.text} for change in changes],
            }
        )
        return
    say(f"{app_name}: policy {before.policy.serial} -> {after.policy.serial}")
    rows = [{"of": change.feature or "the app", "change": change.text} for change in changes]
    print_rows(rows, as_json=False, empty="nothing changed for devices")


def _before(client: "PlatformClient", app: str, serial: int) -> "SignedPolicy | None":
    """Return the policy before one; None: there is none."""
    earlier = client.policies_page(app, size=1, token=str(serial)).items if serial > 1 else ()
    return client.policy_at(app, earlier[0].serial) if earlier else None
