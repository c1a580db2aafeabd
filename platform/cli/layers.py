"""`alcove model verify --layers`: which layer is the first to depart from torch?"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from alcove.platform.cli.exporting import made_by
from alcove.platform.cli.output import print_json, print_rows

__all__ = ["verify_layers"]


def verify_layers(path: Path, factory: str, *, as_json: bool) -> None:
    """Print each layer of a factory's module, native against eager, and how far the program is from the module.

    Raises:
        typer.BadParameter: no such factory, or no torch.
        typer.Exit: with status 1 if a layer departs.
        AlcoveRuntimeError: the program is refused, or the module cannot be exported.
    """
    try:
        from alcove.runtime.compiler.layers import compare_layers, compare_program  # noqa: PLC0415 - loads torch
    except ImportError as error:
        problem = f"needs alcove[export]: pip install 'alcove[export]' ({error})"
        raise typer.BadParameter(problem) from None
    module, args, _ = made_by(factory)
    found = compare_layers(module, args)
    program = compare_program(path.read_bytes(), module, args)
    first = next((layer for layer in found if not layer.is_within), None)
    rows: list[dict[str, Any]] = [asdict(layer) for layer in found]
    if as_json:
        print_json({"layers": rows, "first": None if first is None else first.layer, "program_difference": program})
    else:
        shown = [
            {
                "layer": layer.layer,
                "op": layer.op,
                "source": layer.source,
                "difference": f"{layer.difference:.2g}",
                "": "ok" if layer.is_within else "DEPARTS",
            }
            for layer in found
        ]
        print_rows(shown, as_json=False, empty="no layer")
        typer.echo(f"the program's outputs differ by {program:.3g} at most")
        typer.echo("every layer agrees" if first is None else f"first to depart: {first.layer}, {first.source}")
    if first is not None:
        raise typer.Exit(1)
