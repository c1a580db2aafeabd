"""`alcove model` without a server: a team exports, looks at, verifies and runs programs on its own machine."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.platform.cli.terminal import Shop, alcove


def test_a_program_is_exported_inspected_verified_and_run(shop: Shop, programs: tuple[Path, Path]) -> None:
    """The team's way on its own machine, without a server."""
    facts = alcove("model", "inspect", programs[0], "--json").json
    assert [port["direction"] for port in facts["ports"]] == ["input", "output"]
    assert [op["op"] for op in facts["ops"]] == ["linear", "linear", "softmax"]
    assert facts["certificate_bytes"] > 0
    assert alcove("model", "verify", programs[0], "--json").json["samples"] == 3
    outputs = alcove("model", "run", programs[0], json.dumps([[0.5] * 16]), "--json").json
    (values,) = outputs.values()
    assert sum(values[0]) == pytest.approx(1)
    for arguments in (
        ("inspect", programs[0]),
        ("verify", programs[0]),
        ("run", programs[0], json.dumps([[0.5] * 16])),
    ):
        said = alcove("model", *arguments)
        assert (said.code, said.err) == (0, "")
        assert said.out


UNSUPPORTED = """
import torch
from torch import nn

class Unsupported(nn.Module):
    def forward(self, x):
        x = torch.special.gammainc(x, x)
        return x, torch.rand_like(x)

def make():
    return Unsupported().eval(), (torch.ones(2),)
"""


def test_what_an_export_finds_is_read_by_people_and_by_programs(tmp_path: Path) -> None:
    """Each finding with its line: in words on standard error, with --json as data on standard output too."""
    (tmp_path / "unsupported.py").write_text(UNSUPPORTED)
    arguments = ("model", "export", f"{tmp_path}/unsupported.py:make", "--out", tmp_path / "x.alc")
    said, as_json = alcove(*arguments), alcove(*arguments, "--json")
    assert (said.code, as_json.code, said.out) == (1, 1, "")
    findings = as_json.json["findings"]
    assert len(findings) >= 2
    for finding in findings:
        assert {"op", "module_path", "source", "suggestion"} == finding.keys()
        assert "unsupported.py:" in finding["source"]
        assert finding["op"] in said.err
    assert said.err == as_json.err
    assert not (tmp_path / "x.alc").exists()


MISFITS = """
import torch
from torch import nn

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls

def without_arguments():
    return nn.Bilinear(2, 2, 2).eval(), ()

def without_tables():
    return nn.Linear(4, 2).eval(), (torch.ones(1, 4),)

def counting():
    return Counts().eval(), (torch.ones(2),)
"""


@pytest.mark.parametrize(
    ("factory", "options", "words"),
    [
        ("without_arguments", (), "forward of Bilinear takes (input1"),
        ("without_tables", ("--quantize", "int8"), "--calibration MODULE:FUNCTION"),
        ("without_tables", ("--quantize", "int8", "--json"), "--calibration MODULE:FUNCTION"),
        ("counting", (), "attribute calls at"),
    ],
)
def test_what_an_export_cannot_take_is_reported_without_a_traceback(
    tmp_path: Path, factory: str, options: tuple[str, ...], words: str
) -> None:
    """Arguments that don't fit, a mode that would make nothing smaller, state in Python: exit code 1, and no file."""
    (tmp_path / "misfits.py").write_text(MISFITS)
    said = alcove("model", "export", f"{tmp_path}/misfits.py:{factory}", "--out", tmp_path / "x.alc", *options)
    assert said.code == 1
    assert words in said.err.replace("\n", " ")
    assert "Traceback" not in said.err
    assert not (tmp_path / "x.alc").exists()


def test_an_export_explains_its_passes(shop: Shop, tmp_path: Path) -> None:
    """The graph after each pass, with the user's lines, on standard output; with --json on standard error."""
    factory = f"{shop.folder}/polite_model.py:make"
    said = alcove("model", "export", factory, "--out", tmp_path / "one.alc", "--explain")
    assert (said.code, said.err) == (0, "")
    places = [said.out.index(f"== after {name} ==") for name in ("capture", "lower", "layout", "fuse", "pack", "plan")]
    assert places == sorted(places)
    assert "polite_model.py:" in said.out
    assert "arena: " in said.out
    as_json = alcove("model", "export", factory, "--out", tmp_path / "two.alc", "--explain", "--json")
    assert as_json.json["size_bytes"] == (tmp_path / "two.alc").stat().st_size
    assert "== after plan ==" in as_json.err


