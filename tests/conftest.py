"""What all tests share: where the repository is, and whether the shared training data lie beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.testing.s3 import S3MissingError, S3Server

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3-compatible store, for all tests of this process."""
    try:
        server = S3Server.start()
    except S3MissingError as missing:
        pytest.skip(str(missing))
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The same, with its keys in the environment of this test and of what it starts."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return s3_server
