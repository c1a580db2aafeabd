"""Checks that a program gives what its parity certificate says, and embeds certificates in programs.

A parity certificate travels in a program's CERTIFICATE section: up to 16 samples with the outputs of the torch module
and a class of tolerance (shown at export and at publishing), and the exact digest of every native output (shown again
on each device at install).  No torch here: the torch side is `compiler/certify.py`.

Source of the idea: DESIGN, "The runtime", 7.
"""

import hashlib
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from alcove.runtime.cancellation import Alarm, Cancellation
from alcove.runtime.certificate.document import (
    TOLERANCES,
    Document,
    Picked,
    Text,
    canonical,
    decode_expected,
    decode_input,
    encode_expected,
    encode_input,
    encode_tensor,
    parse,
    picks,
)
from alcove.runtime.certificate.document import Input as InputRecord
from alcove.runtime.certificate.limits import MAX_CHECK_S, PICKED
from alcove.runtime.certificate.samples import DTYPES, Sample
from alcove.runtime.errors import CertificateError, InputError, RunCancelledError
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.runtime.model import Model, Port

_PIECE_BYTES: Final = 1 << 20
"""Bytes of an output that are hashed at a time."""


@dataclass(frozen=True)
class CertificateReport:
    """What a check of a certificate found.

    Attributes:
        samples: number of samples that were run.
        licence: of the samples.
        tolerance: class of the promised bound, a key of `TOLERANCES`.
        largest_difference: the largest such ratio that was seen.
        digest: sha-256 of the certificate, hex.
    """

    samples: int
    licence: str
    tolerance: str
    largest_difference: float
    digest: str


def check_certificate(
    model: "Model",
    *,
    limit_s: float = MAX_CHECK_S,
    cancellation: Cancellation | None = None,
    alarm: Alarm | None = None,
) -> CertificateReport:
    """Run every sample of a program's certificate and compare: within the tolerance of torch, and bit for bit.

    What it costs is bounded before it begins: inputs are compared with the program's ports and counted before one is
    made, and the runs are stopped after `limit_s`.  At a time there are the inputs of one sample (all samples' together
    have at most `MAX_INPUT_BYTES`), one session (the program's memory ceiling), and one sample's outputs.

    Args:
        model: a loaded program; its certificate is data from outside and is checked like it.
        limit_s: longest time of all runs together, in seconds of the wall clock, > 0.
        cancellation: ends the check from another thread.
        alarm: keeps the time, where no thread may be started for it.

    Raises:
        CertificateError: there is none, it is malformed, its samples don't fit the program or take longer than
            `limit_s`, or an output differs; names the sample, the output, what was promised and what was seen.
        RunCancelledError: `cancellation` ended it; nothing is known of the program.
    """
    certificate = parse(model.certificate)
    _check_fit(model, certificate)
    ended = Cancellation()
    clock = alarm or Alarm()
    try:
        with clock.after(limit_s, ended.cancel), nullcontext() if cancellation is None else cancellation.over(ended):
            return _run_all(model, certificate, ended)
    except RunCancelledError as error:
        if cancellation is not None and cancellation.is_cancelled:
            raise
        raise CertificateError(
            f"running the samples takes longer than {limit_s} s", bound=f"{limit_s} s", value=f"more than {limit_s} s"
        ) from error
    finally:
        if alarm is None:
            clock.close()


def _check_fit(model: "Model", certificate: Document) -> None:
    """Refuse samples that the program's ports don't take, before anything is made of them."""
    check_methods(model, [sample.method or "" for sample in certificate.samples])
    for index, sample in enumerate(certificate.samples):
        inputs = method_model(model, sample.method or "").inputs
        if len(sample.inputs) != len(inputs):
            raise CertificateError(
                f"sample {index} has {len(sample.inputs)} inputs, the program takes {len(inputs)}",
                sample=index,
                bound=str(len(inputs)),
                value=str(len(sample.inputs)),
            )
        for port, value in zip(inputs, sample.inputs, strict=True):
            expected, seen = _port_text(port), _input_text(value)
            if not _fits(port, value):
                raise CertificateError(
                    f"sample {index} does not fit the program: input {port.name!r} is {expected}, not {seen}",
                    sample=index,
                    bound=expected,
                    value=seen,
                )


