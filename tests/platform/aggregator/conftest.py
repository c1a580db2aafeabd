"""Gives tests a leader and a helper, over fresh databases of either kind, or as processes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.testing.aggregators import AggregatorProcesses
from alcove.platform.testing.postgres import PostgresServer

from tests.platform.aggregator.pair import Seats, open_seats


@pytest.fixture(scope="session")
def migrated_aggregator(postgres: PostgresServer) -> str:
    """A database with an aggregator's newest schema, to be copied."""
    name = postgres.database()

    async def migrate() -> None:
        await (await AggregatorDatabase.open(postgres.url(name))).close()

    asyncio.run(migrate())
    return name


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path | str, Path | str]]:
    """Where fresh databases of both aggregators are."""
    if request.param == "sqlite":
        yield tmp_path / "leader.db", tmp_path / "helper.db"
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    template = request.getfixturevalue("migrated_aggregator")
    names = postgres.database(template), postgres.database(template)
    yield postgres.url(names[0]), postgres.url(names[1])
    for name in names:
        postgres.drop(name)


@pytest.fixture
async def seats(places: tuple[Path | str, Path | str]) -> AsyncIterator[Seats]:
    """Both aggregators, which take part in `pair.TASK`, on either kind of database."""
    opened = await open_seats(*places)
    yield opened
    await opened.leader_database.close()
    await opened.helper_database.close()


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Seats]:
    """Both aggregators over files: for what the kind of database does not change."""
    opened = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db")
    yield opened
    await opened.leader_database.close()
    await opened.helper_database.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[AggregatorProcesses]:
    """Two processes that run."""
    made = AggregatorProcesses(tmp_path)
    try:
        made.start("leader")
        made.start("helper")
        yield made
    finally:
        for seat in list(made.running):
            made.kill(seat)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database, to be copied."""
    path = tmp_path_factory.mktemp("template") / "aggregator.db"

    async def migrate() -> None:
        await (await AggregatorDatabase.open(path)).close()

    asyncio.run(migrate())
    return path
