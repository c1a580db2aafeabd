"""A private key that is none of the server's, in any form and any place that a ceremony may leave it in its reach."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.platform.cli import entry
from alcove.platform.domain.errors import KeyWithinReachError, OnlineKeyError
from alcove.platform.server.settings import Settings
from alcove.platform.server.startup_checks import refuse_foreign_keys
from alcove.platform.testing import ServerWorld
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

Key = Ed25519PrivateKey
TEAMS = {"text": ("text_00",)}
NONE = NoEncryption()


@pytest.fixture
def served(tmp_path: Path) -> ServerWorld:
    """A world whose server may be refused."""
    return ServerWorld(tmp_path / "world", teams=TEAMS)


@pytest.fixture
def settings(served: ServerWorld) -> Settings:
    """The settings of that world's server."""
    return Settings(data_dir=served.data_dir, online_keys=served.online_keys)


def pem(key: Key, kind: PrivateFormat = PrivateFormat.PKCS8, encryption: KeySerializationEncryption = NONE) -> bytes:
    """A key in PEM."""
    return key.private_bytes(Encoding.PEM, kind, encryption)


def raw(key: Key) -> bytes:
    """The 32 bytes that are all of a key."""
    return key.private_bytes_raw()


FORMS: dict[str, Callable[[Key], bytes]] = {
    "pem": pem,
    "pem after text": lambda key: b"a note\n" * 10_000 + pem(key),
    "pem across a chunk": lambda key: b"\0" * ((1 << 20) - 40) + pem(key) + b"\0" * (1 << 20),
    "pem in json": lambda key: json.dumps({"key": pem(key).decode()}).encode(),
    "pem with carriage returns": lambda key: pem(key).replace(b"\n", b"\r\n"),
    "pem under a password": lambda key: pem(key, encryption=BestAvailableEncryption(b"secret")),
    "openssh": lambda key: pem(key, PrivateFormat.OpenSSH),
    "der": lambda key: key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NONE),
    "der under a password": lambda key: key.private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    ),
    "raw": raw,
    "raw pair": lambda key: raw(key) + key.public_key().public_bytes_raw(),
    "hex": lambda key: raw(key).hex().encode() + b"\n",
    "base64": lambda key: base64.b64encode(raw(key)) + b"\n",
    "jwk": lambda key: json.dumps(
        {"kty": "OKP", "d": base64.urlsafe_b64encode(raw(key)).decode().rstrip("=")}
    ).encode(),
    "securesystemslib": lambda key: json.dumps({"keyval": {"private": raw(key).hex(), "public": ""}}).encode(),
}
PLACES = ("data/k", "data/uploads/root.pem", "data/tree/targets/k", "online/spare", "offline/root", "teams/deep/k")


@pytest.mark.parametrize("form", FORMS)
def test_a_foreign_key_in_any_form_and_place_stops_the_start(
    served: ServerWorld, settings: Settings, form: str
) -> None:
    """Root, targets and team keys; each place in turn, then none: without it the server starts."""
    assert refuse_foreign_keys(settings) == ()
    for number, name in enumerate(("offline/root.pem", "offline/targets.pem", "teams/text.pem")):
        key = load_pem_private_key((served.folder / "keys" / name).read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        for place in PLACES[number::2] if number else PLACES:
            path = served.folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(FORMS[form](key))
            with pytest.raises(KeyWithinReachError) as refused:
                refuse_foreign_keys(settings)
            assert refused.value.path.resolve() == path.resolve()
            path.unlink()
    assert refuse_foreign_keys(settings) == ()


@pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)])
def test_keys_of_other_kinds_are_found_too(served: ServerWorld, settings: Settings, key: object) -> None:
    """In PEM and in DER, PKCS #8 and the older forms; nobody's key belongs there, known to the tree or not."""
    assert isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey))
    for encoding in (Encoding.PEM, Encoding.DER):
        for kind in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
            (served.data_dir / "k").write_bytes(key.private_bytes(encoding, kind, NONE))
            with pytest.raises(KeyWithinReachError):
                refuse_foreign_keys(settings)


@pytest.mark.parametrize(
    "data", [b"-----BEGIN PRIVATE KEY-----\n...", b"\x07" * 32, b"0" * 64, b"0\x82", b"{}", b"", b'{"d": "x"}', b'"']
)
def test_what_only_looks_like_a_key_stops_nothing(served: ServerWorld, settings: Settings, data: bytes) -> None:
    """A text about keys, a digest, a secret of another kind."""
    (served.data_dir / "note").write_bytes(data)
    assert refuse_foreign_keys(settings) == ()


def test_the_layout_of_a_ceremony_beside_the_servers_keys_is_refused(served: ServerWorld) -> None:
    """`keys/online` with `keys/offline` and `keys/teams` beside it; unreadable or gone, it is none of its business."""
    ring = served.folder / "keys"
    inside = shutil.copytree(served.online_keys, ring / "online")
    beside = Settings(data_dir=served.data_dir, online_keys=inside)
    for folder in ("offline", "teams"):
        with pytest.raises(KeyWithinReachError, match=folder):
            refuse_foreign_keys(beside)
        shutil.rmtree(ring / folder)
    assert refuse_foreign_keys(beside) == ()


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("10.1.2.3", True)],
)
def test_what_the_ceremony_left_is_named_here_and_refused_to_others(
    tmp_path: Path, host: str, is_refused: bool
) -> None:
    """`alcove keys create` as README has it: a try on this machine is warned, a server for others does not start."""
    create = ["keys", "create", str(tmp_path / "keys"), "--team", "text=polite", "--data-dir", str(tmp_path / "server")]
    assert entry.main(create) == 0
    assert not (tmp_path / "keys" / "online").exists()
    settings = Settings(data_dir=tmp_path / "server", online_keys=tmp_path / "server-keys", host=host)
    left = {"root.pem", "targets.pem", "text.pem"}
    if is_refused:
        with pytest.raises(KeyWithinReachError):
            refuse_foreign_keys(settings)
    else:
        assert {path.name for path in refuse_foreign_keys(settings)} == left
    shutil.move(tmp_path / "keys", tmp_path / "safe")
    assert refuse_foreign_keys(settings) == ()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_tls_key_that_is_open_to_others_stops_the_start(served: ServerWorld, mode: int) -> None:
    """As the signing keys do."""
    key, chain = served.folder / "tls.pem", served.folder / "tls.crt"
    key.write_bytes(pem(Ed25519PrivateKey.generate()))
    settings = Settings(data_dir=served.data_dir, online_keys=served.online_keys, tls_key=key, tls_certificate=chain)
    key.chmod(mode)
    with pytest.raises(OnlineKeyError, match=f"{mode:04o}"):
        refuse_foreign_keys(settings)
    key.chmod(0o600)
    assert refuse_foreign_keys(settings) == ()
