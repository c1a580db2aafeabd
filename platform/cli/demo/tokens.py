"""Gets the fleet's tokens, one for each device and window, from the issuer's own code on the server's database.

The devices in processes enroll and ask one by one over HTTP, as devices do.  For the fleet both sides of the exchange
run here, many at a time and in a process for each core: the messages, the claims and the keys are the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Self, TypeVar

import structlog
from alcove.platform.cli.demo.clock import DemoClock
from alcove.platform.cli.demo.processes import ANSWER_TIMEOUT_S, DemoError
from alcove.platform.domain.errors import StoreBusyError
from alcove.platform.issuer import SoftwareAttestor, TokenIssuer, make_software_evidence
from alcove.platform.issuer.arithmetic import GmpArithmetic
from alcove.platform.store import Store
from alcove.privacy.dap.report_tokens import ReportToken, request_report_token
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.tokens import TokenResponse, finish_token
from alcove.privacy.tokens.enrollment import EnrollmentRequest, attested_digest, sign_order
from alcove.registry.policy.dap import dap_time, make_dap_task
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from alcove.registry.policy import TaskPolicy

T = TypeVar("T")
WORKERS = 2
AGAIN_S = 0.05
AT_ONCE = 1000


@dataclass(frozen=True)
class TokenJob:
    """Devices of the fleet that want a token.

    Attributes:
        database: of the server.
        url: of the issuer.
        clock: the file of the demo's clock.
        vendor: the software attestor's private key, 32 bytes.
        task: of the policy.
        window: that is reported.
        devices: their numbers.
    """

    database: Path
    url: str
    clock: Path
    vendor: bytes
    task: TaskPolicy
    window: int
    devices: range


class FleetTokens:
    """The fleet's side of the issuer; use it in a `with` block.

    Args:
        database: of the server.
        url: of the issuer.
        clock: the file of the demo's clock.
        vendor: the software attestor's private key, 32 bytes.
    """

    def __init__(self, database: Path, url: str, clock: Path, vendor: bytes) -> None:
        self._given = (database, url, clock, vendor)
        self._pool = ProcessPoolExecutor(WORKERS, get_context("spawn"), _be_quiet)

    def fetch(self, task: TaskPolicy, window: int, devices: int) -> Iterable[list[ReportToken]]:
        """Return the tokens of so many devices, in order, as they come.

        Raises:
            DemoError: the issuer refused one.
        """
        jobs = [
            TokenJob(*self._given, task, window, range(first, min(first + AT_ONCE, devices)))
            for first in range(0, devices, AT_ONCE)
        ]
        return self._pool.map(fetch_tokens, jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _be_quiet() -> None:
    """Say nothing but errors: that software attestation proves nothing is known to who reads of a demo."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def fetch_tokens(job: TokenJob) -> list[ReportToken]:
    """Enroll devices, and get the token of each.

    Raises:
        DemoError: the issuer refused one.
    """
    return asyncio.run(_fetch_tokens(job))


async def _fetch_tokens(job: TokenJob) -> list[ReportToken]:
    vendor = Ed25519PrivateKey.from_private_bytes(job.vendor)
    keys = [_derive_key(job.vendor, number) for number in job.devices]
    task, window, name = make_dap_task(job.task), dap_time(job.task, job.window), job.url.encode()
    entropy, arithmetic = OsEntropy(), GmpArithmetic()
    store = await Store.join(job.database)
    try:
        attestor = SoftwareAttestor(vendor.public_key())
        issuer = TokenIssuer(
            store, job.url, attestor, clock=DemoClock(job.clock), entropy=entropy, arithmetic=arithmetic
        )
        challenge = await _repeat(issuer.make_challenge)
        requests = []
        for key in keys:
            public = key.public_key().public_bytes_raw()
            installation = hashlib.sha256(public).digest()
            evidence = make_software_evidence(vendor, installation, attested_digest(name, challenge, public))
            requests.append(EnrollmentRequest(challenge, public, evidence))
        _expect_none(await _repeat(lambda: issuer.enroll_many(requests)))
        token_key = await _repeat(lambda: issuer.find_key(task.task_id, window))
        pending = [request_report_token(task, window, token_key, entropy, arithmetic) for _ in keys]
        orders = [
            sign_order(key, name, task.task_id, window, each.request)
            for key, (each, _) in zip(keys, pending, strict=True)
        ]
        answers = await _repeat(lambda: issuer.issue_many(task.task_id, window, orders))
        tokens = []
        for (each, secret), answer in zip(pending, answers, strict=True):
            if not isinstance(answer, TokenResponse):
                raise DemoError(f"the issuer refused a token: {answer}")
            tokens.append(ReportToken(finish_token(each, answer, token_key), secret))
        return tokens
    finally:
        await store.close()


async def _repeat(ask: Callable[[], Awaitable[T]]) -> T:
    """Return what the issuer does; the server writes to the same file, and while it does so others are refused."""
    until_s = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            return await ask()
        except StoreBusyError as error:
            if time.monotonic() > until_s:
                raise DemoError("the issuer's database does not take what devices ask for") from error
            await asyncio.sleep(AGAIN_S)


def _derive_key(vendor: bytes, number: int) -> Ed25519PrivateKey:
    """Return the key that a device enrolls, the same one in each window."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"device %d " % number + vendor).digest())


def _expect_none(refusals: Sequence[Exception | None]) -> None:
    refused = [refusal for refusal in refusals if refusal is not None]
    if refused:
        raise DemoError(f"the issuer refused {len(refused)} devices: {refused[0]}")
