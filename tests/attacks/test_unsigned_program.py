"""A token without its team's key has no program opened; a signed program that runs wild ends alone."""

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import ClientError
from alcove.platform.confined.confinement import program_of_filter
from alcove.platform.domain import limits
from alcove.platform.domain.catalog.program_report import ProgramReport
from alcove.platform.domain.errors import CheckBoundError, ChecksFullError
from alcove.platform.server import serve
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.services.validation import ChildChecks, Supplies
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.hostile_child import DEEDS, ELSEWHERE
from alcove.registry._tuf import Metadata
from alcove.registry.blobs import BlobStore, open_blob_store
from alcove.registry.errors import ProgramRefusedError
from alcove.registry.keys import create_keys
from alcove.registry.manifest import Manifest, Variant
from alcove.registry.package import Package, create_package
from alcove.registry.team import sign_version
from alcove.registry.testing import FakeVerifier

from tests.selection import quick_among, quick_every

RunServer = Callable[..., AbstractAsyncContextManager[Any]]
HOSTILE = "alcove.platform.testing.hostile_child"
FEATURES = Path(__file__).parents[2] / "features"


class Recording:
    """Checks that only note what they were asked to open."""

    opened: list[str] = []  # noqa: RUF012 - the server makes the object, the test reads the class

    async def verify(self, manifest: Manifest, variant: Variant, supplies: Supplies) -> None:
        """Note the program."""
        self.opened.append(variant.name)

    async def validate(self, team: str, variant: str, supplies: Supplies) -> ProgramReport:
        """Note the program."""
        self.opened.append(variant)
        return ProgramReport.of_refusal("not looked at")


def forgeries(world: ServerWorld, package: Package) -> Iterator[tuple[str, bytes]]:
    """What somebody with a token and without the team's key can send in the place of signed metadata."""
    current = world.tree.team_metadata("text")
    yield "nothing", b""
    yield "no metadata", b"{}"
    yield "what is current", current
    strangers = create_keys(world.folder / "strangers", teams=world.teams)
    signed = world.sign(package)
    genuine = Metadata.from_bytes(signed)
    for name, key in (("a stranger's key", strangers.teams["text"]), ("an online key", world.keys.online.policy)):
        forged = Metadata.from_bytes(signed)
        forged.signatures.clear()
        forged.sign(key)
        yield name, forged.to_bytes()
    unsigned = Metadata.from_bytes(signed)
    unsigned.signatures.clear()
    yield "no signature", unsigned.to_bytes()
    for keyid, signature in genuine.signatures.items():
        broken = signature.signature[:-2] + ("00" if signature.signature[-2:] != "00" else "01")
        yield "a broken signature", signed.replace(signature.signature.encode(), broken.encode())
        yield "another key's id", signed.replace(keyid.encode(), strangers.teams["text"].public_key.keyid.encode())
    other = create_package(
        feature=package.manifest.feature, team="text", version=package.manifest.version,
        programs={"f32": b"program that was not signed"}, card="# x\n", verifier=FakeVerifier(),
    )  # fmt: skip
    yield "another program's", sign_version(current, other.manifest, world.keys.teams["text"], 4_000_000_000)


