"""Attack: bodies that are small on the wire and large or costly once they are unpacked.

39 kB of gzip, 2.5 a second, kept the server's one thread busy so that no operator's change got through, and five bytes
under a false Content-Encoding were a traceback of 2,279 bytes in the log.  Nothing is unpacked any more.
"""

import gzip
import zlib
from pathlib import Path

import pytest
import structlog
from alcove.platform.testing.ingress import ask, post, record, running_ingress

MEDIA_TYPE = "Content-Type: application/octet-stream"
ENCODINGS = ("gzip", "x-gzip", "deflate", "br", "zstd", "compress", "identity", "", "gzip, gzip", "GZIP", "*", "none")
BOMB = gzip.compress(bytes(39 * 1024 * 1024), 9)


async def test_a_packed_body_is_refused_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every encoding, with a bomb, rubbish and an honest report behind it: 415, nothing unpacked, counted or logged."""
    unpacked: list[int] = []
    real = zlib.decompressobj

    def watch(wbits: int = zlib.MAX_WBITS) -> object:
        unpacked.append(1)
        return real(wbits)

    monkeypatch.setattr(zlib, "decompressobj", watch)
    with structlog.testing.capture_logs() as lines:
        async with running_ingress(tmp_path, behind_proxy="127.0.0.1") as attacked:
            report = record(attacked.task)
            for encoding in ENCODINGS:
                for body in (BOMB, gzip.compress(report), b"\x1f\x8b\x08\x00\x00", report, b""):
                    status, _ = await ask(attacked.port, post(body, MEDIA_TYPE, f"Content-Encoding: {encoding}"))
                    assert status == 415, (encoding, body[:8])
                    assert not [line for line in lines if line["log_level"] == "error"]
            assert attacked.ingress.collector.refused["packed"] == 5 * len(ENCODINGS)
            assert await attacked.count_reports() == 0
            assert (await ask(attacked.port, post(report)))[0] == 204
            assert await attacked.count_reports() == 1
    assert unpacked == []
    assert len(lines) <= 3  # sums, not a line for each


@pytest.mark.parametrize("path", ["/metadata/timestamp.json", "/healthz", "/nothing"])
async def test_a_packed_body_of_any_other_request_is_not_unpacked(tmp_path: Path, path: str) -> None:
    """A GET may have a body; nobody looks at it, and the connection closes behind it."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: {len(BOMB)}\r\n\r\n".encode()
    )
    async with running_ingress(tmp_path, behind_proxy="127.0.0.1") as attacked:
        status, head = await ask(attacked.port, request + BOMB)
        assert status in (200, 404)
        assert b"Connection: close" in head
