"""Runs nginx for tests: with the committed configuration, its installation's lines changed."""

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["NGINX", "NGINX_CONFIGURATION", "running_nginx"]

NGINX: Final = shutil.which("nginx") or "/usr/sbin/nginx"
"""Where it is, if it is installed."""
NGINX_CONFIGURATION: Final = Path(__file__).resolve().parents[2] / "docs" / "deploy" / "nginx.conf"
START_S: Final = 60.0
_PARTS: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextlib.contextmanager
def running_nginx(folder: Path, tree: Path, upstream: str, *, is_limited: bool = True) -> Iterator[str]:
    """Run nginx in front of a tree and a server, and give its address; it ends with the block.

    Args:
        folder: for its files; must exist.
        tree: the static tree.
        upstream: "host:port" of the server that takes reports.
        is_limited: whether one address has its share only.

    Raises:
        RuntimeError: it did not answer in time; the message has its log.
    """
    port = _free_port()
    path, log = folder / "nginx.conf", folder / "nginx.log"
    text = _write_configuration(folder, tree, port, upstream)
    lines = [
        line for line in text.splitlines() if is_limited or not line.strip().startswith(("limit_conn ", "limit_req "))
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with log.open("w") as stderr:
        process = subprocess.Popen([NGINX, "-c", str(path)], stderr=stderr)  # noqa: S603 - Debian's, our file
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(START_S)


def _write_configuration(folder: Path, tree: Path, port: int, upstream: str) -> str:
    text = NGINX_CONFIGURATION.read_text(encoding="utf-8")
    temporary = "".join(f"    {part}_temp_path {folder}/{part};\n" for part in _PARTS)
    for old, new in {
        "pid /run/nginx.pid;": f"pid {folder}/nginx.pid;\ndaemon off;\nuser root;",
        "server 127.0.0.1:7480;": f"server {upstream};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port};",
        "ssl_certificate /etc/alcove/tls/fullchain.pem;": "",
        "ssl_certificate_key /etc/alcove/tls/key.pem;": "",
        "root /srv/alcove/tree;": f"root {tree};",
        "    access_log off;": f"    access_log off;\n{temporary}",
    }.items():
        if text.count(old) != 1:
            raise RuntimeError(f"{NGINX_CONFIGURATION.name} has {old!r} {text.count(old)} times, not once")
        text = text.replace(old, new)
    return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/metadata/timestamp.json", timeout=START_S).close()  # noqa: S310 - loopback
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            time.sleep(0.05)
            continue
        return
    raise RuntimeError(f"nginx does not answer: {log.read_text()}")
