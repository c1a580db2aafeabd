"""Finds the checkers of manifests that `make manifests` installs: too large for everybody's environment."""

import shutil
from pathlib import Path

import pytest

PLACE = Path(__file__).resolve().parents[3] / "build/manifests/bin"


def find_checker(name: str) -> str:
    """Return the path of a checker; a test that needs one is skipped, and says so, where it is not installed."""
    found = shutil.which(name, path=str(PLACE))
    if found is None:
        pytest.skip(f"no {name} here: make manifests")
    return found
