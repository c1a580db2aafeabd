"""`alcove model import --onnx`: files in the ONNX format become certified programs that give the same numbers."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.runtime import load
from alcove.runtime.certificate import check_certificate
from PIL import Image

from tests.platform.cli.onnx_models import Arrays, answers, f32, model_of, node, reference, save, words
from tests.platform.cli.terminal import alcove

torch = pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")
onnx = pytest.importorskip("onnx", reason="ONNX files are read with onnx: install alcove-platform[onnx]")


def network(size: int = 16, channels_last: bool = False, varies: bool = False) -> Any:
    """Return a small classifier as converters from TensorFlow write it, or as torch does."""
    shape: list[int | str | None] = [1, 3, size, size]
    if varies:
        shape = ["batch", 3, None, None]
    first = "x"
    nodes = []
    if channels_last:
        shape = [*shape[:1], *shape[2:], 3]
        nodes.append(node("Transpose", "x", "nchw", perm=[0, 3, 1, 2]))
        first = "nchw"
    nodes += [
        node("Conv", f"{first} w1 b1", "c1", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("BatchNormalization", "c1 s m mean var", "n1"),
        node("Relu", "n1", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1], group=8),
        node("Clip", "c2 zero six", "r2"),
        node("GlobalAveragePool", "r2", "pool"),
        node("Shape", "pool", "shape"),
        node("Gather", "shape first", "batch", axis=0),
        node("Concat", "batch rest", "wanted", axis=0),
        node("Reshape", "pool wanted", "flat"),
        node("Gemm", "flat w3 b3", "logits", transB=1),
        node("Softmax", "logits", "answer"),
    ]
    weights = {
        "w1": f32(8, 3, 3, 3),
        "b1": f32(8),
        "s": f32(8) + 1,
        "m": f32(8),
        "mean": f32(8),
        "var": f32(8) ** 2 + 1,
        "w2": f32(8, 1, 3, 3) + 0.2,
        "zero": np.float32(0),
        "six": np.float32(6),
        "first": np.array([0]),
        "rest": np.array([-1]),
        "w3": f32(5, 8) * 4,
        "b3": f32(5),
    }
    return model_of(nodes, {"x": shape}, ["answer"], weights)


def test_file_becomes_a_certified_float32_program_that_takes_what_the_file_takes(tmp_path: Path) -> None:
    """Names and shapes of the ports are the file's; numbers are those of ONNX's own definition."""
    path, out = save(network(), tmp_path / "net.onnx"), tmp_path / "net.alc"
    said = alcove("model", "import", "--onnx", path, "--out", out, "--json")
    assert said.code == 0, said.err
    assert said.json["inputs"] == [{"name": "x", "shape": [1, 3, 16, 16], "type": "f32"}]
    model = load(out)
    assert check_certificate(model).samples == 2
    assert [port.name for port in model.inputs] == ["x"]
    assert [port.name for port in model.outputs] == ["answer"]
    x = f32(1, 3, 16, 16)
    np.testing.assert_allclose(model(x)[0], reference(onnx.load(str(path)), {"x": x})[0], atol=1e-5)
    parity = said.json["onnxruntime"]
    assert parity["why"] if parity["largest"] is None else parity["largest"] < 1e-5


@pytest.mark.parametrize("is_int8", [False, True], ids=["NCHW float32", "NHWC int8"])
def test_with_pictures_the_program_takes_pixels(is_int8: bool, tmp_path: Path) -> None:
    """The size is the file's, the normalization is put before it; the int8 program answers as the float32 module."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    rng = np.random.default_rng(1)
    for index in range(8):
        pixels = Image.fromarray(rng.integers(0, 256, (6, 8, 3)).astype(np.uint8)).resize((40, 30))
        pixels.save(pictures / f"{index}.png")
    path, out = save(network(channels_last=is_int8), tmp_path / "net.onnx"), tmp_path / "net.alc"
    options = ["--json"] if is_int8 else ["--json", "--float32"]
    said = alcove("model", "import", "--onnx", path, "--pictures", pictures, "--out", out, *options)
    assert said.code == 0, said.err
    assert said.json["calibrated_on"] == (8 if is_int8 else 0)
    assert said.json["worst_error"] < (0.2 if is_int8 else 1e-4)
    model = load(out)
    assert [port.shape for port in model.inputs] == [(16, 16, 3)]
    assert check_certificate(model).samples == 2


