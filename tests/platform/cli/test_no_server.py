"""What a command says where no server answers it, and where `alcove serve` does not start."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform.cli.terminal import alcove


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """The port of a server that closes each connection, as one that speaks TLS does to who does not."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_each() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(24)

        thread = threading.Thread(target=close_each)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_server_that_hangs_up_is_asked_for_its_certificate(hanging_up: int, tmp_path: Path) -> None:
    """The likeliest reason is TLS, which is not spoken to this machine unless a certificate is named."""
    token = tmp_path / "a.token"
    token.write_text("alc_0123456789abcdef")
    token.chmod(0o600)
    said = alcove("rollout", "list", "--server", f"127.0.0.1:{hanging_up}", "--token-file", token)
    assert said.code == 3
    assert "Does the server speak TLS?  Then name the certificate to trust: --tls-root." in said.err
    assert "Is the server running (alcove serve)?" in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--grpc-port", "99999"), "--grpc-port: expected less than or equal to 65535, got 99999"),
        (("--tls-certificate", "a.pem"), "--tls-certificate and --tls-key come together"),
        (("--blobs", "ftp://x"), "--blobs: a URL that begins with s3://, gs://, az:// or file://"),
    ],
)
def test_a_setting_of_a_server_is_refused_with_its_bound(
    options: tuple[str, str], message: str, tmp_path: Path
) -> None:
    """By the name of its option; a number with its value, a URL, which may hold a secret, without."""
    (tmp_path / "server-keys").mkdir()
    said = alcove("serve", "--data-dir", tmp_path / "server", *options)
    assert (said.code, said.err.strip()) == (1, f"alcove: {message}")


def test_a_database_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """What libpq says on two lines is one sentence, and the password is in none."""
    said = alcove("token", "list", "--data-dir", tmp_path, "--database", "postgresql://u:secret@127.0.0.1:1/x")
    assert said.code == 1
    assert "postgresql://127.0.0.1:1/x" in said.err
    assert "Connection refused Is the server running" in said.err
    assert "secret" not in said.err
    assert len(said.err.splitlines()) == 1
