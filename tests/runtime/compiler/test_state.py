"""Buffers that a module changes become states, which live in a session only; what cannot be a state is refused."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, InputError, export, load
from alcove.runtime.model import Model
from torch import Tensor, nn

LENGTH = 6


class Counter(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and the number of calls so far."""
        self.get_buffer("calls").add_(1)
        return x.relu(), self.get_buffer("calls") + 0


class Average(nn.Module):
    """Keeps an exponential average of what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        """Return x without its average."""
        average = self.get_buffer("average")
        average.copy_(average * 0.75 + x.mean(0) * 0.25)
        return x - average


class Cache(nn.Module):
    """Attends to all that it was given, one position a call; writes the cache by index or by slice."""

    def __init__(self, *, by_index: bool) -> None:
        super().__init__()
        self.by_index = by_index
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(LENGTH, 8))
        self.register_buffer("values", torch.zeros(LENGTH, 8))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        """Return f32 [1, 8] of f32 [1, 8] at int64 [1] `position`."""
        query, key, value = self.qkv(x).chunk(3, -1)
        keys, values = self.get_buffer("keys"), self.get_buffer("values")
        if self.by_index:
            keys.index_copy_(0, position, key)
            values.index_copy_(0, position, value)
        else:
            keys[position] = key
            values[position] = value
        scores = (query @ keys.T).masked_fill(torch.arange(LENGTH) > position, -1e9)
        return scores.softmax(-1) @ values


class Window(nn.Module):
    """Keeps the last rows that it was given, the newest at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(LENGTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean of the window after f32 [2, 3] came in."""
        rows = self.get_buffer("rows")
        rows[:-2] = rows[2:].clone()
        rows[-2:] = x
        return rows.mean(0)


class Recurrent(nn.Module):
    """A recurrent layer that continues from its state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 5, batch_first=True)
        self.register_buffer("hidden", torch.zeros(1, 1, 5))

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [1, length, 5]."""
        y, hidden = self.gru(x, self.get_buffer("hidden"))
        self.get_buffer("hidden").copy_(hidden)
        return y


def _steps(count: int) -> list[tuple[Tensor, ...]]:
    return [(torch.randn(1, 8), torch.tensor([at])) for at in range(count)]


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Sequence[tuple[Tensor, ...]]], tuple[str, ...]]] = {
    "counter": (Counter, lambda: [(torch.randn(2, 4),) for _ in range(4)], ("calls",)),
    "average": (Average, lambda: [(torch.randn(3, 4),) for _ in range(5)], ("average",)),
    "cache by index": (lambda: Cache(by_index=True), lambda: _steps(LENGTH), ("keys", "values")),
    "cache by place": (lambda: Cache(by_index=False), lambda: _steps(LENGTH), ("keys", "values")),
    "window": (Window, lambda: [(torch.randn(2, 3),) for _ in range(5)], ("rows",)),
    "gru": (Recurrent, lambda: [(torch.randn(1, 4, 3),) for _ in range(4)], ("hidden",)),
}


def _eager(module: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> list[list[Tensor]]:
    """Return what a module gives for inputs one after the other, from its buffers as they are."""
    module = copy.deepcopy(module)
    with torch.no_grad():
        results = [module(*x) for x in inputs]
    return [[part.clone() for part in (out if isinstance(out, tuple) else (out,))] for out in results]


def _same(seen: Sequence[np.ndarray], expected: Sequence[Tensor]) -> None:
    for out, tensor in zip(seen, expected, strict=True):
        np.testing.assert_allclose(out, tensor.numpy(), rtol=1e-4, atol=1e-5)


def _model(case: str) -> tuple[nn.Module, Sequence[tuple[Tensor, ...]], Model]:
    make, inputs, names = CASES[case]
    module, argument = make().eval(), inputs()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    model = load(bytes(export(module, argument[0])))
    assert model.states == names
    for name, buffer in module.named_buffers():
        assert torch.equal(buffer, before[name]), name  # the export changed nothing
    return module, argument, model


@pytest.mark.parametrize("case", CASES)
def test_session_keeps_what_the_module_keeps(case: str) -> None:
    """Each call gives what torch gives; each call of the model starts from the initial state; reset() restores it."""
    module, inputs, model = _model(case)
    expected = _eager(module, inputs)
    session = model.session()
    for _ in range(2):
        for x, results in zip(inputs, expected, strict=True):
            _same(session(*(part.numpy() for part in x)), results)
            _same(model(*(part.numpy() for part in inputs[0])), expected[0])
        session.reset()


def test_a_buffer_begins_as_it_was_at_export() -> None:
    """Not with zeros: with what the module held."""
    module = Counter().eval()
    for _ in range(3):
        module(torch.zeros(1, 4))
    model = load(bytes(export(module, (torch.zeros(1, 4),))))
    assert model(np.zeros((1, 4), np.float32))[1] == 4


@pytest.mark.parametrize("case", ["cache by index", "cache by place"])
def test_failing_run_leaves_the_cache(case: str) -> None:
    """A position outside of the cache is an error, and the next run continues from the state before it."""
    module, inputs, model = _model(case)
    expected = _eager(module, inputs)
    session = model.session()
    for at, (x, results) in enumerate(zip(inputs, expected, strict=True)):
        for bad in (LENGTH, LENGTH + at + 1):
            with pytest.raises(InputError, match=f"is {bad}, allowed are"):
                session(x[0].numpy() + 1, np.array([bad]))
        _same(session(*(part.numpy() for part in x)), results)


def test_states_go_with_sizes_that_vary() -> None:
    """A recurrent layer takes chunks of any length, one after the other."""
    module = Recurrent().eval()
    dims = ({1: torch.export.Dim("length", min=1, max=16)},)
    session = load(bytes(export(module, (torch.randn(1, 4, 3),), dynamic_shapes=dims))).session()
    inputs = [(torch.randn(1, length, 3),) for length in (3, 16, 1, 5)]
    for x, results in zip(inputs, _eager(module, inputs), strict=True):
        _same(session(x[0].numpy()), results)


def test_state_that_takes_the_size_of_an_input_is_refused() -> None:
    """A buffer has one size; what varies cannot be kept."""

    class Growing(nn.Module):
        last: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(4, 3))

        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            result = x + self.last.sum()
            self.last = x * 2
            return result

    with pytest.raises(ExportError, match="fixes dimension 0 to 4"):
        export(Growing().eval(), (torch.zeros(4, 3),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=8)},))


def test_buffer_of_a_type_that_no_program_has_is_refused() -> None:
    """float64 would be kept as float32: not the same numbers."""

    class Double(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros((), dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            self.get_buffer("total").add_(1)
            return x.relu()

    with pytest.raises(ExportError, match="float64"):
        export(Double().eval(), (torch.zeros(4),))


class Noting(nn.Module):
    """Writes what it saw into one buffer that it reads after that alone, and into another that it never reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(1))
        self.register_buffer("last", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.get_buffer("sum").copy_(x.sum()[None])
        self.get_buffer("last").copy_(x)
        return x + self.get_buffer("sum")


def test_buffer_that_is_only_written_is_no_state() -> None:
    """No call can tell what it holds."""
    module = Noting().eval()
    program = export(module, (torch.randn(2, 3),))
    assert not program.spec.states
    session = load(bytes(program)).session()
    for _ in range(2):
        x = torch.randn(2, 3)
        np.testing.assert_allclose(session(x.numpy())[0], module(x), rtol=1e-5)
