"""Check-ins of devices are counted by what they got, and nothing else is."""

from collections import Counter

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.ingress.check_ins import OUTCOMES, count_check_ins


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "changed"),
        (206, "changed"),
        (304, "unchanged"),
        (404, "absent"),
        (429, "refused"),
        (503, "refused"),
        (500, "failed"),
    ],
)
@pytest.mark.parametrize("is_raised", [False, True])
async def test_a_check_in_counts_once_by_its_outcome(status: int, outcome: str, *, is_raised: bool) -> None:
    """Whether the answer is returned or raised; other files and health checks are no check-ins."""

    async def answer(_request: web.Request) -> web.Response:
        if is_raised and status == 404:
            raise web.HTTPNotFound
        return web.Response(status=status)

    counts: Counter[str] = Counter()
    app = web.Application(middlewares=[count_check_ins(counts)])
    app.add_routes([web.get("/{folder}/{name}", answer)])
    async with TestClient(TestServer(app)) as client:
        for path in ("/metadata/1.root.json", "/blobs/timestamp.json", "/metadata/timestamp.json"):
            async with client.get(path) as found:
                assert found.status == status
    assert counts == {outcome: 1}
    assert outcome in OUTCOMES
