"""Private key files have private modes from their creation, are never overwritten, and are checked on loading."""

import os
import stat
from pathlib import Path

import pytest
from alcove.registry.errors import KeyFileError
from alcove.registry.keys import create_keys, load_keys, load_signer
from alcove.registry.online_keys import load_online_keys
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

TEAMS = {"text": ["language_id"], "speech": ["bandwidth"]}
FILES = {
    "offline/root.pem",
    "offline/targets.pem",
    "online/policy.pem",
    "online/halt.pem",
    "online/snapshot.pem",
    "online/timestamp.pem",
    "teams/text.pem",
    "teams/speech.pem",
}


def test_keys_are_0600_in_folders_0700_whatever_the_umask(tmp_path: Path) -> None:
    """Every key has its place and its mode, and is different."""
    previous = os.umask(0)
    try:
        ring = create_keys(tmp_path / "keys", teams=TEAMS)
    finally:
        os.umask(previous)
    found = {str(path.relative_to(tmp_path / "keys")) for path in (tmp_path / "keys").rglob("*.pem")}
    assert found == FILES
    for path in (tmp_path / "keys", *(tmp_path / "keys").rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
    identifiers = {load_signer(tmp_path / "keys" / name).public_key.keyid for name in FILES}
    assert len(identifiers) == len(FILES)
    assert ring.root.public_key.keyid in identifiers


def test_key_file_is_never_open_to_others_even_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is made with its mode: no change of mode follows."""

    def refuse(*_: object, **__: object) -> None:
        msg = "a mode was changed after the file was made"
        raise AssertionError(msg)

    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    monkeypatch.setattr(Path, "chmod", refuse)
    create_keys(tmp_path / "keys", teams=TEAMS)


def test_loaded_keys_are_the_created_ones(tmp_path: Path) -> None:
    """The whole ring, and the server's part of it."""
    created = create_keys(tmp_path / "keys", teams=TEAMS)
    loaded = load_keys(tmp_path / "keys")
    assert loaded.root.public_key == created.root.public_key
    assert loaded.targets.public_key == created.targets.public_key
    assert {team: signer.public_key for team, signer in loaded.teams.items()} == {
        team: signer.public_key for team, signer in created.teams.items()
    }
    online = load_online_keys(tmp_path / "keys" / "online")
    for role in ("policy", "halt", "snapshot", "timestamp"):
        assert getattr(online, role).public_key == getattr(created.online, role).public_key


def test_existing_keys_are_never_overwritten(tmp_path: Path) -> None:
    """A second ceremony is refused and changes nothing; an empty folder is fine."""
    (tmp_path / "keys").mkdir()
    create_keys(tmp_path / "keys", teams=TEAMS)
    before = {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*.pem")}
    with pytest.raises(KeyFileError, match="never overwritten"):
        create_keys(tmp_path / "keys", teams=TEAMS)
    assert {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*.pem")} == before


def test_interrupted_ceremony_leaves_no_keys_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory appears whole or not at all, wherever the disk fails."""
    real = os.fsync
    for fail_at in range(len(FILES)):
        count = 0

        def fail(descriptor: int, limit: int = fail_at) -> None:
            nonlocal count
            count += 1
            if count > limit:
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(KeyFileError, match="No space"):
            create_keys(tmp_path / "keys", teams=TEAMS)
        assert not (tmp_path / "keys").exists()
    monkeypatch.setattr(os, "fsync", real)
    create_keys(tmp_path / "keys", teams=TEAMS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o666])
def test_key_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """The error names the file and the mode."""
    create_keys(tmp_path / "keys", teams=TEAMS)
    path = tmp_path / "keys" / "offline" / "root.pem"
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"{mode:04o}") as caught:
        load_signer(path)
    assert caught.value.path == str(path)


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def test_file_that_is_no_plain_ed25519_key_is_refused_without_quoting_it(tmp_path: Path) -> None:
    """Absent, empty, garbage, encrypted, oversize or of another kind."""
    key = Ed25519PrivateKey.generate()
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    secret_line = plain.splitlines()[1].decode()
    for data, words in (
        (b"", "PEM"),
        (plain.replace(b"MC4", b"MC5"), "PEM"),
        (locked, "PEM"),
        (other, "Ed25519"),
        (plain + b"\n" * 5000, "4096"),
    ):
        with pytest.raises(KeyFileError, match=words) as caught:
            load_signer(_write(tmp_path / "key.pem", data))
        assert secret_line not in str(caught.value)
    with pytest.raises(KeyFileError, match="No such file"):
        load_signer(tmp_path / "absent.pem")


@pytest.mark.parametrize(
    ("teams", "words"),
    [
        ({"text": ["language_id"], "speech": ["language_id"]}, "more than once: language_id"),
        ({"text": ["policy"]}, "folder of the tree"),
        ({"text": ["*"]}, r"'\*'"),
        ({"../text": ["language_id"]}, "text"),
    ],
)
def test_impossible_teams_are_refused_before_any_key_is_made(
    tmp_path: Path, teams: dict[str, list[str]], words: str
) -> None:
    """A feature has one owner and a name that is no pattern."""
    with pytest.raises(ValueError, match=words):
        create_keys(tmp_path / "keys", teams=teams)
    assert list(tmp_path.iterdir()) == []
