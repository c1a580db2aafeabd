"""`alcove model alias`: moves names such as @production that point to a version, and lists their moves."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import print_json, print_rows, say, when
from alcove.platform.cli.references import VersionArgument, resolve

if TYPE_CHECKING:
    from alcove.platform.client import AliasMove, AliasProposal

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Point names such as @production to versions.")

Feature = Annotated[str, typer.Argument(help="Name of the feature, such as language_id.")]
Alias = Annotated[str, typer.Argument(help="Name of the alias, without @.")]
Reason = Annotated[str, typer.Option(help="Reason for the change, in words; kept with the move and in the audit log.")]


@app.command("set")
def set_command(*, name: VersionArgument, alias: Alias, reason: Reason, call: CallOptions) -> None:
    """Point an alias to a version, or propose it where the feature's rules ask for a second person."""
    with call.connect() as client:
        feature, version = resolve(client, name)
        done = client.set_alias(feature, alias.removeprefix("@"), version, reason=reason)
    _tell(done, as_json=call.as_json)


@app.command("remove")
def remove(*, feature: Feature, alias: Alias, reason: Reason, call: CallOptions) -> None:
    """Take an alias away, or propose it likewise; its history stays."""
    with call.connect() as client:
        done = client.remove_alias(feature, alias.removeprefix("@"), reason=reason)
    _tell(done, as_json=call.as_json)


@app.command("approve")
def approve(
    *, proposal_id: Annotated[str, typer.Argument(help="Id of the proposal (ap-…).")], call: CallOptions
) -> None:
    """Make a move that somebody else proposed."""
    with call.connect() as client:
        done = client.approve_alias(proposal_id)
    _tell(done, as_json=call.as_json)


@app.command("list")
def list_command(*, feature: Feature, call: CallOptions) -> None:
    """List the aliases of a feature, and the moves that wait for approval."""
    with call.connect() as client:
        aliases = client.aliases(feature)
    if call.as_json:
        print_json(aliases)
        return
    print_rows([_row(move) for move in aliases.aliases], as_json=False, empty="no alias yet: alcove model alias set")
    waiting = [
        {
            "proposal": item.proposal_id,
            "alias": f"@{item.alias}",
            "from": item.from_version or "-",
            "to": item.to_version or "-",
            "by": item.proposed_by,
            "when": when(item.proposed_at_s),
            "why": item.reason,
        }
        for item in aliases.proposals
    ]
    if waiting:
        print_rows(waiting, as_json=False, empty="", title="waiting for approval: alcove model alias approve")


@app.command("history")
def history(
    *,
    feature: Feature,
    alias: Annotated[str, typer.Argument(help="List only the moves of this alias.")] = "",
    call: CallOptions,
) -> None:
    """List every move that the aliases of a feature ever made, oldest first."""
    with call.connect() as client:
        moves = client.alias_moves(feature, alias.removeprefix("@"))
    if call.as_json:
        print_json(moves)
    else:
        print_rows([_row(move) for move in moves], as_json=False, empty="no alias ever moved")


def _row(move: "AliasMove") -> dict[str, str]:
    return {
        "alias": f"@{move.alias}",
        "from": move.from_version or "-",
        "to": move.to_version or "-",
        "by": move.moved_by,
        "approved by": move.approved_by or "-",
        "when": when(move.moved_at_s),
        "why": move.reason,
    }


def _tell(done: "AliasMove | AliasProposal", *, as_json: bool) -> None:
    from alcove.platform.client import AliasProposal  # noqa: PLC0415 - loads gRPC

    if as_json:
        print_json({"proposal" if isinstance(done, AliasProposal) else "move": done})
        return
    where = f"points to {done.to_version}" if done.to_version else "exists no more"
    if isinstance(done, AliasProposal):
        say(
            f"{done.proposal_id}: waits for somebody else (alcove model alias approve {done.proposal_id}); "
            f"then {done.feature}@{done.alias} {where}"
        )
    else:
        say(f"{done.feature}@{done.alias} {where} (before: {done.from_version or 'nothing'})")
