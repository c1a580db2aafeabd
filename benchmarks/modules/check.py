"""Exports one module, runs it at every size, and compares with eager.

Where a small change of the inputs changes what eager gives (a sort of near-equals, a floor near a whole number), a
difference of that kind is no finding: what counts is a difference that changed inputs don't explain.
"""

from __future__ import annotations

import copy
import enum
import random
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from alcove.runtime import export, load
from alcove.runtime.errors import AlcoveRuntimeError, ExportError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.modules.source import Source

RTOL: Final = 2e-4
ATOL: Final = 2e-5
MOST_SIZES: Final = 24
"""Combinations of sizes that are run: all of them up to here, else the corners and some between."""
_DOUBLE_ROOM: Final = 4.0
"""How much farther from eager than eager is from float64 a value may be."""
_MOST_DOUBLE_ROOM: Final = 1e-2
_NUDGES: Final = (1e-6, 3e-6, 1e-5)
_NORMS: Final = (nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.BatchNorm1d, nn.BatchNorm2d)
_ROUNDINGS: Final = 200
"""How many draws of rounding eager is tried with: one of eleven equals is the largest in all but one of 10^8."""
_ROUNDING: Final = 2.0**-22
"""Of the largest value of a result: what sums in another order may leave."""
_ROUNDED: Final = re.compile(
    r"fft_.*|_*matmul_*|bmm|einsum|linear|scaled_dot_product_attention|(log_)?softmax|logsumexp|conv.*|mean|var|std"
    r"|.*norm|normalize|interpolate|.*avg_pool.*|a?(sin|cos|tan)h?|atan2|erf.*|exp.*|log.*|pow|r?sqrt|.*sigmoid"
    r"|softplus|gelu|silu|mish|elu|selu|celu"
)
"""Names of functions whose results are rounded: sums of products, and what is no quotient of a few products."""
_RESIDUE: Final = 1e-4  # a value of 10 less its own mean, over the root of epsilon (1e-5), rounded

Array = np.ndarray[Any, Any]


class Verdict(enum.Enum):
    """What became of a module."""

    SAME = "as eager"
    REFUSED = "refused at export"
    WRONG = "other values than eager"
    FAILS = "exports, then fails"
    BREAKS = "export ends in an untyped error"


FINDINGS: Final = frozenset({Verdict.WRONG, Verdict.FAILS, Verdict.BREAKS})


@dataclass(frozen=True)
class Result:
    """A verdict.

    Attributes:
        verdict: see `Verdict`.
        reason: a message, for everything but SAME.
        sizes: where it showed.
        runs: how many sizes were run.
    """

    verdict: Verdict
    reason: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    runs: int = 0


def sizes_to_run(source: Source, most: int = MOST_SIZES) -> list[dict[str, int]]:
    """Return all sizes of a module, or the ends and a fixed sample of what is between."""
    every = source.all_sizes()
    if len(every) <= most:
        return every
    inner = random.Random(len(every)).sample(every[1:-1], most - 2)
    return [every[0], *inner, every[-1]]


def check(source: Source, most_sizes: int = MOST_SIZES) -> Result:
    """Return what becomes of a module."""
    module = source.module()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = export(module, source.arguments(source.examples()), dynamic_shapes=source.dynamic_shapes())
    except ExportError as refusal:
        return Result(Verdict.REFUSED, str(refusal))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return Result(Verdict.BREAKS, f"{type(error).__name__}: {error}")
    runs = 0
    try:
        model = load(bytes(program))
    except AlcoveRuntimeError as error:
        return Result(Verdict.FAILS, f"{type(error).__name__}: {error}")
    for sizes in sizes_to_run(source, most_sizes):
        arguments = source.arguments(sizes, seed=1)
        try:
            argument = model(*(each.numpy() for each in arguments))
        except AlcoveRuntimeError as error:
            return Result(Verdict.FAILS, f"{type(error).__name__}: {error}", sizes, runs)
        runs += 1
        difference = compare(module, arguments, argument)
        if difference:
            return Result(Verdict.WRONG, difference, sizes, runs)
    return Result(Verdict.SAME, runs=runs)


def eager(module: nn.Module, arguments: Sequence[Tensor]) -> list[Array]:
    """Return what torch gives."""
    with torch.no_grad():
        return [each.detach().numpy() for each in module(*(each.clone() for each in arguments))]


