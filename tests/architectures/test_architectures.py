"""Each small architecture exports, runs without torch, and gives what eager gives."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet
from torch import nn

from benchmarks.architectures import __main__ as command
from benchmarks.architectures.registry import Architecture, architectures
from benchmarks.architectures.run import BOUND, eager_outputs, evaluate, largest_difference, native_outputs
from tests.selection import quick_every

SMALL = [entry for entry in architectures() if entry.is_small]
FIRST = {entry.family: entry.name for entry in reversed(SMALL)}


def one_of_each_family(entries: Sequence[Architecture]) -> list[ParameterSet]:
    """All of them; those that are not the first of their family among the thorough tests."""
    return [
        pytest.param(
            entry, id=entry.name, marks=() if entry.name == FIRST.get(entry.family) else (pytest.mark.thorough,)
        )
        for entry in entries
    ]


@pytest.mark.parametrize("architecture", quick_every(one_of_each_family(SMALL), 8))
def test_architecture_gives_without_torch_what_it_gives_with_it(architecture: Architecture) -> None:
    """Export, a process without torch, all outputs of all calls within the bound."""
    result = evaluate(architecture)
    assert result.status == "passed", result.reason
    assert result.max_difference <= BOUND


def test_names_are_unique_and_families_many() -> None:
    """The registry holds the families that are promised, each name once."""
    names = [entry.name for entry in architectures()]
    assert len(names) == len(set(names)) >= 50
    assert len({entry.family for entry in architectures()}) >= 20


def test_the_page_has_a_row_for_each_and_all_passed(repository: Path) -> None:
    """docs/architectures.md was written from this registry: `make docs` writes it again."""
    text = (repository / "docs/architectures.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and not line.startswith("| name")]
    assert {row[0].removeprefix("| ") for row in rows} == {entry.name for entry in architectures()}
    assert all("passed" in row for row in rows)


def test_models_and_inputs_are_the_same_every_time() -> None:
    """Two builds have the same weights and the same calls."""
    entry = next(entry for entry in architectures() if entry.name == "crnn")
    (one, calls), (other, same) = entry.make(), entry.make()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(calls[0], same[0], strict=True))


@pytest.mark.parametrize("architecture", one_of_each_family(architectures()))
def test_outputs_depend_on_inputs(architecture: Architecture) -> None:
    """A comparison shows nothing where a model gives the same for everything: other inputs give other floats."""
    module, calls = architecture.make()
    (one, *_), (other, *_) = (eager_outputs(module, argument) for argument in (calls[:1], architecture.inputs()[:1]))
    floats = [(a, b) for a, b in zip(one, other, strict=True) if a.dtype.kind == "f"]
    assert floats
    assert any(np.abs(a - b).max() > 1e-2 * np.abs(a).max() > 0 for a, b in floats)


def test_unsupported_model_is_refused_with_its_reason() -> None:
    """A model with what no program has comes back as refused, not as wrong."""

    class Unique(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            values: torch.Tensor = torch.unique(x)
            return values

    result = evaluate(Architecture("unique", "test", Unique, lambda: [(torch.ones(3),)]))
    assert result.status == "refused"
    assert result.reason


def test_wrong_output_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """One element that is off by more than the bound makes the architecture wrong."""

    def spoil(program: bytes, calls: list[tuple[torch.Tensor, ...]]) -> list[list[np.ndarray]]:
        outputs = native_outputs(program, calls)
        outputs[0][0] = outputs[0][0] + np.float32(0.01)
        return outputs

    monkeypatch.setattr("benchmarks.architectures.run.native_outputs", spoil)
    result = evaluate(next(entry for entry in architectures() if entry.name == "lenet"))
    assert result.status == "wrong"
    assert "output 0 differs by" in result.reason


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([1.0, np.nan], [1.0, 1.0]),
        ([1.0, np.inf], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, np.nan]),
        ([1.0, 2.0], [1.0, 2.1]),
        ([1.0, 2.0], [1.0]),
    ],
)
def test_comparison_finds_what_differs(expected: list[float], actual: list[float]) -> None:
    """NaN and infinities at other places, numbers beyond the bound, and other shapes."""
    _, reason = largest_difference([[np.array(expected, np.float32)]], [[np.array(actual, np.float32)]])
    assert reason


def test_native_process_cannot_import_torch() -> None:
    """A process that is broken says so: bytes that are no program end as an error with the process's last line."""
    with pytest.raises(RuntimeError, match=r"run: .*ProgramError"):
        native_outputs(b"no program", [(torch.ones(1),)])
    assert "torch" in sys.modules


def test_command_refuses_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names what is known."""
    with pytest.raises(SystemExit):
        command.main(["--only", "nonsense"])
    assert "resnet18" in capsys.readouterr().err
