"""`alcove model import --onnx`: operators that ONNX Runtime fuses, files that must be cut, inputs that are fixed."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.runtime import load
from PIL import Image

from tests.platform.cli.terminal import alcove

torch = pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")
onnx = pytest.importorskip("onnx", reason="ONNX files are read with onnx: install alcove-platform[onnx]")

RNG = np.random.default_rng(7)
HEADS, SIZE = 2, 16
WIDTH = HEADS * SIZE
Arrays = dict[str, Any]
FURTHER = {"MultiHeadAttention": ["key", "value"], "EmbedLayerNormalization": ["lengths"]}
"""Outputs without which ONNX Runtime computes something else, or nothing."""


def f32(*shape: int) -> Any:
    """Return weights."""
    return (RNG.normal(size=shape) * 0.5).astype(np.float32)


def u8(*shape: int) -> Any:
    """Return levels."""
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Any:
    """Return levels around zero."""
    return RNG.integers(-128, 128, shape).astype(np.int8)


def one_scale(value: float) -> Any:
    """Return one scale."""
    return np.float32(value)


def model_of(kind: str, inputs: Arrays, order: str, attributes: dict[str, Any], live: str) -> Any:
    """Return a model of one of ONNX Runtime's operators; `live` are its inputs, the rest are weights in the file."""
    helper = onnx.helper
    node = helper.make_node(
        kind,
        ["" if name == "_" else name for name in order.split()],
        ["answer", *FURTHER.get(kind, ())],
        domain="com.microsoft",
        **attributes,
    )
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(inputs[name].dtype), inputs[name].shape)
        for name in live.split()
    ]
    graph = helper.make_graph(
        [node],
        "test",
        ports,
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.output],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in inputs.items()
            if name not in live.split()
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def softmax(x: Any) -> Any:
    """Return the softmax of the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split(x: Any) -> Any:
    """Return [batch, steps, width] by heads."""
    return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


def attend(q: Any, k: Any, v: Any, added: Any = 0.0) -> Any:
    """Return attention by its definition, for tensors by heads."""
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + added
    found = softmax(scores) @ v
    return found.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def attention(a: Arrays) -> Any:
    """Packed products, and a mask with a length for each sequence."""
    q, k, v = (split(part) for part in np.split(a["x"] @ a["w"] + a["b"], 3, -1))
    hidden = np.arange(5)[None, :] >= a["mask"][:, None]
    return attend(q, k, v, np.where(hidden, -10000.0, 0.0)[:, None, None, :])


def attend_with_cache(a: Arrays) -> Any:
    """Causal, with what was kept before."""
    k, v = (np.concatenate([a[f"past_{name}"], split(a[name])], 2) for name in "kv")
    later = np.arange(8)[None, :] > np.arange(5)[:, None] + 3
    return attend(split(a["q"]), k, v, np.where(later, -np.inf, 0.0))


def round_to_range(x: Any) -> Any:
    """Return an array rounded to 256 levels of its own range."""
    step = (max(x.max(), 0) - min(x.min(), 0)) / 255
    zero = np.round(-min(x.min(), 0) / step)
    return (np.clip(np.round(x / step) + zero, 0, 255) - zero) * step


def level(x: Any, step: float, zero: int) -> Any:
    """Return the nearest uint8 level."""
    return np.clip(np.round(x / step) + zero, 0, 255)


def multiply_unpacked(a: Arrays) -> Any:
    """Weights of 4 bits in blocks of 16 with a scale each."""
    levels = np.stack([a["w"] & 15, a["w"] >> 4], -1).reshape(6, 2, 16).astype(np.float32)
    return a["x"] @ ((levels - 8) * a["s"].reshape(6, 2, 1)).reshape(6, 32).T


def normalize(x: Any) -> Any:
    """Return rows of mean 0 and deviation 1."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)


def embed(a: Arrays) -> Any:
    """Words, places and segments."""
    return normalize(a["words"][a["ids"]] + a["places"][:5] + a["kinds"][a["segments"]]) * a["gamma"] + a["beta"]


