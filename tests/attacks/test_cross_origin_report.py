"""Attack: a page of the web makes each of its visitors' browsers report, each from an address of its own.

A browser sends three media types to other sites unasked; for any other it asks first (a preflight), which is answered
by no word of CORS.  Both are refused, and so is whatever says that it comes from a page.
"""

from pathlib import Path

import pytest
from alcove.platform.testing.ingress import ask, post, record, running_ingress

MEDIA_TYPE = "Content-Type: application/octet-stream"
UNASKED = (
    "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/json", "application/octet-stream, text/plain", "application/octet-stream; charset=utf-8",
    "text/plain; application/octet-stream", "", "application/octet-streams", "APPLICATION/OCTET-STREAM text/plain",
)  # fmt: skip


async def test_every_media_type_but_a_devices_is_refused(tmp_path: Path) -> None:
    """Those that need no preflight, combinations, none, and two headers: 415, nothing counted."""
    async with running_ingress(tmp_path, behind_proxy="127.0.0.1") as attacked:
        report = record(attacked.task)
        for media_type in UNASKED:
            assert (await ask(attacked.port, post(report, f"Content-Type: {media_type}")))[0] == 415, media_type
        for headers in (
            ("X-Nothing: x",),
            ("Content-Type: text/plain", MEDIA_TYPE),
            (MEDIA_TYPE, "Content-Type: text/plain"),
        ):
            assert (await ask(attacked.port, post(report, *headers)))[0] in (400, 415), headers
        assert await attacked.count_reports() == 0


@pytest.mark.parametrize(
    "header",
    [
        "Origin: https://page.example", "Origin: null", "Origin:", "origin: http://127.0.0.1",
        "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: same-origin",
        "sec-fetch-site: CROSS-SITE", "Sec-Fetch-Site: none, cross-site",
    ],
)  # fmt: skip
async def test_what_a_page_sends_is_refused_whatever_its_media_type(tmp_path: Path, header: str) -> None:
    """403, because a browser tells where a request comes from and a device has nothing to tell."""
    async with running_ingress(tmp_path) as attacked:
        assert (await ask(attacked.port, post(record(attacked.task), MEDIA_TYPE, header)))[0] == 403
        assert await attacked.count_reports() == 0


@pytest.mark.parametrize("path", ["/reports", "/metadata/timestamp.json"])
async def test_a_preflight_gets_no_permission(tmp_path: Path, path: str) -> None:
    """OPTIONS is no method here, and no answer has a header of CORS."""
    asked = "Origin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n"
    async with running_ingress(tmp_path) as attacked:
        for method in ("OPTIONS", "GET", "POST"):
            status, head = await ask(attacked.port, f"{method} {path} HTTP/1.1\r\nHost: a\r\n{asked}\r\n".encode())
            assert b"access-control" not in head.lower()
            assert (status, method) != (200, "OPTIONS")
            assert (status, method) != (204, "OPTIONS")
