"""Exported matrix products agree with torch: all ranks, operands that are constant or computed, both orders."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from alcove.runtime.compiler.weights import load_state
from torch import Tensor, nn

Agrees = Callable[..., None]


def ops_of(module: nn.Module, *inputs: Tensor) -> list[str]:
    """Return the names of a program's operators."""
    return [op.name for op in export(module.eval(), inputs).spec.ops]


class With(nn.Module):
    """A function of the inputs and some parameters; `modules` are those that it closes over."""

    def __init__(self, function: Callable[..., Any], *parameters: Tensor, modules: Sequence[nn.Module] = ()) -> None:
        super().__init__()
        self.function = function
        self.used = nn.ModuleList(modules)
        self.kept = nn.ParameterList(parameters)

    def forward(self, *inputs: Tensor) -> Any:
        """Run."""
        return self.function(*inputs, *self.kept)


RANKS = [
    ((4,), (4,)),
    ((4,), (4, 17)),
    ((3, 4), (4,)),
    ((3, 4), (4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 33)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 6)),
    ((2, 3, 1, 5, 4), (3, 2, 4, 6)),
    ((7, 1), (1, 9)),
    ((2, 3, 300), (300, 270)),
]


@pytest.mark.parametrize(("left", "right"), RANKS)
def test_products_of_all_ranks(agrees: Agrees, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Computed by computed, by constant, constant by computed."""
    a, b = torch.randn(left), torch.randn(right)
    left_constant, right_constant = a.clone(), b.clone()
    agrees(
        {
            "both": lambda a, b: a @ b,
            "right": lambda a, _: a @ right_constant,
            "left": lambda _, b: left_constant @ b,
        },
        a,
        b,
        atol=1e-4,
    )


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 1, 3, 5), (1, 5)])
def test_dense_layers_of_all_ranks(agrees: Agrees, shape: tuple[int, ...]) -> None:
    """With and without bias; weight and bias constant or computed; outputs around a panel."""
    x = torch.randn(shape)
    for outputs in (1, 16, 33):
        w, b = torch.randn(outputs, 5), torch.randn(outputs)
        layers = [nn.Linear(5, outputs), nn.Linear(5, outputs, bias=False)]
        agrees(With(lambda x, layers=layers: [layer(x) for layer in layers], modules=layers).eval(), x)
        agrees(
            {
                "computed": F.linear,
                "no bias": lambda x, w, _: F.linear(x, w),
                "bias": lambda x, _, b, w=w: F.linear(x, w, b),
                "weight": lambda x, w, _, b=b: F.linear(x, w, b),
            },
            x,
            w,
            b,
        )


def test_a_dense_layer_is_one_operator() -> None:
    """So are a product with a constant and `addmm` with a constant bias."""
    weight, bias = torch.randn(5, 7), torch.randn(7)
    assert ops_of(nn.Linear(5, 7), torch.randn(2, 3, 5)) == ["linear"]
    assert ops_of(With(lambda x, w: x @ w, weight), torch.randn(2, 3, 5)) == ["linear"]
    assert ops_of(With(lambda x, w, b: torch.addmm(b, x, w), weight, bias), torch.randn(3, 5)) == ["linear"]
    assert ops_of(With(lambda x, r, w: torch.addmm(r, x, w), weight), torch.randn(3, 5), torch.randn(3, 7)) == [
        "linear"
    ]


def test_products_that_are_added(agrees: Agrees) -> None:
    """Every addmm, with factors of all kinds; what is times 0 does not count, even as NaN."""
    m, x, y = torch.randn(3, 5), torch.randn(3, 4), torch.randn(4, 5)
    nan, bias = torch.full((3, 5), torch.nan), torch.randn(5)
    for beta, alpha in ((0, 1), (1, 1), (2, 1), (1, 0.25), (-0.5, 3)):

        def scale_and_add(m: Tensor, x: Tensor, y: Tensor, *, factors: dict[str, Any]) -> Any:
            return (
                torch.addmm(m, x, y, **factors),
                torch.addmm(m[0], x, y, **factors),
                torch.addmm(m[:, :1], x, y, **factors),
                torch.addmv(m[:, 0], x, y[:, 0], **factors),
                torch.addr(m, x[:, 0], y[0], **factors),
                torch.baddbmm(m, x.expand(2, 3, 4), y[None].expand(2, 4, 5) + 1, **factors),
                torch.addbmm(m, torch.stack([x, x + 1]), torch.stack([y, y * y]), **factors),
            )

        factors: dict[str, Any] = {"beta": beta, "alpha": alpha}
        agrees({"added": lambda m, x, y, factors=factors: scale_and_add(m, x, y, factors=factors)}, m, x, y, atol=1e-4)
        with_constants = {
            "constant": lambda m, x, factors=factors: torch.addmm(m, x, y, **factors),
            "bias": lambda _, x, factors=factors: torch.addmm(bias, x, y, **factors),
        }
        agrees(with_constants, m, x)
    agrees({"nan": lambda m, x, y: torch.addmm(m, x, y, beta=0)}, nan, x, y)


def test_other_names_of_products(agrees: Agrees) -> None:
    """Whatever torch decomposes into matrix products."""
    agrees(
        {
            "mm": lambda a, b: torch.mm(a[0], b[0]),
            "bmm": torch.bmm,
            "mv": lambda a, b: torch.mv(a[0], b[0, :, 1]),
            "dot": lambda a, b: (torch.dot(a[0, 0], b[0, :, 0]), torch.vdot(a[0, 0], b[0, :, 0])),
            "outer": lambda a, b: torch.outer(a[0, 0], b[0, 0]),
            "inner": lambda a, b: torch.inner(a, b.mT),
            "tensordot": lambda a, b: torch.tensordot(a, b, ([2], [1])),
            "kron": lambda a, b: torch.kron(a[0], b[0]),
            "chain": lambda a, b: torch.ops.aten.chain_matmul([a[0], b[0], b[1].mT]),
            "multi": lambda a, b: torch.linalg.multi_dot([a[0], b[0], b[1].mT]),
            "vecdot": lambda a, b: torch.linalg.vecdot(a, b.mT[:, :3]),
            "power": lambda a, b: torch.linalg.matrix_power(a[:, :3, :3], 3) + b[0, 0, 0],
        },
        torch.randn(2, 3, 4),
        torch.randn(2, 4, 5),
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bhij,bhjd->bihd", [(2, 3, 4, 6), (2, 3, 6, 5)]),
        ("i,i->", [(4,), (4,)]),
        ("i,j->ij", [(4,), (5,)]),
        ("ij->ji", [(4, 5)]),
        ("ij->", [(4, 5)]),
        ("bi,oij,bj->bo", [(2, 3), (5, 3, 4), (2, 4)]),
        ("nchw,cd->ndhw", [(2, 3, 4, 5), (3, 6)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("bld,dnh->blnh", [(2, 3, 4), (4, 2, 5)]),
    ],
)
def test_einsum(agrees: Agrees, equation: str, shapes: list[tuple[int, ...]]) -> None:
    """The equations of attention and of channel mixing; the last operand constant too."""
    tensors = [torch.randn(shape) for shape in shapes]
    agrees({"computed": lambda *argument: torch.einsum(equation, *argument)}, *tensors)
    if len(tensors) > 1:
        constant = tensors[-1]
        agrees({"constant": lambda *argument: torch.einsum(equation, *argument, constant)}, *tensors[:-1])


def test_bilinear(agrees: Agrees) -> None:
    """With and without bias, any leading dimensions."""
    for shape, bias in product([(6,), (2, 3), (1,)], (True, False)):
        agrees(nn.Bilinear(3, 4, 5, bias=bias).eval(), torch.randn(*shape, 3), torch.randn(*shape, 4))


def test_integer_products_are_exact_or_refused(agrees: Agrees) -> None:
    """int64 and int32 wrap around as torch's do; what would take too much memory is refused."""
    for dtype in (torch.int64, torch.int32):
        big = torch.iinfo(dtype).max // 3
        a, b = (torch.randint(-big, big, shape, dtype=dtype) for shape in ((2, 3, 4), (2, 4, 5)))
        agrees({"bmm": torch.bmm, "mv": lambda a, b: a[0] @ b[0, :, 0], "dot": lambda a, b: a[0, 0] @ b[0, :, 0]}, a, b)
    for a in (torch.ones(512, 512, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int8)):
        with pytest.raises(ExportError, match="float32 operands"):
            export(With(lambda a: a @ a), (a,))


def test_sums_over_nothing_are_zero(agrees: Agrees) -> None:
    """An inner dimension of 0."""
    agrees(
        {"empty": lambda x: x[:, :0] @ x[:0] + 1, "linear": lambda x: F.linear(x[:, :0], x[:, :0], x[:, 0])},
        torch.randn(3, 3),
    )


def test_weights_come_back_by_name() -> None:
    """Of dense layers, of matrices that multiply from the right, of a bilinear."""
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 4, bias=False)).eval()
    state = load_state(export(model, (torch.randn(2, 3),)).spec)
    assert set(state) == {"0.weight", "0.bias", "1.weight"}
    matrix = With(lambda x, w: x @ w, torch.randn(5, 7))
    (value,) = load_state(export(matrix, (torch.randn(2, 5),)).spec).values()
    assert torch.equal(torch.from_numpy(value), matrix.kept[0])
    pair = nn.Bilinear(3, 4, 5).eval()
    state = load_state(export(pair, (torch.randn(2, 3), torch.randn(2, 4))).spec)
    assert torch.equal(torch.from_numpy(state["weight"]), pair.weight)


def test_solvers_are_refused_with_a_reason() -> None:
    """Vectors whose signs follow from no rule, and what is rarely used."""
    for function in (
        torch.linalg.eigh,
        torch.linalg.svd,
        torch.linalg.eigvals,
        lambda x: torch.linalg.ldl_factor(x)[0],
    ):
        with pytest.raises(ExportError, match="linalg"):
            export(With(function), (torch.eye(3),))
