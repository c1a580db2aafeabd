"""The issuer gives an installation that its platform vouches for one token for a task and window, and no more."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from alcove.platform.domain.errors import IssuanceRefusedError, StoreBusyError, StoreFullError
from alcove.platform.issuer import SoftwareAttestor, TokenIssuer, make_software_evidence
from alcove.platform.issuer.arithmetic import GmpArithmetic
from alcove.platform.issuer.challenges import VALID_S
from alcove.platform.store import Store
from alcove.platform.store.running_tasks import RunningTasks
from alcove.platform.store.tables import EnrollmentRow, IssuedTokenRow, IssuerKeyRow
from alcove.privacy.dap.report_tokens import make_report_challenge, request_report_token
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.tokens import PendingToken, TokenRequest, finish_token, verify_token
from alcove.privacy.tokens.blind_rsa import PYTHON
from alcove.privacy.tokens.enrollment import EnrollmentRequest, TokenOrder, sign_order
from alcove.registry.policy import Aggregation, TaskPolicy, make_task
from alcove.registry.policy.dap import make_dap_task
from alcove.runtime.testing_seams import ManualClock
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

URL = "https://server.example/issuer"
WINDOW_S = 86_400
TIME = 20_000


def make_policy_task(window_s: int = WINDOW_S, token_issuer: str | None = URL) -> TaskPolicy:
    """Return a task whose reports carry tokens of `URL`, and whose first window is `TIME`."""
    aggregation = Aggregation(
        leader_url="https://leader.example",
        helper_url="https://helper.example",
        min_batch_size=100,
        token_issuer=token_issuer,
    )
    return make_task(
        experiment_id="ex-1",
        epsilon="1",
        arm_count=2,
        latency_edges_ms=(),
        window_s=window_s,
        first_window_start_s=TIME * WINDOW_S,
        aggregation=aggregation,
    )


TASK = make_policy_task()
DAP_TASK = make_dap_task(TASK)
OTHER = make_policy_task(2 * WINDOW_S)


class FixedTasks(RunningTasks):
    """Tasks that a test chooses."""

    def __init__(self, *tasks: TaskPolicy) -> None:
        self.tasks = {task.task_id: task for task in tasks}

    async def read(self, age_s: float) -> Mapping[str, TaskPolicy]:
        """Return them."""
        return self.tasks

    async def read_in(self, session: AsyncSession) -> Mapping[str, TaskPolicy]:
        """Return them."""
        return self.tasks


@dataclass
class Device:
    """An installation with a key for its enrollment."""

    installation: bytes
    vendor: Ed25519PrivateKey
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def enrollment(self, challenge: bytes, issuer: str = URL) -> EnrollmentRequest:
        """Return its request."""
        bare = EnrollmentRequest(challenge, self.key.public_key().public_bytes_raw(), b"")
        digest = bare.digest(issuer.encode())
        return replace(bare, evidence=make_software_evidence(self.vendor, self.installation, digest))

    def order(self, request: TokenRequest, time: int = TIME, task_id: bytes = DAP_TASK.task_id) -> TokenOrder:
        """Return its order."""
        return sign_order(self.key, URL.encode(), task_id, time, request)


@dataclass
class Desk:
    """An issuer over a database, with time by hand."""

    store: Store
    clock: ManualClock
    vendor: Ed25519PrivateKey
    tasks: FixedTasks

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what is in memory."""
        self.issuer = TokenIssuer(
            self.store,
            URL,
            SoftwareAttestor(self.vendor.public_key()),
            clock=self.clock,
            entropy=OsEntropy(),
            arithmetic=GmpArithmetic(),
            tasks=self.tasks,
        )

    async def enroll(self, name: str) -> Device:
        """Return a device that is enrolled."""
        device = Device(hashlib.sha256(name.encode()).digest(), self.vendor)
        await self.issuer.enroll(device.enrollment(await self.issuer.make_challenge()))
        return device

    async def request(self, time: int = TIME) -> PendingToken:
        """Return what a device keeps of a new token."""
        key = await self.issuer.find_key(DAP_TASK.task_id, time)
        return request_report_token(DAP_TASK, time, key, OsEntropy())[0]

    async def rows(self, table: type[EnrollmentRow] | type[IssuedTokenRow] | type[IssuerKeyRow]) -> int:
        """Return how many rows a table has."""
        async with self.store.read() as session:
            return int((await session.scalar(select(func.count()).select_from(table))) or 0)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An issuer at noon of the first window."""
    store = await Store.open(tmp_path / "alcove.db")
    clock = ManualClock(TIME * WINDOW_S + WINDOW_S // 2)
    yield Desk(store, clock, Ed25519PrivateKey.generate(), FixedTasks(TASK, OTHER))
    await store.close()


async def test_enrolled_device_gets_one_token_for_a_window_and_the_same_answer_again(desk: Desk) -> None:
    """The token is good for its task and window; the same request has the same answer, also after a restart."""
    device = await desk.enroll("a")
    pending = await desk.request()
    order = device.order(pending.request)
    answer = await desk.issuer.issue(DAP_TASK.task_id, TIME, order)
    key = await desk.issuer.find_key(DAP_TASK.task_id, TIME)
    verify_token(finish_token(pending, answer, key), make_report_challenge(DAP_TASK, TIME).digest, key)
    desk.restart()
    assert await desk.issuer.issue(DAP_TASK.task_id, TIME, order) == answer
    with pytest.raises(IssuanceRefusedError, match="request"):
        await desk.issuer.issue(DAP_TASK.task_id, TIME, device.order((await desk.request()).request))
    assert await desk.rows(IssuedTokenRow) == 1


async def test_installation_that_enrolls_again_has_no_second_token(desk: Desk) -> None:
    """A new key takes the place of the old one, and the claim is the installation's."""
    device = await desk.enroll("a")
    await desk.issuer.issue(DAP_TASK.task_id, TIME, device.order((await desk.request()).request))
    again = await desk.enroll("a")
    with pytest.raises(IssuanceRefusedError, match="request"):
        await desk.issuer.issue(DAP_TASK.task_id, TIME, again.order((await desk.request()).request))
    with pytest.raises(IssuanceRefusedError, match="enrollment"):
        await desk.issuer.issue(
            DAP_TASK.task_id, TIME + 1, device.order((await desk.request(TIME + 1)).request, TIME + 1)
        )
    assert await desk.rows(EnrollmentRow) == 1


