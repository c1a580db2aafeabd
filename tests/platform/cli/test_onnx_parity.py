"""How far answers are from ONNX Runtime's, and when rounding alone decides it."""

from pathlib import Path

import numpy as np
import pytest

from tests.platform.cli.onnx_models import f32, model_of, node, save


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    """Return a file that rounds what it is given to very few levels."""
    nodes = [
        node("QuantizeLinear", "x scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "d"),
        node("ReduceSum", "d", "y", keepdims=0),
    ]
    weights = {"scale": np.float32(0.25), "zero": np.uint8(128)}
    return save(model_of(nodes, {"x": [1, 64]}, ["y"], weights), tmp_path / "net.onnx")


def test_the_range_is_that_of_all_samples_with_zero(quantized: Path) -> None:
    """A single score has no range of its own; its differences are a share of it."""
    pytest.importorskip("onnxruntime")
    from alcove.platform.cli.importing.onnx_parity import compare_with_runtime

    x = [np.full((1, 64), value, np.float32) for value in (0.5, 1.0)]
    answers = iter(np.array([[32.0], [64.0064]], np.float32).reshape(2, 1))
    found = compare_with_runtime(quantized, ["x"], ["y"], [[each] for each in x], lambda _: [next(answers).reshape(())])
    assert found.samples == 2
    assert found.share == pytest.approx(0.0064 / 64, rel=1e-2)
    assert found.own is None


@pytest.mark.parametrize(("value", "is_rounding"), [(0.125, True), (0.1, False)])
def test_differences_are_rounding_where_its_own_answers_move_as_far(
    value: float, is_rounding: bool, quantized: Path
) -> None:
    """Halfway between two levels the last bit decides; elsewhere a difference has another reason."""
    pytest.importorskip("onnxruntime")
    from alcove.platform.cli.importing.onnx_parity import compare_with_runtime

    x = np.full((1, 64), value, np.float32)
    x[0, 0] = 4
    found = compare_with_runtime(quantized, ["x"], ["y"], [[x]], lambda _: [np.array(4 + 0.25 * 32, np.float32)])
    assert found.share is not None
    assert found.share > 0.01
    assert found.is_rounding is is_rounding


def test_only_what_outputs_need_is_run(tmp_path: Path) -> None:
    """What is left to the app may not end."""
    pytest.importorskip("onnxruntime")
    from alcove.platform.cli.importing.onnx_parity import compare_with_runtime

    nodes = [node("Relu", "x", "kept"), node("Strange", "kept", "y")]
    path = save(model_of(nodes, {"x": [2, 3]}, ["y"]), tmp_path / "net.onnx")
    x = f32(2, 3)
    found = compare_with_runtime(path, ["x"], ["kept"], [[x]], lambda given: [np.maximum(given[0], 0)])
    assert (found.samples, found.largest) == (1, 0.0)


def test_a_file_of_the_first_versions_is_not_compared(tmp_path: Path) -> None:
    """ONNX Runtime takes none below opset 7."""
    pytest.importorskip("onnxruntime")
    from alcove.platform.cli.importing.onnx_parity import compare_with_runtime

    path = save(model_of([node("Relu", "x", "y")], {"x": [2]}, ["y"], opset=6), tmp_path / "net.onnx")
    found = compare_with_runtime(path, ["x"], ["y"], [[f32(2)]], lambda given: given)
    assert (found.samples, found.largest) == (0, None)
    assert "it takes opset 7 and newer, the file has 6" in found.why
