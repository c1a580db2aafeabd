"""`alcove keys`: makes all keys and the first signed tree, and adds the commands of later changes."""

import contextlib
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli import key_changes
from alcove.platform.cli.files import online_folder
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, print_rows, say
from alcove.registry.layout import metadata_file
from alcove.runtime.files import DISK, replace_file

if TYPE_CHECKING:
    from alcove.registry.keys import KeyRing

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Make, show and change signing keys.")
for _name, _verb in (
    ("new", key_changes.new),
    ("public", key_changes.public),
    ("init", key_changes.init),
    ("rotate", key_changes.rotate),
    ("renew", key_changes.renew),
    ("add-team", key_changes.add_team),
    ("own", key_changes.own),
    ("raise-min-version", key_changes.raise_min_version),
    ("reinstate", key_changes.reinstate),
    ("sign", key_changes.sign),
    ("status", key_changes.status),
):
    app.command(_name)(_verb)

Teams = Annotated[
    list[str],
    typer.Option("--team", metavar="NAME=FEATURE[,FEATURE…]", help="A team and the features that it owns; repeatable."),
]


@app.command("create")
def create(
    *,
    directory: Annotated[
        Path, typer.Argument(help="Folder for the keys; absent, empty, or of an unfinished ceremony.")
    ],
    team: Teams,
    data_dir: Annotated[Path, typer.Option(help="The server's data folder; the signed tree is made there.")] = Path(
        "server"
    ),
    online: Annotated[
        Path | None, typer.Option(help="Folder for the server's keys; DATA_DIR-keys if it is not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make offline, online and team keys (0600), the signed tree, and root.json for the apps.

    The server's keys lie apart from everybody else's: a server does not start with those beside its own.
    """
    from alcove.registry.ceremony import initialize_repository  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.online_keys import note_ceremony  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.repository import Repository  # noqa: PLC0415 - loads the signed tree's libraries

    teams = _teams(team)
    server_keys = online or online_folder(data_dir)
    tree_folder = data_dir / "tree"
    root = directory / "root.json"
    if root.exists():
        raise typer.BadParameter(f"{directory} holds the keys of a finished ceremony; another tree has keys of its own")
    is_whole = (tree_folder / metadata_file("timestamp")).exists()
    if is_whole and not _is_signed_by(tree_folder, directory):
        raise typer.BadParameter(f"{data_dir} holds a signed tree already; keys are never made twice for one tree")
    keyring = _keyring(directory, teams, server_keys)
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_whole:
        initialize_repository(tree_folder, keyring, teams)
    note_ceremony(server_keys, directory)
    replace_file(DISK, root, Repository(tree_folder).root_bytes())  # the ceremony is finished when this file is there
    if as_json:
        print_json(
            {
                "keys": str(directory),
                "online": str(server_keys),
                "tree": str(tree_folder),
                "root": str(root),
                "teams": teams,
            }
        )
        return
    say(f"keys         {directory}/offline (move it to a safe), {directory}/teams (give each team its own)")
    say(f"server keys  {server_keys} (nobody else's)")
    say(f"trusted root {root} (ships inside the apps)")
    say(f"signed tree  {tree_folder}")
    say(f"next         alcove serve --data-dir {data_dir}{'' if online is None else f' --keys {online}'}")


@app.command("show")
def show(
    *,
    directory: Annotated[Path, typer.Argument(help="Folder that alcove keys create made, or any part of it.")],
    as_json: AsJson = False,
) -> None:
    """List the keys in a folder: what each is for, its public id, and whether its file is private."""
    from alcove.registry.keys import OFFLINE_ROLES, ONLINE_ROLES  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.online_keys import URI  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.signers import load_key  # noqa: PLC0415 - loads the signed tree's libraries

    rows = [
        {
            "role": f"team {path.stem}" if path.parent.name == "teams" else path.stem,
            "kept": "offline" if path.stem in OFFLINE_ROLES else "online" if path.stem in ONLINE_ROLES else "team",
            "key_id": load_key(path).keyid,
            "mode": f"{stat.S_IMODE(path.stat().st_mode):04o}",
        }
        for path in sorted(path for path in directory.rglob("*") if path.suffix in (".pem", URI))
    ]
    print_rows(rows, as_json=as_json, empty=f"no key in {directory}")


@app.command("accept")
def accept(
    *,
    change: Annotated[
        list[Path], typer.Argument(metavar="CHANGE...", help="The signed file, or several signed copies of it.")
    ],
    data_dir: Annotated[Path, typer.Option(help="The server's data folder; the ceremony's change makes the tree.")],
    keys: Annotated[
        Path, typer.Option(help="The server's keys; a key to change to lies there as ROLE.next.pem, .uri.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make a change part of the signed tree once enough have signed; repeating after any failure is safe.

    Where one of the server's own keys changes, no server may run on the data folder meanwhile: it would continue to
    sign with the key that no device trusts any more.
    """
    from alcove.registry.online_keys import key_file, online_candidates, online_keys_trusted, settle_online_keys  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.repository import Repository  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.trust import online_trust  # noqa: PLC0415 - loads the signed tree's libraries

    first, *copies = [key_changes.read_change(path) for path in change]
    merged = first.merge(copies)
    tree = Repository(data_dir / "tree")
    is_new = not (data_dir / "tree" / metadata_file("timestamp")).exists()
    state = None if is_new else tree.read_state_before(merged)
    root = merged.root() or (None if state is None else state.root)
    targets = merged.targets() or (None if state is None else state.targets)
    if root is None or targets is None:
        raise typer.BadParameter(f"{data_dir} holds no tree, and this is no first change of one", param_hint="CHANGE")
    trusted = online_trust(root, targets)
    candidates = online_candidates(keys)
    with contextlib.ExitStack() as stack:
        if is_new:
            (data_dir / "tree").mkdir(mode=0o700, parents=True, exist_ok=True)
        elif state is not None and trusted != online_trust(state.root, state.targets):
            from alcove.platform.server.settings import Settings  # noqa: PLC0415
            from alcove.platform.server.startup_checks import hold_data_folder  # noqa: PLC0415 - only a server's machine has it

            stack.enter_context(hold_data_folder(Settings(data_dir=data_dir, online_keys=keys)))
        changed = tree.accept_request(merged, online_keys_trusted(keys, trusted), old_keys=candidates)
        settled = settle_online_keys(keys, trusted)
    if as_json:
        print_json({"changed": changed, "keys_in_use": settled})
        return
    say(f"accepted: {', '.join(changed)}" if changed else "accepted before; nothing changed")
    for role in settled:
        say(f"{key_file(keys, role)} is the new key now; the old one is gone")


def _teams(texts: list[str]) -> dict[str, tuple[str, ...]]:
    from alcove.registry.rules import check_teams  # noqa: PLC0415 - loads the signed tree's libraries

    teams: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, features = key_changes.parse_team(text)
        if name in teams:
            raise typer.BadParameter(f"write each team once; got {text!r}", param_hint="--team")
        teams[name] = tuple(features)
    try:
        return check_teams(teams)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--team") from None


def _keyring(directory: Path, teams: dict[str, tuple[str, ...]], online: Path) -> "KeyRing":
    """Return new keys, or those of a ceremony that was interrupted; the server's lie in `online` then."""
    from alcove.registry.keys import create_keys, load_keys  # noqa: PLC0415 - loads the signed tree's libraries

    made = directory / "online"
    if not (directory / "offline").is_dir():
        if online.exists() and any(online.iterdir()):
            raise typer.BadParameter(f"{online} is not empty; keys are never overwritten")
        create_keys(directory, teams=teams)
    if made.is_dir():
        try:
            online.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if online.exists():
                online.rmdir()
            shutil.move(made, online)
        except OSError as error:
            raise typer.BadParameter(f"{made} cannot be moved to {online}: {error.strerror}") from None
    return load_keys(directory, online=online)


def _is_signed_by(tree_folder: Path, directory: Path) -> bool:
    """True where the root key in `directory` made the tree: all that its ceremony lacks is root.json."""
    from alcove.registry.keys import load_signer  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.repository import Repository  # noqa: PLC0415 - loads the signed tree's libraries

    path = directory / "offline" / "root.pem"
    return (
        path.is_file()
        and load_signer(path).public_key.keyid in Repository(tree_folder).state().root.roles["root"].keyids
    )