def test_sizes_that_vary_are_fixed_and_asked_for_all_at_once(tmp_path: Path) -> None:
    """A batch becomes 1; other sizes are those of --input, or of --size for pictures."""
    path, out = save(network(varies=True), tmp_path / "net.onnx"), tmp_path / "net.alc"
    said = alcove("model", "import", "--onnx", path, "--out", out)
    assert said.code == 2
    assert "x is 1x3x?x?; give --input x=1x3xHEIGHTxWIDTH, or --size" in words(said)
    given = alcove("model", "import", "--onnx", path, "--out", out, "--input", "x=1x3x8x12", "--json")
    assert given.code == 0, given.err
    assert load(out).inputs[0].shape == (1, 3, 8, 12)
    sized = alcove("model", "import", "--onnx", path, "--out", out, "--size", "24", "--json")
    assert load(out).inputs[0].shape == (1, 3, 24, 24)
    assert sized.code == 0


def test_everything_unsupported_is_listed_at_once_and_can_be_cut_off(tmp_path: Path) -> None:
    """Operator, version and node of each; --outputs names the tensors before them."""
    nodes = [
        node("Relu", "x", "kept"),
        node("NonMaxSuppression", "kept scores", "boxes"),
        node("Multinomial", "kept", "chance"),
        node("Strange", "boxes", "y"),
    ]
    model = model_of(nodes, {"x": [1, 4, 4], "scores": [1, 1, 4]}, ["y", "chance"])
    path, out = save(model, tmp_path / "net.onnx"), tmp_path / "net.alc"
    said = alcove("model", "import", "--onnx", path, "--out", out)
    assert said.code == 2
    for part in (
        "3 nodes are not supported",
        "NonMaxSuppression (opset 17) of node 'NonMaxSuppression_of_boxes': how many boxes",
        "or leave it to the app: --outputs kept",
        "Multinomial (opset 17)",
        "Strange (opset 17) of node 'Strange_of_y': not supported",
    ):
        assert part in words(said)
    assert not out.exists()
    cut = alcove("model", "import", "--onnx", path, "--out", out, "--outputs", "kept", "--json")
    assert cut.code == 0, cut.err
    assert [port.name for port in load(out).inputs] == ["x"]
    wrong = alcove("model", "import", "--onnx", path, "--out", out, "--outputs", "keptt")
    assert "no node makes 'keptt'; near it: kept" in words(wrong)


def external(location: str) -> Callable[[Any], None]:
    """Return a change that puts a weight into a file."""

    def change(model: Any) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location

    return change


def circle(model: Any) -> None:
    """Let the first node read what the last one makes."""
    model.graph.node[0].input[0] = "answer"


def without_weight(model: Any) -> None:
    """Take a weight away."""
    del model.graph.initializer[0]


def huge(model: Any) -> None:
    """Ask for a constant of 2**60 elements."""
    shape = onnx.numpy_helper.from_array(np.array([1 << 30, 1 << 30]), "huge")
    model.graph.initializer.append(shape)
    model.graph.node.insert(0, node("ConstantOfShape", "huge", "much"))
    model.graph.node.append(node("Add", "answer much", "sum"))
    model.graph.output[0].name = "sum"


def huge_weight(model: Any) -> None:
    """Say that a weight has more elements than its bytes."""
    model.graph.initializer[0].dims[0] = 1 << 40


