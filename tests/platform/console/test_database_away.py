"""A database that is away under an open page and at a form: a sentence, nothing lost, and later all works again.

The database is a real PostgreSQL that refuses connections for a while; the browser is a real Chromium.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.postgres import PostgresServer

from tests.platform.console.conftest import person
from tests.platform.console.test_browser import tab

pytestmark = [pytest.mark.timeout(600)]


@dataclass
class Database:
    """The database of a server."""

    postgres: PostgresServer
    name: str

    def leave(self) -> None:
        """Be away."""
        self.postgres.set_open(self.name, is_open=False)

    def return_(self) -> None:
        """Be there again."""
        self.postgres.set_open(self.name, is_open=True)


@dataclass
class Place:
    """A server, its world and its database."""

    world: ServerWorld
    served: Served
    database: Database


@pytest.fixture(scope="module")
def place(postgres: PostgresServer, migrated: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server on a database of its own, with a released version."""
    name = postgres.database(migrated)
    folder = tmp_path_factory.mktemp("away") / "world"
    world = ServerWorld(folder, teams={"text": ("text_00",)}, database=postgres.url(name))
    for role in ("operator", "team:text"):
        world.token(role)
    served = world.start("--console", "true", "--console-port", "0")
    with world.client(served, "team:text") as team:
        world.publish(team, "text_00")
    yield Place(world, served, Database(postgres, name))
    served.stop()
    postgres.drop(name)


async def test_a_form_that_the_server_could_not_take_is_kept_and_sent_again_once(place: Place) -> None:
    """503 with what was written hidden in it, and no reload that loses it; the same form then does its work once."""
    path = "/features/text_00/versions/1.0.0"
    async with person(place.world, place.served, "team:text") as one:
        fields = {"csrf": await one.csrf(), "reason": 'old & "slow"', "request_id": "away-0001"}
        place.database.leave()
        try:
            status, page = await one.post(f"{path}/actions/deprecate", fields)
            listed, reloads = await one.get(path)
        finally:
            place.database.return_()
        assert (status, listed) == (503, 503)
        assert 'http-equiv="refresh"' in reloads
        assert 'http-equiv="refresh"' not in page
        assert f'action="{path}/actions/deprecate"' in page
        assert 'name="reason" value="old &amp; &#34;slow&#34;"' in page
        assert 'name="request_id" value="away-0001"' in page
        for _ in range(2):
            status, page = await one.post(f"{path}/actions/deprecate", fields)
            assert status == 200, page
    with place.world.client(place.served, "operator") as operator:
        assert [line.action for line in operator.audit(about="text_00 1.0.0")].count("deprecate version") == 1


@pytest.mark.thorough
@pytest.mark.needs("chromium")
async def test_a_wizard_and_a_page_outlive_their_database(place: Place) -> None:
    """What was typed is there after the database is back; a page that was asked for meanwhile comes by itself."""
    async with tab(place.world, place.served, role="operator") as one:
        await one.open("/rollouts/new?feature=text_00&app=mail")
        await one.page.fill("textarea[name=audience], input[name=audience]", "os == 'ios'")
        place.database.leave()
        try:
            await one.page.click("button[value=check]:not(.first)")
            await one.page.wait_for_selector(".problem")
            said = await one.page.text_content(".problem") or ""
            assert "The server does not answer" in said
            assert "Nothing is lost" in said
            other = await one.page.context.new_page()
            await other.goto(f"{one.url}/features", wait_until="load")
            assert "This page asks again by itself" in (await other.text_content(".problem") or "")
        finally:
            place.database.return_()
        await one.page.click("text=Send it again")
        await one.page.wait_for_selector("textarea[name=audience], input[name=audience]")
        assert await one.page.input_value("textarea[name=audience], input[name=audience]") == "os == 'ios'"
        await other.wait_for_selector("h1:has-text('Features')")


def test_it_is_the_servers_folder_that_the_tests_use(place: Place) -> None:
    """The control: the world's rows are in PostgreSQL, so that its absence is felt at all."""
    assert not Path(place.world.data_dir / "alcove.db").exists()
