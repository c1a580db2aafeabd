"""Finds how far a network sees, and exports it for `alcove.runtime.tiles`.

    program = export_tiled(module, picture, tile_px=256)
    run_tiled(load(program), whole_picture)

Every value of torch's graph that varies over the picture has a `_Sight` along each axis: output j depends on the inputs
from pace * j + low to pace * j + high (Araujo, Norris, Sim, "Computing receptive fields of convolutional neural
networks", 2019; here as fractions, for upsampling).  What is not local, or differs with the picture's size, is refused
with its layer.  A 3x3 convolution may take Winograd's form, whose tile of 4 x 4 outputs rounds with all of its 6 x 6
inputs: such a layer sees three further and begins at multiples of four.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import torch
from alcove.runtime.compiler.methods import Method
from alcove.runtime.compiler.pipeline import export
from alcove.runtime.compiler.quantize.options import Quantization
from alcove.runtime.compiler.source import source_of_stack
from alcove.runtime.errors import ArgumentError, ExportError, Finding
from alcove.runtime.program import Program
from alcove.runtime.tiles import METHOD, Axis, Tiling
from torch import Tensor, fx, nn

_WINOGRAD: Final = 4
"""Outputs of a side of Winograd's tile."""
# fmt: off
_ELEMENTWISE: Final = frozenset((
    "_assert_tensor_metadata", "_to_copy", "abs", "add", "alias", "batch_norm", "ceil", "clamp", "clamp_max",
    "clamp_min", "clone", "contiguous", "cos", "detach", "div", "dropout", "elu", "eq", "exp", "expm1", "floor",
    "ge", "gelu", "gt", "hardsigmoid", "hardswish", "hardtanh", "le", "leaky_relu", "lift_fresh_copy", "log",
    "log1p", "logical_and", "logical_not", "logical_or", "lt", "maximum", "minimum", "mish", "mul", "nan_to_num",
    "ne", "neg", "pow", "prelu", "reciprocal", "relu", "relu6", "round", "rsqrt", "rsub", "sigmoid", "silu",
    "sin", "softplus", "sqrt", "square", "sub", "tanh", "to", "type_as", "where",
))
# fmt: on


@dataclass(frozen=True)
class _Sight:
    """What outputs along one axis depend on, in inputs of the program."""

    pace: Fraction = Fraction(1)
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(0)

    def down(self, step: int, low: int, high: int) -> "_Sight":
        """Return that of an output that sees from `step * j + low` to `step * j + high` of this."""
        return _Sight(self.pace * step, self.low + self.pace * low, self.high + self.pace * high)

    def up(self, factor: int, low: Fraction, high: Fraction) -> "_Sight":
        """Return that of an output that sees from `j / factor + low` to `j / factor + high` of this."""
        return _Sight(self.pace / factor, self.low + self.pace * low, self.high + self.pace * high)


@dataclass(frozen=True)
class _Spread:
    """A value that varies over the picture: its sights along height and width, and which axes those are."""

    sights: tuple[_Sight, _Sight]
    axes: tuple[int, int]

    def with_sights(self, change: Callable[[int, _Sight], _Sight]) -> "_Spread":
        return replace(self, sights=(change(0, self.sights[0]), change(1, self.sights[1])))


class _NotLocalError(Exception):
    """Why an operator is not local."""


