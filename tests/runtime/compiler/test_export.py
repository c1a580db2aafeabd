"""Supported modules become the operators, constants, names and bytes that they should."""

import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import alcove.runtime.compiler
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import Method, _native, export, load
from alcove.runtime.format.spec import DType, Layout, ProgramSpec, Storage
from torch import Tensor, nn


def ops(spec: ProgramSpec) -> list[str]:
    """Return the names of the operators, in order."""
    return [op.name for op in spec.ops]


def test_text_model_becomes_six_operators(text_model: nn.Module) -> None:
    """Ports, types, labels, attributes and sources are those of the module."""
    spec = export(text_model, ("any text",)).spec
    assert ops(spec) == ["ngram_hash", "text_embedding_bag", "linear", "linear", "softmax", "topk"]
    (text,) = spec.inputs
    assert text.name == "utf8"
    assert spec.tensors[text.tensor].dtype is DType.TEXT
    assert [(port.name, port.labels) for port in spec.outputs] == [
        ("values", ()),
        ("indices", ("de", "en", "fr", "nl", "sv")),
    ]
    assert spec.ops[0].attributes == (1, 4, 512, 7)
    ids = spec.tensors[spec.ops[0].outputs[0]]
    assert (ids.dtype, ids.shape, ids.is_ragged) == (DType.I32, (96,), True)
    assert spec.ops[1].attributes == (1,)
    assert spec.ops[-1].attributes == (3, 1)
    assert all(op.source.startswith("conftest.py:") for op in spec.ops)


def test_constants_are_named_after_parameters_in_the_kernels_layout(text_model: nn.Module) -> None:
    """f32: table row by row, linears in panels with the bias in front."""
    spec = export(text_model, ("any text",)).spec
    constants = {t.name: t for t in spec.tensors if t.storage is Storage.CONSTANT}
    assert list(constants) == ["table", "hidden.weight+hidden.bias", "out.weight+out.bias"]
    assert constants["table"].data == text_model.get_parameter("table").detach().numpy().tobytes()
    panels = constants["out.weight+out.bias"]
    assert (panels.layout, panels.shape) == (Layout.PANEL16, (5, 20))
    first_row = np.frombuffer(panels.data, "<f4")[:16]
    assert np.array_equal(first_row[:5], text_model.get_parameter("out.bias").detach().numpy())
    assert not first_row[5:].any()


def test_int8_program_is_about_a_quarter(make_text_model: Callable[..., nn.Module]) -> None:
    """The table takes a byte an element, with one scale a column."""
    module = make_text_model(buckets=4096, dim=32).eval()
    whole, small = export(module, ("a",)), export(module, ("a",), quantize="int8")
    table = next(t for t in small.spec.tensors if t.name == "table")
    scale = next(t for t in small.spec.tensors if t.name == "table:scale")
    assert (table.dtype, len(table.data), scale.shape) == (DType.I8, 4096 * 32, (32,))
    assert len(bytes(small)) < 0.35 * len(bytes(whole))


def test_same_module_gives_the_same_bytes(text_model: nn.Module) -> None:
    """Again in this process, whatever the example text."""
    once = export(text_model, ("a",), quantize="int8")
    again = export(text_model, ("a much longer text than before",), quantize="int8")
    assert bytes(once) == bytes(again)
    assert once.digest == again.digest


MODEL = """
import torch
from torch import nn

from alcove.runtime import export


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 20)
        self.b = nn.Linear(20, 3)

    def forward(self, x):
        return {"p": torch.softmax(self.b(torch.relu(self.a(x))), 1)}


torch.manual_seed(1)
DIGEST = export(Model().eval(), (torch.zeros(1, 8),)).digest
print(DIGEST)
"""


def test_same_module_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    """Neither the order of hashes nor the folder of the source reaches the program."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.py").write_text(MODEL)
    here = runpy.run_path(str(tmp_path / "here" / "model.py"))["DIGEST"]
    there = subprocess.run(
        [sys.executable, str(tmp_path / "there" / "model.py")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "3", "PATH": ""},
    )
    assert there.stdout.strip() == here


class Forms(nn.Module):
    """The forms in which torch writes a linear, each used once."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.w = nn.Parameter(torch.randn(8, 8))
        self.b = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        x = self.first(x) + self.b
        x = torch.addmm(self.b, x, self.w)
        x = torch.mm(x, self.w.t())
        x = x @ self.w + torch.ones(1, 8)
        x = F.linear(x, self.w.t() * 2, self.b)
        return x.unsqueeze(0).flatten(0, 1).clone()


