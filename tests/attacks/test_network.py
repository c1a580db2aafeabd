"""The network, or a mirror: the attacks that the TUF papers name, each on a real tree.

Slow retrieval needs a socket: `tests/sdk/test_slow_retrieval.py`.
"""

import itertools
from functools import partial

import pytest
from alcove.registry import layout, limits
from alcove.registry.errors import (
    DocumentTooLargeError,
    ExpiredMetadataError,
    IntegrityError,
    RegistryError,
    RollbackError,
    WrongSubjectError,
)
from alcove.registry.policy import Halt, HaltedVersion
from alcove.registry.testing import RepositoryFixture

from tests.attacks.attacker import DAY_S, current_files, read_everything


def test_arbitrary_software_attack_is_refused(published_repository: RepositoryFixture) -> None:
    """Any file answered with a program, a manifest or metadata that nobody signed."""
    evil = published_repository.package("6.6.6").manifest
    for path in current_files(published_repository):
        if path.startswith("metadata/1.root"):
            continue  # never asked for: every device has it
        for data in (b"program", evil.to_bytes(), published_repository.tree.root_bytes()):
            published_repository.fetcher.replaced = {path: data}
            try:
                seen = read_everything(published_repository, f"{path} {len(data)}".replace("/", "_"))
            except RegistryError:
                continue
            assert seen == (1, 0, "1.0.0")  # a file of a state before: nobody asked for it
    published_repository.fetcher.replaced = {}


def test_rollback_attack_is_refused(published_repository: RepositoryFixture) -> None:
    """Every older state of the tree, whole and properly signed, after a newer one was seen."""
    states = [current_files(published_repository)]
    for version in ("2.0.0", "3.0.0"):
        published_repository.push(published_repository.package(version))
        serial = int(version[0])
        published_repository.tree.publish_policy("messenger", published_repository.policy(serial, version).to_bytes())
        states.append(current_files(published_repository))
    assert read_everything(published_repository, "device")[0] == 3
    for old in states[:-1]:
        published_repository.fetcher.replaced = dict(old)
        with pytest.raises(RollbackError):
            read_everything(published_repository, "device")
    published_repository.fetcher.replaced = {}
    assert read_everything(published_repository, "device")[0] == 3


def test_indefinite_freeze_attack_ends_with_the_timestamp(published_repository: RepositoryFixture) -> None:
    """A mirror that keeps serving an old state hides a halt for a day and not longer; then it is named."""
    old = current_files(published_repository)
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    ref = published_repository.policy(1).features["language_id"].default
    halt = Halt(app="messenger", serial=1, halted=(HaltedVersion(feature="language_id", version=ref),))
    published_repository.tree.publish_halt("messenger", halt.to_bytes())
    published_repository.fetcher.replaced = dict(old)
    published_repository.clock.time_s += layout.LIFETIMES_S["timestamp"] - 1
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    for later_s in (1, DAY_S, 100 * DAY_S):
        published_repository.clock.time_s += later_s
        for name in ("device", f"new device {later_s}"):
            with pytest.raises(ExpiredMetadataError) as caught:
                read_everything(published_repository, name)
            assert caught.value.role == "timestamp"
    published_repository.clock.time_s -= 200 * DAY_S
    with pytest.raises(ExpiredMetadataError):
        read_everything(published_repository, "device")  # nor does a clock that is set back revive it


def test_endless_data_attack_is_cut_off(published_repository: RepositoryFixture) -> None:
    """Every file that a device asks for, answered without end: no more than its bound is read."""
    read_everything(published_repository, "control")
    asked = {path for path in published_repository.fetcher.requests if not path.endswith("2.root.json")}
    bounds = {
        "timestamp": limits.TIMESTAMP_METADATA_MAX_BYTES,
        "snapshot": limits.SNAPSHOT_METADATA_MAX_BYTES,
    }
    assert len(asked) >= 7
    for path in {*asked, "metadata/2.root.json"}:
        role = path.removesuffix(".json").rpartition("/")[2].rpartition(".")[2]
        signed_bytes = limits.ROOT_METADATA_MAX_BYTES if role == "root" else limits.TARGETS_METADATA_MAX_BYTES
        bound = bounds.get(role, signed_bytes)
        published_repository.fetcher.replaced = {path: b" " * (bound + 100_000)}
        with pytest.raises((DocumentTooLargeError, RegistryError)) as caught:
            read_everything(published_repository, path.replace("/", "_"))
        if isinstance(caught.value, DocumentTooLargeError):
            assert caught.value.size_bytes <= bound + 4096
    published_repository.fetcher.replaced = {}


