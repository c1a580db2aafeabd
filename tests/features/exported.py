"""An assertion that a re-exported program equals the committed one, but for rounding in torch's recorded answers."""

import json
from typing import Any

import numpy as np
from alcove.runtime.format.records import SectionKind
from alcove.runtime.testing import section

RELATIVE = 1e-4
OF_THE_GREATEST = 1e-6


def assert_exported_again(made: bytes, committed: bytes) -> None:
    """Every byte is equal, but for torch's own answers in the certificate: these are equal up to rounding.

    Torch picks its kernels by the maker of the processor, so the last bits of what it says are not the module's. The
    digests of the program's answers beside them are compared, and so are labels and everything else.
    """
    assert len(made) == len(committed)
    for kind in (SectionKind.PROGRAM, SectionKind.WEIGHTS):
        assert _section(made, kind) == _section(committed, kind)
    one, other = (json.loads(_section(program, SectionKind.CERTIFICATE)) for program in (made, committed))
    for answer, expected in zip(_read_answers(one), _read_answers(other), strict=True):
        bound = RELATIVE * np.abs(expected) + OF_THE_GREATEST * np.abs(expected).max(initial=0.0)
        assert (np.abs(answer - expected) <= bound).all()
    assert one == other


def _section(program: bytes, kind: SectionKind) -> bytes:
    offset, size = section(program, kind)
    return program[offset : offset + size]


def _read_answers(certificate: dict[str, Any]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Take torch's float32 answers out of a certificate."""
    outputs = [output["torch"] for sample in certificate["samples"] for output in sample["outputs"]]
    floats = [answer for answer in outputs if answer.get("dtype") == "f32"]
    assert floats
    texts = [answer.pop("hex" if "hex" in answer else "picked") for answer in floats]
    return [np.frombuffer(bytes.fromhex(text), "<f4").astype(np.float64) for text in texts]
