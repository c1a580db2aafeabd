"""Modules of TorchScript are exported as the modules that they were made from."""

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from alcove.runtime.compiler import load_state
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class Branches(nn.Module):
    """A branch on data."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        if bool(x.sum() > 0):
            return x + 1
        return x


def test_traced_module_is_exported() -> None:
    """Its weights keep their names."""
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU()).eval()
    traced = torch.jit.trace(module, EXAMPLE)  # type: ignore[no-untyped-call]
    program = export(traced, (EXAMPLE,))
    assert "0.weight" in load_state(program.spec)
    got = load(bytes(program))(EXAMPLE.numpy())[0]
    np.testing.assert_allclose(got, module(EXAMPLE).detach().numpy(), rtol=1e-5, atol=1e-6)


class Steps(nn.Module):
    """What a trace would not keep: a loop over layers, a list, an option, a branch on a size."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        """Run."""
        kept: list[Tensor] = []
        for layer in self.layers:
            x = torch.relu(layer(x)) + float(x.size(0))
            kept.append(x)
        if shift is not None:
            x = x + shift
        if x.shape[0] > 2:
            x = self.norm(x) * len(kept)
        kept.append(x)
        return torch.cat(kept, 1)


class Counter(nn.Module):
    """A count in a buffer."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.calls += 1
        return x + self.calls


class History(nn.Module):
    """A list that grows with each call."""

    kept: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.kept = [torch.ones(1)]

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept.append(x)
        return x * len(self.kept)


class Calls(nn.Module):
    """A number that grows with each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.calls += 1
        return x * self.calls


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("runs", [0, 4])
def test_scripted_module_is_exported(inputs: int, runs: int) -> None:
    """With the values of the module it was made from, also when TorchScript has optimized it for what it saw."""
    module = Steps().eval()
    scripted = torch.jit.script(module)
    args = (EXAMPLE, EXAMPLE * 2)[:inputs]
    for _ in range(runs):
        scripted(*args)
    program = export(scripted, args)
    assert "layers.0.weight" in load_state(program.spec)
    other = [-1.5 * arg for arg in args]
    np.testing.assert_allclose(
        load(bytes(program))(*(x.numpy() for x in other))[0], module(*other).detach().numpy(), rtol=1e-5, atol=1e-5
    )


def test_buffer_of_a_script_is_a_state() -> None:
    """What a run changes the next one has."""
    session = load(bytes(export(torch.jit.script(Counter().eval()), (EXAMPLE,)))).session()
    first, second = session(EXAMPLE.numpy())[0], session(EXAMPLE.numpy())[0]
    np.testing.assert_array_equal(first, EXAMPLE.numpy() + 1)
    np.testing.assert_array_equal(second, EXAMPLE.numpy() + 2)


class Replacement(nn.Module):
    """A buffer that each call puts another in place of."""

    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        before = self.last
        self.last = x * 2
        return x + before


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Replacement, "changes last"), (History, "changes kept"), (Calls, "changes calls"), (Branches, "depend on data")],
)
def test_script_that_no_program_can_follow_is_refused(kind: type[nn.Module], reason: str) -> None:
    """State outside of buffers, and a branch on data."""
    with pytest.raises(ExportError, match=reason):
        export(torch.jit.script(kind().eval()), (EXAMPLE,))


def test_size_that_a_script_takes_as_a_number_does_not_vary() -> None:
    """The interpreter computes with the example's size, so another one would be wrong."""
    with pytest.raises(ExportError):
        export(torch.jit.script(Steps().eval()), (EXAMPLE,), dynamic_shapes={"x": {0: torch.export.Dim("n", max=9)}})


EXAMPLE = torch.randn(3, 4)
