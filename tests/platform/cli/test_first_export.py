"""What somebody meets who exports a first module of their own: what works at once, and what mistakes get."""

from pathlib import Path

import pytest

from tests.platform.cli.terminal import Said, alcove, ok

MODULES = '''
import numpy as np
import torch
from torch import nn


class Picture(nn.Module):
    """Two outputs by name, a batch norm, a hard swish."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish())
        self.label, self.quality = nn.Linear(4, 5), nn.Linear(4, 2)

    def forward(self, picture):
        features = self.body(picture).mean((2, 3))
        return {"label": self.label(features), "quality": self.quality(features)}


class Two(nn.Module):
    def forward(self, user, context):
        return torch.nn.functional.one_hot(user, 4) + context


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)


def module_of(function):
    class Module(nn.Module):
        def forward(self, x):
            return function(x)

    return lambda: (Module().eval(), (torch.ones(1, 4),))


def picture():
    return Picture().eval(), (torch.rand(1, 3, 8, 8),)


def pictures():
    return [(torch.rand(1, 3, 8, 8),) for _ in range(2)]


def wide():
    return [(torch.rand(1, 3, 8, 9),)]


def none():
    return []


def two():
    return Two().eval(), (torch.tensor([3]), torch.ones(1, 4))


def two_without():
    return Two().eval(), ()


def train():
    return Dropped().train(), (torch.ones(1, 4),)


def text():
    return nn.Embedding(10, 4).eval(), ("hello",)


def branch(x):
    if x.sum() > 0:
        return x + 1
    return x


def several(x):
    u, s, v = torch.linalg.svd(x)
    return torch.multinomial(torch.softmax(s, -1), 1), torch.rand_like(x), torch.special.gammainc(x, x)


def loop(x):
    while x.max() < 5:
        x = x * 2
    return x


branches, selects, items, loops, arrays, findings = map(
    module_of, (branch, lambda x: x[x > 0], lambda x: x * x[0, 0].item(), loop, lambda x: x.numpy().sum(), several)
)
'''


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of modules that somebody wrote."""
    path = tmp_path_factory.mktemp("export") / "somebodys.py"
    path.write_text(MODULES)
    return path


def _export(source: Path, factory: str, out: Path, *options: object) -> Said:
    return alcove("model", "export", f"{source}:{factory}", "--out", out, *options)


def test_a_network_with_two_named_outputs_works_at_once(source: Path, tmp_path: Path) -> None:
    """Its ports have the names of the module, and each operator has the line that it comes from."""
    ok(_export(source, "picture", tmp_path / "picture.alc"))
    facts = ok(alcove("model", "inspect", tmp_path / "picture.alc", "--json")).json
    assert [port["name"] for port in facts["ports"]] == ["picture", "label", "quality"]
    shown = ok(alcove("model", "inspect", tmp_path / "picture.alc")).out
    assert "conv2d 3x3 + hardswish" in shown
    assert "somebodys.py:" in shown


def test_int8_without_real_inputs_makes_no_float32_program(source: Path, tmp_path: Path) -> None:
    """A network that only real inputs can make smaller is refused with the option that gives them, and no file is left.

    The float32 program under another name, with an empty table and exit code 0, would have passed for a smaller one.
    """
    out = tmp_path / "picture.alc"
    said = _export(source, "picture", out, "--quantize", "int8")
    assert said.code == 1
    assert "the program would be the float32 one" in said.err
    assert "--calibration MODULE:FUNCTION" in said.err
    assert not out.exists()


def test_int8_with_real_inputs_is_smaller_and_has_a_row_for_each_layer(source: Path, tmp_path: Path) -> None:
    """In a pipe, where the table is as wide as it is: layers can be told apart."""
    ok(_export(source, "picture", tmp_path / "float.alc"))
    said = ok(
        _export(source, "picture", tmp_path / "int8.alc", "--quantize", "int8", "--calibration", f"{source}:pictures")
    )
    assert all(f"│ {layer} " in said.out for layer in ("body.0", "body.2", "label", "quality"))
    assert "…" not in said.out.replace(" … ", "")  # a range is written 0 … 1
    assert (tmp_path / "int8.alc").stat().st_size < (tmp_path / "float.alc").stat().st_size


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ("wide", "calibration sample 0: picture: shape [1, 3, 8, 9], expected [1, 3, 8, 8]"),
        ("none", "calibration: expected at least 1 sample, got none"),
    ],
)
def test_samples_that_do_not_fit_are_named(source: Path, tmp_path: Path, samples: str, words: str) -> None:
    """Which one, which input, what was expected; and no file."""
    out = tmp_path / "x.alc"
    said = _export(source, "picture", out, "--quantize", "int8", "--calibration", f"{source}:{samples}")
    assert (said.code, words in said.err) == (1, True), said.err
    assert not out.exists()


def test_example_inputs_that_do_not_fit_forward_are_one_sentence(source: Path, tmp_path: Path) -> None:
    """A factory that returns no inputs for a module of two: what forward takes, what is missing, and no traceback."""
    said = _export(source, "two_without", tmp_path / "x.alc")
    assert said.code == 1
    assert said.err.startswith("alcove: forward of Two takes (user, context), args has 0: missing")
    assert "'user'" in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("branches", "choose with torch.where"),
        ("loops", "choose with torch.where"),
        ("selects", "it is what a mask picks"),
        ("items", "aten."),
        ("arrays", "numpy"),
    ],
)
def test_what_depends_on_data_is_found_with_its_line_and_the_way_out(
    source: Path, tmp_path: Path, factory: str, words: str
) -> None:
    """Branches, loops, selections, numbers of tensors, arrays of numpy: the line, and what to do instead."""
    said = _export(source, factory, tmp_path / "x.alc")
    assert said.code == 1
    assert "finding(s) keep this module from export" in said.err
    assert "somebodys.py:" in said.err
    assert words in said.err, said.err


def test_a_text_that_no_layer_can_read_names_those_that_can(source: Path, tmp_path: Path) -> None:
    """A `str` as the example input of a layer of numbers: what reads a text, and where it is."""
    said = _export(source, "text", tmp_path / "x.alc")
    assert said.code == 1
    assert "by NgramHash (alcove.runtime.ops) or a tokenizer (alcove.runtime.tokenizers)" in said.err


def test_all_findings_come_at_once(source: Path, tmp_path: Path) -> None:
    """Each with its operator and its advice, so that one export tells all there is to mend."""
    said = _export(source, "findings", tmp_path / "x.alc")
    assert "alcove: 3 finding(s) keep this module from export" in said.err
    assert said.err.count("draw random numbers outside the program and pass them in") == 2


def test_a_module_in_training_mode_is_exported_as_it_answers(source: Path, tmp_path: Path) -> None:
    """The command sets it to evaluation: nothing is dropped on devices."""
    out = tmp_path / "train.alc"
    ok(_export(source, "train", out))
    (values,) = ok(alcove("model", "run", out, "[[1, 2, 3, 4]]", "--json")).json.values()
    assert values == [[1, 2, 3, 4]]


def test_two_inputs_are_given_in_order_or_by_name(source: Path, tmp_path: Path) -> None:
    """Either way the same answer; a count, a rank and a range that do not fit are named."""
    out = tmp_path / "two.alc"
    ok(_export(source, "two", out))
    by_place = ok(alcove("model", "run", out, "[3]", "[[1, 2, 3, 4]]", "--json")).json
    by_name = ok(alcove("model", "run", out, "--input", "context=[[1, 2, 3, 4]]", "--input", "user=[3]", "--json")).json
    assert by_place == by_name == {"output": [[1, 2, 3, 5]]}
    for given, words in (
        (("[3]",), "the program takes 2 inputs (user, context), got 1"),
        (("[3]", "[1, 2, 3, 4]"), "input 'context': expected 2 dimensions, got 1"),
    ):
        assert words in alcove("model", "run", out, *given).err


def test_damaged_files_and_files_of_another_kind_are_named_as_such(source: Path, tmp_path: Path) -> None:
    """Cut short, one bit elsewhere, no program at all: what is wrong, which part of the file, and exit code 1."""
    ok(_export(source, "two", tmp_path / "two.alc"))
    program = (tmp_path / "two.alc").read_bytes()
    flipped = program[:3000] + bytes([program[3000] ^ 1]) + program[3001:]
    for name, data, words in (
        ("torn", program[:3000], f"the header says {len(program)} bytes, the file has 3000"),
        ("flipped", flipped, "the digest of the section table"),
        ("foreign", MODULES.encode(), "the first 8 bytes are not those of an .alc program"),
    ):
        (tmp_path / name).write_bytes(data)
        said = alcove("model", "verify", tmp_path / name)
        assert (said.code, words in said.err) == (1, True), said.err
