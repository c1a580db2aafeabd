"""`alcove model inspect`: describes a program in a terminal, as JSON, or as one page of HTML."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from alcove.platform.cli.options import MethodName
from alcove.platform.cli.output import AsJson, print_json, print_table, say

__all__ = ["inspect"]

_WEIGHTS_SHOWN: Final = 10


def inspect(
    *,
    program: Annotated[Path, typer.Argument(help="Program file (.alc).")],
    html: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Write graph, memory plan, operators and weights as one page of HTML."),
    ] = None,
    is_profiled: Annotated[
        bool, typer.Option("--profile", help="Run it on this machine too, and add each operator's time.")
    ] = False,
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="VALUE", help="Input for --profile: as `alcove model profile` takes it."),
    ] = None,
    method: MethodName = None,
    as_json: AsJson = False,
) -> None:
    """Show what a program takes, gives, needs and does, what it promises, and where it comes from."""
    from alcove.platform.cli.program_summary import summarize_file  # noqa: PLC0415 - other verbs do not load the runtime
    from alcove.platform.inspection.page import page_of  # noqa: PLC0415

    if html is not None and not html.absolute().parent.is_dir():
        raise typer.BadParameter(f"{html.absolute().parent} is no folder", param_hint="--html")
    if given and not is_profiled:
        raise typer.BadParameter("inputs are for --profile", param_hint="--input")
    profile = None
    if is_profiled:
        from alcove.platform.cli.model_profile import profile_file  # noqa: PLC0415

        profile, _ = profile_file(program.read_bytes(), given or [], method=method)
    facts = summarize_file(program, profile, method)
    if html is not None:
        html.write_text(page_of(facts), encoding="utf-8")
    if as_json:
        print_json(facts)
    elif html is not None:
        say(f"{html}: {html.stat().st_size:,} bytes, {len(facts['ops'])} operators; it needs no network")
    else:
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    say(f"sha256 {facts['digest']}, format {facts['format']}")
    say(
        f"{facts['size_bytes']:,} bytes, of them {facts['weights_bytes']:,} weights; a session takes at most "
        f"{facts['memory_ceiling_bytes']:,} bytes more (arena {facts['arena_bytes']:,})"
    )
    for line in (*_certificate(facts["certificate"]), *_provenance(facts["provenance"])):
        say(line)
    if len(facts["methods"]) > 1:
        say(f"methods: {', '.join(facts['methods'])}; this is {facts['method']} (--method shows another)")
    if facts["states"]:
        say(f"keeps from run to run: {', '.join(facts['states'])}")
    ports = [
        [port["direction"], port["name"], port["dtype"], _dims(port), str(port["labels"] or "")]
        for port in facts["ports"]
    ]
    print_table(["", "name", "type", "shape", "labels"], ports)
    has_times = "profile" in facts
    columns = ["#", "operator", "line", "takes", "gives", "weights", "MFLOP", *(["time"] if has_times else [])]
    rows = [
        [
            str(op["index"]),
            " + ".join(op["parts"]) if len(op["parts"]) > 1 else _with_function(op),
            op["source"],
            op["takes"],
            op["gives"],
            f"{op['weight_bytes']:,}" if op["weight_bytes"] else "",
            f"{op['flops'] / 1e6:,.3f}" if op["flops"] else "",
            *([f"{op['time_us']:,.2f} µs"] if has_times else []),
        ]
        for op in facts["ops"]
    ]
    at = "".join(f", {size['name']} {size['min']} to {size['max']}" for size in facts["sizes"])
    print_table(columns, rows, title=f"{len(rows)} operators{at and ', at the greatest sizes' + at}")
    weights = facts["weights"]
    largest = [
        [w["name"], w["dtype"], "x".join(map(str, w["shape"])), f"{w['size_bytes']:,}", _share(w, facts)]
        for w in weights[:_WEIGHTS_SHOWN]
    ]
    if largest:
        print_table(
            ["weights", "type", "shape", "bytes", "share"], largest, title=f"{len(weights)} constants, the largest"
        )


def _certificate(certificate: dict[str, Any] | None) -> list[str]:
    if certificate is None:
        return ["no certificate"]
    if "problem" in certificate:
        return [f"certificate: malformed: {certificate['problem']}"]
    samples = f"{certificate['samples']} samples ({certificate['licence']})"
    promise = f"{certificate['tolerance']}: native within {certificate['bound']:g} of torch"
    return [f"certificate: {samples}, {promise}; `alcove model verify` runs them"]


def _provenance(provenance: dict[str, Any]) -> list[str]:
    lines = [f"model: {', '.join(provenance['model_files']) or 'no lines are named'}"]
    package = provenance["package"]
    if package is not None:
        lines.append(f"package: {package['feature']} {package['version']}, variant {package['variant']}")
        lines += [f"  {name.replace('_', ' ')}: {value}" for name, value in (package["lineage"] or {}).items() if value]
    return lines


def _with_function(op: dict[str, Any]) -> str:
    (part,) = op["parts"]
    return op["op"] if part == op["op"] or part.startswith(op["op"] + " ") else f"{op['op']} {part}"


def _dims(port: dict[str, Any]) -> str:
    return ("at most " if port["is_ragged"] else "") + ("x".join(port["dims"]) or "–")


def _share(weight: dict[str, Any], facts: dict[str, Any]) -> str:
    return f"{weight['size_bytes'] / max(1, facts['weights_bytes']):.1%}"
