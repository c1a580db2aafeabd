"""Random modules agree with eager at every size of their ranges, or are refused; the fuzzer notices differences."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError

from tests.selection import quick_every

if TYPE_CHECKING:
    from types import ModuleType

GRAPHS = 2000
GRAPHS_OF_SIZES = 1000
BLOCK = 250
SIZES = 12
"""Combinations that each module is run at: the ends and some between."""
EVERY_SIZE = 300
"""More combinations than nearly all of the modules of sizes have."""


class Fuzzer:
    """The parts of benchmarks/modules."""

    def __init__(self) -> None:
        self.source: ModuleType = import_module("benchmarks.modules.source")
        self.generate: ModuleType = import_module("benchmarks.modules.generate")
        self.check: ModuleType = import_module("benchmarks.modules.check")
        self.minimise: ModuleType = import_module("benchmarks.modules.minimise")
        self.command: ModuleType = import_module("benchmarks.modules.__main__")
        self.sweep: ModuleType = import_module("benchmarks.modules.sweep")


@pytest.fixture
def fuzzer(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Fuzzer:
    """The fuzzer, importable."""
    monkeypatch.syspath_prepend(str(repository))
    return Fuzzer()


def chain(fuzzer: Fuzzer) -> Any:
    """A module of three lines over one size."""
    s = fuzzer.source
    steps = (s.Step("v0", "x0 * 2"), s.Step("v1", "torch.sin(v0)"), s.Step("v2", "v1 + x0"))
    return s.Source((s.Range("n", 1, 4),), (s.Input("x0", ("n", 3)),), (), steps, ("v2",))


def test_a_seed_gives_the_same_module_every_time(fuzzer: Fuzzer) -> None:
    """So that a finding can be made again from its number."""
    for seed in range(5):
        assert fuzzer.generate.generate(seed).code() == fuzzer.generate.generate(seed).code()


@pytest.mark.parametrize("seed", quick_every(range(10), 3))
def test_a_few_random_modules_are_as_eager(fuzzer: Fuzzer, seed: int) -> None:
    """Refused, or the same at every size."""
    report = fuzzer.sweep.examine((seed, SIZES))
    assert report.found is None, fuzzer.command.text_of(report)


@pytest.mark.parametrize("seed", range(5))
def test_a_few_modules_of_sizes_are_as_eager(fuzzer: Fuzzer, seed: int) -> None:
    """Lines that compute with sizes: refused, or the same at every size."""
    report = fuzzer.sweep.examine((seed, SIZES, True))
    assert report.found is None, fuzzer.command.text_of(report)


def test_wrong_values_are_noticed_and_cut_down_to_their_line(fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is off by a thousandth is caught, and one line remains."""
    real = fuzzer.check.load

    def wrong(program: bytes) -> Any:
        model = real(program)
        return lambda *inputs: [each + np.float32(1e-3) for each in model(*inputs)]

    monkeypatch.setattr(fuzzer.check, "load", wrong)
    source = chain(fuzzer)
    result = fuzzer.check.check(source)
    assert result.verdict is fuzzer.check.Verdict.WRONG
    assert result.sizes == {"n": 1}
    smallest = fuzzer.minimise.minimise(source, lambda each: fuzzer.check.check(each).verdict is result.verdict)
    assert len(smallest.steps) == 1


def test_a_shape_other_than_eagers_is_noticed(fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where all values are equal."""
    real = fuzzer.check.load
    monkeypatch.setattr(fuzzer.check, "load", lambda p: lambda *inputs: [each[None] for each in real(p)(*inputs)])
    assert fuzzer.check.check(chain(fuzzer)).verdict is fuzzer.check.Verdict.WRONG


def test_a_refusal_is_none_and_an_untyped_error_is_a_finding(fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export either compiles, or says in its own error why not."""

    def raising(error: Exception) -> Any:
        def export(*_: object, **__: object) -> None:
            raise error

        return export

    monkeypatch.setattr(fuzzer.check, "export", raising(ExportError([])))
    assert fuzzer.check.check(chain(fuzzer)).verdict is fuzzer.check.Verdict.REFUSED
    monkeypatch.setattr(fuzzer.check, "export", raising(KeyError("n")))
    assert fuzzer.check.check(chain(fuzzer)).verdict is fuzzer.check.Verdict.BREAKS


def test_a_difference_that_any_change_of_the_inputs_makes_is_no_finding(fuzzer: Fuzzer) -> None:
    """The order of near-equals: eager itself gives another one for inputs a millionth apart."""
    s = fuzzer.source
    source = s.Source((), (s.Input("x0", (2,)),), (), (s.Step("v0", "x0.argsort()"),), ("v0",))
    module, near = source.module(), (torch.tensor([1.0, 1.0000001]),)
    assert fuzzer.check.compare(module, near, [np.array([1, 0])]) == ""
    assert fuzzer.check.compare(module, (torch.tensor([1.0, 2.0]),), [np.array([1, 0])]) != ""


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start", range(0, GRAPHS, BLOCK))
def test_random_modules_are_as_eager(fuzzer: Fuzzer, start: int) -> None:
    """Of 2,000, 250 a test: no finding; and most of them export, so that it says something."""
    seeds = range(start, start + BLOCK)
    reports = list(fuzzer.sweep.examine_all(seeds, SIZES, min(4, os.cpu_count() or 1)))
    found = [fuzzer.command.text_of(each) for each in reports if each.found is not None]
    assert not found, "\n".join(found)
    assert sum(each.result.verdict is fuzzer.check.Verdict.SAME for each in reports) > BLOCK // 2


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start", range(0, GRAPHS_OF_SIZES, BLOCK))
def test_random_modules_of_sizes_are_as_eager_at_every_size(fuzzer: Fuzzer, start: int) -> None:
    """Of 1,000, 250 a test: every combination of up to 300."""
    seeds = range(start, start + BLOCK)
    reports = list(fuzzer.sweep.examine_all(seeds, EVERY_SIZE, min(4, os.cpu_count() or 1), of_sizes=True))
    found = [fuzzer.command.text_of(each) for each in reports if each.found is not None]
    assert not found, "\n".join(found)
    assert sum(each.result.verdict is fuzzer.check.Verdict.SAME for each in reports) > BLOCK // 2
