"""Does a program still give what it gave when it was made?

A parity certificate travels in a program's CERTIFICATE section: up to 16 samples with the outputs of the torch module
and a tolerance (shown at export and at publishing), and the exact digest of every native output (shown again on each
device at install).  Samples are never anyone's data: each names its source, and the certificate a licence.

The section is canonical JSON (one spelling: sorted keys, no spaces, non-ASCII as it is); the certificate's own bytes
must be what its content encodes to.  Tensors are the hex of their little-endian elements, so that every bit is kept,
NaN too.
No torch here: the torch side is `compiler/certify.py`.

Source of the idea: DESIGN, "The runtime", 7.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
from alcove.runtime.errors import CertificateError, InputError
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.writer import write_program
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    from alcove.runtime.model import Model

MAX_SAMPLES: Final = 16
MAX_CERTIFICATE_BYTES: Final = 65_536
MAX_TOLERANCE: Final = 0.1  # a larger one would let a different model pass
MAX_RANK: Final = 4
LICENCES: Final = ("CC0-1.0", "own text", "procedural", "public domain")
"""What samples may be: never a person's data, and free to travel to every device."""

Elements = NDArray[np.float32] | NDArray[np.int32] | NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Sample:
    """One input of a certificate.

    Attributes:
        inputs: one for each input of the program: `str` for a text, a numpy array of the port's type else.
        source: where it is from, in words: "written for this test", "Common Voice 21 (CC0-1.0), sentence 4711".
    """

    inputs: tuple[str | NDArray[Any], ...]
    source: str


@dataclass(frozen=True)
class CertificateReport:
    """What a check of a certificate found.

    Attributes:
        samples: number of samples that were run.
        licence: of the samples.
        tolerance: promised bound of |native - torch| / max(1, |torch|).
        largest_difference: the largest such ratio that was seen.
        digest: sha-256 of the certificate, hex.
    """

    samples: int
    licence: str
    tolerance: float
    largest_difference: float
    digest: str


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Text(_Strict):
    """A text input."""

    text: str


class _Tensor(_Strict):
    """Elements of a tensor, little-endian, in hex."""

    dtype: Literal["f32", "i32"]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=MAX_CERTIFICATE_BYTES)]], Field(max_length=MAX_RANK)]
    hex: Annotated[str, Field(pattern=r"^[0-9a-f]*$")]


class _Labels(_Strict):
    """An output of labels."""

    labels: list[str]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=MAX_CERTIFICATE_BYTES)]], Field(max_length=MAX_RANK)]


class _Output(_Strict):
    """One output of one sample: what torch gave, and the digest of what the native runtime gave."""

    name: str
    torch: _Tensor | _Labels
    native_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Sample(_Strict):
    inputs: list[_Text | _Tensor]
    outputs: list[_Output]
    source: Annotated[str, Field(min_length=1, max_length=200)]


class _Certificate(_Strict):
    format: Literal[1]
    licence: Literal["CC0-1.0", "own text", "procedural", "public domain"]
    samples: Annotated[list[_Sample], Field(min_length=1, max_length=MAX_SAMPLES)]
    tolerance: Annotated[float, Field(ge=0, le=MAX_TOLERANCE, allow_inf_nan=False)]


def check_certificate(model: "Model") -> CertificateReport:
    """Run every sample of a program's certificate and compare: within the tolerance of torch, and bit for bit.

    Args:
        model: a loaded program; its certificate is data from outside and is checked like it.

    Raises:
        CertificateError: there is none, it is malformed, its samples don't fit the program, or an output differs; names
            the sample, the output, what was promised and what was seen.
    """
    data = model.certificate
    certificate = _parse(data)
    names = [port.name for port in model.outputs]
    largest = 0.0
    for index, sample in enumerate(certificate.samples):
        promised = [output.name for output in sample.outputs]
        if promised != names:
            raise CertificateError(
                f"sample {index} has outputs {promised}, the program has {names}", sample=index, bound=str(names)
            )
        outputs = run_sample(model, index, [_input(index, value) for value in sample.inputs])
        for output, native in zip(sample.outputs, outputs, strict=True):
            expected = _elements(index, output.torch)
            largest = max(largest, compare(index, output.name, expected, native, certificate.tolerance))
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
    digest = hashlib.sha256(data).hexdigest()
    return CertificateReport(len(certificate.samples), certificate.licence, certificate.tolerance, largest, digest)


