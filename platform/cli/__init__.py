"""Provides the `alcove` command: the one place that may import everything.

`entry` is what the command runs, also in a bare install; `main` holds the verbs, each group in a module of its name.
"""