async def test_evidence_and_challenge_are_checked(desk: Desk) -> None:
    """Another's statement, about another key, challenge or issuer; an old or made-up challenge; another's key."""
    challenge = await desk.issuer.make_challenge()
    device = Device(bytes(32), desk.vendor)
    good = device.enrollment(challenge)
    stranger = Device(bytes(32), Ed25519PrivateKey.generate()).enrollment(challenge)
    wrong = [
        stranger,
        replace(good, public_key=stranger.public_key),
        device.enrollment(challenge, "https://other.example/issuer"),
        replace(good, evidence=b""),
        replace(good, evidence=bytes(20_000)),
        *(device.enrollment(each) for each in (b"x", bytes(40), challenge[:-1])),
        *(device.enrollment(challenge[:at] + bytes([challenge[at] ^ 1]) + challenge[at + 1 :]) for at in range(40)),
    ]
    for request in wrong:
        with pytest.raises(IssuanceRefusedError, match=r"evidence|challenge"):
            await desk.issuer.enroll(request)
    for seconds in (-1, VALID_S + 1):
        desk.clock.time_s += seconds
        with pytest.raises(IssuanceRefusedError, match="challenge"):
            await desk.issuer.enroll(good)
        desk.clock.time_s -= seconds
    assert await desk.rows(EnrollmentRow) == 0
    await desk.issuer.enroll(good)
    await desk.issuer.enroll(good)
    taken_over = Device(b"\1" * 32, desk.vendor, device.key).enrollment(challenge)
    with pytest.raises(IssuanceRefusedError, match="public_key"):
        await desk.issuer.enroll(taken_over)
    assert await desk.rows(EnrollmentRow) == 1


