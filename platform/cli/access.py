"""`alcove access`: says who may sign in to the console through OpenID Connect, beside the server's data folder."""

from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import Database
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, when

__all__ = ["app"]

app = CommandGroup(
    no_args_is_help=True,
    help="Say who may sign in to the console through OpenID Connect (beside the server's data folder).",
)

DataDir = Annotated[Path, typer.Option(help="Folder with the server's data: database, blobs, signed tree.")]


@app.command("grant")
def grant(
    *,
    data_dir: DataDir,
    database: Database = None,
    oidc_issuer: Annotated[str, typer.Option(help="URL of the provider, as alcove serve has it.")],
    oidc_subject: Annotated[
        str, typer.Option(help="The provider's own name of the person, which never becomes another's (sub).")
    ] = "",
    email: Annotated[str, typer.Option(help="Mail address that the provider has verified, in its place.")] = "",
    role: Annotated[
        str, typer.Option(help="reader, operator, operator:<team> for its features alone, or team:<name> to push them.")
    ],
    name: Annotated[str, typer.Option(help="Whose it is, such as 'anna'; shown in lists and in the console.")] = "",
    days: Annotated[int, typer.Option(min=1, max=366, help="Number of days until the access expires.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Let a person sign in.  An access that the person had before ends, and the sessions of it."""
    from alcove.platform.services.auth.local_access import grant_local_access  # noqa: PLC0415 - loads the database

    made = grant_local_access(
        data_dir,
        role,
        issuer=oidc_issuer,
        subject=oidc_subject,
        email=email,
        name=name,
        lifetime_s=days * 86_400,
        database=database,
    )
    if as_json:
        print_json({key: value for key, value in vars(made).items() if key not in _HIDDEN})
    else:
        say(f"access {made.token_id}: {made.subject} signs in as {made.role} until {when(made.expires_at_s)}")


@app.command("list")
def list_command(*, data_dir: DataDir, database: Database = None, as_json: AsJson = False) -> None:
    """List accesses: who may sign in, as what, and until when; those by claim are of people who did."""
    from alcove.platform.services.auth.local import list_local_tokens  # noqa: PLC0415

    records = [record for record in list_local_tokens(data_dir, database=database) if record.subject]
    if as_json:
        print_json([{key: value for key, value in vars(r).items() if key not in _HIDDEN} for r in records])
        return
    rows = [
        {
            "access": record.token_id,
            "person": record.subject,
            "name": record.name or "-",
            "role": record.role,
            "expires": when(record.expires_at_s),
            "revoked": when(record.revoked_at_s),
        }
        for record in records
    ]
    print_rows(rows, as_json=False, empty="nobody was given access yet")


@app.command("revoke")
def revoke(
    *,
    data_dir: DataDir,
    database: Database = None,
    access_id: Annotated[str, typer.Argument(help="Id of the access, as alcove access list shows it.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """End an access and its sessions from now on.  One by claim comes back at the next sign-in: ask the provider."""
    from alcove.platform.domain.errors import ResourceNotFoundError  # noqa: PLC0415
    from alcove.platform.services.auth.local import list_local_tokens, revoke_local_token  # noqa: PLC0415

    known = {one.token_id: one for one in list_local_tokens(data_dir, database=database) if one.subject}
    if access_id not in known:
        raise ResourceNotFoundError("access", access_id)
    found = known[access_id]
    confirm(f"{found.subject} signs in as {found.role}", f"End access {access_id} and its sessions", yes=yes)
    record = revoke_local_token(data_dir, access_id, database=database)
    if as_json:
        print_json({"access_id": record.token_id, "revoked_at_s": record.revoked_at_s})
    else:
        say(f"access {record.token_id} ({record.subject}) is revoked since {when(record.revoked_at_s)}")


_HIDDEN = frozenset({"secret_sha256", "parent_id", "used_at_s"})
