"""A TUF repository that signs and serves over HTTP whatever a test makes it sign, right or wrong; and its client.

A test changes `roles` (what will be signed) and `signers` (by whom), and calls `publish` for what is to be served from
then on: nothing is checked here, so that the client has to.
"""

import http.server
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from alcove.registry._tuf import (
    CryptoSigner,
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from alcove.runtime.testing_seams import ManualClock

from tests.registry.conformance_client import main

TOP = ("root", "timestamp", "snapshot", "targets")
DAY_S = 86_400


class Repository:
    """A repository of which a test decides every byte.

    Attributes:
        roles: what each role signs at its next `publish`, by name.
        signers: who signs it.
        serve: bytes by path, "metadata/1.root.json" among them; a test may put others in their place.
        requests: (role, version or None) of each request for metadata, in order.
        artifacts: paths of each request for a target, in order.
        has_hashes: snapshot and timestamp say digests and lengths of what they name.
    """

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)
        expires = self.now + timedelta(days=30)
        self.roles: dict[str, Any] = {
            "root": Root(1, expires=expires, consistent_snapshot=True),
            "targets": Targets(1, expires=expires),
            "snapshot": Snapshot(1, expires=expires),
            "timestamp": Timestamp(1, expires=expires),
        }
        self.signers: dict[str, list[CryptoSigner]] = {role: [] for role in TOP}
        self.served: dict[str, bytes] = {}
        self.requests: list[tuple[str, int | None]] = []
        self.artifacts: list[str] = []
        self.has_hashes = False
        for role in TOP:
            self.add_key(role)
        self.publish("root", "targets", "snapshot", "timestamp", bump=False)

    @property
    def root(self) -> Root:
        """What root says."""
        root = self.roles["root"]
        assert isinstance(root, Root)
        return root

    @property
    def delegated(self) -> list[str]:
        """Names of the roles that sign targets."""
        return [name for name, signed in self.roles.items() if isinstance(signed, Targets)]

    def date(self, days: float) -> datetime:
        """Return the date so many days from now."""
        return self.now + timedelta(days=days)

    def add_key(self, role: str, *, delegator: Any = None) -> CryptoSigner:
        """Give a role one more key, which signs from then on."""
        signer = CryptoSigner.generate_ed25519()
        (delegator or self.root).add_key(signer.public_key, role)
        self.signers.setdefault(role, []).append(signer)
        return signer

    def set_keys(self, role: str, keys: list[CryptoSigner], threshold: int, signers: list[CryptoSigner]) -> None:
        """Let root trust exactly these keys for a role, and let these sign it."""
        self.root.roles[role].keyids.clear()
        for key in keys:
            self.root.add_key(key.public_key, role)
        self.root.roles[role].threshold = threshold
        self.signers[role] = signers

    def rotate(self, role: str) -> None:
        """Replace the keys of a role by a new one."""
        self.set_keys(role, [], 1, [])
        self.add_key(role)

    def delegate(self, delegator: str, role: str, paths: list[str], *, is_terminating: bool = False) -> None:
        """Let `delegator` trust `role` for some paths; a role that is new gets empty targets and a key."""
        parent = self.roles[delegator]
        parent.delegations = parent.delegations or Delegations({}, {})
        parent.delegations.roles[role] = DelegatedRole(role, [], 1, is_terminating, paths)
        if role in self.roles:
            parent.add_key(self.signers[role][0].public_key, role)
        else:
            self.roles[role] = Targets(1, expires=self.date(30))
            self.roles[role].version = 0
            self.add_key(role, delegator=parent)

    def add_artifact(self, role: str, path: str, data: bytes, *, algorithms: Sequence[str] = ("sha256",)) -> None:
        """Let a role sign a target by some digests, and serve it under the first."""
        file = TargetFile.from_data(path, data, list(algorithms))
        self.roles[role].targets[path] = file
        self.served[self.artifact_place(role, path)] = data

    def artifact_place(self, role: str, path: str) -> str:
        """Return where a target is served."""
        folder, slash, name = path.rpartition("/")
        return f"targets/{folder}{slash}{next(iter(self.roles[role].targets[path].hashes.values()))}.{name}"

    def publish(self, *roles: str, bump: bool = True, update: bool = True) -> None:
        """Sign and serve roles, in this order.

        Args:
            roles: their names.
            bump: with the next version; else with the one that stands there.
            update: snapshot and timestamp name what was published last; else what stands there.
        """
        for role in roles:
            signed = self.roles[role]
            signed.version += bump
            if update and role == "snapshot":
                signed.meta = {f"{name}.json": self._describe(name) for name in self.delegated}
            if update and role == "timestamp":
                signed.snapshot_meta = self._describe("snapshot")
            metadata: Metadata[Any] = Metadata(signed)
            for signer in self.signers[role]:
                metadata.sign(signer, append=True)
            self.served[self.place(role)] = metadata.to_bytes()

    def publish_all(self, *targets: str) -> None:
        """Publish roles that sign targets, then snapshot and timestamp."""
        self.publish(*targets, "snapshot", "timestamp")

    def place(self, role: str) -> str:
        """Return where the metadata of a role is served at its present version."""
        name = quote(role, safe="")
        return f"metadata/{name}.json" if role == "timestamp" else f"metadata/{self.roles[role].version}.{name}.json"

    def answer(self, path: str) -> bytes | None:
        """Return what is served at a path, and note the request."""
        if path.startswith("targets/"):
            path = unquote(path)
        if path.startswith("metadata/"):
            name = path.removeprefix("metadata/").removesuffix(".json")
            number, dot, role = name.partition(".")
            self.requests.append((unquote(role), int(number)) if dot and number.isdigit() else (unquote(name), None))
        else:
            self.artifacts.append(path)
        return self.served.get(path)

    def _describe(self, role: str) -> MetaFile:
        version = self.roles[role].version
        if not self.has_hashes:
            return MetaFile(version)
        return MetaFile.from_data(version, self.served[self.place(role)], ["sha256"])


