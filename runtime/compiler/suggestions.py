"""Names the nearest supported form of a torch operator that has no rule."""

import difflib
from collections.abc import Mapping
from typing import Final

from alcove.runtime.compiler.rules import RULES

_RANDOM: Final = "draw random numbers outside the program and pass them in"

_GUMBEL: Final = (
    "it draws random numbers, as F.gumbel_softmax does: draw them outside the program and pass them in, "
    "softmax((logits + noise) / tau, -1) with noise = -log(-log(torch.rand(...))); softmax or argmax alone need none"
)
_INCOMPLETE: Final = (
    "compute it outside the program, or interpolate a table of it (torch.lerp of two neighbours); of whole and half "
    "orders it is sums of exp and erf"
)

NEAREST: Final[Mapping[str, str]] = {
    "bernoulli": _RANDOM,
    "binomial": _RANDOM,
    "cauchy": _RANDOM,
    "exponential": _GUMBEL,
    "geometric": _RANDOM,
    "log_normal": _RANDOM,
    "normal_functional": _RANDOM,
    "poisson": _RANDOM,
    "random": _RANDOM,
    "sample_dirichlet": _RANDOM,
    "standard_gamma": _RANDOM,
    "uniform": _RANDOM,
    "bincount": "the size of the result depends on data: give bincount a minlength above every number",
    "embedding_renorm": (
        "max_norm changes the table in every run: embedding without max_norm, of a table that is renormed before"
    ),
    "flex_attention": (
        "score functions of flex_attention are not traced: F.scaled_dot_product_attention with what they add to the "
        "scores, or with a mask, as attn_mask"
    ),
    "igamma": _INCOMPLETE,
    "igammac": _INCOMPLETE,
    "linalg_eig": "eigenvalues of symmetric matrices alone (torch.linalg.eigvalsh), or of constants",
    "masked_select": "the size of the result depends on data: keep the whole tensor and weight it by the mask",
    "multinomial": _RANDOM,
    "nonzero": "the size of the result depends on data: keep the mask, or take topk of it",
    "normal": _RANDOM,
    "rand": _RANDOM,
    "rand_like": _RANDOM,
    "randint": _RANDOM,
    "randint_like": _RANDOM,
    "randn": _RANDOM,
    "randn_like": _RANDOM,
    "randperm": _RANDOM,
    "repeat_interleave": "the size of the result depends on data: repeat every element the same number of times",
    "unique": "the size of the result depends on data: sort, and compare neighbours",
    "unique2": "the size of the result depends on data: sort, and compare neighbours",
    "unique_dim": "the size of the result depends on data: sort, and compare neighbours",
}
"""By torch's name without namespace and overload."""


def suggest_form(target: str) -> str:
    """Return the nearest supported form of a torch operator, such as "aten.nonzero.default"."""
    if is_listed(target):
        return NEAREST[_plain(target)]
    name = _plain(target)
    if name.startswith("linalg"):
        return (
            "of its inputs a program has inv, solve, det, slogdet, cholesky, solve_triangular, lu, qr, pinv, lstsq, "
            "svdvals, eigvalsh and matrix_exp of small matrices; other solvers and factorizations are computed at "
            "export, of constants: compute with those, or outside the program"
        )
    known = sorted({_plain(other) for other in RULES})
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    if near:
        return f"no rule for it; near it: {' and '.join(near)}"
    return f"no rule for it; docs/coverage.md lists the {len(known)} operators that have one"


def is_listed(target: str) -> bool:
    """Return whether there is a sentence for this operator alone."""
    return _plain(target) in NEAREST


def _plain(target: str) -> str:
    name = target.split(".")[1] if target.count(".") else target
    return name.strip("_").removesuffix("_copy").removeprefix("special_")
