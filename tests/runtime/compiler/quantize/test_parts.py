"""The parts of quantization: calibrated ranges, packing of weights, the report, and rules of the verifier."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from alcove.runtime import ProgramError, export, load
from alcove.runtime.compiler.quantize import packing
from alcove.runtime.compiler.quantize.observers import Observer
from alcove.runtime.compiler.quantize.scales import quantize_rows, scale_of, weight_scales
from alcove.runtime.format.spec import DType

from tests.runtime.compiler.quantize.cases import one_op
from tests.runtime.compiler.quantize.nets import SmallCnn, samples, train_net


def observe_twice(*arrays: np.ndarray) -> Observer:
    """An observer that has seen them twice, as calibration does."""
    observer = Observer()
    for array in arrays:
        observer.see(array)
    for array in arrays:
        observer.count(array)
    return observer


def test_tensor_whose_elements_hardly_differ_keeps_its_whole_range() -> None:
    """Float32 has fewer numbers between its extremes than a spread has parts: nothing is clipped, nothing fails."""
    values = np.float32(0.05) + np.arange(200, dtype=np.float32) * np.spacing(np.float32(0.05))
    observer = observe_twice(values)
    whole = float(values.min()), float(values.max())
    for clipping in ("minmax", "mse", "entropy"):
        assert observer.range(clipping) == whole


def test_clipping_leaves_out_what_hardly_ever_comes() -> None:
    """Two outliers in a hundred thousand; the whole range without clipping."""
    values = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    values[:2] = 60, -60
    observer = observe_twice(values)
    assert observer.range("minmax") == (-60, 60)
    for clipping in ("mse", "entropy"):
        low, high = observer.range(clipping)
        assert -55 < low < -2
        assert 2 < high < 55


def test_clipping_keeps_a_range_that_is_used_evenly() -> None:
    """Nothing to gain at the ends."""
    observer = observe_twice(np.linspace(-2, 6, 10_000, dtype=np.float32))
    for clipping in ("minmax", "mse", "entropy"):
        low, high = observer.range(clipping)
        assert low == pytest.approx(-2, abs=0.3)
        assert high == pytest.approx(6, abs=0.3)


def test_a_constant_tensor_has_a_range() -> None:
    """Zeros, and one value."""
    for value in (0.0, 3.5, -2.0):
        low, high = observe_twice(np.full((4, 4), value, np.float32)).range("mse")
        scale = scale_of(low, high)
        assert scale.dequantize(scale.quantize(np.array([value], np.float32)))[0] == pytest.approx(value, rel=1e-2)


def test_zero_is_exact_under_every_scale() -> None:
    """Paddings and what a relu gives lose nothing."""
    random = np.random.default_rng(2)
    for _ in range(200):
        ends = random.standard_normal(2) * 10.0 ** random.integers(-20, 20)
        scale = scale_of(min(ends), max(ends))
        assert scale.dequantize(scale.quantize(np.zeros(1, np.float32)))[0] == 0


def test_weights_come_back_from_their_panels() -> None:
    """Any tail of outputs, inputs and groups."""
    random = np.random.default_rng(3)
    for n, k in ((1, 1), (16, 4), (17, 5), (40, 70)):
        rows = random.integers(-127, 128, (n, k)).astype(np.int8)
        words = random.integers(-1000, 1000, n).astype(np.int32)
        scales = random.random(n, np.float32)
        for result, back in (
            ((rows, words, scales), packing.unpanel_i8(packing.panels_i8(rows, words, scales), n, k)),
            (
                (rows.T, words, scales),
                packing.depthwise_unpanel_i8(packing.depthwise_panels_i8(rows.T, words, scales), n),
            ),
        ):
            assert [array.tobytes() for array in result] == [array.tobytes() for array in back]
        for group in packing.GROUPS:
            narrow, factors = packing.quantize_i4(random.standard_normal((n, k)).astype(np.float32), group)
            seen, steps = packing.unpanel_i4(packing.panels_i4(narrow, factors, group), n, k, group)
            assert np.array_equal(seen, narrow)
            assert np.array_equal(steps, factors)


def test_weights_round_to_the_nearest_and_use_all_steps() -> None:
    """The greatest of each row is 127 or -127; zeros stay zeros; a huge bias still fits its int32."""
    rows = np.array([[1, -2, 0.5], [0, 0, 0], [1e-3, 0, -1e-3]], np.float32)
    scales = weight_scales(rows, np.array([0, 0, 1e9]), 0.1)
    integers = quantize_rows(rows, scales)
    assert integers[0].tolist() == [63, -127, 32]
    assert not integers[1].any()
    assert 1e9 / (0.1 * scales[2]) < 2**30


def test_the_report_tells_each_layer_to_people_and_machines() -> None:
    """Layer, operator, precision, SNR, ranges, scales, sizes."""
    program = export(train_net(SmallCnn), samples(1)[0], quantize="int8", calibration=samples(6))
    report = program.quantization
    assert report is not None
    assert (report.mode, report.samples) == ("int8", 6)
    layers = {layer.layer: layer for layer in report.layers if layer.float_bytes}
    assert set(layers) == {"stem.0", "deep.0", "point", "squeeze", "excite", "grouped", "head"}
    for layer in layers.values():
        assert layer.precision == "int8"
        assert layer.snr_db is not None
        assert layer.snr_db > 20
        assert layer.input_scale is not None
        assert layer.output_range is not None
        assert layer.output_range[0] < layer.output_range[1]
    assert layers["stem.0"].output_range[0] == 0  # type: ignore[index] # not None, as asserted above
    assert layers["grouped"].float_bytes == (20 * 3 * 9 + 20) * 4
    document = json.loads(report.to_json())
    assert [layer["layer"] for layer in document["layers"]] == [layer.layer for layer in report.layers]
    text = str(report)
    assert all(name in text for name in layers)


GOOD = {
    "quantize": (0.5, 3),
    "linear_i8": (0, -128, 127),
    "add_i8": (0.5, 0.5, 0, 0, 0, -128, 127),
    "mul_i8": (0.5, 0, 0, 0, -128, 127),
    "mean_i8": (0, 1, 0, 0.5, 0, 0, -128, 127),
}


@pytest.mark.parametrize(
    ("op", "place", "value"),
    [
        ("quantize", 0, 0.0),
        ("quantize", 0, -1.0),
        ("quantize", 0, float("inf")),
        ("quantize", 0, float("nan")),
        ("quantize", 0, 0.1),  # no float32
        ("quantize", 0, 2.0**101),
        ("quantize", 0, 2.0**-101),
        ("quantize", 1, 128),
        ("quantize", 1, -129),
        ("linear_i8", 0, 200),
        ("linear_i8", 1, -129),
        ("linear_i8", 2, 128),
        ("linear_i8", 2, -129),
        ("add_i8", 0, 0.0),
        ("add_i8", 1, float("nan")),
        ("add_i8", 2, 128),
        ("mul_i8", 0, 0.1),
        ("mul_i8", 1, -129),
        ("mean_i8", 1, 3),
        ("mean_i8", 2, 2),
        ("mean_i8", 3, 0.0),
    ],
)
def test_the_verifier_refuses_scales_and_zero_points_that_make_no_sense(op: str, place: int, value: float) -> None:
    """By code, naming the op; the same program with sane numbers is a program."""
    assert program_of(op, GOOD[op])
    numbers = list(GOOD[op])
    numbers[place] = value
    with pytest.raises(ProgramError) as caught:
        load(program_of(op, numbers))
    assert caught.value.code == "op_attribute"
    assert caught.value.op == 0


def program_of(op: str, attributes: Sequence[float]) -> bytes:
    """A program of one operator on [4, 8]."""
    q = np.zeros((4, 8), np.int8)
    out = [(DType.I8, (4, 8))]
    if op == "quantize":
        return one_op(op, [(q.astype(np.float32), False)], out, attributes)[0]
    if op == "linear_i8":
        packed = packing.panels_i8(np.ones((8, 8), np.int8), np.zeros(8, np.int32), np.ones(8, np.float32))
        return one_op(op, [(q, False), (packed, True)], out, attributes)[0]
    if op == "mean_i8":
        return one_op(op, [(q, False)], [(DType.I8, (8,))], attributes)[0]
    return one_op(op, [(q, False), (q, False)], out, attributes)[0]


def test_the_verifier_refuses_a_sum_of_too_many_products() -> None:
    """65,536 is the cap; int32 holds that and no more in the worst case."""
    for k, is_fine in ((65536, True), (65540, False)):
        packed = np.zeros((1, 128 + 64 * (k // 4)), np.int8)
        program = one_op(
            "linear_i8", [(np.zeros((1, k), np.int8), False), (packed, True)], [(DType.I8, (1, 1))], (0, -128, 127)
        )[0]
        if is_fine:
            load(program)
        else:
            with pytest.raises(ProgramError) as caught:
                load(program)
            assert caught.value.code == "op_shape"
