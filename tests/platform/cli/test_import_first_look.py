"""`alcove model import` says what a wrong file is by its first bytes, before torch is loaded."""

import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from alcove.platform.cli.importing import first_look


def archive(kind: str) -> bytes:
    """Return a tar or zip archive with one file in it."""
    buffer = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            entry = tarfile.TarInfo("weights.pt")
            entry.size = 4
            tar.addfile(entry, io.BytesIO(b"data"))
    else:
        with zipfile.ZipFile(buffer, "w") as packed:
            packed.writestr(kind, b"data")
    return buffer.getvalue()


WRONG = {
    "empty": ("a.pt", b"", "it is empty"),
    "Git LFS": ("a.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
    "web page": ("a.pth", b"\n<!DOCTYPE html><html>404</html>", "a web page"),
    "tar": ("a.pth.tar", archive("tar"), "unpack it"),
    "gzip": ("a.tar.gz", b"\x1f\x8b" + bytes(20), "unpack it"),
    "TensorFlow Lite": ("a.tflite", b"\x1c\0\0\0TFL3" + bytes(20), "tf2onnx"),
    "Keras": ("a.h5", b"\x89HDF\r\n\x1a\n", "tf2onnx"),
    "Paddle": ("a.pdparams", b"\x80\x02", "paddle2onnx"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("check", [first_look.check_weights, first_look.check_onnx])
def test_a_file_that_is_no_model_is_named(kind: str, check: Callable[[Path], None], tmp_path: Path) -> None:
    """What it is and what to do, for weights and for graphs."""
    name, data, message = WRONG[kind]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(typer.BadParameter, match=message):
        check(path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.onnx", b"\x08\x07", "give it as --onnx"),
        ("a.pt", archive("net/constants.pkl"), r"TorchScript archive; save torch.jit.load\(FILE\).state_dict"),
        ("a.npz", archive("c.weight.npy"), "that torch.save did not write"),
        ("a.pt", b"hello", "no file of torch.save or safetensors"),
    ],
)
def test_weights_of_another_kind_are_named(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    """With the line that writes what is taken."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(typer.BadParameter, match=message):
        first_look.check_weights(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive("net/data.pkl"), "weights, not a graph"),
        (b"\x10\0\0\0\0\0\0\0{}", "weights, not a graph"),
        (b"\x20\0\0\0ORTM" + bytes(9), "ONNX Runtime's own format"),
        (b"hello", "a text"),
    ],
)
def test_graphs_of_another_kind_are_named(data: bytes, message: str, tmp_path: Path) -> None:
    """Weights alone, ONNX Runtime's own format, a text."""
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(typer.BadParameter, match=message):
        first_look.check_onnx(path)


@pytest.mark.parametrize("data", [archive("net/data.pkl"), b"\x10\0\0\0\0\0\0\0{}", b"\x80\x02}q"])
def test_what_torch_and_safetensors_write_is_taken(data: bytes, tmp_path: Path) -> None:
    """Zip archives, the form before them, and safetensors under any name."""
    path = tmp_path / "weights.bin"
    path.write_bytes(data)
    first_look.check_weights(path)


SOURCE = """
from torch.nn import Linear as Layer
class Net: ...
def make(): ...
Other = Net
if Net:
    Later = Net
"""


@pytest.mark.parametrize("name", ["Net", "make", "Other", "Later", "Layer"])
def test_a_class_that_a_file_binds_is_found_without_running_it(name: str, tmp_path: Path) -> None:
    """By a class, a function, an assignment or an import."""
    (tmp_path / "net.py").write_text(SOURCE)
    first_look.check_class(f"{tmp_path}/net.py:{name}")


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (SOURCE, "net.py:Nett", "has no class 'Nett'; it has Net"),
        (SOURCE, "other.py:Net", "there is no file"),
        (SOURCE, "net.py", "is FILE.py:CLASS"),
        ("def (", "net.py:Net", "is no Python file"),
    ],
)
def test_a_class_that_is_not_there_is_named(
    source: str, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With those that are near."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(source)
    with pytest.raises(typer.BadParameter, match=message):
        first_look.check_class(name)


@pytest.mark.parametrize("line", ["from torch.nn import *", "globals().update(Net=1)", "def __getattr__(name): ..."])
def test_a_file_that_only_running_tells_is_left_to_it(line: str, tmp_path: Path) -> None:
    """Names may come from elsewhere."""
    (tmp_path / "net.py").write_text(line)
    first_look.check_class(f"{tmp_path}/net.py:Net")


@pytest.mark.parametrize(
    "options",
    [
        ["--architecture", "net.py:Nett", "--weights", "a.pt", "--pictures", "."],
        ["--architecture", "net.py:Net", "--weights", "empty.pt", "--pictures", "."],
        ["--onnx", "empty.pt"],
        ["--architecture", "net.py:Net", "--weights", "a.pt", "--pictures", ".", "--size", "3"],
        ["--architecture", "net.py:Net", "--weights", "a.pt"],
    ],
)
def test_mistakes_are_said_before_torch_is_loaded(options: list[str], tmp_path: Path) -> None:
    """Loading it takes seconds."""
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "a.pt").write_bytes(archive("net/data.pkl"))
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "a.png").write_bytes(b"")
    script = (
        "import sys\n"
        "from alcove.platform.cli.entry import main\n"
        "sys.argv = ['alcove', 'model', 'import', '--out', 'x.alc', *sys.argv[1:]]\n"
        "code = main()\n"
        "sys.exit(9 if 'torch' in sys.modules else code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *options], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 2, done.stderr.decode()
