"""Holds numbers that models and the processes that time them share."""

from typing import Final

POSITIONS: Final = 1024
"""Tokens that a cache holds."""
