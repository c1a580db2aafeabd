"""Defines the exit codes of the command."""

__all__ = ["FAILED", "FORBIDDEN", "MISUSED", "NOT_FOUND", "NO_ANSWER"]

FAILED = 1
MISUSED = 2
NO_ANSWER = 3
NOT_FOUND = 4
FORBIDDEN = 5
