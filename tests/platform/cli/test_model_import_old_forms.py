"""`alcove model import --onnx`: operators as old versions of the format wrote them give the numbers of today's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.platform.cli.onnx_models import Arrays, answers, f32, model_of, node, onnx, reference

Nodes = list[tuple[str, str, str, dict[str, Any]]]

STATISTICS = {"s": f32(3) + 1, "m": f32(3), "mean": f32(3), "var": f32(3) ** 2 + 1}
BY_ELEMENT = {name: f32(3, 4, 5) ** 2 + 1 for name in ("s", "m", "mean", "var")}
AS_TODAY = "s m mean var"

FORMS: dict[str, tuple[int, Nodes, Nodes, tuple[int, ...], Arrays]] = {
    "batch norm that says it is in evaluation": (
        1,
        [
            (
                "BatchNormalization",
                f"x {AS_TODAY}",
                "y",
                {"is_test": 1, "spatial": 1, "consumed_inputs": [0, 0, 0, 1, 1]},
            )
        ],
        [("BatchNormalization", f"x {AS_TODAY}", "y", {})],
        (1, 3, 4, 5),
        STATISTICS,
    ),
    "batch norm that does not say it": (
        6,
        [("BatchNormalization", f"x {AS_TODAY}", "y", {"epsilon": 1e-3})],
        [("BatchNormalization", f"x {AS_TODAY}", "y", {"epsilon": 1e-3})],
        (1, 3, 4, 5),
        STATISTICS,
    ),
    "batch norm marked as by element, with statistics of channels": (
        8,
        [("BatchNormalization", f"x {AS_TODAY}", "y", {"spatial": 0})],
        [("BatchNormalization", f"x {AS_TODAY}", "y", {})],
        (1, 3, 4, 5),
        STATISTICS,
    ),
    "batch norm by element": (
        7,
        [("BatchNormalization", f"x {AS_TODAY}", "y", {"spatial": 0})],
        [
            ("Sub", "x mean", "a", {}),
            ("Add", "var epsilon", "b", {}),
            ("Sqrt", "b", "c", {}),
            ("Div", "a c", "d", {}),
            ("Mul", "d s", "e", {}),
            ("Add", "e m", "y", {}),
        ],
        (1, 3, 4, 5),
        BY_ELEMENT | {"epsilon": np.float32(1e-5)},
    ),
    "dropout": (1, [("Dropout", "x", "y", {"is_test": 1, "ratio": 0.3})], [("Identity", "x", "y", {})], (2, 3), {}),
    "channels in the middle": (
        6,
        [("Mul", "x c", "a", {"broadcast": 1, "axis": 1}), ("Add", "a c", "y", {"broadcast": 1, "axis": 1})],
        [("Mul", "x d", "a", {}), ("Add", "a d", "y", {})],
        (1, 3, 4, 5),
        {"c": np.array([1, 2, 3], np.float32), "d": np.array([1, 2, 3], np.float32).reshape(3, 1, 1)},
    ),
    "an axis counted from the end": (
        1,
        [("Sub", "x c", "y", {"broadcast": 1, "axis": -1})],
        [("Sub", "x c", "y", {})],
        (2, 3, 5),
        {"c": f32(5)},
    ),
    "an axis that means nothing": (
        1,
        [("Add", "x c", "y", {"broadcast": 1, "axis": 0})],
        [("Add", "x c", "y", {})],
        (1, 3, 4, 5),
        {"c": f32(3, 1, 1)},
    ),
    "comparisons with a broadcast": (
        1,
        [("Greater", "x c", "a", {"broadcast": 1, "axis": 1}), ("Cast", "a", "y", {"to": "FLOAT"})],
        [("Greater", "x d", "a", {}), ("Cast", "a", "y", {"to": 1})],
        (1, 3, 4, 5),
        {"c": np.array([0.1, -0.2, 0], np.float32), "d": np.array([0.1, -0.2, 0], np.float32).reshape(3, 1, 1)},
    ),
    "a power with a broadcast": (
        1,
        [("Abs", "x", "a", {}), ("Pow", "a c", "y", {"broadcast": 1})],
        [("Abs", "x", "a", {}), ("Pow", "a c", "y", {})],
        (2, 3),
        {"c": np.array([2.0], np.float32)},
    ),
    "a linear layer of a picture": (
        1,
        [("Reshape", "x", "a", {"shape": [0, -1]}), ("Gemm", "a w b", "y", {"transB": 1, "broadcast": 1})],
        [("Reshape", "x wanted", "a", {}), ("Gemm", "a w b", "y", {"transB": 1})],
        (1, 3, 2, 2),
        {"w": f32(5, 12), "b": f32(5), "wanted": np.array([0, -1])},
    ),
    "sizes in attributes": (
        1,
        [
            ("Slice", "x", "a", {"axes": [2, 3], "starts": [1, -3], "ends": [100, -1]}),
            ("Pad", "a", "b", {"paddings": [0, 0, 1, 0, 0, 0, 2, 1], "value": 0.5}),
            ("Unsqueeze", "b", "c", {"axes": [0]}),
            ("Squeeze", "c", "d", {"axes": [0]}),
            ("Clip", "d", "y", {"min": -0.2, "max": 0.3}),
        ],
        [
            ("Slice", "x starts ends axes", "a", {}),
            ("Pad", "a pads half", "b", {}),
            ("Clip", "b low high", "y", {}),
        ],
        (1, 3, 4, 5),
        {
            "starts": np.array([1, -3]),
            "ends": np.array([100, -1]),
            "axes": np.array([2, 3]),
            "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]),
            "half": np.float32(0.5),
            "low": np.float32(-0.2),
            "high": np.float32(0.3),
        },
    ),
    "a bound on one side": (6, [("Clip", "x", "y", {"min": 0.0})], [("Relu", "x", "y", {})], (2, 3), {}),
    "parts": (
        1,
        [("Split", "x lengths", "a b", {"axis": 1}), ("Concat", "b a", "y", {})],
        [("Split", "x lengths", "a b", {"axis": 1}), ("Concat", "b a", "y", {"axis": 1})],
        (2, 5),
        {"lengths": np.array([2, 3])},
    ),
    "scales by side": (
        1,
        [("Upsample", "x", "y", {"height_scale": 2.0, "width_scale": 3.0, "mode": "nearest"})],
        [("Resize", "x _ scales", "y", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})],
        (1, 2, 3, 4),
        {"scales": np.array([1, 1, 2, 3], np.float32)},
    ),
    "scales in an attribute": (
        7,
        [("Upsample", "x", "y", {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"})],
        [("Resize", "x _ scales", "y", {"coordinate_transformation_mode": "asymmetric", "mode": "linear"})],
        (1, 2, 3, 4),
        {"scales": np.array([1, 1, 2, 2], np.float32)},
    ),
    "scales in a tensor": (
        9,
        [("Upsample", "x scales", "y", {"mode": "nearest"})],
        [("Resize", "x _ scales", "y", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})],
        (1, 2, 3, 4),
        {"scales": np.array([1, 1, 2, 2], np.float32)},
    ),
    "softmax over all axes from one on": (
        1,
        [("Softmax", "x", "y", {})],
        [("Flatten", "x", "a", {}), ("Softmax", "a", "b", {}), ("Reshape", "b wanted", "y", {})],
        (2, 3, 4),
        {"wanted": np.array([2, 3, 4])},
    ),
    "softmax of a vector": (1, [("Softmax", "x", "y", {})], [("Softmax", "x", "y", {})], (4,), {}),
    "slopes of channels": (
        6,
        [("PRelu", "x c", "y", {})],
        [("PRelu", "x d", "y", {})],
        (1, 3, 4, 5),
        {"c": np.array([0.1, 0.2, 0.3], np.float32), "d": np.array([0.1, 0.2, 0.3], np.float32).reshape(3, 1, 1)},
    ),
    "slopes of channels in a newer file": (
        8,
        [("PRelu", "x c", "y", {})],
        [("PRelu", "x d", "y", {})],
        (1, 3, 4, 5),
        {"c": np.array([0.1, 0.2, 0.3], np.float32), "d": np.array([0.1, 0.2, 0.3], np.float32).reshape(3, 1, 1)},
    ),
    "repeats along one axis": (
        1,
        [("Tile", "x tiles axis", "y", {})],
        [("Tile", "x repeats", "y", {})],
        (2, 3),
        {"tiles": np.array([3]), "axis": np.array([1]), "repeats": np.array([1, 3])},
    ),
    "the largest": (
        1,
        [("TopK", "x", "y _", {"k": 2, "axis": 1})],
        [("TopK", "x two", "y _", {"axis": 1})],
        (2, 5),
        {"two": np.array([2])},
    ),
    "a scaled image": (
        1,
        [("ImageScaler", "x", "y", {"scale": 0.5, "bias": [0.1, 0.2, 0.3]})],
        [("Mul", "x half", "a", {}), ("Add", "a bias", "y", {})],
        (1, 3, 4, 5),
        {"half": np.float32(0.5), "bias": np.array([0.1, 0.2, 0.3], np.float32).reshape(3, 1, 1)},
    ),
    "numbers in attributes": (
        1,
        [
            ("ConstantFill", "", "a", {"shape": [2, 1], "value": 2.0}),
            ("GivenTensorFill", "", "b", {"shape": [3], "values": [1.0, 2.0, 3.0]}),
            ("Mul", "x a", "c", {"broadcast": 1, "axis": 0}),
            ("FC", "c w b", "y", {}),
        ],
        [("Mul", "x two", "a", {}), ("Gemm", "a w b", "y", {"transB": 1})],
        (2, 3),
        {"two": np.float32(2), "w": f32(3, 3), "b": np.array([1, 2, 3], np.float32)},
    ),
    "a convolution without the shape of its kernel": (
        1,
        [
            ("Conv", "x w", "a", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
            ("Relu", "a", "y", {"consumed_inputs": [0]}),
        ],
        [("Conv", "x w", "a", {"pads": [1, 1, 1, 1], "strides": [2, 2]}), ("Relu", "a", "y", {})],
        (1, 3, 5, 5),
        {"w": f32(4, 3, 3, 3)},
    ),
    "means of channels": (
        1,
        [("MeanVarianceNormalization", "x", "y", {"across_channels": 1, "normalize_variance": 0})],
        [("ReduceMean", "x", "a", {}), ("Sub", "x a", "y", {})],
        (1, 3, 4, 5),
        {},
    ),
}


def _model(nodes: Nodes, shape: tuple[int, ...], weights: Arrays, opset: int) -> Any:
    made = [node(kind, inputs, outputs, **attributes) for kind, inputs, outputs, attributes in nodes]
    for each in made:
        each.output[:] = ["" if name == "_" else name for name in each.output]
    read = {name for each in made for name in each.input}
    held = {name: value for name, value in weights.items() if name in read}
    return model_of(made, {"x": shape}, ["y"], held, opset)


@pytest.mark.parametrize("name", FORMS)
def test_an_old_form_gives_the_numbers_of_todays(name: str) -> None:
    """Files of the first versions list their weights among the inputs, which are weights all the same."""
    opset, old, new, shape, weights = FORMS[name]
    model = _model(old, shape, weights, opset)
    model.ir_version = 3
    ports = [
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in model.graph.initializer
    ]
    model.graph.input.extend(ports)
    x = f32(*shape)
    expected = reference(_model(new, shape, weights, 15), {"x": x})[0]
    np.testing.assert_allclose(answers_alone(model, x), expected, atol=2e-5)


def answers_alone(model: Any, x: Any) -> Any:
    """Return the output for the one input that is no weight."""
    return answers(model, {"x": x})[0]


def test_batch_norm_in_training_is_refused() -> None:
    """A file that gives back running means was written in training."""
    made = node("BatchNormalization", f"x {AS_TODAY}", "y mean2 var2")
    model = model_of([made], {"x": (1, 3, 4, 5)}, ["y", "mean2"], STATISTICS, 6)
    with pytest.raises(ValueError, match="in training mode; export the model in evaluation mode"):
        answers(model, {"x": f32(1, 3, 4, 5)})


@pytest.mark.parametrize("opset", [8, 9])
def test_a_scan_runs_over_each_part_of_a_batch(opset: int) -> None:
    """Version 8 has a batch before the steps and lengths before the states."""
    helper = onnx.helper
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", "sum part", "next"), node("Identity", "next", "row")],
        "body",
        [info("sum", 1, [2]), info("part", 1, [2])],
        [info("next", 1, [2]), info("row", 1, [2])],
    )
    inputs = ["", "start", "x"] if opset == 8 else ["start", "x"]
    made = helper.make_node("Scan", inputs, ["end", "rows"], body=body, num_scan_inputs=1)
    shape = (3, 4, 2) if opset == 8 else (4, 2)
    start = np.zeros((3, 2) if opset == 8 else (2,), np.float32)
    x = f32(*shape)
    end, rows = answers(model_of([made], {"x": shape}, ["end", "rows"], {"start": start}, opset), {"x": x})
    np.testing.assert_allclose(rows, x.cumsum(-2), atol=1e-6)
    np.testing.assert_allclose(end, x.sum(-2), atol=1e-6)


SPECTRA: dict[str, tuple[int, Nodes, tuple[int, ...], Arrays]] = {
    "a transform": (17, [("DFT", "x", "y", {"axis": 1})], (1, 12, 1), {}),
    "a transform and back": (
        17,
        [("DFT", "x", "a", {"axis": 1}), ("Mul", "a half", "b", {}), ("DFT", "b", "y", {"axis": 1, "inverse": 1})],
        (1, 12, 2),
        {"half": np.float32(0.5)},
    ),
    "half of a spectrum, with zeros behind": (
        20,
        [("DFT", "x length axis", "y", {"onesided": 1})],
        (2, 10, 1),
        {"length": np.int64(16), "axis": np.int64(1)},
    ),
    "frames": (
        17,
        [("STFT", "x step window", "y", {})],
        (1, 64, 1),
        {"step": np.int64(8), "window": np.hanning(16).astype(np.float32)},
    ),
    "frames without a window, both halves": (
        17,
        [("STFT", "x step _ length", "y", {"onesided": 0})],
        (2, 40, 1),
        {"step": np.int64(5), "length": np.int64(12)},
    ),
    "mel bands": (
        17,
        [("MelWeightMatrix", "bands length rate low high", "m", {}), ("MatMul", "x m", "y", {})],
        (2, 9),
        {
            "bands": np.int64(4),
            "length": np.int64(16),
            "rate": np.int64(8000),
            "low": np.float32(0),
            "high": np.float32(4000),
        },
    ),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_a_spectrum_is_that_of_onnx(name: str) -> None:
    """Transforms are products with waves that are known."""
    opset, nodes, shape, weights = SPECTRA[name]
    model = _model(nodes, shape, weights, opset)
    x = f32(*shape)
    np.testing.assert_allclose(answers_alone(model, x), reference(model, {"x": x})[0], atol=2e-5)


def test_a_spectrum_is_computed_by_a_program(tmp_path: Path) -> None:
    """Frames of a sound are a convolution, which programs have."""
    from tests.platform.cli.onnx_models import save
    from tests.platform.cli.terminal import alcove

    opset, nodes, shape, weights = SPECTRA["frames"]
    path = save(_model(nodes, shape, weights, opset), tmp_path / "net.onnx")
    said = alcove("model", "import", "--onnx", path, "--out", tmp_path / "net.alc")
    assert said.code == 0, said.err
