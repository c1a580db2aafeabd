"""Singular values, eigenvalues, ranks, pseudoinverses and least squares of small matrices agree with torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, InputError, export, load
from alcove.runtime.compiler.rules import spectra
from torch import Tensor, nn
from torch.export import Dim

from tests.selection import quick_among, quick_every

Agrees = Callable[..., None]
linalg: Any = torch.linalg


class Of(nn.Module):
    """A module made of a function."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Tensor) -> Any:
        """Run."""
        return self.function(a)


def spectrum(a: Tensor) -> tuple[Tensor, ...]:
    """Return what is measured by singular values, by the largest element."""
    largest = a.abs().amax() + 1e-30
    return linalg.svdvals(a) / largest, linalg.matrix_norm(a, 2) / largest, linalg.matrix_rank(a)


def odd(*shape: int) -> list[Tensor]:
    """Return matrices without full rank, with equal values, far from 1, and some at random."""
    a = torch.randn(shape)
    whole = torch.randint(-2, 3, shape).float()
    plain = [a[..., :1] @ a[..., :1, :], torch.zeros(shape), torch.ones(shape), a * 1e-20, a * 1e15, whole]
    return [*plain, torch.eye(*shape[-2:]).expand(shape).contiguous(), *(torch.randn(shape) for _ in range(8))]


LARGEST = pytest.param((6, 6), marks=pytest.mark.thorough)


@pytest.mark.parametrize("shape", quick_every([(1, 1), (2, 2), (2, 4, 4), (3, 5), LARGEST, (3, 20, 2)], 3))
def test_singular_values_and_pseudoinverses_of_all_shapes(shape: tuple[int, ...]) -> None:
    """Odd matrices have the values of eager; the pseudoinverse leaves out what counts as 0."""
    module = Of(lambda a: (*spectrum(a), linalg.pinv(a, rtol=1e-3) * a.abs().amax())).eval()
    model = load(bytes(export(module, (torch.randn(shape),))))
    for a in odd(*shape):
        for found, wanted in zip(model(a.numpy()), module(a), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("count", quick_among([1, 2, 3, 6], [1, 3]))
def test_eigenvalues_of_one_triangle(count: int) -> None:
    """The least first."""

    def both(a: Tensor) -> tuple[Tensor, ...]:
        largest = a.abs().amax() + 1e-30
        return linalg.eigvalsh(a) / largest, linalg.eigh(a, UPLO="U").eigenvalues / largest

    model = load(bytes(export(Of(both).eval(), (torch.eye(count),))))
    for a in odd(count, count):
        for found, wanted in zip(model(a.numpy()), both(a), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.thorough
def test_two_sweeps_fewer_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """So there is a margin."""
    monkeypatch.setattr(spectra, "_SWEEPS", {2: 1, 4: 4})
    for count in (2, 4):
        test_singular_values_and_pseudoinverses_of_all_shapes((count, count))


def test_ranks_conditions_and_least_squares(agrees: Agrees) -> None:
    """By given tolerances, of symmetric matrices; of batches and of vectors."""
    agrees(
        {
            "ranks": lambda a: (linalg.matrix_rank(a, atol=0.5), linalg.matrix_rank(a, rtol=0.3)),
            "condition": lambda a: linalg.cond(a.mT @ a),
            "symmetric": lambda a: linalg.pinv(a.mT @ a, hermitian=True),
            "older": torch.pinverse,
            "columns": lambda a: linalg.lstsq(a, a[..., :2] * 2 + 1).solution,
            "vector": lambda a: linalg.lstsq(a[0], a[0, :, 0] + 1).solution,
            "rank": lambda a: linalg.lstsq(a, a).rank,
        },
        torch.randn(2, 4, 2),
        rtol=2e-3,
        atol=2e-3,
    )


def test_batches_may_vary() -> None:
    """At every size."""
    module = Of(lambda a: (linalg.svdvals(a), linalg.eigvalsh(a @ a.mT))).eval()
    model = load(bytes(export(module, (torch.randn(2, 3, 2),), dynamic_shapes=({0: Dim("batch", min=1, max=4)},))))
    for many in range(1, 5):
        a = torch.randn(many, 3, 2)
        for found, wanted in zip(model(a.numpy()), module(a), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function", [linalg.svdvals, linalg.eigvalsh, linalg.pinv])
def test_numbers_that_are_none_end_the_run(function: Callable[[Tensor], Tensor]) -> None:
    """One is enough; eager raises an error too, or for eigenvalues gives some numbers and no others."""
    model = load(bytes(export(Of(function).eval(), (torch.eye(3),))))
    wrong = torch.eye(3)
    wrong[1, 0] = torch.nan
    with pytest.raises(InputError):
        model(wrong.numpy())


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a: linalg.svd(a).U, "signs that follow from no rule"),
        (lambda a: linalg.eigh(a).eigenvectors, "signs that follow from no rule"),
        (lambda a: linalg.svdvals(torch.kron(a, a)), "at most 6 rows or columns"),
        (lambda a: linalg.lstsq(a, a).residuals + a, "NoneType"),
    ],
)
def test_vectors_and_large_matrices_are_refused(function: Callable[[Tensor], Tensor], words: str) -> None:
    """With what there is in their place."""
    with pytest.raises(ExportError, match=words):
        export(Of(function).eval(), (torch.randn(3, 3),))
