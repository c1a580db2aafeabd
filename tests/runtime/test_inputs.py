"""A call takes inputs of its ports' types and shapes, and refuses all others by name; nothing is converted silently."""

import array
from typing import Any

import numpy as np
import pytest
from alcove.runtime import InputError, InvalidTextError, Model, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import NUMPY_TYPES, Assembly, samples


@pytest.fixture(scope="module")
def classifier() -> Model:
    """Text in, labels out."""
    return load(samples()["classifier_int8"])


@pytest.fixture(scope="module")
def layers() -> Model:
    """float32 [6, 5] and [2, 1, 3] in."""
    return load(samples()["layers"])


@pytest.fixture(scope="module")
def caller_ids() -> Model:
    """Ids in, ragged up to 9 and exactly 2, of tables with 4 rows."""
    return load(samples()["caller_ids"])


X = np.linspace(-1, 1, 30, dtype=np.float32).reshape(6, 5)
CUBE = np.zeros((2, 1, 3), np.float32)


def refusal(model: Model, *inputs: Any) -> InputError:
    """The error that a call gives."""
    with pytest.raises(InputError) as caught:
        model(*inputs)
    return caught.value


def test_ports_say_what_a_call_takes(layers: Model, classifier: Model, caller_ids: Model) -> None:
    """Name, type, shape, raggedness, labels."""
    assert [(p.name, p.dtype, p.shape, p.is_ragged) for p in layers.inputs] == [
        ("x", DType.F32, (6, 5), False),
        ("cube", DType.F32, (2, 1, 3), False),
    ]
    assert [(p.name, p.is_ragged) for p in caller_ids.inputs] == [("ragged", True), ("fixed", False)]
    assert classifier.inputs[0].dtype is DType.TEXT
    assert classifier.outputs[1].labels[:2] == ("label 0", "label 1")


def test_a_wrong_number_of_inputs_is_refused(layers: Model, classifier: Model) -> None:
    """With the number expected and the number seen."""
    for inputs in ((), (X,), (X, CUBE, CUBE)):
        error = refusal(layers, *inputs)
        assert error.port is None
        assert f"takes 2 inputs, got {len(inputs)}" in str(error)
    assert "takes 1 input, got 0" in str(refusal(classifier))


@pytest.mark.parametrize("dtype", [">f4", object])
def test_arrays_of_foreign_bytes_are_refused_by_what_they_hold(layers: Model, dtype: Any) -> None:
    """Not by the name of their class, which is the expected one."""
    assert f"expected an array of float32, got one of {np.dtype(dtype)}" in str(refusal(layers, X.astype(dtype), CUBE))


@pytest.mark.parametrize(
    "kind", ["float64", "float16", "int8", "int32", "int64", "uint8", "uint16", "uint64", "bool", "complex64"]
)
def test_another_type_is_refused_by_name(layers: Model, kind: str) -> None:
    """No cast, not even of exact values; the error names port, expected and seen type."""
    error = refusal(layers, X.astype(kind), CUBE)
    assert error.port == "x"
    assert f"expected float32, got {kind}" in str(error)


def test_each_type_passes_through_unchanged() -> None:
    """Scalars and ragged rows of every type, also none of them; what is not used is taken too."""
    model = load(samples()["every_type"])
    for rows in range(4):
        inputs: list[Any] = []
        for dtype in NUMPY_TYPES.values():
            inputs += [np.array(1).astype(dtype), np.arange(rows * 2).reshape(rows, 2).astype(dtype)]
        outputs = model(*inputs, np.zeros(5, np.float32), "text")
        for argument, output in zip(inputs, outputs, strict=True):
            assert output.dtype == argument.dtype
            assert output.shape == argument.shape
            assert (output == argument).all()


@pytest.mark.parametrize("value", ["text", b"bytes", 1.5, None, [[0.0] * 5] * 6, (1, 2), object(), {"x": 1}, range(3)])
def test_what_is_no_array_is_refused(layers: Model, value: Any) -> None:
    """Lists too: how their numbers would be rounded is not for us to guess."""
    error = refusal(layers, value, CUBE)
    assert error.port == "x"
    assert "float32" in str(error)


def test_arrays_of_odd_kinds_are_refused(layers: Model) -> None:
    """Big-endian, object, structured, text; and buffers that are no numpy arrays, judged by their type."""
    for odd in (
        X.astype(">f4"),
        X.astype(object),
        np.zeros((6, 5), [("a", "<f4")]),
        np.full((6, 5), "a"),
        np.zeros((6, 5), "datetime64[s]"),
        array.array("d", [0.0] * 30),
        memoryview(bytearray(30)),
    ):
        assert refusal(layers, odd, CUBE).port == "x"


def test_a_wrong_shape_is_refused_with_the_dimension(layers: Model) -> None:
    """Rank and each dimension; sizes that agree in total are not enough."""
    for shape in ((5, 6), (30,), (6, 5, 1), (6, 4), (7, 5), (0, 5), ()):
        error = refusal(layers, np.zeros(shape, np.float32), CUBE)
        assert error.port == "x"
        assert "dimension" in str(error), shape
    assert "expected 2 dimensions, got 12" in str(refusal(layers, np.zeros((1,) * 12, np.float32), CUBE))


def test_strided_arrays_give_the_answers_of_their_copies(layers: Model) -> None:
    """Transposed, reversed, sliced, broadcast, read-only, unaligned."""
    wide = np.zeros((12, 10), np.float32)
    wide[::2, ::2] = X
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(6, 5)
    read_only = X.copy()
    read_only.flags.writeable = False
    expected = layers(X, CUBE)
    for same in (np.asfortranarray(X), X[::-1][::-1], wide[::2, ::2], X.T.copy().T, unaligned, read_only):
        for ours, theirs in zip(layers(same, CUBE), expected, strict=True):
            assert ours.tobytes() == theirs.tobytes()
    broadcast = np.broadcast_to(np.float32(0.5), (6, 5))
    assert layers(broadcast, CUBE)[2].tobytes() == np.full((6, 5), 0.5, np.float32).tobytes()


