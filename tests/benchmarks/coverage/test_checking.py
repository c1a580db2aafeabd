"""What agrees passes, what differs is wrong, and everything else has a name."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules import RULES, Call
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

from benchmarks.coverage import __main__ as command
from benchmarks.coverage.case import Outcome, Sample, Status, check, first_difference, run_natively
from benchmarks.coverage.checking import OperatorCheck, lost_outcomes
from benchmarks.coverage.report import row

Run = Callable[[bytes, Sequence[NDArray[Any]]], list[NDArray[Any]]]


def one_off(program: bytes, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Run a program and spoil one element of its first output."""
    first, *others = run_natively(program, inputs)
    spoiled = first.copy()
    spoiled.reshape(-1)[-1] = ~first.reshape(-1)[-1] if first.dtype == np.bool_ else first.reshape(-1)[-1] + 1
    return [spoiled, *others]


def in_this_process(
    names: Sequence[str], work: Callable[[str], Any], lost: object, *, workers: int, on_done: Callable[[str], None]
) -> dict[str, Any]:
    """Stand in for `in_processes`: a wrong run defined here is not found by other processes."""
    return {name: work(name) for name in names}


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Runs the command in this process; returns its exit status and its JSON."""
    monkeypatch.setattr(command, "in_processes", in_this_process)

    def call(*names: str, run: Run = run_natively) -> tuple[int, dict[str, Any]]:
        path = tmp_path / "coverage.json"
        status = command.main(["--only", *names, "--samples", "2", "--json", str(path)], run=run)
        return status, json.loads(path.read_text(encoding="utf-8"))

    return call


SELECTION = ("relu", "add", "permute", "sum", "mm", "_softmax", "convolution", "cat", "index_select")


@pytest.mark.thorough
def test_selection_passes(count: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    """One operator of each kind: none is wrong, each has samples that ran."""
    status, found = count(*SELECTION)
    assert status == 0, found["rows"]
    assert {entry["name"]: entry["status"] for entry in found["rows"]} == dict.fromkeys(SELECTION, "passed")
    assert found["summary"]["passed"] == len(SELECTION)


def test_wrong_kernel_is_reported(count: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    """Where one element of a result differs, the operator is wrong, and the exit status says so."""
    status, found = count("relu", "eq", run=one_off)
    assert status == 1
    for entry in found["rows"]:
        assert entry["status"] == "wrong"
        assert entry["counts"].get("passed", 0) == 0
        assert "eager gives" in entry["examples"][0]


def test_wrong_rule_is_reported(
    count: Callable[..., tuple[int, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that makes a sigmoid of every tanh is found out."""

    def sigmoid(call: Call, b: Builder) -> Value:
        return b.unary("sigmoid", b.cast(call.tensor("self"), DType.F32))

    monkeypatch.setitem(RULES, "aten.tanh.default", sigmoid)
    status, found = count("tanh")
    assert (status, found["rows"][0]["status"]) == (1, "wrong")


