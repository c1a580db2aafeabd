"""A feed_ranking delta is accepted whole or refused; the adapter learns within its bound and cannot be copied."""

import copy
import json
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from alcove.features.feed_ranking import Adapter, FeedRanking, FeedRequest, ItemDelta
from alcove.features.feed_ranking.delta import MAGIC, DeltaError, delta_bytes

PROGRAM = "ab" * 32
ROWS = np.random.default_rng(1).normal(size=(5, 9)).astype(np.float32)


def good() -> bytes:
    """A delta of five items with vectors of eight numbers."""
    return delta_bytes(ROWS, program=PROGRAM, first_id=100)


def read(data: bytes, **other: Any) -> ItemDelta:
    """Read it for the program that it was made for."""
    return ItemDelta.read(data, **{"program": PROGRAM, "dim": 8, "first_id": 100, **other})


def with_header(**fields: Any) -> bytes:
    """The delta with other fields in its header."""
    data = good()
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    begin = len(MAGIC) + 4
    header = json.dumps({**json.loads(data[begin : begin + length]), **fields}).encode()
    return MAGIC + struct.pack("<I", len(header)) + header + data[begin + length :]


def test_rows_come_back_within_half_a_step_of_their_column() -> None:
    """Int8, one scale a column; nobody can write them afterwards."""
    delta = read(good())
    assert delta.first_id == 100
    assert (np.abs(delta.rows - ROWS) <= np.abs(ROWS).max(axis=0) / 127 * 0.5 + 1e-6).all()
    with pytest.raises(ValueError, match="read-only"):
        delta.rows[0, 0] = 1.0


def test_every_cut_and_every_flipped_byte_is_refused_or_changes_nothing() -> None:
    """A loop over all of them: a DeltaError, and no other error; a byte of a scale may change a scale alone."""
    data = good()
    for end in range(len(data)):
        with pytest.raises(DeltaError):
            read(data[:end])
    refused = 0
    for place in range(len(data)):
        try:
            found = read(data[:place] + bytes([data[place] ^ 0x15]) + data[place + 1 :])
            assert np.isfinite(found.rows).all()
            assert found.rows.shape == ROWS.shape
        except DeltaError:
            refused += 1
    assert refused >= len(data) - 9 * 25


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no item delta"),
        (b"ALCOVE00" + b"\0" * 40, "no item delta"),
        (MAGIC + struct.pack("<I", 2**31) + b"{}", "header has"),
        (MAGIC + struct.pack("<I", 2) + b"[]", "header must hold"),
        (good() + b"\0", "rows have"),
        (with_header(program="cd" * 32), "program is"),
        (with_header(first_id=99), "first_id is"),
        (with_header(first_id=True), "first_id is"),
        (with_header(format=2), "format is"),
        (with_header(count=0), "adds 0"),
        (with_header(count=10**9), "4096 are allowed"),
        (with_header(count=-1), "adds -1"),
        (with_header(count=5.0), "adds 5.0"),
        (with_header(count=4), "rows have"),
        (with_header(scales=[1.0] * 8), "9 columns"),
        (with_header(scales=[float("nan")] + [1.0] * 8), "scale"),
        (with_header(scales=[float("inf")] + [1.0] * 8), "scale"),
        (with_header(scales=[0.0] * 9), "scale"),
        (with_header(scales=["1"] * 9), "scale"),
        (with_header(sha256="0" * 64), "damaged"),
        (with_header(more=1), "header must hold"),
    ],
)
def test_delta_that_is_not_for_this_program_says_why(data: bytes, said: str) -> None:
    """Another program's, another place, more than allowed, damaged."""
    with pytest.raises(DeltaError, match=said):
        read(data)


def test_delta_for_vectors_of_another_size_is_refused() -> None:
    """By the reader, and by the feature that would take it."""
    with pytest.raises(DeltaError, match="17 columns"):
        read(good(), dim=16)
    with pytest.raises(ValueError, match=f"vectors of {FeedRanking.dim} numbers expected"):
        FeedRanking().inputs(FeedRequest(history=[], candidates=[1]), delta=read(good()))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.zeros((0, 9), np.float32), "1 to 4096 rows"),
        (np.ones((4097, 9), np.float32), "1 to 4096 rows"),
        (np.full((1, 9), np.nan, np.float32), "not finite"),
        (np.vstack([np.ones(9), np.full(9, 1e-6)]).astype(np.float32), "all zeros"),
        (np.ones(9, np.float32), "rows of vectors"),
    ],
)
def test_delta_that_could_not_be_read_is_not_made(rows: np.ndarray, said: str) -> None:
    """Its author gets the error, not the devices."""
    with pytest.raises(DeltaError, match=said):
        delta_bytes(rows, program=PROGRAM, first_id=100)


