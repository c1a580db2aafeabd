"""`alcove model`: compiles, shows and runs programs; what needs a server, or compares, is in the files beside this."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from alcove.platform.cli import (
    model_alias,
    model_diff,
    model_generate,
    model_import,
    model_inspect,
    model_life,
    model_profile,
    model_registry,
    model_tag,
)
from alcove.platform.cli.options import CommandGroup, MethodName
from alcove.platform.cli.output import AsJson, print_json, print_table, say, say_text, show_progress
from alcove.runtime.errors import ExportError

__all__ = ["app"]

app = CommandGroup(
    no_args_is_help=True,
    help="Compile, inspect and run programs; push versions, find them again, release and revoke them.",
)
app.command("inspect")(model_inspect.inspect)
app.command("profile")(model_profile.profile)
app.command("generate")(model_generate.generate)
app.command("import")(model_import.import_command)
app.command("push")(model_registry.push)
app.command("list")(model_registry.list_command)
app.command("show")(model_registry.show)
app.command("download")(model_registry.download)
app.command("diff")(model_diff.diff)
app.command("validate")(model_life.validate)
app.command("release")(model_life.release)
app.command("deprecate")(model_life.deprecate)
app.command("revoke")(model_life.revoke)
app.command("rules")(model_life.rules)
app.add_typer(model_alias.app, name="alias")
app.add_typer(model_tag.app, name="tag")

ProgramFile = Annotated[Path, typer.Argument(help="Program file (.alc).")]


@app.command("export")
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
    from alcove.platform.cli.exporting import ExportOptions, export_factory, validate_out_path  # noqa: PLC0415 - loads torch

    validate_out_path(out)
    try:
        options = ExportOptions(quantize, calibration, max_drop, licence, tolerance, growth_bytes, cast)
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


@app.command("verify")
def verify(
    *,
    path: Annotated[Path, typer.Argument(help="A program (.alc), or a folder with a package.")],
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="Compare each layer of this torch module, native against eager, and the program with it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check structure, every weight's digest and the certificate; of a package also its manifest and card."""
    if layers is not None:
        from alcove.platform.cli.layers import verify_layers  # noqa: PLC0415 - loads torch

        verify_layers(path, layers, as_json=as_json)
        return
    if path.is_dir():
        from alcove.registry.package import read_package, verify_package  # noqa: PLC0415 - loads the runtime

        package = read_package(path)
        verify_package(package)
        facts: dict[str, Any] = {
            "what": f"package {package.manifest.feature} {package.manifest.version}",
            "variants": [variant.name for variant in package.manifest.variants],
            "manifest_sha256": package.manifest.sha256,
        }
    else:
        from alcove.runtime import load  # noqa: PLC0415
        from alcove.runtime.certificate import check_certificate  # noqa: PLC0415

        model = load(path.read_bytes())
        model.verify_weights()
        report = check_certificate(model)
        facts = {"what": "program", "digest": model.digest, "samples": report.samples, "licence": report.licence}
    if as_json:
        print_json(facts)
    else:
        say(f"{path}: " + ", ".join(f"{key} {value}" for key, value in facts.items()) + ": sound")


@app.command("run")
def run(
    *,
    program: ProgramFile,
    inputs: Annotated[
        list[str], typer.Argument(help="Values of one input, in order of the inputs: a text, or a JSON array.")
    ],
    method: MethodName = None,
    as_json: AsJson = False,
) -> None:
    """Run a program once, natively, on this machine."""
    from alcove.platform.cli.running import run_program  # noqa: PLC0415 - loads the runtime

    outputs = run_program(program.read_bytes(), inputs, method)
    if as_json:
        print_json(outputs)
    else:
        print_table(
            ["output", "value"], [[name, json.dumps(value, ensure_ascii=False)] for name, value in outputs.items()]
        )
