"""Stands for people who have a page of the console open, and for who calls meanwhile; each in a process of its own.

python -m benchmarks.console.viewers watch URL PATH SECONDS < cookies, one a line
python -m benchmarks.console.viewers call ADDRESS TOKEN ROLLOUT SECONDS
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import aiohttp
import grpc
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub

__all__ = ["call", "watch"]

ARRIVE_S: Final = 8.0  # within which all viewers open their pages
SPREAD_S: Final = 1.0  # of loads after a change, as `assets/live.js` spreads them
LOOK_S: Final = 5.0  # between two looks at whether it is over
CALLS_PER_S: Final = 50.0  # steady, so that a slow answer does not thin them out


class _Arrivals:
    """Who is there; `until_s` is when it is over, set once everybody is."""

    def __init__(self, count: int, seconds: float) -> None:
        self.until_s = float("inf")
        self._seconds = seconds
        self._missing = set(range(count))

    def note(self, number: int) -> None:
        """Note that one is there, or will not be; say so when all are."""
        self._missing.discard(number)
        if not self._missing and self.until_s == float("inf"):
            self.until_s = time.monotonic() + self._seconds
            sys.stdout.write("ready\n")
            sys.stdout.flush()


async def watch(url: str, cookies: Sequence[str], path: str, seconds: float) -> dict[str, int]:
    """Keep a live page open for each cookie, as a browser does; return what they saw.

    Each loads the page, keeps its stream of events open, and loads the page again when an event says that it changed.
    A line "ready" is written when all have loaded what the first event told, or have failed; `seconds` begin then.

    Returns:
        "live": streams that stayed open to the end; "failed": those that did not, and pages that were refused;
        "events": changes told; "loads": pages read.
    """
    arrivals = _Arrivals(len(cookies), seconds)
    counts: Counter[str] = Counter()

    async def load(http: aiohttp.ClientSession, *, by_itself: bool = True) -> None:
        headers = {"Accept": "text/html"} | ({"X-Alcove-Idle": "1"} if by_itself else {})
        async with http.get(url + path, headers=headers) as answer:
            await answer.read()
            counts["loads"] += 1
            counts["failed"] += answer.status >= 400

    async def listen(http: aiohttp.ClientSession, number: int) -> bool:
        async with http.get(f"{url}{path}/live", headers={"Accept": "text/event-stream"}) as stream:
            if stream.status != 200 or stream.content_type != "text/event-stream":
                return False
            while (left_s := arrivals.until_s - time.monotonic()) > 0:
                try:
                    line = await asyncio.wait_for(stream.content.readline(), min(left_s, LOOK_S))
                except TimeoutError:
                    continue
                if not line:
                    return False
                if line.startswith(b"event: changed"):
                    counts["events"] += 1
                    await asyncio.sleep(random.random() * SPREAD_S)
                    await load(http)
                    arrivals.note(number)
                elif line.startswith(b"event: end"):
                    return False
            return True

    async def view(number: int, cookie: str) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(headers={"Cookie": cookie}, timeout=timeout) as http:
            await asyncio.sleep(number * ARRIVE_S / len(cookies))
            try:
                await load(http, by_itself=False)
                counts["live" if await listen(http, number) else "failed"] += 1
            except (aiohttp.ClientError, OSError):  # the console cut it, or is away
                counts["failed"] += 1
            arrivals.note(number)

    await asyncio.gather(*(view(number, cookie) for number, cookie in enumerate(cookies)))
    return {name: counts[name] for name in ("live", "failed", "events", "loads")}


async def call(address: str, token: str, rollout_id: str, seconds: float) -> list[float | None]:
    """Return how long calls took, seconds, made at a steady pace: a late answer holds up no later call.

    None is a call that failed: a server that is behind by more calls than one connection may have refuses more.
    """
    header = (("authorization", f"Bearer {token}"),)
    took_s: list[float | None] = []
    async with grpc.aio.insecure_channel(address) as channel:
        get = RolloutServiceStub(channel).GetRollout

        async def ask() -> None:
            began_s = time.perf_counter()
            try:
                await get(pb.GetRolloutRequest(rollout_id=rollout_id), metadata=header, timeout=30)
            except grpc.aio.AioRpcError:
                took_s.append(None)
            else:
                took_s.append(time.perf_counter() - began_s)

        await ask()  # the connection
        took_s.clear()
        began_s, tasks = time.perf_counter(), []
        for number in range(int(seconds * CALLS_PER_S)):
            await asyncio.sleep(max(0.0, began_s + number / CALLS_PER_S - time.perf_counter()))
            tasks.append(asyncio.create_task(ask()))
        await asyncio.gather(*tasks)
    return took_s


def main() -> None:
    """Do what the arguments say; write the result as JSON."""
    what, *given = sys.argv[1:]
    if what == "watch":
        url, path, seconds = given
        found: object = asyncio.run(watch(url, sys.stdin.read().split(), path, float(seconds)))
    else:
        address, token, rollout_id, seconds = given
        found = asyncio.run(call(address, token, rollout_id, float(seconds)))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
