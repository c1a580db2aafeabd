"""Traces torch's layers so that sizes may vary: recurrent ones, transformers, bags of embeddings.

Torch traces recurrent layers step by step, so that tracing takes as long as the sequence and fixes its length.  For the
time of a trace the functions that torch.nn's layers call are replaced by operators that know the shapes of their
results; computing, they are torch's own.

`nn.Transformer` looks into its masks: traced, a mask is what it is.  `nn.TransformerEncoder` run without gradients
leaves padded places out, and its output is 0 there (before its last norm) if the padding stands at the ends; traced,
torch takes another path, so zeros are written here.

`torch.cdist` chooses between two ways by the sizes, and `torch.linspace` takes no size that varies; traced, the first
takes the exact way, and the second is written out.

Bags of as many ids each begin where `torch.arange(0, numel, length)` says, whose size torch cannot follow when the
length varies; traced, they begin at multiples of the length.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn.modules import transformer

_STATES: Final = {"gru": 1, "lstm": 2, "rnn_tanh": 1, "rnn_relu": 1}
"""Torch's functions, with the number of states that a layer has."""

_LIBRARY: Final[Any] = cast("Any", torch.library).Library("alcove", "FRAGMENT")  # torch has no types for it
_BIASES: Final = 3
"""Position of `has_biases`; for packed sequences another argument stands there."""


def _register(name: str, states: int) -> None:
    """Define alcove::<name> with the parameters of torch's aten::<name>.input."""
    hx = "Tensor hx" if states == 1 else "Tensor[] hx"
    results = ", ".join(["Tensor"] * (1 + states))
    _LIBRARY.define(
        f"{name}(Tensor input, {hx}, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
        f"bool bidirectional, bool batch_first) -> ({results})"
    )
    plain = getattr(torch.ops.aten, name).input

    def compute(*arguments: Any) -> tuple[Tensor, ...]:
        return tuple(result.contiguous() for result in plain(*arguments))

    def shapes(*arguments: Any) -> tuple[Tensor, ...]:
        x, hx, bidirectional = arguments[0], arguments[1], arguments[-2]
        last = [hx] if isinstance(hx, Tensor) else hx
        width = last[0].shape[2] * (2 if bidirectional else 1)
        return x.new_empty((*x.shape[:2], width)), *(torch.empty_like(state) for state in last)

    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"alcove::{name}", shapes, lib=_LIBRARY)


for _name, _states in _STATES.items():
    _register(_name, _states)


def _whole(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return alcove's operator in place of torch's function, but for packed sequences."""
    operator = getattr(torch.ops.alcove, name)

    def call(*arguments: Any) -> Any:
        return (operator if isinstance(arguments[_BIASES], bool) else plain)(*arguments)

    return call


def _is_said_causal(_mask: Tensor | None, is_causal: bool | None = None, _size: int | None = None) -> bool:
    """Stand for torch's look into a mask: without a hint the mask itself is used, which gives the same numbers."""
    return is_causal is True


def _leaves_out_padding(encoder: nn.TransformerEncoder, src: Tensor, mask: Tensor | None) -> bool:
    """Return whether eager, without gradients, leaves padded places out where the padding stands at the ends."""
    is_used = getattr(encoder, "use_nested_tensor", False) and torch.backends.mha.get_fastpath_enabled()
    return is_used and not encoder.training and src.dim() == _BATCHED and mask is None


def _encode(
    self: nn.TransformerEncoder,
    src: Tensor,
    mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool | None = None,
) -> Tensor:
    """Stand for `nn.TransformerEncoder.forward`."""
    if src_key_padding_mask is None or not _leaves_out_padding(self, src, mask):
        return _PLAIN_ENCODE(self, src, mask, src_key_padding_mask, is_causal)
    output = src
    for layer in self.layers:
        output = layer(output, src_key_padding_mask=src_key_padding_mask)
    is_padded = src_key_padding_mask.bool()
    is_last = torch.arange(is_padded.shape[1]) == is_padded.shape[1] - 1
    is_padded = is_padded & (is_padded.roll(-1, 1) | is_last | ~is_padded).all()
    output = output.masked_fill(is_padded.unsqueeze(-1), 0.0)
    return output if self.norm is None else cast("Tensor", self.norm(output))


def _embedding_bag(*arguments: Any, **named: Any) -> Tensor:
    """Stand for `nn.functional.embedding_bag`."""
    bound = inspect.signature(_PLAIN_BAG).bind(*arguments, **named).arguments
    ids, weights = bound["input"], bound.get("per_sample_weights")
    is_weighted_right = weights is None or weights.shape == ids.shape
    if ids.dim() == _ROWS and not ids.is_nested and bound.get("offsets") is None and is_weighted_right:
        starts = torch.arange(ids.shape[0], dtype=ids.dtype, device=ids.device) * ids.shape[1]
        bound |= {"input": ids.reshape(-1), "offsets": starts, "include_last_offset": False}
        bound["per_sample_weights"] = None if weights is None else weights.reshape(-1)
    return _PLAIN_BAG(**bound)


def _cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",  # noqa: ARG001 - torch's signature
) -> Tensor:
    """Stand for `torch.cdist`."""
    return _PLAIN_CDIST(x1, x2, p, "donot_use_mm_for_euclid_dist")


def _linspace(start: Any, end: Any, steps: Any, **named: Any) -> Tensor:
    """Stand for `torch.linspace`."""
    is_written_out = isinstance(steps, torch.SymInt) and not isinstance(start, Tensor) and not isinstance(end, Tensor)
    if not is_written_out or named.get("dtype") not in {None, torch.float32} or named.get("out") is not None:
        return _PLAIN_LINSPACE(start, end, steps, **named)
    untyped: Any = torch
    places = untyped.arange(steps, dtype=torch.float32)
    last = torch.scalar_tensor(untyped.sym_max(steps - 1, 1), dtype=torch.float32)
    step = (end - start) / last
    return torch.where(places < steps // 2, start + step * places, end - step * (last - places))


_PLAIN_CDIST: Final = cast("Callable[..., Tensor]", torch.cdist)
_PLAIN_LINSPACE: Final = cast("Callable[..., Tensor]", torch.linspace)
_ROWS: Final = 2
_PLAIN_BAG: Final = cast("Callable[..., Tensor]", nn.functional.embedding_bag)
_BATCHED: Final = 3
_PLAIN_ENCODE: Final = cast("Callable[..., Tensor]", nn.TransformerEncoder.forward)


@contextlib.contextmanager
def keep_composite_ops() -> Iterator[None]:
    """Let the layers of torch.nn be traced as above; one thread at a time."""
    functions: Any = torch._VF  # noqa: SLF001 - what the layers call has no public name
    layers: Any = transformer
    plain_look = layers._detect_is_causal_mask  # noqa: SLF001 - what the layers call has no public name
    for name in _STATES:
        setattr(functions, name, _whole(getattr(functions, name), name))
    layers._detect_is_causal_mask = _is_said_causal  # noqa: SLF001 - see above
    layers.TransformerEncoder.forward = _encode
    nn.functional.embedding_bag = _embedding_bag
    named: Any = torch
    named.cdist, named.linspace = _cdist, _linspace
    try:
        yield
    finally:
        named.cdist, named.linspace = _PLAIN_CDIST, _PLAIN_LINSPACE
        nn.functional.embedding_bag = _PLAIN_BAG
        layers._detect_is_causal_mask = plain_look  # noqa: SLF001 - see above
        layers.TransformerEncoder.forward = _PLAIN_ENCODE
        for name in _STATES:
            delattr(functions, name)  # what was there before is found behind it
