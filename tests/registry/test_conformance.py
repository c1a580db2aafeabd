"""Our client follows the TUF specification: updates, rollback, expiry, thresholds, key rotation and recovery.

The scenarios are those of the public conformance suite for TUF clients (tuf-conformance), repeated over our own
simulator, because that suite is in no package index: where somebody has installed it, the last test runs it whole.
None is expected to fail.  Delegations, quoting and downloads are in `test_conformance_targets.py`.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from alcove.registry._tuf import CryptoSigner, Key, Metadata, MetaFile, Timestamp

from tests.registry import conformance_client
from tests.registry.simulator import DAY_S, TOP, Repository, Subject, serve

FRESH = dict.fromkeys(TOP, 1)


@pytest.fixture
def repository() -> Repository:
    """A repository with version 1 of each top role."""
    return Repository()


@pytest.fixture
def client(repository: Repository, tmp_path: Path) -> Iterator[Subject]:
    """A client that began with the repository's first root."""
    with serve(repository) as url:
        subject = Subject(tmp_path, url, repository)
        assert subject.init() == 0
        yield subject


# --- the workflow


def test_refresh_asks_for_each_top_role_once_in_order(client: Subject, repository: Repository) -> None:
    """Root until there is none newer, then timestamp, snapshot, targets; the second time the timestamp alone."""
    assert client.refresh() == 0
    assert repository.requests == [("root", 2), ("timestamp", None), ("snapshot", 1), ("targets", 1)]
    assert client.versions() == FRESH
    repository.requests.clear()
    assert client.refresh() == 0
    assert repository.requests == [("root", 2), ("timestamp", None)]


def test_download_refreshes_first_even_where_there_is_no_such_target(client: Subject, repository: Repository) -> None:
    """A missing target is a refusal, and the metadata is new all the same."""
    assert client.download("nonexistent artifact") == 1
    assert repository.requests == [("root", 2), ("timestamp", None), ("snapshot", 1), ("targets", 1)]
    assert client.versions() == FRESH


@pytest.mark.parametrize("damage", ["no version", "another signature", "no JSON"])
def test_initial_root_that_is_wrong_asks_for_nothing(damage: str, repository: Repository, tmp_path: Path) -> None:
    """Whatever is wrong with the root that the app carries, no request is made."""
    root = json.loads(repository.served["metadata/1.root.json"])
    if damage == "no version":
        del root["signed"]["version"]
    elif damage == "another signature":
        root["signatures"][0]["sig"] = "ab" * 64
    data = b"{" if damage == "no JSON" else json.dumps(root).encode()
    with serve(repository) as url:
        subject = Subject(tmp_path, url, repository)
        subject.init(data)
        assert subject.refresh() == 1
    assert repository.requests == []


def test_unknown_fields_are_signed_content_like_any_other(client: Subject, repository: Repository) -> None:
    """Fields that no specification names count in signatures and are kept."""
    assert client.refresh() == 0
    root = repository.root
    root.unrecognized_fields["field"] = "value"
    root.keys[root.roles["root"].keyids[0]].unrecognized_fields["extra"] = {"a": 1}
    root.roles["root"].unrecognized_fields["another"] = "value"
    repository.publish("root")
    assert client.refresh() == 0
    assert client.versions()["root"] == 2
    assert (client.metadata / "root.json").read_bytes() == repository.served["metadata/2.root.json"]


def test_stored_metadata_is_what_was_served_byte_for_byte(client: Subject, repository: Repository) -> None:
    """Also where it is written in another way than ours."""
    for role in TOP[1:]:
        place = repository.place(role)
        repository.served[place] = json.dumps(json.loads(repository.served[place]), indent=5).encode()
    assert client.refresh() == 0
    for role in TOP[1:]:
        assert (client.metadata / f"{role}.json").read_bytes() == repository.served[repository.place(role)], role