def test_every_form_of_a_linear_becomes_a_linear() -> None:
    """addmm, mm, matmul and added vectors are linears; what clones only copies is one step at the end."""
    module, x = Forms().eval(), torch.randn(1, 8)
    program = export(module, (x,))
    assert ops(program.spec) == ["linear"] * 5 + ["reshape"]
    with torch.no_grad():
        np.testing.assert_allclose(load(bytes(program))(x.numpy())[0], module(x).numpy(), rtol=1e-4, atol=1e-5)


def test_bias_is_not_folded_into_a_linear_that_is_used_elsewhere() -> None:
    """The sum stays a step: the linear's own value is an output."""

    class Used(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            """Run."""
            y = self.lin(x)
            return y, y + torch.ones(3)

    module, x = Used().eval(), torch.randn(1, 4)
    program = export(module, (x,))
    assert ops(program.spec) == ["linear", "binary"]
    for seen, expected in zip(load(bytes(program))(x.numpy()), module(x), strict=True):
        np.testing.assert_allclose(seen, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_relu_runs_in_place_and_the_arena_is_small(make_mlp: Callable[..., nn.Module]) -> None:
    """A deep MLP needs the bytes of its two widest neighbours."""
    spec = export(make_mlp(16, 64, 64, 64, 16).eval(), (torch.zeros(1, 16),)).spec
    for op in spec.ops:
        if op.name == "unary":
            assert spec.tensors[op.inputs[0]].offset == spec.tensors[op.outputs[0]].offset
    assert spec.arena_bytes == 2 * 64 * 4


def test_outputs_are_named_by_keys_fields_or_position() -> None:
    """Dictionary keys and field names joined; else, or if two agree, output_<position>; a lone tensor is `output`."""

    class Out(nn.Module):
        def __init__(self, shape: str) -> None:
            super().__init__()
            self.shape = shape

        def forward(self, x: Tensor) -> object:
            """Run."""
            a, b = torch.relu(x), torch.softmax(x, 1)
            shapes: dict[str, object] = {
                "one": a,
                "tuple": (a, b),
                "keys": {"a": a, "b": b},
                "nested": {"top": torch.topk(x, 1)},
                "same": {"a_b": a, "a": {"b": b}},
            }
            return shapes[self.shape]

    names = {
        "one": ["output"],
        "tuple": ["output_0", "output_1"],
        "keys": ["a", "b"],
        "nested": ["top_0", "top_1"],
        "same": ["output_0", "output_1"],
    }
    for shape, expected in names.items():
        spec = export(Out(shape).eval(), (torch.zeros(1, 4),)).spec
        assert [port.name for port in spec.outputs] == expected


def test_what_a_module_prints_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the noise of a failing trace is kept out of the terminal."""

    class Chatty(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            sys.stderr.write("tracing\n")
            return torch.relu(x)

    export(Chatty().eval(), (torch.zeros(1, 4),))
    assert capsys.readouterr().err == "tracing\n"


def test_explain_shows_the_graph_after_each_pass(text_model: nn.Module) -> None:
    """Every pass by name, with operators, types and source lines."""
    text = export(text_model, ("a",), quantize="int8").explain()
    for name in ("capture", "lower", "eliminate_dead_code", "layout", "fuse", "quantize", "pack", "plan"):
        assert f"== after {name} ==" in text
    assert "table: i8[512, 12]" in text
    assert "conftest.py:" in text


def test_every_operator_of_the_kernels_manifest_is_written_by_the_exporter() -> None:
    """The compiler names each operator that the runtime has: none is there for nobody."""
    folder = Path(alcove.runtime.compiler.__file__).parent
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    missing = {op.name for op in _native.manifest() if not re.search(rf'"{op.name}["_]', source)}
    assert not missing


def test_no_module_takes_the_place_of_export() -> None:
    """After every sub-module of the runtime is imported, `alcove.runtime.export` is still the function."""
    for module in pkgutil.walk_packages(alcove.runtime.__path__, "alcove.runtime."):
        if not module.name.endswith(".libalcove"):  # the C library beside the modules
            importlib.import_module(module.name)
    assert callable(alcove.runtime.export)
    assert alcove.runtime.export.__name__ == "export"


def test_an_export_names_each_step_before_its_start() -> None:
    """Where sizes vary, packing is part of finding them; of several methods each has its own, and one writes all."""
    module, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), torch.ones(2, 4)
    steps: list[str] = []
    export(module, (x,), progress=steps.append)
    assert steps == ["trace", "lower", "choose forms", "pack", "write"]
    steps.clear()
    export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=4)},), progress=steps.append)
    assert steps == ["trace", "lower", "choose forms", "find sizes", "write"]
    steps.clear()
    export({"one": Method(module, (x,)), "two": Method(module, (x,))}, progress=steps.append)
    assert steps[:2] + steps[-1:] == ["one: trace", "two: trace", "write"]