class Subject:
    """The client under test: one installation that reads one repository, command by command.

    Args:
        folder: of its own.
        url: address of the repository.
        repository: what it reads.
    """

    def __init__(self, folder: Path, url: str, repository: Repository) -> None:
        self.metadata = folder / "metadata"
        self.targets = folder / "targets"
        self.url = url
        self.repository = repository
        self.clock = ManualClock(int(repository.now.timestamp()))
        for made in (self.metadata, self.targets):
            made.mkdir(parents=True)
        self.initial = folder / "initial.json"

    def init(self, root: bytes | None = None) -> int:
        """Begin with a root, by default the repository's first."""
        self.initial.write_bytes(root or self.repository.served["metadata/1.root.json"])
        return main(["--metadata-dir", str(self.metadata), "init", str(self.initial)])

    def refresh(self) -> int:
        """Read what is new."""
        return main([*self._common(), "refresh"], self.clock)

    def download(self, *paths: str) -> int:
        """Fetch targets, one after the other, by one client."""
        return main(self.download_command(*paths), self.clock)

    def download_command(self, *paths: str) -> list[str]:
        """Return the arguments that fetch targets."""
        names = [argument for path in paths for argument in ("--target-name", path)]
        into = ["--target-base-url", f"{self.url}/targets", "--target-dir", str(self.targets)]
        return [*self._common(), *names, *into, "download"]

    def versions(self) -> dict[str, int]:
        """Return the version of each role that the client trusts."""
        files = {unquote(path.stem): path for path in self.metadata.glob("*.json")}
        return {role: Metadata[Any].from_bytes(path.read_bytes()).signed.version for role, path in files.items()}

    def downloads(self) -> list[bytes]:
        """Return the bytes of each target that the client has kept, by name."""
        return [path.read_bytes() for path in sorted(self.targets.iterdir())]

    def _common(self) -> list[str]:
        return ["--metadata-dir", str(self.metadata), "--metadata-url", f"{self.url}/metadata"]


@contextmanager
def serve(repository: Repository) -> Iterator[str]:
    """Serve a repository on loopback; yields its address."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(_Handler, repository))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, repository: Repository, *args: Any) -> None:
        self.repository = repository
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer with what the repository serves."""
        body = self.repository.answer(self.path.lstrip("/"))
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")
