"""How do program files become a pushed version?"""

from pathlib import Path

import typer
from alcove.platform.cli.files import read_text
from alcove.platform.client import PlatformClient, Version, push_package, recent_programs
from alcove.registry.keys import load_signer
from alcove.registry.manifest import Lineage, Needs
from alcove.registry.package import create_package
from pydantic import ValidationError
from rich.console import Console

__all__ = ["push_programs", "read_needs"]

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1}


def push_programs(
    client: PlatformClient,
    programs: list[str],
    *,
    feature: str,
    version: str,
    team: str,
    key: Path,
    card: Path | None,
    lineage: Lineage | None,
    deltas_from: int,
    needs: list[str],
    is_quiet: bool,
) -> Version:
    """Package `[VARIANT=]FILE` arguments and push the package, signed with the key file.

    Devices that have one of the `deltas_from` newest versions get a delta where it is much smaller than the program.

    Raises:
        typer.BadParameter: a variant is named twice, or needs are not to be read.
        ClientError, RegistryError, OSError: as `push_package`; nothing was published.
    """
    files: dict[str, Path] = {}
    for text in programs:
        variant, _, name = text.rpartition("=")
        if (variant := variant or "default") in files:
            raise typer.BadParameter(f"variant {variant!r} is named twice; write VARIANT=FILE")
        files[variant] = Path(name)
    signer = load_signer(key)
    console = Console(stderr=True, quiet=is_quiet)
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
            needs=dict(read_needs(text) for text in needs),
        )
        return push_package(client, package, signer, progress=status.update)


def read_needs(text: str) -> tuple[str, Needs]:
    """Return the variant and the needs in a text such as "f32:memory=4GiB,cores=4,isa=avx512_vnni".

    Raises:
        typer.BadParameter: it is no such text; the message says what is wrong.
    """
    try:
        variant, fields = _variant_and_fields(text)
        return variant, Needs.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        raise typer.BadParameter(f"{text!r}: {where} {fault['msg']}, got {str(fault['input'])[:50]!r}") from None
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
