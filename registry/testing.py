"""Provides stand-ins for clocks, disks, networks and the runtime, and whole registries, for tests."""

from __future__ import annotations

import copy
import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from alcove.registry import layout
from alcove.registry._tuf import Metadata, TargetFile, Targets
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import MissingTargetError, ProgramRefusedError
from alcove.registry.keys import create_keys
from alcove.registry.manifest import ModelSignature, PortSignature
from alcove.registry.metadata_writer import MetadataWriter
from alcove.registry.package import Package, create_package
from alcove.registry.policy.document import FeaturePolicy, Policy, VersionRef
from alcove.registry.program_validation import Parity, ProgramSummary
from alcove.registry.program_verification import ProgramFacts
from alcove.registry.repository import Repository, initialize_repository
from alcove.registry.rules import delegations
from alcove.registry.signed_time import utc
from alcove.registry.team import sign_version
from alcove.registry.trust import SignedRole
from alcove.runtime.files import DISK
from alcove.runtime.testing_seams import ManualClock
from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from alcove.registry.program_verification import ProgramVerifier
    from alcove.registry.repository import TeamPublication
    from alcove.registry.trust import TrustedState
    from alcove.runtime.clock import Clock


class FolderFetcher(FetcherInterface):
    """Serves a tree's folder without a socket.

    Attributes:
        requests: paths asked for, in order.
        replaced: bytes served in the place of files, by path below the folder; None answers 404.
        failing: raised instead of the first piece while set.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[str] = []
        self.replaced: dict[str, bytes | None] = {}
        self.failing: Exception | None = None

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = unquote(urlsplit(url).path).lstrip("/")
        self.requests.append(path)
        if path in self.replaced:
            data = self.replaced[path]
        else:
            file = self.folder / path
            data = file.read_bytes() if file.is_file() else None
        if data is None:
            msg = f"{path}: not found"
            raise DownloadHTTPError(msg, 404)
        return self._pieces(data)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if self.failing is not None:
            raise self.failing
        for start in range(0, len(data), 4096):
            yield data[start : start + 4096]


_TWO_INPUTS: Final = b"program of two texts "


class FakeVerifier:
    """Takes any bytes that begin with "program" for one with text in and a label out, without the runtime.

    Bytes of `two_inputs` take two texts.
    """

    def __init__(self, *_: object, **__: object) -> None:
        """Take what the real one takes, and need none of it."""

    def inspect(self, variant: str, program: bytes) -> ProgramFacts:
        """Return made-up facts that depend on the bytes."""
        if not program.startswith(b"program"):
            raise ProgramRefusedError(variant, f"no program: it begins with {program[:7]!r}")
        count = 2 if program.startswith(_TWO_INPUTS) else 1
        return ProgramFacts(
            signature=ModelSignature(
                inputs=tuple(PortSignature(name=name, dtype="text", shape=()) for name in ("text", "title")[:count]),
                outputs=(PortSignature(name="language", dtype="i32", shape=(1, 2), labels=("de", "fr")),),
            ),
            memory_ceiling_bytes=len(program),
            certificate_sha256=hashlib.sha256(b"certificate of " + program).hexdigest(),
        )

    @staticmethod
    def two_inputs(name: bytes) -> bytes:
        """Return a made-up program that takes two texts."""
        return _TWO_INPUTS + name

    def certify(self, variant: str, program: bytes) -> None:
        """Refuse a program that says it computes wrong numbers."""
        if b"wrong" in program:
            raise ProgramRefusedError(variant, "an output differs from its certificate")


class FakeValidator:
    """Looks into made-up programs: of what it finds, each is said by a word in the program's bytes.

    "slow": 50 ms a run, else 1 ms; "nan": two elements of the weight `layer.weight` are NaN; "exotic": the operator
    `exotic` besides `linear`; and what `FakeVerifier` takes for a wrong certificate.
    """

    def __init__(self, *_: object, **__: object) -> None:
        """Take what the real one takes, and need none of it."""

    def parity(self, variant: str, program: bytes) -> Parity:
        """Return a made-up parity, or refuse as `FakeVerifier.certify` does."""
        FakeVerifier().certify(variant, program)
        return Parity(samples=3, tolerance="standard", largest_difference=0.25)

    def summary(self, variant: str, program: bytes) -> ProgramSummary:  # noqa: ARG002
        """Return made-up contents."""
        ops = {"linear": 2} | ({"exotic": 1} if b"exotic" in program else {})
        return ProgramSummary(ops, {"layer.weight": 2} if b"nan" in program else {})

    def latency_ms(self, variant: str, program: bytes) -> float:  # noqa: ARG002
        """Return a made-up latency."""
        return 50.0 if b"slow" in program else 1.0


class RepositoryFixture:
    """A whole registry in a temporary folder: keys, tree, a team that pushes, devices that read.

    Attributes:
        clock: everybody's.
        keys: all of them.
        tree: opened with the online keys.
        fetcher: what devices read the tree through.
    """

    TEAMS: Final = MappingProxyType({"text": ("language_id",), "speech": ("bandwidth", "tagging")})

    def __init__(self, folder: Path, *, clock: ManualClock | None = None) -> None:
        """Make keys and an empty tree in `folder`."""
        self.folder = folder
        self.clock = clock or ManualClock()
        self.keys = create_keys(folder / "keys", teams=self.TEAMS)
        initialize_repository(folder / "tree", self.keys, self.TEAMS, clock=self.clock)
        self.tree = Repository(folder / "tree", keys=self.keys.online, clock=self.clock)
        self.fetcher = FolderFetcher(folder / "tree")

    def package(
        self,
        version: str = "1.0.0",
        *,
        feature: str = "language_id",
        team: str = "text",
        program: bytes | None = None,
        verifier: ProgramVerifier | None = None,
    ) -> Package:
        """Return a package with one program: a made-up one, different for each version, unless it is given."""
        return create_package(
            feature=feature,
            team=team,
            version=version,
            programs={"f32": program or f"program {feature} {version}".encode()},
            card=f"# {feature} {version}",
            verifier=verifier or FakeVerifier(),
        )

    def sign(self, package: Package) -> bytes:
        """Return the team's next metadata with this package."""
        team = package.manifest.team
        expires_s = self.clock.now_s() + layout.TEAM_LIFETIME_S
        return sign_version(self.tree.team_metadata(team), package.manifest, self.keys.teams[team], expires_s)

    def upload(self, package: Package) -> None:
        """Store the package's files as blobs."""
        for sha256, data in package.blobs().items():
            self.tree.blobs.put(sha256, data)

    def push(self, package: Package) -> TeamPublication:
        """Upload, sign and publish a package."""
        self.upload(package)
        return self.tree.accept_team_metadata(
            self.sign(package), {package.manifest.path: package.manifest.to_bytes()}, team=package.manifest.team
        )

    def policy(self, serial: int, version: str = "1.0.0", *, app: str = "messenger") -> Policy:
        """Return a policy whose devices all run one published version of `language_id`."""
        manifest = self.tree.manifest("language_id", version)
        ref = VersionRef(version=version, manifest_sha256=manifest.sha256)
        return Policy(app=app, serial=serial, features={"language_id": FeaturePolicy(min_version="0.0.1", default=ref)})

    def misuse(self, role: str, documents: Mapping[str, bytes], *, hashes: tuple[str, ...] = ("sha256",)) -> None:
        """Sign documents with a role's own key and publish them, though the tree would refuse them.

        Args:
            role: "policy", "halt" or a team's role; its targets become exactly `documents`.
            documents: bytes by target path.
            hashes: algorithms of the signed digests.
        """
        state = self.tree.state()
        signers = {"policy": self.keys.online.policy, "halt": self.keys.online.halt}
        signers |= {layout.team_role(team): signer for team, signer in self.keys.teams.items()}
        targets = {path: TargetFile.from_data(path, data, list(hashes)) for path, data in documents.items()}
        expires = utc(self.clock.now_s() + layout.LIFETIMES_S["policy"])
        metadata = Metadata(Targets(version=state.roles[role].version + 1, expires=expires, targets=targets))
        metadata.sign(signers[role])
        self.publish_anyway(role, metadata, documents)

    def publish_anyway(
        self, role: str, metadata: Metadata[Targets], documents: Mapping[str, bytes] | None = None
    ) -> None:
        """Make signed metadata of a role current as a stolen server could, though the tree would refuse it."""
        state = self.tree.state()
        MetadataWriter(self.tree.folder, self.keys.online, DISK, self.clock.now_s()).publish(
            targets=documents or {},
            roles={role: SignedRole(metadata, metadata.to_bytes())},
            snapshot=state.snapshot,
            timestamp=state.timestamp,
        )

    def client(self, name: str = "device", *, clock: Clock | None = None) -> RepositoryClient:
        """Return a device's client; the same name means the same folder."""
        return RepositoryClient(
            self.folder / name,
            self.fetcher,
            "https://tree.invalid",
            (self.folder / "tree" / layout.metadata_file("root", 1)).read_bytes(),
            clock=clock or self.clock,
        )


def next_team_metadata(state: TrustedState, team: str, *, expires_s: int) -> Metadata[Targets]:
    """Return a copy of what a team says now, with the next number and no signature.

    Raises:
        MissingTargetError: the tree has no such team.
    """
    role = layout.team_role(team)
    if role not in delegations(state.targets):
        raise MissingTargetError(role)
    signed = copy.deepcopy(state.roles[role].metadata.signed)
    signed.version += 1
    signed.expires = utc(expires_s)
    return Metadata(signed)
