"""Backups of a server's data: made while it runs, restored into an empty place, and sound there."""

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.cli.main import run
from alcove.platform.domain.errors import BackupError, OtherStoreError, RestoreRefusedError, StoreOccupiedError
from alcove.platform.domain.records import Page
from alcove.platform.services.backups import (
    BackupPlace,
    BackupRecord,
    ServerData,
    create_backup,
    open_place,
    restore_backup,
)
from alcove.platform.services.backups.place import PRUNE_AGE_S
from alcove.platform.services.publishing import audit_store
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.issuance import keep_secret
from alcove.platform.store.note import NOTE, note_stores
from alcove.platform.store.row_copies import compare_rows, count_rows
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.postgres import PostgresServer
from alcove.platform.testing.s3 import S3Server
from alcove.registry.errors import MissingTargetError
from alcove.runtime.clock import SYSTEM_CLOCK

from tests.selection import quick_every

FEATURE = "text_00"
PASSPHRASE = "sixteen characters at least"


def data_of(world: ServerWorld, blobs: str | None = None) -> ServerData:
    """Where the world's server keeps its data."""
    return ServerData(world.data_dir, world.online_keys, world.database, blobs)


def back_up(source: ServerData, place: BackupPlace) -> BackupRecord:
    """Make a backup; return its record."""
    return asyncio.run(create_backup(source, place, clock=SYSTEM_CLOCK)).record


def restore(place: BackupPlace, target: ServerData, record: BackupRecord | None = None) -> None:
    """Restore a backup, the newest by default."""
    asyncio.run(restore_backup(place, record or place.read_record(), target, clock=SYSTEM_CLOCK))


def check(data: ServerData) -> int:
    """Return the number of listed versions; rows, tree and blobs must be sound and agree."""

    async def work() -> int:
        store = await Store.open(data.location)
        try:
            report = await audit_store(store, data.open_tree())
        finally:
            await store.close()
        assert report.is_sound, report.problems
        return report.row_count

    return asyncio.run(work())


def have_same_rows(one: ServerData, other: ServerData) -> str | None:
    """Return the first table in which two databases differ; the restore's own line of the audit log is taken out."""

    async def work() -> str | None:
        stores = [await Store.open(data.location) for data in (one, other)]
        try:
            async with stores[0].read() as mine, stores[1].read() as others:
                counts = [await count_rows(session) for session in (mine, others)]
                assert counts[1].pop("audit") == counts[0].pop("audit") + 1
                assert counts[0] == counts[1]
                lines = await list_audit(others, Page(0, 1000))
                assert lines[-1].action == "restore backup"
                return await compare_rows(mine, others)
        finally:
            for store in stores:
                await store.close()

    return asyncio.run(work())


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """A server's data with one published version; no server runs."""
    made = ServerWorld(tmp_path_factory.mktemp("published") / "world", teams={"text": (FEATURE, "text_01")})
    publish(made, "1.0.0")
    return made


@pytest.fixture
def world(published: ServerWorld, tmp_path: Path) -> ServerWorld:
    """A copy of it, which the test may change."""
    return published.copy(tmp_path / "world")


def publish(world: ServerWorld, *versions: str) -> None:
    """Start a server, publish versions, and stop it."""
    served = world.start("--only", "grpc")
    try:
        with world.client(served, "team:text") as team:
            for version in versions:
                world.publish(team, FEATURE, version)
    finally:
        assert served.stop() == 0


def test_backup_restored_into_an_empty_place_is_sound_and_served(world: ServerWorld, tmp_path: Path) -> None:
    """Same rows, tree and blobs; a server starts on it with the old keys and publishes the next version."""
    place = open_place(str(tmp_path / "backups"))
    record = back_up(data_of(world), place)
    target = ServerData(tmp_path / "restored", world.online_keys)
    (target.data_dir / "lost+found").mkdir(parents=True)  # as a fresh volume has
    restore(place, target)
    assert check(target) == 1
    assert have_same_rows(data_of(world), target) == "audit"
    for path in record.files:
        assert (target.data_dir / "tree" / path).read_bytes() == (world.data_dir / "tree" / path).read_bytes()
    assert {path.name for path in target.data_dir.iterdir()} == {"alcove.db", "tree", "lost+found"}
    assert (target.data_dir / "alcove.db").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(world.data_dir)
    target.data_dir.rename(world.data_dir)
    publish(world, "2.0.0")
    assert check(data_of(world)) == 2


@pytest.mark.thorough
def test_second_backup_stores_only_what_changed(world: ServerWorld, tmp_path: Path) -> None:
    """Programs and cards are there; both backups can be restored."""
    place = open_place(str(tmp_path / "backups"))
    first = back_up(data_of(world), place)
    publish(world, "2.0.0")
    made = asyncio.run(create_backup(data_of(world), place, clock=SYSTEM_CLOCK))
    assert not set(first.blobs) - set(made.record.blobs)
    assert made.stored_bytes < made.record.size_bytes - sum(first.blobs.values())
    for record, count in ((first, 1), (made.record, 2)):
        target = ServerData(tmp_path / record.backup_id, tmp_path / "no-keys")
        restore(place, target, record)
        assert check(target) == count


