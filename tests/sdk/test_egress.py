"""All bytes that leave a device are counted, no input is among them, and endless, slow or odd answers are cut off."""

import contextlib
import datetime as dt
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alcove.sdk import (
    Client,
    ClosedError,
    InsecureServerError,
    OutboundRequest,
    ResponseTooLargeError,
    StatusError,
    TransportError,
)
from alcove.sdk.egress import HEADERS, Egress, TufFetcher
from alcove.sdk.transport import TrafficStats, check_server
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tuf.api.exceptions import DownloadError, DownloadHTTPError

from tests.sdk.conftest import FEATURE, Device, TreeServer


@pytest.fixture
def egress(server: TreeServer) -> Iterator[Egress]:
    """A way to the server."""
    egress = Egress(server.url)
    yield egress
    egress.close()


def body(egress: Egress, path: str, *, max_bytes: int = 1 << 20, start: int = 0) -> bytes:
    """Return the whole answer to a GET."""
    with egress.get(path, max_bytes=max_bytes, start=start) as download:
        return b"".join(download.chunks)


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com:80",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://[2001:db8::1]",
        "ftp://example.com",
        "example.com",
        "",
        "https://",
        "https://user@example.com",
        "https://user:secret@example.com",
        "https://example.com/?a=1",
        "https://example.com/#a",
        "https://example.com:99999",
        "https://[::1",
        "http://127.0.0.1\\@example.com",
        "http://localhost\t.example.com",
        "http://127.0.0.1\n",
        "https://exämple.com",
        "https://example.com/a b",
        "HTTPS://example.com",
    ],
)
def test_address_that_is_not_private_is_refused(address: str, tmp_path: Path) -> None:
    """Plain HTTP beyond loopback, and addresses that say more than a place, are refused when the client is made."""
    with pytest.raises(InsecureServerError) as caught:
        Client("app", tmp_path / "data", address, b"")
    assert caught.value.server == address
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("address", "checked"),
    [
        ("https://example.com/", "https://example.com"),
        ("https://example.com/a/b/", "https://example.com/a/b"),
        ("http://localhost:80", "http://localhost:80"),
        ("http://127.8.9.1", "http://127.8.9.1"),
        ("http://[::1]:9", "http://[::1]:9"),
    ],
)
def test_private_address_is_taken(address: str, checked: str) -> None:
    """HTTPS anywhere, HTTP on loopback; a final slash changes nothing."""
    assert check_server(address) == checked


@given(st.text())
def test_any_text_is_an_address_or_refused(address: str) -> None:
    """Nothing but the typed error comes out."""
    with contextlib.suppress(InsecureServerError):
        assert check_server(address).startswith(("https://", "http://"))


def test_observer_sees_every_byte_and_the_counts_agree(device: Device, server: TreeServer) -> None:
    """What the server got is what the observer saw and the summary counts: requests, headers and all."""
    seen: list[OutboundRequest] = []
    client = device.client(server.url, transport=None, observer=seen.append)
    result = client.sync()
    assert result.error is None
    assert [(sent.method, sent.path) for sent in seen] == [(method, path) for method, path, _ in server.seen]
    assert result.bytes_sent == sum(len(sent.wire) for sent in seen)
    summary = client.privacy_summary()
    assert summary.bytes_sent == result.bytes_sent
    assert {count.kind for count in summary.requests} == {"metadata", "targets", "blobs"}
    assert sum(count.count for count in summary.requests) == len(server.seen)
    assert sum(count.bytes_sent for count in summary.requests) == summary.bytes_sent
    assert summary.report_bytes_sent == 0
    for sent in seen:
        head, _, rest = sent.wire.partition(b"\r\n\r\n")
        assert rest == sent.body == b""
        names = {line.partition(b":")[0].decode() for line in head.split(b"\r\n")[1:]}
        assert names == {"Host", *HEADERS}, sent


def test_headers_are_the_same_for_every_device(device: Device, server: TreeServer) -> None:
    """No cookie, no validator, no identifier: two devices cannot be distinguished by what they send."""
    for name in ("first", "second"):
        device.folder = device.folder.with_name(name)
        device.client(server.url, transport=None).sync()
    half = len(server.seen) // 2
    assert server.seen[:half] == server.seen[half:]


def test_failed_request_is_counted_too(server: TreeServer) -> None:
    """Bytes that were handed over count, whatever came of them."""
    traffic = TrafficStats()
    egress = Egress(server.url, traffic=traffic)
    with pytest.raises(StatusError) as caught:
        body(egress, "/metadata/none.json")
    assert (caught.value.status, caught.value.path) == (404, "/metadata/none.json")
    assert traffic.sent_bytes > 100
    egress.close()


def test_answer_longer_than_asked_for_is_cut_off(egress: Egress, server: TreeServer) -> None:
    """Endless data ends at the bound."""
    (server.folder / "long").write_bytes(b"x" * 300_000)
    assert len(body(egress, "/long", max_bytes=300_000)) == 300_000
    with pytest.raises(ResponseTooLargeError) as caught:
        body(egress, "/long", max_bytes=299_999)
    assert caught.value.limit_bytes == 299_999
    with pytest.raises(ResponseTooLargeError):
        body(egress, "/long", max_bytes=299_999, start=1000)


def test_range_gives_the_rest(egress: Egress, server: TreeServer) -> None:
    """A start continues from there; a server that ignores it says so by starting at 0."""
    (server.folder / "file").write_bytes(bytes(range(256)))
    with egress.get("/file", max_bytes=256, start=200) as download:
        assert (download.start, b"".join(download.chunks)) == (200, bytes(range(200, 256)))
    server.ignores_range = True
    with egress.get("/file", max_bytes=256, start=200) as download:
        assert (download.start, b"".join(download.chunks)) == (0, bytes(range(256)))


