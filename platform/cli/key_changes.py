"""`alcove keys rotate …`: drafts, signs and accepts changes of who may sign.

rotate | add-team | own | renew | raise-min-version | reinstate | init ─▶ FILE ─▶ sign (each signer) ─▶ accept
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, when
from alcove.platform.domain.errors import InvalidFieldError
from alcove.registry import limits
from alcove.registry.errors import MissingTargetError, PublishError, StorageError
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.files import DISK, read_bounded, replace_file

if TYPE_CHECKING:
    from alcove.registry.rotation import Draft
    from alcove.registry.signing_request import SigningRequest
    from tuf.api.metadata import DelegatedRole, Targets  # type: ignore[attr-defined]  # list no public names

__all__ = [
    "add_team",
    "init",
    "new",
    "own",
    "parse_team",
    "public",
    "raise_min_version",
    "read_change",
    "reinstate",
    "renew",
    "rotate",
    "sign",
    "status",
    "write_change",
]

File = Annotated[
    Path, typer.Argument(metavar="CHANGE", help="File that signers pass on, with the change and its signatures.")
]
DataDir = Annotated[Path, typer.Option(help="The server's data folder, or a copy of it: tree/metadata is read.")]
Team = Annotated[str, typer.Option(help="Name of the team.")]
Feature = Annotated[str, typer.Option(help="One of the team's features.")]
KeyFiles = Annotated[list[Path] | None, typer.Option(help="Public or private key file; repeatable.")]


def read_change(path: Path) -> "SigningRequest":
    """Return the change in a file.

    Raises:
        RegistryError: the file is absent, too long, or no change.
    """
    from alcove.registry.signing_request import SigningRequest  # noqa: PLC0415 - loads the signed tree's libraries

    try:
        data = read_bounded(path, limits.SIGNING_REQUEST_MAX_BYTES)
    except OSError as error:
        raise StorageError(str(path), error.strerror or str(error)) from error
    return SigningRequest.parse(b" " * (limits.SIGNING_REQUEST_MAX_BYTES + 1) if data is None else data)


def _draft_file(path: Path, data_dir: Path, step: "Callable[[Draft], None]", *, as_json: bool) -> None:
    """Write a new change of the tree in a data folder, and say who has to sign it.

    Raises:
        typer.BadParameter: the file is there already; a draft is never edited.
        RegistryError: the tree is damaged, or the change is impossible.
    """
    from alcove.registry.repository import Repository  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.rotation import Draft  # noqa: PLC0415 - loads the signed tree's libraries

    if path.exists():
        raise typer.BadParameter(f"{path} exists; a change is drafted once", param_hint="CHANGE")
    draft = Draft(Repository(data_dir / "tree").state(), now_s=SYSTEM_CLOCK.now_s())
    step(draft)
    write_change(path, draft.draft())
    _show(path, as_json=as_json)


def _show(path: Path, *, as_json: bool) -> None:
    """Print what a change says and who still has to sign it."""
    change = read_change(path)
    rows = [
        {
            "role": need.role,
            "version": change.roles[need.role].signed.version,
            "expires": when(int(change.roles[need.role].signed.expires.timestamp())),
            "keys": need.rule,
            "signed": f"{need.have} of {need.threshold}",
            "may_still_sign": " ".join(need.waiting) or "-",
        }
        for need in change.signature_status()
    ]
    if as_json:
        is_ready = all(need.is_met for need in change.signature_status())
        more = {"adds": _adds(change)} if change.manifests else {}
        print_json({"change": str(path), "is_ready": is_ready, "roles": rows, "trusts": _trusts(change), **more})
        return
    if change.manifests:
        print_rows(_adds(change), as_json=False, empty="no version is new", title="what will be published")
    print_rows(_trusts(change), as_json=False, empty="no key changes", title="what will be trusted")
    print_rows(rows, as_json=False, empty="nothing to sign", title="who signs")


def _adds(change: "SigningRequest") -> list[dict[str, object]]:
    """Return the versions that would be new, as their manifests say; what is signed is the digest."""
    from alcove.registry.manifest import Manifest  # noqa: PLC0415 - loads the signed tree's libraries

    rows: list[dict[str, object]] = []
    for path, digest in change.find_added().items():
        text = change.manifests.get(path, "").encode()
        is_signed = hashlib.sha256(text).hexdigest() == digest
        variants = Manifest.from_bytes(text).variants if is_signed else ()
        sizes = ", ".join(f"{one.name} ({one.size_bytes / 1e6:.2f} MB)" for one in variants)
        described = sizes if is_signed else "THE MANIFEST IS NOT THE SIGNED ONE: do not sign"
        rows.append({"version": path.removesuffix(".json"), "manifest_sha256": digest, "variants": described})
    return rows


def _trusts(change: "SigningRequest") -> list[dict[str, object]]:
    """Return the roles as they would be: threshold, keys, and what a delegated role may sign and could not before."""
    from alcove.registry.rules import delegations  # noqa: PLC0415 - loads the signed tree's libraries

    root, targets = change.root(), change.targets()
    held = {} if root is None else dict(root.roles)
    delegated = {} if targets is None else dict(delegations(targets))
    before = change.current.get("targets")
    known = {} if before is None else delegations(cast("Targets", before.signed))
    return [
        {"role": role, "threshold": part.threshold, "may_sign": "-", "keys": " ".join(part.keyids)}
        for role, part in sorted(held.items())
    ] + [
        {
            "role": role,
            "threshold": part.threshold,
            "may_sign": _grants(part, known.get(role)) if part.paths else "-",
            "keys": " ".join(part.keyids),
        }
        for role, part in sorted(delegated.items())
    ]


def _grants(after: "DelegatedRole", before: "DelegatedRole | None") -> str:
    """Return the paths that a role may sign, a feature's by its name, and which of them it may not sign yet."""
    old = set() if before is None else set(before.paths or ())
    paths = after.paths or ()
    names = [f"{path.removesuffix('/*.json')}{'' if path in old else ' (new)'}" for path in paths]
    lost = [f"{path.removesuffix('/*.json')} (no more)" for path in sorted(old - set(paths))]
    return ", ".join([*names, *lost])


