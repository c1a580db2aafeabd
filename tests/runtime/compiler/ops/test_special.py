"""Exported special functions, polynomials and views as other types agree with torch."""

from collections.abc import Callable

import pytest
import torch
from alcove.runtime import ExportError, export
from torch import Tensor, nn

Agrees = Callable[..., None]
ONE_TENSOR = (
    *("lgamma", "digamma", "erfinv", "i0", "special.erfcx", "special.ndtri", "special.log_ndtr", "special.i0e"),
    *("special.i1", "special.i1e", "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1"),
    *("special.modified_bessel_i0", "special.modified_bessel_i1", "special.modified_bessel_k0"),
    *("special.modified_bessel_k1", "special.scaled_modified_bessel_k0", "special.scaled_modified_bessel_k1"),
    *("special.spherical_bessel_j0", "special.entr", "special.sinc", "special.logit", "special.ndtr"),
)
POLYNOMIALS = (
    *("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
    *("shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v"),
)


def torch_function(name: str) -> Callable[[Tensor], Tensor]:
    """Return a function of torch by its name."""
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]


def test_functions_of_one_tensor(agrees: Agrees) -> None:
    """All of them, on one range that most are defined on and on numbers that few are."""
    x = torch.cat([torch.linspace(0.01, 0.99, 20), torch.linspace(1.3, 60, 20), torch.linspace(-9.4, -0.1, 20)])
    agrees({name: torch_function(name) for name in ONE_TENSOR}, x)
    agrees({name: torch_function(name) for name in ("lgamma", "special.bessel_j0")}, torch.arange(1, 9))


def test_functions_of_orders_and_of_two_tensors(agrees: Agrees) -> None:
    """Polygamma by its order; zeta and xlogy broadcast, with numbers on either side; several gammas."""
    agrees(
        {
            "polygamma": lambda x, q: tuple(torch.polygamma(order, x) for order in range(5)),
            "zeta": lambda x, q: (
                torch.special.zeta(x[:, None], q),
                torch.special.zeta(2.5, q),
                torch.special.zeta(x, 3.0),
            ),
            "several": lambda x, q: torch.mvlgamma(x + 3, 3),
            "entropies": lambda x, q: (torch.xlogy(x[:5], q), torch.special.xlog1py(x[:5], q)),
        },
        torch.rand(6) * 8 + 0.1,
        torch.rand(5) * 20 + 0.1,
    )


def test_polynomials_of_a_known_degree(agrees: Agrees) -> None:
    """Each kind, of the degrees 0, 1 and 5."""
    polynomials = torch.special
    agrees(
        {
            f"{name} {degree}": lambda x, name=name, degree=degree: getattr(polynomials, name)(x, degree)
            for name in POLYNOMIALS
            for degree in (0, 1, 5)
        },
        torch.linspace(-0.9, 0.9, 7),
    )


def test_bits_as_another_type(agrees: Agrees) -> None:
    """The sign taken away by a mask, a square root's first guess by a shift, bytes with and without a sign."""
    agrees(
        {
            "bits": lambda x, i: x.view(torch.int32),
            "absolute": lambda x, i: (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32),
            "guess": lambda x, i: ((x.abs().view(torch.int32) >> 1) + 0x1FC00000).view(torch.float32),
            "bytes": lambda x, i: i.view(torch.int8),
            "same": lambda x, i: x.view(torch.float32),
        },
        torch.randn(3, 4),
        torch.randint(0, 255, (5,), dtype=torch.uint8),
    )


class Apply(nn.Module):
    """One function."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.view(torch.uint8), "float32 and int32"),
        (lambda x: torch.special.hermite_polynomial_h(x, 65), "at most degree 64"),
        (lambda x: torch.special.hermite_polynomial_h(x, x), "one degree that is known"),
        (lambda x: torch.special.gammainc(x, x), "interpolate a table"),
    ],
)
def test_other_forms_are_refused_with_what_to_do(function: Callable[[Tensor], Tensor], reason: str) -> None:
    """The message names the nearest form."""
    with pytest.raises(ExportError, match=reason):
        export(Apply(function).eval(), (torch.rand(3, 4),))
