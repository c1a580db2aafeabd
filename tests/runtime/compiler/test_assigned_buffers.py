"""Buffers that modules assign, wherever they stand in the module, are kept by a session as eager mode keeps them."""

import copy

import pytest
import torch
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn


class Stream(nn.Module):
    """A convolution that keeps the end of what it saw."""

    cache: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 3)
        self.register_buffer("cache", torch.zeros(1, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Return as many columns as `x` has."""
        joined = torch.cat([self.cache, x], -1)
        self.cache = joined[..., -2:]
        made: Tensor = self.conv(joined)
        return made.relu()


class Before(nn.Module):
    """Returns what it kept, by itself and as a view, after it keeps something else."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(1, 2, 5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run."""
        old = self.kept
        self.kept = old * 0.5 + x
        self.kept = self.kept + 1
        return old, old[:, :1], old + self.kept


class Last(nn.Module):
    """Returns the input of the call before."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(1, 2, 5))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        old, self.kept = self.kept, x
        return old


class Passed(nn.Module):
    """Passes what it kept from buffer to buffer, before and after the first gets something new."""

    first: Tensor
    second: Tensor
    third: Tensor

    def __init__(self) -> None:
        super().__init__()
        for place, name in enumerate(("first", "second", "third")):
            self.register_buffer(name, torch.full((1, 2, 5), float(place)))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.third = self.second
        old = self.first.view(1, 2, 5)
        self.first = self.first * 0.5 + x
        self.second = old
        return self.first + 2 * self.second + 4 * self.third


class Swapped(Passed):
    """Two buffers change places in every call, and one is assigned what another module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Last()

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.first, self.second = self.second, self.first + x
        old: Tensor = self.inner(x)
        self.third = self.inner.kept
        return self.first - self.second + old * self.third


class Narrow(Last):
    """Keeps fewer columns than its buffer has."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept = x[..., :2]
        return x


class Outer(nn.Module):
    """A module around another one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> object:
        """Run it."""
        return self.inner(x)


@pytest.mark.parametrize(
    "module",
    [
        Stream(), nn.Sequential(Stream(), nn.Sequential(Stream())), Before(), Outer(Before()), Last(), Outer(Last()),
        Passed(), Outer(Passed()), Swapped(), Outer(Swapped()),
    ],
    ids=[
        "outermost", "nested twice", "old returned", "nested, old returned", "an input", "nested, an input",
        "another buffer", "nested, another buffer", "swapped", "nested, swapped",
    ],
)  # fmt: skip
def test_assigned_buffer_is_kept_from_call_to_call(module: nn.Module) -> None:
    """Three calls in a row answer as eager mode does, and the export leaves the module as it was."""
    eager = copy.deepcopy(module).eval()
    session = load(bytes(export(module.eval(), (torch.randn(1, 2, 5),)))).session()
    for (name, buffer), before in zip(module.named_buffers(), eager.buffers(), strict=True):
        assert type(buffer) is Tensor, name
        assert torch.equal(buffer, before), name
    for _ in range(3):
        x = torch.randn(1, 2, 5)
        with torch.no_grad():
            expected = eager(x.clone())
        answers = expected if isinstance(expected, tuple) else (expected,)
        for wanted, found in zip(answers, session(x.numpy()), strict=True):
            assert torch.allclose(wanted, torch.from_numpy(found), atol=1e-6)


@pytest.mark.parametrize("module", [Narrow(), Outer(Narrow())], ids=["outermost", "nested"])
def test_assigned_buffer_of_another_shape_is_refused_by_its_name(module: nn.Module) -> None:
    """The finding says what the shape was and is."""
    with pytest.raises(ExportError, match=r"kept: forward assigns torch.float32 of shape \[1, 2, 2\].* \[1, 2, 5\]"):
        export(module.eval(), (torch.randn(1, 2, 5),))
