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
    model_inspect,
    model_life,
    model_profile,
    model_registry,
    model_tag,
)
from alcove.platform.cli.options import CommandGroup, MethodName
from alcove.platform.cli.output import AsJson, make_console, print_json, print_table, say, say_text, show_progress
from alcove.runtime.errors import ExportError

__all__ = ["app"]

app = CommandGroup(
    no_args_is_help=True,
    help="Compile, inspect and run programs; push versions, find them again, release and revoke them.",
)
app.command("inspect")(model_inspect.inspect)
app.command("profile")(model_profile.profile)
app.command("generate")(model_generate.generate)
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


@app.command("import")
def import_command(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the program to.")],
    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:CLASS|timm:NAME|torchvision:NAME|CONFIG",
            help="A module or a .py file and a torch class in it, an architecture of timm or torchvision, or a "
            "transformers config.json (or its folder).",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Its state dict: .pt or .safetensors; no code in it runs."),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="A folder of pictures like those that the app will give."),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="An ONNX file in place of --architecture and --weights; without --pictures its program is float32 and "
            "takes what the file takes.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=1x3x224x224",
            help="Shape of an input of the ONNX file whose sizes vary (a batch that varies is 1); repeatable.",
        ),
    ] = None,
    outputs: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME",
            help="Tensors of the ONNX file to give in place of its outputs: cuts off what follows them.",
        ),
    ] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Argument of the class, whose value is JSON or text; repeatable."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=8,
            max=2048,
            help="Side of the square that the model takes, in pixels; 224 if it is not given, or the ONNX file's own.",
        ),
    ] = None,
    mean: Annotated[
        str, typer.Option(help="Means of red, green and blue over the training pictures, in [0, 1].")
    ] = "0.485,0.456,0.406",
    std: Annotated[
        str, typer.Option(help="Standard deviations of red, green and blue over the training pictures, in [0, 1].")
    ] = "0.229,0.224,0.225",
    samples: Annotated[int, typer.Option(min=1, max=4096, help="Largest number of pictures to calibrate on.")] = 64,
    max_drop: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The share of calibration pictures whose best output int8 may change; layers stay float32, the worst "
            "first, till it changes no more.",
        ),
    ] = 0.05,
    classes: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A file with the name of each output in a line: the pictures' folders are labels by these names. "
            "Without it they are where there are as many folders as outputs, in order of name.",
        ),
    ] = None,
    is_float: Annotated[
        bool, typer.Option("--float32", help="Keep float32 in place of int8: exact, four times the bytes, slower.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a trained model of yours: architecture and state dict, or an ONNX file; a certified program out.

    With pictures it takes pixels and is int8. The answers are compared with torch's in float32 on your pictures, those
    of an ONNX file with ONNX Runtime's too, if it is installed. Inputs of the certificate, which travels in the
    program, are made by a rule, as bright and as dark as your pictures.
    """
    from alcove.platform.cli.exporting import validate_out_path  # noqa: PLC0415

    validate_out_path(out)
    try:
        from alcove.platform.cli.importing import commands  # noqa: PLC0415 - loads torch
    except ImportError as error:
        raise typer.BadParameter(f"needs alcove[export]: pip install 'alcove[export]' ({error})") from None
    given = commands.Given(
        out,
        pictures,
        size,
        commands.three_numbers("--mean", mean),
        commands.three_numbers("--std", std),
        samples,
        None if is_float else commands.Int8(max_drop),
        classes,
    )
    with make_console(err=True).status("reading, exporting, calibrating, certifying") as status:
        if onnx is not None:
            commands.validate_alone({"--architecture": architecture, "--weights": weights, "--option": option})
            show = commands.import_onnx(given, onnx, inputs or [], outputs)
        else:
            commands.validate_alone({"--input": inputs, "--outputs": outputs})
            show = commands.import_architecture(given, architecture, weights, option or [])
        status.stop()
        show(as_json)


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
