"""The devices' process beside the server: it is kept, it ends with the server, and it has no key."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.domain.errors import IngressFailedError
from alcove.platform.ingress.figures import IngressFigures
from alcove.platform.listening.http import listen_http
from alcove.platform.server.ingress_process import IngressProcess
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.store import Store
from alcove.platform.testing import Served, ServerWorld

PATIENCE_S = 60.0


@pytest.fixture
def fresh(tmp_path: Path) -> ServerWorld:
    """A world whose server may be killed."""
    return ServerWorld(tmp_path / "fresh", teams={"text": ("text_00",)})


@pytest.fixture
def settings(fresh: ServerWorld) -> Settings:
    """Of that world's server, on free ports."""
    return Settings(data_dir=fresh.data_dir, online_keys=fresh.online_keys, grpc_port=0, http_port=0)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def get(url: str) -> bytes:
    """The body of an answer."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def events(served: Served) -> list[str]:
    """What the log of both processes tells, each line JSON."""
    return [str(json.loads(line)["event"]) for line in served.log.read_text().splitlines()]


@contextlib.contextmanager
def start_server(world: ServerWorld, *options: str) -> Iterator[Served]:
    """A server that is stopped at the end."""
    served = world.start(*options)
    try:
        yield served
    finally:
        assert served.stop() == 0


def test_one_command_starts_both_and_ends_both(fresh: ServerWorld) -> None:
    """Two processes, one ready line; after SIGTERM neither is there and the log has said so once."""
    with start_server(fresh) as served:
        (ingress,) = children(served.pid)
        assert get(f"{served.http_url}/healthz") == b"ok\n"
        with fresh.client(served, "reader") as reader:
            assert reader.versions() == []
    assert not Path(f"/proc/{ingress}").exists()
    assert [event for event in events(served) if event in ("serving", "stopping")] == ["serving", "stopping"]


@pytest.mark.thorough
def test_a_signal_to_the_whole_group_ends_both_in_order(fresh: ServerWorld) -> None:
    """As a terminal or a service manager sends it: the devices' process waits for its server's word."""
    served = fresh.start()
    (ingress,) = children(served.pid)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(ingress, number)
    assert get(f"{served.http_url}/healthz") == b"ok\n"
    assert served.stop() == 0
    assert "the devices' process ended: it is started again" not in events(served)


def test_the_devices_process_that_is_killed_is_started_again_on_its_port(fresh: ServerWorld) -> None:
    """Operators notice nothing, devices wait; the log and the metrics tell."""
    with start_server(fresh, "--metrics-port", "0") as served:
        (first,) = children(served.pid)
        os.kill(first, signal.SIGKILL)
        assert get(f"{served.http_url}/healthz") == b"ok\n"  # waits in the queue of the port
        (second,) = children(served.pid)
        assert second != first
        assert served.metrics_url is not None
        assert "alcove_ingress_restarts 1.0" in get(served.metrics_url).decode()
    assert events(served).count("the devices' process ended: it is started again") == 1


@pytest.mark.thorough
def test_the_devices_process_ends_when_its_server_is_killed(fresh: ServerWorld) -> None:
    """No orphan holds the port: the next server opens it."""
    served = fresh.start()
    (ingress,) = children(served.pid)
    served.kill()
    until_s = time.monotonic() + PATIENCE_S
    while _runs(ingress):
        assert time.monotonic() < until_s
    assert events(served)[-1] == "the server of this process is gone: the devices' port closes"
    with start_server(fresh, "--http-port", served.http_url.rpartition(":")[2]):
        pass


def _runs(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    return False


def test_the_devices_process_has_no_key_and_no_secret_in_its_command_line(fresh: ServerWorld) -> None:
    """It does not learn where the keys are, nor do its command line or environment hold more than the server's."""
    settings = Settings(data_dir=fresh.data_dir, online_keys=fresh.online_keys)
    assert "keys" not in settings.ingress.to_json()
    with start_server(fresh) as served:
        (ingress,) = children(served.pid)
        command = Path(f"/proc/{ingress}/cmdline").read_bytes()
        assert str(fresh.folder).encode() not in command


@pytest.mark.thorough
def test_devices_are_answered_without_keys_where_only_they_are_asked_for(fresh: ServerWorld) -> None:
    """Two commands in the place of one: gRPC with the keys, devices without them."""
    with start_server(fresh, "--only", "grpc") as served:
        assert served.http_url == ""
        assert children(served.pid) == []
        command = [
            sys.executable,
            "-m",
            "alcove.platform.ingress",
            "--data-dir",
            str(fresh.data_dir),
            "--http-port",
            "0",
        ]
        alone = subprocess.Popen([*command, "--metrics-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert alone.stdout is not None
        ready = json.loads(alone.stdout.readline())
        assert get(f"{ready['http']}/metadata/1.root.json") == fresh.tree.root_bytes()
        assert "alcove_reports_counted 0.0" in get(ready["metrics"]).decode()
        alone.send_signal(signal.SIGTERM)
        assert alone.wait(PATIENCE_S) == 0
        alone.stdout.close()


async def test_a_devices_process_that_cannot_start_stops_the_start(settings: Settings, tmp_path: Path) -> None:
    """Its own words are in the error: here, a certificate that is none."""
    for name in ("chain.pem", "key.pem"):
        (tmp_path / name).write_text("none")
        (tmp_path / name).chmod(0o600)
    await (await Store.open(settings.database)).close()
    ingress = settings.ingress.model_copy(
        update={"tls_certificate": tmp_path / "chain.pem", "tls_key": tmp_path / "key.pem"}
    )
    with listen_http("127.0.0.1", 0) as listener:
        process = IngressProcess(ingress, listener)
        await process.launch()
        with pytest.raises(IngressFailedError, match="PEM"):
            await process.open()
        await process.close()
    assert process.pid is None


async def test_a_devices_process_that_ends_before_it_answers_is_reported(settings: Settings) -> None:
    """Killed while it starts: a typed error, no wait."""
    with listen_http("127.0.0.1", 0) as listener:
        process = IngressProcess(settings.ingress, listener)
        await process.launch()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(IngressFailedError, match="ended"):
            await process.open()
        await process.close()
        assert await process.figures() == IngressFigures()


async def test_figures_of_a_process_that_does_not_answer_are_those_of_the_last_time(settings: Settings) -> None:
    """A stopped process (SIGSTOP) delays the metrics page, and does not break it."""
    async with run(settings) as running:
        assert running.ingress is not None
        before = await running.ingress.figures()
        assert running.ingress.pid is not None
        os.kill(running.ingress.pid, signal.SIGSTOP)
        try:
            assert await running.ingress.figures() == before
        finally:
            os.kill(running.ingress.pid, signal.SIGCONT)
        await asyncio.sleep(0)


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"counted": 1, "refused": [], "connections": 0}', "x"])
def test_a_line_that_is_no_figures_is_refused(line: str) -> None:
    """A stray line from the other process is a ValueError, nothing else."""
    with pytest.raises(ValueError, match="no figures"):
        IngressFigures.from_json(line)
    figures = IngressFigures(1, {"malformed": 2}, 3, {"changed": 4})
    assert IngressFigures.from_json(figures.to_json()) == figures
