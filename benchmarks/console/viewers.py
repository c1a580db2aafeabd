"""Stands for people who have a page of the console open, and for who calls meanwhile; each in a process of its own.

python -m benchmarks.console.viewers watch URL COOKIE PATH VIEWERS SECONDS
python -m benchmarks.console.viewers call ADDRESS TOKEN ROLLOUT SECONDS
"""

import asyncio
import json
import sys
import time
from typing import Final

import aiohttp
import grpc
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub

__all__ = ["call", "watch"]

RELOAD_S: Final = 5.0  # of who has no live page
CALLS_PER_S: Final = 50.0  # steady, so that a slow answer does not thin them out


async def watch(url: str, cookie: str, path: str, viewers: int, seconds: float) -> tuple[str, int, int]:
    """Keep pages open; return how ("live" or "reloading"), what was read, and how often that failed.

    A viewer who has a live page keeps its stream of events open, as a browser does; one who has none loads the page
    again every few seconds, on a connection that stays.
    """
    name, _, value = cookie.partition("=")
    until_s = time.monotonic() + seconds
    counts = {"live": 0, "reloading": 0}
    read, failed = 0, 0

    async def view(number: int) -> None:
        nonlocal read, failed
        async with aiohttp.ClientSession(cookies={name: value}, cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            await asyncio.sleep(number * RELOAD_S / viewers)
            async with http.get(f"{url}{path}/live") as stream:
                if stream.status == 200 and stream.content_type == "text/event-stream":
                    counts["live"] += 1
                    while (left_s := until_s - time.monotonic()) > 0:
                        try:
                            if not await asyncio.wait_for(stream.content.readline(), left_s):
                                failed += 1
                                return
                            read += 1
                        except TimeoutError:
                            return
                    return
            counts["reloading"] += 1
            while time.monotonic() < until_s:
                async with http.get(url + path) as answer:
                    await answer.read()
                    read += 1
                    failed += answer.status >= 400
                await asyncio.sleep(max(0.0, min(RELOAD_S, until_s - time.monotonic())))

    await asyncio.gather(*(view(number) for number in range(viewers)))
    return max(counts, key=lambda kind: counts[kind]), read, failed


async def call(address: str, token: str, rollout_id: str, seconds: float) -> list[float]:
    """Return how long calls took, seconds, made at a steady pace: a late answer holds up no later call."""
    header = (("authorization", f"Bearer {token}"),)
    took_s: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        get = RolloutServiceStub(channel).GetRollout

        async def ask() -> None:
            began_s = time.perf_counter()
            await get(pb.GetRolloutRequest(rollout_id=rollout_id), metadata=header, timeout=30)
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
        url, cookie, path, viewers, seconds = given
        found: object = asyncio.run(watch(url, cookie, path, int(viewers), float(seconds)))
    else:
        address, token, rollout_id, seconds = given
        found = asyncio.run(call(address, token, rollout_id, float(seconds)))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
