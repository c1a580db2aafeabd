"""Traces functions of Python's `math` of sizes that vary, such as `math.sqrt(x.shape[1])`.

They take a size as the number that it is in the example, which fixes it.  For the time of a trace the functions here
stand for them, under `math`'s name and where a module's own file has imported them; of all else they are Python's.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from torch import nn

_BUILTIN: Final = type(math.sqrt)


def _is_size(value: object) -> bool:
    return isinstance(value, torch.SymInt | torch.SymFloat)


def _as_tensor(name: str) -> Callable[..., Any]:
    """Return torch's function of the size as a tensor: a graph has no such function of a size itself."""
    return lambda x: getattr(torch, name)(torch.scalar_tensor(x, dtype=torch.float32))


def _log(x: Any, *base: float) -> Any:
    natural = _as_tensor("log")(x)
    return natural / math.log(*base) if base else natural


_FORMULAS: Final[Mapping[str, Callable[..., Any]]] = {
    "sqrt": lambda x: x**0.5,
    "exp": lambda x: math.e**x,
    "pow": lambda x, y: x**y,
    "log": _log,
    **{name: _as_tensor(name) for name in ("log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "atan")},
}
"""By the name in `math`: what torch can trace."""
_PLAIN: Final[Mapping[str, Callable[..., Any]]] = {name: getattr(math, name) for name in _FORMULAS}


def _stand_in(name: str) -> Callable[..., Any]:
    plain, formula = _PLAIN[name], _FORMULAS[name]

    def call(*arguments: Any) -> Any:
        return (formula if any(map(_is_size, arguments)) else plain)(*arguments)

    return call


_STAND_INS: Final[Mapping[Callable[..., Any], Callable[..., Any]]] = {
    _PLAIN[name]: _stand_in(name) for name in _FORMULAS
}


@contextlib.contextmanager
def trace_functions_of_sizes(module: nn.Module) -> Iterator[None]:
    """Let `math`'s functions of sizes be traced in a module; one thread at a time."""
    spaces: dict[int, dict[str, Any]] = {id(math.__dict__): math.__dict__}
    for part in module.modules():
        for kind in type(part).__mro__:
            names = getattr(getattr(kind, "forward", None), "__globals__", {})
            spaces[id(names)] = names
    replaced = [
        (names, name, value)
        for names in spaces.values()
        for name, value in list(names.items())
        if isinstance(value, _BUILTIN) and value in _STAND_INS
    ]
    try:
        for names, name, value in replaced:
            names[name] = _STAND_INS[value]
        yield
    finally:
        for names, name, value in replaced:
            names[name] = value
