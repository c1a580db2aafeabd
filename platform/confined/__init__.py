"""Runs what opens strangers' programs in processes that can only compute.

`confinement.py` takes away what such a process does not need, `child.py` is its frame, `asking.py` starts it, bounds it
and reads its answer.  What it computes is its users': the server checks programs, the console shows them.
"""

__all__: list[str] = []
