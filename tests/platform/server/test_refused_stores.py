"""A server starts on its own database, its own blobs and its own TLS key, or says in a sentence why it does not."""

import json
import sqlite3
from pathlib import Path

import pytest
from alcove.platform.domain.errors import OtherStoreError, SchemaTooNewError, TlsFilesError
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.store import Store
from alcove.platform.store.note import NOTE, compare_stores, note_stores
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.certificates import Authority
from alcove.registry.blobs import ObjectBlobStore
from alcove.registry.errors import StorageError
from obstore.exceptions import GenericError

from tests.selection import quick_among

FEATURE = "text_00"


@pytest.fixture
def stopped(tmp_path: Path) -> ServerWorld:
    """A world with a published version, whose server has ended."""
    world = ServerWorld(tmp_path / "stopped", teams={"text": (FEATURE,)})
    served = world.start()
    with world.client(served, "team:text") as team:
        world.publish(team, FEATURE)
    assert served.stop() == 0
    return world


@pytest.fixture
def settings(stopped: ServerWorld) -> Settings:
    """Its settings, on free ports."""
    return Settings(data_dir=stopped.data_dir, online_keys=stopped.online_keys, grpc_port=0, http_port=0, only="grpc")


async def start(settings: Settings, **changes: object) -> None:
    """Start and stop a server."""
    async with run(Settings.model_validate(settings.model_dump() | changes)):
        pass


async def test_first_start_notes_its_stores_and_the_next_ones_compare(settings: Settings, tmp_path: Path) -> None:
    """Other blobs, or another database, stop the start; the message names both and how a move is made known."""
    note = settings.data_dir / NOTE
    assert json.loads(note.read_text()) == {"blobs": "tree/blobs", "database": "alcove.db"}
    (tmp_path / "others").mkdir()
    url = f"file://{tmp_path}/others"
    with pytest.raises(OtherStoreError, match=r"tree/blobs belongs .*, and file:.*others was given: see --blobs"):
        await start(settings, blobs=url)
    database = "postgresql://alcove:secret@127.0.0.1:1/alcove"
    with pytest.raises(
        OtherStoreError, match=r"alcove\.db belongs to this folder, and postgresql://127.0.0.1:1/alcove was given"
    ) as refusal:
        await start(settings, database_url=database)
    assert "secret" not in str(refusal.value)
    assert str(note) in str(refusal.value)
    await start(settings)


@pytest.mark.parametrize("place", quick_among(["here", "nowhere"], ["here"]))
async def test_blobs_that_hold_no_listed_version_stop_the_start(settings: Settings, tmp_path: Path, place: str) -> None:
    """Also where nothing was noted: an empty store, or none at all, is not the one that the versions were put in."""
    (settings.data_dir / NOTE).unlink()
    (tmp_path / "here").mkdir()
    with pytest.raises((OtherStoreError, StorageError)) as refusal:
        await start(settings, blobs=f"file://{tmp_path}/{place}")
    assert "--blobs" in str(refusal.value) or place in str(refusal.value)
    await start(settings)


def test_database_that_was_forgotten_takes_no_token(tmp_path: Path) -> None:
    """A token would lie in a file that no server reads."""
    note_stores(tmp_path, database="postgresql://alcove@db.internal:5432/alcove", blobs="s3://models/alcove/")
    with pytest.raises(
        OtherStoreError, match=r"postgresql://db\.internal:5432/alcove belongs to this folder, and alcove\.db was given"
    ):
        create_local_token(tmp_path, "operator")
    assert not (tmp_path / "alcove.db").exists()
    compare_stores(tmp_path, database="postgresql://x:y@db.internal:5432/alcove", blobs="s3://models/alcove")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"blobs": 1}'])
def test_damaged_note_stops_the_start(tmp_path: Path, text: str) -> None:
    """Nobody guesses which stores were meant."""
    (tmp_path / NOTE).write_text(text)
    with pytest.raises(OtherStoreError, match="repair or remove it"):
        compare_stores(tmp_path, database=tmp_path / "alcove.db")


async def test_database_of_a_newer_version_is_refused_in_a_sentence(settings: Settings) -> None:
    """What going back after an upgrade looks like: which schema it has, which one is known, and what to do."""
    with sqlite3.connect(settings.data_dir / "alcove.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNewError, match=r"a newer alcove has written it \(schema '9999', this one knows"):
        await start(settings)
    with pytest.raises(SchemaTooNewError):
        await Store.open(settings.data_dir / "alcove.db")


@pytest.mark.thorough
async def test_key_of_another_certificate_is_named(settings: Settings, tmp_path: Path) -> None:
    """Before any port is opened: no word of an address in use."""
    authority = Authority.create()
    one, other = authority.server(), authority.server()
    certificate, key = tmp_path / "server.pem", tmp_path / "client.key"
    certificate.write_bytes(one.certificate)
    key.write_bytes(other.key)
    key.chmod(0o600)
    with pytest.raises(TlsFilesError, match=r"client\.key: the key is not the certificate's"):
        await start(settings, tls_certificate=certificate, tls_key=key)
    key.write_bytes(b"no key")
    with pytest.raises(TlsFilesError, match="no PEM that TLS reads"):
        await start(settings, tls_certificate=certificate, tls_key=key)
    key.write_bytes(one.key)
    await start(settings, tls_certificate=certificate, tls_key=key)


class _Away:
    """A store that does not answer, with the words of obstore."""

    def head(self, _path: str) -> None:
        raise GenericError('Generic S3 error: no answer\n\nDebug source:\nGeneric {\n  store: "S3",\n}')


def test_store_that_does_not_answer_says_no_debug_text() -> None:
    """One line for people; what the library adds for its own developers is left out."""
    with pytest.raises(StorageError) as refusal:
        ObjectBlobStore(_Away()).has("0" * 64)  # type: ignore[arg-type]
    assert refusal.value.problem == "Generic S3 error: no answer"
