"""What is counted, and with which samples."""

import pytest
import torch

from benchmarks.coverage.names import EXCLUDED, core_overloads, counted_names
from benchmarks.coverage.own import GENERATORS
from benchmarks.coverage.samples import samples_of
from benchmarks.coverage.sources import COMPOSITES, FIRST_OUTPUT_ONLY, TRACED_ONLY, op_infos
from tests.selection import quick_among


def test_core_operators_are_read_from_torch() -> None:
    """Torch 2.13.0 tags 193 overloads of 164 names; a new torch changes this number, and the page with it."""
    found = core_overloads()
    assert (len(found), sum(map(len, found.values()))) == (164, 193)
    for name, overloads in found.items():
        for overload in overloads:
            assert torch.Tag.core in getattr(getattr(torch.ops.aten, name), overload).tags


def test_tables_name_core_operators_only() -> None:
    """Nothing is excluded or given samples that torch does not call core."""
    core = set(core_overloads())
    assert set(EXCLUDED) < core
    assert set(GENERATORS) | set(COMPOSITES) | TRACED_ONLY | FIRST_OUTPUT_ONLY <= set(counted_names())
    assert all(EXCLUDED.values())


def test_composites_are_op_infos_of_torch() -> None:
    """Each composite that is listed exists in torch's database."""
    for name, listed in COMPOSITES.items():
        assert set(listed) <= {full for full, _ in op_infos(name)}, name


@pytest.mark.thorough
def test_every_overload_is_called_directly() -> None:
    """Each counted overload that writes into no given tensor has a direct sample."""
    missing = []
    for name in counted_names():
        called = {sample.overload for sample in samples_of(name, 1)}
        missing += [f"{name}.{overload}" for overload in core_overloads()[name] if overload not in {*called, "out"}]
    assert not missing


@pytest.mark.parametrize("name", quick_among(["add", "convolution", "sort"], ["add"]))
def test_samples_are_the_same_every_time(name: str) -> None:
    """A second call gives the same calls with the same numbers."""
    first, second = samples_of(name, 4), samples_of(name, 4)
    assert [sample.describe() for sample in first] == [sample.describe() for sample in second]
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.tensors(), other.tensors(), strict=True))