def run_sample(model: "Model", index: int, inputs: Sequence[str | NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the outputs of sample `index`.

    Raises:
        CertificateError: the program does not take these inputs.
    """
    try:
        return list(model(*inputs))
    except InputError as error:
        raise CertificateError(f"sample {index} does not fit the program: {error}", sample=index) from error


def certificate_bytes(
    samples: Sequence[Sample],
    torch_outputs: Sequence[Sequence[Elements]],
    native_outputs: Sequence[Sequence[Elements]],
    names: Sequence[str],
    *,
    licence: str,
    tolerance: float,
) -> bytes:
    """Return the canonical bytes of a certificate.

    Args:
        samples: 1 to 16.
        torch_outputs: for each sample, each output of the torch module: f32, i32 or labels.
        native_outputs: for each sample, each output of the program.
        names: of the outputs.
        licence: one of `LICENCES`.
        tolerance: in [0, 0.1].

    Raises:
        CertificateError: a rule is broken, named with its bound and what was seen.
    """
    document = {
        "format": 1,
        "licence": licence,
        "samples": [
            {
                "inputs": [_encode(value) for value in sample.inputs],
                "outputs": [
                    {"name": name, "native_sha256": output_digest(native), "torch": _encode(expected)}
                    for name, expected, native in zip(names, expected_all, native_all, strict=True)
                ],
                "source": sample.source,
            }
            for sample, expected_all, native_all in zip(samples, torch_outputs, native_outputs, strict=True)
        ],
        "tolerance": float(tolerance),
    }
    data = _canonical(document)
    _parse(data)
    return data


def embed_certificate(program: bytes, certificate: bytes) -> bytes:
    """Return `program` with `certificate` in its CERTIFICATE section, in place of one that may be there.

    Raises:
        CertificateError: the certificate is malformed.
        ProgramError: the program is.
    """
    _parse(certificate)
    return write_program(replace(read_spec(program), certificate=certificate))


def compare(index: int, name: str, expected: NDArray[Any], native: NDArray[Any], tolerance: float) -> float:
    """Return the largest |native - expected| / max(1, |expected|) of one output; 0 for labels and indices.

    Raises:
        CertificateError: another shape or type, a label or index that differs, or a number beyond the tolerance (NaN
            and infinities must be the same).
    """
    if expected.shape != native.shape or expected.dtype.kind != native.dtype.kind:
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
    wide, seen = expected.astype(np.float64), native.astype(np.float64)
    is_special = ~np.isfinite(wide) | ~np.isfinite(seen)
    is_same = (wide == seen) | (np.isnan(wide) & np.isnan(seen))
    with np.errstate(invalid="ignore"):
        ratio = np.abs(seen - wide) / np.maximum(1.0, np.abs(wide))
    ratio = np.where(is_special, np.where(is_same, 0.0, math.inf), ratio)
    largest = float(ratio.max(initial=0.0))
    if largest > tolerance:
        position = np.unravel_index(int(ratio.argmax()), ratio.shape)
        where = ", ".join(str(part) for part in position)
        raise CertificateError(
            f"sample {index}, output {name!r}, element [{where}]: torch gives {expected[position]}, the program "
            f"{native[position]}; the tolerance is {tolerance}",
            sample=index,
            output=name,
            bound=str(tolerance),
            value=str(largest),
        )
    return largest


def output_digest(output: NDArray[Any]) -> str:
    """Return the sha-256, hex, of one output: its canonical JSON, which keeps type, shape and every bit."""
    return hashlib.sha256(_canonical(_encode(output))).hexdigest()


def _encode(value: str | NDArray[Any]) -> dict[str, object]:
    if isinstance(value, str):
        return {"text": value}
    shape = [int(size) for size in value.shape]
    if value.dtype.kind == "U":
        return {"labels": [str(label) for label in value.reshape(-1)], "shape": shape}
    names = {"f4": "f32", "i4": "i32"}
    stored = value.dtype.str[1:]
    if stored not in names:
        raise CertificateError(f"a certificate holds texts, f32 and i32, not {value.dtype}", value=str(value.dtype))
    return {"dtype": names[stored], "hex": value.astype(f"<{stored}").tobytes().hex(), "shape": shape}


def _canonical(document: object) -> bytes:
    try:
        text: str = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CertificateError(f"a sample holds text that is not Unicode: {error}") from error


def _parse(data: bytes) -> _Certificate:
    if not data:
        raise CertificateError("the program has no parity certificate")
    if len(data) > MAX_CERTIFICATE_BYTES:
        raise CertificateError(
            f"the certificate has {len(data)} bytes, at most {MAX_CERTIFICATE_BYTES} are allowed",
            bound=str(MAX_CERTIFICATE_BYTES),
            value=str(len(data)),
        )
    try:
        certificate = _Certificate.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CertificateError(
            f"the certificate is malformed at {where or 'its start'}: {first['msg']}", value=repr(first["input"])[:100]
        ) from error
    if _canonical(certificate.model_dump()) != data:
        raise CertificateError("the certificate is not in its canonical encoding")
    return certificate


def _input(index: int, value: _Text | _Tensor) -> str | NDArray[Any]:
    return value.text if isinstance(value, _Text) else _elements(index, value)


def _elements(index: int, value: _Tensor | _Labels) -> NDArray[Any]:
    """Return what a certificate holds as an array.

    Raises:
        CertificateError: the number of elements is not that of the shape.
    """
    count = math.prod(value.shape)
    if isinstance(value, _Labels):
        array: NDArray[Any] = np.array(value.labels, dtype=np.str_)
    else:
        if len(value.hex) % 8:
            raise CertificateError(f"sample {index}: {len(value.hex)} hex digits are no 4-byte elements", sample=index)
        array = np.frombuffer(bytes.fromhex(value.hex), dtype="<f4" if value.dtype == "f32" else "<i4")
    if array.size != count:
        raise CertificateError(
            f"sample {index}: {array.size} elements for shape {value.shape}",
            sample=index,
            bound=str(count),
            value=str(array.size),
        )
    return array.reshape(value.shape)
