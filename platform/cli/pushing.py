"""Pushes program files as a version: with the keys at hand, or through a file that cosigners sign too.

enough keys ─▶ packaged, uploaded, signed, published
too few     ─▶ packaged, uploaded, signed ─▶ FILE ─▶ `alcove keys sign FILE` (each cosigner) ─▶ `push --signed FILE`
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from alcove.platform.cli.files import read_text
from alcove.platform.cli.key_changes import read_change, write_change
from alcove.platform.cli.output import make_console
from alcove.platform.cli.parameters import parse_parameters

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient, Version
    from alcove.registry.manifest import Lineage, Requirements

__all__ = ["TeamKeys", "parse_requirements", "push_programs", "push_signed"]

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1}


@dataclass(frozen=True)
class TeamKeys:
    """Keys that sign for the team.

    Attributes:
        signing: key files that sign here, at least one.
        other_members: key files of others, whose signatures on what is current count.
        threshold: how many of the team have to sign.
    """

    signing: Sequence[Path]
    other_members: Sequence[Path] = ()
    threshold: int = 1


def push_programs(
    client: "PlatformClient",
    programs: list[str],
    *,
    feature: str,
    version: str,
    team: str,
    keys: TeamKeys,
    out: Path | None = None,
    card: Path | None,
    lineage: "Lineage | None",
    deltas_from: int,
    requirements: list[str],
    parameters: list[str],
    descriptions: list[str],
    is_quiet: bool,
) -> "Version | None":
    """Package `[VARIANT=]FILE` arguments and push the package, signed with the key files; None where `out` was written.

    Devices that have one of the `deltas_from` newest versions get a delta where it is much smaller than the program.

    Raises:
        typer.BadParameter: a variant is named twice, requirements or parameters are not to be read, or more keys have
            to sign.
        ClientError, RegistryError, OSError: as `push_package`; nothing was published.
    """
    from alcove.platform.client import draft_push, push_package, recent_programs  # noqa: PLC0415 - loads gRPC
    from alcove.registry.package import create_package  # noqa: PLC0415 - loads pydantic
    from alcove.registry.signers import load_any_signer, load_key  # noqa: PLC0415 - loads the signed tree's libraries

    files: dict[str, Path] = {}
    for text in programs:
        variant, _, name = text.rpartition("=")
        if (variant := variant or "default") in files:
            raise typer.BadParameter(f"variant {variant!r} is named twice; write VARIANT=FILE")
        files[variant] = Path(name)
    if out is None and len(keys.signing) < keys.threshold:
        problem = (
            f"{keys.threshold} keys have to sign, got {len(keys.signing)}: --out FILE writes what cosigners sign too"
        )
        raise typer.BadParameter(problem, param_hint="--key")
    if out is not None and out.exists():
        raise typer.BadParameter(f"{out} exists; a change is drafted once", param_hint="--out")
    signers = [load_any_signer(path, secrets=_prompt) for path in keys.signing]
    other_members = [load_key(path) for path in keys.other_members]
    console = make_console(err=True, quiet=is_quiet)
    with console.status("packaging") as status:
        bases = recent_programs(client, feature, files, but=version, versions=deltas_from, progress=status.update)
        status.update("packaging")
        package = create_package(
            feature=feature,
            team=team,
            version=version,
            programs={variant: path.read_bytes() for variant, path in files.items()},
            card=read_text(card) if card else f"# {feature} {version}\n\nThe team gave no card.\n",
            lineage=lineage,
            bases=bases,
            requirements=dict(parse_requirements(text) for text in requirements),
            parameters=parse_parameters(parameters, descriptions),
        )
        given: dict[str, Any] = {"other_members": other_members, "threshold": keys.threshold, "progress": status.update}
        if out is None:
            return push_package(client, package, signers[0], cosigners=signers[1:], **given)
        change = draft_push(client, package, signers, **given)
        if change is None:  # published before: the same answer as then
            return push_package(client, package, signers[0], cosigners=signers[1:], **given)
    write_change(out, change)
    return None


def push_signed(client: "PlatformClient", files: list[Path]) -> "Version":
    """Publish what enough have signed, in one file or in copies of it.

    Raises:
        RegistryError: a file cannot be read, or they are different changes.
        ClientError: too few signed, or another push came first.
    """
    from alcove.platform.client import publish_signed  # noqa: PLC0415 - loads gRPC

    first, *copies = [read_change(path) for path in files]
    return publish_signed(client, first.merge(copies))


def _prompt(what: str) -> str:
    return str(typer.prompt(what, hide_input=True))


def parse_requirements(text: str) -> "tuple[str, Requirements]":
    """Return the variant and the requirements in a text such as "f32:memory=4GiB,cores=4,isa=avx512_vnni".

    Raises:
        typer.BadParameter: it is no such text; the message says what is wrong.
    """
    from alcove.registry.canonical import fault_text  # noqa: PLC0415 - loads pydantic
    from alcove.registry.manifest import Requirements  # noqa: PLC0415 - loads pydantic
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    try:
        variant, fields = _variant_and_fields(text)
        return variant, Requirements.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        raise typer.BadParameter(
            f"{text!r}: {where}: expected {fault_text(fault)}, got {str(fault['input'])[:50]!r}"
        ) from None
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}; write VARIANT:memory=4GiB,cores=4,isa=avx512") from None


def _variant_and_fields(text: str) -> tuple[str, dict[str, object]]:
    variant, colon, rest = text.partition(":")
    if not variant or not colon:
        raise ValueError("a variant and a colon come first")
    fields: dict[str, object] = {}
    for item in rest.split(","):
        name, _, value = item.partition("=")
        if name not in ("isa", "memory", "cores") or name in fields:
            raise ValueError(f"isa, memory and cores are known, each once, not {name!r}")
        fields[name] = value if name == "isa" else _number(value) if name == "memory" else int(value)
    memory_bytes = fields.pop("memory", 0)
    return variant, {**fields, "memory_bytes": memory_bytes}


def _number(text: str) -> int:
    unit = text.lstrip("0123456789")
    if unit not in _UNITS or not text[: len(text) - len(unit)]:
        raise ValueError(f"memory is a number and {', '.join(each for each in _UNITS if each)}, not {text!r}")
    return int(text[: len(text) - len(unit)]) * _UNITS[unit]
