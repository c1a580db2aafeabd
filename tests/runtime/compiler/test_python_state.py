"""What a module keeps in Python from one call to the next is refused; what every call sets to the same is not."""

import copy
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn

CALLS: list[int] = []
CONFIGURATION: Any = ModuleType("configuration")
CONFIGURATION.__file__, CONFIGURATION.level = __file__, 0
TOTAL = 0
HERE = Path(__file__).name


class Keeps(nn.Module):
    """Has what its children change."""

    def __init__(self, kept: Any = None) -> None:
        super().__init__()
        self.kept = kept
        self.other = 1


class Counter(Keeps):
    """Adds to a number."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.other += 1  # changed
        return x * self.other


class History(Keeps):
    """Appends to a list or a deque."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept.append(1)  # changed
        return x * len(self.kept)


class Entries(Keeps):
    """Counts in a dictionary of a dictionary."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept["a"]["b"] += 1  # changed
        return x * self.kept["a"]["b"]


class Members(Keeps):
    """Adds to a set."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept.add(len(self.kept))  # changed
        return x * len(self.kept)


class Previous(Keeps):
    """Subtracts the frame before: two calls with the same frame show nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        y = torch.zeros_like(x) if self.kept is None else x - self.kept
        self.kept = x  # changed
        return y


class Tensors(Keeps):
    """Sums up all that it saw."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept = [*self.kept, x]  # changed
        return torch.stack(self.kept).sum(0)


class Toggle(Keeps):
    """Does another thing at every second call."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept = not self.kept  # changed
        return x if self.kept else -x


class New(nn.Module):
    """Makes an attribute at its first call."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.seen = getattr(self, "seen", 0) + 1  # changed
        return x * self.seen


class Iterates(Keeps):
    """Takes the next number of a counter."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x * next(self.kept)


class Object:
    """No module, and no container."""

    def __init__(self) -> None:
        self.level = 0


class OfObject(Keeps):
    """Changes an object that it has."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.kept.level += 1  # changed
        return x * self.kept.level


class Slotted:
    """Has no dictionary of attributes."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0


class Hooked(nn.Module):
    """Counts in a hook of a child, whose closure every copy of the module shares."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ReLU()
        self.seen: list[int] = []
        self.layer.register_forward_hook(lambda *_: self.seen.append(1))  # changed

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        result: Tensor = self.layer(x) * (1 + len(self.seen))
        return result


class Library(nn.Module):
    """Counts in a name of another module of the user's."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        CONFIGURATION.level += 1  # changed
        changed: Tensor = x * CONFIGURATION.level
        return changed


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


class Parent(nn.Module):
    """Changes an attribute of a child, which does nothing itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Keeps(0)])

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        child: Any = self.layers[0]
        child.kept = child.kept + 1  # changed
        changed: Tensor = x * child.kept
        return changed


class OfClass(nn.Module):
    """Counts in its class."""

    count = 0

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        OfClass.count += 1  # changed
        return x * OfClass.count


class OfGlobal(nn.Module):
    """Appends to a global."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        CALLS.append(1)  # changed
        return x * len(CALLS)


class OfGlobalNumber(nn.Module):
    """Adds to a global number, in a helper."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x * _count()


def _count() -> int:
    global TOTAL  # noqa: PLW0603 - it is what is looked for
    TOTAL += 1
    return TOTAL


class OfClosure(nn.Module):
    """Calls a function that counts in its closure."""

    def __init__(self) -> None:
        super().__init__()
        count = 0

        def increment() -> int:
            nonlocal count
            count += 1
            return count

        self.count = increment

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x * self.count()