@pytest.mark.parametrize("role", TOP[1:])
@pytest.mark.parametrize("damage", ["signature", "type", "JSON", "too long", "gone"])
def test_role_that_is_wrong_in_any_way_is_not_stored(
    damage: str, role: str, client: Subject, repository: Repository
) -> None:
    """Damaged, mistaken for another, beyond its bound or missing: what was trusted before stands, then it heals."""
    assert client.refresh() == 0
    repository.publish_all("targets")
    place = repository.place(role)
    good = repository.served.pop(place)
    document = json.loads(good)
    if damage == "signature":
        document["signatures"][0]["sig"] = "00" * 64
    elif damage == "type":
        document["signed"]["_type"] = "mirrors"
    if damage == "too long":
        repository.served[place] = good + b" " * 2_000_000
    elif damage != "gone":
        repository.served[place] = b"{" if damage == "JSON" else json.dumps(document).encode()
    assert client.refresh() == 1
    stands = TOP[TOP.index(role) :]
    assert {name: client.versions()[name] for name in stands} == dict.fromkeys(stands, 1)
    repository.served[place] = good
    assert client.refresh() == 0
    assert client.versions() == {**dict.fromkeys(TOP, 2), "root": 1}


def test_damaged_store_is_read_again(client: Subject, repository: Repository) -> None:
    """A file of the client's own that is torn is fetched again, whichever it is."""
    assert client.refresh() == 0
    for role in TOP[1:]:
        file = client.metadata / f"{role}.json"
        file.write_bytes(file.read_bytes()[:-20])
        assert client.refresh() == 0, role
        assert client.versions() == FRESH


# --- the same version again, or another one than was named


def test_timestamp_of_the_same_version_changes_nothing(client: Subject, repository: Repository) -> None:
    """Other content under a version that is known is left alone."""
    assert client.refresh() == 0
    repository.roles["timestamp"].snapshot_meta = MetaFile(100)
    repository.publish("timestamp", bump=False, update=False)
    assert client.refresh() == 0
    stored: Metadata[Timestamp] = Metadata.from_bytes((client.metadata / "timestamp.json").read_bytes())
    assert stored.signed.snapshot_meta.version == 1


@pytest.mark.parametrize(("role", "named_by"), [("snapshot", "timestamp"), ("targets", "snapshot")])
@pytest.mark.parametrize("difference", ["version", "digest"])
def test_role_other_than_it_was_named_is_refused(
    difference: str, role: str, named_by: str, client: Subject, repository: Repository
) -> None:
    """Served under its name, signed by its key, but of another version or other bytes than its namer says."""
    repository.has_hashes = True
    repository.publish_all("targets")
    assert client.refresh() == 0
    before = client.versions()
    repository.publish_all("targets")
    signed = repository.roles[role]
    if difference == "version":
        place = repository.place(role)
        repository.has_hashes = False
        repository.publish(*("snapshot", "timestamp")[("snapshot", "timestamp").index(named_by) :])
        signed.version += 1
        repository.publish(role, bump=False, update=False)
        repository.served[place] = repository.served[repository.place(role)]
    else:
        signed.unrecognized_fields["changed"] = True
        repository.publish(role, bump=False, update=False)
    assert client.refresh() == 1
    assert client.versions()[role] == before[role]


# --- expiry


def test_expired_root_is_stored_and_ends_the_refresh(client: Subject, repository: Repository) -> None:
    """Root itself moves on, so that its successor can be found; nothing else does."""
    assert client.refresh() == 0
    repository.root.expires = repository.date(-1)
    repository.publish("root")
    repository.publish_all("targets")
    assert client.refresh() == 1
    assert client.versions() == {**FRESH, "root": 2}
    repository.root.expires = repository.date(30)
    repository.publish("root")
    assert client.refresh() == 0
    assert client.versions() == {**dict.fromkeys(TOP, 2), "root": 3}


def test_intermediate_root_may_have_expired(client: Subject, repository: Repository) -> None:
    """Only the last one is judged by the clock."""
    repository.root.expires = repository.date(-1)
    repository.publish("root")
    repository.root.expires = repository.date(1)
    repository.publish("root")
    assert client.refresh() == 0
    assert client.versions()["root"] == 3


@pytest.mark.parametrize("role", TOP[1:])
def test_new_version_that_has_expired_is_not_stored(role: str, client: Subject, repository: Repository) -> None:
    """Each role in turn."""
    assert client.refresh() == 0
    repository.roles[role].expires = repository.date(-5)
    repository.publish_all("targets")
    assert client.refresh() == 1
    assert client.versions()[role] == 1
    repository.roles[role].expires = repository.date(5)
    repository.publish_all("targets")
    assert client.refresh() == 0
    assert client.versions() == {**dict.fromkeys(TOP, 3), "root": 1}