async def test_order_that_is_not_of_its_device_task_window_and_key_claims_nothing(desk: Desk) -> None:
    """A stranger's, one for another task, window or key, or changed; the device's own still works."""
    device = await desk.enroll("a")
    pending = await desk.request()
    good = device.order(pending.request)
    stranger = Device(bytes(32), desk.vendor).order(pending.request)
    other_key = replace(pending.request, truncated_token_key_id=pending.request.truncated_token_key_id ^ 1)
    wrong = [
        stranger,
        replace(stranger, public_key=good.public_key),
        device.order(pending.request, TIME + 1),
        device.order(pending.request, task_id=bytes(32)),
        replace(good, request=(await desk.request()).request),
        device.order(other_key),
        device.order(replace(pending.request, blinded_message=b"\xff" * 256)),
    ]
    for order in wrong:
        with pytest.raises(IssuanceRefusedError, match=r"order|enrollment"):
            await desk.issuer.issue(DAP_TASK.task_id, TIME, order)
    assert await desk.rows(IssuedTokenRow) == 0
    await desk.issuer.issue(DAP_TASK.task_id, TIME, good)


async def test_tokens_are_made_for_running_tasks_of_this_issuer_and_windows_around_now(desk: Desk) -> None:
    """Nothing is made, or kept, for what a stranger names."""
    for time in (TIME - 1, TIME + 2, TIME + 1000, 0):  # the task begins at TIME
        with pytest.raises(IssuanceRefusedError, match="unknown_window"):
            await desk.issuer.find_key(DAP_TASK.task_id, time)
    elsewhere = make_policy_task(token_issuer="https://other.example/issuer")
    desk.tasks.tasks[elsewhere.task_id] = elsewhere
    bare = make_policy_task(token_issuer=None)
    desk.tasks.tasks[bare.task_id] = bare
    for task_id in (bytes(32), make_dap_task(elsewhere).task_id, make_dap_task(bare).task_id):
        with pytest.raises(IssuanceRefusedError, match="unknown_task"):
            await desk.issuer.find_key(task_id, TIME)
    del desk.tasks.tasks[TASK.task_id]
    with pytest.raises(IssuanceRefusedError, match="unknown_task"):
        await desk.issuer.find_key(DAP_TASK.task_id, TIME)
    assert await desk.rows(IssuerKeyRow) == 0


