"""Puts modules that can be traced in the place of `torch.ao.nn.quantized`'s, whose weights are packed for one machine.

Their integers are computed in float32, exactly while sums stay below 2^24, and rescaled as torch's kernels do: the
numbers are the quantized module's own, but for ties that another order of rounding breaks otherwise.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
from alcove.runtime.errors import ExportError, Finding
from torch import Tensor, nn

_PACKAGE: Final = "torch.ao.nn."
Function = Callable[..., Any]


class QuantizedValues:
    """Stands for a quantized tensor in a trace: whole numbers in float32, their scale and zero point."""

    def __init__(self, whole: Tensor, scale: Any, zero_point: Any, dtype: torch.dtype) -> None:
        self.whole, self.scale, self.zero_point, self.dtype = whole, scale, zero_point, dtype

    @property
    def shape(self) -> torch.Size:
        """Of the tensor."""
        return self.whole.shape

    @property
    def values(self) -> Tensor:
        """What the numbers stand for, float32."""
        made: Tensor = (self.whole - self.zero_point) * self.scale
        return made

    def dequantize(self) -> Tensor:
        """Return what the numbers stand for, float32."""
        return self.values

    def size(self, *axis: int) -> Any:
        """Return the shape, or one size."""
        return self.whole.size(*axis)

    def dim(self) -> int:
        """Return the rank."""
        return self.whole.dim()

    def like(self, whole: Tensor) -> "QuantizedValues":
        """Return other numbers with the same scale and zero point."""
        return QuantizedValues(whole, self.scale, self.zero_point, self.dtype)

    def __getitem__(self, place: Any) -> "QuantizedValues":
        """Return a part."""
        return self.like(self.whole[place])

    def __getattr__(self, name: str) -> Any:
        """Return a method of tensors, for those of `_ON_NUMBERS` and `_ON_VALUES`."""
        function = getattr(Tensor, name)
        return lambda *args, **named: self.__torch_function__(function, (), (self, *args), named)

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute one of torch's functions.

        Raises:
            ExportError: nothing says what it makes of a quantized tensor.
        """
        name = str(getattr(function, "__name__", function)).removesuffix("_").split(".")[0]
        first, *rest = args
        named = dict(kwargs or {})
        if name in _OF_SEVERAL:
            return _OF_SEVERAL[name](first, *rest, **named)
        if name in _ON_NUMBERS:
            return first.like(function(first.whole, *rest, **named))
        if name in _ON_VALUES:
            return quantize(function(first.values, *rest, **named), first.scale, first.zero_point, first.dtype)
        advice = f"of a quantized tensor {name} is not known: call it between dequantize and quantize"
        raise ExportError([Finding(op="torch.ao.quantization", module_path="", source="", suggestion=advice)])


def quantize(x: Tensor, scale: Any, zero_point: Any, dtype: torch.dtype = torch.quint8) -> QuantizedValues:
    """Return clamp(round(x / scale) + zero_point) in the range of quint8 or qint8."""
    low, high = (0, 255) if dtype is torch.quint8 else (-128, 127)
    return QuantizedValues((torch.round(x / scale) + zero_point).clamp(low, high), scale, zero_point, dtype)


def _relu(x: QuantizedValues, **_: object) -> QuantizedValues:
    return x.like(torch.maximum(x.whole, torch.as_tensor(x.zero_point, dtype=torch.float32)))


def _clamp(x: QuantizedValues, low: float = -1.0, high: float = 1.0, **_: object) -> QuantizedValues:
    ends = [quantize(torch.tensor(end), x.scale, x.zero_point, x.dtype).whole for end in (low, high)]
    return x.like(torch.minimum(torch.maximum(x.whole, ends[0]), ends[1]))


def _again(x: QuantizedValues, values: Tensor, scale: Any, zero_point: Any) -> QuantizedValues:
    """Quantize what was computed from `x`, by its own scale if none is given."""
    return quantize(values, *((x.scale, x.zero_point) if scale is None else (scale, zero_point)), x.dtype)


def _cat(parts: Iterable[QuantizedValues], dim: int = 0, scale: Any = None, zero_point: Any = 0) -> QuantizedValues:
    parts = list(parts)
    return _again(parts[0], torch.cat([part.values for part in parts], dim), scale, zero_point)


def _add(x: QuantizedValues, y: Any, scale: Any = None, zero_point: Any = 0) -> QuantizedValues:
    return _again(x, x.values + getattr(y, "values", y), scale, zero_point)