def check_methods(model: "Model", methods: Sequence[str]) -> None:
    """Refuse samples that leave a method out, or are for one that there is not.

    Args:
        model: a program.
        methods: that of each sample; "" for the only one of a program.

    Raises:
        CertificateError: names the sample or the method.
    """
    known = model.methods if len(model.methods) > 1 else ("",)
    for index, method in enumerate(methods):
        if method not in known:
            raise CertificateError(
                f"sample {index} is for the method {method!r}, the program has {', '.join(model.methods)}",
                sample=index,
                bound=str(model.methods),
                value=method,
            )
    for method in known:
        if len(known) > 1 and method not in methods:
            raise CertificateError(
                f"no sample is for the method {method!r}", bound=str(known), value=str(list(methods))
            )


def method_model(model: "Model", method: str) -> "Model":
    """Return the model of a sample's method."""
    return model.method(method) if method else model


def _fits(port: "Port", value: InputRecord) -> bool:
    """Tell whether type, rank and greatest sizes of a port admit an input; the run itself knows more."""
    if isinstance(value, Text) or port.dtype is DType.TEXT:
        return isinstance(value, Text) and port.dtype is DType.TEXT
    is_type = value.dtype == port.dtype.name.lower().replace("boolean", "bool")
    return (
        is_type
        and len(value.shape) == len(port.shape)
        and all(size <= most for size, most in zip(value.shape, port.shape, strict=True))
    )


def _port_text(port: "Port") -> str:
    return "text" if port.dtype is DType.TEXT else f"{port.dtype.name.lower()} [{', '.join(port.dims)}]"


def _input_text(value: InputRecord) -> str:
    return "text" if isinstance(value, Text) else f"{value.dtype} {value.shape}"


def _run_all(model: "Model", certificate: Document, ended: Cancellation) -> CertificateReport:
    largest = 0.0
    models = {method: method_model(model, method) for method in {sample.method or "" for sample in certificate.samples}}
    for index, sample in enumerate(certificate.samples):
        of_method = models[sample.method or ""]
        names = [port.name for port in of_method.outputs]
        promised = [output.name for output in sample.outputs]
        if promised != names:
            raise CertificateError(
                f"sample {index} has outputs {promised}, the program has {names}", sample=index, bound=str(names)
            )
        outputs = run_sample(of_method, index, [decode_input(index, value) for value in sample.inputs], ended)
        for output, native in zip(sample.outputs, outputs, strict=True):
            expected = decode_expected(index, output.torch)
            shown = native
            if isinstance(output.torch, Picked) and list(native.shape) == output.torch.shape and native.size > PICKED:
                shown = native.reshape(-1)[picks(native.size)]
            largest = max(largest, compare(index, output.name, expected, shown, certificate.tolerance))
            seen = output_digest(native)
            if seen != output.native_sha256:
                raise CertificateError(
                    f"sample {index}, output {output.name!r}: native output has digest {seen}, "
                    f"the certificate says {output.native_sha256}",
                    sample=index,
                    output=output.name,
                    bound=output.native_sha256,
                    value=seen,
                )
    digest = hashlib.sha256(model.certificate).hexdigest()
    return CertificateReport(len(certificate.samples), certificate.licence, certificate.tolerance, largest, digest)


def run_sample(
    model: "Model", index: int, inputs: Sequence[str | NDArray[Any]], cancellation: Cancellation | None = None
) -> list[NDArray[Any]]:
    """Return the outputs of sample `index`.

    Raises:
        CertificateError: the program does not take these inputs.
        RunCancelledError: `cancellation` ended the run.
    """
    try:
        return model(*inputs) if cancellation is None else model.run(inputs, cancellation)
    except InputError as error:
        raise CertificateError(f"sample {index} does not fit the program: {error}", sample=index) from error


def certificate_bytes(
    samples: Sequence[Sample],
    torch_outputs: Sequence[Sequence[NDArray[Any]]],
    native_outputs: Sequence[Sequence[NDArray[Any]]],
    names: Sequence[Sequence[str]],
    *,
    licence: str,
    tolerance: str,
) -> bytes:
    """Return the canonical bytes of a certificate.

    Args:
        samples: 1 to 16.
        torch_outputs: for each sample, each output of the torch module, labels as text.
        native_outputs: for each sample, each output of the program.
        names: of the outputs, for each sample.
        licence: one of `LICENCES`.
        tolerance: a key of `TOLERANCES`.

    Raises:
        CertificateError: a rule is broken, named with its bound and what was seen.
    """
    document = {
        "format": 2,
        "licence": licence,
        "samples": [
            {
                "inputs": [encode_input(value) for value in sample.inputs],
                "outputs": [
                    {"name": name, "native_sha256": output_digest(native), "torch": encode_expected(expected)}
                    for name, expected, native in zip(names_all, expected_all, native_all, strict=True)
                ],
                "source": sample.source,
            }
            | ({"method": sample.method} if sample.method else {})
            for sample, names_all, expected_all, native_all in zip(
                samples, names, torch_outputs, native_outputs, strict=True
            )
        ],
        "tolerance": tolerance,
    }
    data = canonical(document)
    parse(data)
    return data


