"""`alcove token`: issues, renews, lists and revokes API tokens, on the machine that holds the server's data folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import Database
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, when

if TYPE_CHECKING:
    from alcove.platform.store.tokens import TokenRecord

__all__ = ["app"]

app = CommandGroup(
    no_args_is_help=True, help="Issue, renew, list and revoke API tokens (beside the server's data folder)."
)

TokenId = Annotated[str, typer.Argument(help="Id of the token, the part after alc_ up to the next _.")]
Days = Annotated[int, typer.Option(min=1, max=366, help="Number of days until the token expires.")]
DataDir = Annotated[Path, typer.Option(help="Folder with the server's data: database, blobs, signed tree.")]


@app.command("create")
def create(
    *,
    data_dir: DataDir,
    database: Database = None,
    role: Annotated[
        str, typer.Option(help="reader, operator, operator:<team> for its features alone, or team:<name> to push them.")
    ],
    out: Annotated[Path | None, typer.Option(help="File to write the token to (0600); else it is printed.")] = None,
    name: Annotated[
        str, typer.Option(help="Whose it is or what for, such as 'anna' or 'release job'; shown in lists.")
    ] = "",
    days: Days = 90,
    as_json: AsJson = False,
) -> None:
    """Issue a token.  It is shown or written once: the server keeps a digest only."""
    from alcove.platform.services.auth.local import create_local_token  # noqa: PLC0415 - other verbs need no database

    descriptor = None if out is None else _make_private(out)
    try:
        text, record = create_local_token(data_dir, role, name=name, lifetime_s=days * 86_400, database=database)
    except BaseException:
        if out is not None:
            out.unlink()
        raise
    _show(text, record, out, descriptor, as_json=as_json)
    _warn_of_unknown_team(data_dir, role)


@app.command("renew")
def renew(
    *,
    data_dir: DataDir,
    database: Database = None,
    token_id: TokenId,
    out: Annotated[Path | None, typer.Option(help="File to write the token to (0600); else it is printed.")] = None,
    days: Days = 90,
    overlap_hours: Annotated[
        int, typer.Option(min=0, max=720, help="Hours for which the old token still holds, unless it expires before.")
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Issue a token in the place of another, of the same role and name; the old one holds for a day more."""
    from alcove.platform.services.auth.local import renew_local_token  # noqa: PLC0415

    descriptor = None if out is None else _make_private(out)
    try:
        text, record, old = renew_local_token(
            data_dir, token_id, lifetime_s=days * 86_400, overlap_s=overlap_hours * 3600, database=database
        )
    except BaseException:
        if out is not None:
            out.unlink()
        raise
    _show(text, record, out, descriptor, as_json=as_json)
    if not as_json:
        say(f"token {old.token_id} holds until {when(old.expires_at_s)}", err=out is None)


def _show(text: str, record: "TokenRecord", out: Path | None, descriptor: int | None, *, as_json: bool) -> None:
    """Write a new token to the file that was made for it, or print it."""
    if descriptor is not None:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    shown = {
        "token_id": record.token_id,
        "name": record.name,
        "role": record.role,
        "expires_at_s": record.expires_at_s,
    }
    if as_json:
        print_json(shown | ({"token": text} if out is None else {"file": str(out)}))
    elif out is None:
        say(text)
    else:
        say(
            f"token {record.token_id} ({record.role}) written to {out}, valid until {when(record.expires_at_s)}",
            f"next: alcove login --token-file {out}, on the machine that uses it",
        )


@app.command("list")
def list_command(
    *,
    data_dir: DataDir,
    database: Database = None,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="List the console's sessions instead, each with the token it is of.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List tokens: who may do what, and until when."""
    from alcove.platform.services.auth.local import list_local_tokens  # noqa: PLC0415

    known = list_local_tokens(data_dir, database=database)
    records = [record for record in known if record.is_session == sessions and not record.subject]
    if as_json:
        print_json([{key: value for key, value in vars(r).items() if key != "secret_sha256"} for r in records])
        return
    rows = [
        {
            "token": record.token_id,
            "name": record.name or "-",
            "role": record.role,
            "created": when(record.created_at_s),
            "expires": when(record.expires_at_s),
            "revoked": when(record.revoked_at_s),
        }
        | ({"of token": record.parent_id} if sessions else {})
        for record in records
    ]
    print_rows(rows, as_json=False, empty="nobody has signed in" if sessions else "no token was issued yet")
    if count := 0 if sessions else sum(record.is_session for record in known):
        say(f"and {count} session{'s' if count > 1 else ''} of the console: alcove token list --sessions")


@app.command("revoke")
def revoke(
    *,
    data_dir: DataDir,
    database: Database = None,
    token_id: TokenId,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Revoke a token and its sessions, or one session, from now on; a running server refuses it with the next call."""
    from alcove.platform.services.auth.local import list_local_tokens, revoke_local_token  # noqa: PLC0415

    for known in () if yes else list_local_tokens(data_dir, database=database):
        if known.token_id == token_id:
            confirm(
                f"token {token_id} ({known.role}{f', {known.name}' if known.name else ''}) holds until"
                f" {when(known.expires_at_s)}",
                f"Revoke token {token_id} for ever",
                yes=yes,
            )

    record = revoke_local_token(data_dir, token_id, database=database)
    if as_json:
        print_json({"token_id": record.token_id, "revoked_at_s": record.revoked_at_s})
    else:
        say(f"token {record.token_id} ({record.role}) is revoked since {when(record.revoked_at_s)}")


def _warn_of_unknown_team(data_dir: Path, role: str) -> None:
    """Say so where a role is of a team that the signed tree does not have: a misspelling, or one to be added yet."""
    team = role.partition(":")[2]
    if not team or not (data_dir / "tree" / "metadata").is_dir():
        return
    from alcove.registry.layout import team_role  # noqa: PLC0415 - loads TUF
    from alcove.registry.repository import Repository  # noqa: PLC0415

    known = Repository(data_dir / "tree").state().roles
    if team_role(team) not in known:
        say(f"warning: the tree has no team {team!r} yet (alcove keys add-team)", err=True)


def _make_private(path: Path) -> int:
    """Return the descriptor of a new file that only its owner may read, from its first moment on."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
