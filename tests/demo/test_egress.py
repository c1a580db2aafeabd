"""What a person types never leaves the device: all bytes that do are recorded on the wire and searched."""

import base64
import codecs
import gzip
import itertools
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.actors import Person, Typing, load_sentences
from alcove.platform.cli.demo.device import Device
from alcove.platform.cli.demo.environment import APP, Devices
from alcove.platform.cli.demo.testing import Environment
from alcove.privacy.limits import REPORT_BYTES
from alcove.registry.zstd import zstd
from alcove.sdk import Client
from alcove.sdk.egress import Egress
from alcove.sdk.errors import RemoteError

CANARY = "Kanarienvogel7391Xylophon"


class Recorder:
    """A TCP relay on loopback that keeps every byte that clients send."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._streams: list[bytearray] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def streams(self) -> list[bytes]:
        """What each connection sent."""
        return [bytes(stream) for stream in self._streams]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            stream = bytearray()
            self._streams.append(stream)
            for source, sink, kept in ((client, server, stream), (server, client, None)):
                thread = threading.Thread(target=self._pump, args=(source, sink, kept))
                thread.start()
                self._threads.append(thread)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, kept: bytearray | None) -> None:
        try:
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def close(self) -> None:
        """Stop listening and let the pumps end."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(5)
        for thread in self._threads:
            thread.join(5)
        for end in self._sockets:
            end.close()


@contextmanager
def record_traffic(server: str) -> Iterator[Recorder]:
    """A relay to `server` for the block."""
    parts = urllib.parse.urlsplit(server)
    recorder = Recorder(str(parts.hostname), int(parts.port or 0))
    try:
        yield recorder
    finally:
        recorder.close()


def _unzstd(piece: bytes) -> bytes:
    return zstd.ZstdDecompressor().decompress(piece)


PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": lambda piece: zlib.decompressobj(31).decompress(piece, 1 << 20),
    b"\x28\xb5\x2f\xfd": _unzstd,
    b"\x78": lambda piece: zlib.decompressobj().decompress(piece, 1 << 20),
}
"""How packed bytes begin, and how they are unpacked."""


def spellings(text: str) -> dict[str, bytes]:
    """The ways in which a text may hide in bytes, each without the parts that depend on its neighbours."""
    raw = text.encode()
    found = {
        "utf-8": raw.lower(),
        "utf-16": text.encode("utf-16-le").lower(),
        "utf-16, other order": text.encode("utf-16-be").lower(),
        "hexadecimal": raw.hex().encode(),
        "backwards": raw[::-1].lower(),
        "rot13": codecs.encode(text, "rot13").encode().lower(),
    }
    for shift in range(3):
        # Three letters of base64 hold two neighbours' bits at either end.
        encoded = base64.b64encode(b"\0" * shift + raw).rstrip(b"=")
        found[f"base64, shifted {shift}"] = encoded[4 if shift else 0 : -2].lower()
        found[f"base64 for addresses, shifted {shift}"] = found[f"base64, shifted {shift}"].translate(
            bytes.maketrans(b"+/", b"-_")
        )
    return found


def unpack(data: bytes) -> Iterator[bytes]:
    """`data`, and whatever in it can be decompressed or unescaped, from any position."""
    yield data
    yield urllib.parse.unquote_to_bytes(data)
    for magic, decode in PACKERS.items():
        for match in itertools.islice(re.finditer(re.escape(magic), data), 2000):
            try:
                yield decode(data[match.start() :])
            except (zlib.error, zstd.ZstdError):
                continue


def traces(stream: bytes, text: str) -> list[str]:
    """Names of the spellings of `text` that occur in what was sent."""
    return [name for piece in unpack(stream) for name, spelled in spellings(text).items() if spelled in piece.lower()]


def find_leaks(recorder: Recorder) -> list[str]:
    """Traces of the canary in everything that was sent, connection by connection and in one piece."""
    streams = recorder.streams
    return [trace for stream in [*streams, b"".join(streams)] for trace in traces(stream, CANARY)]