def embed_certificate(program: bytes, certificate: bytes) -> bytes:
    """Return `program` with `certificate` in its CERTIFICATE section, in place of one that may be there.

    Raises:
        CertificateError: the certificate is malformed.
        ProgramError: the program is.
    """
    parse(certificate)
    return write_program(replace(read_spec(program), certificate=certificate))


def compare(index: int, name: str, expected: NDArray[Any], native: NDArray[Any], tolerance: str) -> float:
    """Return the largest difference of one output, as the class of tolerance counts it; 0 for labels and indices.

    Raises:
        CertificateError: another shape or type, a label or index that differs, or a number beyond the tolerance (NaN
            and infinities must be the same).
    """
    is_text = expected.dtype.kind == native.dtype.kind == "U"
    if expected.shape != native.shape or (expected.dtype != native.dtype and not is_text):
        raise CertificateError(
            f"sample {index}, output {name!r}: torch gives {expected.dtype} {list(expected.shape)}, "
            f"the program {native.dtype} {list(native.shape)}",
            sample=index,
            output=name,
            bound=f"{expected.dtype} {list(expected.shape)}",
            value=f"{native.dtype} {list(native.shape)}",
        )
    if expected.dtype.kind != "f":
        if not np.array_equal(expected, native):
            raise CertificateError(
                f"sample {index}, output {name!r}: torch gives {expected.tolist()}, the program {native.tolist()}",
                sample=index,
                output=name,
                bound=str(expected.tolist()),
                value=str(native.tolist()),
            )
        return 0.0
    largest, worst = relative_difference(expected, native, of_range=tolerance == "quantised_range")
    bound = TOLERANCES[tolerance]
    if largest > bound:
        position = np.unravel_index(worst, expected.shape)
        where = ", ".join(str(part) for part in position)
        raise CertificateError(
            f"sample {index}, output {name!r}, element [{where}]: torch gives {expected[position]}, the program "
            f"{native[position]}; the tolerance is {bound} ({tolerance})",
            sample=index,
            output=name,
            bound=str(bound),
            value=str(largest),
        )
    return largest


def relative_difference(expected: NDArray[Any], native: NDArray[Any], *, of_range: bool = False) -> tuple[float, int]:
    """Return the largest |native - expected| / max(1, |expected|) of two arrays of one shape, and its flat position.

    With `of_range` it is divided by the greatest finite number of `expected` less the least, or 1 where they are equal.

    NaN and infinities must be the same; where they are not, the difference is infinite.
    """
    wide, seen = expected.astype(np.float64), native.astype(np.float64)
    is_special = ~np.isfinite(wide) | ~np.isfinite(seen)
    is_same = (wide == seen) | (np.isnan(wide) & np.isnan(seen))
    with np.errstate(invalid="ignore"):
        ratio = np.abs(seen - wide) / (_range_of(wide) if of_range else np.maximum(1.0, np.abs(wide)))
    ratio = np.where(is_special, np.where(is_same, 0.0, math.inf), ratio)
    return float(ratio.max(initial=0.0)), int(ratio.argmax()) if ratio.size else 0


def _range_of(numbers: NDArray[np.float64]) -> float:
    finite = numbers[np.isfinite(numbers)]
    return float(np.ptp(finite)) or 1.0 if finite.size else 1.0


def output_digest(output: NDArray[Any]) -> str:
    """Return the sha-256, hex, of one output: its canonical JSON, which keeps type, shape and every bit."""
    name = next((name for name, kind in DTYPES.items() if kind == output.dtype), None)
    if name is None:
        return hashlib.sha256(canonical(encode_tensor(output))).hexdigest()
    # The same bytes, piece by piece: in one piece they would take several times what a large output does.
    digest = hashlib.sha256(f'{{"dtype":"{name}","hex":"'.encode())
    elements = np.ascontiguousarray(output).reshape(-1).view(np.uint8).data
    for start in range(0, len(elements), _PIECE_BYTES):
        digest.update(elements[start : start + _PIECE_BYTES].hex().encode())
    shape = ",".join(str(size) for size in output.shape)
    digest.update(f'","shape":[{shape}]}}'.encode())
    return digest.hexdigest()
