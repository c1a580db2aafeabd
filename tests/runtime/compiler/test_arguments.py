"""`export` reads modules and arguments as they are, and refuses those that no trace takes, saying what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ArgumentError, CalibrationError, ExportError, QuantizationError, export, load
from torch import Tensor, nn

X = torch.arange(16.0).reshape(2, 8)
Dim = torch.export.Dim


class Both(nn.Module):
    """Two arguments, of which the order counts."""

    def forward(self, x: Tensor, y: Tensor | None = None, *, scale: float = 2.0) -> Tensor:
        """Run."""
        return x - scale * (x if y is None else y)


class Several(nn.Module):
    """As many arguments as there are."""

    def forward(self, *parts: Tensor) -> Tensor:
        """Run."""
        return torch.cat(parts, dim=1)


class Packed(nn.Module):
    """As many steps as the longest of packed sequences has."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 4, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Run."""
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0])[0]


class Replaced(nn.Module):
    """State that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.h = torch.zeros(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.h = self.h + x
        return self.h


class Remembered(nn.Module):
    """An attribute that is written for others to look at, and never read."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.seen = x * 2
        return self.seen + 1


def refusal(module: Any, args: Any, **options: Any) -> ExportError:
    """Return the error of an export that must fail."""
    with pytest.raises(ExportError) as caught:
        export(module, args, **options)
    return caught.value


def test_one_tensor_for_two_arguments_stays_two_inputs() -> None:
    """Torch traces equal objects as one; a program asked later for two must read both."""
    model = load(bytes(export(Both(), (X, X))))
    one, other = X.numpy(), np.ones((2, 8), np.float32)
    (got,) = model(one, other)
    assert np.array_equal(got, one - 2 * other)


def test_sizes_of_any_number_of_arguments_may_vary() -> None:
    """One entry for each argument, though `forward` has one parameter for all."""
    rows = Dim("rows", min=1, max=9)
    model = load(bytes(export(Several(), (X, X), dynamic_shapes=({0: rows}, {0: rows}))))
    part = np.ones((5, 8), np.float32)
    assert model(part, part)[0].shape == (5, 16)


MISUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a function": (torch.relu, (X,), {}, r"must be a torch\.nn\.Module, not"),
    "a class": (nn.ReLU, (X,), {}, "the class ReLU: make one of it"),
    "a tensor for args": (nn.ReLU(), X, {}, "args must be a tuple, .* not Tensor"),
    "a dictionary for args": (nn.ReLU(), {"x": X}, {}, "args must be a tuple, .* not dict"),
    "too few": (Both(), (), {}, "takes .*args has 0: missing a required argument: 'x'"),
    "too many": (Both(), (X, X, X), {}, "args has 3: too many positional arguments"),
    "an array": (nn.ReLU(), (X.numpy(),), {}, r"argument 0 .*not ndarray; pass torch\.from_numpy"),
    "a text in a list": (Both(), (X, ["a"]), {}, "argument 1 of the module is a list that holds a str"),
    "another device": (nn.ReLU(), (X.to("meta"),), {}, "argument 0 of the module is on meta"),
    "an axis too far": (nn.ReLU(), (X,), {"dynamic_shapes": ({5: Dim("n", max=9)},)}, "axis 5, .* has 2 dimensions"),
    "a word for a size": (nn.ReLU(), (X,), {"dynamic_shapes": ({0: "n"},)}, r"expected a torch\.export\.Dim, not 'n'"),
}


@pytest.mark.parametrize("case", MISUSED)
def test_wrong_use_is_a_type_error_that_says_what_was_given(case: str) -> None:
    """Before torch is asked: the thing, what was expected, what was given."""
    module, args, options, words = MISUSED[case]
    with pytest.raises(ArgumentError, match=words):
        export(module, args, **options)