def outputs_for(adapter: Adapter, rows: np.ndarray) -> list[np.ndarray]:
    """What a program with the user vector [1, 0, 0] would give."""
    users = np.zeros((1, 51, 3), np.float32)
    users[0, :] = np.array([1.0, 0, 0]) + adapter.offset[0]
    scores = rows[:, :-1] @ users[0, 0] + rows[:, -1]
    ids = np.arange(1, len(rows) + 1)[None]
    return [scores[None].astype(np.float32), users, rows[None], np.zeros((1, 50)), np.zeros((1, 50)), ids]


SHOWN = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], np.float32)


def test_what_is_taken_rises_and_the_bound_holds() -> None:
    """A thousand times the same item: more likely each time till the bound, which is half the user vector's length."""
    adapter = Adapter(3, rate=0.05, fall=0.02)
    assert adapter.is_neutral
    before = -2.0
    for turn in range(1000):
        outputs = outputs_for(adapter, SHOWN)
        margin = float(outputs[0][0, 1] - outputs[0][0, 0])
        assert turn > 10 or margin > before
        before = margin
        adapter.learn(outputs, 2)
        assert np.linalg.norm(adapter.offset) <= 0.5 + 1e-6
    assert before > -0.6
    adapter.reset()
    assert adapter.is_neutral
    for _ in range(1000):
        adapter.learn(outputs_for(adapter, 100 * SHOWN), 2)
        assert np.linalg.norm(adapter.offset) <= 0.5 + 1e-6


def test_first_step_is_the_gradient_of_the_log_likelihood() -> None:
    """Compared with differences of the logarithm of the softmax."""
    adapter = Adapter(3, rate=1.0, fall=0.0, radius=10.0)
    outputs = outputs_for(adapter, SHOWN)
    adapter.learn(outputs, 2)

    def likelihood(offset: np.ndarray) -> float:
        scores = SHOWN[:3, :-1].astype(float) @ (np.array([1.0, 0, 0]) + offset)
        return float(scores[1] - np.log(np.exp(scores).sum()))

    slope = [(likelihood(1e-5 * e) - likelihood(-1e-5 * e)) / 2e-5 for e in np.eye(3)]
    np.testing.assert_allclose(adapter.offset[0], slope, atol=1e-5)


@pytest.mark.parametrize(("chosen_item", "broken"), [(9, None), (4, None), (2, 0), (2, 1), (2, 2)])
def test_feedback_that_makes_no_sense_changes_nothing(chosen_item: int, broken: int | None) -> None:
    """No candidate, one without a row, numbers that are none: an error, and what was learned stays."""
    adapter = Adapter(3)
    adapter.learn(outputs_for(adapter, SHOWN), 3)
    before = adapter.offset
    outputs = outputs_for(adapter, SHOWN.copy())
    if broken is not None:
        outputs[broken] = outputs[broken].copy()
        outputs[broken][0, 0] = np.nan
    with pytest.raises(ValueError, match=r"none of the candidates|not finite"):
        adapter.learn(outputs, chosen_item)
    np.testing.assert_array_equal(adapter.offset, before)
    with pytest.raises(ValueError, match="vectors of 2 numbers"):
        Adapter(2).learn(outputs_for(adapter, SHOWN), 2)


def test_adapter_cannot_be_written_copied_or_printed() -> None:
    """Every way that Python offers; its text holds none of its numbers."""
    adapter = Adapter(3)
    adapter.learn(outputs_for(adapter, SHOWN), 2)
    for write in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps, vars):
        with pytest.raises(TypeError):
            write(adapter)
    assert repr(adapter) == str(adapter) == "Adapter(dim=3)"
    handed = adapter.offset
    handed[:] = 99.0
    assert np.abs(adapter.offset).max() < 1.0


@pytest.mark.parametrize("bad", [{"dim": 0}, {"rate": 0.0}, {"rate": float("nan")}, {"fall": 2.0}, {"radius": -1.0}])
def test_adapter_out_of_bounds_is_refused(bad: dict[str, Any]) -> None:
    """Steps that could run away are no steps."""
    with pytest.raises(ValueError, match="rate"):
        Adapter(**{"dim": 3, **bad})
