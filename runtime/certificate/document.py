"""Defines the fields of a parity certificate, and encodes and parses its canonical bytes.

Canonical JSON (one spelling: sorted keys, no spaces, non-ASCII as it is); the bytes must be what their content encodes
to.  Tensors are the hex of their little-endian elements, so that every bit is kept, NaN too.  Of a large output some
elements stand for all (the digest of the native output covers every one).
"""

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from alcove.runtime.certificate.limits import (
    MAX_CERTIFICATE_BYTES,
    MAX_INPUT_BYTES,
    MAX_LABEL_CHARACTERS,
    MAX_RANK,
    MAX_SAMPLES,
    PICKED,
)
from alcove.runtime.certificate.samples import DTYPES, Procedural
from alcove.runtime.certificate.samples import Input as Source
from alcove.runtime.errors import CertificateError
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

TOLERANCES: Final = {
    "exact": 0.0,
    "tight": 1e-5,
    "standard": 1e-4,
    "loose": 1e-2,
    "quantised": 0.1,
    "quantised_range": 0.25,
}
"""Classes of |native - torch| / max(1, |torch|); integers, booleans and labels are always equal.

tight: a few products; standard: deep float networks; loose: those whose answers move further when the last bits of
their weights do; quantised: int8 against the float module.  quantised_range is of
|native - torch| / (the output's greatest number less its least): int8 of trained classifiers, whose logits go to 20 and
more, where it is the order that counts.
"""

_Dtype = Literal["f32", "i8", "i32", "i64", "u8", "bool"]
_Shape = Annotated[list[Annotated[int, Field(ge=0, le=MAX_INPUT_BYTES)]], Field(max_length=MAX_RANK)]
_Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Text(_Strict):
    """A text input."""

    text: str


class Tensor(_Strict):
    """All elements of a tensor, little-endian, in hex."""

    dtype: _Dtype
    shape: _Shape
    hex: _Hex


class Rule(_Strict):
    """A tensor made by a rule (`samples.Procedural`)."""

    rule: Literal["uniform", "smooth"]
    dtype: _Dtype
    shape: _Shape
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    low: Annotated[float, Field(allow_inf_nan=False)]
    high: Annotated[float, Field(allow_inf_nan=False)]


class Picked(_Strict):
    """`PICKED` elements of a large tensor: those at floor(i * size / PICKED)."""

    dtype: _Dtype
    shape: _Shape
    picked: _Hex


class Labels(_Strict):
    """An output of labels."""

    labels: list[Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS)]]
    shape: _Shape


Input = Text | Tensor | Rule
"""How one input is written down."""


class Output(_Strict):
    """One output of one sample: what torch gave, and the digest of what the native runtime gave."""

    name: str
    torch: Tensor | Picked | Labels
    native_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SampleRecord(_Strict):
    """One set of inputs with what came out."""

    inputs: list[Input]
    method: Annotated[str, Field(min_length=1, max_length=255)] | None = None  # not written for the only one
    outputs: list[Output]
    source: Annotated[str, Field(min_length=1, max_length=200)]


class Document(_Strict):
    """A whole certificate."""

    format: Literal[2]
    licence: Literal["CC0-1.0", "own text", "procedural", "public domain"]
    samples: Annotated[list[SampleRecord], Field(min_length=1, max_length=MAX_SAMPLES)]
    tolerance: Literal["exact", "tight", "standard", "loose", "quantised", "quantised_range"]


def encode_input(value: Source) -> dict[str, object]:
    """Return an input as JSON values.

    Raises:
        CertificateError: an array of a type that no program takes.
    """
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, Procedural):
        shape = list(value.shape)
        limits = {"low": float(value.low), "high": float(value.high)}
        return {"rule": value.rule, "dtype": value.dtype, "shape": shape, "seed": value.seed, **limits}
    return encode_tensor(value)


def encode_tensor(value: NDArray[Any]) -> dict[str, object]:
    """Return a tensor, or labels, as JSON values: every bit of it.

    Raises:
        CertificateError: an array of a type that no program gives.
    """
    shape = [int(size) for size in value.shape]
    if value.dtype.kind == "U":
        return {"labels": [str(label) for label in value.reshape(-1)], "shape": shape}
    name = next((name for name, kind in DTYPES.items() if kind == value.dtype), None)
    if name is None:
        known = ", ".join(DTYPES)
        raise CertificateError(f"a certificate holds texts and {known}, not {value.dtype}", value=str(value.dtype))
    return {"dtype": name, "hex": np.ascontiguousarray(value).tobytes().hex(), "shape": shape}


