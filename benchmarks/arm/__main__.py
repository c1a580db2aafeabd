"""Count and model runs on 64-bit ARM: `python -m benchmarks.arm [--only PART] [--model ROW] [--write PAGE]`.

Needs Debian's cross compiler and QEMU (`make arm` installs them) and LLVM 17 or newer (`apt-get install llvm-19`, or
LLVM_MCA).  Peers: `python -m benchmarks.arm.peers` fetches them; `../shared/peers/run.sh` exports their models.
What is missing is named, and its part of the page stays as it is; so do the rows of models that are not counted.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.arm import page
from benchmarks.arm.cases import ALL
from benchmarks.arm.emulator import PROCESSORS, NotCountedError, build_library, build_plugin, count_program
from benchmarks.arm.loops import NoModelError, find_tool, model_loops
from benchmarks.arm.peers import PEERS, count_peer
from benchmarks.kernels import files_of_case
from benchmarks.models.cases import CASES, Case, prepare, reference_models
from benchmarks.options import wide_console
from benchmarks.sections import Section

PARTS: Final = ("models", "kernels", "loops")
Say = Callable[[str], None]


def levels_of(case: Case) -> list[str]:
    """Return the levels that matter to a model: those of bytes for int8."""
    return ["neon_dotprod", "neon_i8mm"] if case.quantize else ["neon"]


def count_models(plugin: Path, executable: Path, names: list[str], say: Say) -> list[page.ModelRow]:
    """Count the reference models and the peers on them.

    Raises:
        FileNotFoundError: the reference models are not there.
    """
    models, rows = reference_models(), []
    for case in CASES:
        if case.name not in (names or [case.name]):
            continue
        say(f"{case.name}: exporting")
        program, inputs = prepare(case)
        products = int(models.count(case.model)["macs"])
        for isa in levels_of(case):
            say(f"{case.name} {isa}")
            row = page.ModelRow(case.name, isa, products, count_program(plugin, executable, program, inputs, isa))
            for name in PEERS:
                say(f"{case.name} {isa} {name}")
                try:
                    row.peers[name] = count_peer(plugin, name, case, isa)
                except NotCountedError as error:
                    row.failed[name] = str(error)
            rows.append(row)
    return rows


def count_kernels(plugin: Path, executable: Path, say: Say) -> list[page.KernelRow]:
    """Count a small program for each kernel, with the kernels of each level."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="alcove-arm-") as folder:
        for (op, kind), make in ALL.items():
            program = make()
            path, inputs = files_of_case(program, Path(folder) / f"{op} {kind}")
            say(f"{op} {kind}")
            products, elements = page.work_of_case(program)
            levels = PROCESSORS if kind == "i8" or "qd8" in op else ["neon"]
            counts = {isa: count_program(plugin, executable, path, inputs, isa) for isa in levels}
            rows.append(page.KernelRow(op, kind, products, elements, counts))
    return rows


@contextmanager
def _progress() -> Iterator[Say]:
    """Give a function that says what is counted, on a line of standard error; where that is a file, the lines stay."""
    error = Console(stderr=True)
    with error.status("counting") as status:
        yield (lambda what: status.update(f"counting {what}")) if error.is_terminal else error.print


def _write(options: argparse.Namespace, console: Console, section: Section, text: str) -> None:
    console.print(text, soft_wrap=True)
    if options.write is not None:
        if not options.write.exists():
            options.write.write_text(page.TITLE, encoding="utf-8")
        section.write(options.write, text, {})


def main() -> int:
    """Count, model, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone")
    parser.add_argument(
        "--model",
        choices=[case.name for case in CASES],
        action="append",
        help="this model alone; the page's others stay",
    )
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the sections into a page")
    options = parser.parse_args()
    console, parts = wide_console(), options.only or PARTS
    plugin, executable = build_plugin(), build_library()
    if "models" in parts:
        try:
            with _progress() as say:
                rows = count_models(plugin, executable, options.model or [], say)
            before = options.write.read_text(encoding="utf-8") if options.write and options.write.exists() else ""
            _write(options, console, page.MODELS, page.models_section(rows, before))
        except FileNotFoundError as missing:
            console.print(f"No models: {missing}", soft_wrap=True)
    if "kernels" in parts:
        with _progress() as say:
            kernels = count_kernels(plugin, executable, say)
        _write(options, console, page.KERNELS, page.kernels_section(kernels))
    if "loops" in parts:
        try:
            _write(options, console, page.LOOPS, page.loops_section(model_loops(find_tool())))
        except NoModelError as missing:
            console.print(f"No cycles: {missing}", soft_wrap=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
