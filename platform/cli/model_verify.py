"""`alcove model verify`: proves programs and packages whole, and compares the layers of one with torch."""

from pathlib import Path
from typing import Annotated, Any

import typer
from alcove.platform.cli.output import AsJson, print_json, say, say_text

__all__ = ["verify"]


def verify(
    *,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Programs (.alc), or folders with a package.")],
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="Compare each layer of this torch module, native against eager, and the one program with it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check structure, every weight's digest and the certificate; of a package also its manifest and card.

    Every path is checked, also after one that is damaged.  With --json one path gives an object, several a list of
    those that are sound.
    """
    if layers is not None:
        from alcove.platform.cli.layers import verify_layers  # noqa: PLC0415 - loads torch

        if len(paths) > 1:
            raise typer.BadParameter(f"compares one program, got {len(paths)}", param_hint="--layers")
        verify_layers(paths[0], layers, as_json=as_json)
        return
    sound = [facts for path in paths if (facts := _check(path)) is not None]
    if as_json and (sound or len(paths) > 1):
        print_json(sound[0] if len(paths) == 1 else sound)
    elif not as_json:
        for facts in sound:
            listed = ", ".join(f"{key} {value}" for key, value in facts.items() if key != "path")
            say(f"{facts['path']}: {listed}: sound")
    if len(sound) < len(paths):
        raise typer.Exit(1)


def _check(path: Path) -> dict[str, Any] | None:
    """Return what is known of a sound program or package; None, and say why on standard error, of another."""
    try:
        return _package_facts(path) if path.is_dir() else _program_facts(path)
    except Exception as error:
        from alcove.platform.cli.failures import explain  # noqa: PLC0415 - loads the client of the server

        explained = explain(error)
        if explained is None:
            raise
        message = explained[0].removeprefix(f"{path}: ")
        say_text(f"alcove: {path}: {message}", err=True)
        return None


def _package_facts(path: Path) -> dict[str, Any]:
    from alcove.registry.package import read_package, verify_package  # noqa: PLC0415 - loads the runtime

    package = read_package(path)
    verify_package(package)
    return {
        "path": str(path),
        "what": f"package {package.manifest.feature} {package.manifest.version}",
        "variants": [variant.name for variant in package.manifest.variants],
        "manifest_sha256": package.manifest.sha256,
    }


def _program_facts(path: Path) -> dict[str, Any]:
    from alcove.runtime import load  # noqa: PLC0415
    from alcove.runtime.certificate import check_certificate  # noqa: PLC0415

    model = load(path.read_bytes())
    model.verify_weights()
    report = check_certificate(model)
    return {
        "path": str(path),
        "what": "program",
        "digest": model.digest,
        "samples": report.samples,
        "licence": report.licence,
    }