async def test_task_and_window_have_one_key_for_all(desk: Desk) -> None:
    """Several at once, after a restart, and at another server of the database; tasks and windows have others."""
    found = await asyncio.gather(*(desk.issuer.find_key(DAP_TASK.task_id, TIME) for _ in range(3)))
    desk.restart()
    found.append(await desk.issuer.find_key(DAP_TASK.task_id, TIME))
    assert len({key.encoded for key in found}) == 1
    others = [
        await desk.issuer.find_key(DAP_TASK.task_id, TIME + 1),
        await desk.issuer.find_key(make_dap_task(OTHER).task_id, TIME // 2),
    ]
    assert len({key.encoded for key in [*found, *others]}) == 3


async def test_private_key_of_a_window_that_is_over_is_emptied(desk: Desk) -> None:
    """A database that is stolen later makes no tokens for it; its public key is still known, and no other is made."""
    device = await desk.enroll("a")
    await desk.issuer.issue(DAP_TASK.task_id, TIME, device.order((await desk.request()).request))
    desk.clock.time_s += 2 * WINDOW_S
    await desk.issuer.find_key(DAP_TASK.task_id, TIME + 2)
    async with desk.store.read() as session:
        keys = {row.time: row.private_key for row in await session.scalars(select(IssuerKeyRow))}
    assert keys[TIME] == b""
    assert keys[TIME + 2] != b""
    assert await desk.rows(IssuedTokenRow) == 0
    desk.clock.time_s -= 2 * WINDOW_S  # a clock that is set back
    with pytest.raises(IssuanceRefusedError, match="unknown_window"):
        await desk.issuer.find_key(DAP_TASK.task_id, TIME)


async def test_task_that_runs_no_more_leaves_no_private_key_and_no_name(desk: Desk) -> None:
    """When the next key of any task is made; the public key is still known."""
    device = await desk.enroll("a")
    await desk.issuer.issue(DAP_TASK.task_id, TIME, device.order((await desk.request()).request))
    del desk.tasks.tasks[TASK.task_id]
    await desk.issuer.find_key(make_dap_task(OTHER).task_id, TIME // 2)
    async with desk.store.read() as session:
        keys = {row.task_id: row.private_key for row in await session.scalars(select(IssuerKeyRow))}
    assert keys.pop(DAP_TASK.task_id) == b""
    assert all(keys.values())
    assert await desk.rows(IssuedTokenRow) == 0


async def test_claim_that_is_lost_before_the_answer_is_answered_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that dies at any moment gives the device its token when it asks again, and no second one."""
    device = await desk.enroll("a")
    pending = await desk.request()
    order = device.order(pending.request)
    real = desk.store.write
    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "write", lambda: (_ for _ in ()).throw(StoreFullError("the disk", "is full")))
        with pytest.raises(StoreFullError):
            await desk.issuer.issue(DAP_TASK.task_id, TIME, order)
    assert desk.store.write == real
    with monkeypatch.context() as patch:
        patch.setattr("alcove.platform.issuer.issuer._answer", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            await desk.issuer.issue(DAP_TASK.task_id, TIME, order)
    desk.restart()
    answer = await desk.issuer.issue(DAP_TASK.task_id, TIME, order)
    finish_token(pending, answer, await desk.issuer.find_key(DAP_TASK.task_id, TIME))


async def test_busy_database_is_tried_again_for_a_while(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write of an enrollment and a token waits for the server's; in the end the device is sent away."""
    real, busy = desk.store.write, [0]

    def write() -> AbstractAsyncContextManager[AsyncSession]:
        busy[0] += 1
        if busy[0] % 3:
            raise StoreBusyError
        return real()

    monkeypatch.setattr(desk.store, "write", write)
    device = await desk.enroll("a")
    await desk.issuer.issue(DAP_TASK.task_id, TIME, device.order((await desk.request()).request))
    assert busy[0] == 3 * 4  # secret, enrollment, key, claim
    monkeypatch.setattr("alcove.platform.issuer.patience.BUSY_S", 0.0)
    busy[0] = 0
    with pytest.raises(StoreBusyError):
        await desk.enroll("b")


async def test_many_are_answered_at_once_as_one_by_one(desk: Desk) -> None:
    """In one transaction, each by itself: the enrolled ones, a stranger, and one who asks twice."""
    challenge = await desk.issuer.make_challenge()
    devices = [Device(hashlib.sha256(bytes([at])).digest(), desk.vendor) for at in range(5)]
    refused = Device(bytes(32), Ed25519PrivateKey.generate())
    found = await desk.issuer.enroll_many([each.enrollment(challenge) for each in (*devices, refused)])
    assert [each is None for each in found] == [True] * 5 + [False]
    pending = [await desk.request() for _ in range(7)]
    orders = [device.order(each.request) for device, each in zip([*devices, refused, devices[0]], pending, strict=True)]
    answers = await desk.issuer.issue_many(DAP_TASK.task_id, TIME, orders)
    key = await desk.issuer.find_key(DAP_TASK.task_id, TIME)
    for each, answer in zip(pending[:5], answers[:5], strict=True):
        assert not isinstance(answer, IssuanceRefusedError)
        finish_token(each, answer, key)
    assert [answer.reason for answer in answers[5:] if isinstance(answer, IssuanceRefusedError)] == [
        "enrollment",
        "request",
    ]


@pytest.mark.parametrize("modulus", [101 * 103, (1 << 2048) - 1942289], ids=["small", "large"])
def test_gmp_computes_as_python_does(modulus: int) -> None:
    """Powers and inverses, for small and large numbers."""
    gmp = GmpArithmetic()
    for number in (2, 3, 65537, modulus - 2):
        for exponent in (1, 65537, modulus - 1):
            assert gmp.power(number, exponent, modulus) == PYTHON.power(number, exponent, modulus)
            assert gmp.secret_power(number, exponent, modulus) == PYTHON.secret_power(number, exponent, modulus)
        assert gmp.invert(number, modulus) == PYTHON.invert(number, modulus)
        assert type(gmp.secret_power(number, 3, modulus)) is int
