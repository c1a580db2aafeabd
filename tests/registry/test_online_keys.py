"""The server's keys may be anywhere that has a URI; faults in them are reported before anything is published."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import pytest
from alcove.registry import online_keys
from alcove.registry._tuf import CryptoSigner, Key, Signer
from alcove.registry.errors import KeyFileError, SigningError
from alcove.registry.keys import ONLINE_ROLES, load_signer
from alcove.registry.online_keys import (
    SECRET_VARIABLE,
    key_file,
    load_online_keys,
    online_candidates,
    online_keys_trusted,
    own_private_files,
    settle_online_keys,
)
from alcove.registry.repository import Repository
from alcove.registry.signers import key_to_bytes
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.files import DISK
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import SIGNER_FOR_URI_SCHEME  # type: ignore[attr-defined]  # lists no public names

PIN = "1234"


class TokenSigner(Signer):
    """A key service of this test's own: it holds keys by label, asks for a PIN, and can be unplugged or go wrong."""

    keys: ClassVar[dict[str, CryptoSigner]] = {}
    is_unplugged: ClassVar[bool] = False
    is_wrong: ClassVar[bool] = False

    def __init__(self, label: str, key: Key) -> None:
        self._label, self._key = label, key

    @property
    def public_key(self) -> Key:
        """The public key that it was given."""
        return self._key

    @classmethod
    def from_priv_key_uri(cls, priv_key_uri: str, public_key: Key, secrets_handler: Any = None) -> "TokenSigner":
        """A key by its label, for a caller who knows the PIN."""
        if secrets_handler("pin") != PIN:
            msg = "wrong PIN"
            raise PermissionError(msg)
        return cls(priv_key_uri.removeprefix("test-token:"), public_key)

    def sign(self, payload: bytes) -> Any:
        """Sign where the key is."""
        if self.is_unplugged:
            msg = "the token was pulled out"
            raise ConnectionError(msg)
        signature = self.keys[self._label].sign(payload + b"?" if self.is_wrong else payload)
        signature.keyid = self._key.keyid
        return signature


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> type[TokenSigner]:
    """The service, known by its scheme, with its PIN in the environment."""
    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, "test-token", TokenSigner)
    monkeypatch.setenv(SECRET_VARIABLE + "PIN", PIN)
    monkeypatch.setattr(TokenSigner, "is_unplugged", False)
    monkeypatch.setattr(TokenSigner, "is_wrong", False)
    monkeypatch.setattr(TokenSigner, "keys", {})
    return TokenSigner


@pytest.fixture
def folder(world: RepositoryFixture, tmp_path: Path) -> Path:
    """The server's keys of the world, as files."""
    place = tmp_path / "online"
    place.mkdir(mode=0o700)
    for role in ONLINE_ROLES:
        path = place / f"{role}.pem"
        path.touch(mode=0o600)
        path.write_bytes(getattr(world.keys.online, role).private_bytes)
    return place


def to_file(folder: Path, role: str, scheme: str = "file") -> Path:
    """Move a role's private key elsewhere, and say where; return that place."""
    elsewhere = folder.parent / f"elsewhere-{role}.pem"
    key = load_signer(folder / f"{role}.pem").public_key
    (folder / f"{role}.pem").rename(elsewhere)
    (folder / f"{role}.uri").write_bytes(key_to_bytes(key, uri=f"{scheme}:{elsewhere}"))
    return elsewhere


def to_token(folder: Path, role: str, token: type[TokenSigner]) -> None:
    """Move a role's private key into the service."""
    token.keys[role] = load_signer(folder / f"{role}.pem")
    (folder / f"{role}.pem").unlink()
    (folder / f"{role}.uri").write_bytes(key_to_bytes(token.keys[role].public_key, uri=f"test-token:{role}"))


def publish_all(world: RepositoryFixture, tree: Repository, number: int) -> None:
    """Everything that the server signs, read by a device."""
    tree.publish_policy("messenger", world.policy(number, "1.0.0").to_bytes())
    world.clock.time_s += 20 * 3600
    assert "timestamp" in tree.refresh().renewed
    assert tree.check().is_sound
    read = world.client(f"device {number}").policy("messenger")
    assert read is not None
    assert read.serial == number


@pytest.mark.parametrize("scheme", ["file", "file2"])
def test_keys_in_files_elsewhere_sign_as_those_beside(
    published_repository: RepositoryFixture, folder: Path, scheme: str
) -> None:
    """All four; they are the same keys, devices read what they sign, and the server counts the files as its own."""
    before = load_online_keys(folder)
    places = {to_file(folder, role, scheme) for role in ONLINE_ROLES}
    after = load_online_keys(folder)
    for role in ONLINE_ROLES:
        assert getattr(after, role).public_key == getattr(before, role).public_key
        assert key_file(folder, role) == folder / f"{role}.uri"
    assert places <= own_private_files(folder)
    publish_all(
        published_repository,
        Repository(published_repository.tree.folder, keys=after, clock=published_repository.clock),
        2,
    )


def test_keys_in_a_service_sign_with_its_secret(
    published_repository: RepositoryFixture, folder: Path, token: type[TokenSigner]
) -> None:
    """All four, by securesystemslib's own register of schemes; the PIN comes from the environment."""
    for role in ONLINE_ROLES:
        to_token(folder, role, token)
    keys = load_online_keys(folder)
    assert all(isinstance(getattr(keys, role), TokenSigner) for role in ONLINE_ROLES)
    publish_all(
        published_repository,
        Repository(published_repository.tree.folder, keys=keys, clock=published_repository.clock),
        2,
    )


