"""Sets up the demo: keys and tokens, the server process, the team's pushes, the devices' processes."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from alcove.platform.cli.demo.processes import STOP_TIMEOUT_S, DemoError, end_process, read_line, start_module
from alcove.platform.client import PlatformClient
from alcove.platform.services.auth.local import create_local_token
from alcove.registry.ceremony import initialize_repository
from alcove.registry.keys import create_keys, write_private_file
from alcove.runtime.clock import SYSTEM_CLOCK
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from alcove.platform.cli.demo.aggregators import Aggregators
    from alcove.runtime.clock import Clock

APP = "messenger"
TEAM = "messaging"
FEATURE = "language_id"
ANALYSIS_INTERVAL_S = 0.5  # the server analyzes its rollouts so often; people wait for the demo
TOKEN_LIFETIME_S = 24 * 3600


@dataclass(frozen=True)
class Places:
    """Folders of the demo, one for each party."""

    folder: Path

    @property
    def keys(self) -> Path:
        """All keys; the server is given `online/` alone."""
        return self.folder / "keys"

    @property
    def server_keys(self) -> Path:
        """The server's own keys."""
        return self.folder / "server-keys"

    @property
    def team_key(self) -> Path:
        """The product team's own key, outside the server's reach."""
        return self.keys / "teams" / f"{TEAM}.pem"

    @property
    def server(self) -> Path:
        """The server's data: database, blobs, signed tree."""
        return self.folder / "server"

    @property
    def tree(self) -> Path:
        """The static files that devices read."""
        return self.server / "tree"

    @property
    def root(self) -> Path:
        """The root metadata that ships inside the app."""
        return self.tree / "metadata" / "1.root.json"

    @property
    def aggregators(self) -> Path:
        """Folders of the leader, the helper and the collector, each for its party alone."""
        return self.folder / "aggregators"

    @property
    def attestation_key(self) -> Path:
        """The software attestor's private key, 32 bytes: it stands for the maker of the phones."""
        return self.folder / "attestation.key"

    @property
    def attestation_public_key(self) -> Path:
        """Its public key, by which the issuer enrolls devices."""
        return self.folder / "attestation.pem"

    @property
    def clock(self) -> Path:
        """The file of the demo's clock."""
        return self.folder / "clock"

    @property
    def console_token(self) -> Path:
        """What opens the console to whoever started the demo."""
        return self.folder / "console.token"

    def device(self, number: int) -> Path:
        """The data folder of one device."""
        return self.folder / "devices" / f"{number:03d}"

    @property
    def fleet(self) -> Path:
        """The data folder that the fleet shares."""
        return self.folder / "devices" / "fleet"


@dataclass(frozen=True)
class Tokens:
    """API tokens of the team and of the operator."""

    team: str
    operator: str


def make_attestor(places: Places) -> bytes:
    """Make the key of the software attestor; return it."""
    key = Ed25519PrivateKey.generate()
    write_private_file(places.attestation_key, key.private_bytes_raw())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    places.attestation_public_key.write_bytes(public)
    return key.private_bytes_raw()


def prepare(places: Places, clock: Clock = SYSTEM_CLOCK) -> Tokens:
    """Hold the key ceremony, make an empty signed tree, and issue two tokens."""
    teams = {TEAM: [FEATURE]}
    keyring = create_keys(places.keys, teams=teams)
    (places.keys / "online").rename(places.server_keys)  # a server does not start beside the keys of others
    places.server.mkdir(mode=0o700)
    initialize_repository(places.tree, keyring, teams, clock=clock)
    team, _ = create_local_token(places.server, f"team:{TEAM}", lifetime_s=TOKEN_LIFETIME_S, clock=clock)
    operator, _ = create_local_token(places.server, "operator", lifetime_s=TOKEN_LIFETIME_S, clock=clock)
    return Tokens(team, operator)


@dataclass(frozen=True)
class Issuing:
    """What the server needs to collect from two aggregators and to issue the tokens of reports.

    Attributes:
        collector_file: of the aggregators.
        port: for devices.
        url: of the issuer, on that port.
    """

    collector_file: Path
    port: int
    url: str


