"""What torch says of the nodes of its graphs."""

from typing import Any

import torch
from alcove.runtime.compiler.cast import CAST_ADVICE
from alcove.runtime.compiler.graph import Origin
from alcove.runtime.compiler.rules import DTYPES
from alcove.runtime.compiler.source import source_of_stack
from torch import Tensor, fx


def origin_of(node: fx.Node) -> Origin:
    """Return where in the user's model a torch node comes from."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = plain_path(stack[-1][0]) if stack else ""
    return Origin(str(node.target), path, source_of_stack(node.meta.get("stack_trace")))


def plain_path(path: str) -> str:
    """Return a module path without torch's suffix for the second call of one module ("layer@1")."""
    return path.partition("@")[0]


def attribute_of(node: fx.Node) -> Any:
    """Return what a node names in the module that holds its graph."""
    owner: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        owner = getattr(owner, name)
    return owner


def tensors_of(node: fx.Node) -> list[Tensor]:
    """Return what torch knows of the tensors that a node gives; empty for sizes and assertions."""
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part for part in parts if isinstance(part, Tensor)]


def sizes_of(node: fx.Node) -> list[Any]:
    """Return the sizes in the results and among the arguments of a node."""
    found: list[Any] = [size for fake in tensors_of(node) for size in fake.shape]
    found += [argument.meta.get("val") for argument in node.all_input_nodes if not tensors_of(argument)]
    return found


def symbols_of(fake: Tensor) -> set[Any]:
    """Return torch's symbols in a tensor's shape."""
    sizes: list[Any] = list(fake.shape)
    return {symbol for size in sizes if isinstance(size, torch.SymInt) for symbol in size.node.expr.free_symbols}


def is_row_major(argument: object) -> bool:
    """Return whether torch holds the tensor that `argument` stands for as a program does."""
    return isinstance(argument, fx.Node) and all(fake.is_contiguous() for fake in tensors_of(argument))


def has_place(fake: Tensor) -> bool:
    """Return whether a program may hold tensors of this type."""
    return fake.dtype in DTYPES or fake.dtype is torch.complex64


def advise_type(dtype: torch.dtype) -> str:
    """Return in which type to compute in place of one that no program has."""
    return "stay in float32" if dtype.is_floating_point or dtype.is_complex else "take int32 or int64 in its place"


def input_refusal(fake: Tensor) -> str:
    """Return why a program takes no tensor of this kind; "" if it does."""
    if fake.layout is not torch.strided:
        return f"it is sparse ({fake.layout}); pass it dense, to_dense()"
    if fake.dtype in DTYPES:
        return ""
    if fake.dtype.is_complex:
        advice = "pass its parts, torch.view_as_real(x), and take torch.view_as_complex of them"
    elif fake.dtype.is_floating_point:
        advice = f"pass float32, or {CAST_ADVICE}"
    else:
        advice = "pass int32 or int64, which hold the same numbers (x.to(torch.int32)), in the example and in each run"
    return f"{fake.dtype} has no place in a program; {advice}"
