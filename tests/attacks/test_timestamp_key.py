"""The `timestamp` key alone: it freezes for as long as the snapshot lives, and new keys leave its numbers behind."""

from datetime import UTC, datetime

import pytest
from alcove.registry import layout
from alcove.registry._tuf import Metadata, Targets, Timestamp
from alcove.registry.errors import ExpiredMetadataError, RollbackError
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.testing import RepositoryFixture

from tests.attacks.attacker import DAY_S, SERVER, Attacker, possible, read_everything, replace_keys
from tests.sdk.conftest import Device


def test_timestamp_key_alone_freezes_and_no_more(published_repository: RepositoryFixture) -> None:
    """It forges, chooses and halts nothing."""
    assert possible(published_repository, ["timestamp"]) == {"freeze"}


@pytest.mark.parametrize("forwarded", ["timestamp", "snapshot", "policy", "halt"])
def test_fast_forward_attack_is_recovered_from_by_new_keys(
    published_repository: RepositoryFixture, forwarded: str
) -> None:
    """A thief of the server runs a number up to where none follows; new keys leave it behind, and devices follow."""
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    attacker = Attacker(
        published_repository, {role: getattr(published_repository.keys.online, role) for role in ONLINE_ROLES}
    )
    state = published_repository.tree.state()
    roles: dict[str, Targets] = {}
    if forwarded in ("policy", "halt"):
        roles[forwarded] = Targets(
            version=2**40, expires=attacker.expires, targets=dict(state.roles[forwarded].targets)
        )
    numbers = {role: 2**40 if role == forwarded else None for role in SERVER}
    attacker.publish(roles, snapshot=numbers["snapshot"], timestamp=numbers["timestamp"])
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    published_repository.fetcher.replaced = {}
    with pytest.raises(RollbackError):
        published_repository.client("device").refresh()
    replace_keys(published_repository, {"timestamp", "snapshot", forwarded})
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    published_repository.tree.publish_policy("messenger", published_repository.policy(2).to_bytes())
    assert read_everything(published_repository, "device")[0] == 2


def test_stolen_timestamp_key_freezes_for_as_long_as_the_snapshot_lives(
    published_repository: RepositoryFixture,
) -> None:
    """Seven days; a new key of the root's naming ends it at once."""
    attacker = Attacker(published_repository, {"timestamp": published_repository.keys.online.timestamp})
    attacker.publish({})
    published_repository.clock.time_s += layout.LIFETIMES_S["snapshot"] - 1
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    published_repository.clock.time_s += 1
    with pytest.raises(ExpiredMetadataError) as caught:
        read_everything(published_repository, "device")
    assert caught.value.role == "snapshot"
    published_repository.fetcher.replaced = {}
    replace_keys(published_repository, {"timestamp"})
    published_repository.tree.refresh()
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")


def sign_timestamp(device: Device, version: int, expires: datetime) -> None:
    """Have the mirror serve a timestamp of the thief's."""
    path = device.world.folder / "metadata" / "timestamp.json"
    metadata: Metadata[Timestamp] = Metadata.from_bytes(path.read_bytes())
    metadata.signed.version, metadata.signed.expires = version, expires
    metadata.sign(device.world.keyring.online.timestamp)
    path.write_bytes(metadata.to_bytes())


@pytest.mark.parametrize("off_s", [0, 1, DAY_S, 2 * DAY_S, 10 * DAY_S])
def test_last_date_that_there_is_stops_no_app(device: Device, unsynced: None, off_s: int) -> None:
    """The floor of the clock then is beyond every date, as a wall clock may be: a sync says so, and raises nothing."""
    sign_timestamp(device, 1000, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    client = device.client()
    assert client.sync().error is None
    device.clock.pass_s(off_s)
    for _ in range(2):
        assert isinstance(client.sync().error, ExpiredMetadataError)
        assert device.answer(client) == "one 1.0.0 default"
        client = device.client()


@pytest.mark.parametrize("version", [2**53, 2**62 - 1, 2**62, 2**200])
def test_number_beyond_what_is_kept_is_no_news_at_every_start(device: Device, unsynced: None, version: int) -> None:
    """The mirror repeats one timestamp: however the app starts and syncs, the time since it was heard grows."""
    client = device.client()
    assert client.sync().error is None
    sign_timestamp(device, version, datetime.fromtimestamp(device.clock.now_s() + DAY_S, UTC))
    assert client.sync().error is None
    for quarter in range(1, 4):
        device.clock.pass_s(DAY_S // 4)
        client.close()
        client = device.client()
        assert client.sync().error is None
        assert client._freshness.age_s is not None
        assert client._freshness.age_s >= quarter * DAY_S // 4
