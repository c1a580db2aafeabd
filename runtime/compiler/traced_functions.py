"""Traces torch's functions that look into their tensors: covariances, counts, histograms, scales of a tensor's range.

Torch reads a number out of a tensor within them, which no trace can do, or takes no size that varies (`one_hot`).  For
the time of a trace the functions here stand for them, which compute the same without a look.  What eager refuses ends
the run.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import torch
from alcove.runtime.compiler.quantized_modules import OPERATORS
from alcove.runtime.compiler.quantized_modules import quantize as quantize_values
from torch import Tensor, nn

_HANDLER: Final[Any] = import_module("torch._export.non_strict_utils")._NonStrictTorchFunctionHandler  # noqa: SLF001
"""Torch itself replaces functions of a trace by it, and has no public way to add some."""
_MATRIX: Final = 2
_PLAIN_ONE_HOT: Final[Any] = nn.functional.one_hot


def zero_where(is_right: Tensor) -> Tensor:
    """Return an int64 0; at run time an index out of range, which ends the run, unless `is_right` holds everywhere."""
    return torch.zeros(1, dtype=torch.int64).index_select(0, (~is_right.all()).long().reshape(1)).reshape(())


def covariance(
    x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Stand for `torch.cov`."""
    rows = x.reshape(1, -1) if x.dim() < _MATRIX else x
    weights = fweights
    if weights is not None:
        weights = weights + zero_where(weights >= 0)
    if aweights is not None:
        aweights = aweights + zero_where(aweights >= 0)
        weights = aweights if weights is None else weights * aweights
    total: Any = rows.shape[1] if weights is None else weights.sum()
    mean = (rows if weights is None else rows * weights).sum(1, keepdim=True) / total
    norm = total - correction
    if weights is not None and aweights is not None and correction != 0:
        norm = total - correction * (weights * aweights).sum() / total
    centred = rows - mean
    weighted = centred if weights is None else centred * weights
    norm = norm.clamp(min=0) if isinstance(norm, Tensor) else max(norm, 0)
    made: Tensor = (centred @ weighted.transpose(0, 1).conj()) / norm
    return made.squeeze()


def correlation(x: Tensor) -> Tensor:
    """Stand for `torch.corrcoef`."""
    made = covariance(x)
    if made.dim() == 0:
        return made / made
    spread = made.diagonal().sqrt()
    return (made / spread[:, None] / spread[None, :]).clamp(-1, 1)


