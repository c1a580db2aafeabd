"""The server as a process: where it refuses to start, what it cannot read, how it ends, and what garbage does to it."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.api.rollout.v1 import rollout_pb2
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.platform.domain.errors import (
    DataFolderBusyError,
    KeyWithinReachError,
    OnlineKeyError,
    RepositoryMissingError,
)
from alcove.platform.server.__main__ import main
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.server.startup_checks import hold_data_folder, load_keys, refuse_foreign_keys, verify_keys
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.keys import ONLINE_ROLES, load_signer
from alcove.registry.repository import Repository
from alcove.registry.signers import key_to_bytes
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError

NOBODY = 65534
TEAMS = {"text": ("text_00",)}
FOREIGN = ("offline/root.pem", "offline/targets.pem", "teams/text.pem")


@pytest.fixture
def fresh(tmp_path: Path) -> ServerWorld:
    """A world of its own, whose server may be refused or killed."""
    return ServerWorld(tmp_path / "fresh", teams=TEAMS)


@pytest.fixture
def settings(fresh: ServerWorld) -> Settings:
    """The settings of that world's server."""
    return Settings(data_dir=fresh.data_dir, online_keys=fresh.online_keys)


def check_start(settings: Settings) -> None:
    """All that is checked before a server opens anything."""
    with hold_data_folder(settings):
        refuse_foreign_keys(settings)
        keys = load_keys(settings)
        verify_keys(settings, keys, Repository(settings.tree).state())


@pytest.mark.parametrize("key", FOREIGN)
@pytest.mark.parametrize(
    "place", ["data/key.pem", "data/tree/metadata/not-a-pem-name", "data/deep/er/.hidden", "online/spare.pem"]
)
def test_a_private_key_that_is_not_the_servers_stops_the_start(
    fresh: ServerWorld, settings: Settings, key: str, place: str
) -> None:
    """Wherever it lies in the server's folders and whatever it is called; its path is named."""
    check_start(settings)
    path = fresh.folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(fresh.folder / "keys" / key, path)
    with pytest.raises(KeyWithinReachError) as refusal:
        check_start(settings)
    assert refusal.value.path == path
    path.unlink()
    path.symlink_to(fresh.folder / "keys" / key)
    with pytest.raises(KeyWithinReachError):
        check_start(settings)


def test_a_folder_of_keys_linked_into_reach_stops_the_start(fresh: ServerWorld, settings: Settings) -> None:
    """A link to the teams' folder is as good as the folder."""
    (fresh.data_dir / "link").symlink_to(fresh.folder / "keys" / "teams")
    with pytest.raises(KeyWithinReachError, match=r"text\.pem"):
        check_start(settings)


