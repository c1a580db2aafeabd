"""Defines the errors of exporting, loading and running a program, with fields that say where.

AlcoveRuntimeError
├── ProgramError          the bytes of a program are wrong           (them)
├── InputError            the call passes what the program can't take (call)
│   └── InvalidTextError  a text is not UTF-8
├── SessionBusyError      two threads use one session at once         (call)
├── RunCancelledError     somebody stopped the run                   (call)
├── IsaError              ALCOVE_ISA names what there is not          (us)
├── ExportError           a module cannot become a program           (call)
├── ArgumentError         export was called with what doesn't fit the module (call)
├── QuantizationError     nothing of a module takes the form that was asked for (call)
├── CalibrationError      samples for quantizing don't fit the module (call)
└── CertificateError      a program does not give what its certificate says (them)
"""

from collections.abc import Sequence
from dataclasses import dataclass


class AlcoveRuntimeError(Exception):
    """Root of everything that `alcove.runtime` raises on purpose."""


class ProgramError(AlcoveRuntimeError):
    """The bytes are no valid program.

    Attributes:
        section: "file", "header", "table", "program", "certificate" or "weights".
        op: index of the op in the program, or None.
        tensor: index of the tensor in the program, or None.
        code: stable name of the broken rule, as listed in docs/format.md.
        message: names the thing, the bound and the value seen.
    """

    def __init__(self, section: str, op: int | None, tensor: int | None, code: str, message: str) -> None:
        where = section
        if op is not None:
            where += f", op {op}"
        if tensor is not None:
            where += f", tensor {tensor}"
        super().__init__(f"{message} [{code}; {where}]")
        self.section = section
        self.op = op
        self.tensor = tensor
        self.code = code
        self.message = message


class InputError(AlcoveRuntimeError):
    """The inputs of a call don't fit the program's ports, or a value in them is out of range.

    Attributes:
        port: name of the input, or None where the number of inputs is wrong.
        message: names the bound and the value seen.
    """

    def __init__(self, port: str | None, message: str) -> None:
        super().__init__(message if port is None else f"input {port!r}: {message}")
        self.port = port
        self.message = message


class InvalidTextError(InputError):
    """A text is not valid UTF-8, or a `str` holds a lone surrogate.

    Attributes:
        position: of the first bad byte; for a `str`, of the first bad character.
    """

    def __init__(self, port: str | None, position: int, message: str) -> None:
        super().__init__(port, message)
        self.position = position


class SessionBusyError(AlcoveRuntimeError):
    """A session was called while another thread was running it; make one session per thread."""


class RunCancelledError(AlcoveRuntimeError):
    """A run was stopped by `Session.cancel` or a `Cancellation`, or came after; no outputs, and no state changed."""


class IsaError(AlcoveRuntimeError):
    """ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.

    Attributes:
        isa: the value of ALCOVE_ISA.
        message: names what this machine has.
    """

    def __init__(self, isa: str, message: str) -> None:
        super().__init__(message)
        self.isa = isa
        self.message = message


@dataclass(frozen=True)
class Finding:
    """One thing in a module that cannot be exported.

    Attributes:
        op: name of the operator, as torch calls it.
        module_path: where it is in the module, as in `named_modules()`; "" for the module itself, and for ports.
        source: "file.py:line" of the user's code; "" where none of it is at work, as in torch's own layers.
        suggestion: the nearest form that is supported, or why there is none.
    """

    op: str
    module_path: str
    source: str
    suggestion: str


class ExportError(AlcoveRuntimeError):
    """A module cannot become a program; every reason is listed at once.

    Attributes:
        findings: all of them, in the order of the graph.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        lines = [
            f"  {f.op}{f' in {f.module_path}' * bool(f.module_path)}{f' at {f.source}' * bool(f.source)}: "
            f"{f.suggestion}"
            for f in self.findings
        ]
        super().__init__("\n".join([f"{len(lines)} finding(s) keep this module from export:", *lines]))


class ArgumentError(AlcoveRuntimeError, TypeError):
    """`export` was called with arguments that don't fit each other: the module, its examples or `dynamic_shapes`.

    Attributes:
        message: names the argument, what was expected and what was seen.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class QuantizationError(AlcoveRuntimeError):
    """Nothing of a module takes the form that was asked for: the program would be the float32 one.

    Attributes:
        mode: that was asked for.
        message: says what the mode makes smaller, and what to ask for instead.
    """

    def __init__(self, mode: str, message: str) -> None:
        super().__init__(message)
        self.mode = mode
        self.message = message


class CalibrationError(AlcoveRuntimeError):
    """Calibration samples don't fit a module's inputs, or make it compute numbers that are not finite.

    Attributes:
        sample: index of the sample, or None where all of them are wrong.
        message: names the thing, what was expected and what was seen.
    """

    def __init__(self, message: str, *, sample: int | None = None) -> None:
        super().__init__(message if sample is None else f"calibration sample {sample}: {message}")
        self.sample = sample
        self.message = message


class CertificateError(AlcoveRuntimeError):
    """A program's outputs differ from its parity certificate, or the certificate is malformed.

    Attributes:
        sample: index of the sample, or None where the certificate itself is wrong.
        output: name of the output, or None.
        bound: what was promised.
        value: what was seen.
    """

    def __init__(
        self, message: str, *, sample: int | None = None, output: str | None = None, bound: str = "", value: str = ""
    ) -> None:
        super().__init__(message)
        self.sample = sample
        self.output = output
        self.bound = bound
        self.value = value
