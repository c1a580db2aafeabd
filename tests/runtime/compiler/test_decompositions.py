"""Exported graphs are decomposed as torch decomposes them, and torch is left as it was."""

from typing import Any

import pytest
import torch
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
    graphs = {str(run_decompositions(trace(module)).graph) for _ in range(3)}
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
    assert graph == decompose_plainly(trace(Later()))
    assert "alcove_later" not in graph