def twice(model: Any) -> None:
    """Let two nodes make one tensor."""
    model.graph.node[1].output[0] = "c1"


def many_turns(model: Any) -> None:
    """A loop that never ends."""
    helper = onnx.helper
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_next"]) for name in ("goes", "state")],
        "body",
        [info("turn", 7, []), info("goes", 9, []), info("state", 1, None)],
        [info("goes_next", 9, []), info("state_next", 1, None)],
    )
    yes = onnx.numpy_helper.from_array(np.array(True), "yes")
    model.graph.initializer.append(yes)
    model.graph.node.append(helper.make_node("Loop", ["", "yes", "answer"], ["end"], name="turns", body=body))
    model.graph.output[0].name = "end"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (circle, "nodes read each other in a circle"),
        (without_weight, "reads 'w1', which nothing in the file makes"),
        (huge, r"has shape \[1073741824, 1073741824\]; at most"),
        (huge_weight, r"tensor 'w1' has shape \[1099511627776, 3, 3, 3\]"),
        (twice, "two nodes make 'c1'"),
        (external("../outside.bin"), "outside the folder of the file"),
        (external("/etc/hostname"), "outside the folder of the file"),
        (external("missing.bin"), "no such file beside the model"),
        (external("short.bin"), "cannot be read"),
        (many_turns, "more than 1024 turns"),
        (lambda model: model.graph.ClearField("node"), "output 'answer' is made by nothing"),
    ],
)
def test_damaged_file_is_refused_with_the_thing_that_is_wrong(
    change: Callable[[Any], None], message: str, tmp_path: Path
) -> None:
    """A sentence that names the node or the tensor, and no program."""
    model = network()
    change(model)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (tmp_path / "short.bin").write_bytes(b"1234")
    (tmp_path.parent / "outside.bin").write_bytes(bytes(4 * 8 * 27))
    said = alcove("model", "import", "--onnx", path, "--out", tmp_path / "net.alc")
    assert said.code == 2
    assert re.search(message, words(said))
    assert not (tmp_path / "net.alc").exists()


def test_part_of_a_file_and_other_bytes_are_refused(tmp_path: Path) -> None:
    """Every length of a short prefix, and text: a typed error, never another one."""
    from alcove.platform.cli.importing.onnx_files import OnnxError, read_onnx

    data = network().SerializeToString()
    path = tmp_path / "net.onnx"
    for length in [*range(60), *range(60, len(data), 97)]:
        path.write_bytes(data[:length])
        with pytest.raises(OnnxError):
            read_onnx(path)
    path.write_text("no model")
    with pytest.raises(OnnxError, match="no ONNX file"):
        read_onnx(path)


def test_changed_bytes_give_a_module_or_a_typed_error(tmp_path: Path) -> None:
    """Each byte of the graph once, by chance: whatever is read, nothing else escapes."""
    from alcove.platform.cli.importing.onnx_files import OnnxError, read_onnx

    model = network()
    for tensor in model.graph.initializer[:1]:
        tensor.raw_data = bytes(len(tensor.raw_data))
    data, path = bytearray(model.SerializeToString()), tmp_path / "net.onnx"
    rng = np.random.default_rng(0)
    for at in rng.choice(len(data), 120, replace=False):
        changed = bytearray(data)
        changed[at] = int(rng.integers(256))
        path.write_bytes(changed)
        try:
            read_onnx(path)
        except OnnxError:
            continue


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "y=1x3x16x16"], "no input 'y'; the file has x"),
        (["--input", "x=1x3x16"], "the file has 4 dimensions"),
        (["--input", "x=1x3x-1x4"], "--input is NAME=1x3x224x224"),
        (["--input", "x=1x3x16x16", "--input", "x=1x3x8x8"], "each name once"),
        (["--input", "x=1x3x0x16"], "a size of 0"),
        (["--input", "x=1x4x16x16"], "its inputs do not fit"),
        (["--input", "x=1x3x900000000x900000000"], "at most"),
        (["--architecture", "a.py:A"], "--architecture goes with an architecture"),
        (["--constant", "x"], "--constant is NAME=VALUE"),
        (["--constant", "x=red"], "--constant is NAME=VALUE"),
        (["--constant", "y=1"], "--constant: no input 'y'; the file has x"),
        (["--constant", "x=[1, 2]"], "--constant x: 1 dimensions; the file has 4"),
        (["--mean", "0.5"], "--mean goes with --pictures"),
    ],
)
def test_wrong_option_is_reported(options: list[str], message: str, tmp_path: Path) -> None:
    """Each with what it takes."""
    path = save(network(), tmp_path / "net.onnx")
    said = alcove("model", "import", "--onnx", path, "--out", tmp_path / "net.alc", *options)
    assert said.code == 2
    assert message in words(said)


