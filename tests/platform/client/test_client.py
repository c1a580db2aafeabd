"""The client: every failure becomes a typed error, no call waits forever, no token leaves in clear."""

import asyncio
import ipaddress
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from alcove.platform.client import (
    ClientError,
    DeadlineError,
    PlatformClient,
    RemoteInternalError,
    UnauthenticatedError,
    UnavailableError,
)
from alcove.platform.client.errors import error_of
from alcove.platform.client.experiment_models import Decision, Experiment
from alcove.platform.client.models import value_of
from alcove.platform.client.rollout_models import Rollout
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.testing import Served, ServerWorld
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

TOKEN = f"alc_{'0' * 16}_{'0' * 64}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_that_never_answers_costs_the_deadline_only(silent: str) -> None:
    """The call ends by itself, typed, and says that repeating is safe by its class."""
    with PlatformClient(silent, TOKEN, timeout_s=0.3) as client, pytest.raises((DeadlineError, UnavailableError)):
        client.versions()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    """Nothing listens: reported at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with PlatformClient(f"127.0.0.1:{port}", TOKEN, timeout_s=60) as client, pytest.raises(UnavailableError) as failure:
        client.rollouts()
    assert failure.value.status == "UNAVAILABLE"


def test_a_wrong_token_is_unauthenticated(served: Served) -> None:
    """The message says how to get a right one, and does not repeat the token."""
    with PlatformClient(served.grpc_address, TOKEN) as client, pytest.raises(UnauthenticatedError) as failure:
        client.versions()
    assert "alcove token create" in failure.value.message
    assert TOKEN not in str(failure.value)
    assert TOKEN not in served.log.read_text()
    assert "0" * 64 not in served.log.read_text()


def test_a_token_leaves_for_other_machines_over_tls_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no way to ask for plaintext; for this machine TLS is used where a root is given."""
    made: list[str] = []

    def channel(kind: str) -> Any:
        made.append(kind)
        return _Channel()

    monkeypatch.setattr(grpc, "insecure_channel", lambda *_a, **_k: channel("plain"))
    monkeypatch.setattr(grpc, "secure_channel", lambda *_a, **_k: channel("tls"))
    for address, root, expected in (
        ("127.0.0.1:1", None, "plain"),
        ("localhost:1", None, "plain"),
        ("[::1]:1", None, "plain"),
        ("127.0.0.1:1", b"root", "tls"),
        ("models.example.org:443", None, "tls"),
        ("localhost.example.org:443", None, "tls"),
        ("192.0.2.1:443", None, "tls"),
        ("10.127.0.1:443", None, "tls"),
        ("127.evil.example:443", None, "tls"),
        ("[2001:db8::1]:443", None, "tls"),
    ):
        made.clear()
        PlatformClient(address, TOKEN, tls_root=root)
        assert made == [expected], address


class _Channel:
    """Enough of a channel to make stubs on."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_a, **_k: None


def certificate(folder: Path) -> tuple[Path, Path]:
    """A fresh certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "tls.pem"
    chain.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private.touch(0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, private


async def test_over_tls_the_same_calls_work_and_plaintext_does_not(tmp_path: Path) -> None:
    """Both ports speak TLS with the given certificate; the TLS key may lie in the data folder."""
    world = await asyncio.to_thread(ServerWorld, tmp_path / "tls", teams={"text": ("text_00",)})
    chain, private = certificate(world.data_dir)
    settings = Settings(
        data_dir=world.data_dir,
        online_keys=world.online_keys,
        grpc_port=0,
        http_port=0,
        tls_certificate=chain,
        tls_key=private,
    )
    token = await asyncio.to_thread(world.token, "reader")

    def versions(root: bytes | None) -> int:
        with PlatformClient(running.grpc_address, token, tls_root=root, timeout_s=60) as client:
            return len(client.versions())

    def get(context: ssl.SSLContext) -> int:
        with urllib.request.urlopen(running.http_url + "/metadata/1.root.json", context=context, timeout=60) as answer:
            return int(answer.status)

    async with run(settings) as running:
        assert await asyncio.to_thread(versions, chain.read_bytes()) == 0
        with pytest.raises(UnavailableError):
            await asyncio.to_thread(versions, None)
        assert running.http_url.startswith("https://")
        assert await asyncio.to_thread(get, ssl.create_default_context(cafile=chain)) == 200
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(get, ssl.create_default_context())


@pytest.mark.parametrize("status", list(grpc.StatusCode))
def test_every_status_becomes_a_typed_error(status: grpc.StatusCode) -> None:
    """Also the ones that our server never sends."""
    failure: Any = SimpleNamespace(
        code=lambda: status, details=lambda: "what happened", trailing_metadata=lambda: (("alcove-error", "Kind"),)
    )
    error = error_of(failure)
    assert isinstance(error, ClientError)
    assert (error.status, error.kind, error.message) == (status.name, "Kind", "what happened")
    failure.trailing_metadata, failure.details = (lambda: None), (lambda: None)
    assert (error_of(failure).kind, error_of(failure).message) == ("", "no details")


def test_a_state_that_this_client_does_not_know_is_refused() -> None:
    """A newer server's new state is not taken for one of ours; a new field is ignored."""
    fields = {"rollout_id": "r", "app": "a", "feature": "f", "version": "1.0.0", "share_basis_points": 1}
    fields |= {"created_at_s": 1, "updated_at_s": 1, "policy_serial": 1}
    assert Rollout.model_validate(fields | {"state": "ROLLOUT_STATE_RUNNING", "new_field": 1}).state == "running"
    for state in ("ROLLOUT_STATE_UNSPECIFIED", "ROLLOUT_STATE_FROZEN", "9", ""):
        with pytest.raises(ValidationError):
            Rollout.model_validate(fields | {"state": state})


def test_messages_become_values_with_absence_kept() -> None:
    """What a message leaves out is None, not zero, where the API says absent."""
    from alcove.api.experiment.v1 import experiment_pb2 as pb

    message = pb.Decision(kind=pb.DECISION_KIND_INCONCLUSIVE, code="no_reports", reason="none")
    assert value_of(Decision, message).winner is None
    message.winner = 0
    assert value_of(Decision, message).winner == 0
    with pytest.raises(ValidationError):
        value_of(Experiment, pb.Experiment())


def test_a_call_that_a_stopping_server_drops_may_be_repeated() -> None:
    """GRPC ends calls that reach a server in its last moment with CANCELLED, and no handler saw them."""
    failure: Any = SimpleNamespace(
        code=lambda: grpc.StatusCode.CANCELLED, details=lambda: "CANCELLED", trailing_metadata=lambda: ()
    )
    assert isinstance(error_of(failure), UnavailableError)


def test_internal_errors_have_a_class_too() -> None:
    """UNKNOWN and INTERNAL are the server's fault."""
    failure: Any = SimpleNamespace(
        code=lambda: grpc.StatusCode.UNKNOWN, details=lambda: "x", trailing_metadata=lambda: ()
    )
    assert isinstance(error_of(failure), RemoteInternalError)
