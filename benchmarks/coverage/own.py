"""Provides samples of operators that no OpInfo reaches, or not with every overload.

Each generator gives (overload, call, arguments).  A call of None is the overload itself; a function is a composite that
gives the operator inputs or outputs that a program can have (no complex numbers, no uninitialised memory).
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.coverage.case import Sample, held_of

Call = tuple[str, Callable[..., Any] | None, tuple[Any, ...]]
SEED: Final = 411


def _f(*shape: int) -> Tensor:
    return torch.randn(shape)


def _i(*shape: int) -> Tensor:
    return torch.randint(-9, 10, shape)


def _b(*shape: int) -> Tensor:
    return torch.rand(shape) > 0.5


def _scalars(overload: str, floats: tuple[float, ...], ints: tuple[int, ...], *more: Any) -> list[Call]:
    return [
        *((overload, None, (_f(2, 3), value, *more)) for value in floats),
        *((overload, None, (_i(2, 3), value, *more)) for value in ints),
        (overload, None, (_f(), floats[0], *more)),
    ]


def _comparison() -> list[Call]:
    return [*_scalars("Scalar", (0.25, -1), (3, 0)), ("Tensor", None, (_i(2, 3), _i(3))), ("Scalar", None, (_b(3), 1))]


def _bitwise() -> list[Call]:
    return [*((("Scalar", None, (_i(2, 3), value))) for value in (5, -3)), ("Scalar", None, (_b(4), True))]


def _norm_arguments(channels: int) -> tuple[Tensor, ...]:
    return _f(channels), _f(channels), _f(channels), torch.rand(channels) + 0.5


def _batch_norm_no_training() -> list[Call]:
    return [
        ("default", None, (_f(2, 3, 4, 5), *_norm_arguments(3), 0.1, 1e-5)),
        ("default", None, (_f(4, 3), *_norm_arguments(3), 0.1, 1e-3)),
        ("default", None, (_f(2, 3, 6), None, None, *_norm_arguments(3)[2:], 0.1, 1e-5)),
    ]


def _batch_norm_legit() -> list[Call]:
    return [
        ("default", None, (_f(2, 3, 4, 5), *_norm_arguments(3), False, 0.1, 1e-5)),
        ("no_stats", None, (_f(2, 3, 4, 5), _f(3), _f(3), True, 0.1, 1e-5)),
        ("no_stats", None, (_f(1, 6, 4, 5), None, None, True, 0.1, 1e-5)),
    ]


def _embedding_bag() -> list[Call]:
    ids, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 4])
    table = _f(10, 3)
    calls: list[Call] = [("default", None, (table, ids, offsets, False, mode)) for mode in (0, 1, 2)]
    calls.append(("default", None, (table, ids, offsets, False, 0, False, _f(8))))
    calls.append(("default", None, (table, ids, torch.tensor([0, 0, 8]), False, 1)))
    calls.append(("default", None, (table, ids, torch.tensor([0, 3, 8]), False, 0, False, None, True)))
    return calls


def _real_fft(x: Tensor) -> Tensor:
    return torch.view_as_real(torch.ops.aten._fft_r2c.default(x, [x.dim() - 1], 0, True))  # noqa: SLF001 - its name


def _inverse_real_fft(x: Tensor) -> Tensor:
    spectrum = torch.view_as_complex(x)
    length = 2 * (spectrum.shape[-1] - 1)
    return torch.ops.aten._fft_c2r.default(spectrum, [spectrum.dim() - 1], 2, length)  # type: ignore[no-any-return]  # noqa: SLF001 - its name


def _fill(x: Tensor) -> Tensor:
    filled: Tensor = torch.ops.aten.empty.memory_format([2, 3]).fill_(1.5)
    return filled + x


def _fill_strided(x: Tensor) -> Tensor:
    filled: Tensor = torch.ops.aten.empty_strided.default([2, 3], [3, 1]).fill_(1.5)
    return filled + x


def _arange() -> list[Call]:
    return [
        ("start_step", None, (0, 5)),
        ("start_step", None, (1.0, 3.0, 0.5)),
        ("start_step", None, (7, -3, -2)),
        ("start_step", lambda x: x + torch.ops.aten.arange.start_step(0, 3), (_f(2, 3),)),
    ]


def _powers() -> list[Call]:
    return [
        ("Scalar", None, (2.5, _f(2, 3))),
        ("Scalar", None, (2, _i(2, 3).abs())),
        *(("Tensor_Scalar", None, (torch.rand(2, 3) + 0.1, value)) for value in (2, 3, 0.5, -1, 0, -2.5, 1.7)),
        *(("Tensor_Scalar", None, (_i(2, 3), value)) for value in (0, 1, 2, 3)),
        ("Tensor_Tensor", None, (_i(2, 3), _i(3).abs())),
        ("Tensor_Tensor", None, (_f(4), torch.tensor([2.0, 3.0, -1.0, 0.0]))),
    ]


def _index() -> list[Call]:
    rows, columns = torch.tensor([0, 2, -1]), torch.tensor([[1], [3]])
    return [
        ("Tensor", None, (_f(4, 5), [rows])),
        ("Tensor", None, (_f(4, 5), [None, rows])),
        ("Tensor", None, (_f(4, 5), [rows, columns])),
        ("Tensor", None, (_f(3, 4, 5), [rows, None, columns])),
        ("Tensor", None, (_i(4, 5), [rows.int()])),
    ]


def _upsample_bilinear() -> list[Call]:
    return [
        ("vec", None, (_f(1, 2, 3, 4), size, corners, scales))
        for corners in (False, True)
        for size, scales in (([6, 8], None), ([2, 3], None), (None, [2.0, 1.5]))
    ]


def _upsample_nearest() -> list[Call]:
    return [
        ("vec", None, (_f(1, 2, 3, 4), size, scales))
        for size, scales in (([6, 8], None), ([2, 3], None), (None, [2.0, 1.5]))
    ]


def _slices() -> list[Call]:
    return [
        ("Tensor", None, (_f(5, 4), 0, 1, 4)),
        ("Tensor", None, (_f(5, 4), 1, 0, 9223372036854775807, 2)),
        ("Tensor", None, (_i(5, 4), -1, -3, -1)),
    ]


GENERATORS: Final[dict[str, Callable[[], list[Call]]]] = {
    "_embedding_bag": _embedding_bag,
    "_fft_c2r": lambda: [("default", _inverse_real_fft, (_f(2, 5, 2),)), ("default", _inverse_real_fft, (_f(9, 2),))],
    "_fft_r2c": lambda: [("default", _real_fft, (_f(2, 8),)), ("default", _real_fft, (_f(15),))],
    "_native_batch_norm_legit": _batch_norm_legit,
    "_native_batch_norm_legit_no_training": _batch_norm_no_training,
    "add": lambda: _scalars("Scalar", (1.5,), (3,)) + _scalars("Scalar", (1.5,), (3,), 2),
    "alias": lambda: [("default", None, (x,)) for x in (_f(2, 3), _i(4), _b(2))],
    "any": lambda: [
        ("default", None, (_b(2, 3),)),
        ("dim", None, (_f(2, 3), 1, True)),
        ("dims", None, (_b(2, 3, 4), [0, 2])),
        ("dims", None, (_b(2, 3, 4), None, True)),
    ],
    "arange": _arange,
    "bitwise_and": _bitwise,
    "bitwise_or": _bitwise,
    "bitwise_xor": _bitwise,
    "clamp": lambda: [
        ("default", None, (_f(2, 3), -0.5, 0.5)),
        ("default", None, (_f(2, 3), None, 0.5)),
        ("default", None, (_i(2, 3), 0)),
        ("default", None, (_i(2, 3), -2, 4)),
    ],
    "clone": lambda: [("default", None, (x,)) for x in (_f(2, 3), _i(4), _b(2))],
    "col2im": lambda: [
        ("default", None, (_f(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
        ("default", None, (_f(1, 8, 4), [4, 4], [2, 2], [1, 1], [0, 0], [2, 2])),
        ("default", None, (_f(8, 9), [4, 4], [2, 2], [2, 2], [1, 1], [1, 1])),
    ],
    "copy": lambda: [
        ("default", None, (_f(2, 3), _f(2, 3))),
        ("default", None, (_f(2, 3), _f(3))),
        ("default", None, (_f(2, 3), _i(2, 3))),
    ],
    "div": lambda: [
        *_scalars("Scalar", (1.5,), (3,)),
        *[("Scalar_mode", _divide(mode), (x,)) for mode in ("floor", "trunc", None) for x in (_f(2, 3), _i(2, 3))],
    ],
    "empty": lambda: [("memory_format", _fill, (_f(2, 3),))],
    "empty_strided": lambda: [("default", _fill_strided, (_f(2, 3),))],
    "eq": _comparison,
    "fill": lambda: [
        ("Scalar", None, (_f(2, 3), 1.5)),
        ("Scalar", None, (_i(2, 3), 4)),
        ("Scalar", None, (_b(2), True)),
    ],
    "fmod": lambda: _scalars("Scalar", (1.5, -0.7), (4, -3)),
    "full": lambda: [
        ("default", None, ([2, 3], 1.5)),
        ("default", None, ([4], 7)),
        ("default", lambda x: x * torch.ops.aten.full.default([2, 3], 2.5), (_f(2, 3),)),
    ],
    "ge": _comparison,
    "gt": _comparison,
    "index": _index,
    "le": _comparison,
    "lt": _comparison,
    "mul": lambda: _scalars("Scalar", (1.5,), (3,)),
    "native_dropout": lambda: [("default", None, (_f(2, 3), 0.5, False)), ("default", None, (_f(4), 0.1, False))],
    "ne": _comparison,
    "pow": _powers,
    "remainder": lambda: _scalars("Scalar", (1.5, -0.7), (4, -3)),
    "scalar_tensor": lambda: [
        ("default", None, (1.5,)),
        ("default", lambda x: x + torch.ops.aten.scalar_tensor.default(2.5), (_f(2, 3),)),
    ],
    "slice": _slices,
    "sub": lambda: _scalars("Scalar", (1.5,), (3,)) + _scalars("Scalar", (1.5,), (3,), 2),
    "upsample_bilinear2d": _upsample_bilinear,
    "upsample_nearest2d": _upsample_nearest,
    "var": lambda: [
        ("dim", None, (_f(2, 3, 4), [1])),
        ("dim", None, (_f(2, 3, 4), [0, 2], False, True)),
        ("dim", None, (_f(5), None)),
    ],
}


def _divide(mode: str | None) -> Callable[[Tensor], Any]:
    """Return a division by 2; the mode is a keyword of the overload, and keywords are captured by closure here."""

    def call(x: Tensor) -> Any:
        return torch.ops.aten.div.Scalar_mode(x, 2, rounding_mode=mode)

    return call


def own_samples(name: str) -> list[Sample]:
    """Return the samples of this file for an operator; none where OpInfos are enough."""
    torch.manual_seed(SEED)
    calls = GENERATORS[name]() if name in GENERATORS else []
    samples = []
    for overload, function, args in calls:
        op = getattr(getattr(torch.ops.aten, name), overload)
        held = held_of(op, args, {}) if function is None else frozenset()
        samples.append(Sample(name, overload, f"aten.{name}.{overload}", function or op, args, {}, held))
    return samples
