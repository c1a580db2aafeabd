"""Describes what a feature takes and gives, and makes a program's inputs of what an app passes.

    predict(array, x=[[1.0, 2.0]]) ─▶ arrange_inputs ─▶ one text or array for each input, in the program's order

Arrays and texts are passed on as they are: the runtime alone decides whether they fit.  Lists and numbers become arrays
of the input's own type, and only where no value changes by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from alcove.runtime.errors import InputError

if TYPE_CHECKING:
    from alcove.sdk.engine import PortView, Runnable

__all__ = ["Port", "arrange_inputs", "ports_of"]

_CONVERTED: Final = (list, tuple, bool, int, float)
_NUMPY_NAMES: Final = {"f32": "float32", "i8": "int8", "i32": "int32", "i64": "int64", "u8": "uint8", "bool": "bool_"}


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of a feature; the dimensions for people don't count where two are compared.

    Attributes:
        name: what `predict` calls it.
        dtype: "text" (`str` or UTF-8 `bytes`), "f32", "i8", "i32", "i64", "u8" or "bool".
        shape: dimensions, at their greatest; () for a text.
        is_ragged: the first dimension is an upper bound.
        labels: names that an output chooses from: it comes back as text, whatever its dtype; () for any other.
        dims: the dimensions for people: "3", or "1..256" where the size comes with an input.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    is_ragged: bool = False
    labels: tuple[str, ...] = ()
    dims: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        dims = self.dims or tuple(map(str, self.shape))
        return f"{self.name}: {'label' if self.labels else self.dtype}" + (f"[{', '.join(dims)}]" if dims else "")


def ports_of(views: "Sequence[PortView]") -> tuple[Port, ...]:
    """Return the ports of a loaded program as values of the SDK."""
    return tuple(
        Port(view.name, _dtype_name(view), view.shape, view.is_ragged, view.labels, view.dims) for view in views
    )


def arrange_inputs(model: "Runnable", inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Sequence[Any]:
    """Return one value for each input of a program, in its order.

    Args:
        model: the program.
        inputs: for its first inputs.
        named: for others, by name.

    Raises:
        InputError: a name that is no input, or was given already; an input that is missing; a list or number that is
            no array of the input's type.
    """
    if not named and not any(isinstance(value, _CONVERTED) for value in inputs):
        return inputs
    values = (*inputs, *_in_order(model, len(inputs), named)) if named else inputs
    return [
        _convert(view, value) if isinstance(value, _CONVERTED) else value
        for view, value in zip(model.inputs, values, strict=False)
    ] + list(values[len(model.inputs) :])


def _in_order(model: "Runnable", given: int, named: Mapping[str, Any]) -> list[Any]:
    names = [view.name for view in model.inputs]
    for name in named:
        if name not in names:
            raise InputError(None, f"no input is called {name!r}; the inputs are {', '.join(names)}")
        if name in names[:given]:
            raise InputError(name, "it is given by its place already")
    rest = names[given:]
    if missing := [name for name in rest if name not in named]:
        raise InputError(missing[0], f"it is missing; the inputs are {', '.join(names)}")
    return [named[name] for name in rest]


def _convert(view: "PortView", value: Any) -> Any:
    """Return a list or a number as an array of the input's type."""
    import numpy as np  # noqa: PLC0415 - an app that passes arrays or texts has loaded what it needs

    dtype = _dtype_name(view)
    if dtype not in _NUMPY_NAMES:
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(view.name, "its lists are not all of one length") from None
    target = np.dtype(_NUMPY_NAMES[dtype])
    if array.size == 0:
        return array.astype(target) if array.dtype.kind == "f" else array
    if not _is_number_for(array.dtype.kind, target.kind):
        raise InputError(view.name, f"it takes {dtype}, got {_python_type(value)}")
    with np.errstate(over="ignore"):
        converted = array.astype(target)
    changed = np.isinf(converted) & ~np.isinf(array) if target.kind == "f" else converted != array
    if changed.any():
        raise InputError(view.name, f"{array[changed].flat[0]} is out of the range of {dtype}")
    return converted


def _is_number_for(given: str, wanted: str) -> bool:
    """Tell whether numbers of one of numpy's kinds can stand for those of another; booleans stand for themselves."""
    return given in {"f": "fiu", "b": "b"}.get(wanted, "iu")


def _python_type(value: Any) -> str:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return type(value).__name__


def _dtype_name(view: "PortView") -> str:
    return view.dtype.name.lower()