def test_rule_that_breaks_is_wrong_and_not_refused(
    count: Callable[..., tuple[int, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any exception of the exporter but `ExportError` counts as wrong, and is shown."""

    def fail(*_: object) -> None:
        raise KeyError("left behind")

    monkeypatch.setattr("alcove.runtime.compiler.pipeline.fuse", fail)
    status, found = count("relu")
    assert status == 1
    assert "export raises KeyError: 'left behind'" in found["rows"][0]["examples"][0]


def test_run_that_raises_is_wrong() -> None:
    """Eager takes these inputs, so must the program."""

    def refuse(program: bytes, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        raise ValueError("no")

    sample = Sample("relu", "default", "aten.relu.default", torch.ops.aten.relu.default, (torch.ones(2),))
    outcome = check(sample, run=refuse)
    assert (outcome.status, outcome.reason) == (Status.WRONG, "run raises ValueError: no")


def test_tensor_without_elements_is_refused_and_not_counted() -> None:
    """Zero-size tensors are refused by design: the sample has a status of its own."""
    sample = Sample("relu", "default", "aten.relu.default", torch.ops.aten.relu.default, (torch.ones(0, 2),))
    outcome = check(sample)
    assert outcome.status is Status.EMPTY
    passed = Outcome(Status.PASSED, "default", "", is_reached=True)
    assert row("relu", [passed, outcome]).status == "passed"


def test_sample_that_eager_refuses_or_of_foreign_type_does_not_apply() -> None:
    """What eager raises on, and element types that no program has, are nobody's failure."""
    relu = torch.ops.aten.relu.default
    for argument in (torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.float64)):
        assert check(Sample("relu", "default", "", relu, (argument,))).status is Status.INAPPLICABLE


def test_operator_counts_only_if_the_traced_graph_has_it() -> None:
    """Samples that pass without ever reaching the operator don't make it covered."""
    unreached = Outcome(Status.PASSED, "", "")
    assert row("relu", [unreached]).status == "refused"
    assert row("relu", [unreached, Outcome(Status.PASSED, "default", "", is_reached=True)]).status == "passed"


def test_rows_tell_passed_from_partly_from_refused_from_wrong() -> None:
    """One wrong sample is enough, and a refused one beside passed ones makes it partly."""
    passed = Outcome(Status.PASSED, "default", "", is_reached=True)
    refused = Outcome(Status.REFUSED, "default", "", "not in this form")
    wrong = Outcome(Status.WRONG, "default", "call", "differs")
    assert row("relu", [passed, refused]).status == "partly"
    assert row("relu", [refused]).reason == "not in this form"
    assert row("relu", [passed, refused, wrong]).examples == ("call: differs",)
    assert row("relu", lost_outcomes("relu", "the process died with -11")).status == "wrong"
    assert row("relu", []).status == "refused"


def array(*values: float, dtype: str = "float32") -> list[NDArray[Any]]:
    """Return one output."""
    return [np.array(values, dtype)]


@pytest.mark.parametrize(
    ("expected", "actual", "is_equal"),
    [
        (array(1, np.nan, np.inf), array(1.00005, np.nan, np.inf), True),
        (array(1), array(1.0003), False),
        (array(np.nan), array(0), False),
        (array(0), array(np.nan), False),
        (array(np.inf), array(-np.inf), False),
        (array(3, dtype="int64"), array(4, dtype="int64"), False),
        (array(3, dtype="int64"), array(3, dtype="int32"), False),
        (array(3), [np.array(3, "float32")], False),
        (array(3), [], False),
    ],
)
def test_comparison_is_strict_about_types_shapes_and_nan(
    expected: list[NDArray[Any]], actual: list[NDArray[Any]], *, is_equal: bool
) -> None:
    """Floats within tolerance, NaN and infinities in place, everything else exactly."""
    assert (first_difference(expected, actual) == "") is is_equal


def test_held_tensors_are_parameters_and_the_others_inputs() -> None:
    """Weight and bias of a convolution are captured; the program has one input."""
    conv = torch.ops.aten.convolution.default
    arguments = (torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    seen: list[int] = []

    def run(program: bytes, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        seen.append(len(inputs))
        return run_natively(program, inputs)

    sample = Sample("convolution", "default", "", conv, arguments, held=frozenset({1}))
    assert check(sample, run=run).status is Status.PASSED
    assert seen == [1]


def test_checking_of_an_operator_is_what_the_workers_do() -> None:
    """`OperatorCheck` gives one outcome a sample."""
    outcomes = OperatorCheck(1)("abs")
    assert {outcome.status for outcome in outcomes} <= {Status.PASSED, Status.EMPTY, Status.INAPPLICABLE}


@pytest.mark.parametrize("arguments", [["--only", "rand"], ["--only", "nonsense"], ["--samples", "0"]])
def test_command_refuses_what_it_cannot_count(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Excluded and unknown names, and no samples, end with a sentence."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err
