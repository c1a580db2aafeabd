"""A device reads a tree, and keeps what it knew through network errors, damaged caches and wrong clocks; no socket."""

import json
from pathlib import Path

import pytest
from alcove.registry import layout
from alcove.registry._tuf import Metadata, Timestamp
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import ExpiredMetadataError, FetchError, MissingTargetError, SignatureError, StorageError
from alcove.registry.policy import FeaturePolicy, Halt, Policy
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.testing_seams import ManualClock
from tuf.api.exceptions import DownloadHTTPError

DAY_S = 86_400
TIMESTAMP = "metadata/timestamp.json"


def read_everything(client: RepositoryClient, version: str = "1.0.0") -> None:
    """What a device does at a check-in."""
    client.policy("messenger")
    client.manifest("language_id", version)


def test_device_reads_what_was_published(published_repository: RepositoryFixture) -> None:
    """Policy, manifest, and an empty halt where none was published."""
    client = published_repository.client()
    client.refresh()
    assert client.policy("messenger") == published_repository.policy(1)
    assert client.manifest("language_id", "1.0.0") == published_repository.package().manifest
    assert client.halt("messenger") == Halt(app="messenger", serial=0)
    with pytest.raises(MissingTargetError) as caught:
        client.manifest("language_id", "9.9.9")
    assert caught.value.path == "language_id/9.9.9.json"
    with pytest.raises(MissingTargetError):
        client.policy("keyboard")


def test_second_check_in_moves_only_the_timestamp(published_repository: RepositoryFixture) -> None:
    """Nothing is fetched twice, also by another process on the same folder."""
    client = published_repository.client()
    client.policy("messenger")
    client.manifest("language_id", "1.0.0")
    published_repository.fetcher.requests.clear()
    again = published_repository.client()
    assert again.policy("messenger") == published_repository.policy(1)
    again.manifest("language_id", "1.0.0")
    assert published_repository.fetcher.requests == ["metadata/2.root.json", TIMESTAMP]


def test_devices_ask_for_the_same_paths_whatever_they_are(published_repository: RepositoryFixture) -> None:
    """A request trace tells nothing about the device."""
    traces = []
    for name in ("one", "two"):
        published_repository.fetcher.requests.clear()
        client = published_repository.client(name)
        client.policy("messenger")
        client.manifest("language_id", "1.0.0")
        traces.append(list(published_repository.fetcher.requests))
    assert traces[0] == traces[1]


