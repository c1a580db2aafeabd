"""Measures private telemetry: a report on the device, its preparation, its token, batches through two processes."""

from __future__ import annotations

import asyncio
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from alcove.platform.issuer.arithmetic import GmpArithmetic
from alcove.privacy import hpke
from alcove.privacy.dap.messages import ReportShare, Role
from alcove.privacy.dap.report_tokens import make_report_challenge, request_report_token
from alcove.privacy.dap.reports import Recipients, make_config, make_report, open_input_share
from alcove.privacy.dap.task import TaskInfo, make_histogram_task
from alcove.privacy.dap.verification import Verifier
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.errors import ReportRejectedError
from alcove.privacy.prio3 import Report as VdafReport
from alcove.privacy.tokens import Issuer, finish_token, verify_token
from alcove.privacy.tokens.blind_rsa import EXPONENT
from alcove.privacy.tokens.privacy_pass import KEY_BITS
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from benchmarks.figures import Figure, median_us
from benchmarks.privacy.processes import SEATS, open_exchange, run_aggregators
from benchmarks.privacy.seats import HELPER_URL, LEADER_URL, make_folder
from benchmarks.rpc import processor_s

if TYPE_CHECKING:
    from alcove.platform.testing.aggregators import AggregatorProcesses
    from alcove.privacy.dap.messages import Report
    from alcove.privacy.dap.task import DapTask

T = TypeVar("T")

CELLS: Final = 64
SIZES: Final = (16, 64, 256)
PREPARED: Final = 512
"""Reports that are verified at a time, as many as in a job."""

BATCH: Final = 4_096
SINGLE: Final = 1_024
WINDOW_S: Final = 86_400
REPEATS: Final = 3
_KEYS: Final = (hpke.generate_private_key(), hpke.generate_private_key())


def measure() -> list[Figure]:
    """Return times of the device and the aggregators, and sizes."""
    return [
        *_measure_device(),
        *_measure_preparation(),
        *_measure_processes(),
        *_measure_tokens(),
        *_measure_sizes(),
    ]


def _make_task(
    cells: int, leader_url: str = LEADER_URL, helper_url: str = HELPER_URL, token_issuer: str | None = None
) -> DapTask:
    return make_histogram_task(
        leader_url=leader_url,
        helper_url=helper_url,
        window_s=WINDOW_S,
        min_batch_size=100,
        cells=cells,
        info=TaskInfo(Fraction(1), bytes(32), token_issuer),
    )


def _recipients() -> Recipients:
    return Recipients(*(make_config(1, hpke.derive_public_key(key)) for key in _KEYS))


def _measure_device() -> list[Figure]:
    task, recipients, entropy = _make_task(CELLS), _recipients(), OsEntropy()
    native, python = (task.make_vdaf(is_native=is_native) for is_native in (True, False))
    rand = entropy.random_bytes(native.rand_bytes)
    times = median_us(
        [
            lambda: native.shard(task.context, 5, bytes(16), rand),
            lambda: python.shard(task.context, 5, bytes(16), rand),
            lambda: make_report(task, 5, 1, recipients, entropy),
            lambda: make_report(task, 5, 1, recipients, entropy, is_native=False),
        ],
        per_repeat=40,
    )
    shard = f"histogram of {CELLS} cells; shares and proof"
    whole = "the same, and both shares sealed (HPKE)"
    return [
        Figure("device: a measurement is shared, native", times[0] / 1000, "ms", f"{shard}; ≤ 3"),
        Figure("device: the same in Python alone", times[1] / 1000, "ms", f"{times[1] / times[0]:.0f} times; ≤ 3"),
        Figure("device: a report is made, native", times[2] / 1000, "ms", whole),
        Figure("device: the same in Python alone", times[3] / 1000, "ms", whole),
    ]


def _measure_preparation() -> list[Figure]:
    task, recipients = _make_task(CELLS), _recipients()
    verifier = Verifier(task, bytes(32))
    reports = [make_report(task, index % CELLS, 1, recipients, OsEntropy()) for index in range(PREPARED)]
    leader = [_open(task, Role.LEADER, report) for report in reports]
    helper = [_open(task, Role.HELPER, report) for report in reports]
    begun = [_check(each) for each in verifier.begin_leader(leader)]
    finished = [_check(each) for each in verifier.finish_helper(helper, [message for _, message in begun])]
    ends = list(zip([state for state, _ in begun], [message for _, message in finished], strict=True))

    def prepare_leader() -> None:
        verifier.begin_leader(leader)
        verifier.add([verifier.finish_leader(state, message) for state, message in ends])

    def prepare_helper() -> None:
        found = verifier.finish_helper(helper, [message for _, message in begun])
        verifier.add([_check(each)[0] for each in found])

    def open_all() -> None:
        for report in reports:
            _open(task, Role.LEADER, report)

    times = median_us([prepare_leader, prepare_helper, open_all], per_repeat=3)
    rates = [1e6 * PREPARED / each for each in times]
    note = f"{CELLS} cells, {PREPARED} at a time, native, verified and added, opened before; ≥ 20,000"
    return [
        Figure("leader: reports prepared", rates[0], "a second of one core", note),
        Figure("helper: reports prepared", rates[1], "a second of one core", note),
        Figure("either: shares opened (HPKE)", rates[2], "a second of one core", "X25519, HKDF-SHA256, AES-128-GCM"),
    ]


