"""Hot kernels execute no more instructions than their stored bounds; counted, not timed, so load cannot matter."""

import pytest

from benchmarks.instructions import bounds, count, programs
from benchmarks.models.alcove import compile_native


@pytest.mark.needs("valgrind")
@pytest.mark.thorough
def test_no_hot_kernel_takes_more_instructions_than_its_bound() -> None:
    """`python -m benchmarks.instructions --write` replaces the bounds, for a kernel that became faster."""
    executable = compile_native("run_twice")
    counted = {name: count(make(), executable) for name, make in programs().items()}
    stored = bounds()
    assert counted.keys() == stored.keys()
    assert not {name: (number, stored[name]) for name, number in counted.items() if number > stored[name]}
