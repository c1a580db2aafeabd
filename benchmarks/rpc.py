"""Measures throughput and latency of unary calls to the gRPC server: a real server, SQLite, loopback.

    python -m benchmarks.rpc [--seconds 3] [--rounds 3] [--write docs/performance.md] [--json FILE]

Reads of rollouts, each with token, log line and everything else that a call has.  Callers are processes beside the
server, on the same cores, nothing is pinned; each keeps some calls under way on one connection and asks again when it
is answered.  Times are the callers' own: from the call to its answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.platform.testing import ServerWorld

from benchmarks.figures import Figure
from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

CALLERS = 2
UNDER_WAY = 8  # calls of each caller
ROLLOUTS = 20
FEATURE = "text_00"
SECTION = Section("rpc", "python -m benchmarks.rpc --write docs/performance.md")
GOAL_PER_SECOND, GOAL_P99_MS = 1500, 25
METHODS = ("GetRollout", "ListRollouts")


async def call_again_and_again(address: str, token: str, method: str, rollout_id: str, seconds: float) -> list[float]:
    """Return how long each call took, in seconds."""
    requests: dict[str, Any] = {
        "GetRollout": pb.GetRolloutRequest(rollout_id=rollout_id),
        "ListRollouts": pb.ListRolloutsRequest(app="app", page_size=ROLLOUTS),
    }
    header = (("authorization", f"Bearer {token}"),)
    took_s: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        call = getattr(RolloutServiceStub(channel), method)

        async def ask(until_s: float, kept: list[float]) -> None:
            while (began_s := time.perf_counter()) < until_s:
                await call(requests[method], metadata=header, timeout=20)
                kept.append(time.perf_counter() - began_s)

        await ask(time.perf_counter() + 0.3, [])  # connections, caches
        until_s = time.perf_counter() + seconds
        await asyncio.gather(*(ask(until_s, took_s) for _ in range(UNDER_WAY)))
    return took_s


def processor_s(pid: int) -> float:
    """Return the seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(address: str, token: str, method: str, rollout_id: str, seconds: float) -> tuple[float, float, float]:
    """Return calls a second, and the median and the 99th percentile of their milliseconds, from all callers."""
    command = [sys.executable, "-m", "benchmarks.rpc", "--caller", address, token, method, rollout_id, str(seconds)]
    callers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CALLERS)]
    answers = [json.loads(caller.communicate(timeout=seconds + 60)[0]) for caller in callers]
    took_s = sorted(value for answer in answers for value in answer)
    at = [took_s[int(len(took_s) * part)] * 1000 for part in (0.5, 0.99)]
    return len(took_s) / seconds, at[0], at[1]


def measure(seconds: float = 3.0, rounds: int = 3) -> list[Figure]:
    """Return calls a second and times of each method: of the round with the most calls."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        world = ServerWorld(Path(name) / "world", teams={"text": (FEATURE,)})
        served = world.start("--calls-per-second", "1000000")
        try:
            with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
                world.publish(team, FEATURE)
                results = [operator.create_rollout("app", FEATURE, "1.0.0") for _ in range(ROLLOUTS)]
            for method in METHODS:
                before_s, calls = processor_s(served.pid), 0.0
                runs = []
                for _ in range(rounds):
                    runs.append(
                        load(served.grpc_address, world.token("reader"), method, results[-1].rollout_id, seconds)
                    )
                    calls += runs[-1][0] * seconds
                own_us = (processor_s(served.pid) - before_s) / calls * 1e6
                rate, median_ms, p99_ms = max(runs)
                many = f" of {ROLLOUTS}" if method == "ListRollouts" else ""
                how = f"{CALLERS} callers, {UNDER_WAY} calls each under way, no TLS, all on the same cores"
                figures += [
                    Figure(f"{method}{many}", rate, "a second", f"goal {GOAL_PER_SECOND:,}; {how}"),
                    Figure(f"{method}{many}, median", median_ms, "ms", "as the callers see it"),
                    Figure(f"{method}{many}, 99th percentile", p99_ms, "ms", f"goal {GOAL_P99_MS}"),
                    Figure(f"{method}{many}, the server's processor time", own_us, "µs", "of each call, all threads"),
                ]
        finally:
            served.stop()
    return figures


def main() -> None:
    """Measure and print."""
    argument = argparse.ArgumentParser(
        prog="python -m benchmarks.rpc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    argument.add_argument("--seconds", type=float, default=3.0, help="of each round")
    argument.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    argument.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    argument.add_argument("--write", type=Path, metavar="FILE.md", help="write the section of a page")
    argument.add_argument("--caller", nargs=5, help=argparse.SUPPRESS)
    arguments = argument.parse_args()
    if arguments.caller:
        address, token, method, rollout_id, seconds = arguments.caller
        took_s = asyncio.run(call_again_and_again(address, token, method, rollout_id, float(seconds)))
        print(json.dumps(took_s))
        return
    figures = measure(arguments.seconds, arguments.rounds)
    for figure in figures:
        print(f"{figure.name}: {figure.text()} ({figure.note})")
    if arguments.write:
        rows = [(figure.name, figure.text(), figure.note) for figure in figures]
        text = "\n".join(["## Calls of the gRPC server", "", *table_lines(("what", "figure", "how"), rows)])
        SECTION.write(arguments.write, text, {})
    write_json(arguments.json, [figure.as_json() for figure in figures])


if __name__ == "__main__":
    main()