def rotate(a: Arrays) -> Any:
    """Halves turned by the angle of their place."""
    x, cosine, sine = split(a["x"]), a["cos"][:5][None, None], a["sin"][:5][None, None]
    left, right = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    turned = np.concatenate([left * cosine - right * sine, right * cosine + left * sine], -1)
    return turned.transpose(0, 2, 1, 3).reshape(a["x"].shape)


Case = tuple[str, Arrays, str, dict[str, Any], str, Callable[[Arrays], Any]]
CASES: dict[str, Case] = {
    "attention with lengths": (
        "Attention",
        {"x": f32(2, 5, WIDTH), "w": f32(WIDTH, 3 * WIDTH), "b": f32(3 * WIDTH), "mask": np.array([3, 5], np.int32)},
        "x w b mask",
        {"num_heads": HEADS},
        "x mask",
        attention,
    ),
    "attention with a cache": (
        "MultiHeadAttention",
        {name: f32(2, 5, WIDTH) for name in "qkv"} | {f"past_{name}": f32(2, HEADS, 3, SIZE) for name in "kv"},
        "q k v _ _ _ past_k past_v",
        {"num_heads": HEADS, "unidirectional": 1},
        "q k v past_k past_v",
        attend_with_cache,
    ),
    "rotary embedding": (
        "RotaryEmbedding",
        {
            "x": f32(1, 5, WIDTH),
            "at": np.arange(5)[None],
            "cos": f32(9, SIZE // 2),
            "sin": f32(9, SIZE // 2),
        },
        "x at cos sin",
        {"num_heads": HEADS},
        "x at",
        rotate,
    ),
    "embeddings of BERT": (
        "EmbedLayerNormalization",
        {
            "ids": RNG.integers(0, 9, (2, 5)).astype(np.int32),
            "segments": RNG.integers(0, 2, (2, 5)).astype(np.int32),
            "words": f32(9, WIDTH),
            "places": f32(8, WIDTH),
            "kinds": f32(2, WIDTH),
            "gamma": f32(WIDTH),
            "beta": f32(WIDTH),
        },
        "ids segments words places kinds gamma beta",
        {},
        "ids segments",
        embed,
    ),
    "product of levels of its own": (
        "DynamicQuantizeMatMul",
        {"x": f32(2, 5, WIDTH), "w": i8(WIDTH, 6), "s": np.abs(f32(6)), "z": np.zeros(6, np.int8), "b": f32(6)},
        "x w s z b",
        {},
        "x",
        lambda a: round_to_range(a["x"]) @ (a["w"] * a["s"]) + a["b"],
    ),
    "linear layer on levels": (
        "QGemm",
        {
            "x": u8(2, WIDTH),
            "xs": one_scale(0.02),
            "xz": np.uint8(120),
            "w": i8(WIDTH, 6),
            "ws": one_scale(0.01),
            "wz": np.zeros((), np.int8),
            "b": RNG.integers(-99, 99, 6).astype(np.int32),
            "ys": one_scale(0.05),
            "yz": np.uint8(100),
        },
        "x xs xz w ws wz b ys yz",
        {},
        "x",
        lambda a: level(((a["x"].astype(int) - 120) @ a["w"].astype(int) + a["b"]) * (0.02 * 0.01), 0.05, 100),
    ),
    "pool of levels, channels last": (
        "NhwcMaxPool",
        {"x": u8(1, 4, 6, 3)},
        "x",
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        "x",
        lambda a: a["x"].reshape(1, 2, 2, 3, 2, 3).max((2, 4)),
    ),
    "choice of levels": (
        "QLinearWhere",
        {
            "c": np.array([[True, False, True]]),
            "x": u8(1, 3),
            "xs": one_scale(0.02),
            "xz": np.uint8(120),
            "y": u8(1, 3),
            "ys": one_scale(0.03),
            "yz": np.uint8(100),
            "s": one_scale(0.05),
            "z": np.uint8(110),
        },
        "c x xs xz y ys yz s z",
        {},
        "c x y",
        lambda a: level(
            np.where(a["c"], (a["x"].astype(int) - 120) * 0.02, (a["y"].astype(int) - 100) * 0.03), 0.05, 110
        ),
    ),
    "weights of 4 bits": (
        "MatMulNBits",
        {"x": f32(2, 32), "w": u8(6, 2, 8), "s": f32(12)},
        "x w s",
        {"K": 32, "N": 6, "bits": 4, "block_size": 16},
        "x",
        multiply_unpacked,
    ),
    "linear layer and what follows": (
        "FusedGemm",
        {"x": f32(2, WIDTH), "w": f32(WIDTH, 6), "b": f32(6)},
        "x w b",
        {"activation": "LeakyRelu", "activation_alpha": 0.25},
        "x",
        lambda a: np.maximum(a["x"] @ a["w"] + a["b"], 0) + np.minimum(a["x"] @ a["w"] + a["b"], 0) / 4,
    ),
    "transposed batches": (
        "FusedMatMul",
        {"x": f32(5, 2, 4), "y": f32(5, 2, 3)},
        "x y",
        {"transBatchA": 1, "transA": 1, "transBatchB": 1, "alpha": 0.5},
        "x y",
        lambda a: a["x"].transpose(1, 2, 0) @ a["y"].transpose(1, 0, 2) / 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator_that_onnx_runtime_fuses_gives_its_numbers(name: str) -> None:
    """By the definition in numpy; and by ONNX Runtime itself, where it is installed."""
    from alcove.platform.cli.importing.onnx_files.make import module_of

    kind, inputs, order, attributes, live, expected = CASES[name]
    model = model_of(kind, inputs, order, attributes, live)
    module = module_of(model, Path(), {})
    with torch.no_grad():
        found = next(iter(module(*(torch.from_numpy(inputs[each]) for each in module.input_names)).values())).numpy()
    np.testing.assert_allclose(found.astype(np.float64), expected(inputs), atol=2e-5, rtol=2e-5)
    try:
        import onnxruntime
    except ImportError:
        return
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    other = session.run(None, {each: inputs[each] for each in live.split()})[0]
    np.testing.assert_allclose(found.astype(np.float64), other.astype(np.float64), atol=2e-5, rtol=2e-5)


def lstm(lengths: Any, direction: str) -> tuple[Any, Any]:
    """Return a model of a layer whose sequences have lengths of their own, and its input."""
    count = 2 if direction == "bidirectional" else 1
    helper = onnx.helper
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b", "lengths"], ["y", "h", "c"], hidden_size=3, direction=direction
    )
    weights = {"w": f32(count, 12, 4), "r": f32(count, 12, 3), "b": f32(count, 24)}
    ports = [helper.make_tensor_value_info("x", 1, [4, 2, 4]), helper.make_tensor_value_info("lengths", 6, [2])]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in ("y", "h", "c")]
    held = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([node], "test", ports, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), f32(4, 2, 4)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_sequences_of_other_lengths_end_where_they_end(direction: str) -> None:
    """Outputs behind the end are zeros, the state is that of the last step, and backward begins there."""
    from alcove.platform.cli.importing.onnx_files.make import module_of

    model, x = lstm(None, direction)
    module = module_of(model, Path(), {})
    with torch.no_grad():
        both = [each.numpy() for each in module(torch.from_numpy(x), torch.tensor([4, 2], dtype=torch.int32)).values()]
        full = torch.tensor([2, 2], dtype=torch.int32)
        short = [each.numpy() for each in module(torch.from_numpy(x), full).values()]
    assert (both[0][2:, :, 1] == 0).all()
    for index in (1, 2):
        np.testing.assert_array_equal(both[index][:, 1], short[index][:, 1])
    np.testing.assert_array_equal(both[0][:2, :, 1], short[0][:2, :, 1])


def save(nodes: Sequence[Any], inputs: dict[str, Any], outputs: Sequence[str], weights: Arrays, path: Path) -> Path:
    """Write a model of nodes; inputs are element type and shape by name."""
    helper = onnx.helper
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return path


def words(said: Any) -> str:
    """Return what a command wrote as an error, on one line."""
    return " ".join(said.err.replace("│", " ").split())


def test_a_detectors_choice_of_boxes_is_left_to_the_app(tmp_path: Path) -> None:
    """The program ends before it, and the command says so, with the numbers of the choice; not where layers follow."""
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["map"], strides=[4, 4]),
        make("Flatten", ["map"], ["flat"]),
        make("Reshape", ["flat", "to_boxes"], ["boxes"]),
        make("Sigmoid", ["flat"], ["score"]),
        make("Reshape", ["score", "to_scores"], ["scores"]),
        make("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["kept"]),
        make("Slice", ["kept", "from", "to", "last"], ["which"]),
        make("Squeeze", ["which", "last"], ["index"]),
        make("Gather", ["boxes", "index"], ["answer"], axis=1),
    ]
    weights = {
        "w": f32(4, 3, 4, 4),
        "to_boxes": np.array([1, 16, 4]),
        "to_scores": np.array([1, 1, 64]),
        "most": np.array([5]),
        "overlap": np.array([0.5], np.float32),
        "from": np.array([2]),
        "to": np.array([3]),
        "last": np.array([1]),
    }
    weights["to_scores"] = np.array([1, 4, 16])
    path = save(nodes, {"x": (1, [1, 3, 16, 16])}, ["answer"], weights, tmp_path / "net.onnx")
    out = tmp_path / "net.alc"
    said = alcove("model", "import", "--onnx", path, "--out", out)
    assert said.code == 0, said.err
    assert "left to the app: NonMaxSuppression (opset 17) of node 'kept': how many boxes it keeps depends" in said.out
    assert "boxes and scores with max_output_boxes_per_class 5, iou_threshold 0.5" in " ".join(said.out.split())
    assert "so the program gives boxes 1x16x4, scores 1x4x16 in place of answer" in " ".join(said.out.split())
    assert [port.name for port in load(out).outputs] == ["boxes", "scores"]
    said = alcove("model", "import", "--onnx", path, "--out", out, "--outputs", "boxes", "--json")
    assert said.code == 0, said.err
    facts = json.loads(said.out)
    assert facts["outputs"] == [{"name": "boxes", "shape": [1, 16, 4]}]
    assert facts["left_to_the_app"] == []
    path = save(
        [*nodes, make("MatMul", ["answer", "layer"], ["more"])],
        {"x": (1, [1, 3, 16, 16])},
        ["more"],
        weights | {"layer": f32(4, 2)},
        tmp_path / "more.onnx",
    )
    said = alcove("model", "import", "--onnx", path, "--out", out)
    assert said.code == 2
    assert "how many boxes it keeps depends on the picture; or leave it to the app: --outputs boxes,scores" in words(
        said
    )


def test_a_choice_of_boxes_in_a_loop_is_left_to_the_app_too(tmp_path: Path) -> None:
    """As TensorFlow's detectors have it, picture by picture of a batch of one."""
    helper, make = onnx.helper, onnx.helper.make_node
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            make("Gather", ["boxes", "turn"], ["one"], axis=0),
            make("Unsqueeze", ["one", "zero"], ["batch"]),
            make("NonMaxSuppression", ["batch", "scores", "most"], ["kept"]),
            make("Shape", ["kept"], ["shape"]),
            make("Gather", ["shape", "first"], ["count"]),
        ],
        "body",
        [info("turn", 7, []), info("goes", 9, [])],
        [helper.make_empty_tensor_value_info(name) for name in ("goes", "count")],
    )
    nodes = [
        make("Conv", ["x", "w"], ["map"], strides=[4, 4]),
        make("Reshape", ["map", "to_boxes"], ["boxes"]),
        make("Sigmoid", ["map"], ["score"]),
        make("Reshape", ["score", "to_scores"], ["scores"]),
        make("Shape", ["x"], ["sizes"]),
        make("Gather", ["sizes", "first"], ["pictures"]),
        make("Loop", ["pictures", "true"], ["counts"], body=body),
        make("Cast", ["counts"], ["answer"], to=1),
    ]
    weights = {
        "w": f32(4, 3, 4, 4),
        "to_boxes": np.array([1, 16, 4]),
        "to_scores": np.array([1, 4, 16]),
        "most": np.array([5]),
        "zero": np.array([0]),
        "first": np.array(0),
        "true": np.array(True),
    }
    path = save(nodes, {"x": (1, ["N", 3, 16, 16])}, ["answer"], weights, tmp_path / "net.onnx")
    said = alcove("model", "import", "--onnx", path, "--out", tmp_path / "net.alc")
    assert said.code == 0, said.err
    assert "left to the app: NonMaxSuppression (opset 17) of node 'kept'" in said.out
    assert [port.name for port in load(tmp_path / "net.alc").outputs] == ["boxes", "scores"]


