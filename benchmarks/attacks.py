"""Measures what floods of requests do to an operator and a device on the same server, one flood after another.

    python -m benchmarks.attacks [--seconds 4] [--rounds 3] [--only KIND] [--write docs/robustness.md] [--json FILE]

For each flood, quiet and flooded turns follow each other.  In each an operator makes drafts of rollouts (a synced write
each) and a device of another address checks in.  Server, operator and device are on the first core, the flood is on the
last; "nothing" is no flood, which shows the noise of the measurement.  Memory is the most that a process has had
(VmHWM) since its flood began.  On a machine that others use, give it precedence:
`setsid -w bash -c 'echo -10 > /proc/self/autogroup; exec python -m benchmarks.attacks'`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alcove.platform.client import Arm
from alcove.platform.client.errors import ClientError
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.floods import GRPC_KINDS, HTTP_KINDS, NOTHING, command
from alcove.platform.testing.ingress import record

from benchmarks.sections import Section, table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alcove.platform.client import PlatformClient

FEATURE = "text_00"
BLOB_BYTES = 32 * 1024 * 1024
WARM_S = 1.0  # of a flood before its turn counts
CHECK_IN_S = 0.05  # between two check-ins
SECTION = Section("floods", "python -m benchmarks.attacks --write docs/robustness.md")


@dataclass
class Turn:
    """What was seen in turns of one kind.

    Attributes:
        calls_ms: how long each of the operator's calls took.
        failed_calls: those that raised.
        check_ins_ms: how long each of the device's check-ins took.
        failed_check_ins: those that were refused or cut.
    """

    calls_ms: list[float] = field(default_factory=list)
    failed_calls: int = 0
    check_ins_ms: list[float] = field(default_factory=list)
    failed_check_ins: int = 0


@dataclass(frozen=True)
class Row:
    """What one flood did.

    Attributes:
        grew_mb: most memory that gRPC's process and the devices' took more than before, in MB.
        sent: what the flood itself counted.
    """

    kind: str
    quiet: Turn
    flooded: Turn
    grew_mb: tuple[float, float]
    sent: dict[str, int]

    def cells(self) -> list[str]:
        """Return the row of the table."""
        calls, devices = self.flooded, self.flooded
        ratio = at(calls.calls_ms, 0.99) / at(self.quiet.calls_ms, 0.99) if calls.calls_ms else float("inf")
        tried = len(devices.check_ins_ms) + devices.failed_check_ins
        return [
            self.kind,
            f"{at(self.quiet.calls_ms, 0.5):.0f} → {at(calls.calls_ms, 0.5):.0f}",
            f"{at(self.quiet.calls_ms, 0.99):.0f} → {at(calls.calls_ms, 0.99):.0f}",
            f"{ratio:.1f}",
            f"{calls.failed_calls} of {calls.failed_calls + len(calls.calls_ms)}",
            f"{len(devices.check_ins_ms)} of {tried}",
            f"{at(self.quiet.check_ins_ms, 0.99):.0f} → {at(devices.check_ins_ms, 0.99):.0f}",
            f"{self.grew_mb[0]:.0f}, {self.grew_mb[1]:.0f}",
        ]


COLUMNS = (
    "flood", "operator's median, ms", "99th percentile, ms", "ratio", "calls failed", "check-ins answered",
    "their 99th percentile, ms", "memory of gRPC, of devices, MB more",
)  # fmt: skip


def at(values: list[float], part: float) -> float:
    """Return a quantile, infinity of nothing."""
    return sorted(values)[int(len(values) * part)] if values else float("inf")


def operate(operator: PlatformClient, until_s: float, turn: Turn) -> None:
    """Make drafts until it is time."""
    while (began_s := time.perf_counter()) < until_s:
        try:
            operator.create_rollout("app", FEATURE, "1.0.0")
        except ClientError:
            turn.failed_calls += 1
        else:
            turn.calls_ms.append((time.perf_counter() - began_s) * 1000)


def check_in(url: str, until_s: float, turn: Turn) -> None:
    """Ask for what is new on a connection of its own, until it is time."""
    parts = urllib.parse.urlsplit(url)
    while (began_s := time.perf_counter()) < until_s:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        is_answered = True
        try:
            for path, status in (("/metadata/2.root.json", 404), ("/metadata/timestamp.json", 200)):
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                is_answered = is_answered and answer.status == status
        except (OSError, http.client.HTTPException):
            is_answered = False
        else:
            turn.check_ins_ms += [(time.perf_counter() - began_s) * 1000] * is_answered
        finally:
            connection.close()
            turn.failed_check_ins += not is_answered
        time.sleep(CHECK_IN_S)


def take_turn(world: ServerWorld, served: Served, seconds: float, turn: Turn) -> None:
    """Let an operator and a device work side by side."""
    until_s = time.perf_counter() + seconds
    device = threading.Thread(target=check_in, args=(served.http_url, until_s, turn))
    device.start()
    with world.client(served, "operator") as operator:
        operate(operator, until_s, turn)
    device.join()


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def forget_peak(pid: int) -> None:
    """Reset the peak of the memory that a process has had."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def devices_pid(served: Served) -> int:
    """Return the process that answers devices."""
    tasks = Path(f"/proc/{served.pid}/task").iterdir()
    (child,) = [int(child) for task in tasks for child in (task / "children").read_text(encoding="ascii").split()]
    return child


