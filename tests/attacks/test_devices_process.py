"""Attack: somebody has taken over the process that reads what strangers send, and looks for keys in all it can see.

Before, that process was the server itself, with four keys that sign in its memory.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alcove.platform.ingress.serve import run_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.listening.http import listen_http
from alcove.platform.store import Store
from alcove.platform.store.reports import cell_counts
from alcove.platform.store.tables import IssuedTokenRow
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.ingress import ask, post, record, run_experiment
from alcove.platform.testing.postgres import PostgresMissingError, PostgresServer
from alcove.registry.keys import ONLINE_ROLES
from alcove.runtime.testing_seams import ManualClock
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.platform.issuer.test_issuer import DAP_TASK, TASK, TIME, WINDOW_S, Desk, FixedTasks

CHUNK_BYTES = 1 << 24
GRANTS = "docs/deploy/serving.md"


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of its own."""
    try:
        server = PostgresServer.start()
    except PostgresMissingError as missing:
        pytest.skip(str(missing))
    yield server
    server.stop()


def devices_pid(pid: int) -> int:
    """The process that answers devices, of a server's."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    (child,) = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return child


def found_in_memory(pid: int, secrets: dict[str, bytes]) -> set[str]:
    """Which secrets the memory of a process holds, whatever holds them there."""
    found = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            extent, rights, *rest = line.split()
            if not rights.startswith("rw") or rest[-1] in ("[vvar]", "[vsyscall]"):
                continue
            at, end = (int(part, 16) for part in extent.split("-"))
            tail = b""
            while at < end:
                try:
                    memory.seek(at)
                    data = memory.read(min(CHUNK_BYTES, end - at))
                except (OSError, OverflowError):
                    break
                if not data:
                    break
                found |= {name for name, secret in secrets.items() if secret in tail + data}
                tail, at = data[-64:], at + len(data)
    return found


def test_no_key_that_signs_is_in_its_memory_or_its_reach(tmp_path: Path) -> None:
    """Every byte that it may write is searched for the secret of each online key; the server's own memory has them."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    secrets = {}
    for role in ONLINE_ROLES:
        key = serialization.load_pem_private_key((world.online_keys / f"{role}.pem").read_bytes(), None)
        raw, no_encryption = serialization.Encoding.Raw, serialization.NoEncryption()
        secrets[role] = key.private_bytes(raw, serialization.PrivateFormat.Raw, no_encryption)
    assert all(len(secret) == 32 for secret in secrets.values())
    served = world.start()
    try:
        child = devices_pid(served.pid)
        try:
            in_server = found_in_memory(served.pid, secrets)
        except PermissionError:
            pytest.fail("this machine lets no process read another's memory: run the attack as root")
        assert in_server == set(ONLINE_ROLES)  # the search finds what is there
        assert found_in_memory(child, secrets) == set()
        opened = [os.fsdecode(link.readlink()) for link in Path(f"/proc/{child}/fd").iterdir()]
        assert not [path for path in opened if str(world.online_keys) in path or path.endswith("server.lock")]
        for name in ("cmdline", "environ"):
            content = Path(f"/proc/{child}/{name}").read_bytes()
            assert str(world.online_keys).encode() not in content
    finally:
        assert served.stop() == 0


async def test_a_role_of_its_own_adds_to_sums_and_changes_nothing_else(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """The grants that the document shows are enough to count reports, and for no token, audit entry or decision."""
    document = (Path(__file__).parents[2] / GRANTS).read_text(encoding="utf-8")
    grants = document.partition("```sql\n")[2].partition("```")[0]
    name = postgres.database()
    store = await Store.open(postgres.url(name))
    task = await run_experiment(store)
    with psycopg.connect(postgres.url(name), autocommit=True) as owner:
        for line in filter(None, grants.splitlines()):
            owner.execute(line.encode())
        tables = [row[0] for row in owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    url = f"postgresql://devices:secret@/{name}?host={postgres.folder}"
    (tmp_path / "tree").mkdir()
    settings = IngressSettings.model_validate({"data_dir": tmp_path, "database_url": url})
    with listen_http("127.0.0.1", 0) as listener:
        async with run_ingress(settings, listener) as ingress:
            status, _ = await ask(int(ingress.http_url.rpartition(":")[2]), post(record(task)))
    assert status == 204
    async with store.read() as session:
        assert sum(await cell_counts(session, task.task_id, task.cell_count)) == 1
    await store.close()
    with psycopg.connect(url, autocommit=True) as taken_over:
        for table in sorted({*tables} - {"report_counts"}):
            for change in (f"DELETE FROM {table}", f"INSERT INTO {table} DEFAULT VALUES", f"DROP TABLE {table}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    taken_over.execute(change.encode())
        for table in ("tokens", "audit", "requests", "publications"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                taken_over.execute(f"SELECT * FROM {table}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            taken_over.execute(b"DELETE FROM report_counts")


async def test_a_role_of_its_own_issues_tokens_by_the_grants_for_that(
    postgres: PostgresServer,
) -> None:
    """Those of the document's second block are enough, again after the keys of a window were emptied."""
    blocks = (Path(__file__).parents[2] / GRANTS).read_text(encoding="utf-8").split("```sql\n")[1:]
    name = postgres.database()
    await (await Store.open(postgres.url(name))).close()
    with psycopg.connect(postgres.url(name), autocommit=True) as owner:
        for block in blocks:
            for line in filter(None, block.partition("```")[0].splitlines()):
                owner.execute(line.encode())
    store = await Store.join(f"postgresql://devices:secret@/{name}?host={postgres.folder}")
    desk = Desk(store, ManualClock(TIME * WINDOW_S), Ed25519PrivateKey.generate(), FixedTasks(TASK))
    device = await desk.enroll("a")
    for time in (TIME, TIME + 1, TIME + 2):
        desk.clock.time_s = time * WINDOW_S
        pending = await desk.request(time)
        await desk.issuer.issue(DAP_TASK.task_id, time, device.order(pending.request, time))
    assert await desk.rows(IssuedTokenRow) == 2
    await store.close()
