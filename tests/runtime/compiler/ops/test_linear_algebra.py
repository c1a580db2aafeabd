"""Exported inverses, solutions and determinants of small matrices agree with torch, and end where torch raises."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn
from torch.export import Dim

Agrees = Callable[..., None]
SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])


def matrices(count: int, *batch: int) -> Tensor:
    """Return well-conditioned matrices whose rows change places in elimination."""
    rows = torch.randn(*batch, count, count) + 3.0 * torch.eye(count)
    return rows[..., torch.randperm(count), :]


@pytest.mark.parametrize("count", [1, 2, 3, 5, pytest.param(16, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 1, 2)])
def test_matrices_of_every_small_size_in_batches(agrees: Agrees, count: int, batch: tuple[int, ...]) -> None:
    """Inverses, solutions for columns, rows and vectors, determinants and their logarithms."""
    agrees(
        {
            "inverse": lambda a, *_: (torch.linalg.inv(a), a.inverse(), torch.linalg.inv_ex(a).info),
            "determinant": lambda a, *_: (torch.linalg.det(a), *torch.linalg.slogdet(a), torch.logdet(a)),
            "columns": lambda a, b, _: (torch.linalg.solve(a, b), torch.linalg.solve_ex(a, b).info),
            "rows": lambda a, b, _: torch.linalg.solve(a, b.mT, left=False),
            "vector": lambda a, _, c: torch.linalg.solve(a, c),
            "power": lambda a, *_: torch.linalg.matrix_power(a, -1),
        },
        matrices(count, *batch),
        torch.randn(*batch, count, 3),
        torch.randn(*batch, count),
        rtol=2e-4,
        atol=2e-4,
    )


@pytest.mark.thorough
def test_matrices_of_many_rows(agrees: Agrees) -> None:
    """As many as a program takes."""
    well = torch.randn(64, 64) + 16.0 * torch.eye(64)
    agrees({"all": lambda a, b: (a.inverse(), torch.linalg.solve(a, b))}, well, torch.randn(64, 2), atol=1e-4)


def test_matrices_of_more_rows_than_a_program_takes_are_refused() -> None:
    """One too many, at the export."""
    with pytest.raises(ExportError, match="at most 64"):
        export(Of(torch.linalg.solve).eval(), (torch.eye(65), torch.ones(65, 1)))


def test_batches_are_broadcast(agrees: Agrees) -> None:
    """Of one side, of both, and of constants."""
    fixed = matrices(3)
    agrees(
        {
            "both": torch.linalg.solve,
            "one": lambda a, b: torch.linalg.solve(a[0, 0], b),
            "constant": lambda a, b: (torch.linalg.solve(fixed, b), torch.linalg.solve(a, torch.ones(5, 3, 2))),
        },
        matrices(3, 2, 1),
        torch.randn(5, 3, 2),
        rtol=2e-4,
        atol=2e-4,
    )


@pytest.mark.parametrize("first", [0.0, 1e-30, 1e30, float("inf"), float("nan")])
def test_determinants_of_odd_matrices(agrees: Agrees, first: float) -> None:
    """Zeros on the diagonal, numbers far from 1, numbers that are none; a singular matrix has the determinant 0."""
    functions = {"all": lambda a: (torch.linalg.det(a), *torch.linalg.slogdet(a), torch.logdet(a))}
    agrees(functions, torch.tensor([[first, 2.0], [1.0, 3.0]]), atol=0)
    agrees(functions, torch.tensor([[first, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), atol=0)
    agrees({"which": lambda a: torch.linalg.inv_ex(a).info}, torch.stack([SINGULAR, torch.zeros(2, 2), torch.eye(2)]))


class Of(nn.Module):
    """A module made of a function."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Run."""
        return self.function(a, b)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.linalg.inv(a) @ b,
        lambda a, b: a.inverse() @ b,
        torch.linalg.solve,
        lambda a, b: torch.linalg.solve_ex(a, b, check_errors=True).result,
        lambda a, b: torch.linalg.inv_ex(a, check_errors=True).inverse @ b,
    ],
)
def test_a_singular_matrix_ends_the_run_as_in_eager(function: Callable[..., Tensor]) -> None:
    """One of a batch is enough."""
    module = Of(function).eval()
    b = torch.ones(2, 2, 1)
    model = load(bytes(export(module, (torch.eye(2).repeat(2, 1, 1), b))))
    singular = torch.stack([torch.eye(2), SINGULAR])
    with pytest.raises(RuntimeError, match="singular"):
        module(singular, b)
    with pytest.raises(InputError):
        model(singular.numpy(), b.numpy())


def test_batches_and_columns_may_vary() -> None:
    """At every size."""
    module = Of(torch.linalg.solve).eval()
    shapes = ({0: (batch := Dim("batch", min=1, max=5))}, {0: batch, 2: Dim("columns", min=1, max=4)})
    model = load(bytes(export(module, (matrices(3, 2), torch.randn(2, 3, 3)), dynamic_shapes=shapes)))
    for many in range(1, 6):
        for columns in range(1, 5):
            a, b = matrices(3, many), torch.randn(many, 3, columns)
            (found,) = model(a.numpy(), b.numpy())
            np.testing.assert_allclose(found, module(a, b).numpy(), rtol=2e-4, atol=2e-4)


def test_a_size_of_matrices_that_varies_is_refused() -> None:
    """The number of steps would follow it."""
    size = Dim("size", min=2, max=5)
    with pytest.raises(ExportError, match="a size that is fixed and at most 64"):
        export(
            Of(torch.linalg.solve).eval(), (torch.eye(3), torch.ones(3)), dynamic_shapes=({0: size, 1: size}, {0: size})
        )