@pytest.mark.parametrize("role", TOP[1:])
def test_stored_version_that_has_expired_still_leads_to_the_next(
    role: str, client: Subject, repository: Repository
) -> None:
    """It is good enough to refuse what is older, and not good enough to go on with."""
    repository.roles[role].expires = repository.date(7)
    repository.publish_all("targets")
    assert client.refresh() == 0
    client.clock.time_s += 18 * DAY_S
    assert client.refresh() == 1
    repository.roles[role].expires = repository.date(21)
    repository.publish_all("targets")
    assert client.refresh() == 0
    assert client.versions() == {**dict.fromkeys(TOP, 3), "root": 1}


def test_expired_timestamp_does_not_stand_in_the_way_of_recovery(client: Subject, repository: Repository) -> None:
    """A thief runs the version up and lets it expire: with new keys a low version is good again.

    Two rules meet here: an expired timestamp stays expired with all below it, and keys that root takes away take what
    they signed with them.
    """
    assert client.refresh() == 0
    repository.roles["timestamp"].version = 2**31
    repository.roles["timestamp"].expires = repository.date(1)
    repository.publish("timestamp")
    assert client.refresh() == 0
    client.clock.time_s += 2 * DAY_S
    assert client.refresh() == 1
    client.clock.time_s -= 2 * DAY_S
    assert client.refresh() == 1, "an expired version stays expired, whatever the clock says"
    repository.rotate("timestamp")
    repository.roles["timestamp"].version = 1
    repository.roles["timestamp"].expires = repository.date(30)
    repository.publish("timestamp", "root")
    assert client.refresh() == 0
    assert client.versions()["timestamp"] == 2


# --- rollback and recovery from a version run up


@pytest.mark.parametrize("has_hashes", [False, True])
@pytest.mark.parametrize("role", TOP[1:])
def test_lower_version_is_refused(role: str, has_hashes: bool, client: Subject, repository: Repository) -> None:
    """Each role in turn, whether digests are signed or not."""
    repository.has_hashes = has_hashes
    repository.publish_all("targets")
    repository.publish_all("targets")
    assert client.refresh() == 0
    before = client.versions()
    repository.roles[role].version = 1
    repository.publish(role, bump=False)
    if role != "timestamp":
        repository.publish(*TOP[1:3][::-1] if role == "targets" else ("timestamp",))
    assert client.refresh() == 1
    assert client.versions()[role] == before[role]


def test_lower_snapshot_that_no_timestamp_names_is_not_asked_for(client: Subject, repository: Repository) -> None:
    """What the timestamp names is there already."""
    repository.publish("snapshot", "timestamp")
    assert client.refresh() == 0
    repository.roles["snapshot"].version = 1
    repository.publish("snapshot", bump=False)
    assert client.refresh() == 0
    assert client.versions()["snapshot"] == 2
    assert repository.requests[-1] == ("timestamp", None)


def test_role_that_the_new_snapshot_leaves_out_is_missed(client: Subject, repository: Repository) -> None:
    """A role cannot be made to vanish."""
    repository.delegate("targets", "team", ["team/*"])
    repository.publish_all("team", "targets")
    assert client.refresh() == 0
    del repository.roles["snapshot"].meta["team.json"]
    repository.publish("snapshot", update=False)
    repository.publish("timestamp")
    assert client.refresh() == 1
    assert client.versions()["snapshot"] == 2


@pytest.mark.parametrize(
    ("role", "rotated"),
    [("timestamp", ("timestamp",)), ("snapshot", ("snapshot", "timestamp")), ("targets", ("snapshot",))],
)
def test_version_that_was_run_up_comes_down_with_new_keys(
    role: str, rotated: tuple[str, ...], client: Subject, repository: Repository
) -> None:
    """A thief's fast-forward is undone by root, as the specification says for each role."""
    repository.roles[role].version = 99_999
    repository.publish_all("targets")
    assert client.refresh() == 0
    assert client.versions()[role] >= 99_999
    for name in rotated:
        repository.rotate(name)
    repository.publish("root")
    repository.roles[role].version = 0
    repository.publish_all("targets")
    assert client.refresh() == 0
    assert client.versions()[role] == 1


# --- thresholds


