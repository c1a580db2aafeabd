"""Attack: a stranger has a cache between the server and devices keep a refusal in the place of a file."""

import pytest
from alcove.platform.testing import Served
from alcove.platform.testing.ingress import ask

ODD = (
    "", "Range: bytes=99999999999-", "Range: bytes=5-2", "Range: bytes=" + ",".join(["0-1"] * 99), "Range: lines=1-2",
    "If-Match: \"x\"", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:01 GMT", "Expect: nothing", "Content-Encoding: x",
    "If-Range: x", "Accept-Encoding: identity;q=0", "Upgrade: websocket",
)  # fmt: skip
PATHS = (
    "/metadata/timestamp.json", "/metadata/1.root.json", "/metadata/1.snapshot.json", "/metadata/999.snapshot.json",
    "/metadata/999.team-text.json", "/metadata/nothing", f"/targets/policy/{'0' * 64}.app.json",
    f"/blobs/{'0' * 64}", "/blobs/x", "/reports", "/healthz", "/anything", "/",
)  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
async def test_no_refusal_is_kept_by_a_cache(attacked: Served, method: str) -> None:
    """Not for what is published next, not for a part that is not there, by no method and with no header."""
    port = int(attacked.http_url.rpartition(":")[2])
    refused = 0
    for path in PATHS:
        for odd in ODD:
            header = f"{odd}\r\n" if odd else ""
            request = f"{method} {path} HTTP/1.1\r\nHost: a\r\n{header}\r\n"
            status, head = await ask(port, request.encode())
            assert status, (path, odd)
            if status >= 400:
                refused += 1
                assert b"cache-control: no-store\r\n" in head.lower(), (path, odd, head)
    assert refused > len(PATHS)


async def test_only_the_next_root_is_kept_as_absent(attacked: Served) -> None:
    """For a minute: every check-in asks for it."""
    port = int(attacked.http_url.rpartition(":")[2])
    status, head = await ask(port, b"GET /metadata/99.root.json HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (status, b"max-age=60" in head) == (404, True)
