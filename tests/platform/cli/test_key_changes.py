"""`alcove keys rotate | sign | accept …`: people with keys on separate machines change who signs, by passing files."""

import json
import shutil
import stat
from pathlib import Path

import pytest
from alcove.platform.domain.errors import DataFolderBusyError
from alcove.platform.server.settings import Settings
from alcove.platform.server.startup_checks import hold_data_folder, load_keys, refuse_foreign_keys, verify_keys
from alcove.registry.online_keys import load_online_keys
from alcove.registry.policy import Halt
from alcove.registry.repository import Repository
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tests.platform.cli.terminal import Said, alcove


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with keys and an empty tree, made by the command."""
    said = alcove(
        "keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "server", "--team", "text=language_id,translate"
    )
    assert said.code == 0, said.err
    return tmp_path


def keys_new(place: Path, name: str) -> Path:
    """A new key in a folder of its own, which the command makes: somebody's machine."""
    machine = place / "machines" / name
    said = alcove("keys", "new", machine / f"{name}.pem", "--json")
    assert said.code == 0, said.err
    assert stat.S_IMODE(machine.stat().st_mode) == 0o700
    assert stat.S_IMODE((machine / f"{name}.pem").stat().st_mode) == 0o600
    assert "PRIVATE" not in (machine / f"{name}.pub").read_text()
    return machine / f"{name}.pub"


def private(public: Path) -> Path:
    """The private key beside a public one."""
    return public.with_suffix(".pem")


def accept(place: Path, *files: Path) -> Said:
    """The last step, on the server."""
    return alcove("keys", "accept", *files, "--data-dir", place / "server", "--keys", place / "server-keys", "--json")


def online(place: Path) -> Repository:
    """The tree with the keys that the server would load."""
    return Repository(place / "server" / "tree", keys=load_online_keys(place / "server-keys"))


def test_root_becomes_two_of_three_by_files_that_are_passed_round(place: Path) -> None:
    """Each signs a copy; one signature short nothing is accepted; the copies together are."""
    people = [keys_new(place, name) for name in ("ann", "bob", "cleo")]
    change = place / "root.change"
    adds = [part for public in people for part in ("--add", public)]
    old = place / "keys" / "offline" / "root.pem"
    drafted = alcove(
        *(
            "keys",
            "rotate",
            change,
            "--data-dir",
            place / "server",
            "--role",
            "root",
            "--remove",
            old,
            "--threshold",
            2,
        ),
        *adds,
        "--json",
    )
    assert drafted.code == 0, drafted.err
    assert drafted.json["is_ready"] is False
    assert {row["keys"]: row["signed"] for row in drafted.json["roles"]} == {"before": "0 of 1", "after": "0 of 2"}
    copies = []
    for key in (old, private(people[0]), private(people[2])):
        copy = place / f"{key.stem}.change"
        if copy != change:
            shutil.copy(change, copy)
        else:
            copy = place / "copy.change"
            shutil.copy(change, copy)
        said = alcove("keys", "sign", copy, "--key", key)
        assert said.code == 0, said.err
        copies.append(copy)
    before = (place / "server" / "tree" / "metadata").stat().st_mtime_ns
    refused = accept(place, *copies[:2])
    assert refused.code == 1
    assert "root was signed by 1/2 keys" in refused.err
    assert (place / "server" / "tree" / "metadata").stat().st_mtime_ns == before
    accepted = accept(place, *copies)
    assert accepted.code == 0, accepted.err
    assert accepted.json["changed"] == ["root"]
    assert accept(place, *copies).json["changed"] == []
    stranger = keys_new(place, "dora")
    again = place / "again.change"
    alcove("keys", "renew", again, "--data-dir", place / "server", "--role", "root")
    said = alcove("keys", "sign", again, "--key", private(stranger))
    assert said.code == 1
    assert "no role of this change names the key" in said.err