def compare(module: nn.Module, arguments: Sequence[Tensor], actual: Sequence[Array]) -> str:
    """Return how `actual` differs from eager, "" where it does not."""
    expected = eager(module, arguments)
    for at, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"output {at} is {ours.dtype}{list(ours.shape)}, eager gives {theirs.dtype}{list(theirs.shape)}"
    if all(_is_near(ours, theirs) for ours, theirs in zip(actual, expected, strict=True)):
        return ""
    slack = _slack(module, arguments, expected)
    for at, (ours, theirs, room) in enumerate(zip(actual, expected, slack, strict=True)):
        apart = _apart(ours, theirs)
        bad = apart > room + ATOL + RTOL * np.abs(np.nan_to_num(theirs.astype(np.float64)))
        if bad.any():
            place = tuple(int(each) for each in np.argwhere(bad)[0])
            count = f"{int(bad.sum())} of {bad.size}"
            return f"output {at}, {count} values: at {place} {ours[place]!r}, eager gives {theirs[place]!r}"
    return ""


def _is_near(ours: Array, theirs: Array) -> bool:
    if ours.dtype == np.float32:
        return bool(np.allclose(ours, theirs, RTOL, ATOL, equal_nan=True))
    return bool(np.array_equal(ours, theirs))


def _apart(one: Array, other: Array) -> Array:
    """Return distances: 0 for equal infinities and for two NaN, infinite for one."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _slack(module: nn.Module, arguments: Sequence[Tensor], expected: Sequence[Array]) -> list[Array]:
    """Return how far each value of eager moves when the inputs do, a little more often than once each way."""
    room = [np.zeros(each.shape) for each in expected]
    generator = torch.Generator().manual_seed(3)
    for nudge in _NUDGES:
        for _ in range(4):
            moved = [
                each * (1 + nudge * torch.randn(each.shape, generator=generator)) if each.is_floating_point() else each
                for each in arguments
            ]
            try:
                others = eager(module, moved)
            except (RuntimeError, IndexError):
                continue
            for at, other in enumerate(others):
                room[at] = np.maximum(room[at], _apart(other, expected[at]))
    for seed in range(_ROUNDINGS):
        with _Rounded(seed):
            others = eager(module, arguments)
        for at, other in enumerate(others):
            room[at] = np.maximum(room[at], _apart(other, expected[at]))
    for at, other in enumerate(_without_residues(module, arguments)):
        room[at] = np.maximum(room[at], _apart(other, expected[at]))
    for at, other in enumerate(_in_double(module, arguments)):
        room[at] = np.maximum(room[at], _DOUBLE_ROOM * np.minimum(_apart(other, expected[at]), _MOST_DOUBLE_ROOM))
    for at, each in enumerate(expected):
        if each.dtype != np.float32:  # an index or a truth that moved at all may be any other
            room[at] = np.where(room[at] > 0, np.inf, 0.0)
    return room


class _Rounded(TorchFunctionMode):
    """Adds noise of the size of rounding to what is rounded.

    Changed inputs cannot show it where they are 0: the inverse of a Fourier transform of padding, whose sign is chance.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call `func`; change what it returns if that is rounded."""
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or not _ROUNDED.fullmatch(getattr(func, "__name__", "")):
            return result
        if not result.numel() or not (result.is_floating_point() or result.is_complex()):
            return result
        noise = torch.randn(result.shape, generator=self._generator, dtype=result.dtype)
        return result + noise * (_ROUNDING * result.abs().max())


def _without_residues(module: nn.Module, arguments: Sequence[Tensor]) -> list[Array]:
    """Return what eager gives where what a norm leaves of a single value, mere rounding, is the 0 that it stands for.

    Noise of either sign cannot show this: whether any of many residues is above 0 hardly depends on it.
    """
    quiet = copy.deepcopy(module)
    for each in quiet.modules():
        if isinstance(each, _NORMS):
            each.register_forward_hook(lambda _layer, _given, out: torch.where(out.abs() < _RESIDUE, 0.0, out))
    return eager(quiet, arguments)


def _in_double(module: nn.Module, arguments: Sequence[Tensor]) -> list[Array]:
    """Return what torch gives in float64; nothing where the module says float32 somewhere."""
    try:
        wide = [each.double() if each.is_floating_point() else each for each in arguments]
        return eager(copy.deepcopy(module).double(), wide)
    except RuntimeError:
        return []