KEPT: dict[str, tuple[Any, str, str, str]] = {
    "a number": (Counter, "attribute other", "", "self.other += 1"),
    "a list": (lambda: History([]), "attribute kept", "", "self.kept.append(1)"),
    "a deque": (lambda: History(deque([0], maxlen=100)), "attribute kept", "", "self.kept.append(1)"),
    "an entry": (lambda: Entries({"a": {"b": 0}}), "attribute kept", "", 'self.kept["a"]["b"] += 1'),
    "a set": (lambda: Members(set()), "attribute kept", "", "self.kept.add("),
    "a frame": (Previous, "attribute kept", "", "self.kept = x"),
    "tensors": (lambda: Tensors([]), "attribute kept", "", "self.kept = [*self.kept, x]"),
    "a bool": (lambda: Toggle(False), "attribute kept", "", "self.kept = not"),
    "a new attribute": (New, "attribute seen", "", "self.seen = getattr"),
    "an iterator": (lambda: Iterates(itertools.count(1)), "attribute kept", "", "next(self.kept)"),
    "a generator": (lambda: Iterates(_numbers()), "attribute kept", "", "next(self.kept)"),
    "a list's iterator": (lambda: Iterates(iter([3, 2, 1])), "attribute kept", "", "next(self.kept)"),
    "slots": (lambda: OfObject(Slotted()), "attribute kept", "", "self.kept.level += 1"),
    "a hook": (Hooked, "attribute seen", "", "len(self.seen)"),
    "a name of a library": (Library, "global level", "", "CONFIGURATION.level += 1"),
    "an object": (lambda: OfObject(Object()), "attribute kept", "", "self.kept.level += 1"),
    "a child's": (lambda: nn.Sequential(nn.ReLU(), Counter()), "attribute other", "1", "self.other += 1"),
    "by a parent": (Parent, "attribute kept", "layers.0", "child.kept = "),
    "a class attribute": (OfClass, "class attribute count", "", "OfClass.count += 1"),
    "a global": (OfGlobal, "global CALLS", "", "CALLS.append(1)"),
    "a global number": (OfGlobalNumber, "global TOTAL", "", ""),
    "a closure": (OfClosure, "closure variable count", "", ""),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_kept_between_calls_is_refused_with_its_line(case: str) -> None:
    """One finding: what it is, the module's path and the line that changes it."""
    make, op, path, line = KEPT[case]
    with pytest.raises(ExportError) as caught:
        export(make().eval(), (torch.ones(2, 3),))
    (finding,) = caught.value.findings
    assert (finding.op, finding.module_path) == (op, path)
    assert "register a buffer" in finding.suggestion
    if line:
        file, _, number = finding.source.rpartition(":")
        assert Path(file).name == HERE
        assert line in Path(file).read_text(encoding="utf-8").splitlines()[int(number) - 1]


class Cached(Keeps):
    """Keeps a tensor that every call would make the same."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        if self.kept is None:
            self.kept = torch.arange(3.0)
        return x + self.kept


class CachedBySize(Keeps):
    """Keeps a tensor for each size that it saw, and the last size."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.other = x.shape[-1]
        if x.shape[-1] not in self.kept:
            self.kept[x.shape[-1]] = torch.arange(float(x.shape[-1]))
        return x + self.kept[x.shape[-1]]


class CachedLate(nn.Module):
    """Makes its cache at the first call."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        if not hasattr(self, "table"):
            self.table = torch.arange(3.0)
        return x + self.table


CACHES: dict[str, Any] = {
    "a tensor": Cached,
    "by size": lambda: CachedBySize({}),
    "made late": CachedLate,
}


@pytest.mark.parametrize("case", CACHES)
def test_cache_that_every_call_sets_to_the_same_is_no_state(case: str) -> None:
    """It is exported, gives what eager gives, and the module is as it was."""
    module = CACHES[case]().eval()
    before = copy.deepcopy(vars(module))
    model = load(bytes(export(module, (torch.ones(2, 3),))))
    after = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    assert after == {name: value for name, value in before.items() if not name.startswith("_")}
    x = torch.randn(2, 3)
    np.testing.assert_allclose(model(x.numpy())[0], module(x).numpy())


@pytest.mark.parametrize("case", KEPT)
def test_refused_module_is_as_it_was(case: str) -> None:
    """Attributes, containers, globals and class attributes have what they had before the trace."""
    module = KEPT[case][0]().eval()
    counts = len(CALLS), TOTAL, OfClass.count, CONFIGURATION.level
    kept = [repr(getattr(part, "kept", None)) for part in module.modules()]
    with pytest.raises(ExportError):
        export(module, (torch.ones(2, 3),))
    assert (len(CALLS), TOTAL, OfClass.count, CONFIGURATION.level) == counts
    if case not in {"an iterator", "a generator", "a list's iterator"}:  # nothing turns these back
        assert [repr(getattr(part, "kept", None)) for part in module.modules()] == kept
    assert [getattr(part, "other", 1) for part in module.modules()] == [1 for _ in module.modules()]


DRAWS: dict[str, Callable[[], float]] = {"random": random.random, "numpy": lambda: float(np.random.rand())}


@pytest.mark.parametrize("case", DRAWS)
def test_numbers_that_python_draws_are_refused(case: str) -> None:
    """They would be those of the export for ever."""
    draw = DRAWS[case]

    class Draws(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            return x * draw()

    with pytest.raises(ExportError, match="draws numbers of Python or numpy"):
        export(Draws().eval(), (torch.ones(2, 3),))


SOURCES: dict[str, tuple[object, Callable[[Any], float]]] = {
    "random": (random.Random(1), lambda source: source.random()),
    "numpy's generator": (np.random.default_rng(1), lambda source: float(source.random())),
    "numpy's old one": (np.random.RandomState(1), lambda source: float(source.rand())),
    "a count": (itertools.count(1), next),
}


@pytest.mark.parametrize("where", ["attribute source", "closure variable held"])
@pytest.mark.parametrize("case", SOURCES)
def test_numbers_of_a_source_of_its_own_are_refused(case: str, where: str) -> None:
    """An attribute's or a closure's; one that nothing draws from does no harm."""
    held, draw = SOURCES[case]

    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.draws = held, True

        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            return x * draw(self.source if where.startswith("attribute") else held) if self.draws else x + 1

    with pytest.raises(ExportError, match=f"{where}.*: forward changes it"):
        export(Draws().eval(), (torch.ones(2, 3),))
    module = Draws().eval()
    module.draws = False
    assert load(bytes(export(module, (torch.ones(2, 3),))))(np.ones((2, 3), np.float32))[0].max() == 2


def test_cache_beside_a_buffer_that_changes_is_no_state() -> None:
    """The buffer is the session's; the cache is what every call would make."""

    class Both(Cached):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            self.get_buffer("calls").add_(1)
            return super().forward(x) * self.get_buffer("calls")

    session = load(bytes(export(Both().eval(), (torch.ones(2, 3),)))).session()
    inputs = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(session(inputs)[0] * 2, session(inputs)[0])


def test_failed_trace_leaves_the_module_as_it_was() -> None:
    """A forward that stops after a change."""

    class Stops(Keeps):
        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            self.kept.append(1)
            raise RuntimeError("no further")

    module = Stops([]).eval()
    with pytest.raises(ExportError, match="no further"):
        export(module, (torch.ones(2, 3),))
    assert module.kept == []


class HooksInFirstCall(nn.Module):
    """Sets hooks in its first call that gather what its layers give, as libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.is_hooked = False

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        gathered: list[Tensor] = []
        if not self.is_hooked:
            for layer in self.layers:
                layer.register_forward_hook(_gather)
            self.is_hooked = True
        _GATHERED.append(gathered)
        for layer in self.layers:
            x = layer(x)
        _GATHERED.pop()
        return gathered[-1] + len(gathered)


_GATHERED: list[list[Tensor]] = []


def _gather(_layer: nn.Module, _args: object, result: Tensor) -> None:
    _GATHERED[-1].append(result)


def test_module_that_sets_hooks_in_its_first_call_answers_as_before_after_its_export() -> None:
    """The attribute and the hooks go back together: hooks that are set twice would gather everything twice."""
    torch.manual_seed(0)
    module, x = HooksInFirstCall().eval(), torch.randn(1, 4)
    with torch.no_grad():
        expected = copy.deepcopy(module)(x)
    for _ in range(2):
        program = export(module, (x,))
        assert np.allclose(load(bytes(program))(x.numpy())[0], expected.numpy(), atol=1e-6)
        with torch.no_grad():
            assert torch.equal(copy.deepcopy(module)(x), expected)
