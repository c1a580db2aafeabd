"""Runs the programs that teams push, in processes that can do nothing else.

`jobs.py` says what is asked and answered, `children.py` starts the processes and bounds them, `child.py` is what runs
there, `confinement.py` takes away what it does not need.
"""

from alcove.platform.services.validation.children import ChildChecks
from alcove.platform.services.validation.jobs import InThisProcess, ProgramChecks, Supplies

__all__ = ["ChildChecks", "InThisProcess", "ProgramChecks", "Supplies"]
