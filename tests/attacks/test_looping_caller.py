"""A caller in a loop, and made-up tokens in a loop: others are answered, and the database is asked little."""

import asyncio
import threading

import pytest
from alcove.platform.auth.local import create_local_token
from alcove.platform.auth.principal import Role
from alcove.platform.auth.tokens import issue_token
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import ClientError
from alcove.platform.core.errors import TooManyCallsError
from alcove.platform.server.callers import CallerLimits
from alcove.platform.server.token_reads import AT_ONCE, TokenReads
from alcove.platform.store import Store
from alcove.platform.store.tokens import add_token
from alcove.platform.testing import Served, ServerWorld


def test_each_callers_rate_is_its_own() -> None:
    """However many loop, each has its bucket, and an empty one says when it has refilled."""
    now_s = [0.0]
    callers = CallerLimits(10, lambda: now_s[0])
    for name in map(str, range(100)):
        for _ in range(10):
            callers.take(name)
        with pytest.raises(TooManyCallsError) as refusal:
            callers.take(name)
        assert refusal.value.retry_after_s == pytest.approx(0.1)
    now_s[0] += 0.1
    callers.take("0")


async def test_made_up_tokens_share_their_queries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Four thousand at once cost some ten queries; the one that is real among them is found, and none is kept."""
    store = await Store.open(tmp_path_factory.mktemp("tokens") / "alcove.db")
    real = issue_token(Role.parse("operator"), now_s=0, lifetime_s=1000).record
    async with store.write() as session:
        await add_token(session, real)
    reads = TokenReads(store)
    asked = [f"{number:016x}" for number in range(4_000)]
    found = await asyncio.gather(*map(reads.record, asked), reads.record(real.token_id))
    assert found[-1] == real
    assert set(found[:-1]) == {None}
    assert reads.queries <= len(asked) // AT_ONCE + 2
    before = reads.queries
    assert await reads.record(real.token_id) == real
    assert reads.queries == before  # what there is, is remembered
    assert await reads.record(asked[0]) is None
    assert reads.queries == before + 1  # what there is not, is not: it may be issued
    await store.close()


@pytest.mark.attack
def test_loops_of_strangers_and_readers_leave_operators_their_answers(
    attacked: Served, server_world: ServerWorld
) -> None:
    """Four loops of made-up tokens and four of one reader, for twenty changes of an operator."""
    stop = threading.Event()
    reader, _ = create_local_token(server_world.data_dir, "reader")

    def loop(token: str) -> None:
        while not stop.is_set():
            with PlatformClient(attacked.grpc_address, token) as client:
                try:
                    while not stop.is_set():
                        client.layers("x")
                except ClientError:
                    continue

    tokens = [f"alc_{number:016x}_{'0' * 64}" for number in range(4)] + [reader] * 4
    threads = [threading.Thread(target=loop, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    try:
        with server_world.client(attacked, "operator") as operator:
            for share in range(20):
                assert operator.set_holdout("looped", share).share_permyriad == share
    finally:
        stop.set()
        for thread in threads:
            thread.join()