def test_layers_are_compared_with_torch(
    shop: Shop, programs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer of the module and the whole program; the first layer that departs is named, and the status says so."""
    factory = f"{shop.folder}/polite_model.py:make"
    arguments = ("model", "verify", programs[0], "--layers", factory)
    facts = alcove(*arguments, "--json").json
    assert facts["first"] is None
    assert [layer["op"] for layer in facts["layers"]] == [
        "aten.linear.default",
        "aten.relu.default",
        "aten.linear.default",
        "aten.softmax.int",
    ]
    assert facts["layers"][0]["module_path"] == "hidden"
    assert facts["program_difference"] < 1e-6
    said = alcove(*arguments)
    assert said.code == 0
    assert "every layer agrees" in said.out
    stranger = ("model", "verify", programs[1], "--layers", factory)
    other = alcove(*stranger, "--json")
    assert other.code == 1
    assert other.json["first"] is None
    assert other.json["program_difference"] > 1e-3
    assert other.json["program_is_other"]
    assert other.json["program_first"].startswith("op 0, linear, polite_model.py:")
    assert "not of this module; its first step that differs: op 0, linear, polite_model.py:" in alcove(*stranger).out

    from alcove.runtime.compiler.rules import RULES

    monkeypatch.setitem(RULES, "aten.relu.default", lambda call, b: b.unary("sigmoid", call.tensor("self")))
    said = alcove(*arguments)
    assert said.code == 1
    assert "first to depart: relu" in said.out
    assert "polite_model.py:" in said.out
    assert said.out.count("DEPARTS") >= 1
    assert alcove(*arguments, "--json").json["first"] == "relu"
    missing = alcove("model", "verify", programs[0], "--layers", f"{shop.folder}/polite_model.py:nothing")
    assert missing.code != 0
    assert "nothing" in missing.err


BROKEN = """
import torch
from torch import nn


def raises():
    raise RuntimeError("no data here")


def needs(size):
    return size


def nothing():
    return None


def bare():
    return nn.ReLU(), torch.ones(1, 16)


def swapped():
    return (torch.ones(1, 16),), nn.ReLU()


def counted():
    return nn.ReLU(), (torch.ones(1, 16),), 3


number = 3
"""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("raises", r"raises RuntimeError: no data here at .*broken\.py:7"),
        ("needs", "raises TypeError: needs.. missing 1 required positional argument: 'size'"),
        ("nothing", "must return .module, args. or .module, args, samples., not NoneType"),
        ("bare", "must return its args as a tuple, not as Tensor"),
        ("swapped", "must return a torch module first, not tuple"),
        ("counted", "must return its samples as a list of tuples like args, not 3"),
        ("number", "is no function but int"),
        ("absent", "has no function 'absent'"),
    ],
)
def test_what_a_users_function_does_wrong_is_reported_with_its_line(function: str, words: str, tmp_path: Path) -> None:
    """Wrong use, exit code 2, in one sentence; also of the function for calibration, and of a file that has errors."""
    (tmp_path / "broken.py").write_text(BROKEN)
    said = alcove("model", "export", f"{tmp_path}/broken.py:{function}", "--out", tmp_path / "x.alc")
    assert (said.code, said.out) == (2, "")
    assert re.search(words, said.err)
    assert "Traceback" not in said.err
    assert not (tmp_path / "x.alc").exists()


def test_options_of_an_export_are_checked_before_it(shop: Shop, tmp_path: Path) -> None:
    """Wrong use, in one sentence that names the option: modes, budgets, classes, licences, places."""
    factory = f"{shop.folder}/polite_model.py:make"
    for options, words in (
        (("--out", tmp_path / "x.alc", "--quantize", "int16"), "--quantize: one of int8, "),
        (("--out", tmp_path / "x.alc", "--quantize", "int8", "--max-drop", "0.1"), "--max-drop: it needs real inputs"),
        (("--out", tmp_path / "x.alc", "--tolerance", "lax"), "--tolerance: one of"),
        (("--out", tmp_path / "x.alc", "--licence", "mine"), "--licence: one of"),
        (("--out", tmp_path), "it is a folder; name a file in it"),
        (("--out", tmp_path / "none" / "x.alc"), "there is no folder"),
    ):
        said = alcove("model", "export", factory, *options)
        assert (said.code, said.out) == (2, "")
        assert words in said.err
        assert "Traceback" not in said.err


def test_a_file_may_be_named_as_a_module_of_python(tmp_path: Path) -> None:
    """Python's own stays; and a number with a fraction is no index."""
    (tmp_path / "io.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Embedding(4, 2), (torch.tensor([1, 2]),)\n"
    )
    said = alcove("model", "export", f"{tmp_path}/io.py:make", "--out", tmp_path / "x.alc")
    assert said.code == 0, said.err
    assert sys.modules["io"] is io
    fraction = alcove("model", "run", tmp_path / "x.alc", "[1.5, 2]")
    assert fraction.code == 2
    assert "1.5 is no whole number" in fraction.err
    beyond = alcove("model", "run", tmp_path / "x.alc", "[1, 9]")
    assert beyond.code == 1
    assert "index 1 is 9, allowed are 0 to 3" in beyond.err


def test_a_file_with_a_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    """A syntax error, a package that is not there, and anything that the file raises."""
    for text, words in (
        ("def f(:\n", r"raises SyntaxError: invalid syntax at .*\.py:1"),
        ("import no_such_package\n", "No module named 'no_such_package'"),
        ("x = 1\nraise ValueError('at once')\n", r"raises ValueError: at once at .*\.py:2"),
    ):
        (tmp_path / "broken_file.py").write_text(text)
        said = alcove("model", "export", f"{tmp_path}/broken_file.py:f", "--out", tmp_path / "x.alc")
        assert said.code == 2
        assert re.search(words, said.err)
        assert "Traceback" not in said.err