class Server:
    """The alcove server in processes of its own, on ports that the system chose.

    Args:
        places: its folders.
        issuing: makes it go by the demo's clock, with a process of its own for devices; None: no aggregators.
        has_console: shows it in a web page, too.

    Attributes:
        grpc: "host:port" for teams and operators.
        http: address of the static tree and of the report ingress.
        console: address of its web page; "": it shows none.
    """

    def __init__(self, places: Places, issuing: Issuing | None = None, *, has_console: bool = False) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        common = ["--data-dir", str(places.server), "--bodies-per-second", "100000"]
        # Thousands of devices have this machine's one address.
        common += ["--behind-proxy", "127.0.0.1"]
        arguments = ["--online-keys", str(places.server_keys), "--analysis-interval-s", str(ANALYSIS_INTERVAL_S)]
        arguments += ["--grpc-port", "0", *common]
        if has_console:
            arguments += ["--console", "true"]
        if issuing is None:
            ready = self._start(
                "alcove.platform.server", [*arguments, "--http-port", "0"], places.folder / "server.log"
            )
        else:
            module, clock = "alcove.platform.cli.demo.server", ["--clock", str(places.clock)]
            arguments += [*clock, "--only", "grpc", "--aggregators", str(issuing.collector_file)]
            ready = self._start(module, ["grpc", *arguments], places.folder / "server.log")
            issuer = ["--token-issuer", issuing.url, "--software-attestation", str(places.attestation_public_key)]
            issuer += ["--tokens-per-second", "10000"]
            devices = ["ingress", *common, *clock, "--http-port", str(issuing.port), *issuer]
            ready |= {"http": self._start(module, devices, places.folder / "ingress.log")["http"]}
        self.console = str(ready.get("console", ""))
        self.grpc, self.http, self.pid = str(ready["grpc"]), str(ready["http"]), self._processes[0].pid

    def _start(self, module: str, arguments: list[str], log: Path) -> dict[str, Any]:
        try:
            process, ready = start_module(module, arguments, log)
        except DemoError:
            self.close()
            raise
        self._processes.append(process)
        return ready

    def client(self, token: str) -> PlatformClient:
        """Return a gRPC client of this server."""
        return PlatformClient(self.grpc, token)

    def close(self) -> None:
        """Ask the processes to end, and wait."""
        for process in reversed(self._processes):
            end_process(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DeviceProcess:
    """One device of the demo, spoken to in lines of JSON; see `device`."""

    def __init__(
        self,
        number: int,
        places: Places,
        server: str,
        *,
        baseline: Path,
        canary: str = "",
        aggregators: Aggregators | None = None,
    ) -> None:
        self.number = number
        folder = places.device(number)
        folder.mkdir(parents=True, mode=0o700)
        options: dict[str, object] = {
            "app": APP,
            "data-dir": folder,
            "server": server,
            "root": places.root,
            "baseline": baseline,
            "number": number,
            "canary": canary,
        }
        if aggregators is not None:
            options |= {"clock": places.clock, "attestation-key": places.attestation_key}
            options |= {"leader": aggregators.leader_url, "helper": aggregators.helper_url}
        flags = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "alcove.platform.cli.demo.device", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, do: str, **arguments: Any) -> None:
        """Give a command; `receive` returns its answer."""
        stdin = self._process.stdin
        if stdin is None:
            raise DemoError(f"device {self.number} has no input")
        stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the answer to the oldest command without one."""
        line = read_line(self._process)
        if not line:
            raise DemoError(f"device {self.number} ended with exit code {self._process.wait(STOP_TIMEOUT_S)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process.stdin:
            self._process.stdin.close()
        end_process(self._process)


class Devices:
    """All devices in processes; a command goes to all of them at once."""

    def __init__(
        self,
        count: int,
        places: Places,
        server: str,
        *,
        baseline: Path,
        canary: str = "",
        aggregators: Aggregators | None = None,
    ) -> None:
        self._exit = ExitStack()
        self.all: list[DeviceProcess] = []
        for number in range(count):
            device = DeviceProcess(number, places, server, baseline=baseline, canary=canary, aggregators=aggregators)
            self._exit.callback(device.close)
            self.all.append(device)

    def ask(self, do: str, **arguments: Any) -> list[dict[str, Any]]:
        """Give every device one command; return the answers in the devices' order."""
        for device in self.all:
            device.send(do, **arguments)
        return [device.receive() for device in self.all]

    def pids(self) -> Sequence[int]:
        """Return the process ids that the devices themselves tell, to see that nothing restarted."""
        return [int(answer["pid"]) for answer in self.ask("status")]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()


def flip_byte(path: Path) -> int:
    """Flip one byte in the middle of a published file, as one with the server's disk could; return its offset."""
    data = bytearray(path.read_bytes())
    offset = len(data) // 2
    data[offset] ^= 0x01
    path.chmod(0o600)
    path.write_bytes(data)
    return offset
