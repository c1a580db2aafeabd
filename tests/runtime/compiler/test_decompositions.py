"""Exported graphs are decomposed as torch decomposes them, and torch is left as it was."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from alcove.runtime import export, load
from alcove.runtime.compiler import decompositions
from alcove.runtime.compiler.decompositions import run_decompositions
from alcove.runtime.compiler.rules import KEPT
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings(r"ignore:.*LeafSpec:FutureWarning")  # torch's, of its own class


class Mixed(nn.Module):
    """Composite operators that are decomposed, and some that are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        rows = self.norm(self.conv(x)).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(rows, rows, rows)
        return torch.einsum("bic,bjc->bij", mixed, rows.reshape_as(mixed)).float_power(2.0)


def trace(module: nn.Module) -> torch.export.ExportedProgram:
    """Return the graph of a module that takes an image."""
    return torch.export.export(module.eval(), (torch.ones(1, 3, 6, 6),), strict=False)


def decompose_plainly(exported: torch.export.ExportedProgram) -> str:
    """Return the graph that torch alone makes with the same table."""
    table: Any = torch.export.default_decompositions()
    for target in KEPT:
        namespace, name, overload = target.split(".")
        table.pop(getattr(getattr(getattr(torch.ops, namespace), name), overload), None)
    return str(exported.run_decompositions(table).graph)


def read_kernels() -> dict[Any, dict[Any, Any]]:
    """Return what is registered in Python for the operators of aten."""
    packets = [getattr(torch.ops.aten, name) for name in list(torch.ops.aten)]
    operators = [getattr(packet, overload) for packet in packets for overload in packet.overloads()]
    return {operator: operator.py_kernels.copy() for operator in operators}


def test_recorded_kernels_give_torchs_graph_and_leave_its_tables() -> None:
    """The export that records them, and the next ones."""
    module = Mixed()
    run_decompositions(trace(module))
    before = read_kernels()
    graphs = {str(decompositions._run_whole(trace(module)).graph) for _ in range(3)}
    assert graphs == {decompose_plainly(trace(module))}
    assert read_kernels() == before


def test_composite_operator_of_a_later_library_is_decomposed() -> None:
    """What was recorded holds for the operators that there were."""
    run_decompositions(trace(nn.ReLU()))
    library: Any = torch.library.Library("alcove_later", "DEF")  # type: ignore[no-untyped-call]
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: x + x, "CompositeImplicitAutograd")

    class Later(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = torch.ops.alcove_later.doubled(x)
            return result

    graph = str(run_decompositions(trace(Later())).graph)
    assert _calls(graph) == _calls(decompose_plainly(trace(Later())))
    assert "alcove_later" not in graph


def _calls(graph: str) -> Counter[str]:
    """Return how often each operator is called."""
    return Counter(line.partition("[target=")[2].partition("]")[0] for line in graph.splitlines())


def _names_of_wholes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by one for each graph that is traced whole."""
    wholes: list[str] = []
    plain = decompositions._run_whole

    def run_whole(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        wholes.append("whole")
        return plain(exported)

    monkeypatch.setattr(decompositions, "_run_whole", run_whole)
    return wholes


class Applied(nn.Module):
    """A function of an image [1, 4, 6, 6] with weights."""

    def __init__(self, function: Callable[[Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return self.function(x, self.conv)


def _view_before(x: Tensor, conv: nn.Module) -> Tensor:
    y = conv(x)
    early = y[:, 0]
    y.relu_()
    return early + y[:, 1]


def _part(x: Tensor, conv: nn.Module) -> Tensor:
    y = conv(x)
    first, second = y[:, :2], y[:, 2:]
    first.add_(1.0)
    return y * second.sum()


def _expansion(x: Tensor, conv: nn.Module) -> Tensor:
    row = conv(x)[:, :1, :1, :1]
    row.mul_(2.0)
    return row.expand(1, 4, 6, 6) + x


def _own_input(x: Tensor, conv: nn.Module) -> Tensor:
    y = x + 0
    z = y.contiguous()  # the same tensor
    z.mul_(3.0)
    return conv(y)


SHARING = [_view_before, _part, _expansion]
"""Functions that change a tensor while another has its bytes."""


@pytest.mark.parametrize("function", SHARING)
def test_change_that_others_see_is_left_to_torch(
    function: Callable[[Tensor, nn.Module], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What shares the bytes has the new elements too."""
    wholes = _names_of_wholes(monkeypatch)
    _check_outputs(Applied(function))
    assert wholes == ["whole"]


def _chain(x: Tensor, conv: nn.Module) -> Tensor:
    y = conv(x)
    z = y.add_(x)
    z.relu_()
    late = y[:, 0]
    return late + nn.functional.silu(y, inplace=True)[:, 1]


def _reader_before(x: Tensor, conv: nn.Module) -> Tensor:
    y = conv(x)
    total = y.sum()
    y.clamp_(min=0.0)
    return y * total


ALONE = [_reader_before, _own_input]
"""Functions that change a tensor whose bytes nothing else has."""


@pytest.mark.parametrize("function", ALONE)
def test_change_of_a_tensor_that_is_alone_needs_no_second_trace(
    function: Callable[[Tensor, nn.Module], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers before it have the old elements, those after it the new ones."""
    wholes = _names_of_wholes(monkeypatch)
    _check_outputs(Applied(function))
    assert not wholes


def test_view_between_two_changes_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two changes are alone, the third is not."""
    wholes = _names_of_wholes(monkeypatch)
    _check_outputs(Applied(_chain))
    assert wholes == ["whole"]


def _powers(x: Tensor, conv: nn.Module) -> Tensor:
    return torch.vander(conv(x).flatten(), 4)


def test_operator_that_writes_into_a_tensor_it_made_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of the writes, not what the tensor held before them."""
    wholes = _names_of_wholes(monkeypatch)
    _check_outputs(Applied(_powers))
    assert wholes == ["whole"]


class Block(nn.Module):
    """A residual block as libraries write it: changes in place, pooling, a kept and some composite operators."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.gate = nn.Hardswish(inplace=True)
        self.classes = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Run."""
        y = self.gate(self.norm(self.first(x)))
        y = nn.functional.relu(self.second(y).add_(x), inplace=True)
        return self.classes(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1)).softmax(-1), y


def test_block_has_torchs_operators_without_a_second_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs differ in names and in what nothing reads."""
    wholes = _names_of_wholes(monkeypatch)
    x = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    exported = torch.export.export(Block().eval(), (x,), strict=False)
    found = _calls(str(run_decompositions(exported).graph))
    assert not wholes
    whole = decompose_plainly(torch.export.export(Block().eval(), (x,), strict=False))
    assert found == _calls(whole)
    _check_outputs(Block())


def _check_outputs(module: nn.Module) -> None:
    torch.manual_seed(3)
    x = torch.randn(1, 4, 6, 6)
    with torch.no_grad():
        expected = module.eval()(x.clone())
    outputs = load(bytes(export(module, (x,))))(x.numpy())
    for output, wanted in zip(outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert torch.allclose(torch.from_numpy(output), wanted, atol=1e-5)