class _Reader:
    """Follows a graph; collects at which places tiles may begin.

    Args:
        has_winograd: whether convolutions may take that form.
    """

    def __init__(self, *, has_winograd: bool) -> None:
        self._has_winograd = has_winograd
        self.step = 1
        self.multiple = 1

    def read(self, node: fx.Node, spreads: Mapping[fx.Node, _Spread]) -> _Spread | None:
        """Return the spread of a node's value; None for one that does not vary.

        Raises:
            _NotLocalError: an output depends on more than a neighborhood, or on where it is.
        """
        given = [each for each in node.all_input_nodes if each in spreads]
        if not given:
            return None
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        if name in _ELEMENTWISE:
            found = self._join(node, spreads)
        elif name in {"cat", "concat"}:
            found = self._join(node, spreads)
            axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
            self._keep_axes(node, found, axis)
        elif (rule := _RULES.get(name)) is not None:
            found = rule(self, node, spreads[given[0]])
        else:
            raise _NotLocalError(
                "no rule says that it is local; run this part on the whole picture, as a program of its own"
            )
        for sight in found.sights:
            self.step = math.lcm(self.step, sight.pace.numerator)
        return found

    def _join(self, node: fx.Node, spreads: Mapping[fx.Node, _Spread]) -> _Spread:
        inputs = [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), Tensor)]
        rank = node.meta["val"].dim()
        joined: _Spread | None = None
        for each in inputs:
            own = spreads.get(each)
            if own is None:
                continue
            shift = rank - each.meta["val"].dim()
            own = replace(own, axes=(own.axes[0] + shift, own.axes[1] + shift))
            if joined is None:
                joined = own
                continue
            if own.axes != joined.axes or any(a.pace != b.pace for a, b in zip(own.sights, joined.sights, strict=True)):
                raise _NotLocalError("it joins values of different scales")
            pairs = zip(joined.sights, own.sights, strict=True)
            first, second = (_Sight(a.pace, min(a.low, b.low), max(a.high, b.high)) for a, b in pairs)
            joined = replace(joined, sights=(first, second))
        if joined is None:
            raise _NotLocalError("it has no input that varies over the picture")
        for each in inputs:
            if each in spreads or str(node.target).startswith("aten.batch_norm"):
                continue
            shape = each.meta["val"].shape
            for axis in joined.axes:
                at = axis - (rank - len(shape))
                if at >= 0 and shape[at] != 1:
                    raise _NotLocalError(f"a constant of shape {list(shape)} varies over the picture")
        return joined

    @staticmethod
    def _keep_axes(node: fx.Node, spread: _Spread, *axes: Any) -> None:
        """Refuse an operator along the height or the width."""
        rank = node.meta["val"].dim()
        if any(axis % rank in spread.axes for axis in axes):
            raise _NotLocalError("it works along the height or the width of the whole picture")

    def conv(self, node: fx.Node, spread: _Spread) -> _Spread:
        weight = node.args[1]
        kernel = weight.meta["val"].shape[2:] if isinstance(weight, fx.Node) else ()
        if spread.axes != (2, 3) or len(kernel) != 2:
            raise _NotLocalError("a convolution takes [n, channels, height, width]")
        stride, padding, dilation = (_pair(node, at, default) for at, default in ((3, 1), (4, 0), (5, 1)))
        is_winograd = self._has_winograd and tuple(kernel) == (3, 3) and stride == dilation == (1, 1)

        def change(axis: int, sight: _Sight) -> _Sight:
            low, high = -padding[axis], dilation[axis] * (kernel[axis] - 1) - padding[axis]
            if is_winograd:
                self.step = math.lcm(self.step, (sight.pace * _WINOGRAD).numerator)
                low, high = low - _WINOGRAD + 1, high + _WINOGRAD - 1
            return sight.down(stride[axis], low, high)

        return spread.with_sights(change)

    def conv_transpose(self, node: fx.Node, spread: _Spread) -> _Spread:
        weight = node.args[1]
        kernel = weight.meta["val"].shape[2:] if isinstance(weight, fx.Node) else ()
        if spread.axes != (2, 3) or len(kernel) != 2:
            raise _NotLocalError("a convolution takes [n, channels, height, width]")
        stride, padding, dilation = (_pair(node, at, default) for at, default in ((3, 1), (4, 0), (7, 1)))
        self._note_up(spread)

        def change(axis: int, sight: _Sight) -> _Sight:
            step, pad, reach = stride[axis], padding[axis], dilation[axis] * (kernel[axis] - 1)
            return sight.up(step, Fraction(pad - reach, step), Fraction(pad, step))

        return spread.with_sights(change)

    def pool(self, node: fx.Node, spread: _Spread) -> _Spread:
        is_max = "max_pool2d" in str(node.target)
        kernel = _pair(node, 1, 1)
        stride = _pair(node, 2, 0)
        stride = kernel if stride == (0, 0) else stride
        padding, dilation = _pair(node, 3, 0), _pair(node, 4, 1) if is_max else (1, 1)
        ceil_at = 5 if is_max else 4
        if (len(node.args) > ceil_at and node.args[ceil_at]) or node.kwargs.get("ceil_mode"):
            raise _NotLocalError("with ceil_mode its last window depends on the picture's size")
        first, second = node.meta["val"].dim() - 2, node.meta["val"].dim() - 1
        if spread.axes != (first, second):
            raise _NotLocalError("it pools other axes than height and width")
        return spread.with_sights(
            lambda axis, sight: sight.down(
                stride[axis], -padding[axis], dilation[axis] * (kernel[axis] - 1) - padding[axis]
            )
        )

    def shuffle(self, node: fx.Node, spread: _Spread) -> _Spread:
        factor = int(_constant(node, 1))
        if "unshuffle" in str(node.target):
            return spread.with_sights(lambda _, sight: sight.down(factor, 0, factor - 1))
        self._note_up(spread)
        return spread.with_sights(lambda _, sight: sight.up(factor, Fraction(1 - factor, factor), Fraction(0)))

    def upsample(self, node: fx.Node, spread: _Spread) -> _Spread:
        is_linear = "bilinear" in str(node.target)
        factors = node.args[3 if is_linear else 2] if len(node.args) > (3 if is_linear else 2) else None
        if not isinstance(factors, (list, tuple)):
            raise _NotLocalError("it resizes to a number of pixels; give scale_factor to F.interpolate")
        if is_linear and node.args[2]:
            raise _NotLocalError("with align_corners its weights depend on the picture's size")
        chosen: list[int] = []
        for factor in factors:
            whole = int(factor) if isinstance(factor, (int, float)) else 0
            if whole != factor or whole < 1 or whole & (whole - 1):
                raise _NotLocalError(
                    f"a factor is 1, 2, 4, 8, ..., not {factor}: others round differently from tile to tile"
                )
            chosen.append(whole)
        self._note_up(spread)

        def change(axis: int, sight: _Sight) -> _Sight:
            factor = chosen[axis]
            if not is_linear:
                return sight.up(factor, Fraction(1 - factor, factor), Fraction(0))
            middle = Fraction(1, 2 * factor) - Fraction(1, 2)
            return sight.up(factor, middle - 1, middle + 1)

        return spread.with_sights(change)

    def pad(self, node: fx.Node, spread: _Spread) -> _Spread:
        widths: Any = node.args[1]
        rank = node.meta["val"].dim()
        around = {rank - 1 - at // 2: tuple(widths[at : at + 2]) for at in range(0, len(widths), 2)}
        if any(width < 0 for width in widths):
            raise _NotLocalError("it cuts the picture")

        def change(axis: int, sight: _Sight) -> _Sight:
            before, after = around.get(spread.axes[axis], (0, 0))
            # A mirrored border reads as far inwards as it is wide.
            return sight.down(1, -before - after, before + after) if before or after else sight

        padded = spread.with_sights(change)
        if any(around.get(axis, (0, 0))[0] != around.get(axis, (0, 0))[1] for axis in spread.axes):
            raise _NotLocalError("it pads the two sides differently")
        return padded

    def permute(self, node: fx.Node, spread: _Spread) -> _Spread:
        rank = node.meta["val"].dim()
        order: Any = node.args[1]
        places = [axis % rank for axis in order]
        return replace(spread, axes=(places.index(spread.axes[0]), places.index(spread.axes[1])))

    def unsqueeze(self, node: fx.Node, spread: _Spread) -> _Spread:
        at = int(_constant(node, 1)) % node.meta["val"].dim()
        first, second = (axis + (axis >= at) for axis in spread.axes)
        return replace(spread, axes=(first, second))

    def select(self, node: fx.Node, spread: _Spread) -> _Spread:
        rank = node.meta["val"].dim() + 1
        at = int(_constant(node, 1)) % rank
        if at in spread.axes:
            raise _NotLocalError("it picks a row or a column of the picture")
        first, second = (axis - (axis > at) for axis in spread.axes)
        return replace(spread, axes=(first, second))

    def along(self, node: fx.Node, spread: _Spread) -> _Spread:
        """Operators along one axis that keep the rank: softmax, slice."""
        axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        self._keep_axes(node, spread, axis)
        return spread

    def reduce(self, node: fx.Node, spread: _Spread) -> _Spread:
        axes: Any = node.args[1] if len(node.args) > 1 else None
        keeps = bool(node.args[2]) if len(node.args) > 2 else False
        if axes is None or not keeps:
            raise _NotLocalError(
                "it reduces the whole picture, or drops an axis; reduce the channels with keepdim=True"
            )
        self._keep_axes(node, spread, *(axes if isinstance(axes, (list, tuple)) else (axes,)))
        return spread

    def _note_up(self, spread: _Spread) -> None:
        for sight in spread.sights:
            self.multiple = math.lcm(self.multiple, sight.pace.numerator)


_RULES: Final[Mapping[str, Callable[[_Reader, fx.Node, _Spread], _Spread]]] = {
    "conv2d": _Reader.conv,
    "conv_transpose2d": _Reader.conv_transpose,
    "max_pool2d": _Reader.pool,
    "avg_pool2d": _Reader.pool,
    "pixel_shuffle": _Reader.shuffle,
    "pixel_unshuffle": _Reader.shuffle,
    "upsample_nearest2d": _Reader.upsample,
    "upsample_bilinear2d": _Reader.upsample,
    "pad": _Reader.pad,
    "permute": _Reader.permute,
    "unsqueeze": _Reader.unsqueeze,
    "select": _Reader.select,
    "softmax": _Reader.along,
    "log_softmax": _Reader.along,
    "slice": _Reader.along,
    "mean": _Reader.reduce,
    "sum": _Reader.reduce,
    "amax": _Reader.reduce,
    "amin": _Reader.reduce,
}


def plan_tiles(
    module: nn.Module,
    picture: Tensor,
    *,
    tile_px: int,
    axes: tuple[int, int] = (-2, -1),
    halo_px: int | None = None,
    scale: int = 1,
    least_px: int = 1,
    has_winograd: bool = True,
) -> Tiling:
    """Return how a network is run in tiles.

    Args:
        module: takes one tensor and gives one; in eval mode.
        picture: an example.
        tile_px: largest side of a tile, halo included.
        axes: where height and width are in the picture.
        halo_px: None to find it. A number for a network that sees further than that, or everything: tiles then differ
            where they meet, and the tiling says so.
        scale: outputs for one input, where `halo_px` is given.
        least_px: the smallest side that the module takes.
        has_winograd: whether convolutions may take that form, which sees further.

    Raises:
        ExportError: the network is not local, with the layer; only where `halo_px` is None.
        ArgumentError: a tile has no room beside the halo.
    """
    rank = picture.dim()
    given = (axes[0] % rank, axes[1] % rank)
    if halo_px is not None:
        axis = Axis(halo_px, halo_px, 1, 1, Fraction(scale))
        return _with_room(Tiling(axis, least_px, tile_px, given, given, is_exact=False))
    traced = torch.export.export(module, (picture,), strict=False)
    reader = _Reader(has_winograd=has_winograd)
    spreads: dict[fx.Node, _Spread] = {}
    findings: list[Finding] = []
    inputs = set(traced.graph_signature.user_inputs)
    for node in traced.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            spreads[node] = _Spread((_Sight(), _Sight()), given)
        elif node.op == "call_function":
            try:
                spread = reader.read(node, spreads)
            except _NotLocalError as error:
                stack = list(node.meta.get("nn_module_stack", {}).values())
                path = str(stack[-1][0]).removeprefix("L['self'].") if stack else ""
                findings.append(Finding(str(node.target), path, source_of_stack(node.stack_trace), str(error)))
                break  # what follows has no sight to start from
            if spread is not None:
                spreads[node] = spread
    if findings:
        raise ExportError(findings)
    last: Any = traced.graph.output_node().args[0]
    outputs = [each for each in last if each in spreads] if isinstance(last, (list, tuple)) else []
    if len(outputs) != 1 or len(last) != 1:
        raise ArgumentError("a network for tiles gives one output that varies over the picture")
    spread = spreads[outputs[0]]
    paces = {sight.pace for sight in spread.sights}
    if len(paces) != 1:
        raise ArgumentError("a network for tiles has one scale, for height and for width")
    pace = paces.pop()
    # A tile gives the outputs from pace * j on that are below its own end.
    before = max(0, *(math.ceil(-sight.low) for sight in spread.sights))
    after = max(0, *(math.ceil(sight.high - pace) + 1 for sight in spread.sights))
    step = math.lcm(reader.step, reader.multiple, pace.numerator)
    lost = max(
        picture.shape[at] / pace - outputs[0].meta["val"].shape[to] for at, to in zip(given, spread.axes, strict=True)
    )
    least = _up(max(least_px, math.ceil(lost * pace) + 1), reader.multiple)
    axis = Axis(before, after, step, reader.multiple, 1 / pace)
    return _with_room(Tiling(axis, least, tile_px, given, spread.axes, is_exact=True))


def export_tiled(
    module: nn.Module,
    picture: Tensor,
    *,
    tile_px: int,
    axes: tuple[int, int] = (-2, -1),
    halo_px: int | None = None,
    scale: int = 1,
    least_px: int = 1,
    others: Mapping[str, Method] | None = None,
    quantize: str | Quantization | None = None,
    calibration: object = None,
    growth_bytes: int | None = None,
) -> Program:
    """Return the program of a network that `alcove.runtime.tiles.run_tiled` runs over a picture of any size.

    Args:
        module: as `plan_tiles` takes it; so are `picture`, `tile_px`, `axes`, `halo_px`, `scale` and `least_px`.
        picture: see there.
        tile_px: see there.
        axes: see there.
        halo_px: see there.
        scale: see there.
        least_px: see there.
        others: more methods of the program; it runs "forward", the network, where none is named.
        quantize: as `export` takes it.
        calibration: pictures of `tile_px` on each side.
        growth_bytes: as `export` takes it; 0 for no Winograd convolutions and a smaller halo.

    Raises:
        ExportError: the network is not local, with the layer, or cannot become a program.
        ArgumentError: a tile has no room beside the halo, or an argument does not fit.
    """
    tiling = plan_tiles(
        module,
        picture,
        tile_px=tile_px,
        axes=axes,
        halo_px=halo_px,
        scale=scale,
        least_px=least_px,
        has_winograd=growth_bytes != 0,
    )
    factor = tiling.axis.multiple_px
    sizes = {}
    for name, axis in zip(("height", "width"), tiling.input_axes, strict=True):
        size = torch.export.Dim(name, min=math.ceil(tiling.least_px / factor), max=tile_px // factor)
        sizes[axis] = size if factor == 1 else factor * size
    methods = {
        "forward": Method(module, (picture,), (sizes,), calibration),
        METHOD: Method(TilingNumbers(tiling), ()),
        **(others or {}),
    }
    return export(methods, quantize=quantize, growth_bytes=growth_bytes)


class TilingNumbers(nn.Module):
    """Gives a tiling.

    Args:
        tiling: to give.
    """

    def __init__(self, tiling: Tiling) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.tensor(tiling.as_numbers()))

    def forward(self) -> Tensor:
        """Return the tiling's numbers, i64 [14]."""
        return self.get_buffer("numbers") + 0


def _with_room(tiling: Tiling) -> Tiling:
    """Return the tiling if a tile has room.

    Raises:
        ArgumentError: it has none.
    """
    core, step = tiling.core_px(tiling.tile_px), tiling.axis.step_px
    if core < step:
        least = tiling.tile_px + step - core
        raise ArgumentError(f"tile_px must be at least {least} to have room beside the halo, not {tiling.tile_px}")
    return tiling


def _constant(node: fx.Node, at: int) -> Any:
    """Return an argument of an operator; its type is that of the operator's schema."""
    return node.args[at]


def _pair(node: fx.Node, at: int, default: int) -> tuple[int, int]:
    """Return an argument as two numbers, for height and width."""
    value: Any = node.args[at] if len(node.args) > at else default
    if isinstance(value, str):
        raise _NotLocalError("give the padding as numbers")
    if isinstance(value, (list, tuple)):
        return (int(value[0]), int(value[-1])) if value else (default, default)
    return int(value), int(value)


def _up(value: int, step: int) -> int:
    return math.ceil(value / step) * step
