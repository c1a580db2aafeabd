"""Compiles torch modules to programs, and loads and runs programs natively, without torch.

export(module, args) -> Program      needs alcove-platform[export]
load(path | bytes) -> Model          verified; torch is not needed
model(*inputs) -> list of arrays
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alcove.runtime.errors import (
    AlcoveRuntimeError,
    ArgumentError,
    CalibrationError,
    CertificateError,
    ExportError,
    Finding,
    InputError,
    InvalidTextError,
    IsaError,
    ProgramError,
    QuantizationError,
    RunCancelledError,
    SessionBusyError,
)

if TYPE_CHECKING:
    from alcove.runtime.cancellation import Cancellation
    from alcove.runtime.compiler import export
    from alcove.runtime.compiler.methods import Method
    from alcove.runtime.compiler.quantize.options import Quantization
    from alcove.runtime.generation import Sampling, generate
    from alcove.runtime.model import Model, Port, Session, load
    from alcove.runtime.text_generation import generate_text

__all__ = [
    "AlcoveRuntimeError",
    "ArgumentError",
    "CalibrationError",
    "Cancellation",
    "CertificateError",
    "ExportError",
    "Finding",
    "InputError",
    "InvalidTextError",
    "IsaError",
    "Method",
    "Model",
    "Port",
    "ProgramError",
    "Quantization",
    "QuantizationError",
    "RunCancelledError",
    "Sampling",
    "Session",
    "SessionBusyError",
    "export",
    "generate",
    "generate_text",
    "load",
]

# Loaded on first use: importing the SDK must not pay for numpy or torch.
_LAZY = {
    "Cancellation": "alcove.runtime.cancellation",
    "Method": "alcove.runtime.compiler.methods",
    "Model": "alcove.runtime.model",
    "Port": "alcove.runtime.model",
    "Quantization": "alcove.runtime.compiler.quantize.options",
    "Sampling": "alcove.runtime.generation",
    "Session": "alcove.runtime.model",
    "export": "alcove.runtime.compiler",
    "generate": "alcove.runtime.generation",
    "generate_text": "alcove.runtime.text_generation",
    "load": "alcove.runtime.model",
}


def __getattr__(name: str) -> Any:
    """Load `name` from its module and keep it.

    Raises:
        ImportError: the compiler is not installed; an app has no use for it.
    """
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "alcove.runtime.compiler":
            raise
        raise ImportError(
            f"{name} needs the compiler: pip install 'alcove-platform[export]'", name=error.name
        ) from error
    globals()[name] = value
    return value