def test_what_teams_upload_is_no_key_whatever_it_says(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that quotes a key stops no start; blobs are not even opened."""
    card = b"-----BEGIN PRIVATE KEY-----\n..."
    blob = settings.tree / "blobs" / hashlib.sha256(card).hexdigest()
    blob.parent.mkdir(exist_ok=True)
    settings.uploads.mkdir()
    for path in (blob, settings.uploads / "tmpleft"):
        path.write_bytes(card)
    opened: list[Path] = []
    really_open = Path.open

    def note(path: Path, *args: Any, **options: Any) -> Any:
        opened.append(path)
        return really_open(path, *args, **options)

    monkeypatch.setattr(Path, "open", note)
    refuse_foreign_keys(settings)
    assert any(path.name == "policy.pem" or path.suffix == ".json" for path in opened)
    assert blob not in opened


def test_links_in_a_circle_end(fresh: ServerWorld, settings: Settings) -> None:
    """A link to a folder above is followed once; a key behind it is still found."""
    deep = fresh.data_dir / "deep" / "er"
    deep.mkdir(parents=True)
    for number in range(3):
        (deep / f"up-{number}").symlink_to(fresh.data_dir)
    check_start(settings)
    shutil.copy(fresh.folder / "keys" / FOREIGN[0], deep / "key")
    with pytest.raises(KeyWithinReachError, match="key"):
        check_start(settings)


@pytest.mark.parametrize("role", ONLINE_ROLES)
@pytest.mark.parametrize("key", FOREIGN)
def test_another_key_under_an_online_name_stops_the_start(
    fresh: ServerWorld, settings: Settings, role: str, key: str
) -> None:
    """A team's or an offline key under the name of an online key is not the key that the tree trusts."""
    shutil.copy(fresh.folder / "keys" / key, settings.online_keys / f"{role}.pem")
    with pytest.raises(OnlineKeyError, match=role):
        check_start(settings)


@pytest.mark.parametrize("role", ONLINE_ROLES)
def test_a_missing_open_or_broken_online_key_is_named(settings: Settings, role: str) -> None:
    """Absent, readable by others, or no key at all: the role and the file are reported."""
    path = settings.online_keys / f"{role}.pem"
    good = path.read_bytes()
    path.chmod(0o644)
    with pytest.raises(OnlineKeyError, match=role):
        check_start(settings)
    path.chmod(0o600)
    path.write_bytes(b"no key")
    with pytest.raises(OnlineKeyError, match=role):
        check_start(settings)
    path.unlink()
    with pytest.raises(OnlineKeyError, match=role):
        check_start(settings)
    path.write_bytes(good)
    path.chmod(0o600)
    check_start(settings)


def test_a_data_folder_without_a_tree_is_reported(tmp_path: Path, settings: Settings) -> None:
    """The message says how a tree is made."""
    empty = settings.model_copy(update={"data_dir": tmp_path})
    with pytest.raises(RepositoryMissingError, match="alcove keys create"):
        check_start(empty)


def test_a_data_folder_has_one_server(settings: Settings) -> None:
    """The second is refused while the first runs, not after."""
    with hold_data_folder(settings), pytest.raises(DataFolderBusyError), hold_data_folder(settings):
        pass
    check_start(settings)


@pytest.mark.parametrize(
    "change",
    [
        {"grpc_port": -1},
        {"http_port": 65536},
        {"tls_key": "key.pem"},
        {"tls_certificate": "chain.pem"},
        {"reports_per_second": 0},
        {"refresh_s": 86_400},
        {"unknown": 1},
    ],
)
def test_settings_out_of_their_bounds_are_refused(settings: Settings, change: dict[str, object]) -> None:
    """What is set must make sense before anything starts."""
    with pytest.raises(ValidationError):
        Settings.model_validate(settings.model_dump() | change)


def test_the_server_listens_on_this_machine_only_unless_asked(settings: Settings) -> None:
    """Nobody is served by accident."""
    assert settings.host == "127.0.0.1"


def test_a_refused_start_says_why_and_exits_with_1(fresh: ServerWorld) -> None:
    """One sentence on standard error, no traceback, no ready line, and nothing was opened."""
    shutil.copy(fresh.folder / "keys" / "teams" / "text.pem", fresh.data_dir / "oops")
    done = subprocess.run(fresh.command(), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "oops is a private key" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (fresh.data_dir / "alcove.db").exists()


def test_wrong_options_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, the option and its bound."""
    assert main(["--data-dir", "x", "--online-keys", "y", "--grpc-port", "many"]) == 2
    assert "--grpc-port" in capsys.readouterr().err


@pytest.mark.parametrize(
    "uid",
    [None, pytest.param(NOBODY, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user"))],
)
def test_the_team_key_is_out_of_the_servers_reach(fresh: ServerWorld, uid: int | None) -> None:
    """The server publishes what the team signs and opens no key that signs; as another user it could not read one."""
    team_key, notes = fresh.folder / "keys" / "teams" / "text.pem", fresh.folder / "opened"
    fresh.token("team:text")
    if uid is not None:
        fresh.give_to(uid)
    with _open_to_all(fresh.folder):
        served = fresh.start(as_uid=uid, note_opened=notes)
        with fresh.client(served, "team:text") as team:
            assert fresh.publish(team, "text_00").version == "1.0.0"
        if uid is not None:
            status = Path(f"/proc/{served.pid}/status").read_text()
            assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}" in status
            assert (team_key.stat().st_uid, team_key.stat().st_mode & 0o777) == (0, 0o600)
        assert served.stop() == 0
    keys = (fresh.folder / "keys").resolve()
    everything = [Path(line) for line in notes.read_text().splitlines()]
    assert not [path for path in everything if path.is_relative_to(keys)]
    top = fresh.folder.resolve()
    opened = {path.relative_to(top) for path in everything if path.is_relative_to(fresh.online_keys.resolve())}
    # Besides its own keys it opens what it notes there of what it has published, and where the others were made.
    names = ("", "published.json", ".published.json.partial", "ceremony.json")
    noted = {Path("online", name) for name in names}
    assert opened == {Path("online", f"{role}.pem") for role in ONLINE_ROLES} | noted


@contextlib.contextmanager
def _open_to_all(folder: Path) -> Iterator[None]:
    """Let other users walk down to `folder` while the test runs."""
    changed = []
    for parent in folder.parents:
        mode = parent.stat().st_mode & 0o777
        if parent.stat().st_uid == os.geteuid() and not mode & 0o001:
            parent.chmod(mode | 0o011)
            changed.append((parent, mode))
    try:
        yield
    finally:
        for parent, mode in changed:
            parent.chmod(mode)


def test_the_ready_line_and_the_health_service_tell_that_it_serves(served: Served) -> None:
    """A parent process and a load balancer can both know; health needs no token."""
    with grpc.insecure_channel(served.grpc_address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert served.grpc_address.startswith("127.0.0.1:")
    assert served.http_url.startswith("http://127.0.0.1:")


def _has_ipv6_loopback() -> bool:
    """Whether this machine can listen on ::1."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.thorough
@pytest.mark.skipif(not _has_ipv6_loopback(), reason="this machine has no IPv6 loopback: serving on ::1 is NOT tested")
def test_an_ipv6_host_is_served_on_both_ports(fresh: ServerWorld) -> None:
    """The addresses that are reported have brackets, and both answer."""
    served = fresh.start("--host", "::1")
    assert served.grpc_address.startswith("[::1]:")
    assert served.http_url.startswith("http://[::1]:")
    with fresh.client(served, "reader") as reader:
        assert reader.versions() == []
    with urllib.request.urlopen(served.http_url + "/healthz", timeout=60) as answer:
        assert answer.read() == b"ok\n"
    assert served.stop() == 0


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("a.example", "a.example")])
def test_an_ipv6_host_stands_in_brackets_before_a_port(settings: Settings, host: str, shown: str) -> None:
    """Names and IPv4 addresses stay as they are."""
    assert settings.model_copy(update={"host": host}).url_host == shown


