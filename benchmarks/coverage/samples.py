"""Collects sample calls of an operator, deterministically: the same torch gives the same samples.

Two routes.  Functional: torch's OpInfo samples, called as users call them; kept if eager then calls the operator.
Direct: `torch.ops.aten.X.overload` with the arguments that those calls, watched by a dispatch mode, gave it, and with
the samples of own.py.
"""

import itertools
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.coverage.case import Sample, held_of, plain
from benchmarks.coverage.names import core_overloads
from benchmarks.coverage.own import own_samples
from benchmarks.coverage.sources import HELD_POSITIONS, TRACED_ONLY, op_infos

SAMPLE_DTYPES: Final = (torch.float32, torch.int64, torch.bool)
MAX_GENERATED: Final = 400  # samples looked at for one OpInfo and type; some have tens of thousands
MAX_ELEMENTS: Final = 100_000  # of all tensors of a sample together
SEED: Final = 20260


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch gives it no types
    """Watches eager and keeps the calls of one operator's core overloads, with copies of their arguments."""

    def __init__(self, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self._packet = getattr(torch.ops.aten, name)
        self._core = {getattr(self._packet, overload): overload for overload in core_overloads()[name]}
        self.is_reached = False
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Keep the call if it is one of the operator, and make it."""
        kwargs = kwargs or {}
        if func.overloadpacket is self._packet:
            self.is_reached = True
            if func in self._core:
                self.calls.append((self._core[func], _copy(args), _copy(kwargs)))
        return func(*args, **kwargs)


def samples_of(name: str, per_group: int) -> list[Sample]:
    """Return the samples of one operator: at most `per_group` for each route, overload and element type.

    Types other than float32 get half as many.
    """
    groups: dict[tuple[str, torch.dtype], list[Sample]] = {}
    for dtype in SAMPLE_DTYPES:
        functional: list[Sample] = []
        direct: list[Sample] = []
        for full_name, info in op_infos(name):
            if dtype not in info.supported_dtypes("cpu"):
                continue
            found, recorded = _from_op_info(name, full_name, info, dtype)
            functional += found
            direct += recorded
        groups[("", dtype)] = functional
        for sample in direct:
            groups.setdefault((sample.overload, dtype), []).append(sample)
    chosen = []
    own = own_samples(name)
    for (_, dtype), samples in groups.items():
        bound = per_group if dtype is torch.float32 else max(1, per_group // 2)
        chosen += distinct(samples, bound, with_empty=dtype is torch.float32)
    return [*chosen, *own]


def _from_op_info(name: str, full_name: str, info: Any, dtype: torch.dtype) -> tuple[list[Sample], list[Sample]]:
    """Return the samples of one OpInfo that reach the operator, and the direct calls that they make of it."""
    functional: list[Sample] = []
    direct: list[Sample] = []
    for argument in itertools.islice(_generate(info, dtype), MAX_GENERATED):
        args, kwargs = (argument.input, *argument.args), dict(argument.kwargs)
        held = HELD_POSITIONS.get(full_name, frozenset())
        sample = Sample(name, "", full_name, info.op, args, kwargs, held)
        if sum(tensor.numel() for tensor in sample.tensors()) > MAX_ELEMENTS:
            continue
        recorder = Recorder(name)
        try:
            with torch.no_grad(), warnings.catch_warnings(), recorder:
                warnings.simplefilter("ignore")
                info.op(*_copy(args), **_copy(kwargs))
        except Exception:  # noqa: BLE001 - no sample of eager, none of ours
            continue
        if recorder.is_reached or name in TRACED_ONLY:
            functional.append(sample)
        direct += [_direct(name, *call) for call in recorder.calls]
        if name in TRACED_ONLY and full_name in (name, f"nn.functional.{name}"):
            direct += _as_direct(sample)
    return functional, direct


def _generate(info: Any, dtype: torch.dtype) -> Iterator[Any]:
    """Yield what an OpInfo generates, from a fixed seed; stop quietly where its generator fails."""
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from info.sample_inputs("cpu", dtype, requires_grad=False)
    except Exception:  # noqa: BLE001 - some generators need devices or libraries that are not here
        return


def _direct(name: str, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sample:
    op = getattr(getattr(torch.ops.aten, name), overload)
    return Sample(name, overload, f"aten.{name}.{overload}", op, args, kwargs, held_of(op, args, kwargs))


def _as_direct(sample: Sample) -> list[Sample]:
    """Return the same call as `torch.ops.aten.X.default` where its arguments fit the schema."""
    candidate = _direct(sample.name, "default", sample.args, sample.kwargs)
    try:
        with torch.no_grad():
            candidate.call(*_copy(candidate.args), **_copy(candidate.kwargs))
    except Exception:  # noqa: BLE001 - the functional form takes more than the operator
        return []
    return [candidate]


def _copy(value: Any) -> Any:
    """Return `value` with contiguous copies of its tensors."""
    return pytree.tree_map_only(Tensor, plain, value)


def distinct(samples: Iterable[Sample], bound: int, *, with_empty: bool = False) -> list[Sample]:
    """Return at most `bound` samples that differ most: each next one shows the most that was not shown yet.

    Small ones come first among equals, then the order given; of those without elements one is taken if `with_empty`.
    """
    waiting = sorted(samples, key=lambda sample: sum(tensor.numel() for tensor in sample.tensors()))
    empty = [sample for sample in waiting if any(tensor.numel() == 0 for tensor in sample.tensors())][:1]
    waiting = [sample for sample in waiting if all(tensor.numel() > 0 for tensor in sample.tensors())]
    features = [_features(sample) for sample in waiting]
    shown: set[str] = set()
    chosen: list[Sample] = []
    while waiting and len(chosen) < bound:
        best = max(range(len(waiting)), key=lambda index: len(features[index] - shown))
        if chosen and not features[best] - shown:
            break
        shown |= features[best]
        chosen.append(waiting.pop(best))
        features.pop(best)
    return [*chosen, *empty] if with_empty else chosen


def _features(sample: Sample) -> set[str]:
    """Return what a sample shows: ranks, types, relations of shapes, and every argument that is no tensor."""
    tensors = sample.tensors()
    found = {f"source {sample.source}", f"tensors {len(tensors)}"}
    found |= {f"rank {index} {tensor.dim()}" for index, tensor in enumerate(tensors)}
    found |= {f"dtype {index} {tensor.dtype}" for index, tensor in enumerate(tensors)}
    found |= {f"contiguous {index} {tensor.is_contiguous()}" for index, tensor in enumerate(tensors)}
    found.add(f"same shapes {len({tensor.shape for tensor in tensors}) <= 1}")
    found.add(f"shapes {[tuple(tensor.shape) for tensor in tensors]}")
    named = [*((f"argument {i}", value) for i, value in enumerate(sample.args)), *sample.kwargs.items()]
    for key, value in named:
        text = _constant(value)
        if text:
            found.add(f"{key}={text}")
    return found


def _constant(value: Any) -> str:
    leaves: Callable[[Any], list[Any]] = pytree.tree_leaves
    return "" if any(isinstance(leaf, Tensor) for leaf in leaves(value)) else repr(value)