def write_change(path: Path, change: "SigningRequest") -> None:
    """Write a change to its file, whole.

    Raises:
        StorageError: the disk failed.
    """
    try:
        replace_file(DISK, path, change.to_bytes())
    except OSError as error:
        raise StorageError(str(error.filename or path), error.strerror or str(error)) from error


def new(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE.pem", help="File to write the private key to; it must not exist yet.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make a private key (0600) and its folder, and beside it the public key that others are given (FILE.pub)."""
    from alcove.registry.keys import new_key  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.signers import PUBLIC, key_to_bytes  # noqa: PLC0415 - loads the signed tree's libraries

    if file.suffix != ".pem":
        raise typer.BadParameter(f"name it FILE.pem, got {file}", param_hint="FILE.pem")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = new_key(file).public_key
    replace_file(DISK, file.with_suffix(PUBLIC), key_to_bytes(key))
    if as_json:
        print_json({"private": str(file), "public": str(file.with_suffix(PUBLIC)), "key_id": key.keyid})
        return
    say(key.keyid, f"private {file}", f"public  {file.with_suffix(PUBLIC)}")


def public(
    *,
    out: Annotated[
        Path,
        typer.Argument(metavar="FILE.pub", help="File to write; ROLE.uri for a key of the server."),
    ],
    pem: Annotated[Path, typer.Option(help="The public key in PEM, as a token or a key service hands it out.")],
    uri: Annotated[
        str, typer.Option(help="URI of its private key: hsm:…, gcpkms:…, awskms:…, azurekms:…, hv:…, file:…")
    ],
    as_json: AsJson = False,
) -> None:
    """Write the public key file of a private key in a token (PKCS #11) or a cloud's key service."""
    from alcove.registry.signers import key_from_pem, key_to_bytes  # noqa: PLC0415 - loads the signed tree's libraries

    if out.exists():
        raise typer.BadParameter(f"{out} exists", param_hint="FILE.pub")
    key = key_from_pem(pem)
    replace_file(DISK, out, key_to_bytes(key, uri=uri))
    if as_json:
        print_json({"public": str(out), "key_id": key.keyid, "uri": uri})
        return
    say(key.keyid, f"public  {out}")


def sign(
    *,
    change: File,
    key: Annotated[
        list[Path],
        typer.Option(help="Private key file, or a public one that says where its private key is. Repeatable."),
    ],
    as_json: AsJson = False,
) -> None:
    """Sign every role of a change that names these keys; nothing is sent anywhere."""
    from alcove.registry.signers import load_any_signer  # noqa: PLC0415 - loads the signed tree's libraries

    for path in key:
        signer = load_any_signer(path, secrets=lambda what: str(typer.prompt(what, hide_input=True)))
        signed, roles = read_change(change).sign(signer)
        write_change(change, signed)
        if not as_json:
            say(f"signed {', '.join(roles)} with {signer.public_key.keyid}")
    _show(change, as_json=as_json)


def status(*, change: File, as_json: AsJson = False) -> None:
    """Show what a change would have devices trust, and who still has to sign it."""
    _show(change, as_json=as_json)


def rotate(
    *,
    change: File,
    data_dir: DataDir,
    role: Annotated[
        str, typer.Option(help="root, targets, policy, halt, snapshot, timestamp, or the name of a team as team-NAME.")
    ],
    add: KeyFiles = None,
    remove: Annotated[list[str] | None, typer.Option(help="Key file or key id that must not sign any more.")] = None,
    threshold: Annotated[int | None, typer.Option(help="Number of keys of root or targets that have to sign.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a change of a role's keys or threshold."""
    from alcove.registry.signers import load_key  # noqa: PLC0415 - loads the signed tree's libraries

    def step(draft: "Draft") -> None:
        gone = [_key_id(text) for text in remove or ()]
        draft.rotate(role, add=[load_key(path) for path in add or ()], remove=gone, threshold=threshold)

    _draft_file(change, data_dir, step, as_json=as_json)


def _key_id(text: str) -> str:
    from alcove.registry.online_keys import URI  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.signers import PUBLIC, load_key  # noqa: PLC0415 - loads the signed tree's libraries

    return load_key(Path(text)).keyid if text.endswith((".pem", PUBLIC, URI)) else text


def add_team(
    *,
    change: File,
    data_dir: DataDir,
    team: Annotated[
        str, typer.Option(metavar="NAME=FEATURE[,FEATURE…]", help="The new team and the features that it owns.")
    ],
    key: Annotated[list[Path], typer.Option(help="The team's key file; repeatable, one for each member.")],
    as_json: AsJson = False,
) -> None:
    """Draft a new team; the targets' keys and the team's sign."""
    from alcove.registry.signers import load_key  # noqa: PLC0415 - loads the signed tree's libraries

    name, features = parse_team(team)
    _draft_file(
        change, data_dir, lambda d: d.add_team(name, features, [load_key(path) for path in key]), as_json=as_json
    )


def parse_team(text: str) -> tuple[str, Sequence[str]]:
    """Return name and features of NAME=FEATURE[,FEATURE…].

    Raises:
        typer.BadParameter: it reads otherwise.
    """
    from alcove.registry.rules import check_teams  # noqa: PLC0415 - loads the signed tree's libraries

    name, equals, features = text.partition("=")
    if not (name and equals and features):
        raise typer.BadParameter(f"write NAME=FEATURE[,FEATURE…], got {text!r}", param_hint="--team")
    try:
        ((team, names),) = check_teams({name: features.split(",")}).items()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--team") from None
    return team, names


def own(
    *,
    change: File,
    data_dir: DataDir,
    team: Annotated[
        str,
        typer.Option(metavar="NAME=FEATURE[,FEATURE…]", help="A team and the features that it gets besides."),
    ],
    as_json: AsJson = False,
) -> None:
    """Draft further features for a team; the targets' keys sign."""
    name, features = parse_team(team)
    _draft_file(change, data_dir, lambda draft: draft.own(name, features), as_json=as_json)


def renew(
    *,
    change: File,
    data_dir: DataDir,
    role: Annotated[str, typer.Option(help="root, targets or team-NAME; the server renews all others itself.")],
    as_json: AsJson = False,
) -> None:
    """Draft a role's signature for another year, before it expires."""
    _draft_file(change, data_dir, lambda draft: draft.renew(role), as_json=as_json)


def raise_min_version(
    *,
    change: File,
    data_dir: DataDir,
    team: Team,
    feature: Feature,
    min_version: Annotated[str, typer.Option(help="Lowest version that may still run on any device.")],
    as_json: AsJson = False,
) -> None:
    """Draft a higher minimum version of a feature; the team's key signs, and it cannot be undone."""
    from alcove.registry.canonical import version_key  # noqa: PLC0415 - loads the signed tree's libraries

    try:
        version_key(min_version)
    except ValueError as error:
        raise InvalidFieldError("min-version", "MAJOR.MINOR.PATCH", min_version) from error
    _draft_file(change, data_dir, lambda draft: draft.raise_min_version(team, feature, min_version), as_json=as_json)


def reinstate(
    *,
    change: File,
    data_dir: DataDir,
    app: Annotated[str, typer.Option(help="Name of the app in which the version may run again.")],
    team: Team,
    feature: Feature,
    version: Annotated[
        str | None, typer.Option(help="The halted version; leave out where the whole feature is frozen.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draft the reinstatement of what a halt took away; only the team's key can sign it."""
    from alcove.registry.reinstatements import Reinstatement  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.repository import Repository  # noqa: PLC0415 - loads the signed tree's libraries

    halt = Repository(data_dir / "tree").halt(app)
    halted = {} if halt is None else {(i.feature, i.version.version): i.version.manifest_sha256 for i in halt.halted}
    if halt is None or ((feature, version) not in halted if version else feature not in halt.frozen):
        raise MissingTargetError(f"halt of {feature} {version or ''} in {app}".replace("  ", " "))
    digest = halted[feature, version] if version else None
    item = Reinstatement(app=app, feature=feature, manifest_sha256=digest, serial=halt.serial)
    _draft_file(change, data_dir, lambda draft: draft.reinstate(team, item), as_json=as_json)


def init(
    *,
    change: File,
    root_key: Annotated[list[Path], typer.Option(help="Key file of one who signs the root; repeatable.")],
    targets_key: Annotated[list[Path], typer.Option(help="Key file of one who signs the targets; repeatable.")],
    online: Annotated[Path, typer.Option(help="Folder with policy, halt, snapshot and timestamp: .uri, .pub or .pem.")],
    team: Annotated[
        list[str],
        typer.Option(metavar="NAME=FEATURE[,FEATURE…]", help="A team and the features that it owns; repeatable."),
    ],
    team_key: Annotated[list[str], typer.Option(metavar="NAME=FILE", help="A team's key file; repeatable.")],
    root_threshold: Annotated[int, typer.Option(help="Number of root keys that have to sign.")] = 1,
    targets_threshold: Annotated[int, typer.Option(help="Number of targets keys that have to sign.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Draft the first change of a new tree from public keys alone: the ceremony by file exchange."""
    from alcove.registry.ceremony import PublicKeys, make_first_request  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.keys import ONLINE_ROLES  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.signers import load_key  # noqa: PLC0415 - loads the signed tree's libraries

    if change.exists():
        raise typer.BadParameter(f"{change} exists; a change is drafted once", param_hint="CHANGE")
    members: dict[str, list[Path]] = {}
    for text in team_key:
        name, _, path = text.partition("=")
        members.setdefault(name, []).append(Path(path))
    keys = PublicKeys(
        root=[load_key(path) for path in root_key],
        targets=[load_key(path) for path in targets_key],
        online={role: load_key(_public_or_private(online / role)) for role in ONLINE_ROLES},
        teams={name: [load_key(path) for path in paths] for name, paths in members.items()},
        root_threshold=root_threshold,
        targets_threshold=targets_threshold,
    )
    try:
        first = make_first_request(keys, dict(parse_team(text) for text in team), now_s=SYSTEM_CLOCK.now_s())
    except ValueError as error:
        raise PublishError(str(error)) from None
    write_change(change, first)
    _show(change, as_json=as_json)


def _public_or_private(stem: Path) -> Path:
    from alcove.registry.online_keys import URI  # noqa: PLC0415 - loads the signed tree's libraries
    from alcove.registry.signers import PUBLIC  # noqa: PLC0415 - loads the signed tree's libraries

    paths = (stem.with_suffix(URI), stem.with_suffix(PUBLIC))
    return next((path for path in paths if path.exists()), stem.with_suffix(".pem"))