def _open(task: DapTask, role: Role, report: Report) -> VdafReport:
    sealed = report.leader_input_share if role is Role.LEADER else report.helper_input_share
    key = _KEYS[0] if role is Role.LEADER else _KEYS[1]
    share = ReportShare(report.metadata, report.public_share, sealed)
    opened = open_input_share(task, role, {1: key}, share)
    return VdafReport(report.metadata.report_id, report.public_share, opened.payload)


def _check(outcome: T | ReportRejectedError) -> T:
    if isinstance(outcome, ReportRejectedError):
        raise outcome
    return outcome


def _measure_processes() -> list[Figure]:
    with make_folder() as folder, run_aggregators(Path(folder)) as processes:
        best = min(
            (asyncio.run(_send(processes, BATCH, 256, window)) for window in range(REPEATS)), key=lambda one: one[0]
        )
        single = asyncio.run(_send(processes, SINGLE, 1, REPEATS))
    how = f"{BATCH:,} reports of {CELLS} cells, 256 in a request: HTTP, HPKE, proofs, rows; processor time; ≥ 5,000"
    alone = f"{SINGLE:,} reports, each in a request on a connection of its own, as devices send them"
    return [
        Figure("leader: all of DAP", BATCH / best[1], "reports a second of one core", how),
        Figure("helper: all of DAP", BATCH / best[2], "reports a second of one core", how),
        Figure("leader: all of DAP, a report a request", SINGLE / single[1], "reports a second of one core", alone),
        Figure(
            f"{BATCH:,} reports, from the first upload to the collected sums",
            best[0],
            "s",
            "two real processes and the sender on one core",
        ),
    ]


async def _send(processes: AggregatorProcesses, count: int, at_once: int, window: int) -> tuple[float, float, float]:
    """Return the seconds until a batch is collected, and of a processor for the leader and for the helper."""
    task = _make_task(CELLS, *processes.urls.values())
    now = task.time_at(time.time()) - window
    async with open_exchange(processes) as exchange:
        recipients = await exchange.announce(task)
        reports = [make_report(task, index % CELLS, now, recipients, OsEntropy()) for index in range(count)]
        before = [processor_s(processes.running[seat].pid) for seat in SEATS]
        start_s = time.monotonic()
        for first in range(0, count, at_once):
            await exchange.upload(task, reports[first : first + at_once])
        release = await exchange.collect(task, now)
        seconds = time.monotonic() - start_s
        leader, helper = (
            processor_s(processes.running[seat].pid) - earlier for seat, earlier in zip(SEATS, before, strict=True)
        )
    if release.reports != count:
        raise RuntimeError(f"{release.reports} of {count} reports are in the release")
    return seconds, leader, helper


def _measure_tokens() -> list[Figure]:
    task, entropy = _make_task(CELLS, token_issuer="https://server.example/issuer"), OsEntropy()
    private_key = generate_private_key(EXPONENT, KEY_BITS)
    gmp, python = Issuer(private_key, entropy, GmpArithmetic()), Issuer(private_key, entropy)
    pending, _ = request_report_token(task, 1, gmp.key, entropy)
    response = gmp.issue(pending.request)
    token = finish_token(pending, response, gmp.key)
    challenge = make_report_challenge(task, 1).digest
    times = median_us(
        [
            lambda: gmp.issue(pending.request),
            lambda: python.issue(pending.request),
            lambda: request_report_token(task, 1, gmp.key, entropy),
            lambda: finish_token(pending, response, gmp.key),
            lambda: verify_token(token, challenge, gmp.key),
        ],
        per_repeat=20,
    )
    return [
        Figure("issuer: a token is signed, GMP", times[0] / 1000, "ms", "RSA-2048, constant in time, verified"),
        Figure("issuer: the same in Python alone", times[1] / 1000, "ms", f"{times[1] / times[0]:.0f} times"),
        Figure("device: a token is asked for and finished", (times[2] + times[3]) / 1000, "ms", "Python alone"),
        Figure("either: tokens verified", 1e6 / times[4], "a second of one core", "RSA-PSS"),
    ]


def _measure_sizes() -> list[Figure]:
    reports = [make_report(_make_task(cells), 0, 1, _recipients(), OsEntropy()) for cells in SIZES]
    return [
        Figure(f"a report of {cells} cells", len(report.to_bytes()), "bytes", "on the wire, without HTTP's head")
        for cells, report in zip(SIZES, reports, strict=True)
    ]
