"""A certificate detects a program with other outputs, and is refused where it is malformed or does not fit."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import CertificateError, load
from alcove.runtime.certificate import (
    MAX_CERTIFICATE_BYTES,
    Procedural,
    Sample,
    check_certificate,
    compare,
    embed_certificate,
)
from alcove.runtime.compiler import export
from alcove.runtime.compiler.certify import certify
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import Storage
from alcove.runtime.format.writer import write_program
from alcove.runtime.program import Program
from torch import nn

OWN = "written for this test"
TEXTS = (Sample(("Wo ist der Bahnhof?",), OWN), Sample(("где вокзал",), OWN), Sample(("",), OWN))


@pytest.fixture(scope="module")
def text_model(make_text_model: Callable[..., nn.Module]) -> nn.Module:
    """A model in eval mode; no test changes it."""
    torch.manual_seed(1)
    return make_text_model().eval()


@pytest.fixture(scope="module")
def program(text_model: nn.Module) -> Program:
    """A small text program."""
    return export(text_model, ("a",))


@pytest.fixture(scope="module")
def certified(program: Program, text_model: nn.Module) -> bytes:
    """The same with its certificate."""
    return embed_certificate(bytes(program), certify(bytes(program), text_model, TEXTS, "own text", "tight"))


def test_program_passes_its_own_certificate(certified: bytes) -> None:
    """The report says how many samples, under which licence, and how far apart."""
    report = check_certificate(load(certified))
    assert (report.samples, report.licence, report.tolerance) == (3, "own text", "tight")
    assert 0 <= report.largest_difference <= 1e-5
    assert len(report.digest) == 64


def test_certificate_of_numbers_keeps_every_bit(make_mlp: Callable[..., nn.Module]) -> None:
    """Samples of f32 tensors, with subnormal, huge and infinite numbers among them."""
    module = make_mlp(6, 20, 4).eval()
    program = export(module, (torch.zeros(2, 6),))
    odd = np.array([[1e-42, -0.0, 3e38, 1, 2, 3], [0.1, np.inf, 0, 0, 0, 0]], dtype=np.float32)
    samples = [Sample((np.ones((2, 6), np.float32),), "procedural: ones"), Sample((odd,), "procedural: edges")]
    whole = embed_certificate(bytes(program), certify(bytes(program), module, samples, "procedural", "tight"))
    assert check_certificate(load(whole)).samples == 2
    inputs = json.loads(read_spec(whole).certificate)["samples"][1]["inputs"]
    assert bytes.fromhex(inputs[0]["hex"]) == odd.tobytes()


def test_certificate_is_canonical_and_says_the_same_each_time(program: Program, text_model: nn.Module) -> None:
    """One spelling: sorted keys, no spaces; certifying again gives the same bytes."""
    once = certify(bytes(program), text_model, TEXTS, "own text", "tight")
    assert certify(bytes(program), text_model, TEXTS, "own text", "tight") == once
    text = once.decode()
    assert json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True, separators=(",", ":")) == text
    assert "Wo ist der Bahnhof?" in text


def _with_flipped_bit(data: bytes, name: str, bit: int) -> bytes:
    """Return the program with one bit of each weight of constant `name` flipped, digests made good again."""
    spec = read_spec(data)
    tensors = []
    for tensor in spec.tensors:
        if tensor.storage is Storage.CONSTANT and tensor.name == name:
            words = np.frombuffer(tensor.data, "<u4")
            flipped = np.where(words == 0, words, words ^ np.uint32(1 << bit))
            tensors.append(dataclasses.replace(tensor, data=flipped.astype("<u4").tobytes()))
        else:
            tensors.append(tensor)
    return write_program(dataclasses.replace(spec, tensors=tuple(tensors)))


@pytest.mark.parametrize("bit", [29, 22, 2])
def test_flipped_bit_of_the_weights_is_named_by_sample_and_output(certified: bytes, bit: int) -> None:
    """From the exponent down to a bit that only the exact digest sees."""
    wrong = _with_flipped_bit(certified, "out.weight+out.bias", bit)
    with pytest.raises(CertificateError) as caught:
        check_certificate(load(wrong))
    assert (caught.value.sample, caught.value.output) == (0, "values")
    assert caught.value.bound
    assert caught.value.value
    assert "sample 0" in str(caught.value)
    assert "'values'" in str(caught.value)


def test_certifying_another_module_is_refused(program: Program, make_text_model: Callable[..., nn.Module]) -> None:
    """Weights that are not the program's: sample, output, element and tolerance are named."""
    with pytest.raises(CertificateError, match=r"sample 0, output 'values', element \[0, \d\].*tolerance") as caught:
        certify(bytes(program), make_text_model().eval(), TEXTS, "own text", "tight")
    assert float(caught.value.value) > 1e-5


