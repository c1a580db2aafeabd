"""A table of embeddings that is the weight of a product too is stored once, whatever form the product reads."""

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, export, load
from alcove.runtime.compiler.weights import load_state
from torch import Tensor, nn

ROWS, WIDTH = 70, 100


class Tied(nn.Module):
    """An embedding whose table is the head."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and their products with all rows."""
        rows = self.table(ids)
        return rows, nn.functional.linear(torch.tanh(rows), self.table.weight)


@pytest.mark.parametrize(
    ("mode", "bits", "error"),
    [
        (None, 32, 0.0),
        ("int8_weights", 8, 0.02),
        ("int8_dynamic", 8, 0.02),
        ("int4_weights", 5, 0.3),
        ("int4_dynamic", 5, 0.3),
    ],
)
def test_a_shared_table_is_stored_once(mode: str | None, bits: int, error: float) -> None:
    """In so many bits a number and some more for scales and padding; rows come out as the product reads them."""
    torch.manual_seed(3)
    model, ids = Tied().eval(), torch.tensor([[0, 15, 16, 69, 33]])
    program = export(model, (ids,), quantize=mode)
    assert program.spec.ops[0].name == "embedding_panels"
    assert sum(len(tensor.data) for tensor in program.spec.tensors) < ROWS * WIDTH * bits / 8 * 1.6
    rows, products = load(bytes(program))(ids.numpy())
    expected = model(ids)
    assert np.abs(rows - expected[0].detach().numpy()).max() <= error
    assert np.abs(products - expected[1].detach().numpy()).max() <= 1e-4 + 20 * error
    for wrong in (-1, ROWS):
        with pytest.raises(InputError, match="allowed are 0 to 69"):
            load(bytes(program))(np.full((1, 5), wrong, np.int64))


def test_a_shared_table_comes_back_as_a_parameter() -> None:
    """By its name, bit for bit."""
    model = Tied().eval()
    state = load_state(export(model, (torch.arange(4)[None],)).spec)
    assert state["table.weight"].tobytes() == model.table.weight.detach().numpy().tobytes()


class Repeated(nn.Module):
    """One matrix without a bias, again and again, as an unrolled loop has it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, x: Tensor) -> Tensor:
        """Return the state after five steps."""
        for _ in range(5):
            x = torch.tanh(nn.functional.linear(x, self.weight))
        return x


def test_a_weight_of_several_products_is_stored_once() -> None:
    """Zeros in place of a bias are no reason to store it again."""
    torch.manual_seed(3)
    model, x = Repeated().eval(), torch.randn(2, 64)
    program = export(model, (x,))
    assert [tensor.name for tensor in program.spec.tensors if tensor.data] == ["weight"]
    np.testing.assert_allclose(load(bytes(program))(x.numpy())[0], model(x).detach().numpy(), atol=1e-5)