def test_nothing_that_people_type_leaves_the_demo_devices(world: Environment) -> None:
    """Devices whose every input holds the canary send none of it, in any spelling; each sends one report's bytes."""
    with record_traffic(world.server.http) as recorder:
        with Devices(3, world.places, recorder.address, baseline=program_path("1.0.0"), canary=CANARY) as devices:
            assert all(answer["texts"] == 2 for answer in devices.ask("read", count=2))
            assert all(answer["error"] is None for answer in devices.ask("sync"))
            assert all(answer["reason"] == "experiment" for answer in devices.ask("read", count=5))
            assert all(answer["sent"] == 1 for answer in devices.ask("report"))
            assert all(answer["error"] is None for answer in devices.ask("sync"))
            summaries = devices.ask("privacy")
        sent = recorder.streams
    assert sum(len(stream) for stream in sent) == sum(summary["bytes_sent"] for summary in summaries)
    posts = [stream for stream in sent if b"POST /reports" in stream]
    bodies = [body for stream in posts for body in re.findall(rb"POST /reports.*?\r\n\r\n(.{38})", stream, re.DOTALL)]
    assert [len(body) for body in bodies] == [REPORT_BYTES] * 3
    assert find_leaks(recorder) == []


def test_requests_are_the_same_on_every_device(world: Environment) -> None:
    """Two devices ask for the same files in the same words, whatever their arm."""
    seen = []
    for number in (100, 101):
        with record_traffic(world.server.http) as recorder:
            baseline = program_path("1.0.0")
            data_dir = world.places.device(number)
            with Client(
                APP, data_dir, recorder.address, world.places.root, baselines={"language_id": baseline}
            ) as client:
                assert client.sync().error is None
            port = recorder.address.rpartition(":")[2].encode()
            seen.append([stream.replace(port, b"PORT") for stream in recorder.streams])
    assert seen[0] == seen[1]


LEAKS: dict[str, Callable[[bytes], bytes]] = {
    "raw": lambda text: text,
    "hexadecimal": lambda text: text.hex().encode(),
    "base64": base64.b64encode,
    "base64, shifted": lambda text: base64.urlsafe_b64encode(b"x" + text),
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zstd": zstd.compress,
    "utf-16": lambda text: text.decode().encode("utf-16"),
    "percent": lambda text: "".join(f"%{byte:02x}" for byte in text).encode(),
    "upper case": bytes.upper,
    "inside JSON": lambda text: json.dumps({"debug": text.decode()}).encode(),
}


class LeakyPerson(Person):
    """A build whose author wanted a little debugging: each text goes along with the next report."""

    def __init__(self, seed: int, leak: Callable[[bytes], None]) -> None:
        super().__init__(seed, load_sentences(), canary=CANARY)
        self._leak = leak

    def write(self) -> Typing:
        """Write, and leak."""
        typing = super().write()
        self._leak(typing.whole.encode())
        return typing


@pytest.mark.parametrize("encoding", LEAKS)
def test_a_leaky_build_is_caught(world: Environment, tmp_path: Path, encoding: str) -> None:
    """The same search finds what a deliberately leaky build sends, however it is wrapped."""
    with record_traffic(world.server.http) as recorder:
        egress = Egress(recorder.address)

        def leak(text: bytes) -> None:
            with suppress(RemoteError):  # the server refuses it; the bytes have left all the same
                egress.post("/reports", LEAKS[encoding](text))

        baseline = {"language_id": program_path("1.0.0")}
        with Client(APP, tmp_path / "data", recorder.address, world.places.root, baselines=baseline) as client:
            Device(client, LeakyPerson(1, leak)).read(1)
        egress.close()
    assert find_leaks(recorder)


def test_predict_works_without_any_network(tmp_path: Path) -> None:
    """In a network namespace with no interface at all, a feature answers."""
    probe = subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"this machine permits no network namespaces: {probe.stderr.strip()}")
    code = (
        "import sys\n"
        "from alcove.sdk import Client\n"
        "client = Client('a', sys.argv[1], 'https://models.invalid', b'{}')\n"
        "lid = client.feature('language_id')\n"
        "print(lid.predict('Wo ist der Bahnhof?').value.language)\n"
        "print(client.sync().error is not None, lid.predict('Où est la gare ?').value.language)\n"
    )
    command = ["unshare", "-rn", sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["de", "True", "fr"], done.stderr


def test_the_native_library_can_open_no_socket(repository: Path) -> None:
    """The runtime's libraries import no function of the network."""
    import alcove.runtime._native as native

    folder = Path(native.__file__).parent
    for library in (Path(native.__file__), folder / "libalcove.so"):
        listed = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True)
        names = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
        assert not names & {"socket", "connect", "send", "sendto", "sendmsg", "getaddrinfo", "bind", "listen", "dlopen"}