@pytest.mark.parametrize("cut", [0, 1, 1000, 99_999])
def test_connection_closed_in_a_body_is_a_typed_error(egress: Egress, server: TreeServer, cut: int) -> None:
    """A body that ends early is never taken for a whole one."""
    (server.folder / "file").write_bytes(b"x" * 100_000)
    server.budget = cut
    with pytest.raises(TransportError, match="GET /file: "):
        body(egress, "/file")


class RawServer:
    """Answers every connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.answer = answer
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def run(self) -> None:
        """Answer until closed."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(self.answer)

    def close(self) -> None:
        """Stop."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\x01\x02",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 206 Partial\r\nContent-Range: nonsense\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 206 Partial\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
)
def test_strange_answers_are_typed_errors(answer: bytes) -> None:
    """Whatever a server says, the caller gets an error of this package; redirects are not followed."""
    server = RawServer(answer)
    egress = Egress(server.url)
    for start in (0, 3):
        with pytest.raises((TransportError, StatusError)):
            body(egress, "/x", start=start)
    egress.close()
    server.close()


def test_answer_that_drips_is_given_up(server: TreeServer) -> None:
    """Below the least pace a server is holding the device up; the clock is by hand."""
    (server.folder / "file").write_bytes(b"x" * 200_000)
    times = iter(range(0, 10_000_000, 1000))
    egress = Egress(server.url, monotonic_s=lambda: next(times))
    with pytest.raises(TransportError, match="a second are due"):
        body(egress, "/file")
    egress.close()


def fetch_all(fetcher: TufFetcher, url: str) -> bytes:
    """Return all bytes of a URL."""
    return b"".join(fetcher.fetch(url))


def test_tree_fetcher_gives_bytes_or_the_errors_that_tuf_expects(egress: Egress, server: TreeServer) -> None:
    """404 is raised with its status at the call, other failures as download errors, other servers never asked."""
    fetcher = TufFetcher(egress, server.url)
    assert fetch_all(fetcher, f"{server.url}/metadata/timestamp.json").startswith(b"{")
    with pytest.raises(DownloadHTTPError) as caught:
        fetcher.fetch(f"{server.url}/metadata/2.root.json")
    assert caught.value.status_code == 404
    server.budget = 10
    with pytest.raises(DownloadError):
        fetch_all(fetcher, f"{server.url}/metadata/timestamp.json")
    for url in ("http://127.0.0.1:1/metadata/x", f"{server.url}.example.com/x", f"{server.url[:-1]}"):
        with pytest.raises(DownloadError, match="not on this client's server"):
            fetch_all(fetcher, url)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of localhost that nobody vouches for; return it and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    (folder / "cert.pem").write_bytes(built.public_bytes(encoding))
    return folder / "cert.pem", folder / "key.pem"


def test_https_is_verified_and_observed(server: TreeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown certificate is refused before anything is sent; a known one works, and the observer reads along."""
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    address = server.url.replace("http://127.0.0.1", "https://localhost")
    seen: list[OutboundRequest] = []
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    suspicious = Egress(address, observer=seen.append)
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        body(suspicious, "/metadata/timestamp.json")
    assert [sent.wire for sent in seen] == [b""]
    suspicious.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    trusting = Egress(address, observer=seen.append)
    assert body(trusting, "/metadata/timestamp.json").startswith(b"{")
    assert seen[-1].wire.startswith(b"GET /metadata/timestamp.json HTTP/1.1\r\n")
    trusting.close()


def test_closing_wakes_who_reads_through_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket is shut beneath the session: a typed error at once, not after the longest silence."""
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    half_said = threading.Event()
    held: list[ssl.SSLSocket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def say_half() -> None:
            connection = context.wrap_socket(listener.accept()[0], server_side=True)
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            held.append(connection)
            half_said.set()

        egress = Egress(f"https://localhost:{listener.getsockname()[1]}")
        ended: list[BaseException] = []

        def read() -> None:
            try:
                body(egress, "/x")
            except ClosedError as error:
                ended.append(error)

        threads = [threading.Thread(target=work, daemon=True) for work in (say_half, read)]
        for thread in threads:
            thread.start()
        assert half_said.wait(60)
        egress.close()
        for thread in threads:
            thread.join(20)  # below the 30 seconds of silence that end it anyhow
        for connection in held:
            connection.close()
        assert len(ended) == 1


def leaky(device: Device) -> Callable[[str], object]:
    """Return a wrong client's prediction: it tells the server about its input."""
    client = device.client()
    transport = device.transport

    def predict(text: str) -> object:
        transport.post("/reports", text.encode())
        return client.feature(FEATURE).predict(text)

    return predict


CANARY = "the canary sings 7f3a91c2"


def carries(requests: list[OutboundRequest]) -> bool:
    """Whether anything of the canary is in what left."""
    forms = [CANARY.encode(), CANARY.encode().hex().encode(), CANARY.encode("utf-16-le"), CANARY[::-1].encode()]
    return any(form in sent.wire for sent in requests for form in forms)


def test_nothing_of_an_input_leaves(device: Device) -> None:
    """A canary in every input is in no byte that leaves, through sync, outcome and report."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    client = device.client()
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict(CANARY)
    handle.record_outcome(accepted=True)
    assert client.report().sent == 1
    client.sync()
    assert not carries(device.transport.requests)


def test_leaky_client_is_caught(device: Device) -> None:
    """The search above finds a canary when a client tells."""
    leaky(device)(CANARY)
    assert carries(device.transport.requests)
