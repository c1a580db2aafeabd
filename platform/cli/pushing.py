"""How do program files become a pushed version?"""

from pathlib import Path

import typer
from alcove.platform.cli.files import read_text
from alcove.platform.client import PlatformClient, Version, push_package, recent_programs
from alcove.registry.keys import load_signer
from alcove.registry.manifest import Lineage
from alcove.registry.package import create_package
from rich.console import Console

__all__ = ["push_programs"]


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
    is_quiet: bool,
) -> Version:
    """Package `[VARIANT=]FILE` arguments and push the package, signed with the key file.

    Devices that have one of the `deltas_from` newest versions get a delta where it is much smaller than the program.

    Raises:
        typer.BadParameter: a variant is named twice.
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
        )
        return push_package(client, package, signer, progress=status.update)
