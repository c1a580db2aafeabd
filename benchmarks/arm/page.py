"""Formats what was counted and modelled as the sections of docs/performance-arm.md."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DTYPE_BYTES, Storage
from alcove.runtime.profile.work import work_of

from benchmarks.arm.emulator import PROCESSORS, Count
from benchmarks.arm.loops import CORES, Loop
from benchmarks.models.cases import CASES
from benchmarks.sections import Section, table_lines

COMMAND: Final = "python -m benchmarks.arm --write docs/performance-arm.md"
MODELS: Final = Section("models", COMMAND)
KERNELS: Final = Section("kernels", COMMAND)
LOOPS: Final = Section("loops", COMMAND)
LEVELS: Final = tuple(PROCESSORS)
TITLE: Final = """# Performance on 64-bit ARM, counted

No ARM machine was here: **everything on this page is counted or modelled, nothing is timed.** Fewer instructions are
not less time: memory, caches and what a core executes at once are left out. Read it to see where work is, not how long
it takes ([decision 0065](decisions/0065-arm-by-counting.md)).
"""


@dataclass(frozen=True)
class ModelRow:
    """A model with the kernels of a level.

    Attributes:
        case: its name.
        isa: the level.
        products: multiply-adds that the model's layers say, however they are computed; 0: not told.
        count: what one run of alcove executes.
        peers: what one run of each peer executes, by name.
        failed: why there is no count, by peer.
    """

    case: str
    isa: str
    products: int
    count: Count
    peers: dict[str, Count] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def _number(value: int) -> str:
    return f"{value / 1e6:,.2f} M" if value >= 1_000_000 else f"{value:,}"


def _per_product(count: Count, products: int) -> str:
    return f"{count.instructions / products:.2f}" if products else "–"


def models_section(rows: Sequence[ModelRow], before: str = "") -> str:
    """Return the table of models beside the peers.

    Args:
        rows: the models that were counted.
        before: the page; its rows of other models stay.
    """
    names = sorted({name for row in rows for name in (*row.peers, *row.failed)})
    section = before.partition(MODELS.begin)[2].partition(MODELS.end)[0]
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    counted = {row.case for row in rows}
    body = [cells for cells in table[1:] if cells[0] not in counted and table[0][-len(names) :] == names]
    for row in rows:
        best = min(row.peers.values(), key=lambda count: count.instructions) if row.peers else None
        ratio = f"{best.instructions / row.count.instructions:.2f}×" if best else "–"
        peers = [_number(row.peers[name].instructions) if name in row.peers else "–" for name in names]
        own = [_number(row.count.instructions), _per_product(row.count, row.products)]
        body.append([row.case, row.isa, *own, ratio, *peers])
    order = [case.name for case in CASES]
    body.sort(key=lambda cells: order.index(cells[0]))
    lines = [
        "## Models beside their peers",
        "",
        "Instructions that one run executes, batch 1, one thread; the peers are their own wheels for 64-bit ARM, in",
        "float32 where alcove is (ncnn's float16 is off). Of the peers, which Python calls, the interpreter's own",
        "instructions are left out. *Per product*: of the multiply-adds that the model's layers say. *Ratio*: of the",
        "best peer's count to alcove's; above 1 alcove executes fewer. Levels `neon` and `neon_dotprod`",
        "run on an emulated Neoverse N1 (its instructions are those of Cortex-A55 and A76), `neon_i8mm` on a processor",
        "that has products of matrices besides. Peers have an int8 form of `tag` alone; elsewhere theirs is float32.",
        "",
        *table_lines(["model", "level", "alcove", "per product", "ratio", *names], body),
    ]
    failed = [f"{name} on {row.case} ({why})" for row in rows for name, why in sorted(row.failed.items())]
    if failed:
        lines += ["Gave no count: " + "; ".join(failed) + ".", ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class KernelRow:
    """A kernel's case.

    Attributes:
        op: its operator.
        kind: the type, or what is special about the case.
        products: multiply-adds of one run; 0: it has none.
        elements: of the largest of what it reads and writes, weights left out but for the rows that are picked of them.
        counts: what one run executes, by level.
    """

    op: str
    kind: str
    products: int
    elements: int
    counts: Mapping[str, Count]


def work_of_case(program: bytes) -> tuple[int, int]:
    """Return the multiply-adds and the elements of a case."""
    spec = read_spec(program)
    products, elements = 0, 0
    for op in spec.ops:
        work = work_of(spec, op)
        products += work.multiply_adds
        moved = [spec.tensors[index] for index in (*op.inputs, op.outputs[0])]
        sizes = [math.prod(tensor.shape) for tensor in moved if tensor.storage is not Storage.CONSTANT]
        if "bag" in op.name:
            sizes.append(work.weight_bytes // DTYPE_BYTES[moved[1].dtype])
        elements = max(elements, *sizes)
    return products, elements


def kernels_section(rows: Sequence[KernelRow]) -> str:
    """Return the table of kernels: instructions of each level, for each product or element."""
    body = []
    for row in rows:
        unit, count = ("product", row.products) if row.products else ("element", row.elements)
        best = row.counts[max(row.counts, key=LEVELS.index)]
        share = f"{best.multiply_adds / best.instructions:.0%}" if best.multiply_adds else "–"
        cells = (f"{row.counts[isa].instructions / count:.2f}" if isa in row.counts else "–" for isa in LEVELS)
        body.append([row.op, row.kind, unit, _number(count), *cells, share])
    lines = [
        "## Kernels",
        "",
        "Instructions of one run of a small program for each kernel (`benchmarks/kernel_cases.py`,",
        "`benchmarks/arm/cases.py`), inputs copied in: of each multiply-add, or, without products, of each element of",
        "the largest of what is read and written. One instruction multiplies and adds at most 4 floats; 8 bytes with",
        "`neon`, 16 with `neon_dotprod`, 32 with `neon_i8mm`. Kernels of floats are those of `neon` at each level.",
        "Winograd's form counts its own products, a fourth of the convolution's. The last column: how many of the last",
        "level's instructions multiply vectors and add the products.",
        "",
        *table_lines(["operator", "case", "unit", "units", *LEVELS, "products"], body),
    ]
    return "\n".join(lines)


def loops_section(loops: Sequence[Loop]) -> str:
    """Return the table of inner loops: cycles by core, and the share of the limit."""
    body = []
    for loop in loops:
        cells = [f"{loop.cycles[core]:.1f} ({loop.shares[core]:.0%})" for core in CORES]
        body.append([loop.kernel.name, str(loop.instructions), str(loop.products), *cells])
    lines = [
        "## Inner loops",
        "",
        "Cycles of one turn, by `llvm-mca` from the compiled objects, and in brackets the share of the limit that the",
        "products alone would set: everything lies in the first cache, nothing waits for memory. LLVM has no model of",
        "Cortex-A76; that of Neoverse N1 is the same core's. For Cortex-A55 the limit is one product of 128 bits a",
        "cycle, as ARM's guide says; LLVM's model of it makes a load of two registers expensive.",
        "",
        *table_lines(["kernel", "instructions", "products", *CORES], body),
    ]
    return "\n".join(lines)
