"""Holds what the server decides with: records, state machines, plans, analyses and policies; it performs no I/O."""
