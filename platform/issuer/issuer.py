"""Enrolls installations, and gives each one token for a task and window.

    order ─▶ task and window of now ─▶ signed by an enrolled key ─▶ claimed: committed ─▶ signed blindly ─▶ answered

T1  One token for an installation, task and window: the claim is committed before anything is signed, and only the
    request that it names is answered, with the same bytes each time.
T2  One key for a task and window, whoever asks: it says nothing about who asked (`keys`).
T3  Tokens are made for the window of now and the ones before and after it, of tasks that run.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from alcove.platform.domain.errors import IssuanceRefusedError
from alcove.platform.issuer.attestation import Attestor
from alcove.platform.issuer.challenges import SECRET_BYTES, check_challenge, make_challenge
from alcove.platform.issuer.keys import IssuerKeys
from alcove.platform.issuer.patience import write_patiently
from alcove.platform.store import Store
from alcove.platform.store.issuance import add_enrollments, claim_tokens, find_installations, keep_secret
from alcove.platform.store.running_tasks import RunningTasks
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import DapTaskError, TokenError
from alcove.privacy.tokens import Issuer, TokenKey, TokenResponse
from alcove.privacy.tokens.blind_rsa import Arithmetic
from alcove.privacy.tokens.enrollment import MAX_EVIDENCE_BYTES, EnrollmentRequest, TokenOrder, verify_order
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.dap import dap_time, make_dap_task
from alcove.runtime.clock import Clock
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["TokenIssuer"]

TIMES_AROUND: Final = 1
"""Windows before and after the present one for which tokens are made; aggregators ask for the keys of the same."""

TASKS_AGE_S: Final = 1.0  # seconds after which the tasks in memory are read again

_Claimed = TokenOrder | IssuanceRefusedError


class TokenIssuer:
    """The issuer of one server's tokens.

    Args:
        store: its rows.
        url: its address as tasks name it, which is the issuer's name in tokens.
        attestor: says which installations are genuine.
        clock: says which windows are around now, and how old a challenge is.
        entropy: source of challenges and of what hides the numbers that are signed.
        arithmetic: computes tokens.
        tasks: those that run.
    """

    def __init__(
        self,
        store: Store,
        url: str,
        attestor: Attestor,
        *,
        clock: Clock,
        entropy: Entropy,
        arithmetic: Arithmetic,
        tasks: RunningTasks | None = None,
    ) -> None:
        self._store = store
        self._url = url
        self._attestor = attestor
        self._clock = clock
        self._entropy = entropy
        self._running = tasks or RunningTasks(store)
        self._keys = IssuerKeys(store, entropy, arithmetic, self._list_tasks)
        self._tasks: Mapping[str, tuple[DapTask, int] | None] = {}
        self._secret: bytes | None = None

    async def make_challenge(self) -> bytes:
        """Return a challenge for a device's platform, good for some minutes.

        Raises:
            ServerError: the database does not take it now.
        """
        return make_challenge(await self._read_secret(), self._clock.now_s(), self._entropy)

    async def enroll(self, request: EnrollmentRequest) -> None:
        """Enroll the installation of a request; again is the same as once, and another key takes the place of the last.

        Raises:
            IssuanceRefusedError: the challenge or the evidence is not valid, or the key is another installation's.
            ServerError: the database does not take it now; asking again helps.
        """
        (refusal,) = await self.enroll_many([request])
        if refusal is not None:
            raise refusal

    async def enroll_many(self, requests: Sequence[EnrollmentRequest]) -> list[IssuanceRefusedError | None]:
        """Enroll up to 10,000 at once, in one transaction; return for each why it was refused, or None.

        Raises:
            ServerError: the database does not take it now; asking again helps.
        """
        secret, now_s = await self._read_secret(), self._clock.now_s()
        installations: list[bytes | IssuanceRefusedError] = []
        for request in requests:
            try:
                check_challenge(request.challenge, secret, now_s)
                if len(request.evidence) > MAX_EVIDENCE_BYTES:
                    raise _refuse("evidence", f"at most {MAX_EVIDENCE_BYTES} bytes")
                identity = await self._attestor.verify(request.evidence, request.digest(self._url.encode()))
                installations.append(hashlib.sha256(identity).digest())
            except IssuanceRefusedError as refusal:
                installations.append(refusal)
        keys = {
            installation: request.public_key
            for installation, request in zip(installations, requests, strict=True)
            if isinstance(installation, bytes)
        }
        others: set[bytes] = set()
        if keys:
            others = await write_patiently(self._store, lambda session: add_enrollments(session, keys, now_s))
        another = _refuse("public_key", "a key of this installation alone")
        return [(another if each in others else None) if isinstance(each, bytes) else each for each in installations]

    async def find_key(self, task_id: bytes, time: int) -> TokenKey:
        """Return the public key of the tokens for a task and time.

        Raises:
            IssuanceRefusedError: no such task runs, or the time is not of now.
            ServerError: the database does not take it now; asking again helps.
        """
        return (await self._open(task_id, time)).key

    async def issue(self, task_id: bytes, time: int, order: TokenOrder) -> TokenResponse:
        """Return the token of an enrolled device, to be unblinded.

        Raises:
            IssuanceRefusedError: no such task runs, the time is not of now, the device is not enrolled, or it has
                its token by another request.
            ServerError: the database does not take it now; asking again helps.
        """
        (answer,) = await self.issue_many(task_id, time, [order])
        if isinstance(answer, IssuanceRefusedError):
            raise answer
        return answer

    async def issue_many(
        self, task_id: bytes, time: int, orders: Sequence[TokenOrder]
    ) -> list[TokenResponse | IssuanceRefusedError]:
        """Answer up to 10,000 orders at once, in one transaction; of an installation one is answered.

        Raises:
            IssuanceRefusedError: no such task runs, or the time is not of now.
            ServerError: the database does not take it now; asking again helps.
        """
        issuer = await self._open(task_id, time)
        verified = await asyncio.to_thread(lambda: [self._verify(issuer, task_id, time, order) for order in orders])
        sound = [order for order in verified if isinstance(order, TokenOrder)]
        async with self._store.read() as session:
            installations = await find_installations(session, [order.public_key for order in sound])
        requests = {
            installations[order.public_key]: hashlib.sha256(order.request.to_bytes()).digest()
            for order in reversed(sound)
            if order.public_key in installations
        }
        claimed = await write_patiently(self._store, lambda session: claim_tokens(session, task_id, time, requests))

        def judge(order: _Claimed) -> _Claimed:
            if isinstance(order, IssuanceRefusedError):
                return order
            installation = installations.get(order.public_key)
            if installation is None:
                return _refuse("enrollment", "an enrolled device")
            is_own = requests[installation] == hashlib.sha256(order.request.to_bytes()).digest()
            return order if is_own and installation in claimed else _refuse("request", "the one of this window again")

        return await asyncio.to_thread(lambda: [_answer(issuer, judge(order)) for order in verified])

    def _verify(self, issuer: Issuer, task_id: bytes, time: int, order: TokenOrder) -> _Claimed:
        """Return an order that may claim a token, or why it not: a claim for what cannot be signed would be lost."""
        try:
            verify_order(order, self._url.encode(), task_id, time)
            issuer.check(order.request)
        except TokenError as error:
            return _refuse("order", str(error))
        return order

    async def _open(self, task_id: bytes, time: int) -> Issuer:
        found = await self._find_task(task_id, TASKS_AGE_S)
        if found is None:
            found = await self._find_task(task_id, 0)  # one may have started a moment ago, in another process
        if found is None:
            raise _refuse("unknown_task", "a task of this issuer that runs")
        task, first = found
        now = task.time_at(self._clock.now_s())
        if time < first or abs(time - now) > TIMES_AROUND:
            raise _refuse("unknown_window", "a window around now")
        issuer = await self._keys.find(task_id, time, oldest=now - TIMES_AROUND)
        if issuer is None:
            raise _refuse("unknown_window", "a window around now")
        return issuer

    async def _find_task(self, task_id: bytes, age_s: float) -> tuple[DapTask, int] | None:
        """Return a task that runs, in DAP, and its first time."""
        found = (each for each in self._translate(await self._running.read(age_s)) if each[0].task_id == task_id)
        return next(found, None)

    async def _list_tasks(self, session: AsyncSession) -> list[bytes]:
        return [task.task_id for task, _ in self._translate(await self._running.read_in(session))]

    def _translate(self, running: Mapping[str, TaskPolicy]) -> list[tuple[DapTask, int]]:
        """Return those tasks that name this issuer, in DAP, each with its first time."""
        ours = {
            policy_id: task
            for policy_id, task in running.items()
            if task.aggregation is not None and task.aggregation.token_issuer == self._url
        }
        self._tasks = {policy_id: self._tasks.get(policy_id) or _translate(task) for policy_id, task in ours.items()}
        return [each for each in self._tasks.values() if each is not None]

    async def _read_secret(self) -> bytes:
        if self._secret is None:
            made = self._entropy.random_bytes(SECRET_BYTES)
            self._secret = await write_patiently(self._store, lambda session: keep_secret(session, "challenges", made))
        return self._secret


def _translate(task: TaskPolicy) -> tuple[DapTask, int] | None:
    """Return a task in DAP and its first time; None: no aggregator takes part in it either."""
    try:
        return make_dap_task(task), dap_time(task, 0)
    except DapTaskError:
        return None


def _answer(issuer: Issuer, order: _Claimed) -> TokenResponse | IssuanceRefusedError:
    return order if isinstance(order, IssuanceRefusedError) else issuer.issue(order.request)


def _refuse(reason: str, bound: str) -> IssuanceRefusedError:
    return IssuanceRefusedError(reason, bound)
