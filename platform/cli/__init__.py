"""The `alcove` command: the one place where all parts meet.

`entry` is what the command runs, also in a bare install; `main` holds the verbs, each group in a module of its name.
"""
