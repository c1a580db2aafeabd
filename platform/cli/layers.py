"""`alcove model verify --layers`: compares a module layer by layer with torch, and names the first that departs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from alcove.platform.cli.exporting import made_by
from alcove.platform.cli.output import print_json, print_rows, say

__all__ = ["verify_layers"]


def verify_layers(path: Path, factory: str, *, as_json: bool) -> None:
    """Print each layer of a factory's module, native against eager, and how far the program is from the module.

    Raises:
        typer.BadParameter: no such factory, or no torch.
        typer.Exit: with status 1 if a layer departs, or a float32 program's outputs are not the module's.
        AlcoveRuntimeError: the program is refused, or the module cannot be exported.
    """
    try:
        from alcove.runtime.certificate import TOLERANCES  # noqa: PLC0415 - loads pydantic
        from alcove.runtime.compiler import layers  # noqa: PLC0415 - loads torch
    except ImportError as error:
        problem = f"needs torch: pip install 'alcove-platform[export]' ({error})"
        raise typer.BadParameter(problem) from None
    module, args, _ = made_by(factory)
    data = path.read_bytes()
    program = layers.compare_program(data, module, args)
    found = layers.compare_layers(module, args)
    is_quantized = layers.is_quantized(data)
    is_other = not is_quantized and not program <= TOLERANCES["standard"]
    step = layers.first_other_step(data, module, args) if is_other else None
    where = "" if step is None else f"op {step[0]}, {step[1].name}, {step[1].source}".rstrip(", ")
    first = next((layer for layer in found if not layer.is_within), None)
    rows: list[dict[str, Any]] = [asdict(layer) for layer in found]
    if as_json:
        facts = {"layers": rows, "first": None if first is None else first.layer, "program_difference": program}
        print_json(facts | {"program_is_other": is_other, "program_first": where or None})
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
        kind = " (its weights are rounded)" if is_quantized else ""
        say(f"the program's outputs differ by {program:.3g} at most{kind}")
        say("every layer agrees" if first is None else f"first to depart: {first.layer}, {first.source}")
        if is_other:
            say(f"the program is not of this module; its first step that differs: {where or 'none'}")
    if first is not None or is_other:
        raise typer.Exit(1)
