"""Buffers that a module changes by rows are written in place where the order of reads allows; torch is the judge."""

import copy

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, export, load
from alcove.runtime.program import Program
from torch import Tensor, nn

LENGTH, HEADS, WIDTH = 12, 2, 4


class Attention(nn.Module):
    """Attends to all that it was given, and counts it."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.qkv = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
        self.register_buffer("keys", torch.zeros(1, HEADS, LENGTH, WIDTH))
        self.register_buffer("values", torch.zeros(1, HEADS, LENGTH, WIDTH))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [1, l, 8] of f32 [1, l, 8]."""
        length = x.shape[1]
        parts = self.qkv(x).view(1, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        keys, values, position = (self.get_buffer(name) for name in ("keys", "values", "position"))
        places = position + torch.arange(length)
        if self.form == "index_copy":
            keys.index_copy_(2, places, parts[1])
            values.index_copy_(2, places, parts[2])
        elif self.form == "index_put":
            keys[:, :, places] = parts[1]
            values[:, :, places] = parts[2]
        else:  # one row at a place that a tensor names
            keys[:, :, position] = parts[1][:, :, 0]
            values[:, :, position] = parts[2][:, :, 0]
        mask = torch.arange(LENGTH) <= places[:, None]
        y = nn.functional.scaled_dot_product_attention(parts[0], keys, values, attn_mask=mask)
        position += length
        return y.transpose(1, 2).reshape(x.shape)


class Ring(nn.Module):
    """Keeps the last four rows, each at its number modulo four, and looks at what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean before f32 [1, 3] came in, and the sum after."""
        rows, count = self.get_buffer("rows"), self.get_buffer("count")
        before = rows.mean(0)
        rows[count % 4] = x
        count += 1
        return before, rows.sum(0)


class BothForms(nn.Module):
    """Needs the rows as they were together with the rows as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.ones(4, 3))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        """Return what changed."""
        rows = self.get_buffer("rows")
        before = rows * 2
        rows.index_copy_(0, at, x)
        return rows * 2 - before.cumsum(0)


def in_place(program: Program) -> set[str]:
    """Names of the states that are written in place."""
    return {state.name for state in program.spec.states if state.update == state.tensor}


def writes(program: Program) -> int:
    """How many writes of rows a run makes."""
    return sum(op.name == "write_rows" for op in program.spec.ops)


@pytest.mark.parametrize("form", ["index_copy", "index_put", "one place"])
@pytest.mark.parametrize("varies", [False, True])
def test_a_cache_is_written_in_place_and_answers_as_torch(form: str, varies: bool) -> None:
    """Several calls, of several sizes where they vary; no operator takes a copy of the cache."""
    torch.manual_seed(0)
    module = Attention(form).eval()
    eager = copy.deepcopy(module)
    lengths = [1] * 6 if form == "one place" else [2, 3, 1, 5] if varies else [2] * 6
    shapes = {"x": {1: torch.export.Dim("l", min=1, max=6)}} if varies and form != "one place" else None
    program = export(module, (torch.randn(1, lengths[0], HEADS * WIDTH),), dynamic_shapes=shapes)
    assert in_place(program) == {"keys", "values"}
    assert writes(program) == 2
    whole = HEADS * LENGTH * WIDTH
    made = [program.spec.tensors[i] for op in program.spec.ops for i in op.outputs if op.name != "attention"]
    assert not varies or all(tensor.size_bytes != 4 * whole for tensor in made)
    session = load(bytes(program)).session()
    with torch.no_grad():
        for length in lengths:
            x = torch.randn(1, length, HEADS * WIDTH)
            np.testing.assert_allclose(session(x)[0], eager(x).numpy(), atol=1e-5)


def test_a_full_cache_ends_the_run_and_keeps_what_it_has() -> None:
    """The thirteenth token has no place; after a reset there is room again."""
    torch.manual_seed(1)
    module = Attention("index_copy").eval()
    session = load(bytes(export(module, (torch.randn(1, 4, 8),)))).session()
    x = np.ones((1, 4, 8), np.float32)
    first = [session(x)[0].tobytes() for _ in range(3)]
    for _ in range(2):
        with pytest.raises(InputError, match=r"index 0 is 12, allowed are 0 to 11"):
            session(x)
    session.reset()
    assert [session(x)[0].tobytes() for _ in range(3)] == first


def test_a_ring_is_written_after_its_last_reader() -> None:
    """What was there is read before the row is written; both as torch has it."""
    module = Ring().eval()
    eager = copy.deepcopy(module)
    program = export(module, (torch.ones(1, 3),))
    assert in_place(program) == {"rows"}
    session = load(bytes(program)).session()
    for step in range(7):
        x = torch.full((1, 3), float(step + 1))
        for seen, expected in zip(session(x), eager(x), strict=True):
            np.testing.assert_allclose(seen, expected.numpy())


def test_a_module_that_needs_both_forms_at_once_still_answers_as_torch() -> None:
    """Whichever way it takes."""
    module = BothForms().eval()
    eager = copy.deepcopy(module)
    session = load(bytes(export(module, (torch.ones(2, 3), torch.tensor([0, 2]))))).session()
    for at in ([0, 2], [3, 1], [1, 0]):
        x, places = torch.randn(2, 3), torch.tensor(at)
        np.testing.assert_allclose(session(x, places)[0], eager(x, places).numpy(), atol=1e-6)
