"""Exported factorizations of small matrices agree with torch, and end where torch raises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn
from torch.export import Dim

from tests.selection import quick_among

pytestmark = pytest.mark.filterwarnings("ignore:torch.*deprecated in favor of torch.linalg:UserWarning")

Agrees = Callable[..., None]
linalg: Any = torch.linalg
functions: Any = torch  # torch has no types for some
SHAPES = [(1, 1), (4, 4), (5, 3), (3, 5), (2, 1, 16, 16), (3, 40, 2)]


def positive(a: Tensor) -> Tensor:
    """Return a positive definite matrix."""
    return a @ a.mT + a.shape[-1] * torch.eye(a.shape[-1])


@pytest.mark.parametrize("count", [1, 2, 5, pytest.param(16, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 1, 2)])
def test_cholesky_of_every_small_size_in_batches(agrees: Agrees, count: int, batch: tuple[int, ...]) -> None:
    """Of the triangle that is asked for alone, with what is solved by it."""
    agrees(
        {
            "lower": lambda a, _: (linalg.cholesky(positive(a)), functions.cholesky(positive(a))),
            "upper": lambda a, _: linalg.cholesky(positive(a), upper=True),
            "one triangle": lambda a, _: linalg.cholesky(positive(a).tril()) + linalg.cholesky(positive(a) + a.triu(1)),
            "info": lambda a, _: tuple(linalg.cholesky_ex(positive(a))),
            "solve": lambda a, b: torch.cholesky_solve(b, linalg.cholesky(positive(a))),
            "solve upper": lambda a, b: torch.cholesky_solve(b, linalg.cholesky(positive(a)).mT, upper=True),
            "inverse": lambda a, _: torch.cholesky_inverse(linalg.cholesky(positive(a))),
        },
        torch.randn(*batch, count, count),
        torch.randn(*batch, count, 3),
    )


@pytest.mark.parametrize("upper", [False, True])
def test_triangular_solutions_from_both_sides(agrees: Agrees, upper: bool) -> None:
    """Of one triangle, with ones on its diagonal or not, of batches that are broadcast; a 0 gives infinities."""
    a = torch.randn(2, 1, 4, 4) + 3 * torch.eye(4)
    solve = linalg.solve_triangular
    agrees(
        {
            "left": lambda a, b: solve(a, b, upper=upper),
            "right": lambda a, b: solve(a, b.mT, upper=upper, left=False),
            "unit": lambda a, b: solve(a, b, upper=upper, unitriangular=True),
            "older": lambda a, b: tuple(functions.triangular_solve(b, a, upper=upper)),
            "turned": lambda a, b: functions.triangular_solve(b, a, upper=upper, transpose=True)[0],
        },
        a,
        torch.randn(3, 4, 2),
    )
    agrees({"zero": lambda a, b: solve(a, b, upper=upper)}, torch.diag(torch.tensor([1.0, 0.0])), torch.ones(2, 1))


@pytest.mark.parametrize("shape", quick_among(SHAPES, {(4, 4), (3, 5), (3, 40, 2)}))
def test_lu_and_qr_of_all_shapes(agrees: Agrees, shape: tuple[int, ...]) -> None:
    """Rows change places, and signs are, as in LAPACK."""
    agrees(
        {
            "lu": lambda a: tuple(linalg.lu(a)),
            "lu_factor": lambda a: (*linalg.lu_factor(a), *linalg.lu_factor_ex(a)),
            "unpack": lambda a: tuple(torch.lu_unpack(*linalg.lu_factor(a))),
            "reduced": lambda a: (*linalg.qr(a), *functions.qr(a)),
            "complete": lambda a: tuple(linalg.qr(a, mode="complete")),
            "r": lambda a: linalg.qr(a, mode="r").R,
        },
        torch.randn(shape),
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_factorizations_of_matrices_that_are_odd(agrees: Agrees, scale: float) -> None:
    """Zeros, triangles, numbers far from 1; of equal columns the second column of Q is noise in eager mode too."""
    odd = torch.tensor([[0.0, 2.0, 1.0], [0.0, -1.0, 3.0], [0.0, 0.0, 0.0]])
    agrees(
        {
            "lu": lambda a: (*linalg.lu(a), *linalg.lu_factor_ex(a)),
            "qr": lambda a: (*linalg.qr(a), *linalg.qr(a, mode="complete")),
        },
        torch.stack([odd, odd.T.flip(0), -torch.eye(3)]) * scale,
        atol=1e-6 * scale + 1e-6,
    )


def test_solutions_by_lu(agrees: Agrees) -> None:
    """The same factors for several columns."""
    agrees({"solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b)}, torch.randn(3, 4, 4), torch.randn(4, 2))
    for function in (
        lambda a: linalg.lu_solve(*linalg.lu_factor(a), a, adjoint=True),
        lambda a: functions.lu_unpack(*linalg.lu_factor(a), unpack_pivots=False)[1],
    ):
        with pytest.raises(ExportError, match=r"linalg.solve takes all forms|of both"):
            export(Of(function).eval(), (torch.eye(2),))


class Of(nn.Module):
    """A module made of a function."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Tensor) -> Tensor:
        """Run."""
        return self.function(a)


