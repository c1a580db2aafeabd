"""Migrates the schema from any earlier state to the newest.  One revision a file in `versions/`."""

from typing import Final

__all__ = ["HEAD"]

HEAD: Final = "0009"  # the newest revision
