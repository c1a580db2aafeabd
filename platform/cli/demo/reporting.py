"""Sends many reports as many devices would: one a request, over a few connections that stay open."""

import http.client
import urllib.parse
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

__all__ = ["HEADERS", "post_report", "send_reports"]

HEADERS: Final = {"Content-Type": "application/octet-stream", "User-Agent": "alcove"}
CONNECTIONS: Final = 64  # a report is answered when it is committed, with all that wait: alone it waits as long
TIMEOUT_S: Final = 60.0


def post_report(connection: http.client.HTTPConnection, report: bytes) -> int:
    """Send one report on a connection; return the status of the answer."""
    connection.request("POST", "/reports", report, HEADERS)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def send_reports(url: str, reports: Sequence[bytes]) -> Counter[int]:
    """Send each report by itself; return how many answers had which status."""
    parts = urllib.parse.urlsplit(url)

    def send(mine: Sequence[bytes]) -> Counter[int]:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        try:
            return Counter(post_report(connection, report) for report in mine)
        finally:
            connection.close()

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        shares = [reports[first::CONNECTIONS] for first in range(CONNECTIONS)]
        return sum(pool.map(send, shares), Counter())