@pytest.mark.parametrize("role", ["snapshot", "timestamp", "policy", "halt"])
def test_online_key_is_replaced_while_no_server_runs(place: Path, role: str) -> None:
    """The next key lies beside the one in use; afterwards it has its place, and the server starts with it."""
    folder = place / "server-keys"
    assert alcove("keys", "new", folder / f"{role}.next.pem").code == 0
    settings = Settings(data_dir=place / "server", online_keys=folder)
    refuse_foreign_keys(settings)
    old = (folder / f"{role}.pem").read_bytes()
    change = place / "online.change"
    said = alcove(
        *("keys", "rotate", change, "--data-dir", place / "server", "--role", role),
        *("--add", folder / f"{role}.next.pub", "--remove", folder / f"{role}.pem"),
    )
    assert said.code == 0, said.err
    signer = "root" if role in ("snapshot", "timestamp") else "targets"
    assert alcove("keys", "sign", change, "--key", place / "keys" / "offline" / f"{signer}.pem").code == 0
    with hold_data_folder(settings):
        refused = accept(place, change)
        assert refused.code == 1
        assert str(DataFolderBusyError(settings.data_dir)) in refused.err
    accepted = accept(place, change)
    assert accepted.code == 0, accepted.err
    assert accepted.json["keys_in_use"] == [role]
    assert not (folder / f"{role}.next.pem").exists()
    assert (folder / f"{role}.pem").read_bytes() != old
    verify_keys(settings, load_keys(settings), online(place).state())
    online(place).publish_halt("messenger", Halt(app="messenger", serial=1).to_bytes())
    assert alcove("registry", "check", "--data-dir", place / "server").code == 0
    assert accept(place, change).json == {"changed": [], "keys_in_use": []}


def test_team_is_added_gets_features_and_raises_a_floor(place: Path) -> None:
    """Three changes; each is signed by those whose business it is."""
    vision = keys_new(place, "vision")
    targets = place / "keys" / "offline" / "targets.pem"
    steps = (
        (("add-team", "--team", "vision=segment", "--key", vision), (targets, private(vision))),
        (("own", "--team", "vision=depth,caption"), (targets,)),
        (
            ("raise-min-version", "--team", "vision", "--feature", "depth", "--min-version", "1.2.0"),
            (private(vision),),
        ),
        (("renew", "--role", "team-vision"), (private(vision),)),
    )
    for number, ((verb, *options), keys) in enumerate(steps):
        change = place / f"{number}.change"
        said = alcove("keys", verb, change, "--data-dir", place / "server", *options)
        assert said.code == 0, said.err
        refused = accept(place, change)
        assert refused.code == 1, verb
        for key in keys:
            assert alcove("keys", "sign", change, "--key", key).code == 0
        assert alcove("keys", "status", change, "--json").json["is_ready"] is True
        accepted = accept(place, change)
        assert accepted.code == 0, accepted.err
        twice = alcove("keys", verb, change, "--data-dir", place / "server", *options)
        assert twice.code == 2
    state = online(place).state()
    assert state.role_for("caption/1.0.0.json") == "team-vision"
    assert state.roles["team-vision"].metadata.signed.unrecognized_fields == {
        "x-alcove-min-versions": {"depth": "1.2.0"}
    }
    lower = alcove(
        *("keys", "raise-min-version", place / "lower", "--data-dir", place / "server", "--team", "vision"),
        *("--feature", "depth", "--min-version", "1.1.0"),
    )
    assert lower.code == 1
    assert "never falls" in lower.err
    assert not (place / "lower").exists()


