"""How an example lies in memory is no part of a program, or the module is refused."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn

CUBE = torch.arange(24.0).reshape(2, 3, 4)


class Of(nn.Module):
    """A module made of a function of tensors."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> object:
        """Run."""
        return self.function(*inputs)


EXAMPLES = {
    "transposed": CUBE.transpose(1, 2),
    "expanded": torch.arange(4.0).expand(3, 4),
    "every second": CUBE[..., ::2],
    "from the fifth": torch.arange(10.0)[5:],
    "channels last": torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last),
    "windows that overlap": torch.arange(9.0).unfold(0, 4, 2),
    "of one element": torch.tensor(2.0).expand(2, 1, 3),
}


@pytest.mark.parametrize("case", EXAMPLES)
def test_example_that_is_not_contiguous_is_taken_row_major(case: str) -> None:
    """The program and its answers are those of a row-major copy."""
    example = EXAMPLES[case]
    module = Of(lambda x: (x * 2 + x.sum(-1, keepdim=True)).reshape(-1)).eval()
    program = bytes(export(module, (example,)))
    assert program == bytes(export(module, (example.contiguous(),)))
    np.testing.assert_allclose(load(program)(example.numpy())[0], module(example).numpy(), rtol=1e-5)


TELLING: dict[str, Callable[[Tensor], object]] = {
    "a stride": lambda x: x * x.stride(0),
    "whether contiguous": lambda x: x * 2 if x.is_contiguous() else x * 3,
    "elements of the storage": lambda x: x.as_strided((2, 2), (1, 2)),
    "an empty one like it": lambda x: torch.empty_like(x).copy_(x).as_strided((2, 2), (1, 2)) + 0,
}


@pytest.mark.parametrize("case", TELLING)
def test_module_that_shows_the_strides_of_its_example_is_refused(case: str) -> None:
    """With another order of the same numbers the answers are others: the program could not know."""
    with pytest.raises(ExportError, match="answers otherwise for a row-major copy"):
        export(Of(TELLING[case]).eval(), (CUBE.transpose(0, 2),))


def test_module_for_one_order_alone_is_traced_in_it() -> None:
    """A view that only the example's order allows: the program gives what eager gives for it."""
    example = torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last)
    module = Of(lambda x: x.permute(0, 2, 3, 1).view(1, -1) * 2).eval()
    seen = load(bytes(export(module, (example,))))(example.numpy())[0]
    np.testing.assert_array_equal(seen, module(example).numpy())


def test_view_that_the_order_forbids_is_refused_with_its_line() -> None:
    """Eager stops there too."""
    with pytest.raises(ExportError, match=r"test_strides.py:\d+: forward stops"):
        export(Of(lambda x: x.view(-1) * 2).eval(), (CUBE.transpose(1, 2),))


def test_view_of_storage_of_an_inner_tensor_is_refused() -> None:
    """A program's own tensors are row-major."""
    with pytest.raises(ExportError, match="as_strided of a contiguous tensor"):
        export(Of(lambda x: (x.t() + 1).as_strided((2, 2), (1, 2)) * 1).eval(), (torch.randn(3, 4),))


def test_outputs_that_share_memory_with_inputs_are_copies() -> None:
    """The input itself, views of it, one tensor twice: all are there, and changing one changes no other."""
    module = Of(lambda x: (x, x.view(6, 4), x[0], x.transpose(0, 1), x + 1, x)).eval()
    model = load(bytes(export(module, (CUBE,))))
    argument = CUBE.numpy().copy()
    outputs = model(argument)
    for seen, expected in zip(outputs, module(CUBE), strict=True):
        np.testing.assert_array_equal(seen, expected.numpy())
    for index in range(len(outputs)):
        others = [other.copy() for place, other in enumerate(outputs) if place != index]
        outputs[index] += 7
        assert all(np.array_equal(a, b) for a, b in zip(others, outputs[:index] + outputs[index + 1 :], strict=True))
    np.testing.assert_array_equal(argument, CUBE.numpy())


def test_module_that_changes_its_input_is_refused() -> None:
    """No caller of a program would see it."""
    with pytest.raises(ExportError, match="changes its input"):
        export(Of(lambda x: x.add_(1)).eval(), (CUBE,))
    assert float(CUBE[0, 0, 0]) == 0
