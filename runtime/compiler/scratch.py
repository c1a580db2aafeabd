"""Asks the kernels how much room an operator works in, also where it follows from sizes that vary."""

from alcove.runtime import _native
from alcove.runtime.compiler.sizes import call_with_sizes


def scratch_bytes(operator: str, **numbers: int) -> int:
    """Return the room that `operator` works in, in bytes, for its numbers by the names that the kernels have."""
    return call_with_sizes(operator, lambda **plain: _native.scratch_bytes(operator, **plain), **numbers)
