"""A crafted program that takes memory or time without bound from the host that checks it or runs it."""

import hashlib
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.certificate import MAX_INPUT_BYTES, check_certificate, output_digest
from alcove.runtime.certificate.document import canonical, parse
from alcove.runtime.errors import CertificateError
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly

MEGABYTE = 1 << 20
WIDE = 1 << 25
"""Elements of an input: 128 MiB of float32."""


def rule(shape: tuple[int, ...], dtype: str = "f32") -> dict[str, object]:
    """A tensor that takes a hundred bytes to write down."""
    return {"rule": "uniform", "dtype": dtype, "shape": list(shape), "seed": 1, "low": 0.0, "high": 1.0}


def certificate(samples: list[list[dict[str, object]]], **output: object) -> bytes:
    """A certificate with these inputs, well-formed otherwise."""
    promised = {"name": "y", "native_sha256": "0" * 64, "torch": {"dtype": "f32", "hex": "", "shape": [0]}} | output
    records = [{"inputs": inputs, "outputs": [promised], "source": "made"} for inputs in samples]
    return canonical({"format": 2, "licence": "procedural", "samples": records, "tolerance": "exact"})


def program(inputs: list[tuple[int, ...]], data: bytes) -> bytes:
    """A program that hands its first input on, with a certificate that nobody checked."""
    build = Assembly()
    results = [build.input(f"x{index}", DType.F32, shape) for index, shape in enumerate(inputs)]
    for index, x in enumerate(results):
        build.output("y" if index == 0 else f"y{index}", x)
    return write_program(replace(build.spec(), certificate=data))


@contextmanager
def little_memory(megabytes: int) -> Iterator[None]:
    """Fail if memory ever grows by more than a bound; numpy's arrays count."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * MEGABYTE, peak


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16, 64, 100, 300, 500, 600])
def test_certificate_of_any_number_of_wide_inputs_makes_none_of_them(count: int) -> None:
    """The program of 1.9 kB with four of them took 3.8 GB; now each is refused by a type, in less than 16 MB."""
    data = certificate([[rule((WIDE,))] * count])
    assert len(data) <= 65_536
    model = load(program([(4,)] * min(count, 64), data))
    with little_memory(16), pytest.raises(CertificateError):
        check_certificate(model)


@pytest.mark.parametrize("samples", range(1, 17))
def test_inputs_of_all_samples_together_have_one_cap(samples: int) -> None:
    """Just below it a certificate is well-formed, one element more in any sample and it is not; nothing is made."""
    each = MAX_INPUT_BYTES // 4 // samples
    with little_memory(4):
        parse(certificate([[rule((each,))]] * samples))
        with pytest.raises(CertificateError, match=str(MAX_INPUT_BYTES)):
            parse(certificate([[rule((each,))]] * (samples - 1) + [[rule((each + samples,))]]))


SHAPES: list[Any] = [
    (1 << 26,) * 8,
    (1 << 26, 1 << 26),
    (0, 1 << 26),
    (1 << 27,),
    (1 << 62,),
    (-1,),
    (),
    (1,) * 8,
    (1,) * 9,
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "i8", "i64", "bool", "f64"])
@pytest.mark.parametrize("kind", ["uniform", "smooth"])
def test_rule_of_any_shape_and_type_is_refused_before_it_is_made(shape: tuple[int, ...], dtype: str, kind: str) -> None:
    """The program takes float32 of four; a typed error, and no memory."""
    model = load(program([(4,)], certificate([[rule(shape, dtype) | {"rule": kind}]])))
    with little_memory(4), pytest.raises(CertificateError):
        check_certificate(model)


def test_text_for_an_array_and_an_array_for_text_are_refused() -> None:
    """By the port's name."""
    build = Assembly()
    text = build.input("words", DType.TEXT)
    x = build.input("x", DType.F32, (4,))
    ids = build.op("ngram_hash", [text], (DType.I32, (8,)), attributes=(1, 2, 16, 0))[0]
    build.output("y", ids)
    build.output("z", x)
    wrong: list[list[dict[str, object]]] = [[rule((4,))] * 2, [{"text": "a"}, {"text": "b"}], [{"text": "a"}], []]
    for inputs in wrong:
        model = load(write_program(replace(build.spec(), certificate=certificate([inputs]))))
        with pytest.raises(CertificateError):
            check_certificate(model)


def test_labels_of_a_certificate_take_no_more_than_they_say() -> None:
    """One long label beside ten thousand empty ones: numpy would give each as much room as the longest."""
    labels = {"labels": ["a" * 30_000, *[""] * 10_000], "shape": [10_001]}
    model = load(program([(4,)], certificate([[rule((4,))]], torch=labels)))
    with little_memory(16), pytest.raises(CertificateError, match="malformed at samples"):
        check_certificate(model)


def test_labels_of_an_output_have_a_cap() -> None:
    """A program of 200 kB whose run would name two million indices, at 1,020 bytes each: refused when it is opened."""
    build = Assembly()
    x = build.input("x", DType.F32, (1_000, 2_000))
    _, indices = build.op("topk", [x], (DType.F32, (1_000, 2_000)), (DType.I64, (1_000, 2_000)), attributes=(2_000, 1))
    build.output("label", indices, tuple([f"{number}" for number in range(1_999)] + ["w" * 255]))
    with little_memory(64), pytest.raises(ProgramError, match="labels"):
        load(build.program())


def test_output_is_hashed_in_pieces() -> None:
    """64 MiB of zeros: the digest is that of the canonical text, of which there is never more than a piece."""
    small = np.arange(12, dtype=np.float32).reshape(3, 4)
    text = json.dumps({"dtype": "f32", "hex": small.tobytes().hex(), "shape": [3, 4]}, separators=(",", ":"))
    assert output_digest(small) == hashlib.sha256(text.encode()).hexdigest()
    large = np.zeros((1 << 24,), np.float32)
    with little_memory(8):
        output_digest(large)
