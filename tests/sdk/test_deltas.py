"""A device fetches a delta where it can, and the whole program where the delta is missing or of no use."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.delta import make_delta
from alcove.sdk import StatusError, TransportError
from alcove.sdk.testing import fake_program

from tests.sdk.conftest import FEATURE, Device, World

MakeDevice = Callable[..., Device]
SIZE = 60_000
THIRD = fake_program("three", size_bytes=SIZE, padding="alike")
FOURTH = fake_program("four", size_bytes=SIZE, padding="alike")
FIFTH = fake_program("five", size_bytes=SIZE, padding="alike")


def delta_path(world: World, version: str, at: int = 0) -> str:
    """Return the path of one of a version's deltas on the server."""
    return f"/blobs/{world.manifests[version].variants[0].deltas[at].sha256}"


def program_path(world: World, version: str) -> str:
    """Return the path of a version's program on the server."""
    return f"/blobs/{world.manifests[version].variants[0].sha256}"


def blobs_asked_for(device: Device, before: int = 0) -> list[str]:
    """Return the paths of blobs among a device's requests."""
    return [sent.path for sent in device.transport.requests[before:] if sent.path.startswith("/blobs")]


@pytest.fixture
def behind(released_world: World, make_device: MakeDevice) -> Device:
    """A device that runs 3.0.0, while everybody is to run 4.0.0, of which there is a delta."""
    released_world.push("3.0.0", THIRD)
    released_world.push("4.0.0", FOURTH, bases=(THIRD,))
    released_world.set_policy("3.0.0")
    device = make_device(released_world)
    assert device.client().sync().error is None
    released_world.set_policy("4.0.0")
    return device


def test_next_version_comes_as_a_delta(behind: Device) -> None:
    """One small request; the installed bytes are those that were signed; nothing is left under downloads/."""
    before = len(behind.transport.requests)
    client = behind.client()
    result = client.sync()
    assert result.error is None
    assert behind.answer(client) == "four 4.0.0 default"
    assert blobs_asked_for(behind, before) == [delta_path(behind.world, "4.0.0")]
    assert result.bytes_received < 0.2 * SIZE
    installed = list((behind.folder / "versions" / FEATURE).glob("*/program.alc"))
    assert FOURTH in [path.read_bytes() for path in installed]
    assert list((behind.folder / "downloads").iterdir()) == []


def test_fresh_device_fetches_the_whole_program(behind: Device, make_device: MakeDevice) -> None:
    """It has no base."""
    fresh = make_device(behind.world, "fresh")
    assert fresh.client().sync().error is None
    assert blobs_asked_for(fresh) == [program_path(behind.world, "4.0.0")]


def test_smallest_delta_of_several_installed_bases_is_taken(behind: Device) -> None:
    """Two bases are installed; the one nearer to the program costs less."""
    assert behind.client().sync().error is None
    world = behind.world
    world.push("5.0.0", FIFTH, bases=(THIRD, FOURTH))
    sizes = {delta.sha256: delta.size_bytes for delta in world.manifests["5.0.0"].variants[0].deltas}
    assert len(sizes) == 2
    world.set_policy("5.0.0")
    before = len(behind.transport.requests)
    assert behind.client().sync().error is None
    (asked,) = blobs_asked_for(behind, before)
    assert sizes[asked.removeprefix("/blobs/")] == min(sizes.values())


def damage_file(path: Path, kind: str) -> None:
    """Do something to a file of the server."""
    data = path.read_bytes()
    if kind == "absent":
        path.unlink()
    elif kind == "changed":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif kind == "longer":
        path.write_bytes(data + b"x")


@pytest.mark.parametrize("kind", ["absent", "changed", "longer"])
def test_delta_that_the_server_has_lost_or_spoilt_costs_one_request(behind: Device, kind: str) -> None:
    """The whole program is fetched instead."""
    world = behind.world
    damage_file(world.folder / delta_path(world, "4.0.0").lstrip("/"), kind)
    before = len(behind.transport.requests)
    client = behind.client()
    assert client.sync().error is None
    assert behind.answer(client) == "four 4.0.0 default"
    assert blobs_asked_for(behind, before) == [delta_path(world, "4.0.0"), program_path(world, "4.0.0")]


def test_signed_delta_that_makes_something_else_costs_one_request(
    released_world: World, make_device: MakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team's mistake, or its server's: the digest of the result decides."""
    for number, wrong in enumerate((make_delta(THIRD, FIFTH), b"no delta at all")):
        with monkeypatch.context() as patched:
            patched.setattr("alcove.registry.delta.make_delta", lambda base, program, wrong=wrong: wrong)
            released_world.push(f"{6 + number}.0.0", fake_program(f"v{number}", size_bytes=SIZE), bases=(THIRD,))
    released_world.push("3.0.0", THIRD)
    for number in (0, 1):
        device = make_device(released_world, f"device{number}")
        released_world.set_policy("3.0.0")
        assert device.client().sync().error is None
        released_world.set_policy(f"{6 + number}.0.0")
        before = len(device.transport.requests)
        client = device.client()
        assert client.sync().error is None
        assert device.answer(client) == f"v{number} {6 + number}.0.0 default"
        wanted = [path(released_world, f"{6 + number}.0.0") for path in (delta_path, program_path)]
        assert blobs_asked_for(device, before) == wanted


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_process_that_ends_while_it_applies_a_delta_costs_the_whole_program_once(
    behind: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system without the memory for it ends the app at each try: there is one."""
    process = os.fork()
    if process == 0:
        with monkeypatch.context() as patched:
            patched.setattr("alcove.registry.delta.apply_delta", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            behind.client().sync()
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    before = len(behind.transport.requests)
    client = behind.client()
    assert client.sync().error is None
    assert behind.answer(client) == "four 4.0.0 default"
    assert blobs_asked_for(behind, before) == [program_path(behind.world, "4.0.0")]
    assert list((behind.folder / "downloads").iterdir()) == []


def test_base_that_rotted_on_the_device_is_no_base(behind: Device) -> None:
    """Its digest is looked at before anything is asked for."""
    (program,) = (behind.folder / "versions" / FEATURE).glob("*/program.alc")
    program.chmod(0o644)
    program.write_bytes(THIRD[:-40] + bytes(40))
    before = len(behind.transport.requests)
    assert behind.client().sync().error is None
    assert blobs_asked_for(behind, before) == [program_path(behind.world, "4.0.0")]


def test_delta_cut_in_the_middle_continues_from_there(behind: Device) -> None:
    """Weather: the sync ends, the old version answers, the next sync asks for the rest."""
    behind.transport.fault = lambda _method, path: setattr(
        behind.transport, "truncate_at", 10 if path.startswith("/blobs") else None
    )
    client = behind.client()
    assert isinstance(client.sync().error, TransportError)
    assert behind.answer(client) == "three 3.0.0 default"
    behind.transport.fault, behind.transport.truncate_at = None, None
    result = behind.client().sync()
    assert result.error is None
    delta = behind.world.manifests["4.0.0"].variants[0].deltas[0]
    assert blobs_asked_for(behind)[-2:] == [delta_path(behind.world, "4.0.0")] * 2
    assert result.bytes_received < delta.size_bytes + 5_000


def test_server_that_refuses_deltas_is_asked_for_the_program(behind: Device) -> None:
    """Any status that is no success."""

    def fault(method: str, path: str) -> None:
        if path == delta_path(behind.world, "4.0.0"):
            raise StatusError(method=method, path=path, status=500)

    behind.transport.fault = fault
    client = behind.client()
    assert client.sync().error is None
    assert behind.answer(client) == "four 4.0.0 default"
