"""Runs the programs that teams push, in processes that can do nothing else.

`jobs.py` says what is asked and answered, `children.py` bounds how many run, `child.py` is what runs there; the rest is
`alcove.platform.confined`.
"""

from typing import TYPE_CHECKING, Any

from alcove.platform.services.validation.jobs import InThisProcess, ProgramChecks, Supplies

if TYPE_CHECKING:
    from alcove.platform.services.validation.children import ChildChecks

__all__ = ["ChildChecks", "InThisProcess", "ProgramChecks", "Supplies"]


def __getattr__(name: str) -> Any:
    """Load what starts processes on first use: the process that it starts, once for each program, has no use for it."""
    if name != "ChildChecks":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from alcove.platform.services.validation.children import ChildChecks  # noqa: PLC0415

    return ChildChecks
