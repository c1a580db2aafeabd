"""The verifier takes a valid operator of each product, attention and recurrent layer, and refuses each bad change."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly

F32, U8, BOOL = DType.F32, DType.U8, DType.BOOL
Tensor: TypeAlias = tuple[Any, ...]
"""Type and shape; "panels" and shape for weights, "int8" and size for packed ones."""


@dataclass(frozen=True)
class Product:
    """An operator with its tensors; the last output of all but linear is scratch."""

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[int | float, ...]

    def program(self) -> bytes:
        """Return the program of this operator alone."""
        build = Assembly()
        tensors = []
        for index, (dtype, *shape) in enumerate(self.inputs):
            if dtype == "panels":
                n, k = shape
                tensors.append(build.panels(f"w{index}", np.ones((n, k), np.float32), np.ones(n, np.float32)))
            elif dtype == "int8":
                tensors.append(build.constant(f"w{index}", np.zeros(shape, np.int8)))
            else:
                tensors.append(build.input(f"x{index}", dtype, tuple(shape)))
        result = build.op(self.op, tensors, *((d, tuple(s)) for d, *s in self.outputs), attributes=self.attributes)
        build.output("y", result[0])
        return build.program()

    def with_change(self, field: str, index: int, *value: Any) -> "Product":
        """Return the operator with one tensor or attribute of another kind."""
        items = list(getattr(self, field))
        items[index] = value[0] if field == "attributes" else value
        changes: dict[str, Any] = {field: tuple(items)}
        return replace(self, **changes)


LINEAR = Product("linear", ((F32, 3, 5), ("panels", 7, 5), (F32, 3, 7)), ((F32, 3, 7),), (1, 1, 0.0, 6.0))
MATMUL = Product("matmul", ((F32, 2, 3, 5), (F32, 5, 17)), ((F32, 2, 3, 17), (U8, 4 * 2 * 16 * 6)), (0,))
ATTENTION = Product(
    "attention",
    ((F32, 2, 6, 3, 4), (F32, 2, 3, 7, 4), (F32, 2, 3, 7, 5), (BOOL, 3, 7)),
    ((F32, 2, 6, 3, 5), (U8, 4 * (16 * 5 + 16 * 8 + 3 * 7))),
    (0.5, 0, -np.inf, 0),
)
GRU = Product(
    "gru",
    ((F32, 9, 2, 5), (F32, 2, 4), ("panels", 12, 5), ("panels", 12, 4)),
    ((F32, 9, 2, 4), (F32, 2, 4), (U8, 4 * 4 * 3 * (18 + 2))),
    (0,),
)
QUANTIZED_GRU = Product(
    "gru",
    ((F32, 9, 2, 5), (F32, 2, 4), ("int8", 320), ("int8", 256)),
    ((F32, 9, 2, 4), (F32, 2, 4), (U8, 4 * 4 * 3 * (18 + 2) + 8 * (1024 + 5))),
    (0,),
)
RNN = Product(
    "rnn",
    ((F32, 9, 2, 5), (F32, 2, 4), ("panels", 4, 5), ("panels", 4, 4)),
    ((F32, 9, 2, 4), (F32, 2, 4), (U8, 4 * 4 * (18 + 2))),
    (0, 1),
)
LSTM = Product(
    "lstm",
    ((F32, 40, 1, 5), (F32, 1, 3), (F32, 1, 4), ("panels", 16, 5), ("panels", 16, 3), ("panels", 3, 4)),
    ((F32, 40, 1, 3), (F32, 1, 3), (F32, 1, 4), (U8, 4 * 4 * (4 * (32 + 1) + 1))),
    (1,),
)
VALID: Mapping[str, Product] = {
    **{product.op: product for product in (LINEAR, MATMUL, ATTENTION, GRU, RNN, LSTM)},
    "quantized gru": QUANTIZED_GRU,
}

INVALID = {
    "linear of other inputs": (LINEAR.with_change("inputs", 0, F32, 3, 6), "op_shape"),
    "linear of a scalar": (LINEAR.with_change("inputs", 0, F32), "op_shape"),
    "linear of integers": (LINEAR.with_change("inputs", 0, DType.I64, 3, 5), "op_type"),
    "linear with computed weights": (LINEAR.with_change("inputs", 1, F32, 7, 5), "op_type"),
    "linear with a short residual": (LINEAR.with_change("inputs", 2, F32, 1, 7), "op_shape"),
    "linear with a residual unsaid": (LINEAR.with_change("attributes", 0, 0), "op_arity"),
    "linear with an unknown activation": (LINEAR.with_change("attributes", 1, 4), "op_attribute"),
    "linear with bounds in no order": (LINEAR.with_change("attributes", 2, 7.0), "op_attribute"),
    "linear with a bound that is no number": (LINEAR.with_change("attributes", 3, np.nan), "op_attribute"),
    "matmul of a vector": (MATMUL.with_change("inputs", 1, F32, 5), "op_shape"),
    "matmul of other inner sizes": (MATMUL.with_change("inputs", 1, F32, 6, 17), "op_shape"),
    "matmul of other batches": (MATMUL.with_change("inputs", 1, F32, 3, 5, 17), "op_shape"),
    "matmul into too few rows": (MATMUL.with_change("outputs", 0, F32, 2, 2, 17), "op_shape"),
    "matmul transposed without being so": (MATMUL.with_change("attributes", 0, 1), "op_shape"),
    "matmul in two ways": (MATMUL.with_change("attributes", 0, 2), "op_attribute"),
    "attention to keys of another width": (ATTENTION.with_change("inputs", 1, F32, 2, 3, 7, 5), "op_shape"),
    "attention to fewer values": (ATTENTION.with_change("inputs", 2, F32, 2, 3, 6, 5), "op_shape"),
    "attention in no whole groups": (
        ATTENTION.with_change("inputs", 1, F32, 2, 4, 7, 4).with_change("inputs", 2, F32, 2, 4, 7, 5),
        "op_shape",
    ),
    "attention with other groups of values": (ATTENTION.with_change("inputs", 2, F32, 2, 2, 7, 5), "op_shape"),
    "attention with a short mask": (ATTENTION.with_change("inputs", 3, BOOL, 2, 7), "op_shape"),
    "attention with a mask of too many": (ATTENTION.with_change("inputs", 3, BOOL, 1, 2, 6, 3, 7), "op_shape"),
    "attention with an integer mask": (ATTENTION.with_change("inputs", 3, DType.I64, 3, 7), "op_type"),
    "attention with an infinite scale": (ATTENTION.with_change("attributes", 0, np.inf), "op_attribute"),
    "attention that masks with infinity": (ATTENTION.with_change("attributes", 2, np.inf), "op_attribute"),
    "attention that masks with no number": (ATTENTION.with_change("attributes", 2, np.nan), "op_attribute"),
    "attention with a third kind of empty row": (ATTENTION.with_change("attributes", 3, 2), "op_attribute"),
    "gru with another state": (GRU.with_change("inputs", 1, F32, 2, 5), "op_shape"),
    "gru with a state of other rows": (GRU.with_change("inputs", 1, F32, 3, 4), "op_shape"),
    "gru with two gates": (GRU.with_change("inputs", 2, "panels", 8, 5), "op_shape"),
    "gru with features unknown to its weights": (GRU.with_change("inputs", 2, "panels", 12, 6), "op_shape"),
    "gru with another last state": (GRU.with_change("outputs", 1, F32, 2, 5), "op_shape"),
    "gru in a third direction": (GRU.with_change("attributes", 0, 2), "op_attribute"),
    "quantized gru with weights that are too short": (QUANTIZED_GRU.with_change("inputs", 2, "int8", 256), "op_shape"),
    "quantized gru with weights of rank 2": (QUANTIZED_GRU.with_change("inputs", 3, "int8", 1, 256), "op_shape"),
    "quantized gru with weights in float32": (QUANTIZED_GRU.with_change("inputs", 3, "panels", 12, 4), "op_type"),
    "quantized gru with too many features": (
        replace(
            QUANTIZED_GRU,
            inputs=((F32, 9, 2, 65537), *QUANTIZED_GRU.inputs[1:2], ("int8", 192 + 64 * 16385), ("int8", 256)),
        ),
        "op_shape",
    ),
    "rnn with a third function": (RNN.with_change("attributes", 1, 2), "op_attribute"),
    "lstm with a cell of other rows": (LSTM.with_change("inputs", 2, F32, 2, 4), "op_shape"),
    "lstm with another projection": (LSTM.with_change("inputs", 5, "panels", 3, 5), "op_shape"),
    "lstm with another last cell": (LSTM.with_change("outputs", 2, F32, 1, 3), "op_shape"),
    "lstm without its projection": (replace(LSTM, inputs=LSTM.inputs[:5]), "op_shape"),
}


@pytest.mark.parametrize("name", VALID)
def test_the_product_itself_is_taken(name: str) -> None:
    """So what follows is refused for its change alone."""
    load(VALID[name].program())


@pytest.mark.parametrize("name", INVALID)
def test_products_whose_tensors_do_not_fit_are_refused(name: str) -> None:
    """With the code of what is wrong."""
    product, code = INVALID[name]
    with pytest.raises(ProgramError) as caught:
        load(product.program())
    assert caught.value.code == code


@pytest.mark.parametrize("name", [name for name in VALID if name != "linear"])
def test_scratch_that_is_a_byte_short_is_refused(name: str) -> None:
    """What the kernel needs to work in is exactly what the page says."""
    product = VALID[name]
    kind, size = product.outputs[-1]
    with pytest.raises(ProgramError, match="scratch"):
        load(product.with_change("outputs", -1, kind, size - 1).program())
