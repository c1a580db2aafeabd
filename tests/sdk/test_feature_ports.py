"""A handle says what its feature takes and gives, and takes lists, numbers and names where they are exact."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.features.bandwidth.contract import Bandwidth
from alcove.runtime.errors import InputError
from alcove.runtime.format.spec import DType
from alcove.sdk import NoPredictionError, OutOfBoundError, Port
from alcove.sdk.engine import NativeEngine
from alcove.sdk.ports import arrange_inputs

from tests.sdk.conftest import FEATURE, Device


@dataclass(frozen=True)
class View:
    """A port of a program that only says what it takes."""

    name: str
    dtype: DType
    shape: tuple[int, ...] = (1, 2)
    is_ragged: bool = False
    labels: tuple[str, ...] = ()
    dims: tuple[str, ...] = ("1", "2")


class Mixed:
    """A program that takes a text, floats, whole numbers, bytes and booleans."""

    inputs = (
        View("text", DType.TEXT),
        View("x", DType.F32),
        View("ids", DType.I64),
        View("pixels", DType.U8),
        View("mask", DType.BOOL),
    )
    outputs = ()

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the inputs."""
        return list(inputs)


PIXELS = np.zeros((1, 2), np.uint8)


def test_names_are_put_in_the_order_of_the_program() -> None:
    """Names may come in any order, after inputs by place."""
    named = {"mask": [[True, False]], "pixels": PIXELS, "ids": [[1, 2]], "x": [[1, 2.5]]}
    text, x, ids, pixels, mask = arrange_inputs(Mixed(), ("hi",), named)
    assert text == "hi"
    assert pixels is PIXELS
    assert [(one.dtype, one.tolist()) for one in (x, ids, mask)] == [
        (np.float32, [[1.0, 2.5]]),
        (np.int64, [[1, 2]]),
        (np.bool_, [[True, False]]),
    ]


def test_arrays_and_texts_are_passed_on_as_they_are() -> None:
    """Nothing is copied or converted that the runtime takes itself."""
    inputs = ("hi", PIXELS, PIXELS, PIXELS, PIXELS)
    assert arrange_inputs(Mixed(), inputs, {}) is inputs


@pytest.mark.parametrize(
    ("placed", "named", "message"),
    [
        (("hi",), {"y": 1}, "no input is called 'y'; the inputs are text, x, ids, pixels, mask"),
        (("hi", PIXELS), {"x": PIXELS}, "input 'x': it is given by its place already"),
        (("hi",), {"x": PIXELS}, "input 'ids': it is missing; the inputs are text, x, ids, pixels, mask"),
        (("hi", [[1.0], [1.0, 2.0]]), {}, "input 'x': its lists are not all of one length"),
        (("hi", [["1", "2"]]), {}, "input 'x': it takes f32, got str"),
        (("hi", [[None, 1.0]]), {}, "input 'x': it takes f32, got NoneType"),
        (("hi", [[True, False]]), {}, "input 'x': it takes f32, got bool"),
        (("hi", [[1e300, 0.0]]), {}, "input 'x': 1e+300 is out of the range of f32"),
        (("hi", PIXELS, [[1.5, 2.0]]), {}, "input 'ids': it takes i64, got float"),
        (("hi", PIXELS, PIXELS, [[255, 256]]), {}, "input 'pixels': 256 is out of the range of u8"),
        (("hi", PIXELS, PIXELS, [[-1, 0]]), {}, "input 'pixels': -1 is out of the range of u8"),
        (("hi", PIXELS, PIXELS, PIXELS, [[1, 0]]), {}, "input 'mask': it takes bool, got int"),
    ],
)
def test_what_would_change_a_value_or_is_unclear_is_refused(
    placed: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    """The message names the input, what it takes and what it got."""
    with pytest.raises(InputError) as caught:
        arrange_inputs(Mixed(), placed, named)
    assert str(caught.value) == message


def test_lists_and_names_answer_as_arrays_do(device: Device) -> None:
    """The same bits, by place and by name, at once and asynchronously."""
    handle = device.client(engine=NativeEngine()).feature(Bandwidth)
    by_array = handle.predict(np.zeros((1, 150), np.float32)).value
    zeros = [[0.0] * 150]
    assert handle.predict(zeros).value == by_array
    assert handle.predict(observation=zeros).value == by_array
    assert asyncio.run(handle.predict_async(observation=zeros)).value == by_array


def test_more_inputs_than_the_program_takes_are_refused_by_the_runtime(device: Device) -> None:
    """Lists too: none is dropped on the way."""
    with pytest.raises(InputError, match="1 input, got 2"):
        device.client(engine=NativeEngine()).feature(Bandwidth).predict([[0.0] * 150], [1.0])


def test_handle_shows_what_it_takes_and_gives(device: Device) -> None:
    """For a console, and for code that fits itself to the feature."""
    handle = device.client().feature(FEATURE)
    assert handle.inputs == (Port("text", "text"),)
    assert handle.outputs == (Port("label", "i32", (1, 1), labels=("a", "b"), dims=("1", "1")),)
    assert repr(handle) == "<feature greeting baseline (baseline): text: text -> label: label[1, 1]>"


def test_handle_without_a_program_shows_no_inputs(device: Device, tmp_path: Path) -> None:
    """Nothing could be loaded: it says so."""
    handle = device.client(baselines={FEATURE: tmp_path / "absent.alc"}).feature(FEATURE)
    assert (handle.inputs, handle.outputs) == ((), ())
    assert repr(handle) == "<feature greeting: unavailable>"


@pytest.mark.parametrize("accepted", [None, "yes", 0.5, 1, []])
def test_an_outcome_that_is_neither_yes_nor_no_is_refused(device: Device, accepted: Any) -> None:
    """The message names the bound and the value, before anything is recorded."""
    handle = device.client().feature(FEATURE)
    handle.predict("hi")
    with pytest.raises(OutOfBoundError, match="accepted must be True or False, not"):
        handle.record_outcome(accepted)


def test_a_comparison_of_numpy_is_an_outcome(device: Device) -> None:
    """`numpy.bool_` is what comparisons of arrays give."""
    handle = device.client().feature(FEATURE)
    is_kept: Any = np.True_
    with pytest.raises(NoPredictionError):
        handle.record_outcome(accepted=is_kept)
    handle.predict("hi")
    handle.record_outcome(accepted=is_kept)
