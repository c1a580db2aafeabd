"""Lowers torch operators to the runtime's own, in the forms that a program supports.

One file a family of operators, one rule for operators of one form.  The authority on the runtime's own operators is the
manifest of the kernels; a test compares.
"""

from alcove.runtime.compiler.rules import (
    activations,
    attention,
    complex_numbers,
    convolution,
    decoding,
    elementwise,
    embedding,
    factorizations,
    indexing,
    linear_algebra,
    matmul,
    matrix_functions,
    movement,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    regions,
    sampling,
    sorting,
    special,
    spectra,
    text,
    transforms,
    volumes,
)
from alcove.runtime.compiler.rules.registry import (
    DTYPES,
    KEPT,
    RULES,
    TEXT_ONLY,
    Call,
    Refused,
    Result,
    Rule,
    rule,
    usable,
)

FAMILIES = (
    activations,
    attention,
    complex_numbers,
    convolution,
    decoding,
    elementwise,
    embedding,
    factorizations,
    indexing,
    linear_algebra,
    matmul,
    matrix_functions,
    movement,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    regions,
    sampling,
    sorting,
    special,
    spectra,
    text,
    transforms,
    volumes,
)
"""The modules that register rules; importing them is what fills `RULES`."""

__all__ = ["DTYPES", "FAMILIES", "KEPT", "RULES", "TEXT_ONLY", "Call", "Refused", "Result", "Rule", "rule", "usable"]
