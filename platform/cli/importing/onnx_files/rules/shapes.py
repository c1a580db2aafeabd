"""Rules of operators that move elements, and of those that compute with shapes."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.limits import MAX_CONSTANT_ELEMENTS, MAX_RANK
from alcove.platform.cli.importing.onnx_files.node import Call, Function, Node, normalize_axis, rule
from alcove.platform.cli.importing.onnx_files.tensors import dtype_of
from torch import Tensor


@rule("Reshape")
def reshape(node: Node) -> Function:
    """A size of 0 is that of the input, unless zeros are meant."""
    wanted = node.ints("shape") if "shape" in node.attributes else node.integers(1, "shape")
    have = node.shape()
    if not node.int_of("allowzero"):
        if any(size == 0 and axis >= len(have) for axis, size in enumerate(wanted)):
            raise UnsupportedError(f"shape {wanted} of a tensor {list(have)}")
        wanted = [have[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if len(wanted) > MAX_RANK:
        raise UnsupportedError(f"{len(wanted)} dimensions")
    if wanted.count(-1) == 1:
        rest = math.prod(size for size in wanted if size != -1)
        wanted = [(math.prod(have) // rest if rest else 0) if size == -1 else size for size in wanted]
    if math.prod(wanted) != math.prod(have):
        raise UnsupportedError(f"a tensor {list(have)} has no shape {wanted}")
    return lambda x, _shape=None: x.reshape(wanted)


@rule("Flatten")
def flatten(node: Node) -> Function:
    """To a matrix."""
    rank = node.rank()
    axis = node.int_of("axis", 1)
    axis = axis + rank if axis < 0 else axis
    shape = node.shape()
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    return lambda x: x.reshape(rows, columns)


@rule("Squeeze")
def squeeze(node: Node) -> Function:
    """Given axes, or all of size 1."""
    shape = node.shape()
    given = node.axes(1)
    axes = {normalize_axis(axis, len(shape)) for axis in given} if given is not None else None
    if axes is not None and any(shape[axis] != 1 for axis in axes):
        raise UnsupportedError(f"axes {sorted(axes)} of a tensor {list(shape)} have not size 1")
    left = [size for axis, size in enumerate(shape) if (size != 1 if axes is None else axis not in axes)]
    return lambda x, _axes=None: x.reshape(left)


@rule("Unsqueeze")
def unsqueeze(node: Node) -> Function:
    """New axes of size 1, counted in the result."""
    given = node.axes(1) or []
    rank = node.rank() + len(given)
    if rank > MAX_RANK:
        raise UnsupportedError(f"{rank} dimensions")
    axes = {normalize_axis(axis, rank) for axis in given}
    sizes = iter(node.shape())
    shape = [1 if axis in axes else next(sizes) for axis in range(rank)]
    return lambda x, _axes=None: x.reshape(shape)


@rule("Transpose")
def transpose(node: Node) -> Function:
    """By `perm`, or all axes the other way round."""
    order = node.ints("perm", list(range(node.rank()))[::-1])
    if sorted(order) != list(range(node.rank())):
        raise UnsupportedError(f"perm {order} of a tensor with {node.rank()} dimensions")
    return lambda x: x.permute(order)


@rule("Concat")
def concat(node: Node) -> Function:
    """Along one axis."""
    axis = node.axis(1)
    if len(node.inputs) == 1:
        return lambda x: x
    return lambda *tensors: torch.cat(tensors, axis)


@rule("Split")
def split(node: Node) -> Function:
    """Into given lengths, or into as many equal parts as there are outputs."""
    axis = node.axis(0)
    length = node.shape()[axis]
    count = len(node.outputs)
    if node.has(1):
        sizes = node.integers(1, "lengths")
    elif "split" in node.attributes:
        sizes = node.ints("split")
    else:
        part = -(-length // count)
        sizes = [max(min(part, length - part * index), 0) for index in range(count)]
    if sum(sizes) != length or len(sizes) != count:
        raise UnsupportedError(f"{length} elements in parts of {sizes}")
    if count == 1:
        return lambda x, _sizes=None: x
    return lambda x, _sizes=None: tuple(torch.split(x, sizes, axis))


@rule("Slice")
def slice_(node: Node) -> Function:
    """From start to end by steps, which may be negative."""
    rank, shape = node.rank(), node.shape()
    if "starts" in node.attributes:
        starts, ends = node.ints("starts"), node.ints("ends")
        axes, steps = node.ints("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        axes = node.integers(3, "axes") if node.has(3) else list(range(len(starts)))
        steps = node.integers(4, "steps") if node.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise UnsupportedError(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    where = [slice(None)] * rank
    flips = []
    for start, end, given, step in zip(starts, ends, axes, steps, strict=True):
        axis = normalize_axis(given, rank)
        places = range(*slice(start, end if step > 0 or end >= -shape[axis] else None, step).indices(shape[axis]))
        if step > 0:
            where[axis] = slice(places.start, max(places.stop, places.start), step)
        elif places:
            where[axis] = slice(places[-1], places[0] + 1, -step)
            flips.append(axis)
        else:
            where[axis] = slice(0, 0)
    chosen = tuple(where)
    return lambda x, *_given: x[chosen].flip(flips) if flips else x[chosen]


@rule("Expand")
def expand(node: Node) -> Function:
    """Both shapes are broadcast."""
    wanted = torch.empty(tuple(node.integers(1, "shape")), device="meta")
    shape = (torch.empty(node.shape(), device="meta") + wanted).shape
    return lambda x, _shape: x.expand(shape)


@rule("Tile")
def tile(node: Node) -> Function:
    """Repeated along each axis."""
    if node.has(2):
        repeats = [1] * node.rank()
        repeats[normalize_axis(node.integers(2, "axis")[0], node.rank())] = node.integers(1, "tiles")[0]
    else:
        repeats = node.integers(1, "repeats")
    if len(repeats) != node.rank() or any(count < 0 for count in repeats):
        raise UnsupportedError(f"repeats {repeats} of a tensor with {node.rank()} dimensions")
    return lambda x, *_repeats: x.repeat(repeats)


@rule("Pad")
def pad(node: Node) -> Function:
    """With a number, the edge, or a reflection; negative pads cut off."""
    rank = node.rank()
    value = 0.0
    if not node.has(1):
        pads = node.ints("pads", node.attributes.get("paddings"))
        value = node.float_of("value")
        axes = list(range(rank))
    else:
        pads = node.integers(1, "pads")
        value = node.constant(2, "value").item() if node.has(2) and node.shape(2) in {(), (1,)} else 0.0
        axes = [normalize_axis(axis, rank) for axis in node.integers(3, "axes")] if node.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        raise UnsupportedError(f"{len(pads)} pads for {len(axes)} axes")
    both = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    mode = node.text_of("mode", "constant")
    if mode == "constant":
        flat = [each for axis in reversed(range(rank)) for each in both.get(axis, (0, 0))]
        while len(flat) > 2 and flat[-2:] == [0, 0]:
            del flat[-2:]
        if node.tensor(0).dtype is torch.bool:
            return lambda x, *_pads: F.pad(x.to(torch.uint8), flat, value=float(value)).to(torch.bool)
        return lambda x, *_pads: F.pad(x, flat, value=value)
    if mode not in {"edge", "reflect", "wrap"}:
        raise UnsupportedError(f"mode {mode!r}")
    return _pad_by_elements(node, both, mode)


def _pad_by_elements(node: Node, both: dict[int, tuple[int, int]], mode: str) -> Function:
    """Return a pad whose elements are those of the tensor."""
    shape = node.shape()
    padded = [axis for axis, pads in both.items() if pads != (0, 0)]
    names = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    last = list(range(2, len(shape)))
    is_small = all(
        0 <= amount < shape[axis] + (mode != "reflect") for axis in padded for amount in both[axis] if axis < len(shape)
    )
    if len(shape) in {3, 4, 5} and set(padded) <= set(last) and is_small and mode != "wrap":
        flat = [each for axis in reversed(last) for each in both.get(axis, (0, 0))]
        return lambda x, *_pads: F.pad(x, flat, mode=names[mode])
    places = {axis: _places(shape[axis], *both[axis], mode) for axis in padded}

    def function(x: Tensor, *_pads: Tensor | None) -> Tensor:
        for axis, chosen in places.items():
            x = x.index_select(axis, torch.tensor(chosen, device=x.device))
        return x

    return function


def _places(size: int, before: int, after: int, mode: str) -> list[int]:
    """Return which element is at each place of a padded axis."""
    if size < 1 or size + before + after > MAX_CONSTANT_ELEMENTS:
        raise UnsupportedError(f"pads {before} and {after} of {size} elements")
    if mode == "edge" or size == 1:
        return [min(max(at, 0), size - 1) for at in range(-before, size + after)]
    if mode == "wrap":
        return [at % size for at in range(-before, size + after)]
    period = 2 * (size - 1)
    return [min(at % period, period - at % period) for at in range(-before, size + after)]


@rule("Shape")
def shape_of(node: Node) -> Call:
    """Sizes are known: they become constants."""
    rank = node.rank()
    start, end = node.int_of("start"), node.int_of("end", rank)
    sizes = list(node.shape()[slice(start, end)])
    return Call(lambda: torch.tensor(sizes, dtype=torch.int64), is_known=True)


@rule("Size")
def size_of(node: Node) -> Call:
    """The number of elements."""
    count = math.prod(node.shape())
    return Call(lambda: torch.tensor(count, dtype=torch.int64), is_known=True)


@rule("ConstantOfShape")
def constant_of_shape(node: Node) -> Function:
    """One number everywhere."""
    shape = node.integers(0, "shape")
    if any(size < 0 for size in shape) or len(shape) > MAX_RANK:
        raise UnsupportedError(f"shape {shape}")
    value = node.attributes.get("value", torch.zeros(1))
    number, dtype = value.flatten()[0].item(), value.dtype
    return lambda _shape: torch.full(shape, number, dtype=dtype)


@rule("Constant")
def constant(node: Node) -> Function:
    """A tensor, a number, or a list of them."""
    for name, dtype in (("value_int", torch.int64), ("value_ints", torch.int64), ("value_float", torch.float32)):
        if name in node.attributes:
            given = node.attributes[name]
            return lambda: torch.tensor(given, dtype=dtype)
    if "value_floats" in node.attributes:
        numbers = node.attributes["value_floats"]
        return lambda: torch.tensor(numbers, dtype=torch.float32)
    value = node.attributes.get("value")
    if not isinstance(value, Tensor):
        raise UnsupportedError(f"a constant given by {', '.join(node.attributes) or 'nothing'}")
    return lambda: value


@rule("Range")
def range_(node: Node) -> Function:
    """From start to limit by steps."""
    start, limit, delta = (node.constant(index, "bounds").item() for index in range(3))
    dtype = node.tensor(0).dtype
    if delta == 0 or (limit - start) / delta > MAX_CONSTANT_ELEMENTS:
        raise UnsupportedError(f"a range from {start} to {limit} by {delta}")
    count = max(math.ceil((limit - start) / delta), 0)
    return lambda *_bounds: (torch.arange(count) * delta + start).to(dtype)


@rule("EyeLike")
def eye_like(node: Node) -> Call:
    """Ones on a diagonal."""
    rows, columns = node.shape()
    k = node.int_of("k")
    dtype = dtype_of(node.int_of("dtype")) if "dtype" in node.attributes else node.tensor(0).dtype

    def diagonal() -> Tensor:
        return (torch.arange(columns)[None, :] - torch.arange(rows)[:, None] == k).to(dtype)

    return Call(diagonal, is_known=True)


@rule("DepthToSpace", "SpaceToDepth")
def move_blocks(node: Node) -> Function:
    """Blocks of pixels to channels, and back."""
    block = node.int_of("blocksize")
    batch, channels, height, width = node.shape()
    if block < 1:
        raise UnsupportedError(f"blocksize {block}")
    if node.kind == "SpaceToDepth":
        rows, columns = height // block, width // block
        order = (0, 1, 3, 5, 2, 4) if node.text_of("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
        return lambda x: (
            x.reshape(batch, channels, rows, block, columns, block)
            .permute(order)
            .reshape(batch, channels * block * block, rows, columns)
        )
    if node.text_of("mode", "DCR") == "CRD":
        return lambda x: F.pixel_shuffle(x, block)
    inner = channels // (block * block)
    return lambda x: (
        x.reshape(batch, block, block, inner, height, width)
        .permute(0, 3, 4, 1, 5, 2)
        .reshape(batch, inner, height * block, width * block)
    )


@rule("Trilu")
def trilu(node: Node) -> Function:
    """The upper or the lower triangle of matrices."""
    diagonal = node.integers(1, "diagonal")[0] if node.has(1) else 0
    function = torch.triu if node.int_of("upper", 1) else torch.tril
    return lambda x, _diagonal=None: function(x, diagonal)
