"""Rules of operators that resize pictures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import CUT, UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Call, Function, Node, normalize_axis, rule
from torch import Tensor

LARGEST_AXIS: Final = 1 << 14
"""Elements of an axis that is resized."""
LARGEST_MATRIX: Final = 1 << 24
"""Elements of a matrix that resizes an axis: 64 MiB in float32."""


@dataclass(frozen=True)
class Form:
    """How a tensor is resized.

    Attributes:
        shape: of the tensor.
        sizes: of the result.
        scales: of each axis.
        mode: nearest, linear or cubic.
        coordinates: where an element of the result lies.
        nearest: how a place is rounded.
        coefficient: of Keys' kernel.
        is_wide: whether the kernel widens where the result is smaller.
        excludes: whether places outside have no weight.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    scales: tuple[float, ...]
    mode: str
    coordinates: str = "asymmetric"
    nearest: str = "floor"
    coefficient: float = -0.75
    is_wide: bool = False
    excludes: bool = False

    @property
    def axes(self) -> list[int]:
        """Axes that change."""
        return [axis for axis, scale in enumerate(self.scales) if self.sizes[axis] != self.shape[axis] or scale != 1]

    def source(self, axis: int, at: int) -> float:
        """Return where an element of the result lies in the tensor."""
        size, wanted, scale = self.shape[axis], self.sizes[axis], self.scales[axis]
        if self.coordinates == "asymmetric":
            return at / scale
        if self.coordinates == "align_corners":
            return at * (size - 1) / (wanted - 1) if wanted > 1 else 0.0
        if self.coordinates == "tf_half_pixel_for_nn":
            return (at + 0.5) / scale
        if self.coordinates == "pytorch_half_pixel" and wanted == 1:
            return 0.0
        if self.coordinates in {"half_pixel", "pytorch_half_pixel"}:
            return (at + 0.5) / scale - 0.5
        if self.coordinates == "half_pixel_symmetric":
            adjusted = wanted / (scale * size)
            return size / 2 * (1 - adjusted) + (at + 0.5) / scale - 0.5
        raise UnsupportedError(f"coordinate_transformation_mode {self.coordinates!r}; {CUT}")

    def places(self, axis: int) -> list[int]:
        """Return the nearest element to each of the result."""
        last = self.shape[axis] - 1
        return [min(max(_round(self.source(axis, at), self.nearest), 0), last) for at in range(self.sizes[axis])]


@rule("Upsample")
def upsample(node: Node) -> Function | Call:
    """By scales; pixels begin where they begin before."""
    if "scales" in node.attributes:
        scales = [float(each) for each in node.attributes["scales"]]
    elif node.has(1):
        scales = [float(each) for each in node.constant(1, "scales").tolist()]
    else:
        scales = [1.0, 1.0, node.float_of("height_scale", 1.0), node.float_of("width_scale", 1.0)]
    shape = node.shape()
    sizes = [math.floor(size * scale) for size, scale in zip(shape, scales, strict=True)]
    mode = {"bilinear": "linear"}.get(node.text_of("mode", "nearest"), node.text_of("mode", "nearest"))
    return _resize(node, Form(shape, tuple(sizes), tuple(scales), mode))


@rule("Resize")
def resize(node: Node) -> Function | Call:
    """By scales or to sizes."""
    rank, shape = node.rank(), node.shape()
    if node.opset < 11:
        scales = [float(each) for each in node.constant(1, "scales").tolist()]
        sizes = [math.floor(size * scale) for size, scale in zip(shape, scales, strict=True)]
        return _resize(node, Form(shape, tuple(sizes), tuple(scales), node.text_of("mode", "nearest")))
    axes = [normalize_axis(axis, rank) for axis in node.ints("axes", list(range(rank)))]
    scales, sizes = [1.0] * rank, list(shape)
    if node.has(3) and node.tensor(3).numel():
        given = node.integers(3, "sizes")
        given, factors = _fit(node, [shape[axis] for axis in axes], given)
        for axis, size, factor in zip(axes, given, factors, strict=True):
            sizes[axis], scales[axis] = size, factor
    elif node.has(2):
        for axis, scale in zip(axes, node.constant(2, "scales").tolist(), strict=True):
            scales[axis], sizes[axis] = float(scale), math.floor(shape[axis] * float(scale))
    else:
        raise UnsupportedError("neither scales nor sizes")
    form = Form(
        shape,
        tuple(sizes),
        tuple(scales),
        node.text_of("mode", "nearest"),
        node.text_of("coordinate_transformation_mode", "half_pixel"),
        node.text_of("nearest_mode", "round_prefer_floor"),
        node.float_of("cubic_coeff_a", -0.75),
        bool(node.int_of("antialias")),
        bool(node.int_of("exclude_outside")),
    )
    return _resize(node, form)