def test_program_without_certificate_is_refused(program: Program) -> None:
    """Nothing to check is not a pass."""
    with pytest.raises(CertificateError, match="no parity certificate"):
        check_certificate(load(bytes(program)))


def _sample(text: str, source: str = OWN) -> Sample:
    return Sample((text,), source)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": ()}, "samples"),
        ({"samples": TEXTS * 6}, "samples"),
        ({"licence": "a user's message"}, "licence"),
        ({"licence": ""}, "licence"),
        ({"tolerance": "lax"}, "tolerance"),
        ({"tolerance": ""}, "tolerance"),
        ({"samples": (_sample("a", ""),)}, "source"),
        ({"samples": (_sample("a" * MAX_CERTIFICATE_BYTES),)}, str(MAX_CERTIFICATE_BYTES)),
        ({"samples": (Sample((np.zeros((1, 3), np.float32),), OWN),)}, "sample 0"),
        ({"samples": (Sample(("a", "b"), OWN),)}, "sample 0"),
        ({"samples": (_sample("\ud800"),)}, "sample 0"),
    ],
)
def test_what_a_certificate_must_not_hold_is_refused(
    program: Program, text_model: nn.Module, change: dict[str, Any], words: str
) -> None:
    """Number of samples, licence, source, tolerance, size, inputs that don't fit: the error names which."""
    arguments = {"samples": TEXTS, "licence": "own text", "tolerance": "tight", **change}
    with pytest.raises(CertificateError, match=words):
        certify(bytes(program), text_model, **arguments)


