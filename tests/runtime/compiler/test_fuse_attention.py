"""Attention written out by hand becomes one operator, with torch's answers; what is almost attention stays."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn
from torch.export import Dim

from tests.runtime.compiler.fusing import Of, fuse_ops

Q, K, V = (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)
SCALE = 1 / math.sqrt(8)
HOLES = torch.rand(5, 7, generator=torch.Generator().manual_seed(4)) < 0.4
EMPTY = HOLES.clone()
EMPTY[2] = True
BIAS = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(5))


def operands() -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values."""
    random = torch.Generator().manual_seed(6)
    q, k, v = (torch.randn(shape, generator=random) for shape in (Q, K, V))
    return q, k, v


def attend(scores: Tensor, v: Tensor) -> Tensor:
    """Shares of the values."""
    return torch.softmax(scores, -1) @ v


FORMS: dict[str, Callable[..., Tensor]] = {
    "plain": lambda q, k, v: attend(q @ k.transpose(-1, -2), v),
    "times": lambda q, k, v: attend(q @ k.mT * SCALE, v),
    "divided": lambda q, k, v: attend(q @ k.mT / math.sqrt(8), v),
    "scaled query": lambda q, k, v: attend((q * SCALE) @ k.mT, v),
    "scaled key": lambda q, k, v: attend(q @ (k / 3).mT, v),
    "scaled both": lambda q, k, v: attend((q * 0.5) @ (k * 0.5).mT, v),
    "einsum": lambda q, k, v: attend(torch.einsum("bhld,bhsd->bhls", q, k) * SCALE, v),
    "constant mask": lambda q, k, v: attend(q @ k.mT * SCALE + BIAS, v),
    "mask first": lambda q, k, v: attend(BIAS + q @ k.mT * SCALE, v),
    "filled": lambda q, k, v: attend((q @ k.mT).masked_fill(HOLES, -math.inf), v),
    "filled before scaling": lambda q, k, v: attend((q @ k.mT).masked_fill(HOLES, -1e4) / math.sqrt(8), v),
    "filled with a small number": lambda q, k, v: attend((q @ k.mT * SCALE).masked_fill(EMPTY, -1.5), v),
    "empty row of a number": lambda q, k, v: attend((q @ k.mT * SCALE).masked_fill(EMPTY, -1e9), v),
    "empty row of infinity": lambda q, k, v: attend((q @ k.mT * SCALE).masked_fill(EMPTY, -math.inf), v),
    "where": lambda q, k, v: attend(torch.where(~HOLES, q @ k.mT, torch.tensor(-1e9)), v),
    "batches as rows": lambda q, k, v: torch.bmm(
        torch.softmax(torch.bmm(q.reshape(6, 5, 8), k.reshape(6, 7, 8).transpose(1, 2)), -1), v.reshape(6, 7, 6)
    ),
    "batches as rows and a mask by head": lambda q, k, v: torch.bmm(
        torch.softmax(
            torch.bmm(q.reshape(6, 5, 8), k.reshape(6, 7, 8).mT).reshape(2, 3, 5, 7) * SCALE + BIAS, -1
        ).reshape(6, 5, 7),
        v.reshape(6, 7, 6),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_attention_by_hand_is_one_operator(form: str) -> None:
    """Scales, masks and shapes of every form; a row without anything to attend to as torch has it."""
    assert fuse_ops(FORMS[form], *operands()) == {"attention": 1}


def test_masks_that_are_computed() -> None:
    """Of float32 as they are; of bool turned around, once for all that read it, or read before it was."""
    q, k, v = operands()
    added = fuse_ops(lambda q, k, v, m: attend(q @ k.mT + m, v), q, k, v, BIAS)
    assert added == {"attention": 1}
    keep = torch.rand(2, 1, 1, 7, generator=torch.Generator().manual_seed(7)) < 0.7
    filled = fuse_ops(lambda q, k, v, m: attend((q @ k.mT).masked_fill(~m, -1e9), v), q, k, v, keep)
    assert filled == {"attention": 1}

    def twice(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        x = attend((q @ k.mT).masked_fill(m, -1e9), v)
        return attend((q @ k.mT * 2).masked_fill(m, -1e9), v) + x

    assert fuse_ops(twice, q, k, v, ~keep) == {"attention": 2, "unary": 1, "binary": 1}


def test_repeated_keys_and_values_are_read_once() -> None:
    """Groups of heads, as `repeat_interleave` or an expand spreads them."""
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 6)

    def repeat(x: Tensor) -> Tensor:
        return x[:, :, None].expand(2, 3, 2, 7, x.shape[-1]).reshape(2, 6, 7, x.shape[-1])

    module = Of(lambda q, k, v: attend(q @ repeat(k).mT * SCALE, repeat(v)))
    assert fuse_ops(module, q, k, v) == {"attention": 1}
    program = export(module.eval(), (q, k, v))
    assert not [op for op in program.spec.ops if op.name == "as_strided_copy"]


UNFIT: dict[str, Callable[..., Any]] = {
    "shares are an output": lambda q, k, v: ((s := torch.softmax(q @ k.mT, -1)), s @ v),
    "scores are an output": lambda q, k, v: ((s := q @ k.mT), attend(s * SCALE, v)),
    "shares are used twice": lambda q, k, v: (s := torch.softmax(q @ k.mT, -1)) @ v + s.sum(-1, keepdim=True),
    "softmax over keys": lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v,
    "logarithms": lambda q, k, v: torch.log_softmax(q @ k.mT, -1) @ v,
    "scaled by head": lambda q, k, v: attend(q @ k.mT * torch.tensor([[[1.0]], [[2.0]], [[3.0]]]), v),
    "mask scaled too": lambda q, k, v: attend((q @ k.mT + BIAS) * SCALE, v),
    "two masks": lambda q, k, v: attend((q @ k.mT + BIAS).masked_fill(HOLES, -1e9), v),
    "scores beyond a function": lambda q, k, v: attend(torch.tanh(q @ k.mT), v),
}


@pytest.mark.parametrize("form", UNFIT)
def test_what_is_no_attention_or_read_elsewhere_stays(form: str) -> None:
    """Each is almost one."""
    counts = fuse_ops(UNFIT[form], *operands())
    assert (counts["matmul"], counts["softmax"], counts["attention"]) == (2, 1, 0)


class Attention(nn.Module):
    """Causal attention of two heads over tokens, as it is commonly written."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("past", torch.ones(41, 41).tril())
        self.past: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        batch, count, width = x.shape
        q, k, v = (y.view(batch, count, 2, 4).transpose(1, 2) for y in self.qkv(x).split(width, 2))
        scores = (q @ k.transpose(-2, -1)) * 0.5
        scores = scores.masked_fill(self.past[:count, :count] == 0, -math.inf)
        y = torch.softmax(scores, -1) @ v
        result: Tensor = self.out(y.transpose(1, 2).reshape(batch, count, width))
        return result


def test_a_causal_layer_of_any_length() -> None:
    """At fixed sizes, and at sizes that vary."""
    torch.manual_seed(8)
    module = Attention().eval()
    assert fuse_ops(module, torch.randn(2, 9, 8)) == {"linear": 2, "attention": 1}
    sizes = ({0: Dim("batch", min=2, max=4), 1: Dim("count", min=2, max=40)},)
    program = export(module, (torch.randn(2, 9, 8),), dynamic_shapes=sizes)
    assert [op.name for op in program.spec.ops].count("attention") == 1
    run = load(bytes(program))
    for batch, count in ((2, 2), (3, 17), (4, 40)):
        x = torch.randn(batch, count, 8)
        with torch.no_grad():
            np.testing.assert_allclose(run(x.numpy())[0], module(x).numpy(), rtol=1e-4, atol=1e-5)


def test_bert_of_transformers() -> None:
    """Its eager attention, two layers with a padding mask."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(9)
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        vocab_size=50,
        attn_implementation="eager",
    )
    bert = transformers.BertModel(config, add_pooling_layer=False)
    module = Of(lambda ids, mask, model: model(ids, attention_mask=mask).last_hidden_state, bert)
    mask = torch.ones(1, 10, dtype=torch.int64)
    mask[:, 7:] = 0
    counts = fuse_ops(module, torch.randint(0, 50, (1, 10)), mask)
    assert (counts["attention"], counts["matmul"], counts["softmax"]) == (2, 0, 0)
