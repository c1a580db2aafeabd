"""Lists the operators that are counted, and those that are left out.

torch tags the operators that every backend must run as core; the set is read from torch itself.  Those below have no
meaning at inference and are left out by name, each with its reason.
"""

from functools import cache
from typing import Final

import torch

_BACKWARD: Final = "gradient; programs only infer"
_RANDOM: Final = "random; a program gives the same numbers for the same input"
_SIZES: Final = "a size, known at export; never an operator of a program"
_DATA_DEPENDENT: Final = "the shape of the result, or the next step of Python, depends on data"

EXCLUDED: Final[dict[str, str]] = {
    "_adaptive_avg_pool2d_backward": _BACKWARD,
    "avg_pool2d_backward": _BACKWARD,
    "convolution_backward": _BACKWARD,
    "embedding_dense_backward": _BACKWARD,
    "max_pool2d_with_indices_backward": _BACKWARD,
    "native_group_norm_backward": _BACKWARD,
    "native_layer_norm_backward": _BACKWARD,
    "rand": _RANDOM,
    "randn": _RANDOM,
    "randperm": _RANDOM,
    "sym_is_contiguous": _SIZES,
    "sym_numel": _SIZES,
    "sym_size": _SIZES,
    "sym_storage_offset": _SIZES,
    "sym_stride": _SIZES,
    "_local_scalar_dense": _DATA_DEPENDENT,
    "nonzero": _DATA_DEPENDENT,
    "resize_": "changes the storage of a tensor in place; tensors of a program have no storage of their own",
}


@cache
def core_overloads() -> dict[str, tuple[str, ...]]:
    """Return the overloads of every core-tagged ATen operator by name, both sorted; excluded ones too.

    The dispatcher is asked, because `dir(torch.ops.aten)` lists only what was used before.
    """
    found: dict[str, list[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - the only list that is complete
        namespace, _, rest = full.partition("::")
        if namespace != "aten":
            continue
        name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, name, None)
        op = getattr(packet, overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            found.setdefault(name, []).append(overload or "default")
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def counted_names() -> tuple[str, ...]:
    """Return the names that are checked: core and not excluded, sorted."""
    return tuple(name for name in core_overloads() if name not in EXCLUDED)