def test_ceremony_by_file_exchange(tmp_path: Path) -> None:
    """Root 1 of 2, targets 2 of 2, from public keys alone; nobody has the others' private keys."""
    names = ("root1", "root2", "targets1", "targets2", "text")
    people = {name: keys_new(tmp_path, name) for name in names}
    folder = tmp_path / "server-keys"
    folder.mkdir(parents=True)
    for role in ("policy", "halt", "snapshot", "timestamp"):
        assert alcove("keys", "new", folder / f"{role}.pem").code == 0
    change = tmp_path / "first.change"
    said = alcove(
        *(
            "keys",
            "init",
            change,
            "--online",
            folder,
            "--team",
            "text=language_id",
            "--team-key",
            f"text={people['text']}",
        ),
        *("--root-key", people["root1"], "--root-key", people["root2"], "--root-threshold", 2),
        *("--targets-key", people["targets1"], "--targets-key", people["targets2"], "--targets-threshold", 2),
    )
    assert said.code == 0, said.err
    for name in names[:-3]:
        assert alcove("keys", "sign", change, "--key", private(people[name])).code == 0
    both = [part for name in names[-3:-1] for part in ("--key", private(people[name]))]
    signed = alcove("keys", "sign", change, *both)  # one person with two keys
    assert signed.code == 0, signed.err
    assert signed.out.count("signed targets with ") == 2
    assert accept(tmp_path, change).code == 1
    assert alcove("keys", "sign", change, "--key", private(people["text"])).code == 0
    accepted = accept(tmp_path, change)
    assert accepted.code == 0, accepted.err
    assert alcove("registry", "check", "--data-dir", tmp_path / "server").code == 0


def test_key_is_found_by_its_uri_and_a_wrong_one_is_refused(place: Path) -> None:
    """A public key file that says where its private key is; another key there, none there, no such kind of place."""
    key = place / "keys" / "offline" / "root.pem"
    pem = place / "root-public.pem"
    made = load_pem_private_key(key.read_bytes(), None).public_key()
    pem.write_bytes(made.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    change = place / "renewed.change"
    assert alcove("keys", "renew", change, "--data-dir", place / "server", "--role", "root").code == 0
    other = place / "keys" / "offline" / "targets.pem"
    for name, uri in (
        ("other", f"file2:{other}"),
        ("none", "file2:/absent.pem"),
        ("kind", "parchment:1"),
        ("hsm", "hsm:2"),
    ):
        assert alcove("keys", "public", place / f"{name}.pub", "--pem", pem, "--uri", uri).code == 0
        said = alcove("keys", "sign", change, "--key", place / f"{name}.pub")
        assert said.code == 1, uri
        assert json.loads(alcove("keys", "status", change, "--json").out)["is_ready"] is False
    assert alcove("keys", "public", place / "good.pub", "--pem", pem, "--uri", f"file2:{key}").code == 0
    said = alcove("keys", "sign", change, "--key", place / "good.pub")
    assert said.code == 0, said.err
    assert accept(place, change).code == 0


def test_signers_see_the_features_that_they_grant(place: Path) -> None:
    """In the table and as JSON: what each role may sign, and which of it is new by this change."""
    change = place / "own.change"
    said = alcove("keys", "own", change, "--data-dir", place / "server", "--team", "text=tone,clicks")
    assert said.code == 0, said.err
    for words in (said.out, alcove("keys", "status", change).out):
        assert "language_id, translate, tone (new), clicks (new)" in " ".join(words.replace("│", " ").split())
    trusts = {row["role"]: row["may_sign"] for row in alcove("keys", "status", change, "--json").json["trusts"]}
    assert trusts["team-text"] == "language_id, translate, tone (new), clicks (new)"
    assert "new" not in trusts["policy"]
    public = keys_new(place, "ann")
    change = place / "team.change"
    said = alcove(
        "keys", "add-team", change, "--data-dir", place / "server", "--team", "speech=bandwidth", "--key", public
    )
    assert said.code == 0, said.err
    assert "bandwidth (new)" in said.out
    signed = alcove("keys", "sign", change, "--key", place / "keys" / "offline" / "targets.pem")
    assert signed.code == 0, signed.err
    assert "bandwidth (new)" in signed.out
