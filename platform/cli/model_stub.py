"""`alcove model stub`: writes the types of a feature's inputs and answers, for apps and their type checkers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.output import print_json, say
from alcove.platform.cli.references import parse_reference

__all__ = ["stub"]

_FEATURE = re.compile(r"[a-z][a-z0-9_]{0,62}")


def stub(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="FEATURE@VERSION, a program file (.alc), or the name of a feature that is installed."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Python file to write, such as polite.py.")],
    feature: Annotated[
        str, typer.Option(help="Name of the feature, where SOURCE is a file; its name without .alc if not given.")
    ] = "",
    call: CallOptions,
) -> None:
    """Write a typed contract: a class for `client.feature(…)` that says what the feature takes and gives."""
    from alcove.platform.cli.stub_source import class_name, stub_source  # noqa: PLC0415 - loads the SDK

    if out.suffix != ".py" or not out.absolute().parent.is_dir():
        raise typer.BadParameter("name a .py file in a folder that is there", param_hint="--out")
    name, subject, ports = _read(source, feature, call)
    if _FEATURE.fullmatch(name) is None:
        raise typer.BadParameter(
            f"{name!r} is no name of a feature: lower-case letters, digits and _", param_hint="--feature"
        )
    text = stub_source(name, subject, *ports)
    out.write_text(text, encoding="utf-8")
    if call.as_json:
        print_json({"file": str(out), "feature": name, "class": class_name(name)})
    else:
        say(f"{out}: `from {out.stem} import {class_name(name)}`, then `client.feature({class_name(name)})`")


def _read(source: str, feature: str, call: CallOptions) -> tuple[str, str, tuple[Sequence[Any], Sequence[Any]]]:
    """Return a feature's name, what its ports are of, and its inputs and outputs."""
    from alcove.features import catalogue  # noqa: PLC0415 - loads pydantic
    from alcove.sdk.ports import Port, ports_of  # noqa: PLC0415

    if "@" in source and not source.endswith(".alc"):
        named = parse_reference(source)
        with call.connect() as client:
            details = client.version_details(named.feature, version=named.version, alias=named.alias)
        sides = (
            [Port(port.name, port.dtype, port.shape, port.is_ragged, port.labels) for port in side]
            for side in (details.inputs, details.outputs)
        )
        takes, gives = sides
        return named.feature, f"{named.feature} {details.version.version}", (takes, gives)
    from alcove.runtime import load  # noqa: PLC0415 - loads the runtime

    known = catalogue()
    if source in known and not Path(source).exists():
        model = load(known[source].default_program)
        return source, f"{source} {known[source].default_version}", (ports_of(model.inputs), ports_of(model.outputs))
    if not source.endswith(".alc"):
        raise typer.BadParameter(
            f"{source!r} is neither FEATURE@VERSION nor a .alc file; installed features: {', '.join(sorted(known))}",
            param_hint="SOURCE",
        )
    model = load(Path(source).read_bytes())
    name = feature or Path(source).stem
    return (
        name,
        f"the program {model.digest.removeprefix('sha256:')[:16]}",
        (ports_of(model.inputs), ports_of(model.outputs)),
    )
