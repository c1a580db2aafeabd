"""Measures the check-ins a second that the servers answer: real servers, loopback, both cores, the client beside.

    python -m benchmarks.checkins [--seconds 3] [--rounds 3] [--write docs/performance.md] [--json FILE]

A check-in is what a device asks that has all: for the next root, which is not there, and for the timestamp.
Connections
are kept open, without TLS: the figure is of the servers' own work.
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import socket
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from alcove.platform.testing import ServerWorld
from alcove.platform.testing.nginx import NGINX, running_nginx

from benchmarks.figures import Figure
from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

CONNECTIONS = 32
FEATURE = "text_00"
SECTION = Section("checkins", "python -m benchmarks.checkins --write docs/performance.md")
GOALS = {"nginx": 5000, "alcove serve": 1000}


class Device:
    """One connection on which check-ins follow each other.

    Args:
        address: host and port.
        next_root: number of the root that is asked for.
    """

    def __init__(self, address: tuple[str, int], next_root: int) -> None:
        headers = f"Host: {address[0]}\r\nUser-Agent: alcove\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n"
        asked = ((f"/metadata/{next_root}.root.json", b"404"), ("/metadata/timestamp.json", b"200"))
        self._steps = [(f"GET {path} HTTP/1.1\r\n{headers}".encode(), status) for path, status in asked]
        self._address = address
        self.socket = self._connect()
        self._seen = b""
        self._step = 0
        self.done = 0

    def _connect(self) -> socket.socket:
        result = socket.create_connection(self._address)
        result.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return result

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def again(self) -> None:
        """Open another connection and ask on it what was not answered."""
        self.socket.close()
        self.socket = self._connect()
        self._seen = b""
        self.ask()

    def ask(self) -> None:
        """Send the next request."""
        self.socket.sendall(self._steps[self._step][0])

    def hear(self) -> bool:
        """Take what has come; a whole answer is followed by the next request; tell whether the connection still is.

        Servers close one after a number of requests.

        Raises:
            ConnectionError: the server answered something else.
        """
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        if not data:
            return False
        self._seen += data
        if is_whole(self._seen, self._steps[self._step][1]):
            self._seen = b""
            self._step = (self._step + 1) % len(self._steps)
            self.done += self._step == 0
            self.ask()
        return True


def is_whole(data: bytes, status: bytes) -> bool:
    """Tell whether one answer of this status is all there.

    Raises:
        ConnectionError: it has another status, or more came than one answer.
    """
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return False
    if head[9:12] != status:
        raise ConnectionError(f"expected {status!r}, got {head[:40]!r}")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    if len(body) > length:
        raise ConnectionError("more came than was asked for")
    return len(body) == length


def rate(url: str, next_root: int, seconds: float) -> float:
    """Return the check-ins a second that a server answers."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 0)
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        devices = [Device(address, next_root) for _ in range(CONNECTIONS)]
        for device in devices:
            stack.callback(device.close)
            selector.register(device.socket, selectors.EVENT_READ, device)
            device.ask()
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            for key, _ in selector.select(1.0):
                if not key.data.hear():
                    selector.unregister(key.fileobj)
                    key.data.again()
                    selector.register(key.data.socket, selectors.EVENT_READ, key.data)
        return sum(device.done for device in devices) / (time.perf_counter() - began_s)


def measure(seconds: float = 3.0, rounds: int = 3) -> list[Figure]:
    """Return the check-ins a second of both servers: the best of several rounds in turn."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        world = ServerWorld(folder / "world", teams={"text": (FEATURE,)})
        served = world.start()
        stack.callback(served.stop)
        with world.client(served, "team:text") as client:
            world.publish(client, FEATURE)
        urls = {"alcove serve": served.http_url}
        if Path(NGINX).exists():
            upstream = served.http_url.removeprefix("http://")
            urls["nginx"] = stack.enter_context(
                running_nginx(folder, world.data_dir / "tree", upstream, is_limited=False)
            )
        best = dict.fromkeys(urls, 0.0)
        for _ in range(rounds):
            for server, url in urls.items():
                best[server] = max(best[server], rate(url, 2, seconds))
    how = f"goal {{:,}}; {CONNECTIONS} connections, no TLS, the client on the same cores"
    return [Figure(f"check-ins: {server}", best[server], "a second", how.format(GOALS[server])) for server in best]


def main() -> None:
    """Measure and print."""
    argument = argparse.ArgumentParser(
        prog="python -m benchmarks.checkins", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    argument.add_argument("--seconds", type=float, default=3.0, help="of each round")
    argument.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    argument.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    argument.add_argument("--write", type=Path, metavar="FILE.md", help="write the section of a page")
    arguments = argument.parse_args()
    figures = measure(arguments.seconds, arguments.rounds)
    for figure in figures:
        print(f"{figure.name}: {figure.text()} ({figure.note})")
    if not Path(NGINX).exists():
        print("nginx is not installed: apt-get install nginx-light")
    if arguments.write:
        rows = [(figure.name, figure.text(), figure.note) for figure in figures]
        text = "\n".join(["## Check-ins", "", *table_lines(("what", "figure", "how"), rows)])
        SECTION.write(arguments.write, text, {})
    write_json(arguments.json, [figure.as_json() for figure in figures])


if __name__ == "__main__":
    main()
