"""The collector follows a job where the leader says it is, below the leader's address alone."""

import base64
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from alcove.platform.aggregator.collector import CollectorClient, CollectorConfig
from alcove.platform.aggregator.problems import MEDIA_TYPE, DapProblem, ProblemType
from alcove.privacy import hpke

from tests.platform.aggregator.pair import HELPER_URL, TASK

SMALL = DapProblem(ProblemType.INVALID_BATCH_SIZE, "fewer than 100 reports")


class Leader:
    """A leader that begins a job at each POST, names a place for it, and fails it there."""

    def __init__(self) -> None:
        self.location = ""
        self.asked: list[tuple[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        """Note what is asked, and answer."""
        assert request.headers["Authorization"] == f"Bearer {'collector' * 8}"
        self.asked.append((request.method, request.path.rpartition("/")[2]))
        if request.method == "POST":
            return web.Response(status=201, headers={"Location": self.location})
        return web.Response(status=400, text=SMALL.to_json(), content_type=MEDIA_TYPE)


@pytest.fixture
async def leader() -> AsyncIterator[tuple[Leader, str, CollectorClient]]:
    """A leader, its address, and a collector of it."""
    made = Leader()
    app = web.Application()
    app.add_routes([web.route("*", "/{rest:.*}", made.answer)])
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("/dap"))
        config = CollectorConfig.model_validate(
            {
                "leader_url": url,
                "helper_url": HELPER_URL,
                "min_batch_size": 100,
                "collector_token": "collector" * 8,
                "private_key": base64.b64encode(hpke.generate_private_key()).decode(),
            }
        )
        yield made, url, CollectorClient(session, config)


@pytest.mark.parametrize("form", ["{url}/tasks/x/collection_jobs/here", "collection_jobs/here", "/dap/here"])
async def test_job_is_followed_where_it_is_and_asked_for_again_when_it_failed(
    leader: tuple[Leader, str, CollectorClient], form: str
) -> None:
    """A POST begins it, a GET finds what became of it, and the next question is a POST again."""
    made, url, client = leader
    made.location = form.format(url=url)
    for _ in range(2):
        assert await client.collect(TASK, 1, 1) is None
        with pytest.raises(DapProblem, match="fewer than 100"):
            await client.collect(TASK, 1, 1)
    assert made.asked == [("POST", "collection_jobs"), ("GET", "here")] * 2


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:1/dap/here", "//127.0.0.1:1/here", "/other", "{url}.evil/here", ""]
)
async def test_job_that_is_elsewhere_is_not_followed(
    leader: tuple[Leader, str, CollectorClient], location: str
) -> None:
    """The token goes to the leader's own address; the same question is asked there again."""
    made, url, client = leader
    made.location = location.format(url=url)
    for _ in range(3):
        assert await client.collect(TASK, 1, 1) is None
    assert made.asked == [("POST", "collection_jobs")] * 3