def pick_elements(value: NDArray[Any]) -> NDArray[Any]:
    """Return what stands for an output in a certificate: all of a small one, `PICKED` elements in a row of a large."""
    return value if value.size <= PICKED or value.dtype.kind == "U" else value.reshape(-1)[picks(value.size)]


def encode_expected(value: NDArray[Any]) -> dict[str, object]:
    """Return what torch gave as JSON values: all of a small output, some elements of a large one."""
    stored = pick_elements(value)
    encoded = encode_tensor(stored)
    if stored is value:
        return encoded
    return {"dtype": encoded["dtype"], "picked": encoded["hex"], "shape": [int(size) for size in value.shape]}


def picks(size: int) -> NDArray[np.int64]:
    """Return the positions of the elements that stand for `size`."""
    return np.arange(PICKED, dtype=np.int64) * size // PICKED


def canonical(document: object) -> bytes:
    """Return the one spelling of a document.

    Raises:
        CertificateError: a text is not Unicode.
    """
    try:
        text: str = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CertificateError(f"a sample holds text that is not Unicode: {error}") from error


def parse(data: bytes) -> Document:
    """Return the document in a certificate's bytes.

    Raises:
        CertificateError: there is none, it is too large, malformed, not in its canonical spelling, or its inputs would
            take more than `MAX_INPUT_BYTES`.
    """
    if not data:
        raise CertificateError("the program has no parity certificate")
    if len(data) > MAX_CERTIFICATE_BYTES:
        raise CertificateError(
            f"the certificate has {len(data)} bytes, at most {MAX_CERTIFICATE_BYTES} are allowed",
            bound=str(MAX_CERTIFICATE_BYTES),
            value=str(len(data)),
        )
    try:
        certificate = Document.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CertificateError(
            f"the certificate is malformed at {where or 'its start'}: {first['msg']}", value=repr(first["input"])[:100]
        ) from error
    if canonical(certificate.model_dump(exclude_none=True)) != data:
        raise CertificateError("the certificate is not in its canonical encoding")
    _check_input_bytes(certificate)
    return certificate


def _check_input_bytes(certificate: Document) -> None:
    """Refuse inputs that would take too much; nothing was made of any yet."""
    total = 0
    for index, sample in enumerate(certificate.samples):
        for value in sample.inputs:
            total += 0 if isinstance(value, Text) else math.prod(value.shape) * DTYPES[value.dtype].itemsize
            if total > MAX_INPUT_BYTES:
                raise CertificateError(
                    f"sample {index}: the inputs so far take {total} bytes, those of all samples together may take "
                    f"{MAX_INPUT_BYTES}",
                    sample=index,
                    bound=str(MAX_INPUT_BYTES),
                    value=str(total),
                )


def decode_input(index: int, value: Input) -> str | NDArray[Any]:
    """Return input `value` of sample `index` as a model takes it.

    Raises:
        CertificateError: its elements don't fill its shape.
    """
    if isinstance(value, Text):
        return value.text
    if isinstance(value, Rule):
        rule = Procedural(value.rule, value.dtype, tuple(value.shape), value.seed, value.low, value.high)
        return rule.elements()
    return _decode(index, bytes.fromhex(value.hex), value.dtype, value.shape)


def decode_expected(index: int, value: Tensor | Picked | Labels) -> NDArray[Any]:
    """Return what torch gave: shaped, or for a large output the picked elements in one row.

    Raises:
        CertificateError: its elements don't fill its shape.
    """
    if isinstance(value, Labels):
        return _reshape(index, np.array(value.labels, dtype=np.str_), value.shape)
    if isinstance(value, Picked):
        return _decode(index, bytes.fromhex(value.picked), value.dtype, [PICKED])
    return _decode(index, bytes.fromhex(value.hex), value.dtype, value.shape)


def _decode(index: int, data: bytes, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    kind = DTYPES[dtype]
    if len(data) % kind.itemsize:
        raise CertificateError(
            f"sample {index}: {len(data)} bytes are no elements of {kind.itemsize} bytes", sample=index
        )
    return _reshape(index, np.frombuffer(data, kind), shape)


def _reshape(index: int, array: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    count = math.prod(shape)
    if array.size != count:
        raise CertificateError(
            f"sample {index}: {array.size} elements for shape {list(shape)}",
            sample=index,
            bound=str(count),
            value=str(array.size),
        )
    return array.reshape(shape)
