"""Says what is in a program and how two differ: for the command line and for the console, which both show it.

`summary.py` describes one, `diff.py` compares two, `page/` draws one.  None of it bounds what a hostile program takes:
whoever opens a stranger's does so in a process of `alcove.platform.confined`.
"""

__all__: list[str] = []
