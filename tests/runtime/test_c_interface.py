"""A host without Python can use libalcove.so by alcove.h alone; C programs are compiled here and run against it."""

import os
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.format.reader import read_spec
from alcove.runtime.testing import samples

TEXT = "Wo ist der nächste Bahnhof?"
LIBRARY = Path(_native.__file__).with_name("libalcove.so")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def compiler() -> str:
    """The system's C compiler."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert found, "no C compiler; the runtime could not have been built here"
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what is compiled goes."""
    return tmp_path_factory.mktemp("abi")


def build(source: Path, include: Path, folder: Path, *options: str, library: Path = LIBRARY) -> Path:
    """A C program, compiled."""
    link = [f"-L{library.parent}", "-lalcove", f"-Wl,-rpath,{library.parent}"]
    result = folder / source.stem
    command = [
        compiler(),
        "-std=c11",
        "-pthread",
        *WARNINGS,
        *options,
        f"-I{include}",
        str(source),
        "-o",
        str(result),
        *link,
    ]
    subprocess.run(command, check=True)
    return result


def lines_of(source: Path, include: Path, folder: Path, *arguments: str | Path) -> dict[str, list[str]]:
    """What a C program prints, by the first word of each line; it is compiled first."""
    result = build(source, include, folder)
    done = subprocess.run([result, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        first, _, rest = line.partition(" ")
        lines.setdefault(first, []).append(rest)
    return lines


def faults(repository: Path, folder: Path, runs: int) -> dict[str, list[str]]:
    """What tests/runtime/abi/faults.c prints."""
    program = folder / "faults.alc"
    if not program.exists():
        program.write_bytes(samples()["classifier_int8"])
    source = repository / "tests/runtime/abi/faults.c"
    return lines_of(source, repository / "runtime/native/include", folder, program, TEXT, str(runs))


@pytest.fixture(scope="module")
def said(repository: Path, folder: Path) -> dict[str, list[str]]:
    """What tests/runtime/abi/client.c prints."""
    program = folder / "classifier.alc"
    program.write_bytes(samples()["classifier_int8"])
    source = repository / "tests/runtime/abi/client.c"
    return lines_of(source, repository / "runtime/native/include", folder, program, TEXT)


def test_a_c_program_gets_the_answers_that_python_gets(said: dict[str, list[str]]) -> None:
    """The same bits and labels, the same ports and ceiling."""
    model = load(samples()["classifier_int8"])
    values, labels = model(TEXT)
    bits = values.view(np.uint32)[0].tolist()
    assert said["answer"] == [f"{b:08x} {label}" for b, label in zip(bits, labels[0].tolist(), strict=True)]
    assert said["port"] == ["labels 4 2 1 3 17"]
    assert said["ceiling"] == [str(model.memory_ceiling_bytes)]
    assert said["abi"] == ["2"]


def test_null_handles_and_wrong_calls_are_statuses(said: dict[str, list[str]]) -> None:
    """No crash; every one of them gives the status that alcove.h promises."""
    assert said["failures"] == ["0"]
    assert "failed" not in said


def test_a_c_program_sees_its_operators_and_marks_its_runs(said: dict[str, list[str]]) -> None:
    """Names and lines in order; timestamps rise, as many as operators and two, and none beyond (client.c looks)."""
    spec = read_spec(samples()["classifier_int8"])
    assert said["op"] == [f"{op.name} {op.source}" for op in spec.ops]


def test_nothing_is_allocated_inside_a_run(said: dict[str, list[str]]) -> None:
    """100 runs, 100 profiled and 100 refused runs without one malloc; the counter does count."""
    assert said["allocations_in_runs"] == ["0"]
    assert int(said["allocations_before"][0]) > 10


def test_sizes_and_states_work_from_c(repository: Path, folder: Path) -> None:
    """Shapes of outputs, bounds, growth without an allocation in a run, limits, states that continue and are reset."""
    for name in ("rows", "counter"):
        (folder / f"{name}.alc").write_bytes(samples()[name])
    source = repository / "tests/runtime/abi/sizes.c"
    include = repository / "runtime/native/include"
    said = lines_of(source, include, folder, folder / "rows.alc", folder / "counter.alc")
    assert said["bounds"] == ["2 64"]
    assert said["shape"] == ["3 4", "24 4", "80 4", "320 4", "8 4"]
    assert said["allocations_in_runs"] == ["0"]
    assert said["total"] == ["2", "3", "4", "2"]
    assert said["failures"] == ["0"]


def test_the_library_exports_the_symbols_of_the_list_and_no_other(repository: Path) -> None:
    """Names that a host has linked against stay; nothing of C++ leaks."""
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
    exported = sorted(line.split()[-1] for line in listed.splitlines())
    pinned = (repository / "tests/runtime/abi/symbols.txt").read_text(encoding="ascii").split()
    assert exported == pinned
    header = (repository / "runtime/native/include/alcove.h").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\b(alcove_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)))) == pinned


def test_the_library_needs_nothing_but_the_system(repository: Path) -> None:
    """C library and mathematics; no C++ runtime, no Python."""
    listed = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", listed))
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert (
        LIBRARY.stat().st_size < 2_050_000
    )  # with language models, tokenizers, NFC, transforms, beam search, regions and mixes of pictures, special


