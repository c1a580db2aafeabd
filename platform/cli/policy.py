"""`alcove layer` and `alcove holdout`: keeps the experiments of an app apart, and devices out of all of them."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import percent, print_json, print_rows, when
from alcove.platform.cli.shares import share_basis_points

if TYPE_CHECKING:
    from alcove.platform.client import Holdout, Layer

__all__ = ["holdouts", "layers"]

layers = CommandGroup(no_args_is_help=True, help="Sets of experiments of an app that exclude each other.")
holdouts = CommandGroup(no_args_is_help=True, help="Devices of an app that take part in no experiment.")

App = Annotated[str, typer.Option("--app", help="Name of the app.")]
ValidateOnly = Annotated[
    bool, typer.Option("--validate-only", help="Check the request and its fields, and store nothing.")
]


@layers.command("create")
def create(
    *,
    name: Annotated[str, typer.Argument(help="Name of the layer, unique in the app.")],
    app_name: App,
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Create a layer; it stays for ever, with its salt."""
    with call.connect() as client:
        _show_layers([client.create_layer(app_name, name, validate_only=validate_only)], as_json=call.as_json)


@layers.command("list")
def list_command(*, app_name: App, call: CallOptions) -> None:
    """List the layers of an app, and what running experiments hold of each."""
    with call.connect() as client:
        _show_layers(client.layers(app_name), as_json=call.as_json)


@holdouts.command("set")
def set_command(
    *,
    share: Annotated[str, typer.Argument(help="Share of the devices: 5% or 500 (1/10 000); 0 ends it.")],
    app_name: App,
    etag: Annotated[str, typer.Option(help="The holdout's etag as you know it; refused if it has changed since.")] = "",
    validate_only: ValidateOnly = False,
    call: CallOptions,
) -> None:
    """Hold a share of the devices out of every experiment; it may rise only while none runs."""
    with call.connect() as client:
        holdout = client.set_holdout(app_name, share_basis_points(share), etag=etag, validate_only=validate_only)
    _show_holdout(holdout, as_json=call.as_json)


@holdouts.command("show")
def show(*, app_name: App, call: CallOptions) -> None:
    """Show how many devices are held out."""
    with call.connect() as client:
        _show_holdout(client.holdout(app_name), as_json=call.as_json)


def _show_layers(found: "list[Layer]", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        {
            "layer": layer.name,
            "app": layer.app,
            "claimed": percent(sum(claim.count for claim in layer.claims)),
            "segments": "; ".join(
                f"[{claim.first}, {claim.first + claim.count}) {claim.experiment_id} ({claim.feature})"
                for claim in layer.claims
            )
            or "-",
            "created": when(layer.created_at_s),
        }
        for layer in found
    ]
    print_rows(rows, as_json=False, empty="no layer yet: alcove layer create")


def _show_holdout(holdout: "Holdout", *, as_json: bool) -> None:
    if as_json:
        print_json(holdout)
        return
    row = {"app": holdout.app, "held out": percent(holdout.share_basis_points), "etag": holdout.etag}
    print_rows([row | {"policy": holdout.policy_serial or "-"}], as_json=False, empty="")