def test_threshold_counts_keys_and_not_signatures(client: Subject, repository: Repository) -> None:
    """Too few keys, one key under many names, keys that root names and does not hold: refused; enough: taken."""
    assert client.refresh() == 0
    snapshot = repository.root.roles["snapshot"]
    snapshot.threshold = 3
    repository.add_key("snapshot")
    repository.publish("root", "snapshot", "timestamp")
    assert client.refresh() == 1
    assert client.versions() == {**FRESH, "root": 2, "timestamp": 2}
    # The second key again under another name.
    document = json.loads(repository.served[repository.place("snapshot")])
    copied = {**document["signatures"][1], "keyid": "0" * 64}
    document["signatures"].append(copied)
    snapshot.keyids.append("0" * 64)
    twin = repository.root.keys[document["signatures"][1]["keyid"]].to_dict()
    repository.root.keys["0" * 64] = Key.from_dict("0" * 64, twin)
    repository.publish("root")
    repository.served[repository.place("snapshot")] = json.dumps(document).encode()
    assert client.refresh() == 1
    snapshot.keyids.remove("0" * 64)
    repository.add_key("snapshot")
    repository.publish("root", "snapshot", "timestamp")
    assert client.refresh() == 0
    assert client.versions() == {"root": 4, "timestamp": 3, "snapshot": 3, "targets": 1}
    snapshot.threshold = 5
    repository.publish("root")
    assert client.refresh() == 1
    assert client.versions()["root"] == 5


def test_unknown_hash_algorithm_of_a_key_id_does_not_matter(client: Subject, repository: Repository) -> None:
    """The field is not the specification's."""
    key = repository.root.keys[repository.root.roles["snapshot"].keyids[0]]
    key.unrecognized_fields["keyid_hash_algorithms"] = ["md5"]
    repository.publish("root", "snapshot", "timestamp")
    assert client.refresh() == 0
    assert client.versions()["snapshot"] == 2


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_signatures_of_every_kind_of_key_are_read(kind: str, client: Subject, repository: Repository) -> None:
    """The kinds that the specification names."""
    make = {
        "ed25519": CryptoSigner.generate_ed25519,
        "rsa": CryptoSigner.generate_rsa,
        "ecdsa": CryptoSigner.generate_ecdsa,
    }
    signer = make[kind]()
    repository.set_keys("timestamp", [signer], 1, [signer])
    repository.publish("root", "timestamp")
    assert client.refresh() == 0
    assert client.versions()["timestamp"] == 2


@dataclass(frozen=True)
class Signing:
    """Which of ten keys a version trusts, how many must sign, which do, and whether a client takes it."""

    keys: str
    threshold: int
    signers: str
    is_taken: bool = True


ROOTS = {
    "one for another": [Signing("1", 1, "1"), Signing("2", 1, "21"), Signing("2", 1, "2")],
    "with signatures of strangers": [Signing("1", 1, "314"), Signing("2", 1, "3214"), Signing("2", 1, "324")],
    "three of five, each time others": [
        Signing("01234", 3, "024"),
        Signing("01234", 3, "041"),
        Signing("01234", 3, "013"),
        Signing("01234", 3, "013"),
    ],
    "three of five, one replaced": [Signing("01234", 3, "024"), Signing("01345", 3, "041")],
    "three of five, one replaced by a step between": [
        Signing("01234", 3, "024"),
        Signing("01345", 3, "0245"),
        Signing("01345", 3, "045"),
    ],
    "three of five, all replaced": [
        Signing("01234", 3, "024"),
        Signing("56789", 3, "024567"),
        Signing("56789", 3, "567"),
    ],
    "threshold up": [Signing("123", 1, "1"), Signing("123", 2, "12")],
    "threshold down": [Signing("123", 2, "12"), Signing("123", 1, "12"), Signing("123", 1, "1")],
    "key and threshold up": [Signing("1", 1, "1"), Signing("12", 2, "12")],
    "not by the old key": [Signing("1", 1, "1"), Signing("2", 1, "234", is_taken=False)],
    "not by the new key": [Signing("1", 1, "1"), Signing("2", 1, "134", is_taken=False)],
    "two of the three new ones": [Signing("01234", 3, "024"), Signing("01345", 3, "024", is_taken=False)],
    "two of the three old ones": [Signing("01234", 3, "024"), Signing("01345", 3, "045", is_taken=False)],
    "not by the new threshold": [Signing("123", 1, "1"), Signing("123", 2, "2", is_taken=False)],
    "not by the old threshold": [Signing("123", 2, "12"), Signing("123", 1, "1", is_taken=False)],
}


