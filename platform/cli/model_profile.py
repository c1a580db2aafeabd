"""`alcove model profile`: measures each operator's time on this machine, and how near it is to the machine's limit."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from alcove.platform.cli.options import MethodName
from alcove.platform.cli.output import AsJson, make_console, make_table, plain, print_json, say

if TYPE_CHECKING:
    from alcove.runtime.profile import OpProfile, Profile

__all__ = ["profile", "profile_file"]

_BAR: Final = 12
_MEBI: Final = 1 << 20


class By(Enum):
    """Meaning of a row."""

    OP = "op"
    TYPE = "type"
    MODULE = "module"


@dataclass(frozen=True)
class Row:
    """One operator, or several that are alike; times in microseconds.

    Attributes:
        name: operator, type or module.
        ops: how many.
        index: of the operator, in the order in which they run; -1 for several.
        source: line of the model; "" for several lines.
        shapes: of one operator.
        time_us: together.
        share: of the time of all operators.
        bytes: read and written.
        flops: two for each multiply-add.
        floor_us: what the machine needs at least.
        roofline: floor beside time.
        bound: of one operator: compute or memory.
    """

    name: str
    ops: int
    index: int
    source: str
    shapes: str
    time_us: float
    share: float
    bytes: int
    flops: int
    floor_us: float
    roofline: float
    bound: str


def profile(
    *,
    program: Annotated[Path, typer.Argument(help="Program file (.alc).")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="VALUE",
            help="Values of one input, in order: a text, a JSON array, or @FILE.npy; else the certificate's.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of runs to measure; the table shows their medians.")
    ] = 100,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Number of threads that the session uses.")] = 1,
    by: Annotated[
        By, typer.Option(help="Meaning of a row: an operator, a type of operators, a module of the model.")
    ] = By.OP,
    top: Annotated[int, typer.Option(min=0, help="Number of rows to print, the slowest first; 0: all.")] = 25,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the median run for Perfetto (ui.perfetto.dev) there.")
    ] = None,
    method: MethodName = None,
    as_json: AsJson = False,
) -> None:
    """Show where the time of a run goes: each operator's time, bytes, operations, and how near it is to the limit.

    The limit is measured first, in some tenths of a second: multiply-adds of the instruction set in use, and reads of
    blocks of several sizes. An operator's floor is the greater of its operations at the peak and its bytes at the rate
    of a block as large as what they lie in.
    """
    from alcove.runtime.profile import trace_json  # noqa: PLC0415 - other verbs do not need numpy

    if trace is not None and not trace.absolute().parent.is_dir():
        raise typer.BadParameter(f"{trace.absolute().parent} is no folder", param_hint="--trace")
    found, origin = profile_file(program.read_bytes(), given or [], runs=runs, threads=threads, method=method)
    if trace is not None:
        trace.write_text(trace_json(found, program.name), encoding="utf-8")
    rows = _rows(found, by)
    if as_json:
        print_json(_facts(found, program, origin, by, rows))
        return
    _print(found, f"{program.name}: {found.runs} runs, {origin} inputs", rows, by, top)
    if trace is not None:
        say(f"trace of the median run: {trace} (open it at ui.perfetto.dev, or in chrome://tracing)")


def profile_file(
    program: bytes, given: Sequence[str], *, runs: int = 100, threads: int = 1, method: str | None = None
) -> "tuple[Profile, str]":
    """Return the profile of a program's method, and where its inputs come from: "given", "certificate" or "made".

    Raises:
        typer.BadParameter: words that are no inputs of it, or a method that it lacks.
        AlcoveRuntimeError: the program or an input is refused.
    """
    from alcove.platform.cli.running import choose_method, parse_inputs  # noqa: PLC0415
    from alcove.platform.cli.synthetic_inputs import timed_inputs  # noqa: PLC0415
    from alcove.runtime import load  # noqa: PLC0415
    from alcove.runtime.profile import profile_program  # noqa: PLC0415

    model = choose_method(load(program), method)
    if given:
        inputs, origin = parse_inputs(model, given), "given"
    else:
        sets = timed_inputs(program, model)
        middle = sets[len(sets) // 2]
        inputs, origin = list(middle.inputs), middle.origin
    with make_console(err=True).status(f"measuring this machine, then {runs} runs"):
        return profile_program(program, inputs, runs=runs, threads=threads, method=model.name), origin


def _rows(found: "Profile", by: By) -> list[Row]:
    if by is By.OP:
        rows = [_row(op.op, [op]) for op in found.ops]
    else:
        key: Callable[[OpProfile], str] = (lambda op: op.op) if by is By.TYPE else (lambda op: op.module or op.op)
        rows = [_row(name, list(ops)) for name, ops in groupby(sorted(found.ops, key=key), key=key)]
    return sorted(rows, key=lambda row: (-row.time_us, row.index, row.name))


def _row(name: str, ops: "Sequence[OpProfile]") -> Row:
    time_us, floor_us = sum(op.time_us for op in ops), sum(op.floor_us for op in ops)
    sources = {op.source for op in ops}
    return Row(
        name=name,
        ops=len(ops),
        index=ops[0].index if len(ops) == 1 else -1,
        source=ops[0].source if len(sources) == 1 else "",
        shapes=ops[0].shapes if len(ops) == 1 else "",
        time_us=time_us,
        share=sum(op.share for op in ops),
        bytes=sum(op.work.bytes_moved for op in ops),
        flops=sum(op.work.flops for op in ops),
        floor_us=floor_us,
        roofline=floor_us / time_us if time_us else 0.0,
        bound=ops[0].bound if len(ops) == 1 else "",
    )


def _facts(found: "Profile", program: Path, origin: str, by: By, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "file": str(program),
        "digest": found.digest,
        "inputs": origin,
        "sizes": found.sizes,
        "runs": found.runs,
        "machine": asdict(found.machine),
        "totals": {
            "call_us": found.call_us,
            "ops_us": found.ops_us,
            "states_us": found.states_us,
            "outside_us": found.outside_us,
            "floor_us": sum(row.floor_us for row in rows),
            "bytes": sum(row.bytes for row in rows),
            "flops": sum(row.flops for row in rows),
        },
        "by": by.value,
        "rows": [asdict(row) for row in rows],
    }


def _print(found: "Profile", title: str, rows: Sequence[Row], by: By, top: int) -> None:
    console = make_console()
    sizes = "".join(f", {name}={size}" for name, size in found.sizes.items())
    table = make_table(title + sizes)
    table.add_column("#" if by is By.OP else "ops", justify="right")
    table.add_column(by.value, overflow="fold")
    table.add_column("line" if by is By.OP else "line, if one", overflow="fold")
    if by is By.OP:
        table.add_column("shapes", overflow="fold", ratio=1)
    for column in ("time", "share", "", "bytes", "MFLOP", "of limit"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    shown = rows if top == 0 else rows[:top]
    most = max((row.share for row in rows), default=0.0) or 1.0
    for row in shown:
        table.add_row(*map(plain, _cells(row, by, most)))
    rest = rows[len(shown) :]
    if rest:
        cells = ["", f"{len(rest)} more", "", *([""] if by is By.OP else [])]
        share = sum(row.share for row in rest)
        table.add_row(*cells, _micros(sum(row.time_us for row in rest)), f"{share:.1%}", "", "", "", "", style="dim")
    console.print(table)
    for line in _totals(found, rows):
        console.print(plain(line), soft_wrap=True)


def _cells(row: Row, by: By, most: float) -> list[str]:
    limit = f"{row.roofline:.0%}" if row.floor_us else "–"
    mark = {"compute": " c", "memory": " m"}.get(row.bound, "")
    return [
        str(row.index if by is By.OP else row.ops),
        row.name,
        row.source,
        *([row.shapes] if by is By.OP else []),
        _micros(row.time_us),
        f"{row.share:.1%}",
        _bar(row.share / most),
        _bytes(row.bytes),
        f"{row.flops / 1e6:,.3f}" if row.flops else "–",
        limit + mark,
    ]


def _totals(found: "Profile", rows: Sequence[Row]) -> list[str]:
    machine = found.machine
    floor, flops, moved = (sum(values) for values in zip(*((r.floor_us, r.flops, r.bytes) for r in rows), strict=True))
    reads = ", ".join(f"{_bytes(block)}: {rate:,.1f}" for block, rate in machine.reads)
    threads = "" if machine.threads == 1 else f", {machine.threads} threads"
    of_limit = floor / found.ops_us if found.ops_us else 0.0
    work = f"{flops / 1e6:,.2f} MFLOP, {_bytes(moved)} moved"
    peaks = f"{machine.f32_gflops:,.1f} GFLOP/s f32, {machine.i8_gops:,.1f} GOP/s int8"
    outside = f"{_micros(found.outside_us)} ({found.outside_us / found.call_us:.0%}) outside operators"
    clock = f"the clock's {machine.clock_ns:.0f} ns are taken off each operator"
    return [
        f"operators {_micros(found.ops_us)}; {work}; at the limit {_micros(floor)}: {of_limit:.0%} of it",
        f"a call from Python {_micros(found.call_us)}: {outside} (inputs, states, outputs, the call itself)",
        f"limit ({machine.isa}{threads}): {peaks}; GB/s read of {reads}",
        f"c, m: what limits it, compute or memory; {clock}",
    ]


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _micros(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:,.2f} ms"
    return f"{value:,.2f} µs"


def _bytes(value: int) -> str:
    if value >= _MEBI:
        return f"{value / _MEBI:,.1f} MiB"
    return f"{value / 1024:,.1f} KiB" if value >= 1024 else f"{value} B"
