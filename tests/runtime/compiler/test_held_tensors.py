"""Tensors that a module keeps in objects and lists are states of its program, as buffers are."""

import copy

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, Method, export, load
from alcove.runtime.compiler.held_tensors import hold_tensors
from torch import Tensor, nn

LENGTH, WIDTH = 6, 3


class Layer:
    """Rows of one layer, as a library's cache has them."""

    def __init__(self) -> None:
        self.rows = torch.zeros(LENGTH, WIDTH)
        self.position = torch.zeros((), dtype=torch.int64)

    def update(self, x: Tensor) -> Tensor:
        """Return all rows after those of x have been put in."""
        places = self.position + torch.arange(x.shape[0])
        self.position.add_(x.shape[0])
        self.rows.index_copy_(0, places, x)
        return self.rows


class Cache:
    """Layers."""

    def __init__(self) -> None:
        self.layers = [Layer(), Layer()]


class Mixer(nn.Module):
    """Two layers over a cache that is no module."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.cache = Cache()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [l, 3] of f32 [l, 3]."""
        for layer in self.cache.layers:
            x = self.mix(x) + layer.update(x).sum(0)
        return x

    def total(self, x: Tensor) -> Tensor:
        """Return the sum of all rows times x, and count the calls."""
        self.get_buffer("calls").add_(1)
        return self.cache.layers[1].rows.sum(0) * x + self.get_buffer("calls")


class Counter(nn.Module):
    """Counts in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.seen = [0]

    def forward(self, x: Tensor) -> Tensor:
        """Return x, doubled after the first call."""
        self.seen[0] += 1
        self.cache.layers[0].rows.add_(x)
        return x if self.seen[0] == 1 else x * 2


class Growing(nn.Module):
    """Puts another tensor in the place of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of all rows."""
        self.layer.rows = torch.cat([self.layer.rows[1:], x])
        return self.layer.rows.sum(0)


class Looking(nn.Module):
    """Takes its way by constants in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = [torch.tensor([2, 3])]

    def forward(self, x: Tensor) -> Tensor:
        """Return x times what a list says."""
        return x * 5 if self.steps[0].tolist() == [2, 3] else x


def rows(count: int) -> Tensor:
    """Rows to add."""
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def test_two_methods_share_a_cache_that_is_no_module() -> None:
    """They answer as the module, call after call; the module keeps its own."""
    torch.manual_seed(3)
    module = Mixer().eval()
    eager = copy.deepcopy(module)
    methods = {
        "three": Method(module, (rows(3),)),
        "one": Method(module, (rows(1),)),
        "total": Method(module.total, (rows(1),)),
    }
    model = load(bytes(export(methods)))
    kept = {f"cache_layers_{i}_{name}" for i in range(2) for name in ("rows", "position")}
    assert set(model.states) == kept
    assert set(model.method("total").states) == {"cache_layers_1_rows", "calls"}
    session = model.session()
    with torch.no_grad():
        np.testing.assert_allclose(session(rows(3))[0], eager(rows(3)).numpy(), atol=1e-6)
        for _ in range(2):
            np.testing.assert_allclose(session.run("one", rows(1))[0], eager(rows(1)).numpy(), atol=1e-6)
            np.testing.assert_allclose(session.run("total", rows(1))[0], eager.total(rows(1)).numpy(), atol=1e-6)
    assert not module.cache.layers[0].rows.any()
    assert "_alcove_held" not in vars(module)


def test_a_tensor_that_is_a_buffer_too_keeps_its_name() -> None:
    """As where a user registers the tensors of a cache."""
    module = Mixer().eval()
    module.register_buffer("first", module.cache.layers[0].rows)
    names = [name for name, _ in hold_tensors(module).named_buffers()]
    assert names == ["calls", "first", "cache_layers_0_position", "cache_layers_1_rows", "cache_layers_1_position"]


@pytest.mark.parametrize("kind", [Counter, Growing])
def test_what_an_object_keeps_beside_tensors_is_refused(kind: type[nn.Module]) -> None:
    """A number that counts, or a tensor that another takes the place of, would be frozen."""
    module = kind().eval()
    with pytest.raises(ExportError, match="forward changes it, and a program would keep what it was at export"):
        export(module, (rows(1),))


def test_a_module_may_read_constants_of_a_list() -> None:
    """They are no states."""
    model = load(bytes(export(Looking().eval(), (rows(2),))))
    assert model.states == ()
    np.testing.assert_array_equal(model(rows(2))[0], rows(2).numpy() * 5)