def test_extraneous_dependencies_attack_has_nothing_to_add_to(published_repository: RepositoryFixture) -> None:
    """A version names its own files by digest and no other package: a device asks for these paths and no more.

    A manifest that names one file more is another manifest, which nobody signed.
    """
    manifest = published_repository.package().manifest
    read_everything(published_repository, "device")
    documents = [path for path in published_repository.fetcher.requests if path.startswith("targets/")]
    assert sorted(path.split("/")[1] for path in documents) == ["language_id", "policy"]
    assert layout.target_file(manifest.path, manifest.sha256) in documents
    another = manifest.variants[0].model_copy(update={"name": "evil"})
    wider = manifest.model_copy(update={"variants": (*manifest.variants, another)})
    published_repository.fetcher.replaced = {layout.target_file(manifest.path, manifest.sha256): wider.to_bytes()}
    with pytest.raises((IntegrityError, DocumentTooLargeError)):
        read_everything(published_repository, "new device")


def test_mix_and_match_attack_is_refused(published_repository: RepositoryFixture) -> None:
    """Every choice of old and new files of one role after another, each validly signed: one whole state or none."""
    old_state = published_repository.tree.state()
    old = current_files(published_repository)
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_policy("messenger", published_repository.policy(2, "2.0.0").to_bytes())
    published_repository.tree.publish_halt("messenger", Halt(app="messenger", serial=1).to_bytes())
    state = published_repository.tree.state()
    swaps = {}
    for role in ("policy", "halt", "team-text"):
        new_path = layout.metadata_file(role, state.roles[role].version)
        swaps[new_path] = old[layout.metadata_file(role, old_state.roles[role].version)]
    swaps[layout.metadata_file("snapshot", state.snapshot.version)] = old[
        layout.metadata_file("snapshot", old_state.snapshot.version)
    ]
    for count in range(1, len(swaps) + 1):
        for chosen in itertools.combinations(sorted(swaps), count):
            published_repository.fetcher.replaced = {path: swaps[path] for path in chosen}
            with pytest.raises((IntegrityError, RollbackError)):
                read_everything(published_repository, f"device {chosen}".replace("/", "_")[:200])
    published_repository.fetcher.replaced = {}
    assert read_everything(published_repository, "device") == (2, 1, "2.0.0")


def test_wrong_software_attack_is_refused(published_repository: RepositoryFixture) -> None:
    """What was signed for one place, served or even signed in another: another version, feature, app or kind."""
    published_repository.push(published_repository.package("2.0.0"))
    first, second = published_repository.package("1.0.0").manifest, published_repository.package("2.0.0").manifest
    published_repository.fetcher.replaced = {layout.target_file(first.path, first.sha256): second.to_bytes()}
    with pytest.raises((IntegrityError, DocumentTooLargeError)):
        published_repository.client("served").manifest("language_id", "1.0.0")
    published_repository.fetcher.replaced = {}
    for role, path, data in (
        ("team-text", "language_id/1.0.0.json", second.to_bytes()),
        ("policy", "policy/keyboard.json", published_repository.policy(1).to_bytes()),
        ("halt", "halt/keyboard.json", Halt(app="messenger", serial=1).to_bytes()),
    ):
        published_repository.misuse(role, {path: data})
        client = published_repository.client(f"signed {role}")
        read = partial(client.manifest, "language_id", "1.0.0")
        with pytest.raises(WrongSubjectError):
            read() if role == "team-text" else getattr(client, role)("keyboard")


def test_malicious_mirror_costs_nothing_but_time(published_repository: RepositoryFixture) -> None:
    """A mirror that lies about every file in every way, then an honest one: the device is where it would be anyway."""
    before = read_everything(published_repository, "device")
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_policy("messenger", published_repository.policy(2, "2.0.0").to_bytes())
    for path in current_files(published_repository):
        whole = (published_repository.tree.folder / path).read_bytes()
        for lie in (None, b"", whole[: len(whole) // 2], whole[::-1], b"{}", whole + whole):
            published_repository.fetcher.replaced = {path: lie}
            try:
                seen = read_everything(published_repository, "device")
            except RegistryError:
                continue
            assert seen in (before, (2, 0, "2.0.0"))
    published_repository.fetcher.replaced = {}
    assert read_everything(published_repository, "device") == (2, 0, "2.0.0")
