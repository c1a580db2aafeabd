"""Embedding bags have the bits of a row-by-row numpy reference, on every instruction set."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly

RANDOM_SEED = 41
ROWS, IDS = 13, 12
SUM, MEAN, MAX = range(3)
COLUMNS = (1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 70)
Case = tuple[bytes, list[Any]]
Run = Callable[[str, Mapping[str, Case]], dict[str, list[bytes]]]


def table_of(random: np.random.Generator, dim: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return rows around 1 with infinities, denormals and NaNs of other bits among them."""
    table = random.standard_normal((ROWS, dim), np.float32)
    odd = np.array([np.inf, -np.inf, 1e-42, -0.0, 3e38], np.float32)
    where = random.random(table.shape) < 0.05
    table[where] = random.choice(odd, int(where.sum()))
    table.view(np.uint32)[random.random(table.shape) < 0.01] = 0xFF812345
    return table


def cases() -> dict[str, tuple[Case, Any]]:
    """Return programs with inputs, and what they give; modes, weights, padding, given and fixed bags."""
    random = np.random.default_rng(RANDOM_SEED)
    found: dict[str, tuple[Case, Any]] = {}
    for dim in COLUMNS:
        for mode, has_weights, has_offsets in [(SUM, 0, 0), (SUM, 1, 1), (MEAN, 0, 1), (MAX, 0, 0), (MAX, 0, 1)]:
            table = table_of(random, dim)
            ids = random.integers(0, ROWS, IDS)
            offsets = np.array([0, 0, 5, 5, 12] if has_offsets else [0, 4, 8])
            weights = random.standard_normal(IDS, np.float32)
            shape = (IDS,) if has_offsets else (3, IDS // 3)
            build = Assembly()
            inputs = [build.input("ids", DType.I64, shape), build.constant("table", table)]
            values: list[Any] = [ids.reshape(shape)]
            if has_offsets:
                inputs.append(build.input("offsets", DType.I64, offsets.shape))
                values.append(offsets)
            if has_weights:
                inputs.append(build.input("weights", DType.F32, shape))
                values.append(weights.reshape(shape))
            output = (DType.F32, (len(offsets), dim))
            attributes = (mode, 2, has_offsets, has_weights)
            build.output("bags", build.op("embedding_bag_offsets", inputs, output, attributes=attributes)[0])
            expected = reference(table, ids, offsets, weights if has_weights else None, mode)
            found[f"dim {dim} mode {mode} weights {has_weights} offsets {has_offsets}"] = (
                (build.program(), values),
                expected,
            )
    return found


def reference(table: Any, ids: Any, offsets: Any, weights: Any, mode: int) -> Any:
    """Return the bags, row by row in f32, without the rows of id 2."""
    bags = []
    with np.errstate(all="ignore"):
        for start, end in zip(offsets, [*offsets[1:], len(ids)], strict=True):
            places = [i for i in range(start, end) if ids[i] != 2]
            bag = np.zeros(table.shape[1], np.float32)
            for count, i in enumerate(places):
                row = table[ids[i]] if weights is None else table[ids[i]] * weights[i]
                first = row if mode == MAX and count == 0 else np.maximum(bag, row)
                bag = first if mode == MAX else bag + row
            if mode == MEAN and places:
                bag = bag * (np.float32(1) / np.float32(len(places)))
            bags.append(bag)
    return np.stack(bags)


def canonical(array: Any) -> bytes:
    """Return the bytes with every NaN as the kernels write it, and zeros of either sign as +0."""
    array = np.where(array == 0, np.float32(0), array).astype(np.float32)
    array.view(np.uint32)[np.isnan(array)] = 0x7FC00000
    return bytes(array.tobytes())


@pytest.mark.parametrize("isa", _native.machine_isas())
def test_bags_have_the_bits_of_the_formula(run_with: Run, isa: str) -> None:
    """Every instruction set that this machine has: the reference's sums, products and maxima, bit for bit."""
    prepared = cases()
    answers = run_with(isa, {name: case for name, (case, _) in prepared.items()})
    for name, (_, expected) in prepared.items():
        (seen,) = answers[name]
        assert canonical(np.frombuffer(seen, np.float32)) == canonical(expected), name
