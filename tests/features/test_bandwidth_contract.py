"""The input and output contract of bandwidth: which lines and outputs are accepted, and how others are refused."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from alcove.features.bandwidth import Bandwidth, BandwidthAnswer
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIN_CAPACITY_BPS, OBSERVATION_SIZE, STATISTICS
from alcove.features.errors import FieldError

VALUES = [float(n) for n in range(150)]


def outputs(capacity: float, std: float) -> list[np.ndarray]:
    """Return what a program gives."""
    return [np.array([[capacity]], np.float32), np.array([[std]], np.float32)]


def test_line_is_a_list_or_an_object_with_one_or_a_list_for_each_statistic() -> None:
    """Three forms of the same observation."""
    by_name = {known.name: VALUES[10 * n : 10 * n + 10] for n, known in enumerate(STATISTICS)}
    for document in (VALUES, {"observation": VALUES, "t_ms": 60}, by_name):
        (array,) = Bandwidth().parse(json.dumps(document).encode())
        assert array.dtype == np.float32
        assert array.tolist() == [VALUES]


def test_missing_values_are_nan_and_too_large_ones_infinite() -> None:
    """null, NaN, Infinity, and what float32 cannot hold: the program counts them as missing."""
    line = json.dumps(VALUES).replace("3.0,", "null,", 1).replace("5.0,", "NaN,", 1).replace("7.0,", "1e300,", 1)
    (array,) = Bandwidth().parse(line.encode())
    assert np.isnan(array[0, [3, 5]]).all()
    assert math.isinf(array[0, 7])
    assert np.isfinite(array).sum() == 147


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "expected JSON, a list of 150 numbers"),
        (b"[1, 2", "expected JSON"),
        (b"\xff\xfe\x00", "expected JSON"),
        (b"\xc3(", "expected JSON"),
        (b"[1, 2]", "expected a list of 150 numbers, not a list of 2"),
        (b"7", "not int"),
        (b"null", "not NoneType"),
        (b'{"observation": 7}', "not int"),
        (b'{"observation": null}', "10 numbers for 'receiving_rate_bps'"),
        (b"{}", "10 numbers for 'receiving_rate_bps'"),
        (json.dumps(["x", *VALUES[1:]]).encode(), "value 0 of the observation must be a number or null, not 'x'"),
        (json.dumps([*VALUES[:149], True]).encode(), "value 149 of the observation must be a number or null, not True"),
        (json.dumps([10**400, *VALUES[1:]]).encode(), "larger than any floating-point number"),
        (b"[" * 100_000, "nested"),
        (b"9" * 5000, "expected"),
    ],
)
def test_line_that_is_no_observation_is_refused_with_what_was_expected(line: bytes, message: str) -> None:
    """Empty, cut off, not UTF-8, too few, not numbers, a bomb."""
    with pytest.raises(ValueError, match=message):
        Bandwidth().parse(line)


def test_answer_holds_the_programs_numbers() -> None:
    """In bit/s."""
    assert Bandwidth().decode(outputs(2e6, 3e5)) == BandwidthAnswer(capacity_bps=2e6, std_bps=3e5)
    for bound in (MIN_CAPACITY_BPS, MAX_CAPACITY_BPS):
        assert Bandwidth().decode(outputs(bound, 1.0)).capacity_bps == pytest.approx(bound)


def test_middle_is_above_the_careful_estimate_and_no_more_than_an_estimate_can_be() -> None:
    """One and a half deviations; it is for apps, and not part of the answer as JSON."""
    answer = BandwidthAnswer(capacity_bps=2e6, std_bps=4e5)
    assert answer.middle_bps == pytest.approx(2.6e6)
    assert BandwidthAnswer(capacity_bps=9e7, std_bps=1e8).middle_bps == MAX_CAPACITY_BPS
    assert asdict(answer) == {"capacity_bps": 2e6, "std_bps": 4e5}


@pytest.mark.parametrize(
    "wrong",
    [[], outputs(1e6, 1e5)[:1], [*outputs(1e6, 1e5), np.zeros((1, 1))], [np.zeros((1, 2)), np.zeros((1, 2))]],
)
def test_outputs_of_another_shape_are_refused(wrong: list[np.ndarray]) -> None:
    """With the shapes that came."""
    with pytest.raises(ValueError, match=r"both \[1, 1\]; the program gave"):
        Bandwidth().decode(wrong)


@pytest.mark.parametrize("wrong", [(np.nan, 1.0), (1e6, np.nan), (1e6, 0.0), (1e6, np.inf), (-1.0, 1.0), (2e8, 1.0)])
def test_numbers_that_are_no_answer_are_refused(wrong: tuple[float, float]) -> None:
    """NaN, no deviation, out of the bounds of an estimate."""
    with pytest.raises(FieldError):
        Bandwidth().decode(outputs(*wrong))


def test_observation_has_the_size_of_the_source() -> None:
    """15 statistics over 5 short and 5 long windows; names are their own."""
    assert OBSERVATION_SIZE == 150
    assert len({known.name for known in STATISTICS}) == 15
