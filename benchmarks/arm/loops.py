"""Models the cycles of the kernels' inner loops by llvm-mca, from the cross-compiled objects."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.models.cases import ROOT

CORES: Final = {"Cortex-A55": "cortex-a55", "Neoverse N1, Cortex-A76": "neoverse-n1", "Neoverse V1": "neoverse-v1"}
"""By name: the model of LLVM; that of N1 stands for A76 too, the same core, for which LLVM has none."""
A55_PRODUCTS: Final = 1
"""Of 128 bits in a cycle, by ARM's guide to the core; LLVM's model takes two."""
OBJECTS: Final = ROOT / "build/aarch64/kernels/CMakeFiles"
ITERATIONS: Final = 200
PRODUCT: Final = re.compile(r"(fmla|[su]dot|[su]mmla|[su]mlal2?|[su]adalp)\b")
_FUNCTION: Final = re.compile(r"^[0-9a-f]+ <(.*)>:$")
_INSTRUCTION: Final = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
_JUMP: Final = re.compile(r"^(?:b\.\w+|cbn?z|tbn?z)\s.*?\b([0-9a-f]+) <")


class NoModelError(RuntimeError):
    """There is no llvm-mca, or none that knows these cores."""


@dataclass(frozen=True)
class Kernel:
    """An inner loop.

    Attributes:
        name: of the kernel and its tile.
        source: below kernels/microkernels.
        function: what its name begins with, without namespaces.
    """

    name: str
    source: str
    function: str


KERNELS: Final = (
    Kernel("linear, 5 rows x 16 outputs", "linear/neon_5x16", "whole_tiles<Neon, 5, 4, true>"),
    Kernel("linear, 10 rows x 8 outputs", "linear/neon_5x16", "whole_tiles<Neon, 10, 2, true>"),
    Kernel("linear, 4 rows x 16 outputs", "linear/neon_5x16", "whole_tiles<Neon, 4, 4, true>"),
    Kernel("linear, one row x 64 outputs", "linear/neon_5x16", "whole_tiles<Neon, 1, 16, false>"),
    Kernel("linear_i8, NEON, 2 rows x 16 outputs", "linear_i8/neon_2x16", "make_tiles<Pairs, 2, 1>"),
    Kernel("linear_i8, SDOT, 5 rows x 16 outputs", "linear_i8/neon_dotprod_5x16", "make_tiles<Fours, 5, 1>"),
    Kernel("linear_i8, SDOT, one row x 64 outputs", "linear_i8/neon_dotprod_5x16", "make_tiles<Fours, 1, 4>"),
    Kernel("linear_i8, SMMLA, 6 rows x 16 outputs", "linear_i8/neon_i8mm_6x16", "tiles_of_pairs<3>"),
    Kernel("linear_f32_qc8w, 4 rows x 16 outputs", "linear_f32_qc8w/impl", "tile<4, 1>"),
    Kernel("linear_f32_qb4w, 4 rows x 16 outputs", "linear_f32_qb4w/impl", "tile<4, 1>"),
    Kernel("depthwise_conv2d_i8 3x3, 4 pixels x 16 channels", "depthwise_conv2d_i8/neon_4x16", "neon_tile<4, 3, 1>"),
)


@dataclass(frozen=True)
class Loop:
    """What one turn of an inner loop has.

    Attributes:
        kernel: which.
        instructions: of a turn.
        products: those that multiply and add.
        cycles: of a turn, by core.
        shares: of the limit that products alone would set, by core.
    """

    kernel: Kernel
    instructions: int
    products: int
    cycles: dict[str, float]
    shares: dict[str, float]


def find_tool() -> str:
    """Return the path of llvm-mca: $LLVM_MCA, or the newest that Debian installed.

    Raises:
        NoModelError: there is none.
    """
    names = [os.environ.get("LLVM_MCA", ""), *(f"llvm-mca-{version}" for version in range(24, 16, -1))]
    for name in filter(None, names):
        if path := shutil.which(name):
            return path
    raise NoModelError("cycles need LLVM 17 or newer: apt-get install llvm-19, or say where by LLVM_MCA")


def model_loops(tool: str) -> list[Loop]:
    """Return every kernel's loop, modelled for each core."""
    return [_model(tool, kernel) for kernel in KERNELS]


def _model(tool: str, kernel: Kernel) -> Loop:
    body = _find_loop(kernel)
    products = [line for line in body if PRODUCT.match(line)]
    cycles, shares = {}, {}
    for core, processor in CORES.items():
        cycles[core] = _cycles(tool, processor, body)
        least = len(products) / A55_PRODUCTS if processor == "cortex-a55" else _cycles(tool, processor, products)
        shares[core] = min(1.0, least / cycles[core])
    return Loop(kernel, len(body), len(products), cycles, shares)


def _cycles(tool: str, processor: str, lines: Sequence[str]) -> float:
    command = [tool, "-mtriple=aarch64", f"-mcpu={processor}", "-mattr=+dotprod,+i8mm", f"-iterations={ITERATIONS}"]
    text = "top:\n" + "\n".join(lines) + "\n"
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=text)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if found is None:
        raise NoModelError(f"{tool} says nothing of {processor}: {done.stderr[:200]}")
    return int(found[1]) / ITERATIONS


def _find_loop(kernel: Kernel) -> list[str]:
    """The instructions of the innermost loop of a function that has the most products."""
    (path, *_) = sorted(OBJECTS.glob(f"alcove_kernels*/microkernels/{kernel.source}.cpp.o"), key=_is_not_neon)
    command = ["aarch64-linux-gnu-objdump", "-d", "-C", "--no-show-raw-insn", str(path)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    best: list[str] = []
    for name, body in _functions(listing):
        plain = name.replace("alcove::kernels::", "").replace("(anonymous namespace)::", "").removeprefix("void ")
        if plain.startswith(kernel.function):
            best = max([best, *_loops(body)], key=lambda lines: sum(bool(PRODUCT.match(line)) for line in lines))
    if not best:
        raise LookupError(f"{path.name} has no loop in {kernel.function}")
    return best


def _is_not_neon(path: object) -> bool:
    return "alcove_kernels_scalar" in str(path)


def _functions(listing: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    name, body = "", list[tuple[int, str]]()
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            yield name, body
            name, body = head[1], []
        elif found := _INSTRUCTION.match(line):
            body.append((int(found[1], 16), found[2].split("//")[0].strip().replace("\t", " ")))
    yield name, body


def _loops(body: Sequence[tuple[int, str]]) -> list[list[str]]:
    places = {address: index for index, (address, _) in enumerate(body)}
    spans = []
    for end, (address, text) in enumerate(body):
        jump = _JUMP.match(text)
        if jump and int(jump[1], 16) <= address and int(jump[1], 16) in places:
            spans.append((places[int(jump[1], 16)], end))
    inner = [a for a in spans if not any(a[0] <= b[0] and b[1] <= a[1] and a != b for b in spans)]
    return [[_as_input(text) for _, text in body[start : end + 1]] for start, end in inner]


def _as_input(text: str) -> str:
    """An instruction as an assembler reads it: jumps go to a label of their own."""
    return re.sub(r"\b[0-9a-f]+ <.*", "top", text)