def test_a_branch_by_an_input_is_chosen_by_its_constant(tmp_path: Path) -> None:
    """A sampling rate that is an input; without its value the error says how to give it."""
    helper = onnx.helper
    branches = {}
    for name, width in (("then_branch", 8), ("else_branch", 4)):
        part = helper.make_node("Slice", ["x", "zero", f"w{width}", "one"], [f"part{width}"])
        output = helper.make_empty_tensor_value_info(f"part{width}")
        branches[name] = helper.make_graph([part], name, [], [output])
    nodes = [
        helper.make_node("Equal", ["rate", "fast"], ["is_fast"]),
        helper.make_node("If", ["is_fast"], ["y"], **branches),
    ]
    weights = {
        "fast": np.int64(16000),
        "zero": np.array([0]),
        "one": np.array([1]),
        "w8": np.array([8]),
        "w4": np.array([4]),
    }
    path = save(nodes, {"x": (1, [1, 8]), "rate": (7, [])}, ["y"], weights, tmp_path / "net.onnx")
    command = ("model", "import", "--onnx", path, "--out", tmp_path / "net.alc")
    said = alcove(*command)
    assert said.code == 2
    assert "if an input is always the same, say so: --constant rate=VALUE" in words(said)
    for rate, width in ((16000, 8), (8000, 4)):
        said = alcove(*command, "--constant", f"rate={rate}")
        assert said.code == 0, said.err
        assert load(tmp_path / "net.alc")(np.ones((1, 8), np.float32))[0].shape == (1, width)