def _add_relu(x: QuantizedValues, y: Any, scale: Any = None, zero_point: Any = 0) -> QuantizedValues:
    return _again(x, (x.values + getattr(y, "values", y)).relu(), scale, zero_point)


def _mul(x: QuantizedValues, y: Any, scale: Any = None, zero_point: Any = 0) -> QuantizedValues:
    if scale is None:  # by a number: the scale changes alone
        return QuantizedValues(x.whole, x.scale * y, x.zero_point, x.dtype)
    return _again(x, x.values * y.values, scale, zero_point)


_OF_SEVERAL: Final[Mapping[str, Function]] = {
    "relu": _relu,
    "relu6": lambda x, *_, **__: _clamp(x, 0.0, 6.0),
    "hardtanh": _clamp,
    "clamp": _clamp,
    "cat": _cat,
    "add": _add,
    "add_relu": _add_relu,
    "mul": _mul,
    "dequantize": lambda x: x.values,
    "dropout": lambda x, *_, **__: x,
}
OPERATORS: Final[Mapping[str, Function]] = {
    "add": _add,
    "add_relu": _add_relu,
    "mul": _mul,
    "cat": lambda parts, scale, zero_point, dim=0: _cat(parts, dim, scale, zero_point),
    "hardswish": lambda x, output_scale, output_zero_point: quantize(
        nn.functional.hardswish(x.values), output_scale, output_zero_point, x.dtype
    ),
    "leaky_relu": lambda x, slope, _, output_scale, output_zero_point: quantize(
        nn.functional.leaky_relu(x.values, slope), output_scale, output_zero_point, x.dtype
    ),
}
"""Torch's operators of the namespace quantized, by name."""
_MOVES: Final = ("reshape", "view", "flatten", "unflatten", "permute", "transpose", "squeeze", "unsqueeze", "expand")
_ON_NUMBERS: Final = frozenset([*_MOVES, "contiguous", "clone", "chunk", "max_pool1d", "max_pool2d", "fn"])
"""They move numbers, or choose among them; torch calls its functions of greatest values fn."""
_MEANS: Final = ("mean", "avg_pool2d", "adaptive_avg_pool2d", "interpolate", "upsample")
_ON_VALUES: Final = frozenset([*_MEANS, "leaky_relu", "hardswish"])
"""Their result has the scale of what they are given."""


class _Product(nn.Module):
    """A convolution or linear layer, its function of (input, weight, bias) given."""

    function: Function
    scales: Tensor
    bias: Tensor | None

    def __init__(self, layer: Any, function: Function) -> None:
        super().__init__()
        weight, bias = layer.weight(), layer.bias()
        if weight.qscheme() in {torch.per_channel_affine, torch.per_channel_symmetric}:
            scales, zeros = weight.q_per_channel_scales().float(), weight.q_per_channel_zero_points().float()
        else:
            scales, zeros = torch.tensor([weight.q_scale()]), torch.tensor([float(weight.q_zero_point())])
        place = (-1, *[1] * (weight.dim() - 1))
        self.register_buffer("weight", weight.int_repr().float() - zeros.reshape(place))
        self.register_buffer("scales", scales)
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.function, self.rank = function, weight.dim()
        self.with_relu = "ReLU" in type(layer).__name__
        is_dynamic = ".dynamic" in type(layer).__module__
        self.step = None if is_dynamic else (float(layer.scale), int(layer.zero_point))

    def forward(self, x: Any) -> Any:
        """Return quantized values, or float32 of a layer that quantizes what comes."""
        given = x if isinstance(x, QuantizedValues) else _quantize_as_it_comes(x)
        across = (-1, *[1] * (self.rank - 2))  # one scale for each output, which the last axis of a linear layer has
        whole = self.function(given.whole - given.zero_point, self.weight, None)
        made = whole * (given.scale * self.scales.reshape(across))
        if self.bias is not None:
            made = made + self.bias.reshape(across)
        made = torch.relu(made) if self.with_relu else made
        return made if self.step is None else quantize(made, *self.step)


def _quantize_as_it_comes(x: Tensor) -> QuantizedValues:
    """Quantize in 7 bits by the range of the values, as torch's dynamic layers do on x86."""
    least, most = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = ((most - least) / 127).clamp(min=torch.finfo(torch.float32).tiny)
    zero_point = torch.round(-least / scale).clamp(0, 127)
    whole = (torch.round(x / scale) + zero_point).clamp(0, 127)
    return QuantizedValues(whole, scale, zero_point, torch.quint8)


