"""Two server processes on one PostgreSQL and one tree: nothing is lost, nothing is there twice."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alcove.platform.client import ConflictError, FailedPreconditionError, FeatureRules, push_package
from alcove.platform.domain.errors import DataFolderBusyError, StoreBusyError
from alcove.platform.server.settings import Settings
from alcove.platform.server.startup_checks import hold_data_folder
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.services.publishing import LockedDisk, RepositoryLock
from alcove.platform.store import Store, dialects
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.postgres import PostgresServer
from alcove.registry import program_verification
from alcove.registry.errors import StorageError
from alcove.registry.repository import Repository
from alcove.registry.testing import FakeVerifier, RepositoryFixture
from pydantic import SecretStr

TEAMS = {"text": tuple(f"text_{n:02d}" for n in range(8)), "speech": tuple(f"speech_{n:02d}" for n in range(8))}


@pytest.fixture(autouse=True)
def pretended_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, too, takes pretended programs for real ones."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)


@pytest.fixture
def shared(tmp_path: Path, postgres: PostgresServer, migrated: str) -> ServerWorld:
    """A world whose servers share a database."""
    return ServerWorld(tmp_path / "several", teams=TEAMS, database=postgres.url(postgres.database(migrated)))


@pytest.fixture
def pair(shared: ServerWorld) -> Iterator[tuple[Served, Served]]:
    """Two server processes of it."""
    servers = [shared.start("--only", "grpc")]
    try:
        servers.append(shared.start("--only", "grpc"))
        yield servers[0], servers[1]
    finally:
        codes = [server.stop() for server in servers]
    assert codes == [0] * len(codes)


def persistently(push: Callable[[], object]) -> int:
    """Push until the team's metadata was signed on top of the current one; return how often it was not."""
    for conflicts in itertools.count():
        try:
            push()
        except (ConflictError, FailedPreconditionError):  # its version is taken, or it lacks what came meanwhile
            continue
        return conflicts
    raise AssertionError


def test_two_servers_that_publish_at_once_lose_nothing_and_list_nothing_twice(
    shared: ServerWorld, pair: tuple[Served, Served], postgres: PostgresServer
) -> None:
    """Two teams push through both servers while apps are rolled out: every version is in the tree and in the rows."""
    wanted = [(feature, f"1.0.{patch}") for features in TEAMS.values() for feature in features[:3] for patch in (0, 1)]

    def push(number: int, feature: str, version: str) -> None:
        team = feature.partition("_")[0]
        with shared.client(pair[number % 2], f"team:{team}") as client:
            package = shared.package(feature, version)
            persistently(lambda: push_package(client, package, shared.keys.teams[team]))

    for role in ("team:text", "team:speech", "operator"):
        shared.token(role)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda item: push(item[0], *item[1]), enumerate(wanted)))
        clients = [shared.client(server, "operator") for server in pair]

        def roll_out(number: int) -> None:
            one, other = clients[number % 2], clients[(number + 1) % 2]
            one.set_rules(wanted[number][0], FeatureRules(accepts_any_state=True))
            rollout = one.create_rollout(f"app-{number % 3}", wanted[number][0], "1.0.0")
            other.advance_rollout(rollout.rollout_id, 10_000, override_reason="test")

        firsts = [number for number, (_, version) in enumerate(wanted) if version == "1.0.0"]
        list(pool.map(roll_out, firsts))
    assert shared.tree.check().is_sound
    for feature, version in wanted:
        assert shared.tree.manifest(feature, version).version == version
    for client in clients:
        listed = Counter((version.feature, version.version) for version in client.versions())
        assert listed == Counter(wanted)
        client.close()
    runs: Counter[str] = Counter()
    for app in ("app-0", "app-1", "app-2"):
        policy = shared.tree.policy(app)
        assert policy is not None
        runs.update(list(policy.features))
    assert runs == Counter(wanted[number][0] for number in firsts)
    entries = list_local_audit(shared.data_dir, database=shared.database)
    audited = Counter(entry.subject for entry in entries if entry.action == "publish version")
    assert audited == Counter(f"{feature} {version}" for feature, version in wanted)
    for server in pair:
        assert postgres.password not in server.log.read_text()


@pytest.mark.thorough
def test_a_killed_server_leaves_the_other_one_free_to_publish(shared: ServerWorld) -> None:
    """Kill -9 while it publishes: its lock goes with its connection, and the other server carries on at once."""
    first, second = shared.start("--only", "grpc"), shared.start("--only", "grpc")
    package = shared.package("text_00")
    with shared.client(first, "team:text") as team, ThreadPoolExecutor(1) as pool:
        pending = pool.submit(push_package, team, package, shared.keys.teams["text"])
        first.kill()
        assert pending.exception() is not None or pending.result() is not None
    with shared.client(second, "team:text") as team:
        push_package(team, package, shared.keys.teams["text"])
        assert [found.version for found in team.versions("text_00")] == ["1.0.0"]
    assert second.stop() == 0


