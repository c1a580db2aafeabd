"""The whole path with the real runtime and real programs: push, sync, verify, predict, refuse and repair."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alcove.features.language_id import LanguageAnswer, LanguageId
from alcove.features.language_id.contract import program_path
from alcove.registry.blobs import open_blob_store
from alcove.registry.ceremony import initialize_repository
from alcove.registry.errors import ProgramRefusedError
from alcove.registry.keys import create_keys
from alcove.registry.package import create_package
from alcove.registry.policy import FeaturePolicy, Policy, VersionRef, policy_to_bytes
from alcove.registry.repository import Repository
from alcove.registry.team import sign_version
from alcove.runtime.errors import InputError, ProgramError
from alcove.sdk import AnswerError, Client, IntegrityError
from alcove.sdk.testing import FolderTransport, ManualClock

from tests.sdk.conftest import NOW, YEAR
from tests.sdk.test_predict_imports import NOT_LOADED, predict

BASELINE, UPDATE = "1.0.0", "4.1.0"


class Released:
    """A tree with both committed versions of language_id, and a policy that gives everybody the update."""

    def __init__(self, folder: Path) -> None:
        clock = ManualClock(NOW)
        keyring = create_keys(folder / "keys", teams={"text": ["language_id"]})
        self.folder = folder / "tree"
        initialize_repository(self.folder, keyring, {"text": ["language_id"]}, clock=clock)
        tree = Repository(self.folder, keys=keyring.online, blobs=open_blob_store(self.folder / "blobs"), clock=clock)
        refs = {}
        for version in (BASELINE, UPDATE):
            program = program_path(version).read_bytes()
            package = create_package(
                feature="language_id", team="text", version=version, programs={"int8": program}, card="# Card\n"
            )
            for sha256, data in package.blobs().items():
                tree.blobs.put(sha256, data)
            manifest = package.manifest
            signed = sign_version(tree.team_metadata("text"), manifest, keyring.teams["text"], NOW + YEAR)
            tree.accept_team_metadata(signed, {manifest.path: manifest.to_bytes()})
            refs[version] = VersionRef(version=version, manifest_sha256=manifest.sha256)
            self.blob = self.folder / "blobs" / manifest.variants[0].sha256
        rules = FeaturePolicy(min_version=BASELINE, default=refs[UPDATE])
        tree.publish_policy("reader", policy_to_bytes(Policy(app="reader", serial=1, features={"language_id": rules})))
        self.root = tree.root_bytes()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Released:
    """The released tree; a test that damages it repairs it."""
    return Released(tmp_path_factory.mktemp("native"))


@pytest.fixture
def client(template: Released, tmp_path: Path) -> Iterator[Client]:
    """A client that ships version 1.0.0 as its baseline."""
    with contextlib.closing(
        Client(
            "reader",
            tmp_path / "device",
            "http://127.0.0.1:1",
            template.root,
            baselines={"language_id": program_path(BASELINE)},
            clock=ManualClock(NOW),
            transport=FolderTransport(template.folder).connect,
        )
    ) as client:
        yield client


def test_typed_feature_answers_before_and_after_the_update(client: Client) -> None:
    """Real programs, real runtime: the baseline, then the version that the policy names, under one handle."""
    handle = client.feature(LanguageId)
    answer = handle.predict("Wo ist der Bahnhof?")
    assert (answer.version, answer.error) == ("baseline", None)
    assert isinstance(answer.value, LanguageAnswer)
    result = client.sync()
    assert result.error is None, result.error
    answer = handle.predict("Wo ist der Bahnhof?")
    assert (answer.version, answer.reason) == (UPDATE, "default")
    assert answer.value is not None
    assert answer.value.language == "de"
    french = handle.predict("Où est la gare, s'il vous plaît ?".encode())
    assert french.value is not None
    assert french.value.language == "fr"
    assert 0 < answer.latency_ms < 1000


def test_installed_version_answers_in_a_new_process_that_loads_numpy_alone(client: Client, tmp_path: Path) -> None:
    """What was verified at its installation is opened without what verified it."""
    assert client.sync().error is None
    version, reason, modules = predict("language_id", tmp_path / "device")
    assert (version, reason) == (UPDATE, "default")
    assert not modules & set(NOT_LOADED)


@pytest.mark.parametrize("text", [b"\xff", b"abc\xc3", "\udc80"])
def test_bad_text_is_an_error_code_and_wrong_use_raises(client: Client, text: str | bytes) -> None:
    """What the native runtime refuses comes out as the SDK promises it."""
    handle = client.feature("language_id")
    answer = handle.predict(text)
    assert (answer.value, answer.error) == (None, AnswerError.INVALID_TEXT)
    for inputs in ((), ("a", "b"), (1,), (["a"],)):
        with pytest.raises(InputError):
            handle.predict(*inputs)
    assert handle.predict("").error is None
    assert handle.predict("word " * 200_000).error is None


def test_threads_share_one_model(client: Client) -> None:
    """Predictions from many threads, and from a loop, agree with one alone, through a swap."""
    handle = client.feature("language_id")
    answered = {"baseline": threading.Event(), UPDATE: threading.Event()}
    stop = threading.Event()
    texts = ["Wo ist der Bahnhof?", "Where is the station?", "¿Dónde está la estación?"]
    wrong: list[Any] = []

    def predict() -> None:
        for turn in itertools.takewhile(lambda _: not stop.is_set(), itertools.count()):
            answer = handle.predict(texts[turn % 3])
            answered[answer.version].set()
            if answer.value is None or answer.value.language != ["de", "en", "es"][turn % 3]:
                wrong.append(answer)

    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    is_before_seen = answered["baseline"].wait(60)
    client.sync()
    is_after_seen = answered[UPDATE].wait(60)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert is_before_seen
    assert is_after_seen

    async def gather() -> list[Any]:
        return list(await asyncio.gather(*(handle.predict_async(text) for text in texts * 5)))

    assert [answer.value.language for answer in asyncio.run(gather())] == ["de", "en", "es"] * 5


def test_flipped_byte_of_a_real_program_is_refused(client: Client, template: Released) -> None:
    """The digest catches it before the runtime ever reads it."""
    data = template.blob.read_bytes()
    for position in range(0, len(data), len(data) // 7):
        template.blob.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert isinstance(client.sync().error, IntegrityError), position
        assert client.feature("language_id").predict("Guten Tag").version == "baseline"
    template.blob.write_bytes(data)
    assert client.sync().error is None
    assert client.feature("language_id").predict("Guten Tag").version == UPDATE


def test_weight_that_rotted_on_the_disk_is_repaired_under_the_same_handle(client: Client, tmp_path: Path) -> None:
    """A load cannot see it; the first sync of the next process does, and the open handle gets the repaired program."""
    client.sync()
    (program,) = (tmp_path / "device" / "versions").rglob("program.alc")
    data = program.read_bytes()
    program.chmod(0o600)
    program.write_bytes(data[:-5000] + bytes([data[-5000] ^ 0x40]) + data[-4999:])
    program.chmod(0o444)
    options: dict[str, Any] = {"clock": ManualClock(NOW), "transport": client._connection._make}
    with Client("reader", tmp_path / "device", client.server, client._synchronizer.trusted_root, **options) as later:
        handle = later.feature("language_id")
        assert handle.version == UPDATE
        model: Any = later._active_models.model_ref("language_id", None).active.model
        with pytest.raises(ProgramError):
            model.verify_weights()
        result = later.sync()
        assert (result.error, result.changed) == (None, ())
        repaired: Any = later._active_models.model_ref("language_id", None).active.model
        repaired.verify_weights()
        assert handle.predict("Guten Tag").version == UPDATE


def test_damaged_baseline_is_an_error_code(template: Released, tmp_path: Path) -> None:
    """Whatever bytes stand in a program's place: never a crash, an answer with a code."""
    data = bytearray(program_path(BASELINE).read_bytes())
    for position, value in ((0, b"NOPE"), (64, b"\xff" * 64), (200, b"\x00" * 200)):
        broken = data.copy()
        broken[position : position + len(value)] = value
        path = tmp_path / f"broken{position}.alc"
        path.write_bytes(broken)
        with Client(
            "reader", tmp_path / f"d{position}", "https://example.com", template.root, baselines={"language_id": path}
        ) as client:
            assert client.feature("language_id").predict("hi").error == AnswerError.NO_MODEL


def test_device_side_inspection_refuses_what_is_no_program() -> None:
    """The inspector that installs use is the publisher's own."""
    from alcove.sdk.engine import NativeEngine

    with pytest.raises(ProgramRefusedError):
        NativeEngine().verifier.inspect("int8", b"nonsense")