def pin_to(core: int) -> Callable[[], None]:
    """Return what pins a process that is started to a core."""
    return lambda: os.sched_setaffinity(0, {core})


def flood(kind: str, world: ServerWorld, served: Served, *, named: dict[str, str], rounds: int, seconds: float) -> Row:
    """Measure one flood."""
    last = (os.cpu_count() or 1) - 1
    quiet, flooded = Turn(), Turn()
    pids = served.pid, devices_pid(served)
    sent: dict[str, int] = {}
    grew = [0.0, 0.0]
    for _ in range(rounds):
        take_turn(world, served, seconds, quiet)
        for pid in pids:
            forget_peak(pid)
        before = [peak_mb(pid) for pid in pids]
        process = subprocess.Popen(
            command(kind, served.http_url, served.grpc_address, seconds + 2 * WARM_S + 2),
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | named,
            preexec_fn=pin_to(last),  # noqa: PLW1509 - before any thread of ours
        )
        time.sleep(2 * WARM_S)
        take_turn(world, served, seconds, flooded)
        output, _ = process.communicate(timeout=120)
        for name, count in json.loads(output).items():
            sent[name] = sent.get(name, 0) + count
        grew = [max(old, peak_mb(pid) - start) for old, pid, start in zip(grew, pids, before, strict=True)]
        time.sleep(WARM_S)
    return Row(kind, quiet, flooded, (grew[0], grew[1]), sent)


def prepare(world: ServerWorld, served: Served) -> dict[str, str]:
    """Publish versions and start an experiment; return the environment of the floods."""
    with world.client(served, "team:text") as team:
        for version in ("1.0.0", "2.0.0"):
            world.publish(team, FEATURE, version)
        large = team.upload_blob(os.urandom(BLOB_BYTES))
    with world.client(served, "operator") as operator:
        arms = [Arm(name=name, version=f"{name}.0.0", share_basis_points=5000) for name in ("1", "2")]
        draft = operator.create_experiment("flooded", FEATURE, arms, epsilon="2")
        operator.start_experiment(draft.experiment_id)
    policy = world.tree.policy("flooded")
    if policy is None or not policy.features[FEATURE].experiments:
        raise RuntimeError("the experiment is not in the policy")
    return {"FLOOD_BLOB": large, "FLOOD_REPORT": record(policy.features[FEATURE].experiments[0].tasks[0]).hex()}


def measure(kinds: list[str], rounds: int, seconds: float) -> Iterator[Row]:
    """Give a row for each flood: each has a server of its own."""
    for kind in kinds:
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            world = ServerWorld(Path(name) / "world", teams={"text": (FEATURE,)})
            served = world.start("--behind-proxy", "")
            stack.callback(served.stop)
            for pid in (served.pid, devices_pid(served)):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(task.name), {0})
            yield flood(kind, world, served, named=prepare(world, served), rounds=rounds, seconds=seconds)


def text_of(rows: list[Row], seconds: float, rounds: int) -> str:
    """Return the section of the page."""
    before = statistics.median(at(row.quiet.calls_ms, 0.99) for row in rows)
    return "\n".join([
        f"{rounds} quiet and {rounds} flooded turns of {seconds:g} s each, in turn; the quiet 99th percentile is",
        f"{before:.0f} ms in the median.",
        "",
        *table_lines(COLUMNS, [row.cells() for row in rows]),
    ])  # fmt: skip


def main() -> None:
    """Measure, print, and write where asked."""
    kinds = [NOTHING, *HTTP_KINDS, *GRPC_KINDS]
    argument = argparse.ArgumentParser(
        prog="python -m benchmarks.attacks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    argument.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    argument.add_argument("--rounds", type=int, default=3, help="of a quiet and a flooded turn")
    argument.add_argument("--only", choices=kinds, action="append", help="this flood alone")
    argument.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    argument.add_argument("--write", type=Path, metavar="FILE.md", help="write the section of a page")
    arguments = argument.parse_args()
    os.sched_setaffinity(0, {0})
    rows = []
    for row in measure(arguments.only or kinds, arguments.rounds, arguments.seconds):
        rows.append(row)
        print(" | ".join(row.cells()), row.sent, flush=True)
    if arguments.json:
        dumped: list[dict[str, Any]] = [asdict(row) for row in rows]
        arguments.json.write_text(json.dumps(dumped) + "\n", encoding="utf-8")
    if arguments.write:
        SECTION.write(arguments.write, text_of(rows, arguments.seconds, arguments.rounds), {})


if __name__ == "__main__":
    main()
