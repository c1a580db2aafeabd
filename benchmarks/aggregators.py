"""Measures what a report costs the two aggregators: real processes, SQLite, loopback, from upload to release.

    python -m benchmarks.aggregators [--reports 3000] [--write docs/deploy/aggregators.md] [--json FILE]

Processor time of each process, all threads, so that it holds beside other work; and the bytes that the leader keeps of
a report while it waits.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import aiohttp
from alcove.platform.aggregator.collector import CollectorClient, read_collector_config, read_recipients
from alcove.platform.aggregator.problems import encode_id
from alcove.platform.testing.aggregators import PATIENCE_S, AggregatorProcesses
from alcove.privacy.dap.messages import MEDIA_TYPE, UploadRequest
from alcove.privacy.dap.reports import make_report
from alcove.privacy.dap.task import DapTask, TaskInfo, make_histogram_task
from alcove.privacy.entropy import OsEntropy

from benchmarks.figures import Figure
from benchmarks.options import write_json
from benchmarks.rpc import processor_s
from benchmarks.sections import Section, table_lines

CELLS = 64
WINDOW_S = 3600
DEVICES = 1_000_000
DAY_S = 86_400
SECTION = Section("aggregators", "python -m benchmarks.aggregators --write docs/deploy/aggregators.md")


async def send_and_collect(processes: AggregatorProcesses, task: DapTask, reports: int) -> tuple[float, float, float]:
    """Upload reports while the helper is away, then let both work.

    Returns:
        bytes of a report on the wire and in the leader's rows, and the processor time of the helper's start in seconds.
    """
    client_config = read_collector_config(processes.folder / "collector" / "collector.json")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        client = CollectorClient(session, client_config)
        await client.announce(task)
        recipients = await read_recipients(session, *processes.urls.values())
        entropy, now = OsEntropy(), task.time_at(time.time())
        made = [make_report(task, at % CELLS, now, recipients, entropy) for at in range(reports)]
        processes.kill("helper")
        empty = rows_bytes(processes.folder / "leader")
        url = f"{processes.urls['leader']}/tasks/{encode_id(task.task_id)}/reports"
        headers = {"Content-Type": f"{MEDIA_TYPE};message=upload-req"}
        for report in made:  # as devices do: one in a request
            async with session.post(url, data=UploadRequest((report,)).to_bytes(), headers=headers) as answer:
                if answer.status != 200:
                    raise RuntimeError(f"upload: status {answer.status}")
        kept = rows_bytes(processes.folder / "leader") - empty
        processes.start("helper")
        start_s = processor_s(processes.running["helper"].pid)
        until_s = time.monotonic() + PATIENCE_S
        while (found := await client.collect(task, now, 1)) is None:
            if time.monotonic() > until_s:
                raise RuntimeError("no release in time")
            await asyncio.sleep(0.5)
        if found.reports != reports:
            raise RuntimeError(f"{found.reports} of {reports} reports were added")
    return len(UploadRequest((made[0],)).to_bytes()), kept / reports, start_s


def rows_bytes(folder: Path) -> int:
    """Return the bytes of a folder's database."""
    return sum(path.stat().st_size for path in folder.glob("*.db*"))


def measure(reports: int) -> list[Figure]:
    """Return what a report costs each aggregator."""
    with tempfile.TemporaryDirectory() as name:
        processes = AggregatorProcesses(Path(name))
        try:
            for seat in ("leader", "helper"):
                processes.start(seat)
            urls = processes.urls
            task = make_histogram_task(
                leader_url=urls["leader"],
                helper_url=urls["helper"],
                window_s=WINDOW_S,
                min_batch_size=100,
                cells=CELLS,
                info=TaskInfo(Fraction(1), os.urandom(32)),
            )
            before_s = processor_s(processes.running["leader"].pid)
            wire, kept, start_s = asyncio.run(send_and_collect(processes, task, reports))
            leader_s = (processor_s(processes.running["leader"].pid) - before_s) / reports
            helper_s = (processor_s(processes.running["helper"].pid) - start_s) / reports
        finally:
            for seat in list(processes.running):
                processes.kill(seat)
    how = f"{reports:,} reports of {CELLS} cells, one in a request, without TLS and tokens"
    return [
        Figure("leader, processor time of a report", leader_s * 1e6, "µs", how),
        Figure("helper, processor time of a report", helper_s * 1e6, "µs", "512 reports in a job"),
        Figure("a report on the wire", wire, "bytes", "to the leader"),
        Figure("a report that waits", kept, "bytes", "in the leader's rows, until the helper has answered"),
        Figure(f"{DEVICES:,} devices a day, leader", leader_s * DEVICES / DAY_S, "cores", "spread over the day"),
        Figure(f"{DEVICES:,} devices a day, helper", helper_s * DEVICES / DAY_S, "cores", "likewise"),
        Figure("helper away for a day", kept * DEVICES / 1e9, "GB", f"that {DEVICES:,} reports take at the leader"),
    ]


def main() -> None:
    """Measure and print."""
    argument = argparse.ArgumentParser(
        prog="python -m benchmarks.aggregators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    argument.add_argument("--reports", type=int, default=3000, help="that are sent")
    argument.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    argument.add_argument("--write", type=Path, metavar="FILE.md", help="write the section of a page")
    arguments = argument.parse_args()
    figures = measure(arguments.reports)
    for figure in figures:
        print(f"{figure.name}: {figure.text()} ({figure.note})")
    if arguments.write:
        rows = [(figure.name, figure.text(), figure.note) for figure in figures]
        SECTION.write(arguments.write, "\n".join(table_lines(("what", "figure", "how"), rows)), {})
    write_json(arguments.json, [figure.as_json() for figure in figures])


if __name__ == "__main__":
    main()
