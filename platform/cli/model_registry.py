"""`alcove model push | list | show | download`: brings versions to the registry, and finds them again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.declared_parameters import declared_parameters, show_parameters
from alcove.platform.cli.output import plain, print_json, print_markdown, print_rows, say, show_progress, when
from alcove.platform.cli.references import VersionArgument, parse_reference
from alcove.platform.domain.states import VersionState

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient, VersionDetails

__all__ = ["download", "list_command", "push", "show"]


def push(
    *,
    programs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VARIANT=]FILE…", help="Program files, VARIANT=FILE; a file alone is the variant 'default'."
        ),
    ] = None,
    feature: Annotated[str, typer.Option(help="Name of the feature, such as language_id.")] = "",
    version: Annotated[str, typer.Option(help="Version to publish, MAJOR.MINOR.PATCH.")] = "",
    team: Annotated[str, typer.Option(help="The team that owns the feature.")] = "",
    key: Annotated[
        list[Path] | None,
        typer.Option(help="The team's private key, or each at hand; it is read here and goes nowhere."),
    ] = None,
    cosigner: Annotated[
        list[Path] | None, typer.Option(help="Public key file of another member; what they signed counts; repeatable.")
    ] = None,
    threshold: Annotated[int, typer.Option(min=1, help="Number of the team's members that have to sign.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Publish nothing yet: write a change that cosigners sign (alcove keys sign).")
    ] = None,
    signed: Annotated[
        list[Path] | None,
        typer.Option(help="Publish a signed change, or several signed copies of it; give nothing else."),
    ] = None,
    card: Annotated[Path | None, typer.Option(help="The model card (Markdown).")] = None,
    training_run: Annotated[str, typer.Option(help="Lineage: id of the training run; signed, never changed.")] = "",
    code_revision: Annotated[
        str, typer.Option(help="Lineage: revision of the training code, such as a commit's id.")
    ] = "",
    data: Annotated[str, typer.Option(help="Lineage: training data of the model, in words.")] = "",
    parent: Annotated[str, typer.Option(help="Lineage: published version that this one was trained from.")] = "",
    deltas_from: Annotated[
        int, typer.Option(min=0, max=4, help="Newest versions that devices get a delta from; 0: whole programs only.")
    ] = 3,
    requirements: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIANT:memory=4GiB,cores=4,isa=avx512",
            help="Requirements of a variant; a device takes the fitting variant that requires most.",
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            metavar="NAME:TYPE=DEFAULT:BOUNDS",
            help="A value that apps read beside answers: threshold:float=0.5:0.1..0.9, enabled:bool=true; repeatable.",
        ),
    ] = None,
    descriptions: Annotated[
        list[str] | None,
        typer.Option("--parameter-description", metavar="NAME=WORDS", help="What a parameter does; repeatable."),
    ] = None,
    call: CallOptions,
) -> None:
    """Package, verify, upload, sign on this machine, and publish a version; repeat it after an interruption.

    Where several of a team have to sign: --out FILE, then `alcove keys sign FILE` by each, then push --signed FILE.
    """
    from alcove.platform.cli.pushing import TeamKeys, push_programs, push_signed  # noqa: PLC0415 - loads the runtime
    from alcove.registry.manifest import Lineage  # noqa: PLC0415

    needed = {"[VARIANT=]FILE": programs, "--feature": feature, "--version": version, "--team": team, "--key": key}
    lacking = [name for name, value in needed.items() if not value]
    if signed and len(lacking) < len(needed):
        raise typer.BadParameter("everything is in the signed change: give no file, feature, version, team or key")
    if lacking and not signed:
        raise typer.BadParameter(f"also give {', '.join(lacking)}, or --signed CHANGE")

    lineage = {"training_run": training_run, "code_revision": code_revision, "data": data, "parent": parent}
    with call.connect() as client:
        was_there = not signed and _is_published(client, feature, version)
        pushed = (
            push_signed(client, signed)
            if signed
            else push_programs(
                client,
                programs or [],
                feature=feature,
                version=version,
                team=team,
                keys=TeamKeys(key or (), cosigner or (), threshold),
                out=out,
                card=card,
                lineage=Lineage.model_validate(lineage) if any(lineage.values()) else None,
                deltas_from=deltas_from,
                requirements=requirements or [],
                parameters=parameters or [],
                descriptions=descriptions or [],
                is_quiet=call.as_json,
            )
        )
    if pushed is None:
        if call.as_json:
            print_json({"change": str(out)})
        else:
            say(f"{out} waits for cosigners: alcove keys sign {out} --key KEY, then push --signed {out}")
    elif call.as_json:
        print_json(pushed)
    else:
        say(
            f"{pushed.feature} {pushed.version} was published before, with the same bytes: nothing changed"
            if was_there
            else f"{pushed.feature} {pushed.version} is published (manifest {pushed.manifest_sha256})",
            f"next: alcove model validate {pushed.feature}@{pushed.version}",
        )


def _is_published(client: "PlatformClient", feature: str, version: str) -> bool:
    from alcove.platform.client import NotFoundError  # noqa: PLC0415 - loads gRPC

    try:
        client.version_details(feature, version=version)
    except NotFoundError:
        return False
    return True


def list_command(
    *,
    feature: Annotated[str, typer.Option(help="List only what belongs to this feature.")] = "",
    team: Annotated[str, typer.Option(help="List only what belongs to this team.")] = "",
    state: Annotated[
        list[VersionState] | None,
        typer.Option(help="List only versions in this state; repeatable."),
    ] = None,
    alias: Annotated[str, typer.Option(help="List only what this alias points to.")] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY[=VALUE]", help="List only versions with this tag; repeatable, all must fit."),
    ] = None,
    text: Annotated[str, typer.Option(help="Words that must all occur in names, lineage, model card or tags.")] = "",
    order: Annotated[
        Literal["oldest", "newest", "highest"],
        typer.Option(help="Sort by time of publication, or by feature with the highest version first."),
    ] = "oldest",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Largest number of versions to list; by default all.")
    ] = None,
    call: CallOptions,
) -> None:
    """List published versions; every filter that is given must fit."""
    tags = {key: value for key, _, value in (item.partition("=") for item in tag or [])}
    with call.connect() as client:
        versions = client.versions(
            feature, team=team, states=state or (), alias=alias, tags=tags, text=text, order=order, limit=limit
        )
    if call.as_json:
        print_json(versions)
        return
    rows = [
        {
            "feature": version.feature,
            "version": version.version,
            "state": version.state,
            "aliases": ", ".join(f"@{name}" for name in version.aliases),
            "tags": ", ".join(f"{tag.key}={tag.value}" for tag in version.tags),
            "team": version.team,
            "variants": ", ".join(f"{v.name} ({v.size_bytes / 1e6:.2f} MB)" for v in version.variants),
            "published": when(version.published_at_s),
        }
        for version in versions
    ]
    print_rows(rows, as_json=False, empty="no such version: alcove model push")


def show(*, name: VersionArgument, call: CallOptions) -> None:
    """Show all that is known of a version: state, lineage, signature, parameters, checks, history and model card."""
    named = parse_reference(name)
    with call.connect() as client:
        details = client.version_details(named.feature, version=named.version, alias=named.alias)
    declared = declared_parameters(details.manifest)
    if call.as_json:
        print_json(details.model_dump(mode="json", exclude={"manifest"}) | declared)
    else:
        _print(details)


def _print(details: "VersionDetails") -> None:
    version = details.version
    aliases = "".join(f" @{alias}" for alias in version.aliases)
    say(f"{version.feature} {version.version}{aliases}: {version.state}, of team {version.team}")
    say(f"published {when(version.published_at_s)}, manifest {version.manifest_sha256}")
    lineage = version.lineage.model_dump() if version.lineage else {}
    for field, value in lineage.items():
        if value:
            say(f"{field.replace('_', ' ')}: {value}")
    print_rows([item.model_dump() for item in version.variants], as_json=False, empty="")
    ports = [
        {
            "direction": direction,
            "name": port.name,
            "dtype": port.dtype,
            "shape": list(port.shape),
            "labels": len(port.labels),
        }
        for direction, side in (("input", details.inputs), ("output", details.outputs))
        for port in side
    ]
    print_rows(ports, as_json=False, empty="")
    show_parameters(details.manifest)
    if version.tags:
        rows = [{"tag": t.key, "value": t.value, "set by": t.set_by, "when": when(t.set_at_s)} for t in version.tags]
        print_rows(rows, as_json=False, empty="")
    if details.validation is not None:
        checks = [
            {"check": c.name, "variant": c.variant, "passed": c.is_passed, "figure": c.figure, "bound": c.bound or "-"}
            for c in details.validation.checks
        ]
        title = f"validated {when(details.validation.validated_at_s)} by {details.validation.validated_by}"
        print_rows(checks, as_json=False, empty="", title=title)
    moves = [
        {"from": m.from_state, "to": m.to_state, "by": m.moved_by, "when": when(m.moved_at_s), "why": m.reason}
        for m in details.moves
    ]
    print_rows(moves, as_json=False, empty="no state but the first: alcove model validate")
    print_markdown(details.card)


def download(
    *,
    name: VersionArgument,
    variant: Annotated[str, typer.Option(help="The program of this variant; needed where there are several.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; FEATURE-VERSION-VARIANT.alc if it is not given.")
    ] = None,
    call: CallOptions,
) -> None:
    """Download a program, verified against its digest; a download that was cut continues where it ended."""
    named = parse_reference(name)
    with call.connect() as client:
        details = client.version_details(named.feature, version=named.version, alias=named.alias)
        version = details.version
        if version.state == "revoked":
            raise typer.BadParameter(f"{version.feature} {version.version} is revoked")
        programs = {item.name: item for item in version.variants}
        if variant not in programs and (variant or len(programs) > 1):
            raise typer.BadParameter(
                f"{version.feature} {version.version} has the variants {', '.join(programs)}", param_hint="--variant"
            )
        chosen = programs[variant or next(iter(programs))]
        path = out or Path(f"{version.feature}-{version.version}-{chosen.name}.alc")
        with show_progress(of="bytes", quiet=call.as_json) as progress:
            task = progress.add_task(plain(path.name), total=chosen.size_bytes)
            size_bytes = client.download_blob(
                chosen.sha256, path, progress=lambda done, _all: progress.update(task, completed=done)
            )
    facts = {
        "file": str(path),
        "feature": version.feature,
        "version": version.version,
        "variant": chosen.name,
        "size_bytes": size_bytes,
        "sha256": chosen.sha256,
    }
    if call.as_json:
        print_json(facts)
    else:
        say(f"{path}: {version.feature} {version.version} {chosen.name}, {size_bytes} bytes, {chosen.sha256}")