def _fit(node: Node, have: Sequence[int], given: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return sizes and scales, by the policy that keeps the aspect ratio if there is one."""
    policy = node.text_of("keep_aspect_ratio_policy", "stretch")
    scales = [want / size for want, size in zip(given, have, strict=True)]
    if policy == "stretch":
        return list(given), scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(size * scale + 0.5) for size in have], [scale] * len(have)


def _resize(node: Node, form: Form) -> Function | Call:
    """Return a function that resizes the axes whose sizes or scales differ, one after the other."""
    axes = form.axes
    if any(size < 1 or size > LARGEST_AXIS for size in (*form.sizes, *form.shape)):
        raise UnsupportedError(f"from {list(form.shape)} to {list(form.sizes)} elements")
    if not axes:
        return lambda x, *_rest: x
    plain = _interpolation(form)
    if plain is not None:
        return plain
    if form.mode == "nearest":
        return _pick({axis: form.places(axis) for axis in axes})
    if form.mode not in {"linear", "cubic"}:
        raise UnsupportedError(f"mode {form.mode!r}")
    matrices = tuple(_matrix(form, axis) for axis in axes)

    def function(*given: Tensor) -> Tensor:
        x = given[0]
        for axis, matrix in zip(axes, given[len(given) - len(axes) :], strict=True):
            x = torch.matmul(x.movedim(axis, -1), matrix).movedim(-1, axis)
        return x

    return Call(function, matrices, frozenset(range(1, len(node.inputs))))


def _interpolation(form: Form) -> Function | None:
    """Return torch's own function, where it computes the same."""
    rank = len(form.shape)
    inner = list(range(2, rank))
    exact = all(abs(form.scales[axis] * form.shape[axis] - form.sizes[axis]) < 1e-4 for axis in form.axes)
    if rank not in {3, 4, 5} or not set(form.axes) <= set(inner) or not exact:
        return None
    target = [form.sizes[axis] for axis in inner]
    if form.mode == "nearest":
        wholes = all(form.sizes[axis] % form.shape[axis] == 0 for axis in inner)
        # Each element is repeated: its copies are nearer to it than to its neighbors.
        repeats = all(
            form.places(axis) == [at * form.shape[axis] // form.sizes[axis] for at in range(form.sizes[axis])]
            for axis in form.axes
        )
        return (lambda x, *_rest: F.interpolate(x, size=target, mode="nearest")) if wholes and repeats else None
    if form.mode != "linear" or form.is_wide or form.excludes:
        return None
    name = {3: "linear", 4: "bilinear", 5: "trilinear"}[rank]
    is_half = form.coordinates == "half_pixel" or (
        form.coordinates == "pytorch_half_pixel" and all(form.sizes[axis] > 1 for axis in form.axes)
    )
    if is_half or form.coordinates == "align_corners":
        corners = form.coordinates == "align_corners"
        return lambda x, *_rest: F.interpolate(x, size=target, mode=name, align_corners=corners)
    return None


def _pick(places: dict[int, list[int]]) -> Function:
    """Return a choice of elements along axes."""

    def function(x: Tensor, *_rest: Tensor | None) -> Tensor:
        for axis, chosen in places.items():
            x = x.index_select(axis, torch.tensor(chosen))
        return x

    return function


def _round(place: float, nearest: str) -> int:
    if nearest == "floor":
        return math.floor(place)
    if nearest == "ceil":
        return math.ceil(place)
    if nearest == "round_prefer_ceil":
        return math.floor(place + 0.5)
    return math.ceil(place - 0.5)


def _matrix(form: Form, axis: int) -> Tensor:
    """Return the weight of each element [size, wanted] in each element of the result."""
    size, wanted = form.shape[axis], form.sizes[axis]
    if size * wanted > LARGEST_MATRIX:
        raise UnsupportedError(f"from {size} to {wanted} elements")
    widen = max(1 / form.scales[axis], 1.0) if form.is_wide else 1.0
    kernel = partial(_cubic, a=form.coefficient) if form.mode == "cubic" else _linear
    reach = (2 if form.mode == "cubic" else 1) * widen
    matrix = torch.zeros((size, wanted), dtype=torch.float64)
    for at in range(wanted):
        place = form.source(axis, at)
        near = range(math.floor(place - reach) + 1, math.ceil(place + reach))
        weights = [(each, kernel((each - place) / widen)) for each in (near or [math.floor(place)])]
        if form.excludes:
            weights = [(each, weight) for each, weight in weights if 0 <= each < size]
        total = sum(weight for _, weight in weights) or 1.0
        for each, weight in weights:
            matrix[min(max(each, 0), size - 1), at] += weight / total
    return matrix.float()


def _linear(distance: float) -> float:
    return max(1 - abs(distance), 0.0)


def _cubic(distance: float, a: float) -> float:
    """Return Keys' kernel (1981)."""
    x = abs(distance)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    if x < 2:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return 0.0


@rule("GridSample")
def grid_sample(node: Node) -> Function:
    """At places that another tensor names."""
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    mode = node.text_of("mode", "bilinear")
    mode = modes.get(mode, mode)
    padding = node.text_of("padding_mode", "zeros")
    corners = bool(node.int_of("align_corners"))
    return lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)


@rule("AffineGrid")
def affine_grid(node: Node) -> Function:
    """Places for `GridSample`, by affine maps."""
    size = node.integers(1, "size")
    corners = bool(node.int_of("align_corners"))
    return lambda theta, _size: F.affine_grid(theta, size, align_corners=corners)


@rule("Col2Im")
def col2im(node: Node) -> Function:
    """Sums of overlapping blocks."""
    image, block = node.integers(1, "image shape"), node.integers(2, "block shape")
    pads = node.ints("pads", [0] * 2 * len(block))
    before, after = pads[: len(block)], pads[len(block) :]
    if len(block) != 2 or before != after:
        raise UnsupportedError(f"blocks {block} with pads {pads}")
    dilations, strides = node.ints("dilations", [1, 1]), node.ints("strides", [1, 1])
    options = [tuple(each) for each in (image, block, dilations, before, strides)]
    return lambda x, *_shapes: F.fold(x, *options)