def _convolution(layer: Any) -> Function:
    rank = len(layer.kernel_size)
    function: Function = (nn.functional.conv1d, nn.functional.conv2d, nn.functional.conv3d)[rank - 1]
    return lambda x, weight, bias: function(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


class _Step(nn.Module):
    """What quantizes values by a fixed scale."""

    function: Function

    def __init__(self, layer: Any, function: Function = lambda x: x) -> None:
        super().__init__()
        self.step = (float(layer.scale), int(layer.zero_point))
        self.dtype = getattr(layer, "dtype", torch.quint8)
        self.function = function

    def forward(self, x: Any) -> QuantizedValues:
        """Return quantized values."""
        return quantize(self.function(x.values if isinstance(x, QuantizedValues) else x), *self.step, self.dtype)

    def add(self, x: Any, y: Any) -> Any:
        """Return a sum."""
        return _add(x, y, *self.step)

    def add_relu(self, x: Any, y: Any) -> Any:
        """Return relu of a sum."""
        return _add_relu(x, y, *self.step)

    def mul(self, x: Any, y: Any) -> Any:
        """Return a product."""
        return _mul(x, y, *self.step)

    def cat(self, parts: Any, dim: int = 0) -> Any:
        """Return parts joined."""
        return _cat(parts, dim, *self.step)

    def add_scalar(self, x: Any, y: float) -> Any:
        """Return a sum with a number."""
        return _add(x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """Return a product with a number."""
        return _mul(x, y)


class _Values(nn.Module):
    """What gives float32 again."""

    def forward(self, x: Any) -> Tensor:
        """Return float32."""
        made: Tensor = x.values
        return made


_STAND_INS: Final[Mapping[str, Callable[[Any], nn.Module]]] = {
    "Quantize": _Step,
    "DeQuantize": lambda _: _Values(),
    "QFunctional": _Step,
    "Hardswish": lambda layer: _Step(layer, nn.functional.hardswish),
    "Sigmoid": lambda layer: _Step(_with_step(layer), torch.sigmoid),
    "LeakyReLU": lambda layer: _Step(layer, lambda x: nn.functional.leaky_relu(x, layer.negative_slope)),
}


class _Reference(nn.Module):
    """A layer of the reference form: float32, with the values of quantized weights."""

    function: Function

    def __init__(self, layer: Any, function: Function) -> None:
        super().__init__()
        self.register_buffer("weight", layer.get_weight().detach())
        self.bias = layer.bias
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return float32."""
        made: Tensor = self.function(x, self.weight, self.bias)
        return made


_LAYERS: Final[Mapping[str, Callable[[Any], Function]]] = {
    **dict.fromkeys(("Linear", "LinearReLU"), lambda _: nn.functional.linear),
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d"), _convolution),
}


def _with_step(layer: Any) -> Any:
    layer = copy.copy(layer)
    layer.scale, layer.zero_point = layer.output_scale, layer.output_zero_point
    return layer


def _is_quantized(module: nn.Module) -> bool:
    package = type(module).__module__
    return package.startswith(_PACKAGE) and ".quantized" in package


def _stand_in_of(module: nn.Module) -> nn.Module | None:
    kind = type(module)
    if not _is_quantized(module):
        return None
    if kind.__name__ in _LAYERS:
        form = _Reference if ".reference" in kind.__module__ else _Product
        return form(module, _LAYERS[kind.__name__](module))
    make = _STAND_INS.get(kind.__name__)
    return None if make is None else make(module)


def with_plain_layers(module: nn.Module) -> nn.Module:
    """Return a module whose quantized layers can be traced; `module` itself where it has none.

    What is not quantized is shared with `module`, which is not changed.
    """
    if not any(map(_is_quantized, module.modules())):
        return module
    return _replace(module, {})


def _replace(module: nn.Module, made: dict[int, nn.Module]) -> nn.Module:
    if id(module) not in made:
        stand_in = _stand_in_of(module)
        if stand_in is None:
            stand_in = copy.copy(module)
            made[id(module)] = stand_in
            children = {name: _replace(child, made) for name, child in module.named_children()}
            stand_in._modules = {**module._modules, **children}  # noqa: SLF001 - a copy shares them otherwise
        made[id(module)] = stand_in
    return made[id(module)]