def test_pictures_for_a_file_that_takes_none_are_refused(tmp_path: Path) -> None:
    """The sentence says what the file takes, and what to do."""
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / "a.png")
    path = save(model_of([node("Relu", "x", "y")], {"x": [1, 7]}, ["y"]), tmp_path / "net.onnx")
    said = alcove(
        *("model", "import", "--onnx", path, "--pictures", tmp_path / "pictures", "--out", tmp_path / "net.alc")
    )
    assert said.code == 2
    assert "takes x 1x7 float32: leave --pictures away" in words(said)


def test_neither_an_architecture_nor_a_file_says_what_is_missing(tmp_path: Path) -> None:
    """And --input needs a file."""
    said = alcove("model", "import", "--out", tmp_path / "net.alc")
    assert "missing --architecture, --weights, --pictures; give these three, or --onnx FILE" in words(said)
    said = alcove("model", "import", "--out", tmp_path / "net.alc", "--input", "x=1")
    assert "--input goes with --onnx" in words(said)


GRAPHS: dict[str, tuple[list[tuple[str, str, str, dict[str, Any]]], Sequence[int], Arrays, int]] = {
    "opset 7 convolution": (
        [
            ("Conv", "x w b", "c", {"kernel_shape": [3, 3], "pads": [0, 1, 1, 0]}),
            ("MaxPool", "c", "p", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
            ("Reshape", "p shape", "f", {}),
            ("MatMul", "f m", "y", {}),
        ],
        (1, 2, 9, 9),
        {"w": f32(4, 2, 3, 3), "b": f32(4), "shape": np.array([0, -1]), "m": f32(64, 3)},
        7,
    ),
    "depth to space and resize": (
        [
            ("DepthToSpace", "x", "d", {"blocksize": 2, "mode": "CRD"}),
            ("Resize", "d _ scales", "r", {"mode": "linear"}),
            ("Resize", "r _ scales", "y", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}),
        ],
        (1, 8, 3, 4),
        {"scales": np.array([1, 1, 2, 2], np.float32)},
        13,
    ),
    "cubic resize": (
        [("Resize", "x _ _ sizes", "y", {"mode": "cubic"})],
        (1, 2, 5, 7),
        {"sizes": np.array([1, 2, 8, 5])},
        13,
    ),
    "slices with steps": (
        [("Slice", "x begin end axes steps", "s", {}), ("Transpose", "s", "y", {"perm": [2, 0, 1]})],
        (2, 9, 7),
        {"begin": np.array([-1, 6]), "end": np.array([-10, 1]), "axes": np.array([1, 2]), "steps": np.array([-2, -1])},
        13,
    ),
    "reductions": (
        [
            ("ReduceL2", "x", "a", {"axes": [1]}),
            ("ReduceMean", "x", "b", {"axes": [-1]}),
            ("ArgMax", "x", "k", {"axis": 2}),
            ("Cast", "k", "c", {"to": 1}),
            ("Sum", "a b c", "y", {}),
        ],
        (2, 3, 4),
        {},
        13,
    ),
    "transposed convolution": (
        [("ConvTranspose", "x w b", "y", {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 1]})],
        (1, 3, 4, 5),
        {"w": f32(3, 2, 3, 3), "b": f32(2)},
        13,
    ),
    "norms": (
        [
            ("InstanceNormalization", "x s b", "i", {}),
            ("LRN", "i", "l", {"size": 3}),
            ("LayerNormalization", "l last", "y", {}),
        ],
        (1, 4, 3, 5),
        {"s": f32(4), "b": f32(4), "last": f32(5)},
        17,
    ),
    "quantized levels": (
        [
            ("QuantizeLinear", "x scale zero", "q", {}),
            ("DequantizeLinear", "q scale zero", "d", {}),
            ("DequantizeLinear", "levels scales", "w", {"axis": 0}),
            ("DequantizeLinear", "sums one", "b", {}),
            ("Conv", "d w b", "y", {}),
        ],
        (1, 2, 6, 6),
        {
            "scale": np.float32(0.02),
            "zero": np.uint8(128),
            "scales": np.array([0.01, 0.02, 0.005], np.float32),
            "sums": np.array([400, -300, 50], np.int32),
            "one": np.array([0.001], np.float32),
            "levels": np.random.default_rng(3).integers(-127, 128, (3, 2, 3, 3)).astype(np.int8),
        },
        21,
    ),
    "indices": (
        [
            ("Gather", "x rows", "g", {"axis": 1}),
            ("GatherND", "g pairs", "p", {}),
            ("ScatterND", "p places updates", "s", {}),
            ("TopK", "s two", "y places_of", {"axis": 1}),
        ],
        (2, 5, 3),
        {
            "rows": np.array([[4, -1], [0, 2]]),
            "pairs": np.array([[0, 1], [1, 0]]),
            "two": np.array([2]),
            "places": np.array([[1, 1]]),
            "updates": f32(1, 3),
        },
        13,
    ),
    "pads": (
        [
            ("Pad", "x pads", "a", {"mode": "reflect"}),
            ("Pad", "a pads value", "b", {}),
            ("AveragePool", "b", "y", {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1}),
        ],
        (1, 2, 5, 4),
        {"pads": np.array([0, 0, 1, 2, 0, 0, 2, 1]), "value": np.float32(0.5)},
        13,
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers_are_those_of_onnx(name: str) -> None:
    """Beside ONNX's own evaluator, families of operators in one graph each."""
    nodes, shape, weights, opset = GRAPHS[name]
    model = model_of(
        [node(kind, inputs, outputs, **attributes) for kind, inputs, outputs, attributes in nodes],
        {"x": shape},
        ["y"],
        weights,
        opset,
    )
    x = f32(*shape)
    np.testing.assert_allclose(answers(model, {"x": x})[0], reference(model, {"x": x})[0], atol=2e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layer_steps_as_onnx_defines_it(kind: str, direction: str) -> None:
    """Gates in ONNX's order become torch's; a GRU whose reset gate comes first is computed step by step."""
    directions, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = {"w": f32(directions, gates * 4, 3), "r": f32(directions, gates * 4, 4), "b": f32(directions, gates * 8)}
    x = f32(5, 2, 3)
    found = []
    for slow in (False, True):
        # A bound that nothing reaches makes the layer one that torch has not.
        more: dict[str, float] = {"linear_before_reset": 1} if kind == "GRU" else {}
        more |= {"clip": 1e6} if slow else {}
        layer = node(kind, "x w r b", "y h", hidden_size=4, direction=direction, **more)
        model = model_of([layer], {"x": [5, 2, 3]}, ["y", "h"], weights, 14)
        found.append(answers(model, {"x": x}))
    for fast, slow_one in zip(*found, strict=True):
        np.testing.assert_allclose(fast, slow_one, atol=1e-5)
    if direction == "forward":
        np.testing.assert_allclose(found[0][0], reference(model, {"x": x})[0], atol=1e-5)


def test_weights_of_an_unrolled_layer_are_in_the_program_once() -> None:
    """However many steps it has."""
    from alcove.platform.cli.importing.onnx_files.make import module_of
    from alcove.runtime.compiler import export

    sizes = []
    for steps in (4, 24):
        layer = node("GRU", "x w r b", "y h", hidden_size=32)
        weights = {"w": f32(1, 96, 32), "r": f32(1, 96, 32), "b": f32(1, 192)}
        module = module_of(model_of([layer], {"x": [steps, 1, 32]}, ["h"], weights, 14), Path(), {})
        sizes.append(sum(len(tensor.data) for tensor in export(module, module.examples).spec.tensors))
    assert sizes[1] < 1.2 * sizes[0]


def test_branches_and_loops_that_are_known_are_put_in_their_places() -> None:
    """A condition on a shape chooses a branch; a loop by a constant is unrolled; its outputs are stacked."""
    helper = onnx.helper
    info = helper.make_tensor_value_info
    then = helper.make_graph([node("Relu", "x", "t")], "then", [], [info("t", 1, None)])
    other = helper.make_graph([node("Multinomial", "x", "e")], "else", [], [info("e", 1, None)])
    body = helper.make_graph(
        [node("Add", "state picked", "next"), node("Identity", "goes", "goes_on"), node("Mul", "next next", "row")],
        "body",
        [info("turn", 7, []), info("goes", 9, []), info("state", 1, None)],
        [info("goes_on", 9, []), info("next", 1, None), info("row", 1, None)],
    )
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "columns"),
        node("Greater", "columns two", "is_wide"),
        helper.make_node("If", ["is_wide"], ["picked"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["three", "", "x"], ["end", "rows"], body=body),
    ]
    weights = {"one": np.array(1), "two": np.array(2), "three": np.array(3)}
    x = f32(2, 4)
    end, rows = answers(model_of(nodes, {"x": [2, 4]}, ["end", "rows"], weights), {"x": x})
    expected = [x + turn * np.maximum(x, 0) for turn in (1, 2, 3)]
    np.testing.assert_allclose(end, expected[-1], rtol=1e-6)
    np.testing.assert_allclose(rows, np.stack(expected) ** 2, rtol=1e-5)


def test_float16_file_is_computed_in_float32() -> None:
    """Weights of 16 bits become float32, so do inputs and outputs."""
    model = model_of([node("MatMul", "x w", "y")], {"x": [1, 4]}, ["y"], {"w": f32(4, 3).astype(np.float16)}, kind=10)
    x = f32(1, 4)
    found = answers(model, {"x": x})[0]
    assert found.dtype == np.float32
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0]).astype(np.float32)
    np.testing.assert_allclose(found, x @ weight, rtol=1e-5, atol=1e-6)


def test_operator_that_onnx_defines_by_others_is_put_in_its_place() -> None:
    """One of a function's own, and one of the model's."""
    helper = onnx.helper
    square = helper.make_function(
        "own", "Twice", ["v"], ["w"], [node("Add", "v v", "w")], [helper.make_opsetid("", 18)]
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["d"], domain="own"),
        node("CenterCropPad", "d size", "grid"),
        node("Relu", "d", "y"),
    ]
    weights = {"size": np.array([4, 8])}
    model = model_of(nodes, {"x": [6, 5]}, ["y", "grid"], weights, 20)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(square)
    from alcove.platform.cli.importing.onnx_files.make import module_of

    x = f32(6, 5)
    found = module_of(model, Path(), {})(torch.from_numpy(x))
    np.testing.assert_allclose(found["y"], np.maximum(2 * x, 0), rtol=1e-6)
    np.testing.assert_allclose(found["grid"], reference(model, {"x": x})[1], atol=1e-5)