@pytest.mark.thorough
def test_backups_made_while_versions_are_pushed_are_each_sound(tmp_path: Path) -> None:
    """Rows and tree of each are of one moment, whatever the server did meanwhile."""
    world = ServerWorld(tmp_path / "world", teams={"text": (FEATURE,)})
    served = world.start("--only", "grpc")
    place = open_place(str(tmp_path / "backups"))
    pushed = threading.Event()
    failures: list[BaseException] = []

    def push() -> None:
        try:
            with world.client(served, "team:text") as team:
                for number in range(1, 9):
                    world.publish(team, FEATURE, f"{number}.0.0")
                    pushed.set()
        except Exception as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)
            pushed.set()

    pusher = threading.Thread(target=push)
    pusher.start()
    records: list[BackupRecord] = []
    try:
        assert pushed.wait(120)
        while pusher.is_alive() or not records:
            records.append(back_up(data_of(world), place))
    finally:
        pusher.join()
        assert served.stop() == 0
    assert not failures
    counts = []
    for record in [records[0], records[len(records) // 2], records[-1]]:
        target = ServerData(tmp_path / "restored", tmp_path / "no-keys")
        restore(place, target, record)
        start_on(world, target, tmp_path / "keys")
        counts.append(check(target))
        assert counts[-1] - record.row_counts["versions"] in (0, 1)
        shutil.rmtree(target.data_dir)
    assert counts == sorted(counts)
    assert counts[0] >= 1


def start_on(world: ServerWorld, target: ServerData, keys: Path) -> None:
    """Start a server on restored data, with keys beside which no note lies, and end it.

    It lists a version that was published and whose row was not yet written, as after a crash.
    """
    if not keys.exists():
        shutil.copytree(world.online_keys, keys, ignore=shutil.ignore_patterns("published.json"))
    before = world.data_dir, world.online_keys
    world.data_dir, world.online_keys = target.data_dir, keys
    try:
        assert world.start("--only", "grpc").stop() == 0
    finally:
        world.data_dir, world.online_keys = before
        (keys / "published.json").unlink()


@pytest.mark.thorough
@pytest.mark.parametrize("direction", quick_every(["to PostgreSQL", "from PostgreSQL"], 2))
def test_rows_move_between_databases_with_blobs_in_buckets(
    direction: str, postgres: PostgresServer, s3: S3Server, tmp_path: Path
) -> None:
    """A backup of either database is restored into either; the backups themselves lie in a bucket."""
    url = postgres.url(postgres.database())
    blobs = f"{s3.bucket()}/blobs"
    is_to = direction == "to PostgreSQL"
    world = ServerWorld(
        tmp_path / "world", teams={"text": (FEATURE,)}, database=None if is_to else postgres.url(postgres.database())
    )
    served = world.start("--only", "grpc", *([] if is_to else ["--blobs", blobs]))
    with world.client(served, "team:text") as team:
        world.publish(team, FEATURE, "1.0.0")
    assert served.stop() == 0
    source = data_of(world, None if is_to else blobs)
    place = open_place(f"{s3.bucket()}/nightly")
    back_up(source, place)
    target = ServerData(
        tmp_path / "restored", tmp_path / "no-keys", url if is_to else None, f"{s3.bucket()}/b" if is_to else None
    )
    restore(place, target)
    assert check(target) == 1
    assert have_same_rows(source, target) == "audit"
    if is_to:  # new rows are numbered after those that came
        shutil.rmtree(world.data_dir / "tree")
        shutil.copytree(target.data_dir / "tree", world.data_dir / "tree")
        world.database = url
        (world.data_dir / NOTE).unlink()  # the rows were moved
        served = world.start("--only", "grpc", "--blobs", str(target.blobs))
        with world.client(served, "team:text") as team:
            world.publish(team, FEATURE, "2.0.0")
        assert served.stop() == 0


def test_secrets_of_tokens_stay_out(world: ServerWorld, tmp_path: Path) -> None:
    """The secret of challenges is in no byte of the backup; the server makes another."""
    secret = b"a secret of challenges, 32 bytes"

    async def add() -> None:
        store = await Store.open(world.data_dir / "alcove.db")
        async with store.write() as session:
            await keep_secret(session, "challenges", secret)
        await store.close()

    asyncio.run(add())
    place = open_place(str(tmp_path / "backups"))
    record = back_up(data_of(world), place)
    assert "issuer_secrets" not in record.row_counts
    target = ServerData(tmp_path / "restored", tmp_path / "no-keys")
    restore(place, target)
    assert secret not in (target.data_dir / "alcove.db").read_bytes()


def test_restore_refuses_other_data(world: ServerWorld, tmp_path: Path) -> None:
    """A folder or database that holds anything is left as it is."""
    place = open_place(str(tmp_path / "backups"))
    back_up(data_of(world), place)
    with pytest.raises(RestoreRefusedError, match="is restored into an empty folder"):
        restore(place, data_of(world))
    assert check(data_of(world)) == 1


def test_restore_refuses_a_database_with_rows(
    world: ServerWorld, postgres: PostgresServer, migrated: str, tmp_path: Path
) -> None:
    """One row is enough; nothing of the backup gets there."""
    place = open_place(str(tmp_path / "backups"))
    back_up(data_of(world), place)
    url = postgres.url(postgres.database(migrated))

    async def add() -> None:
        store = await Store.open(url)
        async with store.write() as session:
            await keep_secret(session, "challenges", b"x")
        await store.close()

    asyncio.run(add())
    with pytest.raises(StoreOccupiedError, match="holds 1 rows of issuer_secrets"):
        restore(place, ServerData(tmp_path / "restored", tmp_path / "no-keys", url))
    assert not (tmp_path / "restored" / "tree").exists()


@pytest.mark.thorough
def test_older_backup_is_refused_where_more_was_published(world: ServerWorld, tmp_path: Path) -> None:
    """The note beside the keys says so; accepted all the same, the server says what to do and does not start."""
    place = open_place(str(tmp_path / "backups"))
    old = back_up(data_of(world), place)
    publish(world, "2.0.0")
    shutil.rmtree(world.data_dir)
    with pytest.raises(RestoreRefusedError, match=r"was published from here as timestamp, and backup .* says"):
        restore(place, data_of(world), old)
    assert not world.data_dir.exists()
    asyncio.run(restore_backup(place, old, data_of(world), clock=SYSTEM_CLOCK, is_older_accepted=True))
    with pytest.raises(RuntimeError, match="restored from an old copy"):
        world.start("--only", "grpc")


@pytest.mark.parametrize("damage", ["flipped", pytest.param("gone", marks=pytest.mark.thorough)])
def test_damaged_backups_are_known(world: ServerWorld, tmp_path: Path, damage: str) -> None:
    """A flipped byte of any object, or of the record, or any object gone: an error that names it, and no tree."""
    place = open_place(str(tmp_path / "backups"))
    record = back_up(data_of(world), place)
    objects = tmp_path / "backups" / "objects"
    for number, sha256 in enumerate(sorted(record.digests())):
        whole = (objects / sha256).read_bytes()
        if damage == "gone":
            (objects / sha256).unlink()
        else:
            (objects / sha256).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(BackupError):
            restore(place, ServerData(tmp_path / f"restored {number}", tmp_path / "no-keys"))
        assert not (tmp_path / f"restored {number}" / "tree/metadata/timestamp.json").exists()
        (objects / sha256).write_bytes(whole)
    (path,) = (tmp_path / "backups" / "backups").iterdir()
    path.write_bytes(path.read_bytes().replace(b'"alcove"', b'"alcovE"'))
    with pytest.raises(BackupError, match="its record is not the one that was written"):
        place.read_record()


def test_server_that_lost_a_blob_is_not_backed_up_silently(world: ServerWorld, tmp_path: Path) -> None:
    """The blob is named, and there is no backup that lacks it."""
    blob = next(path for path in (world.data_dir / "tree/blobs").iterdir() if len(path.name) == 64)
    blob.unlink()
    place = open_place(str(tmp_path / "backups"))
    with pytest.raises(MissingTargetError, match=blob.name):
        back_up(data_of(world), place)
    assert place.list_ids() == []


def test_other_stores_than_the_folders_own_are_neither_backed_up_nor_migrated(
    world: ServerWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forgotten or mistaken option is named; a backup of the wrong blobs would be found out at the restore."""
    (world.data_dir / NOTE).unlink(missing_ok=True)
    note_stores(world.data_dir, database=data_of(world).location, blobs="s3://models/alcove")
    with pytest.raises(OtherStoreError, match="s3://models/alcove belongs to this folder, and tree/blobs was given"):
        back_up(data_of(world), open_place(str(tmp_path / "backups")))
    other = "postgresql://db.example/alcove"
    assert run(["server", "migrate", "--data-dir", str(world.data_dir), "--database", other]) == 1
    assert "alcove.db belongs to this folder" in capsys.readouterr().err


def test_backup_of_a_newer_schema_is_refused(world: ServerWorld, tmp_path: Path) -> None:
    """In one sentence that names the version which made it."""
    place = open_place(str(tmp_path / "backups"))
    record = back_up(data_of(world), place).model_copy(update={"schema_revision": "9999", "alcove": "9.0"})
    with pytest.raises(BackupError, match=r"alcove 9\.0 made it, with schema 9999: install that version or newer"):
        restore(place, ServerData(tmp_path / "restored", tmp_path / "no-keys"), record)
    assert not (tmp_path / "restored").exists()


@pytest.mark.thorough
def test_pruning_keeps_what_the_remaining_backups_need(world: ServerWorld, tmp_path: Path) -> None:
    """The newest restores whole; objects of the others go once they are a day old."""
    place = open_place(f"file://{tmp_path}/backups")
    old = back_up(data_of(world), place)
    publish(world, "2.0.0")
    new = back_up(data_of(world), place)
    later = SYSTEM_CLOCK.now_s() + PRUNE_AGE_S + 60
    assert place.prune(1, SYSTEM_CLOCK.now_s()) == ([old.backup_id], 0)
    removed, freed = place.prune(1, later)
    assert (removed, freed > 0) == ([], True)
    assert {blob.sha256 for blob in place.objects.list_blobs()} == new.digests()
    target = ServerData(tmp_path / "restored", tmp_path / "no-keys")
    restore(place, target)
    assert check(target) == 2


@pytest.fixture
def passphrase(tmp_path: Path) -> Path:
    """A file with a passphrase, for its owner alone."""
    path = tmp_path / "passphrase"
    path.touch(mode=0o600)
    path.write_text(PASSPHRASE + "\n", encoding="utf-8")
    return path


def test_commands_back_up_list_restore_and_prune(
    world: ServerWorld, passphrase: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the keys, encrypted: the restored ones are the same files, of mode 0600."""
    place, data, keys = str(tmp_path / "backups"), str(world.data_dir), str(world.online_keys)
    sealed = ["--keys", keys, "--passphrase-file", str(passphrase)]
    assert run(["server", "backup", place, "--data-dir", data, *sealed, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["has_keys"]
    secret = (world.online_keys / "timestamp.pem").read_bytes().splitlines()[1]
    assert not [path for path in (tmp_path / "backups").rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert run(["server", "backups", place]) == 0
    assert made["backup"] in capsys.readouterr().out
    restored = ["--data-dir", str(tmp_path / "r"), "--keys", str(tmp_path / "k"), "--passphrase-file", str(passphrase)]
    assert run(["server", "restore", place, *restored]) == 0
    output = capsys.readouterr()
    assert "nothing here says how far the server had published" in output.err
    for path in (tmp_path / "k").iterdir():
        assert path.read_bytes() == (world.online_keys / path.name).read_bytes()
        assert path.suffix != ".pem" or path.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in (tmp_path / "k").glob("*.pem")} == {
        path.name for path in world.online_keys.glob("*.pem")
    }
    assert run(["registry", "check", "--data-dir", str(tmp_path / "r")]) == 0
    assert run(["server", "prune", place, "--keep", "1", "--json"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--keys", "KEYS"], 2, "keys are backed up encrypted, or not at all"),
        (["--keys", "KEYS", "--passphrase-file", "SHORT"], 1, "at least 16 characters"),
        (["--keys", "KEYS", "--passphrase-file", "OPEN"], 1, "is open to others"),
    ],
)
def test_keys_are_refused_unencrypted(
    world: ServerWorld, capsys: pytest.CaptureFixture[str], options: list[str], code: int, words: str
) -> None:
    """Without a passphrase, with a short one, or with one that others read: no backup at all."""
    tmp_path = world.folder.parent
    for name, mode, text in (("SHORT", 0o600, "short"), ("OPEN", 0o644, PASSPHRASE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(mode)
    known = {"KEYS": str(world.online_keys), "SHORT": str(tmp_path / "SHORT"), "OPEN": str(tmp_path / "OPEN")}
    given = [known.get(option, option) for option in options]
    assert run(["server", "backup", str(tmp_path / "b"), "--data-dir", str(world.data_dir), *given]) == code
    assert words in capsys.readouterr().err
    assert not list((tmp_path / "b").rglob("*.json"))


def test_wrong_passphrase_restores_nothing(
    world: ServerWorld, passphrase: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence; the folder is not made."""
    place = str(tmp_path / "backups")
    sealed = ["--keys", str(world.online_keys), "--passphrase-file", str(passphrase)]
    assert run(["server", "backup", place, "--data-dir", str(world.data_dir), *sealed]) == 0
    passphrase.write_text("another passphrase, long enough", encoding="utf-8")
    options = ["--data-dir", str(tmp_path / "r"), "--passphrase-file", str(passphrase)]
    assert run(["server", "restore", place, *options]) == 1
    assert "the passphrase is another one" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files of a backup lie in the test's folder, and none is left."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    yield
    assert not list((tmp_path / "tmp").iterdir())