@pytest.mark.parametrize("channels", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize("is_bytes", [False, True], ids=["float32", "uint8"])
def test_the_app_gives_rgb_and_the_model_gets_its_order(channels: str, is_bytes: bool, tmp_path: Path) -> None:
    """Means and deviations are in the model's order and in pixels; a file that takes bytes gets them as they are."""
    count = 1 if channels == "gray" else 3
    make = onnx.helper.make_node
    nodes = [
        make("Cast", ["x"], ["f"], to=1),
        make("Transpose", ["f"], ["t"], perm=[0, 3, 1, 2]),
        make("ReduceMean", ["t"], ["y"], axes=[2, 3], keepdims=0),
    ]
    kind = 2 if is_bytes else 1
    path = save(nodes, {"x": (kind, [1, 12, 16, count])}, ["y"], {}, tmp_path / "net.onnx")
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    Image.new("RGB", (30, 20), (200, 100, 50)).save(pictures / "a.png")
    said = alcove(
        *("model", "import", "--onnx", path, "--pictures", pictures, "--float32", "--out", tmp_path / "net.alc"),
        *("--channels", channels, "--mean", "10,20,30" if count == 3 else "10", "--std", "2", "--fit", "letterbox"),
    )
    assert said.code == 0, said.err
    pixels = np.broadcast_to(np.array([200, 100, 50], np.uint8), (12, 16, 3)).copy()
    found = load(tmp_path / "net.alc")(pixels)[0][0]
    gray = 0.299 * 200 + 0.587 * 100 + 0.114 * 50
    orders: dict[str, list[float]] = {"rgb": [200, 100, 50], "bgr": [50, 100, 200], "gray": [gray]}
    colors = np.array(orders[channels])
    if is_bytes:
        np.testing.assert_allclose(found, colors.round(), atol=1e-3)
    else:
        np.testing.assert_allclose(found, (colors - [10, 20, 30][:count]) / 2, atol=1e-3)