def test_a_server_with_a_database_of_its_own_is_kept_out(shared: ServerWorld) -> None:
    """Servers of one database share the data folder; one with the folder's own file does not join them."""
    keys = shared.online_keys
    url = SecretStr(shared.database or "")
    several = Settings(data_dir=shared.data_dir, online_keys=keys, database_url=url)
    alone = Settings(data_dir=shared.data_dir, online_keys=keys)
    assert url.get_secret_value() not in f"{several} {several!r}"
    with hold_data_folder(several), hold_data_folder(several), pytest.raises(DataFolderBusyError):
        hold_data_folder(alone).__enter__()
    with hold_data_folder(alone), pytest.raises(DataFolderBusyError):
        hold_data_folder(several).__enter__()


@pytest.fixture
async def two(shared: ServerWorld) -> AsyncIterator[list[Store]]:
    """Two servers' stores."""
    stores = [await Store.open(shared.database or "") for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


async def test_only_one_server_holds_the_tree(two: list[Store]) -> None:
    """The second waits; tasks of one server wait for each other; one that waits in vain is refused."""
    locks = [RepositoryLock(store) for store in two]
    inside = 0

    async def enter(lock: RepositoryLock) -> None:
        nonlocal inside
        async with lock:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(enter(lock) for lock in locks for _ in range(5)))
    async with locks[0]:
        waiting = asyncio.create_task(enter(locks[1]))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    await waiting


async def test_a_waiting_server_gives_up_in_time(shared: ServerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """UNAVAILABLE, and the lock is free for the next who asks."""
    monkeypatch.setattr(dialects, "BUSY_TIMEOUT_MS", 50)
    stores = [await Store.open(shared.database or "") for _ in range(2)]
    locks = [RepositoryLock(store) for store in stores]
    async with locks[0]:
        for _ in range(2):
            with pytest.raises(StoreBusyError):
                await locks[1].__aenter__()
    async with locks[1]:
        pass
    for store in stores:
        await store.close()


async def test_who_has_lost_the_lock_writes_nothing_more(
    tmp_path: Path, two: list[Store], postgres: PostgresServer
) -> None:
    """The connection breaks at each step of a publication in turn: what was published by then stands, nothing else."""
    world = await asyncio.to_thread(RepositoryFixture, tmp_path / "tree")
    await asyncio.to_thread(world.push, world.package())
    lock = RepositoryLock(two[0])

    class Breaking(LockedDisk):
        """Loses the connection before its nth question."""

        steps = 0

        def _step(self) -> None:
            if self.steps == break_at:
                postgres.end_connections()
            self.steps += 1

        def write(self, path: Path, data: bytes) -> None:
            self._step()
            super().write(path, data)

        def rename(self, source: Path, target: Path) -> None:
            self._step()
            super().rename(source, target)

    for break_at in range(20):
        serial = break_at + 1
        tree = Repository(world.tree.folder, keys=world.keys.online, clock=world.clock, files=Breaking(lock))
        before = world.tree.state().timestamp.version
        refused: StorageError | None = None
        try:
            async with lock:
                await asyncio.to_thread(tree.publish_policy, "messenger", world.policy(serial).to_bytes())
        except StorageError as error:
            refused = error
        if refused is None:
            break
        assert "lock is lost" in str(refused)
        assert world.tree.state().timestamp.version == before
        # The other server publishes at once, and is not disturbed by what the first one left.
        other = RepositoryLock(two[1])
        tree = Repository(world.tree.folder, keys=world.keys.online, clock=world.clock, files=LockedDisk(other))
        async with other:
            await asyncio.to_thread(tree.publish_policy, "messenger", world.policy(serial).to_bytes())
        assert world.tree.check().is_sound
    assert break_at == 2 * 4  # target, role, snapshot, timestamp: a write and a rename each


async def test_without_the_lock_nothing_is_written(tmp_path: Path, two: list[Store]) -> None:
    """A caller that forgot to take it is refused."""
    world = await asyncio.to_thread(RepositoryFixture, tmp_path / "tree")
    await asyncio.to_thread(world.push, world.package())
    tree = Repository(
        world.tree.folder, keys=world.keys.online, clock=world.clock, files=LockedDisk(RepositoryLock(two[0]))
    )
    with pytest.raises(StorageError, match="not held"):
        await asyncio.to_thread(tree.publish_policy, "messenger", world.policy(1).to_bytes())
