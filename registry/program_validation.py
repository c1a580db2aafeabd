"""Examines what a program contains and how it runs on this machine, for validation by a feature's rules."""

from __future__ import annotations

import hashlib
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from alcove.registry.errors import ProgramRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.runtime.cancellation import Alarm

LATENCY_S: Final = 1.0  # seconds that the runs of one program may take together, beyond the first of each sample
LATENCY_RUNS: Final = 30  # runs of each sample; the median of a few dozen stands still


@dataclass(frozen=True, slots=True)
class Parity:
    """What the certificate's samples gave, run here and now.

    Attributes:
        samples: how many were run.
        tolerance: class of the bound that the certificate promises.
        largest_difference: largest difference from torch that was seen, relative to the output's scale.
    """

    samples: int
    tolerance: str
    largest_difference: float


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """What a program consists of.

    Attributes:
        ops: how often each operator occurs, by name.
        nan_weights: how many elements are NaN, by weight; weights without any are absent.
        tolerance: class of the bound that its certificate promises; "" where there is none.
        samples: of its certificate.
        weights: (SHA-256, bytes) of the content of each, by name.
    """

    ops: Mapping[str, int]
    nan_weights: Mapping[str, int]
    tolerance: str = ""
    samples: int = 0
    weights: Mapping[str, tuple[str, int]] = field(default_factory=dict)


class ProgramValidator(Protocol):
    """Looks into programs and runs them; every method raises `ProgramRefusedError` and nothing else."""

    def parity(self, variant: str, program: bytes) -> Parity:
        """Check every weight digest and run the parity certificate."""
        ...

    def summary(self, variant: str, program: bytes) -> ProgramSummary:
        """Take the program apart."""
        ...

    def latency_ms(self, variant: str, program: bytes) -> float:
        """Return the median time of one run over the certificate's samples, in milliseconds."""
        ...


class RuntimeValidator:
    """Asks the native runtime.

    Args:
        alarm: keeps the time of a check, where no thread may be started for it.
    """

    def __init__(self, alarm: Alarm | None = None) -> None:
        self._alarm = alarm

    def parity(self, variant: str, program: bytes) -> Parity:
        """Check every weight digest and run the parity certificate.

        Raises:
            ProgramRefusedError: a weight differs from its digest, or an output from the certificate.
        """
        from alcove.runtime import load  # noqa: PLC0415 - the native library is loaded on first use
        from alcove.runtime.certificate import check_certificate  # noqa: PLC0415
        from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415

        try:
            model = load(program)
            model.verify_weights()
            report = check_certificate(model, alarm=self._alarm)
        except AlcoveRuntimeError as error:
            raise ProgramRefusedError(variant, str(error)) from error
        return Parity(report.samples, report.tolerance, report.largest_difference)

    def summary(self, variant: str, program: bytes) -> ProgramSummary:
        """Take the program apart.

        Raises:
            ProgramRefusedError: the runtime does not load it, or its certificate is malformed.
        """
        import numpy as np  # noqa: PLC0415
        from alcove.runtime.certificate.document import parse  # noqa: PLC0415
        from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415
        from alcove.runtime.format.reader import read_spec  # noqa: PLC0415
        from alcove.runtime.format.spec import DType, Storage  # noqa: PLC0415

        try:
            spec = read_spec(program)
            certificate = parse(spec.certificate) if spec.certificate else None
        except AlcoveRuntimeError as error:
            raise ProgramRefusedError(variant, str(error)) from error
        ops: dict[str, int] = {}
        for op in (op for method in spec.methods for op in method.ops):
            ops[op.name] = ops.get(op.name, 0) + 1
        tensors = list(dict.fromkeys(tensor for method in spec.methods for tensor in method.tensors))
        nans: dict[str, int] = {}
        for tensor in tensors:
            if tensor.storage is Storage.CONSTANT and tensor.dtype is DType.F32:
                # Whatever the layout, it is four-byte floats throughout; padding is zeros.
                count = int(np.isnan(np.frombuffer(tensor.data, dtype="<f4")).sum())
                if count:
                    nans[tensor.name] = nans.get(tensor.name, 0) + count
        weights = {
            tensor.name: (hashlib.sha256(tensor.data).hexdigest(), len(tensor.data))
            for tensor in tensors
            if tensor.storage is Storage.CONSTANT
        }
        if certificate is None:
            return ProgramSummary(ops, nans, weights=weights)
        return ProgramSummary(ops, nans, certificate.tolerance, len(certificate.samples), weights)

    def latency_ms(self, variant: str, program: bytes) -> float:
        """Return the median time of one run over the certificate's samples, in milliseconds.

        The first run of each sample is not counted.  Runs end after `LATENCY_RUNS` of each, or `LATENCY_S` together.

        Raises:
            ProgramRefusedError: the runtime does not load it, or its samples do not fit it.
        """
        from alcove.runtime import load  # noqa: PLC0415
        from alcove.runtime.certificate.document import decode_input, parse  # noqa: PLC0415
        from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415

        try:
            model = load(program)
            samples = [
                (
                    model.method(sample.method) if sample.method else model,
                    [decode_input(index, value) for value in sample.inputs],
                )
                for index, sample in enumerate(parse(model.certificate).samples)
            ]
            for of_method, inputs in samples:
                of_method(*inputs)
            times_ns: list[int] = []
            began_ns = time.perf_counter_ns()
            for _ in range(LATENCY_RUNS):
                for of_method, inputs in samples:
                    start_ns = time.perf_counter_ns()
                    of_method(*inputs)
                    end_ns = time.perf_counter_ns()
                    times_ns.append(end_ns - start_ns)
                    if end_ns - began_ns > LATENCY_S * 1e9:
                        return statistics.median(times_ns) / 1e6
            return statistics.median(times_ns) / 1e6
        except AlcoveRuntimeError as error:
            raise ProgramRefusedError(variant, str(error)) from error
