"""Defines the `.alc` program format: what a program is made of, writing it, reading it back."""

from alcove.runtime.format.spec import (
    BucketSpec,
    DType,
    ExpressionKind,
    ExpressionSpec,
    Layout,
    OpSpec,
    PortSpec,
    ProgramSpec,
    StateSpec,
    Storage,
    SymbolSpec,
    TensorSpec,
)

__all__ = [
    "BucketSpec",
    "DType",
    "ExpressionKind",
    "ExpressionSpec",
    "Layout",
    "OpSpec",
    "PortSpec",
    "ProgramSpec",
    "StateSpec",
    "Storage",
    "SymbolSpec",
    "TensorSpec",
]
