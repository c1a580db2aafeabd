"""`alcove model diff`: compares two versions of the registry, or two program files."""

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.output import print_diff, print_json, print_table, say
from alcove.platform.cli.references import parse_reference
from alcove.platform.inspection.diff import Figure, ProgramFigures, Side, VariantDiff, VersionDiff, compare, figures_of

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient, Validation

__all__ = ["diff"]

_WEIGHTS_SHOWN: Final = 10

_Side = Annotated[str, typer.Argument(metavar="VERSION|FILE", help="FEATURE@VERSION, FEATURE@ALIAS, or a file (.alc).")]


@dataclass(frozen=True)
class _Measures:
    """Measurements on this machine; without any, the records of validations are compared."""

    is_timed: bool
    is_profiled: bool


def diff(
    *,
    left: _Side,
    right: _Side,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time both on this machine, instead of what validations recorded.")
    ] = False,
    is_profiled: Annotated[
        bool, typer.Option("--by-operator", help="As --measure, and tell what each type of operator takes.")
    ] = False,
    call: CallOptions,
) -> None:
    """Compare two versions or programs: sizes, memory, weights, operators, certificate, times, signature, lineage."""
    names = (left, right)
    measures = _Measures(measure or is_profiled, is_profiled)
    if all(Path(name).is_file() for name in names):  # no server is needed
        sides = [_file(name, measures) for name in names]
    else:
        with call.connect() as client:
            sides = [
                _file(name, measures) if Path(name).is_file() else _version(client, name, measures) for name in names
            ]
    found = compare(*sides)
    if call.as_json:
        print_json(asdict(found))
    else:
        _print(found)


def _file(name: str, measures: _Measures) -> Side:
    figures, signature = figures_of(Path(name).read_bytes(), **vars(measures))
    return Side(name, None, signature, {"default": figures}, {})


def _version(client: "PlatformClient", name: str, measures: _Measures) -> Side:
    from alcove.registry.errors import IntegrityError  # noqa: PLC0415 - loads pydantic
    from alcove.registry.manifest import Manifest  # noqa: PLC0415 - loads pydantic

    named = parse_reference(name)
    details = client.version_details(named.feature, version=named.version, alias=named.alias)
    manifest = Manifest.from_bytes(details.manifest)
    if manifest.sha256 != details.version.manifest_sha256:
        raise IntegrityError("manifest", expected=details.version.manifest_sha256, seen=manifest.sha256)
    programs: dict[str, ProgramFigures] = {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in manifest.variants:
            path = Path(folder) / variant.sha256
            client.download_blob(variant.sha256, path)
            programs[variant.name], _ = figures_of(path.read_bytes(), **vars(measures))
    recorded = {} if measures.is_timed else _recorded_ms(details.validation)
    programs = {
        variant: figures if variant not in recorded else _add_latency(figures, recorded[variant])
        for variant, figures in programs.items()
    }
    lineage = {} if manifest.lineage is None else manifest.lineage.model_dump()
    label = f"{manifest.feature} {manifest.version}"
    return Side(label, details.card, manifest.signature, programs, lineage)


def _recorded_ms(validation: "Validation | None") -> dict[str, float]:
    """Return what the last validation measured, by variant."""
    checks = () if validation is None else validation.checks
    return {
        check.variant: float(check.figure.removesuffix(" ms"))
        for check in checks
        if check.name == "latency" and check.figure.endswith(" ms")
    }


def _add_latency(figures: ProgramFigures, latency_ms: float) -> ProgramFigures:
    return ProgramFigures(**{**vars(figures), "latency_ms": latency_ms})


def _print(found: VersionDiff) -> None:
    for variant in found.variants:
        rows = [_row(figure) for figure in (*variant.figures, *variant.ops)]
        print_table(["", found.left, found.right, "change"], rows, title=f"variant {variant.variant}")
        _print_more(found, variant)
    for side, names in ((found.left, found.only_left), (found.right, found.only_right)):
        if names:
            say(f"only in {side}: {', '.join(names)}")
    if found.lineage:
        print_table(["lineage", found.left, found.right, ""], [_row(figure) for figure in found.lineage])
    if found.breaks:
        say(f"apps that call {found.left} break with {found.right}: " + "; ".join(found.breaks))
    else:
        say(f"apps that call {found.left} can call {found.right}")
    if found.card:
        print_diff(found.card)


def _print_more(found: VersionDiff, variant: VariantDiff) -> None:
    """Print which weights differ, and which types of operators take longer or less long."""
    if variant.weights:
        shown = variant.weights[:_WEIGHTS_SHOWN]
        rows = [[figure.what, *_row(figure)[1:]] for figure in shown]  # names as they are
        title = f"{len(variant.weights)} weights differ" + (", the largest" if len(variant.weights) > len(rows) else "")
        print_table(["bytes of", found.left, found.right, "change"], rows, title=title)
    if variant.times:
        print_table(["µs in", found.left, found.right, "change"], [_row(figure) for figure in variant.times])


def _row(figure: Figure) -> list[str]:
    change = "" if figure.change is None else f"{figure.change:+,.6g}" if figure.change else "same"
    if figure.change and isinstance(figure.left, int | float) and figure.left:
        change += f" ({figure.change / figure.left:+.1%})"
    return [figure.what.replace("_", " "), _text(figure.left), _text(figure.right), change]


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{int(value):,}" if value == int(value) else f"{value:,.6g}"
