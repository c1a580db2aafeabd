"""Lists where a program differs from eager on purpose, each with what both do.

tests/runtime/compiler/ops/test_special_values.py tries every function with every pair of special values, and allows no
difference that is not here.
"""

from typing import Final

DIFFERENCES: Final[dict[str, str]] = {
    "order of equals": (
        "`topk`, `kthvalue`, and `sort` and `argsort` without `stable=True`: torch promises no order of equals, and "
        "eager's depends on the length and on the processor. A program takes the one with the lower index first, "
        "always: what `sort(stable=True)` gives. It matters where the indices of equal values are used, such as the "
        "padding of a detector's kept boxes"
    ),
    "phase of nothing": (
        "`angle` of a complex number that is 0 but for rounding: any phase, in eager as in a program. What is 0 by "
        "symmetry (the imaginary parts of the first and the middle frequency of a real signal) is exactly 0 in both"
    ),
    "factors of matrices": (
        "`qr` of a matrix without full rank: the columns of Q beyond its rank, which follow from rounding in eager as "
        "well. `cholesky_ex` where `info` is above 0: L means nothing"
    ),
    "exponentials of matrices": (
        "`matrix_exp` beyond float32: an infinity or NaN, not always the same one; of a matrix whose norm is above "
        "2^23, where float32 leaves no digit: NaN"
    ),
    "eigenvalues": (
        "`eigvalsh` of a matrix with NaN or an infinity ends the run; eager raises an error for most, and gives NaN "
        "for some"
    ),
    "gelu": (
        "of +∞ is +∞, as the formula and eager's own kernel have it; eager gives NaN for 8 elements and more where "
        "oneDNN computes it, and +∞ for the greatest number. Below −2, where eager adds 1 to nearly −1, a program is "
        "nearer to the exact value, by tanh too"
    ),
    "softshrink": "of numbers within lambd: a zero of either sign, in eager as well (its vectors and tails differ)",
    "softmax": "of a number more than 87 below the greatest: 0, where eager has a subnormal number",
    "sinh, cosh": "of 88.7 to 89.4: the exact value, where eager overflows",
    "fmod, remainder": "of a quotient beyond float32: the exact rest, where eager gives NaN",
    "norm": (
        "of one element: the square may leave the range, where eager takes the absolute value; so do "
        "`pairwise_distance`, `cosine_similarity`, `std` and `var` of numbers beyond 10^19 or below 10^-19"
    ),
    "sums of products": (
        "`addcmul`, `sub(alpha=)`, `lerp`: each step is rounded, where eager fuses two; they differ where a step "
        "leaves the range or in the sign of a zero"
    ),
    "subnormal numbers": "`log1p`, means and products of subnormal numbers keep the sign that eager loses",
}
"""By what differs."""
