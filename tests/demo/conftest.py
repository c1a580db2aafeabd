"""A small world for the demo's tests: a real server process with two published versions, and a running experiment."""

from collections.abc import Iterator

import pytest
from alcove.platform.cli.demo.testing import Environment, running_experiment


@pytest.fixture(scope="module")
def world() -> Iterator[Environment]:
    """Both committed programs published by their team; an experiment of the two runs."""
    with running_experiment() as running:
        yield running
