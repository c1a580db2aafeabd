"""Kill -9, or a full disk, at every storage call of a publication: enumerated, with real processes and databases."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.server import serve
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.services.validation import InThisProcess
from alcove.platform.testing import ServerWorld
from alcove.registry import program_validation, program_verification
from alcove.registry.client import RepositoryClient
from alcove.registry.testing import FakeValidator, FakeVerifier, FolderFetcher
from alcove.runtime.clock import SYSTEM_CLOCK
from pydantic import SecretStr

if TYPE_CHECKING:
    from alcove.platform.testing.postgres import PostgresServer
    from alcove.platform.testing.s3 import S3Server

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).with_name("killed_publisher.py")
KILLED = -9
REFUSED = 3


class Stage:
    """A world with a version, a rollout's draft and a device, to be copied for each kill."""

    def __init__(self, folder: Path, *, database: str | None = None, blobs: str = "") -> None:
        self.folder, self.blobs = folder, blobs
        self.database = database or ""
        self.world = ServerWorld(folder / "world", teams={"text": ("text_00", "text_01")}, database=database)
        keys = self.world.online_keys
        self.settings = Settings(
            data_dir=self.world.data_dir,
            online_keys=keys,
            database_url=None if database is None else SecretStr(database),
            blobs=blobs or None,
            grpc_port=0,
            http_port=0,
        )
        self.rollout = ""

    async def prepare(self) -> None:
        """Publish a version, draft its rollout, let a device look."""
        team, operator = self.world.token, self.world.token

        def use(address: str) -> None:
            with PlatformClient(address, tokens["team:text"]) as client:
                self.world.publish(client, "text_00", "1.0.0")
            with PlatformClient(address, tokens["operator"]) as client:
                self.rollout = client.create_rollout("messenger", "text_00", "1.0.0").rollout_id

        tokens = {role: await asyncio.to_thread(team, role) for role in ("team:text",)}
        tokens |= {"operator": await asyncio.to_thread(operator, "operator")}
        async with run(self.settings) as running:
            await asyncio.to_thread(use, running.grpc_address)
        tree = self.world.data_dir / "tree"
        root = (tree / "metadata" / "1.root.json").read_bytes()
        device = self.world.folder / "device"
        RepositoryClient(device, FolderFetcher(tree), "https://tree.invalid", root, clock=SYSTEM_CLOCK).refresh()

    def run(self, call: str, first: int, *, is_full: bool = False) -> list[dict[str, Any]]:
        """Let the script end at each second storage call from the first on; return what it reported."""
        number, feature = ("2.0.0", "text_00") if call == "publish" else ("1.0.0", "text_00")
        package = self.world.package(feature, number)
        job = {
            "call": call,
            "is_full": is_full,
            "first": first,
            "step": 2,
            "keys": str(self.world.online_keys),
            "world": str(self.world.folder),
            "work": str(self.folder / f"work {call}"),
            "database": self.database,
            "blobs": self.blobs,
            "rollout": self.rollout,
            "version": {
                "feature": feature,
                "number": number,
                "signed": self.world.sign(package).hex() if call == "publish" else "",
                "manifest": package.manifest.to_bytes().hex(),
                "blobs": {sha256: data.hex() for sha256, data in package.blobs().items()},
            },
        }
        done = subprocess.run(
            [sys.executable, str(SCRIPT), json.dumps(job)], capture_output=True, text=True, check=False, timeout=280
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert done.returncode == 0, f"{lines[-1:]}\n{done.stderr[-4000:]}"
        shutil.rmtree(self.folder / f"work {call}")
        return lines


@pytest.fixture(params=["one server", "several servers"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """SQLite and folders, or PostgreSQL and S3."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)
    monkeypatch.setattr(program_validation, "RuntimeValidator", FakeValidator)
    monkeypatch.setattr(serve, "ChildChecks", InThisProcess)  # another process would not know what is pretended
    if request.param == "one server":
        made = Stage(tmp_path / "stage")
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        s3: S3Server = request.getfixturevalue("s3")
        database = postgres.url(postgres.database(request.getfixturevalue("migrated")))
        made = Stage(tmp_path / "stage", database=database, blobs=s3.bucket() + "/blobs")
    asyncio.run(made.prepare())
    return made


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("call", "calls_at_least"), [("publish", 40), ("decide", 30)])
def test_kill_at_every_storage_call(stage: Stage, call: str, calls_at_least: int, first: int) -> None:
    """The old version is served whole; a restart completes; repeating does it once; nothing acknowledged is lost."""
    lines = stage.run(call, first)
    assert len(lines) - 1 >= calls_at_least // 2
    assert [line["status"] for line in lines] == [KILLED] * (len(lines) - 1) + [0]
    assert lines[-1]["is_acknowledged"]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("call", "calls_at_least"), [("publish", 20), ("decide", 12)])
def test_full_disk_at_every_write(stage: Stage, call: str, calls_at_least: int, first: int) -> None:
    """Refused with an error of ours, never acknowledged, nothing half; with room again it is simply repeated.

    Files, the database and the bucket, each as it refuses when it is full (`killed_publisher.Points`).
    """
    lines = stage.run(call, first, is_full=True)
    refused = [line for line in lines if line["status"] != 0]
    assert len(refused) >= calls_at_least // 2
    assert {line["status"] for line in refused} == {REFUSED}, lines
    assert not any(line["is_acknowledged"] for line in refused)
