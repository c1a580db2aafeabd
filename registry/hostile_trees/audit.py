"""Has a device read hostile trees, and lists what it accepted that the stolen keys may not set."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from alcove.registry import layout
from alcove.registry._tuf import CryptoSigner, Metadata, Signer
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import RegistryError
from alcove.registry.hostile_trees.case import APP, DATERS, EVIL, FEATURE, TOP, Case, Outcome
from alcove.registry.hostile_trees.history import History, current_files, signed_part
from alcove.registry.hostile_trees.maker import Maker
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.manifest import manifest_path
from alcove.registry.min_versions import is_below
from alcove.registry.policy.document import Halt
from alcove.registry.reinstatements import Reinstatement, restores_only_reinstated
from alcove.registry.signed_time import utc
from alcove.runtime.files import Disk
from alcove.runtime.testing_seams import ManualClock
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from alcove.registry.updater import BoundedUpdater


class MemoryFetcher(FetcherInterface):
    """Serves files from a mapping."""

    def __init__(self, files: Mapping[str, bytes | None]) -> None:
        self.files = files

    def _fetch(self, url: str) -> Iterator[bytes]:
        data = self.files.get(unquote(urlsplit(url).path).lstrip("/"))
        if data is None:
            msg = f"{url}: not found"
            raise DownloadHTTPError(msg, 404)
        yield data


class UnsyncedDisk(Disk):
    """The real disk, of which nothing need last."""

    def write(self, path: Path, data: bytes) -> None:
        """Write a file."""
        path.write_bytes(data)

    def sync_folder(self, folder: Path) -> None:
        """Do nothing."""


class HostileTrees:
    """Makes cases and judges what devices make of them."""

    def __init__(self, folder: Path) -> None:
        """Build the registry, its past, and a device that knows it, in `folder`: memory is fastest."""
        self.folder = folder
        self.past = History(folder)
        world = self.past.world
        ring = world.keys
        self.signers: dict[str, Signer] = {
            "root": ring.root,
            "targets": ring.targets,
            "team-text": ring.teams["text"],
            "team-speech": ring.teams["speech"],
            **{role: getattr(ring.online, role) for role in ONLINE_ROLES},
        }
        self.own = CryptoSigner(Ed25519PrivateKey.generate())
        self.evil = {
            f"{FEATURE}/{EVIL}.json": world.package(EVIL).manifest.to_bytes(),
            f"policy/{APP}.json": world.policy(9, "1.0.0").to_bytes(),
            f"halt/{APP}.json": Halt(app=APP, serial=9).to_bytes(),
        }
        # The forged manifest also under a number that exists.
        self.evil[f"{FEATURE}/1.1.0.json"] = (
            world.package("1.1.0").manifest.model_copy(update={"lineage": None, "min_runtime": "0.2.0"}).to_bytes()
        )
        self.root = (world.tree.folder / layout.metadata_file("root", 1)).read_bytes()
        self.base = [{name: signed_part(files, name) for name in current_files(files)} for files in self.past.states]
        used = self.client(folder / "used", self.past.states[-1], world.clock)
        used.policy(APP)
        used.halt(APP)
        used.manifest(FEATURE, "1.1.0")
        used.manifest("bandwidth", "1.2.0")

    def client(
        self,
        folder: Path,
        files: Mapping[str, bytes | None],
        clock: ManualClock,
        reader: type[BoundedUpdater] | None = None,
    ) -> RepositoryClient:
        """Return a device's client; `reader` in the place of the one that devices have."""
        client = RepositoryClient(
            folder, MemoryFetcher(files), "https://tree.invalid", self.root, clock=clock, files=UnsyncedDisk()
        )
        if reader is not None:
            client._reader = reader  # type: ignore[misc]  # noqa: SLF001 - a class attribute, for a wrong one
        return client

    def case(self, seed: int) -> Case:
        """Return the case of a seed."""
        return Maker(self, random.Random(seed), seed).make()  # noqa: S311 - repeatable on purpose

    def audit(self, case: Case, reader: type[BoundedUpdater] | None = None) -> Outcome:
        """Return what a device makes of a case."""
        place = self.folder / "device"
        shutil.rmtree(place, ignore_errors=True)
        if case.is_used:
            shutil.copytree(self.folder / "used", place, symlinks=True)
        clock = ManualClock(self.past.world.clock.now_s() + case.later_s)
        outcome = Outcome()
        trees = [case.files, self.past.states[-1]] if case.is_followed else [case.files]
        for files in trees:
            self._read_all(self.client(place, files, clock, reader), case, clock, outcome)
        return outcome

    def _read_all(self, client: RepositoryClient, case: Case, clock: ManualClock, outcome: Outcome) -> None:
        for what in case.reads:
            try:
                outcome.findings += self._read(client, what, case)
                outcome.answers += 1
            except RegistryError:
                continue
            finally:
                self._audit_roles(client, case, clock, outcome)

    def _read(self, client: RepositoryClient, what: str, case: Case) -> list[str]:
        verb, _, rest = what.partition(" ")
        if verb == "refresh":
            client.refresh()
            return []
        if verb == "policy":
            return self._audit_policy(client, case)
        if verb == "halt":
            return self._audit_halt(client, case)
        if verb == "floor":
            client.min_version(rest)
            return []
        feature, _, version = rest.partition(" ")
        return self._audit_manifest(client, feature, version, case)

    def _audit_policy(self, client: RepositoryClient, case: Case) -> list[str]:
        known = client.read_stored_policy(APP)
        policy = client.policy(APP)
        if known is not None and policy.serial < known.serial and not case.stolen & {"root", "targets"}:
            return [f"the policy's serial fell from {known.serial} to {policy.serial}"]
        if policy.to_bytes() in self.past.policies or _may(case.stolen, "policy"):
            return []
        return ["a policy that its key never signed"]

    def _audit_halt(self, client: RepositoryClient, case: Case) -> list[str]:
        known = client.read_stored_halt(APP)
        halt = client.halt(APP)
        if known is not None and not _may_any(case.stolen, ("team-text", "team-speech")):
            reinstated: dict[str, Sequence[Reinstatement]] = {}
            if not restores_only_reinstated(known, halt, reinstated):
                return ["a halt gave back what no team reinstated"]
        if halt.serial == 0 or halt.to_bytes() in self.past.halts or _may(case.stolen, "halt"):
            return []
        return ["a halt that its key never signed"]

    def _audit_manifest(self, client: RepositoryClient, feature: str, version: str, case: Case) -> list[str]:
        manifest = client.manifest(feature, version)
        path = manifest_path(feature, version)
        if _may(case.stolen, "team-text" if feature == FEATURE else "team-speech"):
            return []
        if self.past.manifests.get(path) != manifest.sha256 or manifest.path != path:
            return [f"a manifest that no team signed: {path}"]
        # A new device knows of the past what it is shown; one that read the tree knows the last floor.
        parse_min_versions = self.past.parse_min_versions[-1:] if case.is_used else self.past.parse_min_versions
        if all(is_below(version, one.get(feature)) for one in parse_min_versions):
            return [f"{path} is below its minimum version"]
        return []

    def _audit_roles(self, client: RepositoryClient, case: Case, clock: ManualClock, outcome: Outcome) -> None:
        updater = client._updater  # noqa: SLF001 - what is trusted is looked at, not asked for
        trusted = {} if updater is None else dict(updater._trusted_set._trusted_set)  # noqa: SLF001
        altered = set()
        for role, signed in trusted.items():
            if role not in self.past.roles and not case.stolen & {"root", "targets", "team-text", "team-speech"}:
                outcome.findings.append(f"{role} is trusted, a role that the tree never had")
            metadata: Metadata[Any] = Metadata(cast("Any", signed))
            if metadata.signed_bytes in self.past.signed.get(role, ()):
                continue
            altered.add(role)
            if not _may(case.stolen, role):
                outcome.findings.append(f"{role} says what its key never signed")
            if role != "timestamp" and not case.stolen >= DATERS and "root" not in case.stolen:
                outcome.findings.append(f"{role} says what no snapshot or no timestamp ever named")
            if signed.expires <= utc(clock.now_s()):
                outcome.findings.append(f"{role} is trusted after its date")
        outcome.trusted |= frozenset(trusted)
        outcome.altered |= altered


def _may(stolen: frozenset[str], role: str) -> bool:
    """Tell whether the thief may set what a role says."""
    owner = layout.bin_owner(role) or role
    if owner in stolen or "root" in stolen:
        return True
    return "targets" in stolen and owner not in TOP


def _may_any(stolen: frozenset[str], roles: Sequence[str]) -> bool:
    return any(_may(stolen, role) for role in roles)


def run_cases(
    trees: HostileTrees,
    seeds: Sequence[int],
    *,
    reader: type[BoundedUpdater] | None = None,
    note: Callable[[Case, Outcome], None] | None = None,
) -> list[tuple[Case, list[str]]]:
    """Return the cases in which a device took what the stolen keys may not set, with what it took."""
    found = []
    for seed in seeds:
        case = trees.case(seed)
        outcome = trees.audit(case, reader)
        if note is not None:
            note(case, outcome)
        if outcome.findings:
            found.append((case, outcome.findings))
    return found