@pytest.mark.parametrize("role", ONLINE_ROLES)
def test_what_is_wrong_with_a_key_is_reported_when_it_is_loaded(
    folder: Path, token: type[TokenSigner], monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """Each fault names the file; none waits for the first publication."""
    path = folder / f"{role}.uri"
    to_token(folder, role, token)
    good = path.read_bytes()
    key = token.keys[role].public_key

    def expect_refusal(words: str) -> None:
        for load in (load_online_keys, online_candidates):
            with pytest.raises(KeyFileError, match=words) as caught:
                load(folder)
            assert caught.value.path == str(path)

    monkeypatch.delenv(SECRET_VARIABLE + "PIN")
    expect_refusal(f"needs its pin: set {SECRET_VARIABLE}PIN")
    monkeypatch.setenv(SECRET_VARIABLE + "PIN", "0000")
    expect_refusal("wrong PIN")
    monkeypatch.setenv(SECRET_VARIABLE + "PIN", PIN)
    monkeypatch.setattr(token, "is_unplugged", True)
    expect_refusal("does not sign: the token was pulled out")
    monkeypatch.setattr(token, "is_unplugged", False)
    monkeypatch.setitem(token.keys, role, CryptoSigner(Ed25519PrivateKey.generate()))
    expect_refusal("the key behind its URI is another one")
    for content, words in (
        (key_to_bytes(key), "names no private key"),
        (key_to_bytes(key, uri="nowhere:1"), "nowhere:1: Unsupported private key scheme"),
        (b"hsm:2?label=alcove\n", "is not a public key file"),
        (b"", "is not a public key file"),
        (b"{" + b" " * 5000, "more than 4096 bytes"),
    ):
        path.write_bytes(content)
        expect_refusal(words)
    path.write_bytes(good)
    (folder / f"{role}.pem").touch(mode=0o600)
    expect_refusal("a key has one place")


def test_a_uri_to_another_file_than_its_key_is_refused(folder: Path) -> None:
    """And so is one whose file is open to others, or gone."""
    elsewhere = to_file(folder, "policy")
    other = to_file(folder, "halt")
    elsewhere.chmod(0o644)
    with pytest.raises(KeyFileError, match="open to others"):
        load_online_keys(folder)
    elsewhere.unlink()
    with pytest.raises(KeyFileError, match="No such file"):
        load_online_keys(folder)
    other.rename(elsewhere)
    with pytest.raises(KeyFileError, match="is another key"):
        load_online_keys(folder)


@pytest.mark.parametrize("role", ["policy", "snapshot", "timestamp"])
@pytest.mark.parametrize(
    ("fault", "words"), [("is_unplugged", "the token was pulled out"), ("is_wrong", "no signature by it")]
)
def test_a_service_that_fails_later_publishes_nothing_and_repeating_does(  # noqa: PLR0917 - fixtures
    published_repository: RepositoryFixture, folder: Path, token: type[TokenSigner], role: str, fault: str, words: str
) -> None:
    """The error names role and key; devices read the old policy; the same call works when the service is back."""
    to_token(folder, role, token)
    tree = Repository(published_repository.tree.folder, keys=load_online_keys(folder), clock=published_repository.clock)
    publish_all(published_repository, tree, 2)
    setattr(token, fault, True)
    document = published_repository.policy(3, "1.0.0").to_bytes()
    with pytest.raises(SigningError, match=words) as caught:
        tree.publish_policy("messenger", document)
    assert (caught.value.role, caught.value.keyid) == (role, token.keys[role].public_key.keyid)
    old = published_repository.client("meanwhile").policy("messenger")
    assert old is not None
    assert old.serial == 2
    setattr(token, fault, False)
    tree.publish_policy("messenger", document)
    assert tree.check().is_sound
    publish_all(published_repository, tree, 4)


@pytest.mark.parametrize("is_to_token", [True, False], ids=["file to service", "service to file"])
def test_a_key_moves_between_file_and_service_whenever_it_is_cut_off(
    folder: Path, token: type[TokenSigner], monkeypatch: pytest.MonkeyPatch, is_to_token: bool
) -> None:
    """The next key has the old one's place, once, whichever step fails first; until then both are known."""
    new = CryptoSigner(Ed25519PrivateKey.generate())
    token.keys["new"] = new
    if is_to_token:
        (folder / "halt.next.uri").write_bytes(key_to_bytes(new.public_key, uri="test-token:new"))
    else:
        to_token(folder, "halt", token)
        (folder / "halt.next.pem").touch(mode=0o600)
        (folder / "halt.next.pem").write_bytes(new.private_bytes)
    assert new.public_key.keyid in {signer.public_key.keyid for signer in online_candidates(folder)}
    trusted = {role: [signer.public_key.keyid] for role, signer in _by_role(folder).items()}
    trusted["halt"] = [new.public_key.keyid]

    class Failing:
        """A disk that fails at one of its steps."""

        def __init__(self, step: str) -> None:
            self._step = step

        def __getattr__(self, name: str) -> Any:
            if name == self._step:
                raise OSError(28, "No space left on device")
            return getattr(DISK, name)

    for step in ("rename", "sync_folder", ""):
        monkeypatch.setattr(online_keys, "DISK", Failing(step))
        if step:
            with pytest.raises(KeyFileError, match="No space"):
                settle_online_keys(folder, trusted)
        else:
            assert settle_online_keys(folder, trusted) == ()  # done by then: the name had changed
        assert online_keys_trusted(folder, trusted).halt.public_key == new.public_key
    assert {path.name for path in folder.glob("halt*")} == {"halt.uri" if is_to_token else "halt.pem"}
    assert load_online_keys(folder).halt.public_key == new.public_key


def _by_role(folder: Path) -> dict[str, Signer]:
    keys = load_online_keys(folder)
    return {field.name: getattr(keys, field.name) for field in dataclasses.fields(keys)}