def test_ids_outside_the_table_are_refused(caller_ids: Model) -> None:
    """Negative, equal to the rows, huge; the error names port, place, value and bound."""
    good = np.array([0, 3], np.int32)
    assert caller_ids(good, good)[0].shape == (1, 3)
    for bad in (-1, 4, 2**31 - 1, -(2**31)):
        for place in (0, 1):
            ids = good.copy()
            ids[place] = bad
            for inputs, name in (((ids, good), "ragged"), ((good, ids), "fixed")):
                error = refusal(caller_ids, *inputs)
                assert error.port == name
                assert f"index {place} is {bad}, allowed are 0 to 3" in str(error)


def test_ragged_inputs_use_the_rows_they_have(caller_ids: Model) -> None:
    """None up to the bound; one more is refused; rows of an earlier call are never seen again."""
    fixed = np.zeros(2, np.int32)
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    for count in (9, 0, 1, 5):
        ids = np.arange(count, dtype=np.int32) % 4
        assert caller_ids(ids, fixed)[0].tolist() == [table[ids].sum(axis=0, dtype=np.float32).tolist()]
    assert "expected at most 9" in str(refusal(caller_ids, np.zeros(10, np.int32), fixed))
    assert "expected 2" in str(refusal(caller_ids, fixed, np.zeros(1, np.int32)))


def test_text_may_be_str_or_utf8_bytes(classifier: Model) -> None:
    """The same answer for both; anything else is refused, and its class is named as `__name__` says it."""
    for text in ("", "a", "Grüße aus Köln", "привет", "\0", "😀" * 3, "日本語"):
        for ours, theirs in zip(classifier(text), classifier(text.encode()), strict=True):
            assert ours.tolist() == theirs.tolist()
    for value in (None, 5, bytearray(b"text"), np.zeros(3, np.uint8), ["text"]):
        error = refusal(classifier, value)
        assert error.port == "text"
        assert f"expected str or bytes, got {type(value).__name__}" in str(error)


def test_bytes_that_are_no_utf8_are_refused_with_their_position(classifier: Model) -> None:
    """Overlong, truncated, surrogate, stray: the first byte of the malformed sequence."""
    for bad in (b"\xff", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\x80", b"\xf4\x90\x80\x80", b"\xc3("):
        for prefix in (b"", b"abc ", "é".encode()):
            with pytest.raises(InvalidTextError) as caught:
                classifier(prefix + bad)
            assert caught.value.position == len(prefix), (prefix, bad)
            assert caught.value.port == "text"


def test_lone_surrogates_are_refused_with_their_character(classifier: Model) -> None:
    """A str that has no UTF-8 form, as file names and broken JSON give them."""
    for text, position in (("\ud800", 0), ("ab\udfffc", 2), ("é\udc80", 1)):
        with pytest.raises(InvalidTextError) as caught:
            classifier(text)
        assert caught.value.position == position
        assert "surrogate" in str(caught.value)


def test_a_session_continues_after_any_refusal(classifier: Model, layers: Model) -> None:
    """Errors leave nothing behind: the next good call answers as a fresh session."""
    session = classifier.session()
    expected = [out.tolist() for out in classifier.session()("Wo ist der Bahnhof?")]
    for bad in (b"\xff", None, "\ud800"):
        with pytest.raises(InputError):
            session(bad)
        assert [out.tolist() for out in session("Wo ist der Bahnhof?")] == expected
    several = layers.session()
    with pytest.raises(InputError):
        several(X, CUBE.astype(np.float64))
    assert several(X, CUBE)[2].tobytes() == X.tobytes()


def test_empty_text_and_a_megabyte_are_answered(classifier: Model) -> None:
    """What is beyond the capacity is not read; separators alone are read and give no id."""
    empty = classifier("")
    assert np.isfinite(empty[0]).all()
    assert classifier(" \n.,;!" * 170_000)[0].tolist() == empty[0].tolist()
    megabyte = "Der Bahnhof ist hinter dem Markt. " * 30_000
    assert len(megabyte) > 1_000_000
    assert classifier(megabyte)[0].tolist() == classifier(megabyte[:200])[0].tolist()
    assert classifier(megabyte.encode() + b"\xff")[0].tolist() == classifier(megabyte)[0].tolist()


def test_outputs_are_new_arrays(layers: Model) -> None:
    """Writing to them, or calling again, changes no other answer."""
    session = layers.session()
    first = session(X, CUBE)
    kept = [out.copy() for out in first]
    for out in session(X * 2, CUBE):
        out.fill(7)
    assert all(ours.tobytes() == theirs.tobytes() for ours, theirs in zip(first, kept, strict=True))


def test_labels_replace_indices_of_one_output_alone() -> None:
    """Values stay numbers; an unlabelled index output stays int64."""
    build = Assembly()
    x = build.input("x", DType.F32, (1, 3))
    both = build.op("topk", [x], (DType.F32, (1, 2)), (DType.I64, (1, 2)), attributes=(2, 1))
    build.output("indices", both[1])
    build.output("names", both[1], ("null", "äins", ""))
    indices, names = load(build.program())(np.array([[0, 2, 1]], np.float32))
    assert indices.dtype == np.int64
    assert indices.tolist() == [[1, 2]]
    assert names.tolist() == [["äins", ""]]
