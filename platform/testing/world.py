"""Starts servers for tests: `ServerWorld(folder)` has keys, tree and tokens; `start()` runs a process on it."""

import copy
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.platform.services.auth.local import create_local_token
from alcove.registry.ceremony import initialize_repository
from alcove.registry.keys import create_keys
from alcove.registry.layout import TEAM_LIFETIME_S
from alcove.registry.package import Package, create_package
from alcove.registry.parameters import Parameter
from alcove.registry.repository import Repository
from alcove.registry.team import sign_version
from alcove.registry.testing import FakeVerifier
from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient, Version

__all__ = ["Served", "ServerWorld"]

START_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 120.0
FEATURES: Final = 160  # each test takes its own, so that one server serves all of them


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        process: None where it runs in this process.
        log: its standard error.
        mtls_address: where it takes client certificates; None: nowhere.
        metrics_url: where it answers Prometheus; None: nowhere.
        console_url: where it shows the console; None: nowhere.
    """

    process: "subprocess.Popen[str] | None"
    grpc_address: str
    http_url: str
    log: Path
    mtls_address: str | None = None
    metrics_url: str | None = None
    console_url: str | None = None

    @property
    def pid(self) -> int:
        """Number of its process."""
        return os.getpid() if self.process is None else self.process.pid

    def stop(self) -> int:
        """Ask it to end (SIGTERM); return its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait until it has ended; return its exit code."""
        if self.process is None:
            return 0
        code = self.process.wait(STOP_TIMEOUT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


class ServerWorld:
    """Everything around one server, in one folder.

    Attributes:
        folder: holds `keys`, `online`, `data` and logs.
        teams: "text" and "speech", with features `text_00` … and `speech_00` ….
        keys: all keys.
        online_keys: where the server's are, apart from the others.
        data_dir: the server's data folder.
        database: URL of the database that its servers share; None: a file in the data folder, for one server.
    """

    def __init__(
        self, folder: Path, *, teams: Mapping[str, Sequence[str]] | None = None, database: str | None = None
    ) -> None:
        self.folder = folder
        self.database = database
        self.teams = teams or {
            team: tuple(f"{team}_{number:02d}" for number in range(FEATURES)) for team in ("text", "speech")
        }
        self.data_dir = folder / "data"
        self.data_dir.mkdir(parents=True)
        self.keys = create_keys(folder / "keys", teams=self.teams)
        self.online_keys = (folder / "keys" / "online").rename(folder / "online")  # no server starts beside the others
        initialize_repository(self.data_dir / "tree", self.keys, self.teams)
        self._tokens: dict[str, str] = {}
        self._starts = 0

    def copy(self, folder: Path) -> "ServerWorld":
        """Return the same world in another folder, which must not exist; no server may run on this one.

        It has the same keys and tokens. A database that is not in the data folder is shared.
        """
        shutil.copytree(self.folder, folder)
        other = copy.copy(self)
        other.folder = folder
        other.data_dir = folder / self.data_dir.relative_to(self.folder)
        other.online_keys = folder / self.online_keys.relative_to(self.folder)
        other._tokens = dict(self._tokens)  # noqa: SLF001 - of the same class
        return other

    @property
    def tree(self) -> Repository:
        """The tree, for reading."""
        return Repository(self.data_dir / "tree")

    def token(self, role: str) -> str:
        """Return a token of a role; the same one each time."""
        if role not in self._tokens:
            self._tokens[role] = create_local_token(self.data_dir, role, database=self.database)[0]
        return self._tokens[role]

    def command(self, *options: str, as_uid: int | None = None, note_opened: Path | None = None) -> list[str]:
        """Return the command that runs the server on this world, on free ports."""
        note = [] if note_opened is None else ["--note-opened", str(note_opened)]
        drop = [] if as_uid is None else ["--as-uid", str(as_uid)]
        folders = ["--data-dir", str(self.data_dir), "--online-keys", str(self.online_keys)]
        # All devices of a test have one address, which is limited where a test says so.
        ports = ["--grpc-port", "0", "--http-port", "0", "--behind-proxy", "127.0.0.1,::1"]
        module = [sys.executable, "-W", "error", "-m", "alcove.platform.testing.fake_server"]
        database = [] if self.database is None else ["--database-url", self.database]
        return [*module, *note, *drop, *folders, *database, *ports, *options]

    def start(self, *options: str, as_uid: int | None = None, note_opened: Path | None = None) -> Served:
        """Start a server process and wait until it answers.

        Args:
            options: of the server.
            as_uid: the user that the process becomes (root only).
            note_opened: a file that gets the path of each file that the process opens.

        Raises:
            RuntimeError: it ended, or did not answer in time; the message has its log.
        """
        self._starts += 1
        log = self.folder / f"server-{self._starts}.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                self.command(*options, as_uid=as_uid, note_opened=note_opened),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        line = _first_line(process)
        if not line:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            raise RuntimeError(f"the server did not start:\n{log.read_text()}")
        ready = json.loads(line)
        places = (ready.get(name) for name in ("mtls", "metrics", "console"))
        return Served(process, ready["grpc"], ready.get("http", ""), log, *places)

    def client(self, served: Served, role: str) -> "PlatformClient":
        """Return a client with a token of a role; close it."""
        from alcove.platform.client import PlatformClient  # noqa: PLC0415 - the server that imports this has no client

        return PlatformClient(served.grpc_address, self.token(role))

    def package(
        self,
        feature: str,
        version: str = "1.0.0",
        *,
        program: bytes | None = None,
        parameters: Sequence[Parameter] = (),
    ) -> Package:
        """Return a package with one pretended program, different for each version."""
        return create_package(
            feature=feature,
            team=feature.partition("_")[0],
            version=version,
            programs={"f32": program or f"program {feature} {version}".encode()},
            card=f"# {feature} {version}\n",
            verifier=FakeVerifier(),
            parameters=parameters,
        )

    def sign(self, package: Package, current: bytes | None = None) -> bytes:
        """Return the team's next metadata, on top of what the tree holds or of `current`."""
        team = package.manifest.team
        metadata = current or self.tree.team_metadata(team)
        expires_s = SYSTEM_CLOCK.now_s() + TEAM_LIFETIME_S
        return sign_version(metadata, package.manifest, self.keys.teams[team], expires_s)

    def publish(
        self,
        client: "PlatformClient",
        feature: str,
        version: str = "1.0.0",
        *,
        is_released: bool = True,
        parameters: Sequence[Parameter] = (),
    ) -> "Version":
        """Upload, sign and publish a pretended version, and have it validated and released."""
        package = self.package(feature, version, parameters=parameters)
        for data in package.blobs().values():
            client.upload_blob(data)
        published = client.publish_version(self.sign(package), package.manifest.to_bytes())
        if not is_released:
            return published
        client.validate_version(feature, version)
        return client.release_version(feature, version, reason="for a test")

    def give_to(self, uid: int) -> None:
        """Make a user the owner of what the server needs: data folder and online keys, nothing else (root only)."""
        self.folder.chmod(0o755)
        (self.folder / "keys").chmod(0o755)
        for top in (self.data_dir, self.online_keys):
            for path in [top, *top.rglob("*")]:
                os.chown(path, uid, uid)


def _first_line(process: "subprocess.Popen[str]") -> str:
    """Return the first line of a process's output, or "" if it ends or takes too long."""
    if process.stdout is None:
        return ""
    readable, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
    return process.stdout.readline() if readable else ""