@pytest.mark.parametrize("name", ROOTS)
def test_root_rotation_needs_the_old_keys_and_the_new_ones(name: str, repository: Repository, tmp_path: Path) -> None:
    """A chain of roots is followed as far as both thresholds hold, and no further."""
    keys = [CryptoSigner.generate_ed25519() for _ in range(10)]
    repository.root.version = 0
    for version in ROOTS[name]:
        trusted = [keys[int(number)] for number in version.keys]
        repository.set_keys("root", trusted, version.threshold, [keys[int(number)] for number in version.signers])
        repository.publish("root")
    with serve(repository) as url:
        subject = Subject(tmp_path, url, repository)
        subject.init()
        accepted = [version.is_taken for version in ROOTS[name]].count(True)
        assert (subject.refresh() == 0) == (accepted == len(ROOTS[name]))
        assert (subject.metadata / "root.json").read_bytes() == repository.served[f"metadata/{accepted}.root.json"]


ONLINE = {
    "one for another": Signing("2", 1, "2"),
    "with signatures of strangers": Signing("1", 1, "314"),
    "not by the new key": Signing("2", 1, "134", is_taken=False),
    "one stranger among three": Signing("01345", 3, "024", is_taken=False),
    "one too few": Signing("01345", 3, "04", is_taken=False),
    "three of five, first": Signing("01234", 3, "024"),
    "three of five, second": Signing("01234", 3, "041"),
    "three of five, third": Signing("01234", 3, "013"),
    "three of five, fourth": Signing("01234", 3, "123"),
    "three of five, fifth": Signing("01234", 3, "234"),
}


@pytest.mark.parametrize("role", TOP[1:])
@pytest.mark.parametrize("name", ONLINE)
def test_rotation_of_a_role_needs_the_keys_that_root_names(
    name: str, role: str, client: Subject, repository: Repository
) -> None:
    """The threshold of root's newest version, and no signature of anybody else counts."""
    assert client.refresh() == 0
    keys = [CryptoSigner.generate_ed25519() for _ in range(10)]
    case = ONLINE[name]
    trusted = [keys[int(number)] for number in case.keys]
    repository.set_keys(role, trusted, case.threshold, [keys[int(number)] for number in case.signers])
    repository.publish("root")
    repository.publish_all("targets")
    assert (client.refresh() == 0) == case.is_taken
    assert client.versions()["root"] == 2
    assert client.versions()[role] == (2 if case.is_taken else 1)


# --- a process of its own, and the suite itself


@pytest.mark.needs("faketime")
def test_expiry_is_judged_by_the_clock_of_a_real_process(client: Subject, repository: Repository) -> None:
    """The client's command in its own process, whose whole clock is moved; the other tests move a clock by hand."""
    repository.roles["timestamp"].expires = repository.date(7)
    repository.add_artifact("targets", "file.txt", b"content")
    repository.publish_all("targets")
    program = [sys.executable, conformance_client.__file__, *client.download_command("file.txt")]
    for days, status in ((0, 0), (18, 1), (0, 1)):
        moved = ["faketime", f"+{days} days", *program] if days else program
        done = subprocess.run(moved, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == status, done.stderr
        assert status == 0 or done.stderr.startswith("ExpiredMetadataError: ")
    assert client.downloads() == [b"content"]


@pytest.mark.timeout(1800)
@pytest.mark.needs("faketime")
def test_public_conformance_suite_passes_with_no_expected_failure(tmp_path: Path) -> None:
    """Every scenario of tuf-conformance itself, where it is installed: it is in no package index."""
    suite = importlib.util.find_spec("tuf_conformance")
    if suite is None or suite.origin is None:
        pytest.skip("tuf-conformance is in no package index: its scenarios are repeated here; install it to run it")
    entrypoint = tmp_path / "client"
    entrypoint.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{conformance_client.__file__}" "$@"\n')
    entrypoint.chmod(0o755)
    suite_folder = Path(suite.origin).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite_folder)]
    done = subprocess.run(
        [*command, f"--rootdir={suite_folder}", "-c", os.devnull, "--entrypoint", str(entrypoint)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-4000:]
