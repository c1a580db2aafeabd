"""Finds the OpInfos that reach an operator, and lists which of their arguments are a model's constants."""

from functools import cache
from typing import Any, Final

_CONVOLUTIONS: Final = (
    "nn.functional.conv2d",
    "nn.functional.conv1d",
    "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose1d",
    "nn.functional.conv3d",
)

# Beside the OpInfos of the operator's own name: composite ones that call it.
COMPOSITES: Final[dict[str, tuple[str, ...]]] = {
    "_adaptive_avg_pool2d": ("nn.functional.adaptive_avg_pool2d",),
    "_adaptive_avg_pool3d": ("nn.functional.adaptive_avg_pool3d",),
    "_cdist_forward": ("cdist",),
    "_embedding_bag": ("nn.functional.embedding_bag",),
    "_log_softmax": ("log_softmax", "nn.functional.cross_entropy"),
    "_native_batch_norm_legit": ("nn.functional.instance_norm",),
    "_native_batch_norm_legit_no_training": ("nn.functional.batch_norm",),
    "_pdist_forward": ("nn.functional.pdist",),
    "_softmax": ("softmax", "nn.functional.softmin"),
    "_to_copy": ("to", "float", "int", "long", "bool"),
    "adaptive_avg_pool1d": ("nn.functional.adaptive_avg_pool1d",),
    "addmm": ("nn.functional.linear",),
    "amax": ("logsumexp",),
    "bmm": ("matmul", "nn.functional.bilinear"),
    "cat": ("hstack", "vstack", "stack"),
    "clamp": ("clamp_min", "clamp_max", "nn.functional.relu6"),
    "clone": ("contiguous",),
    "constant_pad_nd": ("nn.functional.pad.constant",),
    "convolution": _CONVOLUTIONS,
    "copy": ("copysign",),
    "elu": ("nn.functional.elu", "nn.functional.selu", "nn.functional.celu"),
    "embedding": ("nn.functional.embedding",),
    "grid_sampler_2d": ("nn.functional.grid_sample",),
    "hardtanh": ("nn.functional.hardtanh", "nn.functional.relu6"),
    "index": ("__getitem__",),
    "max_pool2d_with_indices": ("nn.functional.max_pool2d", "nn.functional.max_pool1d"),
    "max_pool3d_with_indices": ("nn.functional.max_pool3d",),
    "mm": ("matmul",),
    "native_group_norm": ("nn.functional.group_norm",),
    "native_layer_norm": ("nn.functional.layer_norm",),
    "permute": ("movedim", "transpose"),
    "reflection_pad1d": ("nn.functional.pad.reflect",),
    "reflection_pad2d": ("nn.functional.pad.reflect",),
    "reflection_pad3d": ("nn.functional.pad.reflect",),
    "replication_pad2d": ("nn.functional.pad.replicate",),
    "replication_pad3d": ("nn.functional.pad.replicate",),
    "repeat": ("tile",),
    "rsqrt": ("nn.functional.rms_norm",),
    "sigmoid": ("nn.functional.silu", "nn.functional.logsigmoid"),
    "split_with_sizes": ("split.list_args", "tensor_split"),
    "tanh": ("nn.functional.mish",),
    "upsample_bilinear2d": ("nn.functional.interpolate.bilinear", "nn.functional.upsample_bilinear"),
    "upsample_nearest2d": ("nn.functional.interpolate.nearest", "nn.functional.upsample_nearest"),
    "var": ("std", "var_mean"),
    "view": ("reshape", "unflatten"),
    "where": ("masked_fill", "tril", "triu"),
}

# Eager calls another operator than a traced graph does, so a recording of eager proves nothing about these.
TRACED_ONLY: Final = frozenset(
    {
        "_embedding_bag",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        "adaptive_avg_pool1d",
        "avg_pool1d",
        "upsample_bilinear2d",
        "upsample_nearest2d",
    }
)

# What these give is whatever memory held: torch's samples show nothing; those of own.py fill it.
UNINITIALISED: Final = frozenset({"empty", "empty_strided"})

# Positions among an OpInfo's tensors (input first) that a model holds as parameters.
HELD_POSITIONS: Final[dict[str, frozenset[int]]] = {
    **{name: frozenset({1, 2}) for name in _CONVOLUTIONS},
    "nn.functional.linear": frozenset({1, 2}),
    "nn.functional.bilinear": frozenset({2, 3}),
    "nn.functional.batch_norm": frozenset({1, 2, 3, 4}),
    "nn.functional.instance_norm": frozenset({1, 2, 3, 4}),
    "nn.functional.layer_norm": frozenset({1, 2}),
    "nn.functional.group_norm": frozenset({1, 2}),
    "nn.functional.rms_norm": frozenset({1}),
    "native_layer_norm": frozenset({1, 2}),
    "native_group_norm": frozenset({1, 2}),
    "_native_batch_norm_legit": frozenset({1, 2, 3, 4}),
    "nn.functional.embedding": frozenset({0}),
    "nn.functional.embedding_bag": frozenset({0}),
}

# Arguments of torch.ops.aten.X that a model holds as parameters, for the operators that have such.
HELD_NAMES: Final = frozenset({"weight", "bias", "running_mean", "running_var"})

# Only the first output is compared: the others feed the gradient, and no module of torch.nn gives them.
FIRST_OUTPUT_ONLY: Final = frozenset(
    {
        "_embedding_bag",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        "native_group_norm",
        "native_layer_norm",
        "native_dropout",
    }
)


@cache
def _database() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {_full_name(info): info for info in op_db}


def _full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def op_infos(name: str) -> tuple[tuple[str, Any], ...]:
    """Return the OpInfos for an operator, each with its full name: its own first, then composites that call it."""
    if name in UNINITIALISED:
        return ()
    own = [full for full, info in _database().items() if name in (info.name, info.aten_name)]
    listed = [full for full in COMPOSITES.get(name, ()) if full in _database()]
    return tuple((full, _database()[full]) for full in dict.fromkeys([*own, *listed]))
