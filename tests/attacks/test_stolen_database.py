"""The database's file, read by a thief: no token in it works, and no secret is in it."""

import sqlite3
from pathlib import Path

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import UnauthenticatedError
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.testing import Served, ServerWorld


def texts(path: Path) -> list[str]:
    """Every text in every row of every table."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [row for table in tables for row in database.execute(f'SELECT * FROM "{table}"')]
    database.close()
    return [value for row in rows for value in row if isinstance(value, str)]


def test_nothing_in_the_database_is_a_token(attacked: Served, server_world: ServerWorld) -> None:
    """Not the secret anywhere in its files; and no text in it passes for one, in the place of secret or of token."""
    token, record = create_local_token(server_world.data_dir, "operator")
    secret = token.rpartition("_")[2]
    files = [path for path in server_world.data_dir.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert secret.encode() not in path.read_bytes(), path
    found = texts(server_world.data_dir / "alcove.db")
    digests = [text for text in found if len(text) == 64]
    assert record.secret_sha256 in digests
    for guess in {
        *(f"alc_{record.token_id}_{digest}" for digest in digests),
        *(t for t in found if t.startswith("alc_")),
    }:
        with PlatformClient(attacked.grpc_address, guess) as thief, pytest.raises(UnauthenticatedError):
            thief.rollouts()
