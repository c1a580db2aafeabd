"""The kernels' folders: levels whose includes go one way, names of the field, and the files that an operator takes."""

import re
from pathlib import Path

from tools.operator_attributes import class_name

LEVELS = {"math": 1, "simd": 1, "microkernels": 2, "operators": 3}
"""What lies in `kernels/` itself is below all of them, but for the table of kernels, which is above."""
TABLE = ("kernels/dispatch.h", "kernels/dispatch.cpp")
PRIVATE = re.compile(r"\b(\w*(borrows|lender|rival|run_marked)\w*|the truth|body\.h)\b", re.IGNORECASE)
VERBS_IN_ED = frozenset({"embed", "feed", "seed"})
SOURCES = ("*.h", "*.cpp", "*.inc")


def read_sources(folder: Path) -> dict[Path, str]:
    """Return the text of each C++ source below a folder."""
    return {path: path.read_text(encoding="utf-8") for kind in SOURCES for path in sorted(folder.rglob(kind))}


def find_level(path: str) -> int:
    """Return on which level a path below the repository's root lies."""
    parts = path.split("/")
    return LEVELS[parts[1]] if len(parts) > 2 else 0


def test_includes_of_kernels_go_down(repository: Path) -> None:
    """Operators use microkernels, never the other way; nothing in `kernels/` knows the runtime."""
    upward = [
        f"{path.relative_to(repository)} includes {header}"
        for path, text in read_sources(repository / "kernels").items()
        for header in re.findall(r'#include "([^"]+)"', text)
        if str(path.relative_to(repository)) not in TABLE
        and (not header.startswith("kernels/") or find_level(header) > find_level(str(path.relative_to(repository))))
    ]
    assert not upward


def test_a_microkernel_calls_no_other_kernel(repository: Path) -> None:
    """Kernels to call are handed to operators alone; `peak` is a table of its own."""
    found = read_sources(repository / "kernels/microkernels")
    calling = {path.parent.name for path, text in found.items() if re.search(r"\w+Kernel\* \w+;", text)}
    assert calling == {"peak"}


def test_every_folder_of_a_kernel_has_a_header_of_its_name(repository: Path) -> None:
    """CMake collects these headers for the table."""
    folders = [path for floor in ("microkernels", "operators") for path in (repository / "kernels" / floor).iterdir()]
    without = [path.name for path in folders if path.is_dir() and not (path / f"{path.name}.h").exists()]
    assert [name for name in without if name != "__pycache__"] == []


def test_no_production_kernel_is_named_a_reference(repository: Path) -> None:
    """Only the oracles of tests/kernels/reference are."""
    found = read_sources(repository / "kernels")
    assert not [path for path in found if "reference" in path.name]
    assert not [path for path, text in found.items() if re.search(r"\b\w+_reference\b", text)]


def test_native_sources_are_in_the_fields_words(repository: Path) -> None:
    """Words that were taken out do not come back."""
    found = [
        f"{path.relative_to(repository)}: {match.group()}"
        for folder in ("kernels", "runtime/native")
        for path, text in read_sources(repository / folder).items()
        for match in PRIVATE.finditer(text)
    ]
    assert not found


def test_native_functions_are_verbs(repository: Path) -> None:
    """No function that returns a number or nothing is a bare participle."""
    declared = re.compile(r"(?:void|bool|float|T|Status|u?int\d+_t|size_t) ([a-z]+ed|held|told|taken)\(")
    found = [
        f"{path.relative_to(repository)}: {name}"
        for folder in ("kernels", "runtime/native")
        for path, text in read_sources(repository / folder).items()
        for name in declared.findall(text)
        if name not in VERBS_IN_ED
    ]
    assert not found


def test_the_page_about_adding_an_operator_lists_its_files(repository: Path) -> None:
    """The table of the page is where the operator is named; at most six files are written by hand."""
    page = (repository / "docs/adding-an-operator.md").read_text(encoding="utf-8")
    (operator,) = re.findall(r"<!-- files: (\w+) -->", page)
    rows = re.findall(r"^\| (\d+|–) \| `([^`]+)` \|", page, re.MULTILINE)
    by_hand = [path for step, path in rows if step != "–"]
    assert len(by_hand) <= 6
    named = {
        str(path.relative_to(repository))
        for folder in ("kernels", "runtime", "docs")
        for path in (repository / folder).rglob("*")
        if path.suffix in {".h", ".cpp", ".inc", ".py", ".pyi", ".txt", ".md"}
        and re.search(rf"\b({operator}|{class_name(operator)})\b", path.read_text(encoding="utf-8"))
    }
    # The third counts; the others share the operator's arithmetic, or call torch's function of the same name.
    examples = {
        "runtime/testing_ops.py",
        "docs/adding-an-operator.md",
        "docs/performance-arm.md",
        "runtime/vision/lut.py",
    }
    volumes = {f"kernels/microkernels/grid_sample3d/{name}" for name in ("grid_sample3d.h", "impl.cpp")}
    shared = {"kernels/microkernels/grid_sample/axis.h", *volumes}
    assert named - examples - shared == {path for _, path in rows}
