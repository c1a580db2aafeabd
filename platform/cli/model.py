"""`alcove model`: compiles, shows and runs programs; what needs a server, or compares, is in the files beside this."""

import json
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from alcove.platform.cli.options import CommandGroup, MethodName
from alcove.platform.cli.output import AsJson, print_json, print_table, say, say_text, show_progress

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["make_app"]

OTHERS: Final = MappingProxyType(
    {
        "inspect": "model_inspect.inspect",
        "verify": "model_verify.verify",
        "profile": "model_profile.profile",
        "generate": "model_generate.generate",
        "import": "model_import.import_command",
        "push": "model_registry.push",
        "list": "model_registry.list_command",
        "show": "model_registry.show",
        "download": "model_registry.download",
        "stub": "model_stub.stub",
        "diff": "model_diff.diff",
        "validate": "model_life.validate",
        "release": "model_life.release",
        "deprecate": "model_life.deprecate",
        "revoke": "model_life.revoke",
        "rules": "model_life.rules",
        "alias": "model_alias.app",
        "tag": "model_tag.app",
    }
)
"""Module beside this and name in it, by command."""

ProgramFile = Annotated[Path, typer.Argument(help="Program file (.alc).")]


def export(
    *,
    factory: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FACTORY",
            help="A module or a .py file, and a function in it that returns (module, args) or (module, args, samples).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the program to.")],
    quantize: Annotated[
        str | None,
        typer.Option(
            help="int8 (tables; with --calibration weights and activations), int8_dynamic, int8_weights, "
            "int4_dynamic, int4_weights, float16_weights, bfloat16_weights."
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Returns real inputs, from which int8 ranges are taken."),
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(help="Most noise of the outputs, as a share of their energy; layers stay float32 for it."),
    ] = None,
    licence: Annotated[
        str, typer.Option(help="License of the certificate's samples: 'own text', 'procedural', …")
    ] = "procedural",
    tolerance: Annotated[
        str,
        typer.Option(
            help="Tolerance of native against torch: exact, tight, standard or quantized; by --quantize if empty."
        ),
    ] = "",
    growth_bytes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Bytes by which weights may grow to be faster (Winograd's form of 3x3 convolutions); 0 for the "
            "smallest program; if it is not given 8 MiB, or 0 with weights of 16 bits.",
        ),
    ] = None,
    cast: Annotated[
        str | None,
        typer.Option(help="float32 for a module in half, bfloat16 or double: its program computes in float32."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the graph after each pass of the compiler.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a torch module to a certified program; everything unsupported is listed at once."""
    from alcove.platform.cli.exporting import (  # noqa: PLC0415 - loads torch, once it is called
        ExportOptions,
        export_factory,
        validate_arguments,
        validate_out_path,
    )

    options = ExportOptions(quantize, calibration, max_drop, licence, tolerance, growth_bytes, cast)
    validate_out_path(out)
    validate_arguments(factory, options)
    from alcove.runtime.errors import ExportError  # noqa: PLC0415 - loads numpy

    try:
        with show_progress(of="names", quiet=as_json) as progress:
            task = progress.add_task("import", total=None)
            program = export_factory(factory, options, lambda step: progress.update(task, description=step))
    except ExportError as error:
        if as_json:
            print_json({"findings": [asdict(finding) for finding in error.findings]})
        raise
    program.save(out)
    report = program.quantization
    if explain:
        say_text(program.explain(), err=as_json)
    facts: dict[str, Any] = {"file": str(out), "size_bytes": len(bytes(program)), "digest": program.digest}
    if as_json:
        print_json(facts | {"quantization": None if report is None else json.loads(report.to_json())})
    else:
        if report is not None:
            print_table(report.columns, report.rows(), title=report.title)
        say(f"{out}: {facts['size_bytes']} bytes, sha256 {program.digest}")


def run(
    *,
    program: ProgramFile,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Values of one input, in order of the inputs: a text, a JSON array, or @FILE.npy for the array in it."
        ),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="Values of the input of this name instead; repeatable."),
    ] = None,
    method: MethodName = None,
    as_json: AsJson = False,
) -> None:
    """Run a program once, natively, on this machine."""
    from alcove.platform.cli.running import run_program  # noqa: PLC0415 - loads the runtime

    outputs = run_program(program.read_bytes(), inputs or [], method, named or [])
    if as_json:
        print_json(outputs)
    else:
        print_table(
            ["output", "value"], [[name, json.dumps(value, ensure_ascii=False)] for name, value in outputs.items()]
        )


def make_app(command: str | None = None) -> CommandGroup:
    """Return `alcove model` with one command loaded, or with all where there is none of this name."""
    app = CommandGroup(
        no_args_is_help=True,
        help="Compile, inspect and run programs; push versions, find them again, release and revoke them.",
    )
    here: dict[str, Callable[..., None]] = {"export": export, "run": run}
    for name, place in OTHERS.items():
        if command in (OTHERS | here) and name != command:
            continue
        module, _, attribute = place.partition(".")
        found = getattr(import_module(f"alcove.platform.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    for name, function in here.items():
        app.command(name)(function)
    return app
