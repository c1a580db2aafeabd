"""Permutes between the operators of images are removed or merged, without changing what the program computes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import load
from alcove.runtime.compiler import permutations
from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.layout import layout
from alcove.runtime.compiler.legalize import legalize
from alcove.runtime.compiler.lower import lower
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn


class Residual(nn.Module):
    """Two convolutions, a squeeze and excitation, and a sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.squeeze, self.excite = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        y = self.norm(self.second(F.hardswish(self.first(x))))
        s = F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))
        return F.relu(x + y * torch.sigmoid(self.excite(s)))


class Classifier(nn.Module):
    """A stem, residual blocks, pooling, and a linear on top."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.blocks = nn.Sequential(Residual(8), nn.MaxPool2d(2), Residual(8))
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        y = self.blocks(F.relu6(self.stem(x)))
        logits: Tensor = self.out(F.adaptive_avg_pool2d(y, 1).flatten(1))
        return logits


class Segmenter(nn.Module):
    """Down, up, joined with what was before, reflected margins and slices; an image comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 6, 3, 2, padding_mode="reflect", padding=1), nn.Conv2d(6, 8, 3, 2, 1)
        self.up = nn.ConvTranspose2d(8, 6, 2, 2)
        self.join, self.out = nn.Conv2d(12, 4, 3), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        y = F.elu(self.down(x))
        z = F.pad(torch.cat([y, self.up(F.gelu(self.deep(y)))], 1), (1, 1, 1, 1), mode="replicate")
        z = torch.where(z > 0, z, z * 0.1)
        z = F.interpolate(torch.softmax(self.join(z), 1), scale_factor=2, mode="bilinear")
        return self.out(z[:, :, 1:-1, ::2])


class Patches(nn.Module):
    """Patches as a sequence, normed over channels, and back to an image."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8)
        self.mix, self.after = nn.Linear(8, 8), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        y = self.mix(self.norm(self.patch(x).flatten(2).transpose(1, 2)))
        return self.after(y.transpose(1, 2).reshape(x.shape[0], 8, 4, 4))


class Separator(nn.Module):
    """One dimension: dilated convolutions with norms, a gate and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(2, 8, 3, padding=1), nn.BatchNorm1d(8)
        self.dilated, self.out = nn.Conv1d(8, 8, 3, padding=4, dilation=4, groups=8), nn.Conv1d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        y = F.relu(self.norm(self.first(x)))
        return self.out(F.glu(y + self.dilated(y), 1)) * x


MODELS: Sequence[tuple[type[nn.Module], tuple[int, ...], int]] = [
    (Classifier, (2, 3, 16, 16), 1),
    (Segmenter, (2, 3, 16, 16), 3),
    (Patches, (2, 3, 16, 16), 2),
    (Separator, (2, 2, 19), 5),
]
"""Module, input, and how many copies stay: of the input and the output; the slice; the halves of the gate."""


def copies(graph: Graph) -> int:
    """Return how many nodes copy with strides."""
    return sum(node.op == "as_strided_copy" for node in graph.nodes)


def lower_and_legalize(module: nn.Module, x: Tensor) -> Graph:
    """Return the graph before the pass, with running statistics that are none of 0 and 1."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.running_mean, part.running_var = torch.randn(part.num_features), torch.rand(part.num_features) + 0.5
    return legalize(eliminate_dead_code(lower(capture(module.eval(), (x,), None))))


def answers(graph: Graph, *inputs: Tensor) -> list[Any]:
    """Run the program of a graph."""
    return list(load(generate_program(graph))(*(x.numpy() for x in inputs)))


@pytest.mark.parametrize(("kind", "shape", "left"), MODELS)
def test_images_stay_channels_last_from_first_to_last(kind: type[nn.Module], shape: tuple[int, ...], left: int) -> None:
    """What is left copies the input and the output, or slices; the outputs are those of before."""
    x = torch.randn(shape)
    before = lower_and_legalize(kind(), x)
    after = layout(before)
    assert copies(before) > left
    assert copies(after) == left
    for seen, expected in zip(answers(after, x), answers(before, x), strict=True):
        np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-6)


def test_permutes_that_move_ones_are_reshapes() -> None:
    """Between [n, c, 1, 1] and [n, 1, 1, c] nothing is copied."""
    module = nn.Sequential(nn.Conv2d(4, 8, 1), nn.SiLU(), nn.Conv2d(8, 4, 1))
    assert copies(layout(lower_and_legalize(module, torch.randn(3, 4, 1, 1)))) == 0


def test_an_output_in_the_middle_keeps_its_order() -> None:
    """It is copied for the caller; the next operator does not read the copy."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.tanh(self.first(x))
            return y, self.second(y)

    x = torch.randn(1, 3, 7, 8)
    before = lower_and_legalize(Both(), x)
    after = layout(before)
    assert copies(after) == 3
    for seen, expected in zip(answers(after, x), answers(before, x), strict=True):
        assert seen.shape == expected.shape
        np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-6)