def test_malformed_certificates_are_refused(program: Program, certified: bytes) -> None:
    """Another spelling, other fields, wrong digests and sizes: a typed error each, before anything runs."""
    good = read_spec(certified).certificate.decode()
    document = json.loads(good)

    def dump(change: object) -> bytes:
        return json.dumps(change, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    bad = [
        b"",
        b"{",
        b"[" * 60_000,
        b"\xff",
        b" " + good.encode(),
        b" " * (MAX_CERTIFICATE_BYTES + 1),
        dump({**document, "format": 1}),
        dump({**document, "more": 1}),
        dump({**document, "licence": "none"}),
        dump({key: value for key, value in document.items() if key != "tolerance"}),
    ]
    for data in bad:
        with pytest.raises(CertificateError):
            embed_certificate(bytes(program), data)


def test_certificate_that_does_not_fit_the_program_is_refused(program: Program, certified: bytes) -> None:
    """Well-formed, but with another output's name, another shape or too few elements."""
    document = json.loads(read_spec(certified).certificate)

    def assert_refused(change: str, **words: object) -> None:
        changed = json.loads(json.dumps(document))
        output = changed["samples"][0]["outputs"][0]
        if change == "name":
            output["name"] = "other"
        elif change == "shape":
            output["torch"]["shape"] = [1, 2]
        elif change == "digits":
            output["torch"]["hex"] = "00"
        elif change == "kind":
            output["torch"] = {"labels": ["a", "b", "c"], "shape": [1, 3]}
        elif change == "inputs":
            changed["samples"][0]["inputs"] = []
        data = json.dumps(changed, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        with pytest.raises(CertificateError) as caught:
            check_certificate(load(embed_certificate(bytes(program), data)))
        assert caught.value.sample == 0

    for change in ("name", "shape", "digits", "kind", "inputs"):
        assert_refused(change)


def test_special_numbers_must_be_the_same() -> None:
    """NaN equals NaN, an infinity its own sign; a NaN in place of a number is beyond every tolerance."""
    expected = np.array([np.nan, np.inf, 1.0], dtype=np.float32)
    assert compare(0, "o", expected, expected, "exact") == 0.0
    for position, value in ((0, 1.0), (1, -np.inf), (1, 3.0), (2, np.nan)):
        wrong = expected.copy()
        wrong[position] = value
        with pytest.raises(CertificateError, match=rf"element \[{position}\]"):
            compare(0, "o", expected, wrong, "quantised")


def test_a_tolerance_of_the_range_is_of_the_output_that_torch_gives() -> None:
    """Logits may be wrong by a quarter of what lies between the least and the greatest; equal ones by a quarter."""
    expected = np.array([-10.0, 4.0, 10.0], dtype=np.float32)
    assert compare(0, "o", expected, expected + np.float32(4.5), "quantised_range") == pytest.approx(0.225)
    with pytest.raises(CertificateError, match=r"the tolerance is 0.25 \(quantised_range\)"):
        compare(0, "o", expected, expected + np.float32(5.5), "quantised_range")
    even = np.full(3, 7.0, np.float32)
    assert compare(0, "o", even, even + np.float32(0.2), "quantised_range") == pytest.approx(0.2, rel=1e-5)
    with pytest.raises(CertificateError):
        compare(0, "o", even, np.array([7.0, 7.0, np.nan], np.float32), "quantised_range")


def test_certificate_of_a_large_tensor_is_small_and_sees_every_element(make_mlp: Callable[..., nn.Module]) -> None:
    """Inputs by a rule, a few elements of torch's output, and the digest of all of the native one."""
    module = make_mlp(64, 32, 256).eval()
    program = export(module, (torch.zeros(512, 64),))
    rules = [Procedural("uniform", "f32", (512, 64), 3, -1.0, 1.0), Procedural("smooth", "f32", (512, 64), 4, 0.0, 1.0)]
    samples = [Sample((rule,), "made by a rule") for rule in rules]
    certificate = certify(bytes(program), module, samples, "procedural", "tight")
    assert len(certificate) < 5_000
    whole = embed_certificate(bytes(program), certificate)
    assert check_certificate(load(whole)).samples == 2
    with pytest.raises(CertificateError):
        check_certificate(load(_with_flipped_bit(whole, "layers.0.weight+layers.0.bias", 2)))


@pytest.mark.parametrize("dtype", ["f32", "i8", "i32", "i64", "u8", "bool"])
@pytest.mark.parametrize("rule", ["uniform", "smooth"])
def test_rules_make_the_same_elements_within_their_bounds(rule: Any, dtype: str) -> None:
    """Frozen by their digest for one case; in [low, high); another seed gives others."""
    low, high = (0.0, 2.0) if dtype == "bool" else (0.0, 100.0)
    result = Procedural(rule, dtype, (3, 5, 7), 11, low, high).elements()
    assert result.shape == (3, 5, 7)
    assert result.min() >= low
    assert result.max() < high
    again = Procedural(rule, dtype, (3, 5, 7), 11, low, high).elements()
    assert result.tobytes() == again.tobytes()
    assert dtype == "bool" or result.tobytes() != Procedural(rule, dtype, (3, 5, 7), 12, low, high).elements().tobytes()


def test_uniform_rule_is_splitmix64() -> None:
    """First outputs of the generator for seed 0 step 1, from the paper's constants in plain integers."""

    def splitmix(counter: int) -> int:
        mask = 2**64 - 1
        z = counter * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    expected = np.array([(splitmix(5 + i) >> 40) / 2**24 for i in range(1, 9)], np.float32)
    assert np.array_equal(Procedural("uniform", "f32", (8,), 5, 0.0, 1.0).elements(), expected)