async def test_a_token_without_a_key_has_nothing_run(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands in the place of the team's signature: refused, and no program was opened."""
    monkeypatch.setattr(serve, "ChildChecks", Recording)
    Recording.opened.clear()

    def attack(address: str) -> None:
        package = own_world.package("text_00")
        with PlatformClient(address, own_world.token("team:text")) as team:
            for data in package.blobs().values():
                team.upload_blob(data)
            for name, forged in forgeries(own_world, package):
                with pytest.raises(ClientError) as refusal:
                    team.publish_version(forged, package.manifest.to_bytes())
                assert refusal.value.status != "INTERNAL", name
                assert Recording.opened == [], name
            team.publish_version(own_world.sign(package), package.manifest.to_bytes())
        assert Recording.opened == ["f32"]

    async with run_server(own_world) as running:
        await asyncio.to_thread(attack, running.grpc_address)


# What a signed program may do to the machine


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    """A store of blobs."""
    return open_blob_store(tmp_path / "blobs")


def job(blobs: BlobStore, name: str) -> tuple[Manifest, Variant, Supplies]:
    """A program whose variant says what it does."""
    package = create_package(
        feature="f", team="t", version="1.0.0", programs={name: b"program"}, card="x", verifier=FakeVerifier()
    )
    for sha256, data in package.blobs().items():
        blobs.put(sha256, data)
    (variant,) = package.manifest.variants
    return package.manifest, variant, Supplies.of(blobs, package.manifest, variant)


def resident_bytes() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


BOUNDED = {
    "loop": "1 s of processor time",
    "sleep": "more than 1.5 s",
    "allocate": "67108864 bytes of memory",
    "allocate_at_once": "67108864 bytes of memory",
    "talk": "said more than 1048576 bytes",
    "talk_nonsense": "processor time",
    "talk_deeply": "processor time",
    "die": r"its process ended \(exit code 0\)",
    "crash": "crashed",
}


@pytest.mark.parametrize("deed", quick_among(BOUNDED, {"sleep", "allocate", "crash"}))
async def test_a_program_that_runs_wild_ends_alone(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    """A typed error says which bound it hit; this process has not grown, and nothing is left of the other."""
    monkeypatch.setattr(limits, "CHECK_GRACE_S", 0.5 if deed == "sleep" else 600.0)
    checks = ChildChecks(cpu_s=1, memory_bytes=64 * 1024 * 1024, module=HOSTILE)
    before = resident_bytes()
    with pytest.raises(CheckBoundError, match=BOUNDED[deed]) as refusal:
        await checks.verify(*job(blobs, deed))
    assert refusal.value.variant == deed
    assert resident_bytes() - before < 32 * 1024 * 1024
    assert not children_of(os.getpid())


def children_of(pid: int) -> list[int]:
    """The processes that check programs and whose parent is this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and HOSTILE.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


REFUSAL = r"stopped: .*(not permitted|not allowed|refused|too large|can't start new thread)"
IMPOSSIBLE = [name for name in DEEDS if name.replace("-", "_") not in BOUNDED]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system calls are filtered on Linux")
@pytest.mark.parametrize("deed", quick_every(IMPOSSIBLE, 3))
async def test_a_program_can_do_nothing_but_compute(blobs: BlobStore, deed: str) -> None:
    """Files, folders, sockets, processes, threads, limits, other users: each is refused by the system."""
    with pytest.raises(ProgramRefusedError, match=REFUSAL):
        await ChildChecks(module=HOSTILE).verify(*job(blobs, deed.replace("-", "_")))
    assert "alcove-was-here" not in os.listdir("/tmp")  # noqa: PTH208


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system calls are filtered on Linux")
async def test_the_other_thread_of_its_process_can_do_no_more(blobs: BlobStore) -> None:
    """The clock's, which is there before the process is confined."""
    with pytest.raises(ProgramRefusedError) as refused:
        await ChildChecks(module=HOSTILE).verify(*job(blobs, ELSEWHERE))
    said = json.loads(refused.value.reason)
    assert sorted(said) == sorted(IMPOSSIBLE)
    assert not {name: text for name, text in said.items() if not re.match(REFUSAL, text)}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_one_that_a_kernel_takes(machine: str) -> None:
    """Whole instructions, jumps that end inside, and a return at its end."""
    program = program_of_filter(machine, 4321)
    steps = [program[start : start + 8] for start in range(0, len(program), 8)]
    assert len(program) % 8 == 0
    assert len(steps) < 4096
    for number, step in enumerate(steps):
        if step[0] & 7 == 5:  # a jump
            assert number + 1 + max(step[2], step[3]) < len(steps)
    assert steps[-1][0] == 6


async def test_programs_that_wait_are_bounded_and_hold_up_no_operator(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six signed programs that never end, at once: an operator's change passes; of each team some may wait."""
    monkeypatch.setattr(serve, "ChildChecks", partial(ChildChecks, cpu_s=30, module=HOSTILE))
    monkeypatch.setattr(limits, "CHECKS_OF_TEAM", 3)
    package = create_package(
        feature="text_00", team="text", version="1.0.0", programs={"sleep": b"program"}, card="x",
        verifier=FakeVerifier(),
    )  # fmt: skip
    signed = await asyncio.to_thread(own_world.sign, package)
    token = await asyncio.to_thread(own_world.token, "team:text")

    def upload(address: str) -> None:
        with PlatformClient(address, token) as team:
            for data in package.blobs().values():
                team.upload_blob(data)

    def push(address: str) -> str:
        with PlatformClient(address, token) as team:
            try:
                team.publish_version(signed, package.manifest.to_bytes())
            except ClientError as error:
                return error.kind
        return ""

    def operate(address: str) -> None:
        operator, _ = create_local_token(own_world.data_dir, "operator")
        with PlatformClient(address, operator) as client:
            until = time.monotonic() + 60
            while not children_of(os.getpid()):
                assert time.monotonic() < until
                time.sleep(0.05)
            for share in (100, 200, 300):
                assert client.set_holdout("busy", share).share_basis_points == share

    async with run_server(own_world, call_s_max=8.0) as running:
        with ThreadPoolExecutor(7) as threads:  # of its own: this process is the server, too
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(threads, upload, running.grpc_address)
            pushes = [loop.run_in_executor(threads, push, running.grpc_address) for _ in range(6)]
            await loop.run_in_executor(threads, operate, running.grpc_address)
            kinds = await asyncio.gather(*pushes)
    assert sorted(kinds) == ["CallTooLongError"] * 3 + ["ChecksFullError"] * 3
    assert not children_of(os.getpid())


async def test_one_team_waits_for_itself_alone(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of all teams together, too, is a typed error."""
    monkeypatch.setattr(limits, "CHECKS_WAITING", 0)
    with pytest.raises(ChecksFullError, match="at most 0 wait"):
        await ChildChecks(module=HOSTILE).verify(*job(blobs, "die"))


@pytest.mark.parametrize("program", sorted(FEATURES.glob("*/programs/*.alc"))[:4], ids=lambda path: path.stem)
async def test_honest_programs_pass_in_there(blobs: BlobStore, program: Path) -> None:
    """Verified and examined as they would be here."""
    content = await asyncio.to_thread(program.read_bytes)
    package = create_package(feature="f", team="t", version="1.0.0", programs={"f32": content}, card="x")
    for sha256, data in package.blobs().items():
        blobs.put(sha256, data)
    (variant,) = package.manifest.variants
    supplies = Supplies.of(blobs, package.manifest, variant)
    checks = ChildChecks()
    await checks.verify(package.manifest, variant, supplies)
    found = await checks.validate("t", "f32", supplies)
    assert not isinstance(found.parity, str)
    assert not isinstance(found.summary, str)
    assert not isinstance(found.latency_ms, str)