class SparseMatrix(nn.Module):
    """Multiplies by a sparse matrix, as graph networks do with neighbors."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.eye(2).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return torch.sparse.mm(self.get_buffer("a"), x)


def _on_meta() -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(8, 2)


REFUSED: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], str, str]] = {
    "meta": (_on_meta, (X,), "parameter weight and 1 more", "meta device and holds no numbers"),
    "lazy": (lambda: nn.LazyLinear(3), (X,), "parameter weight and 1 more", "run the module once before the export"),
    "a sparse buffer": (SparseMatrix, (X,), "parameter a", "dense tensors: keep to_dense()"),
    "half a module": (lambda: nn.Linear(8, 2).half(), (X,), "aten.linear.default", "call module.float()"),
    "packed": (Packed, (X[None], torch.tensor([2])), "torch.export", "total_length"),
    "replaced": (Replaced, (X,), "attribute h", "register a buffer"),
    "renormed": (
        lambda: nn.Embedding(4, 8, max_norm=1.0),
        (torch.tensor([1]),),
        "embedding_renorm",
        "without max_norm",
    ),
    "sparse": (nn.ReLU, (X.to_sparse(),), "input input", "to_dense"),
    "integers": (nn.ReLU, (X.to(torch.int16),), "input input", "pass int32 or int64"),
    "complex": (nn.Sigmoid, (X.to(torch.complex64),), "input input", "view_as_real"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_module_that_no_trace_takes_is_reported_in_our_words(case: str) -> None:
    """A finding that names the parameter, attribute or operator, and what to do."""
    make, args, op, words = REFUSED[case]
    finding = refusal(make().eval(), args).findings[0]
    assert op in finding.op
    assert words in finding.suggestion


def test_an_example_outside_its_bounds_is_refused() -> None:
    """With the size, the dimension and the bounds."""
    error = refusal(nn.ReLU(), (X,), dynamic_shapes=({0: Dim("n", min=3, max=16)},))
    assert "its example has 2 in dimension 0, outside the bounds 3 to 16" in str(error)


def test_a_mistake_deep_in_a_module_names_the_module() -> None:
    """The innermost module at work, by its path; no line where no line of the user is at work."""
    (finding,) = refusal(nn.Sequential(nn.Linear(8, 4), nn.Linear(8, 4)), (X,)).findings
    assert finding.module_path == "1"
    assert "unknown" not in str(refusal(nn.Sequential(nn.Linear(8, 4), nn.Linear(8, 4)), (X,)))


def test_an_attribute_that_is_only_written_does_no_harm(recwarn: pytest.WarningsRecorder) -> None:
    """It exports without a word, and the module is as it was."""
    (got,) = load(bytes(export(Remembered(), (X,))))(X.numpy())
    assert np.array_equal(got, X.numpy() * 2 + 1)
    assert not [warning for warning in recwarn if "assigned" in str(warning.message)]


def test_an_index_out_of_range_in_a_sample_names_the_sample() -> None:
    """As any other misfit of calibration samples; the input, the index and the bound are named too."""
    module = nn.Sequential(nn.Embedding(4, 8), nn.Linear(8, 2)).eval()
    samples = [torch.tensor([1, 2]), torch.tensor([1, 9])]
    with pytest.raises(CalibrationError, match=r"sample 1: input 'input': .*index 1 is 9, allowed are 0 to 3"):
        export(module, (samples[0],), quantize="int8", calibration=samples)


@pytest.mark.parametrize("argument", ["good", float("nan"), None])
def test_a_metric_that_gives_no_number_is_refused(argument: Any) -> None:
    """Its value is named; NaN would let every budget pass."""
    with pytest.raises(ValueError, match="metric must return a number"):
        export(nn.Linear(8, 2), (X,), quantize="int8", calibration=[X], max_drop=0.1, metric=lambda _: argument)


QUANTIZED_FOR_NOTHING = {
    "int8": (nn.Linear(8, 3), X, r"calibration=\.\.\.; on the command line --calibration MODULE:FUNCTION"),
    "int8_dynamic": (nn.Conv1d(2, 3, 3), X[None], "'int8' with calibration samples"),
    "int8_weights": (nn.ReLU(), X, "'int8' with calibration samples"),
    "int4_dynamic": (nn.Conv1d(2, 3, 3), X[None], "'int8' with calibration samples"),
    "int4_weights": (nn.Conv1d(2, 3, 3), X[None], "'int8' with calibration samples"),
}


@pytest.mark.parametrize("mode", QUANTIZED_FOR_NOTHING)
def test_mode_that_makes_nothing_smaller_is_refused(mode: str) -> None:
    """The float32 program under another name is no answer; the error says what to give instead."""
    module, example, words = QUANTIZED_FOR_NOTHING[mode]
    with pytest.raises(QuantizationError, match=words) as caught:
        export(module.eval(), (example,), quantize=mode)
    assert caught.value.mode == mode


def test_tables_alone_are_smaller_without_samples() -> None:
    """One table is enough: the report says what stayed float32."""
    module = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 2)).eval()
    report = export(module, (torch.tensor([1, 2]),), quantize="int8").quantization
    assert report is not None
    assert [layer.precision for layer in report.layers] == ["int8 table"]
