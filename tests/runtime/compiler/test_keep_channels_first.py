"""1x1 convolutions between images whose channels come first work on them as they are, with the same values."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ProgramError, export, load
from alcove.runtime.compiler import pipeline
from alcove.runtime.compiler.costs import Pointwise
from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.weights import load_state
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from tests.runtime.compiler.fusing import Of


def operators(module: nn.Module, *inputs: Tensor, **options: Any) -> list[str]:
    """Return the operators of a module's program, whose answers are torch's."""
    program = export(module.eval(), inputs, **options)
    with torch.no_grad():
        expected = module(*inputs)
    answers = load(bytes(program))(*[each.numpy() for each in inputs])
    expected = expected if isinstance(expected, tuple) else (expected,)
    for answer, each in zip(answers, expected, strict=True):
        np.testing.assert_allclose(answer, each.numpy(), rtol=1e-4, atol=1e-4)
    return [op.name for op in program.spec.ops]


def keep_all(graph: Graph, _chosen: object) -> Graph:
    """Return the graph: a pipeline without the pass."""
    return graph


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("after", [None, torch.relu, functional.relu6, functional.hardswish])
def test_a_layer_gives_the_bits_of_conv2d_without_transposes(
    after: Callable[[Tensor], Tensor] | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pixels that fill blocks, panels, neither; few and many channels; a batch; each activation inside."""
    torch.manual_seed(1)
    for batch, inputs, outputs, rows, columns in ((1, 16, 16, 28, 28), (3, 5, 33, 7, 11), (2, 40, 2, 1, 17)):
        layer: nn.Module = nn.Conv2d(inputs, outputs, 1)
        module = (layer if after is None else Of(lambda x, layer: after(layer(x)), layer)).eval()
        x = torch.randn(batch, inputs, rows, columns)
        kept = export(module, (x,))
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "keep_channels_first", keep_all)
            plain = export(module, (x,))
        assert [op.name for op in kept.spec.ops if op.name != "reshape"] == ["pointwise_conv2d"]
        assert [op.name for op in plain.spec.ops].count("as_strided_copy") == 2
        expected = load(bytes(plain))(x.numpy())[0]
        assert load(bytes(kept)).session(threads=threads)(x.numpy())[0].tobytes() == expected.tobytes()


def test_layers_of_signals_and_attention_over_pixels_keep_the_order() -> None:
    """A Conv1d of width 1, and one whose pixels become positions."""
    torch.manual_seed(2)
    assert "pointwise_conv2d" in operators(nn.Conv1d(12, 7, 1), torch.randn(2, 12, 50))
    flat = Of(lambda x, layer: layer(x).flatten(2), nn.Conv2d(16, 8, 1))
    assert operators(flat, torch.randn(1, 16, 9, 9)).count("pointwise_conv2d") == 1


def test_images_that_someone_else_reads_channels_last_stay_so() -> None:
    """Two layers of one image, a layer before another, windows, steps, groups: none is alone between transposes."""
    torch.manual_seed(3)
    x = torch.randn(1, 16, 12, 12)
    two = Of(lambda x, one, other: (one(x), other(x)), nn.Conv2d(16, 8, 1), nn.Conv2d(16, 9, 1))
    row = nn.Sequential(nn.Conv2d(16, 8, 1), nn.ReLU(), nn.Conv2d(8, 9, 3, padding=1))
    others = (nn.Conv2d(16, 8, 1, stride=2), nn.Conv2d(16, 8, 1, padding=1), nn.Conv2d(16, 8, 1, groups=2))
    for module in (two, row, *others, nn.Conv2d(16, 8, 3)):
        assert "pointwise_conv2d" not in operators(module, x)


def test_a_crop_before_a_layer_is_no_transpose() -> None:
    """The layer reads a part of the image: what is copied is not all of it."""
    torch.manual_seed(4)
    cropped = Of(lambda x, layer: layer(x[:, :, 2:9, 1:8]), nn.Conv2d(16, 8, 1))
    assert "pointwise_conv2d" not in operators(cropped, torch.randn(1, 16, 12, 12))


def test_sizes_may_vary() -> None:
    """One program for all batches, heights and widths, in one thread and in two."""
    torch.manual_seed(5)
    layer = nn.Conv2d(6, 10, 1).eval()
    sizes = {0: Dim("batch", min=1, max=3), 2: Dim("height", min=1, max=9), 3: Dim("width", min=1, max=40)}
    program = export(layer, (torch.randn(3, 6, 9, 40),), dynamic_shapes=(sizes,))
    assert "pointwise_conv2d" in [op.name for op in program.spec.ops]
    model = load(bytes(program))
    for batch, rows, columns in product(range(1, 4), (1, 2, 9), (1, 2, 15, 16, 17, 40)):
        x = torch.randn(batch, 6, rows, columns)
        with torch.no_grad():
            expected = layer(x).numpy()
        for threads in (1, 2):
            answer = model.session(threads=threads)(x.numpy())[0]
            np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-5)


def test_weights_are_found_again() -> None:
    """Weight and bias come back as the module had them."""
    layer = nn.Conv2d(16, 24, 1).eval()
    state = load_state(export(layer, (torch.randn(1, 16, 9, 9),)).spec)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(np.asarray(state[name]), value.numpy(), err_msg=name)


def test_weights_of_sixteen_bits_keep_the_form_that_has_them() -> None:
    """The form's weights are float32 alone."""
    program = export(nn.Conv2d(16, 24, 1).eval(), (torch.randn(1, 16, 9, 9),), quantize="float16_weights")
    assert "pointwise_conv2d" not in [op.name for op in program.spec.ops]


def test_where_a_panel_would_be_mostly_empty_the_transposes_are_cheaper() -> None:
    """One pixel of 16 that a panel has, with many channels."""
    assert not Pointwise(1, 1, 256, 256).is_faster
    assert Pointwise(1, 28 * 28, 16, 16).is_faster


def program(weight: tuple[int, ...], out: tuple[int, ...], room: int, *, x: tuple[int, ...] = (2, 3, 20)) -> bytes:
    """Return one pointwise_conv2d."""
    build = Assembly()
    inputs = [build.input("x", DType.F32, x), build.constant("weight", np.ones(weight, np.float32))]
    outputs = [(DType.F32, out), (DType.U8, (room,))]
    build.output("y", build.op("pointwise_conv2d", inputs, *outputs, attributes=(0, -np.inf, np.inf))[0])
    return build.program()


def test_a_program_whose_sizes_do_not_fit_is_refused() -> None:
    """Each size by one too many or too few."""
    room = 64 * 2 * 5
    answer = load(program((4, 4), (2, 4, 20), room))(np.ones((2, 3, 20), np.float32))[0]
    np.testing.assert_array_equal(answer, np.full((2, 4, 20), 4.0))
    for weight, out, scratch in (
        ((4, 3), (2, 4, 20), room),
        ((4, 5), (2, 4, 20), room),
        ((4, 4), (1, 4, 20), room),
        ((4, 4), (2, 5, 20), room),
        ((4, 4), (2, 4, 21), room),
        ((4, 4), (2, 4, 20), room - 1),
    ):
        with pytest.raises(ProgramError):
            load(program(weight, out, scratch))
    with pytest.raises(ProgramError):
        load(program((4, 4), (2, 4, 20), room, x=(2, 60)))