def count_whole(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Stand for `torch.bincount`: of `minlength` counts; a number beyond them ends the run.

    Raises:
        ValueError: no least number of counts is given.
    """
    if minlength < 1:
        raise ValueError("the size of the result depends on data: give bincount a minlength above every number")
    if weights is not None and weights.dtype is not torch.float32:
        weights = weights.double()
    source = torch.ones_like(x, dtype=torch.int64) if weights is None else weights
    return torch.zeros(minlength, dtype=source.dtype).index_put(
        (x.long() + zero_where(x >= 0),), source, accumulate=True
    )


def classes(x: Tensor, num_classes: Any = -1) -> Tensor:
    """Stand for `nn.functional.one_hot`, which takes no size that varies."""
    if not isinstance(num_classes, torch.SymInt):
        return cast("Tensor", _PLAIN_ONE_HOT(x, num_classes))
    if x.dtype is not torch.int64:
        raise ValueError(f"one_hot is of int64 tensors, not of {x.dtype}")
    return x.new_zeros((*x.shape, num_classes)).scatter(-1, x.unsqueeze(-1), 1)


def count_intervals(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002 - torch's
    """Stand for `torch.histc`."""
    if min < max:
        counted: Tensor = torch.ops.aten.histc.default(x, bins, min, max)
        return counted
    low, high = (x.min(), x.max()) if min == max == 0 else (torch.tensor(float(min)), torch.tensor(float(max)))
    is_one = low == high
    low, high = torch.where(is_one, low - 1, low), torch.where(is_one, high + 1, high)
    place = ((x.reshape(-1) - low) * bins / (high - low)).floor().clamp(max=bins - 1)
    return (place == torch.arange(bins, dtype=x.dtype)[:, None]).sum(1).to(x.dtype)


def combine(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Stand for `torch.combinations`: the places follow from the size, which is fixed."""
    make = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(make(range(int(x.shape[0])), r))
    return x[torch.tensor(places, dtype=torch.int64).reshape(len(places), r)]


class LeastSquares(NamedTuple):
    """Solution and rank, under torch's names; the others have sizes that depend on data."""

    solution: Tensor
    residuals: Tensor | None
    rank: Tensor
    singular_values: Tensor | None


def least_squares(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """Stand for `torch.linalg.lstsq`: the solution of the least norm, as the CPU's own driver gives it."""
    del driver  # all have one solution where the rank is full
    functions: Any = torch.linalg
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    solution = functions.pinv(a, rtol=rcond) @ right
    rank = functions.matrix_rank(a, rtol=rcond)
    return LeastSquares(solution.squeeze(-1) if is_vector else solution, None, rank, None)


class Histogram(NamedTuple):
    """Counts and edges, under torch's names."""

    hist: Tensor
    bin_edges: Any


def _edges(x: Tensor, bins: Any, ends: tuple[float, float] | None) -> Tensor:
    """Return the edges of intervals: given, between given ends, or between the ends of the data."""
    if isinstance(bins, Tensor):
        return bins
    if ends is not None:
        low, high = (ends[0] - 0.5, ends[1] + 0.5) if ends[0] == ends[1] else ends
        return torch.linspace(low, high, bins + 1)
    least, most = x.min(), x.max()
    is_one = least == most
    least, most = torch.where(is_one, least - 0.5, least), torch.where(is_one, most + 0.5, most)
    steps = torch.arange(bins + 1, dtype=x.dtype)
    step = (most - least) / bins
    return torch.where(steps < (bins + 1) // 2, least + step * steps, most - step * (bins - steps))


def _hits(x: Tensor, edges: Tensor) -> Tensor:
    """Return [elements, intervals]: 1 where an element lies in an interval; the last one holds its upper end."""
    count = edges.shape[0] - 1
    place = torch.searchsorted(edges, x.contiguous(), right=True) - 1
    place = torch.where(x == edges[-1], count - 1, place)
    is_within = (x >= edges[0]) & (x <= edges[-1])
    return ((place[:, None] == torch.arange(count)) & is_within[:, None]).to(x.dtype)


def histogram(
    x: Tensor,
    bins: Any,
    *,
    range: tuple[float, float] | None = None,  # noqa: A002 - torch's
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Stand for `torch.histogram`: counts or weights of intervals, and their edges."""
    flat = x.reshape(-1)
    edges = _edges(flat, bins, range)
    hits = _hits(flat, edges)
    made = (hits if weight is None else hits * weight.reshape(-1, 1)).sum(0)
    return Histogram(made / made.sum() / edges.diff() if density else made, edges)


def histogram_of_many(
    x: Tensor,
    bins: Any,
    range: Any = None,  # noqa: A002 - torch's
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Stand for `torch.histogramdd`."""
    points = x.reshape(-1, x.shape[-1])
    counts = [bins] * points.shape[1] if isinstance(bins, int) else list(bins)
    edges: list[Tensor] = []
    hits = torch.ones(points.shape[0], 1)
    for axis, each in enumerate(counts):
        ends = None if range is None else (range[2 * axis], range[2 * axis + 1])
        edges.append(_edges(points[:, axis], each, ends))
        hits = (hits[:, :, None] * _hits(points[:, axis], edges[-1])[:, None, :]).flatten(1)
    shape = [edge.shape[0] - 1 for edge in edges]
    made = (hits if weight is None else hits * weight.reshape(-1, 1)).sum(0).reshape(shape)
    if density:
        made = made / made.sum()
        for axis, edge in enumerate(edges):
            sizes = [1] * len(edges)
            sizes[axis] = -1
            made = made / edge.diff().reshape(sizes)
    return Histogram(made, tuple(edges))


def choose_step(x: Tensor, low: int, high: int, eps: float, _dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Stand for `quantized_decomposed.choose_qparams`: scale and zero point of a tensor's own range, in float32."""
    least, most = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = ((most - least) / float(high - low)).clamp(min=eps)
    return scale, (low - torch.round(least / scale)).clamp(low, high)


def quantize(x: Tensor, scale: Tensor, zero_point: Tensor, *form: Any) -> Tensor:
    """Stand for `quantized_decomposed.quantize_per_tensor` with a scale that is computed."""
    low, high, dtype = form
    made: Tensor = (torch.round(x * (1.0 / scale)) + zero_point).clamp(low, high).to(dtype)
    return made


def dequantize(x: Tensor, scale: Tensor, zero_point: Tensor, *_: object, **__: object) -> Tensor:
    """Stand for `quantized_decomposed.dequantize_per_tensor` with a scale that is computed."""
    return (x.to(torch.float32) - zero_point) * scale


_STAND_INS: Final[Mapping[Any, Callable[..., Any]]] = {
    torch.cov: covariance,
    Tensor.cov: covariance,
    torch.corrcoef: correlation,
    Tensor.corrcoef: correlation,
    torch.bincount: count_whole,
    Tensor.bincount: count_whole,
    nn.functional.one_hot: classes,
    torch.combinations: combine,
    torch.linalg.lstsq: least_squares,
    torch.histc: count_intervals,
    Tensor.histc: count_intervals,
    torch.histogram: histogram,
    Tensor.histogram: histogram,
    torch.histogramdd: histogram_of_many,
    torch.quantize_per_tensor: quantize_values,
}


_QUANTIZED: Final[Mapping[str, Callable[..., Any]]] = {
    "choose_qparams.tensor": choose_step,
    "quantize_per_tensor.tensor": quantize,
    "dequantize_per_tensor.tensor": dequantize,
}
"""By the operator's name in quantized_decomposed: torch registers them when a module that has some is made."""


def _stand_in_for(function: Any) -> Callable[..., Any] | None:
    if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):  # noqa: SLF001 - there is no public name
        name = str(function)
        if name.startswith("quantized."):
            return OPERATORS.get(name.split(".")[1])
        return _QUANTIZED.get(name.removeprefix("quantized_decomposed."))
    return _STAND_INS.get(function) if function.__hash__ else None


@contextlib.contextmanager
def trace_functions_that_look() -> Iterator[None]:
    """Let the functions above be traced; one thread at a time."""
    plain = _HANDLER._override  # noqa: SLF001 - see above

    def override(self: Any, function: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        stand_in = _stand_in_for(function)
        if stand_in is not None:
            return stand_in, args, kwargs or {}
        call: tuple[Any, Any, Any] = plain(self, function, args, kwargs)
        return call

    _HANDLER._override = override  # noqa: SLF001 - see above
    try:
        yield
    finally:
        _HANDLER._override = plain  # noqa: SLF001 - see above