def test_garbage_on_the_grpc_port_harms_nobody(served: Served, world: ServerWorld) -> None:
    """Random bytes, an HTTP/1 request, half a preface, a TLS hello: each is dropped, and calls go on."""
    host, _, port = served.grpc_address.rpartition(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    rubbish = [
        b"",
        b"\x00" * 4096,
        os.urandom(4096),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        preface[:10],
        preface + os.urandom(4096),
        preface + b"\xff" * 9,
        preface + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\xff\xff\xff\x01\x00\x00\x00\x00\x01" * 50,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200),
    ]
    for data in rubbish:
        with socket.create_connection((host, int(port)), timeout=60) as connection, contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    with world.client(served, "reader") as reader:
        reader.versions()
    assert served.process is not None
    assert served.process.poll() is None


def test_sigterm_lets_a_call_under_way_finish(fresh: ServerWorld) -> None:
    """An upload that has begun when the server stops is stored; then it exits with 0 and frees the folder."""
    served = fresh.start()
    data = b"the last upload" * 1000
    sha256 = hashlib.sha256(data).hexdigest()

    def parts() -> Iterator[pb.UploadBlobRequest]:
        yield pb.UploadBlobRequest(header=pb.BlobHeader(sha256=sha256, size_bytes=len(data)))
        yield pb.UploadBlobRequest(chunk=data[:1000])
        deadline_s = time.monotonic() + 20
        while not _holds_upload(served):
            assert time.monotonic() < deadline_s
        os.kill(served.pid, signal.SIGTERM)
        yield pb.UploadBlobRequest(chunk=data[1000:])

    token = (("authorization", f"Bearer {fresh.token('team:text')}"),)
    with grpc.insecure_channel(served.grpc_address) as channel:
        answer = RegistryServiceStub(channel).UploadBlob(parts(), timeout=30, metadata=token)
    assert answer.sha256 == sha256
    assert served.stop() == 0
    assert (fresh.data_dir / "tree" / "blobs" / sha256).read_bytes() == data
    with hold_data_folder(Settings(data_dir=fresh.data_dir, online_keys=fresh.online_keys)):
        pass
    log = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert [line["event"] for line in log if line["event"] in ("serving", "stopping")] == ["serving", "stopping"]


def _holds_upload(served: Served) -> bool:
    """Whether the server has an upload's temporary file open."""
    links = Path(f"/proc/{served.pid}/fd").iterdir()
    with contextlib.suppress(FileNotFoundError):
        return any("uploads" in str(link.readlink()) for link in links)
    return False


async def test_a_port_that_is_taken_is_reported(settings: Settings, served: Served) -> None:
    """Neither port is shared with another server."""
    for field, address in (("grpc_port", served.grpc_address), ("http_port", served.http_url)):
        ports = {"grpc_port": 0, "http_port": 0} | {field: int(address.rpartition(":")[2])}
        with pytest.raises(OSError, match=r"(?i)in use"):
            async with run(settings.model_copy(update=ports)):
                pass


async def test_calls_that_are_given_up_harm_nobody(fresh: ServerWorld, settings: Settings) -> None:
    """Hundreds of calls cut off at any moment leave no lock and no broken connection behind."""
    token = await asyncio.to_thread(fresh.token, "operator")
    header = (("authorization", f"Bearer {token}"),)
    async with (
        run(settings.model_copy(update={"grpc_port": 0, "http_port": 0})) as running,
        contextlib.AsyncExitStack() as stack,
    ):
        ways = (("grpc.use_local_subchannel_pool", 1),)  # a connection each: HTTP/2 bounds the calls of one
        channels = [grpc.aio.insecure_channel(running.grpc_address, options=ways) for _ in range(3)]
        stubs: list[Any] = [RolloutServiceStub(await stack.enter_async_context(channel)) for channel in channels]

        async def give_up(number: int) -> None:
            request = rollout_pb2.CreateRolloutRequest(
                request_id=f"given-up-{number}", app="app", feature="text_00", version="1.0.0"
            )
            call = stubs[number % 3].CreateRollout(request, metadata=header, timeout=60)
            await asyncio.sleep(number % 40 / 2000)
            call.cancel()

        await asyncio.gather(*(give_up(number) for number in range(300)))
        for number in range(3):
            request = rollout_pb2.CreateRolloutRequest(
                request_id=f"asked-{number:04d}", app="app", feature="text_00", version="1.0.0"
            )
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await stubs[number].CreateRollout(request, metadata=header, timeout=60)
            assert failure.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("place", ["keys/elsewhere.pem", "online/named.pem"])
@pytest.mark.parametrize("role", ONLINE_ROLES)
def test_a_key_that_a_uri_names_is_checked_as_one_beside(
    fresh: ServerWorld, settings: Settings, role: str, place: str
) -> None:
    """Within the server's folders it is its own; another key behind the URI, or beside it, stops the start."""
    folder, elsewhere = settings.online_keys, fresh.folder / place
    key = load_signer(folder / f"{role}.pem").public_key
    (folder / f"{role}.pem").rename(elsewhere)
    named = folder / f"{role}.uri"
    named.write_bytes(key_to_bytes(key, uri=f"file:{elsewhere}"))
    check_start(settings)
    foreign = load_signer(fresh.folder / "keys" / FOREIGN[2]).public_key
    named.write_bytes(key_to_bytes(foreign, uri=f"file:{elsewhere}"))
    with pytest.raises(OnlineKeyError, match="is another key"):
        check_start(settings)
    named.write_bytes(key_to_bytes(foreign, uri=f"file:{fresh.folder / 'keys' / FOREIGN[2]}"))
    elsewhere.unlink()
    with pytest.raises(OnlineKeyError, match="is not the key that the tree trusts") as caught:
        check_start(settings)
    assert caught.value.path == named


@pytest.mark.thorough
def test_a_server_whose_keys_are_elsewhere_serves(fresh: ServerWorld, settings: Settings) -> None:
    """A real process signs with all four."""
    for role in ONLINE_ROLES:
        path = settings.online_keys / f"{role}.pem"
        elsewhere = path.rename(fresh.folder / "keys" / path.name)
        key = load_signer(elsewhere).public_key
        path.with_suffix(".uri").write_bytes(key_to_bytes(key, uri=f"file:{elsewhere}"))
    served = fresh.start()
    with fresh.client(served, "team:text") as team:
        fresh.publish(team, "text_00")
    assert served.stop() == 0
    assert fresh.tree.check().is_sound
