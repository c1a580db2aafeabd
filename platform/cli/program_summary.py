"""Describes a program file: what the program is, with what a package's manifest beside it says of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alcove.platform.cli.running import choose_method
from alcove.platform.inspection.summary import summarize_program
from alcove.runtime import load

if TYPE_CHECKING:
    from alcove.runtime.profile import Profile

__all__ = ["summarize_file"]


def summarize_file(path: Path, profile: "Profile | None" = None, method: str | None = None) -> dict[str, Any]:
    """Return what the program at `path` is, as `summarize_program` says it.

    Args:
        path: of the program; beside it a package's manifest is looked for.
        profile: adds times, and takes operators and memory plan at its sizes.
        method: of which ports, states, operators and weights are told; None for the first.

    Raises:
        ProgramError: its bytes are no valid program.
        typer.BadParameter: it has no such method.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    model = choose_method(load(data), method)
    return summarize_program(data, model, path.name, package=_package(path, model.digest), profile=profile)


def _package(path: Path, digest: str) -> dict[str, Any] | None:
    manifest_file = path.absolute().parent.parent / "manifest.json"
    if not manifest_file.is_file():
        return None
    from alcove.registry.errors import RegistryError  # noqa: PLC0415 - most programs are looked at outside of packages
    from alcove.registry.manifest import Manifest  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        manifest = Manifest.from_bytes(manifest_file.read_bytes())
    except (RegistryError, ValidationError, ValueError):
        return None  # of something else
    names = [variant.name for variant in manifest.variants if variant.sha256 == digest]
    if not names:
        return None
    return {
        "feature": manifest.feature,
        "version": manifest.version,
        "variant": names[0],
        "manifest_sha256": manifest.sha256,
        "lineage": None if manifest.lineage is None else manifest.lineage.model_dump(),
    }
