"""Makes a certified program of a module and a team's own samples: calibrated, compared and labelled on these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.platform.cli.exporting import take_rounded_weights
from alcove.platform.cli.importing.certifying import certify_float32
from alcove.platform.cli.importing.comparison import (
    Comparison,
    Input,
    Numbers,
    Reading,
    compare_answers,
    module_answers,
    program_answers,
    tensor_of,
)
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.compiler.quantize.options import Run
from alcove.runtime.errors import CertificateError
from alcove.runtime.program import Program
from torch import nn

CERTIFIED: Final = 2
"""Samples of a certificate."""


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        program: certified.
        calibrated_on: samples from which int8 ranges were taken; 0 for float32.
        kept_float: layers with weights that stayed float32 in an int8 program, to lose no more than is allowed.
        comparison: with the module in float32, on further samples, or the same ones if there are few.
        notes: how the weights were found in their file, and what else is to be known.
        tolerance: class of the certificate's.
        word: what counts as the same answer.
    """

    program: Program
    calibrated_on: int
    kept_float: tuple[str, ...]
    comparison: Comparison
    notes: tuple[str, ...]
    tolerance: str
    word: str


@dataclass(frozen=True)
class Int8:
    """How a program is quantized.

    Attributes:
        max_drop: the share of calibration samples whose best output may differ from the module's; layers stay float32,
            the worst first, till no more do.
    """

    max_drop: float


@dataclass(frozen=True)
class Samples:
    """A team's samples, and those of the certificate.

    Attributes:
        inputs: at most twice the number for a calibration: every other one is for the comparison, if they are more.
        most: largest number for the calibration.
        certified: samples of ours.
        licence: of these.
    """

    inputs: Sequence[Input]
    most: int
    certified: Sequence[Sample]
    licence: str = "procedural"

    @property
    def is_apart(self) -> bool:
        """Whether the comparison has samples of its own."""
        return len(self.inputs) > self.most

    @property
    def calibration(self) -> Sequence[Input]:
        """From which ranges are taken."""
        return self.inputs[::2] if self.is_apart else self.inputs

    @property
    def compared(self) -> range:
        """Places of those of the comparison."""
        return range(1, len(self.inputs), 2) if self.is_apart else range(len(self.inputs))


@dataclass(frozen=True)
class Labels:
    """What the samples of a comparison are.

    Attributes:
        classes: in the order of the outputs; empty without labels.
        of_samples: indices into them.
    """

    classes: Sequence[str] = ()
    of_samples: Sequence[int] = ()


def make_program(
    module: nn.Module,
    samples: Samples,
    expected: Numbers,
    labels: Labels,
    *,
    reading: Reading,
    int8: Int8 | None,
    notes: tuple[str, ...],
) -> Imported:
    """Return the certified program of a module with its weights.

    Args:
        module: in eval mode; takes one of the samples.
        samples: to calibrate, compare and certify on.
        expected: the module's answers to those of the comparison.
        labels: of these.
        reading: how answers are read, and what counts as the same.
        int8: None for float32.
        notes: passed on.

    Raises:
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    program = _export(module, samples.calibration, reading, int8)
    native = program_answers(bytes(program), [samples.inputs[i] for i in samples.compared], reading)
    kept = program.quantization.kept_float if int8 is not None and program.quantization is not None else ()
    if int8 is None:
        certificate, tolerance = certify_float32(bytes(program), module, samples.certified, samples.licence)
    else:
        take_rounded_weights(module, load_state(program.spec))
        certificate, tolerance = _certify_int8(bytes(program), module, samples)
    return Imported(
        program.with_bytes(embed_certificate(bytes(program), certificate)),
        0 if int8 is None else len(samples.calibration),
        tuple(layer.layer for layer in kept if layer.float_bytes > 0),
        compare_answers(expected, native, labels.classes, labels.of_samples, reading),
        notes,
        tolerance,
        reading.word,
    )


def _certify_int8(program: bytes, module: nn.Module, samples: Samples) -> tuple[bytes, str]:
    """Return the certificate and its class: of the outputs' range, or of 1 where a sample's outputs hardly differ."""
    try:
        found = certify(program, module, samples.certified, licence=samples.licence, tolerance="quantised_range")
    except CertificateError:
        found = certify(program, module, samples.certified, licence=samples.licence, tolerance="quantised")
        return found, "quantised"
    return found, "quantised_range"


def _export(module: nn.Module, calibration: Sequence[Input], reading: Reading, int8: Int8 | None) -> Program:
    example = (_example(calibration[0]),)
    if int8 is None:
        return export(module, example)
    expected = module_answers(module, calibration, reading)

    def agreement(run: Run) -> float:
        return reading.agreement(expected, np.stack([reading.numbers(run(sample)[0]) for sample in calibration]))

    return export(
        module,
        example,
        quantize="int8",
        calibration=[_example(each) for each in calibration],
        max_drop=int8.max_drop,
        metric=agreement,
    )


def _example(value: Input) -> object:
    return value if isinstance(value, str) else tensor_of(value)