@pytest.mark.parametrize(
    ("function", "last"),
    [
        (linalg.cholesky, -1.0),
        (linalg.cholesky, 0.0),
        (linalg.cholesky, float("nan")),
        (functions.cholesky, -1.0),
        (lambda a: linalg.cholesky_ex(a, check_errors=True).L, -1.0),
        (torch.cholesky_inverse, 0.0),
        (lambda a: linalg.lu_factor(a).LU, 0.0),
    ],
)
def test_matrices_that_eager_refuses_end_the_run(function: Callable[..., Tensor], last: float) -> None:
    """One of a batch is enough."""
    module = Of(function).eval()
    model = load(bytes(export(module, (torch.eye(2).repeat(2, 1, 1),))))
    wrong = torch.stack([torch.eye(2), torch.diag(torch.tensor([1.0, last]))])
    with pytest.raises(RuntimeError, match=r"positive|zero"):
        module(wrong)
    with pytest.raises(InputError):
        model(wrong.numpy())


def test_what_is_not_positive_definite_is_said_by_its_place(agrees: Agrees) -> None:
    """Counted from 1."""
    odd = torch.stack([torch.diag(torch.tensor(x)) for x in ([1.0, 1.0], [1.0, -1.0], [0.0, 1.0])])
    agrees({"info": lambda a: linalg.cholesky_ex(a).info}, odd)


def test_exponentials_of_matrices_of_all_norms(agrees: Agrees) -> None:
    """Of rotations, decays and matrices whose powers end; NaN where no digit is known."""
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    ends = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    scales = torch.tensor([0.0, 1e-3, 0.4, 0.6, 1.0, 8.0]).reshape(-1, 1, 1, 1)
    agrees({"all": torch.matrix_exp}, scales * torch.stack([turn, ends, -torch.eye(2), torch.ones(2, 2) / 2]))
    agrees({"one": torch.matrix_exp}, torch.randn(3, 1, 1))
    agrees({"many": torch.matrix_exp}, torch.randn(20, 20), rtol=1e-3, atol=1e-3)
    (found,) = load(bytes(export(Of(torch.matrix_exp).eval(), (turn,))))((turn * 1e8).numpy())
    assert np.isnan(found).all()


def test_batches_may_vary() -> None:
    """At every size."""
    module = Of(lambda a: linalg.qr(linalg.cholesky(positive(a)))[1] @ torch.matrix_exp(a) @ linalg.lu(a)[0]).eval()
    shapes = ({0: Dim("batch", min=1, max=5)},)
    model = load(bytes(export(module, (torch.randn(2, 3, 3),), dynamic_shapes=shapes)))
    for many in range(1, 6):
        a = torch.randn(many, 3, 3)
        (found,) = model(a.numpy())
        np.testing.assert_allclose(found, module(a).numpy(), rtol=1e-3, atol=1e-3)
