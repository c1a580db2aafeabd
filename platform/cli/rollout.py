"""`alcove rollout`: move an app's devices to a version, step by step."""

from typing import Annotated

import typer
from alcove.platform.cli.connection import DEFAULT_SERVER, Server, TlsRoot, TokenFile, connect
from alcove.platform.cli.output import AsJson, percent, print_json, print_rows, when
from alcove.platform.cli.shares import share_permyriad
from alcove.platform.client import Rollout

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Move an app's devices to a version, step by step.")

RolloutId = Annotated[str, typer.Argument(help="Id of the rollout (ro-…).")]
Share = Annotated[str, typer.Option(help="Share of the devices: 25% or 2500 (1/10 000); 100% completes.")]
Override = Annotated[
    str, typer.Option(help="Why to advance although no experiment named this version the winner; audited.")
]
Reason = Annotated[str, typer.Option(help="Why; audited.")]


@app.command("create")
def create(
    *,
    app_name: Annotated[str, typer.Option("--app", help="The app.")],
    feature: Annotated[str, typer.Option(help="The feature.")],
    version: Annotated[str, typer.Option(help="Published version, MAJOR.MINOR.PATCH.")],
    share: Annotated[str | None, typer.Option(help="Advance to this share at once; else it stays a draft.")] = None,
    override_reason: Override = "",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Create a rollout."""
    wanted = None if share is None else share_permyriad(share)
    with connect(server, token_file, tls_root) as client:
        rollout = client.create_rollout(app_name, feature, version)
        if wanted is not None:
            rollout = client.advance_rollout(rollout.rollout_id, wanted, override_reason=override_reason)
    _show([rollout], as_json=as_json)


@app.command("status")
def status(
    *,
    rollout_id: Annotated[str | None, typer.Argument(help="Id of the rollout; else all are listed.")] = None,
    app_name: Annotated[str, typer.Option("--app", help="Only of this app.")] = "",
    feature: Annotated[str, typer.Option(help="Only of this feature.")] = "",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Show one rollout, or list all."""
    with connect(server, token_file, tls_root) as client:
        rollouts = [client.rollout(rollout_id)] if rollout_id else client.rollouts(app_name, feature)
    _show(rollouts, as_json=as_json)


@app.command("advance")
def advance(
    *,
    rollout_id: RolloutId,
    share: Share,
    override_reason: Override = "",
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Raise the share; 100% makes the version the default."""
    with connect(server, token_file, tls_root) as client:
        rollout = client.advance_rollout(rollout_id, share_permyriad(share), override_reason=override_reason)
    _show([rollout], as_json=as_json)


@app.command("pause")
def pause(
    *,
    rollout_id: RolloutId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Keep the share and refuse to advance."""
    with connect(server, token_file, tls_root) as client:
        _show([client.pause_rollout(rollout_id)], as_json=as_json)


@app.command("resume")
def resume(
    *,
    rollout_id: RolloutId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Allow to advance again."""
    with connect(server, token_file, tls_root) as client:
        _show([client.resume_rollout(rollout_id)], as_json=as_json)


@app.command("rollback")
def rollback(
    *,
    rollout_id: RolloutId,
    reason: Reason,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Return all devices to the default version."""
    with connect(server, token_file, tls_root) as client:
        _show([client.roll_back_rollout(rollout_id, reason)], as_json=as_json)


@app.command("halt")
def halt(
    *,
    rollout_id: RolloutId,
    reason: Reason,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    tls_root: TlsRoot = None,
    as_json: AsJson = False,
) -> None:
    """Forbid the version in the app, whatever runs it; a draft, running, paused or completed rollout names it."""
    with connect(server, token_file, tls_root) as client:
        _show([client.halt_rollout(rollout_id, reason)], as_json=as_json)


def _show(rollouts: list[Rollout], *, as_json: bool) -> None:
    if as_json:
        print_json(rollouts)
        return
    rows = [
        {
            "rollout": rollout.rollout_id,
            "app": rollout.app,
            "feature": rollout.feature,
            "version": rollout.version,
            "state": rollout.state.replace("_", " "),
            "share": percent(rollout.share_permyriad),
            "changed": when(rollout.updated_at_s),
        }
        for rollout in rollouts
    ]
    print_rows(rows, as_json=False, empty="no rollout yet: alcove rollout create")