def test_the_header_is_c_and_cpp(repository: Path, folder: Path) -> None:
    """C99 and C++11, without a warning."""
    header = repository / "runtime/native/include/alcove.h"
    for name, standard in (("c", "c99"), ("c++", "c++11")):
        options = ["-x", name, f"-std={standard}", *WARNINGS, "-fsyntax-only"]
        subprocess.run([compiler(), *options, header], check=True, cwd=folder)


def test_structs_are_laid_out_as_hosts_were_built_with_them(repository: Path, folder: Path) -> None:
    """Sizes, offsets and numbers: the compiler refuses tests/runtime/abi/layout.c where one of them has moved."""
    include = repository / "runtime/native/include"
    source = repository / "tests/runtime/abi/layout.c"
    subprocess.run([compiler(), "-std=c11", *WARNINGS, f"-I{include}", "-fsyntax-only", source], check=True, cwd=folder)
    changed = (include / "alcove.h").read_text(encoding="utf-8").replace("uint32_t threads; ", "uint64_t threads; ")
    (folder / "alcove.h").write_text(changed, encoding="utf-8")
    refused = subprocess.run(
        [compiler(), "-std=c11", f"-I{folder}", "-fsyntax-only", source], check=False, capture_output=True, text=True
    )
    assert "alcove_session_options.memory_limit_bytes" in refused.stderr


def test_no_fault_of_the_host_crashes_or_leaks(repository: Path, folder: Path) -> None:
    """Every failing allocation and read, signals, a fork, two threads, 1,000 sessions, slots replaced while mapped."""
    said = faults(repository, folder, 2000)
    assert said["failures"] == ["0"]
    assert said["allocations_in_runs"] == ["0"]
    assert said["signals"] == ["1"]
    points = [int(n) for n in said["allocations"][0].split()]
    assert min(points) > 20, "the allocations that were failed, of a program from memory and from a file"
    assert int(said["reads"][0]) > 20
    each, ceiling = map(int, said["session_bytes"][0].split())
    assert ceiling < each < ceiling + 4096, "what a session takes besides its ceiling is its own few fields"


@pytest.mark.thorough
def test_a_million_runs_take_no_memory(repository: Path, folder: Path) -> None:
    """1,000,000 runs of one session: not one allocation, and the answer of the first."""
    said = faults(repository, folder, 1_000_000)
    assert said["failures"] == ["0"]
    assert said["allocations_in_runs"] == ["0"]


def soak_arguments(folder: Path) -> list[str | Path]:
    """The arguments of tests/runtime/abi/soak.c but the number of swaps; their files are made."""
    for name in ("classifier_int8", "classifier_float32"):
        (folder / f"{name}.alc").write_bytes(samples()[name])
    return [folder / "slot.alc", folder / "classifier_int8.alc", folder / "classifier_float32.alc", TEXT]


def test_a_host_predicts_through_hot_swaps(repository: Path, folder: Path) -> None:
    """Two threads answer without a pause while a third replaces the model 300 times; nothing is left of any."""
    source, include = repository / "tests/runtime/abi/soak.c", repository / "runtime/native/include"
    said = lines_of(source, include, folder, *soak_arguments(folder), "300")
    assert said["failures"] == ["0"]
    assert int(said["runs"][0]) >= 600, "each thread answered between any two swaps"


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["client", "sizes", "faults", "soak"])
def test_sanitizers_find_nothing(repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every call, every fault and 5,000 hot swaps: no bad access, nothing undefined, and no leak at the end."""
    monkeypatch.syspath_prepend(str(repository))
    library = import_module("benchmarks.fuzz_native").build_sanitized("alcove") / "libalcove.so"
    for sample in ("classifier_int8", "rows", "counter"):
        (folder / f"{sample}.alc").write_bytes(samples()[sample])
    arguments: dict[str, list[str | Path]] = {
        "client": [folder / "classifier_int8.alc", TEXT],
        "sizes": [folder / "rows.alc", folder / "counter.alc"],
        "faults": [folder / "classifier_int8.alc", TEXT, "2000"],
        "soak": [*soak_arguments(folder), "5000"],
    }
    result = build(
        repository / f"tests/runtime/abi/{name}.c",
        repository / "runtime/native/include",
        folder,
        "-DPLAIN_HEAP",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        library=library,
    )
    done = subprocess.run([result, *arguments[name]], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


@pytest.mark.thorough
@pytest.mark.needs("valgrind")
@pytest.mark.parametrize("program", ["client", "sizes", "soak"])
def test_valgrind_finds_nothing(repository: Path, folder: Path, program: str) -> None:
    """The calls of client.c and sizes.c, wrong ones too, and hot swaps: no bad access, no unwritten read, no leak."""
    # Valgrind knows instructions up to AVX2.
    environment = {**os.environ, "ALCOVE_ISA": "avx2" if "avx2" in _native.machine_isas() else "scalar"}
    for name in ("classifier_int8", "rows", "counter"):
        (folder / f"{name}.alc").write_bytes(samples()[name])
    calls: dict[str, list[str | Path]] = {
        "client": ["classifier_int8.alc", TEXT],
        "sizes": ["rows.alc", "counter.alc"],
        "soak": [*soak_arguments(folder), "50"],
    }
    source = repository / f"tests/runtime/abi/{program}.c"
    result = build(source, repository / "runtime/native/include", folder, "-DPLAIN_HEAP")
    checks = ["--quiet", "--fair-sched=yes", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"]
    checked: list[str | Path] = ["valgrind", *checks, result, *calls[program]]
    done = subprocess.run(checked, check=False, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