def test_a_permute_is_not_sunk_where_it_would_cost_more() -> None:
    """One small view among large values of the other order is copied itself."""

    class Added(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.cat([x, x * 2, y.permute(0, 2, 1)], 2)

    x, y = torch.randn(2, 5, 60), torch.randn(2, 3, 5)
    before = legalize(eliminate_dead_code(lower(capture(Added().eval(), (x, y), None))))
    after = layout(before)
    assert copies(after) == 1
    np.testing.assert_array_equal(answers(after, x, y)[0], answers(before, x, y)[0])


def test_a_copy_of_a_copy_reads_what_the_first_read() -> None:
    """Heads of queries, keys and values: a permute and a selection are one copy each."""

    class Heads(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            q, k, v = x.reshape(2, 5, 3, 4, 6).permute(2, 0, 3, 1, 4).unbind(0)
            return q, k[:, ::2].transpose(-1, -2), v.flip(1)

    x = torch.randn(2, 5, 72)
    before = legalize(eliminate_dead_code(lower(capture(Heads().eval(), (x,), None))))
    after = layout(before)
    assert copies(after) == 3 < copies(before)
    for seen, expected in zip(answers(after, x), Heads()(x), strict=True):
        np.testing.assert_array_equal(seen, expected.numpy())


def view_of(data: st.DataObject, array: Any) -> Any:
    """Return a permute, a slice, a mirror image, a selection or a repetition."""
    kind = data.draw(st.sampled_from(["permute", "slice", "flip", "select", "repeat"]))
    axis = data.draw(st.integers(0, array.ndim - 1))
    if kind == "permute":
        return array.transpose(data.draw(st.permutations(range(array.ndim))))
    if kind == "slice":
        start, step = data.draw(st.integers(0, array.shape[axis] - 1)), data.draw(st.integers(1, 3))
        return array[(slice(None),) * axis + (slice(start, None, step),)]
    if kind == "flip":
        return np.flip(array, axis)
    if kind == "select" and array.ndim > 1:
        return array[(slice(None),) * axis + (data.draw(st.integers(0, array.shape[axis] - 1)),)]
    shape = (*array.shape[:axis], data.draw(st.integers(1, 3)), *array.shape[axis:])
    return np.broadcast_to(np.expand_dims(array, axis), shape)


def copy_of(view: Any, array: Any) -> permutations.Copy:
    """Return how a view is read from its array."""
    first = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    return permutations.Copy(first // array.itemsize, tuple(stride // array.itemsize for stride in view.strides))


@given(st.data())
def test_copies_of_copies_are_what_numpy_says(data: st.DataObject) -> None:
    """Two views, one after the other, of every kind, from the first one's source."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    source = np.arange(math.prod(shape)).reshape(shape)
    first = view_of(data, source)
    middle = np.ascontiguousarray(first).reshape(first.shape)
    second = view_of(data, middle)
    both = copy_of(first, source).then(middle.shape, second.shape, copy_of(second, middle))
    assert both is not None
    places = np.full(second.shape, both.offset)
    for axis, (size, stride) in enumerate(zip(second.shape, both.strides, strict=True)):
        places += (np.arange(size) * stride).reshape(-1, *(1 for _ in second.shape[axis + 1 :]))
    assert np.array_equal(source.reshape(-1)[places], second)


def test_copies_that_no_single_one_gives() -> None:
    """A result that continues from one row of the middle to the next."""
    first = permutations.Copy(0, (8, 1))  # two rows of four, of a source with rows of eight
    assert first.then((2, 4), (8,), permutations.Copy(0, (1,))) is None


@given(st.data())
def test_reshaped_views_are_what_numpy_says(data: st.DataObject) -> None:
    """Order and base after a reshape of a view, wherever there is one."""
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    base = np.arange(math.prod(shape)).reshape(shape)
    view = base.transpose(order)
    factors = [part for size in view.shape for part in ((2, 2) if size == 4 else (size,))]
    out: list[int] = []
    while factors:
        count = data.draw(st.integers(1, len(factors)))
        out.append(math.prod(factors[:count]))
        factors = factors[count:]
    found = permutations.reshape_view(order, shape, out)
    if permutations.keeps_elements(order, shape):
        assert found is not None
    if found is not None:
        left, sizes = found
        assert np.array_equal(base.reshape(sizes).transpose(left), view.reshape(out))


@given(st.data())
def test_orders_are_read_from_strides(data: st.DataObject) -> None:
    """Of a permute; and from a slice, where each dimension starts and how it steps."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    base = np.arange(math.prod(shape)).reshape(shape)
    view = base.transpose(order)
    found = permutations.order_of_strides(shape, view.shape, 0, [stride // 8 for stride in view.strides])
    assert found is not None
    assert np.array_equal(base.transpose(found), view)
    slices = tuple(slice(data.draw(st.integers(0, size - 1)), None, data.draw(st.integers(1, 3))) for size in shape)
    part = base[slices]
    strides_of_part = [stride // 8 for stride in part.strides]
    steps = permutations.steps_of_strides(shape, part.shape, int(part.flat[0]), strides_of_part)
    assert steps is not None
    starts, strides = steps
    picked = [start + step * np.arange(size) for start, step, size in zip(starts, strides, part.shape, strict=True)]
    assert np.array_equal(base[np.ix_(*picked)], part)
