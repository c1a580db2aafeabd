"""Finds out by the first bytes of files whether they can be what an option says, before anything large is loaded."""

import ast
import difflib
import zipfile
from pathlib import Path
from typing import Final

import typer

FIRST: Final = 512
"""Bytes of a file that are looked at: a tar archive names itself at the 257th."""
LARGEST_SOURCE: Final = 4 << 20
"""Bytes of a .py file that is looked at."""
SHOWN: Final = 5

TENSORFLOW: Final = frozenset({".pb", ".tflite", ".h5", ".keras"})
PADDLE: Final = frozenset({".pdparams", ".pdmodel"})
STATE: Final = "torch.save(model.state_dict(), 'weights.pt')"


def check_weights(path: Path) -> None:
    """Find out that a file may hold what `torch.save` or safetensors wrote.

    Raises:
        typer.BadParameter: it holds something else; says what, and what to give.
    """
    first = _first_bytes(path)
    found = _kind_of(path, first) or _kind_of_weights(path, first)
    if found:
        raise typer.BadParameter(f"--weights {path}: {found}")


def check_onnx(path: Path) -> None:
    """Find out that a file may be one of ONNX.

    Raises:
        typer.BadParameter: it is something else; says what, and what to give.
    """
    first = _first_bytes(path)
    found = _kind_of(path, first)
    if not found and first[4:8] == b"ORTM":
        found = "a file in ONNX Runtime's own format (.ort); give the .onnx file that it was made of"
    if not found and (zipfile.is_zipfile(path) or is_safetensors(first) or first.startswith(b"\x80")):
        found = "weights, not a graph; give --architecture and --weights, or write it with torch.onnx.export"
    if not found and first[:1].isalnum() and first.isascii() and b"\0" not in first:
        found = "a text, not an ONNX file"
    if found:
        raise typer.BadParameter(f"--onnx {path}: {found}")


def check_class(name: str) -> None:
    """Find out that FILE.py:CLASS names a file and, as far as can be seen without running it, a class in it.

    Raises:
        typer.BadParameter: it does not.
    """
    place, colon, wanted = name.rpartition(":")
    if not colon or not place or not wanted:
        raise typer.BadParameter(
            f"--architecture is FILE.py:CLASS, MODULE:CLASS or timm:NAME, or a folder; got {name!r}"
        )
    if not place.endswith(".py"):
        return
    path = Path(place)
    if not path.is_file():
        raise typer.BadParameter(f"--architecture {name}: there is no file {place}")
    if path.stat().st_size > LARGEST_SOURCE:
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise typer.BadParameter(f"--architecture {name}: {place} is no Python file ({error})") from None
    names = _names_in(tree)
    if names is not None and wanted not in names:
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        near = difflib.get_close_matches(wanted, classes, SHOWN) or classes[:SHOWN]
        raise typer.BadParameter(
            f"--architecture {name}: {place} has no class {wanted!r}" + (f"; it has {', '.join(near)}" if near else "")
        )


def _names_in(tree: ast.Module) -> set[str] | None:
    """Return the names that a module binds; None where only running it tells them."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = {(each.asname or each.name).partition(".")[0] for each in node.names}
            if "*" in names:
                return None
            found |= names
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
            if node.name == "__getattr__":
                return None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"globals", "exec"}:
            return None
    return found


def is_safetensors(first: bytes) -> bool:
    """Return whether a file begins as safetensors do: the length of a header in JSON, and the header."""
    return len(first) > 8 and first[8:9] == b"{" and 0 < int.from_bytes(first[:8], "little") < 1 << 32


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FIRST)


def _kind_of(path: Path, first: bytes) -> str:
    """Return what a file is that holds no model for torch and none of ONNX; empty if it may."""
    start = first.lstrip()[:64].lower()
    packed = first.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!")) or first[257:262] == b"ustar"
    is_tensorflow = first[4:8] == b"TFL3" or first.startswith(b"\x89HDF") or path.suffix in TENSORFLOW
    kinds = (
        (not first, "it is empty"),
        (
            first.startswith(b"version https://git-lfs"),
            "a pointer of Git LFS, not the file itself; git lfs pull fetches it",
        ),
        (
            start.startswith((b"<!doctype", b"<html", b"<?xml")),
            "a web page, not a model; download the file itself",
        ),
        (is_tensorflow, "a model of TensorFlow; make an ONNX file of it with tf2onnx, and give --onnx"),
        (packed, "an archive of files; unpack it, and give the file in it"),
        (path.suffix in PADDLE, "a model of Paddle; make an ONNX file of it with paddle2onnx, and give --onnx"),
    )
    return next((words for holds, words in kinds if holds), "")


def _kind_of_weights(path: Path, first: bytes) -> str:
    """Return what a file is that holds no weights for torch; empty if it may."""
    if path.suffix == ".onnx":
        return "an ONNX file; give it as --onnx, without --architecture and --weights"
    if zipfile.is_zipfile(path):
        return _kind_of_zip(path)
    is_known = is_safetensors(first) or first.startswith(b"\x80")
    return "" if is_known else f"no file of torch.save or safetensors; {STATE} writes one"


def _kind_of_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.rpartition("/")[2] for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError):
        return "a zip archive that is damaged or cut off; download it again"
    if "constants.pkl" in names:
        return "no state dict but a TorchScript archive; save torch.jit.load(FILE).state_dict()"
    return "" if "data.pkl" in names else f"an archive that torch.save did not write; {STATE} writes one"
