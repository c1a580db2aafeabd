"""Runtimes built for chosen programs are small, give the same bits, refuse other programs, and install for hosts."""

import json
import os
import re
import subprocess
from importlib import import_module
from pathlib import Path
from types import ModuleType

import alcove
import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.format.reader import read_spec
from alcove.runtime.testing import samples
from alcove.runtime.testing_ops import op_samples

TEXT = "Wo ist der Bahnhof?"
LANGUAGE_ID = "features/language_id/programs/language_id-1.0.0.alc"


@pytest.fixture
def selective(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/selective.py."""
    monkeypatch.syspath_prepend(str(repository))
    return import_module("tools.selective")


@pytest.fixture
def manifest(repository: Path) -> str:
    """Text of kernels/manifest.inc."""
    return (repository / "kernels/manifest.inc").read_text(encoding="utf-8")


def test_only_lines_of_the_chosen_operators_and_levels_stay(selective: ModuleType, manifest: str) -> None:
    """Operators that programs use, the kernels that these call, of the levels named and the scalar one."""
    text = selective.filter_manifest(manifest, selective.choose(["matmul", "topk"], ["avx2"], manifest))
    assert re.findall(r"^ALCOVE_OP\(\d+, (\w+),", text, re.MULTILINE) == ["topk", "matmul"]
    kernels = set(re.findall(r"^ALCOVE_KERNEL\((\w+), \w+, (\w+),", text, re.MULTILINE))
    assert kernels == {("topk", "scalar"), ("matmul", "scalar"), ("linear", "scalar"), ("linear", "avx2")}
    assert text.count("#if") == text.count("#endif")
    assert '"is_transposed:i64"' in text
    assert "ngram" not in text


def test_a_choice_of_everything_is_the_manifest(selective: ModuleType, manifest: str) -> None:
    """Nothing is lost by the filter."""
    operators = [op.name for op in _native.manifest()]
    text = selective.filter_manifest(manifest, selective.choose(operators, selective.LEVELS, manifest))

    def lines(source: str) -> list[str]:
        return [line for line in source.splitlines() if line and not line.startswith(("//", "ALCOVE_DEPENDS"))]

    assert lines(text) == lines(manifest)


def test_what_there_is_not_is_refused_by_name(selective: ModuleType, manifest: str) -> None:
    """Operators and levels."""
    with pytest.raises(ValueError, match="no operator convolve in the manifest"):
        selective.choose(["linear", "convolve"], [], manifest)
    with pytest.raises(ValueError, match="no level avx3; known are scalar, avx2"):
        selective.choose(["linear"], ["avx3"], manifest)


def slots_called(repository: Path) -> dict[str, set[str]]:
    """For each operator the slots, named op_type, that the source of its run names, itself or in functions it calls."""
    folder = repository / "runtime/native/core/ops"
    bodies: dict[str, dict[str, str]] = {}
    for path in folder.glob("*.cpp"):
        text = path.read_text("utf-8")
        for found in re.finditer(r"^\w[\w:<>&* ]*[ *&](\w+)\([^;{}]*\)(?: noexcept)? \{", text, re.MULTILINE):
            first_line = text[found.end() :].split("\n", 1)[0]
            end = found.end() + len(first_line) if first_line.endswith("}") else text.index("\n}", found.end())
            bodies.setdefault(path.name, {})[found[1]] = text[found.end() : end]
    shared = {"split_linear": bodies["gemm.cpp"]["split_linear"]}

    def find_reached(functions: dict[str, str], name: str, seen: set[str]) -> set[str]:
        seen.add(name)
        slots = set(re.findall(r"kernels\.(\w+)", functions[name]))
        for called in set(re.findall(r"(?<![.>])\b(\w+)[(<]", functions[name])) & functions.keys() - seen:
            slots |= find_reached(functions, called, seen)
        return slots

    operators = {op.name for op in _native.manifest()}
    return {
        name.removeprefix("run_"): find_reached(shared | functions, name, set())
        for functions in bodies.values()
        for name in functions
        if name.startswith("run_") and name.removeprefix("run_") in operators
    }


def test_the_manifest_lists_whose_kernels_each_operator_calls(
    selective: ModuleType, manifest: str, repository: Path
) -> None:
    """A line for each, or a chosen build would call a null pointer; compared with what the runs' sources name."""
    names = {f"{op}_{dtype}": op for op, dtype, _, _ in _native.kernels()}
    called = slots_called(repository)
    assert called.keys() == {op.name for op in _native.manifest()}
    assert called["linear"] == {"linear_f32", "linear_halves"}
    assert "softmax_f32" in called["attention"]
    for operator, slots in called.items():
        dependencies = {names[slot] for slot in slots} - {operator}
        assert dependencies == selective.find_dependencies([operator], manifest), operator
    dependencies = {names[slot] for slots in called.values() for slot in slots}
    assert dependencies == set(names.values()), "a kernel that nothing calls, or a call that the test doesn't see"


def host(repository: Path, library: Path, folder: Path) -> Path:
    """tests/runtime/abi/chosen.c, linked with a library."""
    result = folder / "chosen"
    include = repository / "runtime/native/include"
    options = ["-std=c11", "-Wall", "-Werror", f"-I{include}", str(repository / "tests/runtime/abi/chosen.c")]
    link = [f"-L{library.parent}", "-lalcove", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["cc", *options, "-o", str(result), *link], check=True)
    return result


def run(library: Path, program: Path) -> str:
    """What the host prints of a program: a digest of its outputs, or why it was refused."""
    return subprocess.run([library, program, TEXT], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_runtime_for_language_id_is_small_and_gives_the_same_bits(
    selective: ModuleType, manifest: str, repository: Path, tmp_path: Path
) -> None:
    """At most 181 kB with scalar kernels; the bits of the whole one; what needs more is refused by name."""
    program = repository / LANGUAGE_ID
    chosen = selective.choose(selective.operators_of([program]), ["scalar"], manifest)
    library = selective.build(chosen)
    assert library.stat().st_size <= 181_000
    result = host(repository, library, tmp_path)
    values, labels = load(program)(TEXT)
    indices = np.array([load(program).outputs[1].labels.index(label) for label in labels[0]], np.int64)
    bits = " ".join(f"{b:02x}" for b in values.tobytes() + indices.tobytes())
    assert run(result, program) == f"outputs {bits}"
    for name, other in (samples() | op_samples()).items():
        path = tmp_path / f"{name}.alc"
        path.write_bytes(other)
        needed = selective.operators_of([path]) - chosen.operators
        said = run(result, path)
        if needed:
            assert re.fullmatch(
                r"refused 1 op_missing this build of the runtime was made without the operator (\w+)", said
            )
            assert said.split()[-1] in needed
        else:
            assert said.startswith(("outputs", "no text"))


@pytest.fixture(scope="module")
def prefix(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a runtime for a text model, and for one of sizes and states, is installed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(repository))
        selective = import_module("tools.selective")
    folder = tmp_path_factory.mktemp("installed")
    for name in ("classifier_int8", "rows", "counter"):
        (folder / f"{name}.alc").write_bytes(samples()[name])
    operators = selective.operators_of(folder.glob("*.alc"))
    selective.build(selective.choose(operators, ["avx2"], selective.MANIFEST.read_text(encoding="utf-8")))
    install = [selective.cmake(), "--install", selective.BUILD, "--prefix", folder / "prefix"]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    return folder / "prefix"


def host_output(library: Path, program: Path) -> list[str]:
    """What tests/runtime/abi/package/host.cpp prints."""
    return subprocess.run([library, program, TEXT], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_project_of_its_own_finds_the_installed_runtime(
    selective: ModuleType, prefix: Path, repository: Path, tmp_path: Path
) -> None:
    """By find_package and pkg-config: a C++17 host with alcove.hpp answers as Python does; the prefix may move."""
    moved = prefix.rename(prefix.parent / "moved")
    try:
        source = repository / "tests/runtime/abi/package"
        configure = [selective.cmake(), "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}"]
        for command in (configure, [selective.cmake(), "--build", tmp_path / "build"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        program = moved.parent / "classifier_int8.alc"
        _, labels = load(program)(TEXT)
        version = alcove.__version__
        expected = [f"label {label}" for label in labels[0]]
        expected += ["port values 2 0", "error 1 file_too_small", "error 2 input_count"]
        expected += [f"op {op.name} {op.source}" for op in read_spec(program.read_bytes()).ops]
        expected += ["times 1 1", f"version {version}"]
        assert host_output(tmp_path / "build/host", program) == expected

        (found,) = moved.rglob("alcove.pc")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(found.parent)}
        asked = ["pkg-config", "--cflags", "--libs", "alcove"]
        flags = subprocess.run(asked, check=True, capture_output=True, text=True, env=environment).stdout.split()
        result = tmp_path / "host"
        link = [*flags, f"-Wl,-rpath,{found.parent.parent}"]
        subprocess.run(["c++", "-std=c++17", source / "host.cpp", "-o", result, *link], check=True)
        assert host_output(result, program) == expected
    finally:
        moved.rename(prefix)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_guide_for_c_links_by_cmake_and_by_pkg_config(
    selective: ModuleType, prefix: Path, repository: Path, tmp_path: Path
) -> None:
    """Its program and its lines, as they stand, against an installed runtime."""
    page = (repository / "docs/how-to/call-from-c.md").read_text(encoding="utf-8")
    blocks = {
        kind: re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL) for kind in ("c", "cmake", "sh")
    }
    (tmp_path / "language.c").write_text(blocks["c"][0], encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text(blocks["cmake"][0], encoding="utf-8")
    configure = [selective.cmake(), "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    for command in (configure, [selective.cmake(), "--build", tmp_path / "build"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (lines,) = (block for block in blocks["sh"] if "pkg-config --cflags" in block)
    (found,) = prefix.rglob("alcove.pc")
    lines = lines.replace("$PREFIX/lib", str(found.parent.parent))
    subprocess.run(["bash", "-ec", lines], cwd=tmp_path, check=True)
    for program in (tmp_path / "build/language", tmp_path / "language"):
        done = subprocess.run([program, "absent.alc", TEXT], check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert "absent.alc" in done.stderr


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_command_runs_programs_on_arrays_texts_and_raw_bytes(prefix: Path, tmp_path: Path) -> None:
    """alcove-run: outputs as JSON and .npy equal to Python's bits, ports without inputs, refusals with their code."""

    def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([prefix / "bin/alcove-run", *arguments], check=False, capture_output=True, text=True)

    classifier, rows, counter = (prefix.parent / f"{n}.alc" for n in ("classifier_int8", "rows", "counter"))
    done = command(classifier, f"text:{TEXT}", "--json", "--out", tmp_path, "--repeat", "3", "--check")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    values, labels = load(classifier)(TEXT)
    assert [output["name"] for output in said["outputs"]] == ["values", "labels"]
    assert np.array(said["outputs"][0]["values"], np.float32).tobytes() == values.tobytes()
    assert said["outputs"][1]["labels"] == labels[0].tolist()
    assert said["runs"] == 3
    assert np.load(tmp_path / "0.npy").tobytes() == values.tobytes()

    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((2, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    assert command(rows, tmp_path / "x.npy", tmp_path / "y.npy", "--out", tmp_path, "--threads", "2").returncode == 0
    for i, output in enumerate(load(rows)(x, y)):
        written = np.load(tmp_path / f"{i}.npy")
        assert written.shape == output.shape
        assert written.tobytes() == output.tobytes()

    (tmp_path / "raw").write_bytes(np.ones(5, np.float32).tobytes())
    said = json.loads(command(counter, f"raw:{tmp_path}/raw", "--json", "--repeat", "4").stdout)
    assert said["outputs"][0]["values"] == [2.0] * 5, "each repeated run is a first one"
    ports = json.loads(command(rows, "--json").stdout)
    assert [port["name"] for port in ports["inputs"]] == [port.name for port in load(rows).inputs]
    assert "input 0: text text []" in command(classifier).stdout

    np.save(tmp_path / "wrong.npy", x.astype(np.float64))
    np.save(tmp_path / "order.npy", np.asfortranarray(x))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    (tmp_path / "short").write_bytes(b"1")
    for why, code, arguments in (
        ("[file_too_small]", 1, [tmp_path / "short"]),
        ("[file_unreadable]", 1, [tmp_path / "none"]),
        ("its type is none that a program takes", 1, [rows, tmp_path / "wrong.npy", tmp_path / "y.npy"]),
        ("not in row-major order", 1, [rows, tmp_path / "order.npy", tmp_path / "y.npy"]),
        ("its data are not of its shape", 1, [rows, tmp_path / "cut.npy", tmp_path / "y.npy"]),
        ("[input_dtype]", 1, [classifier, tmp_path / "x.npy"]),
        ("1 bytes, the input takes 20", 1, [counter, f"raw:{tmp_path}/short"]),
        ("takes 2 inputs, not 1", 2, [rows, tmp_path / "x.npy"]),
        ("no option --fast", 2, [rows, "--fast"]),
        ("usage:", 2, []),
    ):
        refused = command(*arguments)
        assert (refused.returncode, why in refused.stderr) == (code, True), refused.stderr
        assert not refused.stdout
