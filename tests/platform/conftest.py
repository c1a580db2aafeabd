"""One running server for all tests that leave it running; each test takes features and an app of its own."""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.store import Store
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.postgres import PostgresMissingError, PostgresServer

from tests.conftest import find_memory

_FEATURES = itertools.count()
_APPS = itertools.count()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """Keys, tree and tokens of the shared server."""
    return ServerWorld(tmp_path_factory.mktemp("platform") / "shared")


@pytest.fixture(scope="session")
def served(world: ServerWorld) -> Iterator[Served]:
    """The shared server process; it must end cleanly."""
    server = world.start()
    yield server
    assert server.stop() == 0


@pytest.fixture
def client(world: ServerWorld, served: Served) -> Iterator[Callable[[str], PlatformClient]]:
    """Gives clients of the shared server by role; closes them."""
    clients: dict[str, PlatformClient] = {}

    def make(role: str) -> PlatformClient:
        if role not in clients:
            clients[role] = world.client(served, role)
        return clients[role]

    yield make
    for made in clients.values():
        made.close()


@pytest.fixture
def team(client: Callable[[str], PlatformClient]) -> PlatformClient:
    """A client of the team `text`."""
    return client("team:text")


@pytest.fixture
def operator(client: Callable[[str], PlatformClient]) -> PlatformClient:
    """A client of an operator."""
    return client("operator")


@pytest.fixture
def feature() -> str:
    """A feature of the team `text` that no other test uses."""
    return f"text_{next(_FEATURES):02d}"


@pytest.fixture(scope="session")
def shared_feature(world: ServerWorld, served: Served) -> str:
    """A feature with the published versions 1.0.0 and 2.0.0, for tests that change nothing."""
    feature = "text_159"
    with world.client(served, "team:text") as team:
        world.publish(team, feature, "1.0.0")
        world.publish(team, feature, "2.0.0")
    return feature


@pytest.fixture
def app() -> str:
    """An app that no other test uses."""
    return f"app-{next(_APPS)}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL, for all tests of this process."""
    try:
        server = PostgresServer.start(find_memory())
    except PostgresMissingError as missing:
        pytest.skip(str(missing))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer) -> str:
    """A database with the newest schema, to be copied."""
    name = postgres.database()

    async def migrate() -> None:
        store = await Store.open(postgres.url(name))
        await store.close()

    asyncio.run(migrate())
    return name


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the newest schema, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "alcove.db"

    async def migrate() -> None:
        store = await Store.open(path)
        await store.close()

    asyncio.run(migrate())
    return path


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Where a fresh database is: a file, or the URL of one in a real PostgreSQL."""
    if request.param == "sqlite":
        yield shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "alcove.db")
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    name = postgres.database(request.getfixturevalue("migrated"))
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
async def store(database: Path | str) -> AsyncIterator[Store]:
    """A fresh database."""
    opened = await Store.open(database)
    yield opened
    await opened.close()
