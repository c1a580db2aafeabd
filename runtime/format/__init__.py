"""The `.alc` program format: what a program is made of, writing it, reading it back."""

from alcove.runtime.format.spec import DType, Layout, OpSpec, PortSpec, ProgramSpec, Storage, TensorSpec

__all__ = ["DType", "Layout", "OpSpec", "PortSpec", "ProgramSpec", "Storage", "TensorSpec"]
