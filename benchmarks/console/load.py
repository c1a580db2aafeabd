"""Measures what people with live pages cost who calls the server: rounds with them and without, in turn.

The server's processes have one core; whoever measures has the others, and the caller comes before the viewers there.
A rollout is changed a few times a minute in every round, with viewers or without, so that the difference is theirs.
"""

import asyncio
import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.testing import Served
from scipy.stats import t as student

from benchmarks.console.seeding import Seeded

__all__ = ["CHANGE_S", "Round", "ViewerFigures", "cookie_of", "measure_viewers", "percentile"]

VIEWERS: Final = 100
VIEWERS_OF_TOKEN: Final = 25  # a token has at most 32 sessions and 32 streams
PATH: Final = "/rollouts/{rollout}"
SETTLED_S: Final = 5.0  # between the last arrival and the first call
LATER_S: Final = 15.0  # for which viewers stay after the calls, which a process makes that starts first
CHANGE_S: Final = 20.0  # between two changes of the rollout: analyses and people make a few a minute
VIEWERS_NICE: Final = 15  # the caller measures; what viewers compute must not be in its times
CPU_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Round:
    """Calls of one round.

    Attributes:
        p50_ms, p99_ms: of their times.
        calls: how many were answered; those that were not are in no percentile.
        server_core: what the server's processes took of their core meanwhile, a part of 1.
        failed: calls that were not answered.
    """

    p50_ms: float
    p99_ms: float
    calls: int
    server_core: float
    failed: int = 0


@dataclass(frozen=True)
class ViewerFigures:
    """What people with live pages cost who calls.

    Attributes:
        viewers: how many, each with a session of its own.
        without, with_viewers: the rounds; those at one place were made one after the other.
        live: streams that stayed open to the end, of all rounds.
        events: changes that they told.
        loads: pages that viewers read.
        failed: streams that did not stay, and pages that viewers did not get.
    """

    viewers: int
    without: tuple[Round, ...]
    with_viewers: tuple[Round, ...]
    live: int
    events: int
    loads: int
    failed: int

    @property
    def ratios(self) -> list[float]:
        """The 99th percentile with viewers, relative to without, pair by pair."""
        return [a.p99_ms / b.p99_ms for a, b in zip(self.with_viewers, self.without, strict=True)]

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The geometric mean of the ratios, and its interval of 95 % by Student's t; unbounded with one pair."""
        logs = [math.log(one) for one in self.ratios]
        middle = statistics.fmean(logs)
        if len(logs) < 2:
            return math.exp(middle), 0.0, math.inf
        wide = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
        return math.exp(middle), math.exp(middle - wide), math.exp(middle + wide)


async def cookie_of(url: str, token: str, address: str = "127.0.0.1") -> str:
    """Sign in from an address, as a proxy of the server tells it; return "name=value" of the session's cookie."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        sent = {"Origin": url, "Sec-Fetch-Site": "same-origin", "X-Forwarded-For": address}
        async with http.post(f"{url}/sign-in", data={"token": token}, headers=sent, allow_redirects=False) as answer:
            (cookie,) = answer.cookies.values()
            return f"{cookie.key}={cookie.value}"


async def cookies_of_viewers(url: str, tokens: Sequence[str]) -> list[str]:
    """Sign everybody in, each from an address of its own, in the order of their tokens."""
    return [await cookie_of(url, token, f"10.0.{at // 250}.{1 + at % 250}") for at, token in enumerate(tokens)]


def measure_viewers(seeded: Seeded, served: Served, *, rounds: int, seconds: float, core: int) -> ViewerFigures:
    """Return the times of calls without and with viewers, in turn; each second pair begins with viewers.

    Args:
        seeded: what it has.
        served: the server.
        rounds: pairs of rounds.
        seconds: of calls in a round.
        core: the server's; who measures stays off it.
    """
    url, data_dir = served.console_url or "", seeded.world.data_dir
    people = range(VIEWERS // VIEWERS_OF_TOKEN)
    tokens = [create_local_token(data_dir, "reader", name=f"viewers-{each}")[0] for each in people]
    cookies = asyncio.run(cookies_of_viewers(url, [token for token in tokens for _ in range(VIEWERS_OF_TOKEN)]))
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {core} or {core})
    module = [sys.executable, "-m", "benchmarks.console.viewers"]
    calling = [*module, "call", served.grpc_address, seeded.world.token("reader"), seeded.rollout_id, str(seconds)]
    watching = ["nice", "-n", str(VIEWERS_NICE), *module, "watch", url, PATH.format_map(seeded.things)]
    watching.append(str(seconds + SETTLED_S + LATER_S))
    found: dict[bool, list[Round]] = {False: [], True: []}
    seen: Counter[str] = Counter()
    for number in range(rounds):
        for has_viewers in (False, True) if number % 2 == 0 else (True, False):
            watcher = None
            if has_viewers:
                watcher = subprocess.Popen(watching, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                if watcher.stdin is not None:
                    watcher.stdin.write("\n".join(cookies))
                    watcher.stdin.close()
                if watcher.stdout is None or watcher.stdout.readline() != "ready\n":
                    raise RuntimeError("the viewers did not come")
                time.sleep(SETTLED_S)
            found[has_viewers].append(_call(calling, seeded, served, seconds))
            if watcher is not None and watcher.stdout is not None:
                seen.update(json.loads(watcher.stdout.read()))
                watcher.wait(600)
    return ViewerFigures(
        VIEWERS,
        tuple(found[False]),
        tuple(found[True]),
        seen["live"],
        seen["events"],
        seen["loads"],
        seen["failed"],
    )


def _call(command: Sequence[str], seeded: Seeded, served: Served, seconds: float) -> Round:
    """Let calls be made, and change the rollout meanwhile."""
    database = seeded.world.data_dir / "alcove.db"
    cpu_s, began_s = _cpu_s(served.pid), time.monotonic()
    caller = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for number in range(max(1, int(seconds / CHANGE_S))):
        time.sleep(max(0.0, began_s + CHANGE_S * (number + 0.25) - time.monotonic()))
        _change(database, seeded.rollout_id)
    said, _ = caller.communicate(timeout=600)
    if caller.returncode:
        raise RuntimeError(f"the calls failed: {caller.returncode}")
    answers = json.loads(said)
    times_ms = [1000 * each for each in answers if each is not None]
    if not times_ms:
        raise RuntimeError(f"none of {len(answers)} calls was answered")
    core = (_cpu_s(served.pid) - cpu_s) / (time.monotonic() - began_s)
    failed = len(answers) - len(times_ms)
    return Round(percentile(times_ms, 0.5), percentile(times_ms, 0.99), len(times_ms), core, failed)


def _change(database: Path, rollout_id: str) -> None:
    """Change the rollout as another server of the same database does: to its viewers it has another etag."""
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        connection.execute("UPDATE rollouts SET revision = revision + 1 WHERE rollout_id = ?", (rollout_id,))


def _cpu_s(pid: int) -> float:
    """Return seconds of processor time that a process and its children have taken so far."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    own = (int(stat[11]) + int(stat[12])) / CPU_TICKS_PER_S
    return own + sum(_cpu_s(int(child)) for child in children)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