def test_stored_documents_answer_without_a_request(published_repository: RepositoryFixture) -> None:
    """What was accepted last, also in the next process; None before that and after damage."""
    assert published_repository.client().read_stored_policy("messenger") is None
    published_repository.tree.publish_halt(
        "messenger", Halt(app="messenger", serial=3, frozen=("language_id",)).to_bytes()
    )
    client = published_repository.client()
    client.policy("messenger")
    client.halt("messenger")
    published_repository.fetcher.failing = ConnectionError("no network")
    offline = published_repository.client()
    assert offline.read_stored_policy("messenger") == published_repository.policy(1)
    stored = offline.read_stored_halt("messenger")
    assert stored is not None
    assert stored.serial == 3
    for path in (published_repository.folder / "device" / "documents").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert offline.read_stored_policy("messenger") is None
    assert offline.read_stored_halt("messenger") is None


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "targets", "policy", "team-text"])
def test_expired_role_is_named(
    published_repository: RepositoryFixture, role: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each role in turn is the only one that has expired."""
    lifetimes = dict.fromkeys(layout.LIFETIMES_S, 1000 * DAY_S) | ({role: 2 * DAY_S} if role != "team-text" else {})
    monkeypatch.setattr(layout, "LIFETIMES_S", lifetimes)
    monkeypatch.setattr(layout, "TEAM_LIFETIME_S", 2 * DAY_S if role == "team-text" else 1000 * DAY_S)
    world = RepositoryFixture(tmp_path / "short")
    world.push(world.package())
    world.tree.publish_policy("messenger", world.policy(1).to_bytes())

    world.clock.time_s += 2 * DAY_S - 1
    read_everything(world.client("in time"))
    for now_s in (world.clock.time_s + 1, world.clock.time_s + 50 * DAY_S):
        world.clock.time_s = now_s
        for client in (world.client(f"new {now_s}"), world.client("in time")):
            with pytest.raises(ExpiredMetadataError) as caught:
                read_everything(client)
            assert caught.value.role == role
        assert not world.tree.check().is_sound


def test_expired_timestamp_stays_expired_but_a_newer_one_is_judged_again(
    published_repository: RepositoryFixture,
) -> None:
    """Turning the clock back revives nothing."""
    client = published_repository.client()
    client.refresh()
    published_repository.clock.time_s += DAY_S
    with pytest.raises(ExpiredMetadataError) as caught:
        client.refresh()
    assert (caught.value.role, caught.value.expired_at_s) == ("timestamp", published_repository.clock.time_s)
    published_repository.clock.time_s -= DAY_S // 2
    for again in (client, published_repository.client()):
        with pytest.raises(ExpiredMetadataError) as caught:
            again.policy("messenger")
        assert caught.value.role == "timestamp"
    published_repository.client("another device").refresh()
    published_repository.clock.time_s += 60
    published_repository.tree.refresh()
    client.refresh()
    assert client.policy("messenger").serial == 1


@pytest.mark.parametrize("jump_s", [10 * 365 * DAY_S, 2 * DAY_S, -10 * 365 * DAY_S])
def test_one_jump_of_the_clock_bricks_nothing(published_repository: RepositoryFixture, jump_s: int) -> None:
    """A wrong clock for one check-in; right again, the device follows the next timestamp."""
    clock = ManualClock(published_repository.clock.now_s())
    client = published_repository.client(clock=clock)
    client.refresh()
    clock.time_s += jump_s
    if jump_s > 0:
        with pytest.raises(ExpiredMetadataError):
            client.refresh()
    else:
        client.refresh()
    published_repository.clock.time_s += DAY_S // 2 + 1
    clock.time_s = published_repository.clock.time_s
    published_repository.tree.refresh()
    client.refresh()
    assert client.policy("messenger").serial == 1


def test_damaged_verdict_is_no_verdict(published_repository: RepositoryFixture) -> None:
    """Garbage in the file blocks nothing."""
    for garbage in (b"", b"{", b'{"timestamp":"x"}', b"[]", b'{"timestamp":null}', b"x" * 500):
        client = published_repository.client()
        client.refresh()
        (published_repository.folder / "device" / "expired.json").write_bytes(garbage)
        client.refresh()


def test_weather_is_a_fetch_error_and_what_was_known_stands(published_repository: RepositoryFixture) -> None:
    """HTTP errors, broken transfers, anything a fetcher may raise: before and in the middle of a transfer."""
    client = published_repository.client()
    client.policy("messenger")
    for error in (
        ConnectionResetError("gone"),
        TimeoutError("slow"),
        RuntimeError("strange"),
        DownloadHTTPError("no", 500),
    ):
        published_repository.fetcher.failing = error
        for again in (client, published_repository.client("new")):
            with pytest.raises(FetchError) as caught:
                again.refresh()
            assert caught.value.status == (500 if isinstance(error, DownloadHTTPError) else None)
        assert published_repository.client().read_stored_policy("messenger") == published_repository.policy(1)
    published_repository.fetcher.failing = None
    published_repository.fetcher.replaced[TIMESTAMP] = None
    with pytest.raises(FetchError) as caught:
        client.refresh()
    assert caught.value.status == 404
    published_repository.fetcher.replaced.clear()
    assert client.policy("messenger").serial == 1


def test_damaged_cache_is_fetched_again(published_repository: RepositoryFixture) -> None:
    """Each stored file truncated, garbled or deleted."""
    client = published_repository.client()
    client.policy("messenger")
    client.manifest("language_id", "1.0.0")
    client.halt("messenger")
    files = [path for path in (published_repository.folder / "device").rglob("*.json") if not path.is_symlink()]
    assert len(files) >= 8
    for path in files:
        whole = path.read_bytes()
        for damage in (b"", whole[: len(whole) // 2], b"\0" * len(whole), None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            again = published_repository.client()
            assert again.policy("messenger").serial == 1
            assert again.manifest("language_id", "1.0.0").version == "1.0.0"
            again.halt("messenger")


def test_folder_that_cannot_be_written_is_a_storage_error(published_repository: RepositoryFixture) -> None:
    """A file stands where the folder should be."""
    (published_repository.folder / "blocked").write_bytes(b"")
    with pytest.raises(StorageError):
        published_repository.client("blocked").refresh()
    client = published_repository.client("half blocked")
    client.refresh()
    (published_repository.folder / "half blocked" / "documents").write_bytes(b"")
    with pytest.raises(StorageError):
        client.policy("messenger")


def test_rotated_root_is_followed_and_remembered(published_repository: RepositoryFixture) -> None:
    """Root 2 names a new timestamp key; signed by root 1, the device follows, the old key is refused."""
    from alcove.registry._tuf import CryptoSigner, Root
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    client = published_repository.client()
    client.refresh()
    root: Metadata[Root] = Metadata.from_bytes(published_repository.tree.root_bytes())
    new_key = CryptoSigner(Ed25519PrivateKey.generate())
    root.signed.revoke_key(published_repository.keys.online.timestamp.public_key.keyid, "timestamp")
    root.signed.add_key(new_key.public_key, "timestamp")
    root.signed.version = 2
    root.sign(published_repository.keys.root)
    (published_repository.tree.folder / "metadata" / "2.root.json").write_bytes(root.to_bytes())
    with pytest.raises(SignatureError):
        client.refresh()
    timestamp: Metadata[Timestamp] = Metadata.from_bytes((published_repository.tree.folder / TIMESTAMP).read_bytes())
    timestamp.signed.version += 1
    timestamp.sign(new_key)
    (published_repository.tree.folder / TIMESTAMP).write_bytes(timestamp.to_bytes())
    client.refresh()
    assert client.policy("messenger").serial == 1
    assert published_repository.tree.check().is_sound
    assert json.loads(published_repository.tree.root_bytes())["signed"]["version"] == 2


def test_policy_below_nothing_signed_still_reads(published_repository: RepositoryFixture) -> None:
    """A policy of no feature is a policy: every feature stays on its baseline."""
    published_repository.tree.publish_policy("messenger", Policy(app="messenger", serial=2, features={}).to_bytes())
    assert published_repository.client().policy("messenger").features == {}
    assert FeaturePolicy.model_fields.keys() >= {"min_version", "default"}
