"""Attention over a cache reads the rows that its mask allows, and equals torch's step by step."""

import copy
import math

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, softmax

POSITIONS, WIDTH = 40, 8


class Cached(nn.Module):
    """Grouped queries over a cache with a window; `form` says how the product is written."""

    keys: Tensor
    values: Tensor
    seen: Tensor

    def __init__(self, form: str, heads: int = 6, shared: int = 2, window: int = POSITIONS) -> None:
        super().__init__()
        self.form, self.heads, self.shared, self.window = form, heads, shared, window
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, shared, POSITIONS, WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.to_query = nn.Linear(WIDTH, heads * WIDTH)
        self.to_pair = nn.Linear(WIDTH, 2 * shared * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return [1, heads, length, WIDTH]."""
        length = x.shape[1]
        at = self.seen + torch.arange(length)
        query = self.to_query(x).view(1, length, self.heads, WIDTH).transpose(1, 2)
        key, value = self.to_pair(x).view(1, length, 2 * self.shared, WIDTH).transpose(1, 2).chunk(2, dim=1)
        self.keys.index_copy_(2, at, key)
        self.values.index_copy_(2, at, value)
        self.seen.add_(length)
        columns = torch.arange(POSITIONS)
        mask = (columns <= at[:, None]) & (columns > at[:, None] - self.window)
        group = self.heads // self.shared
        if self.form == "grouped":
            return scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        shape = (1, self.shared, group, POSITIONS, WIDTH)
        keys, values = (
            x[:, :, None].expand(shape).reshape(1, self.heads, POSITIONS, WIDTH) for x in (self.keys, self.values)
        )
        if self.form == "repeated":
            return scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        scores = query @ keys.transpose(2, 3) / math.sqrt(WIDTH)
        added = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
        return softmax(scores + added, dim=-1) @ values


@pytest.mark.parametrize("form", ["grouped", "repeated", "by hand"])
@pytest.mark.parametrize("window", [POSITIONS, 5])
def test_a_cache_is_read_where_its_mask_allows(form: str, window: int) -> None:
    """A prompt and then tokens, in a program for each, within float32's rounding."""
    torch.manual_seed(5)
    model = Cached(form, window=window).eval()
    for length in (1, 9):
        eager = copy.deepcopy(model)
        program = export(model, (torch.zeros(1, length, WIDTH),))
        names = [op.name for op in program.spec.ops]
        assert names.count("cached_attention") == 1
        assert "attention" not in names
        session = load(bytes(program)).session()
        for _ in range(4):
            x = torch.randn(1, length, WIDTH)
            assert np.abs(session(x.numpy())[0] - eager(x).detach().numpy()).max() < 1e-5


def test_what_the_mask_hides_changes_no_bit() -> None:
    """Rows that no token has filled hold NaN, and the answer is that of zeros."""
    torch.manual_seed(6)
    model = Cached("grouped").eval()
    x = torch.randn(1, 3, WIDTH)
    clean = load(bytes(export(model, (x,)))).session()(x.numpy())[0]
    model.keys.fill_(torch.nan)
    model.values.fill_(torch.nan)
    assert load(bytes(export(model, (x,)))).session()(x.numpy())[0].tobytes() == clean.tobytes()


class LastToken(nn.Module):
    """What follows a prompt: attention over a cache, and a product of its last row."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = Cached("grouped"), nn.Linear(6 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return [1, WIDTH]."""
        rows = self.attention(x).transpose(1, 2).reshape(1, x.shape[1], 6 * WIDTH)
        result: Tensor = self.out(rows)[:, -1]
        return result


def test_a_prompt_whose_last_row_is_read_is_attended_from_that_row_alone() -> None:
    """The cache is written whole: the prompts and the token after them are answered as eager answers them."""
    torch.manual_seed(7)
    model = LastToken().eval()
    eager = copy.deepcopy(model)
    program = export(model, (torch.zeros(1, 9, WIDTH),))
    op = next(op for op in program.spec.ops if op.name == "cached_attention")
    assert program.spec.tensors[op.outputs[0]].shape == (1, 6, 1, WIDTH)
    session = load(bytes(program)).session()
    for _ in range(4):
        x = torch.randn(1, 9, WIDTH)
        assert np.abs(session(x.numpy())[0] - eager(x).detach().numpy()).max() < 1e-5


class Plain(nn.Module):
    """Attention with a mask and without a cache."""

    def forward(self, query: Tensor, mask: Tensor) -> Tensor:
        """Return the shape of `query`."""
        return scaled_dot_product_attention(query, query, query, attn_mask=mask)


def test_attention_without_a_cache_stays_as_it_is() -> None:
    """All of its keys are there, and the operator for them packs each once."""
    program = export(Plain(), (torch.randn(1, 2, 7, 8), torch.ones(7, 7, dtype=torch.bool)))
    assert [op.name for op in program.spec.ops] == ["attention"]
