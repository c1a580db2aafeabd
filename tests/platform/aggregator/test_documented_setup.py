"""Every command on the page about aggregators works, in its order, on a machine that has what the page says."""

import json
import re
import shlex
import ssl
import subprocess
import sys
from pathlib import Path
from typing import IO

import aiohttp
import pytest
from alcove.platform.cli.main import app_of
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.aggregators import PATIENCE_S
from alcove.platform.testing.certificates import Authority
from alcove.platform.testing.postgres import PostgresServer
from typer.testing import CliRunner

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FREE_PORTS = {
    "leader": ("--host", "127.0.0.1", "--port", "0"),
    "helper": ("--port", "0"),
    "serve": ("--grpc-port", "0", "--http-port", "0"),
}


def list_commands(page: Path) -> list[list[str]]:
    """The words of each `alcove` command of a page, after `alcove`."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [words[1:] for words in map(shlex.split, lines) if words[0] == "alcove"]


def start(words: list[str], folder: Path, log: IO[str]) -> subprocess.Popen[str]:
    """Start a command, as somebody types it in a folder."""
    command = [sys.executable, "-m", "alcove.platform.cli.entry", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder)


async def is_healthy(url: str, authority: Authority) -> bool:
    """Whether an aggregator says so; its certificate must be its own."""
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz", ssl=trust) as answer:
        return answer.status == 200


@pytest.mark.needs("postgresql")
@pytest.mark.thorough
async def test_page_about_aggregators_is_followed_to_its_end(
    repository: Path, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders are made, both seats and the server answer, keys are rotated, and a seat starts on PostgreSQL."""
    world, authority = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)}), Authority.create()
    pair = authority.server()
    for name, content in (("server.pem", pair.certificate), ("server.key", pair.key)):
        path = tmp_path / name
        path.touch(mode=0o600)
        path.write_bytes(content)
    places = {
        "/srv/leader": "pair/leader",
        "/srv/helper": "pair/helper",
        "/etc/leader/": f"{tmp_path}/",
        "/srv/alcove": str(world.data_dir),
        "/etc/alcove/online": str(world.online_keys),
        "/etc/alcove/collector.json": "pair/collector/collector.json",
        "postgresql://leader@db.leader.internal/leader?sslmode=verify-full": postgres.url(postgres.database()),
    }
    seen = []
    for documented in list_commands(repository / "docs/deploy/aggregators.md"):
        words = [
            next((word.replace(theirs, ours) for theirs, ours in places.items() if word.startswith(theirs)), word)
            for word in documented
        ]
        words = ["0" if at and words[at - 1] == "--metrics-port" else word for at, word in enumerate(words)]
        name = words[0] if words[0] == "serve" else words[1]
        seen.append(name)
        if name not in FREE_PORTS:
            monkeypatch.chdir(tmp_path)
            assert CliRunner().invoke(app_of("aggregator"), words).exit_code == 0
            continue
        with (tmp_path / "log").open("a") as log:
            process = start([*words, *FREE_PORTS[name]], tmp_path, log)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        if name != "serve":
            assert await is_healthy(json.loads(line)["http"].replace("127.0.0.1", "localhost"), authority)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, (words, (tmp_path / "log").read_text())
    assert seen == ["create", "leader", "helper", "serve", "leader", "rotate-key", "rotate-key"]
