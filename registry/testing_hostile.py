"""Generates hostile trees: whatever can be signed with some stolen keys, wherever it can be put.

`HostileTrees` holds one registry with a past (two states, floors, bins, halts) and all of its keys.  From a seed it
makes a case: which keys are stolen, what is signed with them, what is served in which place, and in which order a
device reads.  `HostileTrees.judge` has a device read it, and tells what it took that these keys may not set:

- every role that is trusted says what its owner once signed, or its key is stolen; and anything but a timestamp needs
  the keys of snapshot and timestamp besides;
- only roles that the tree has are trusted, and none after its date;
- a manifest is one that its team published and not below the floor that the device can know; a policy and a halt are
  published ones, or by their stolen keys; on a device that knows more, no serial falls and nothing halted comes back.

Bytes are made from plain JSON, not with the library's classes, so that every field can say anything.  `Shadow` is the
one attack that got through before there were `rules.py`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from unittest import mock
from urllib.parse import unquote, urlsplit

from alcove.registry import layout, limits
from alcove.registry._tuf import (
    CryptoSigner,
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Signer,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from alcove.registry.client import TreeClient
from alcove.registry.clock import utc
from alcove.registry.errors import RegistryError
from alcove.registry.files import Disk
from alcove.registry.floors import FIELD as FLOORS
from alcove.registry.floors import is_below
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.lifts import FIELD as LIFTS
from alcove.registry.lifts import Lift, gives_back_only_lifted
from alcove.registry.manifest import manifest_path
from alcove.registry.policy.document import Halt, HaltedVersion, VersionRef
from alcove.registry.testing import ManualClock, TreeWorld
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.formats import encode_canonical
from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from alcove.registry.updater import BoundedUpdater

_Json = dict[str, Any]

APP: Final = "messenger"
FEATURE: Final = "language_id"
_EVIL: Final = "9.9.9"
_DAY_S: Final = 86_400
_DATERS: Final = frozenset({"snapshot", "timestamp"})
_TOP: Final = ("root", "timestamp", "snapshot", "targets")
_VALUES: Final[tuple[Any, ...]] = (  # any of which may stand anywhere
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    "",
    "x",
    "*",
    [],
    {},
    [[]],
    "2.0.0",
    "1.0.31",
    0.5,
)
_NAMES: Final = ("policy", "halt", "team-text", "team-speech", "bin-speech-0", "bin-text-0", "team-evil", "evil", "a/b")
_PATTERNS: Final = (
    "*", "*/*", "*.json", "policy/*.json", "halt/*.json", f"{FEATURE}/*.json", "bandwidth/*.json",
    f"{FEATURE}/{_EVIL}.json", f"policy/{APP}.json", f"halt/{APP}.json", "[a-z]*/*",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile tree.

    Attributes:
        seed: makes it again.
        stolen: roles whose keys the thief has.
        files: what is served, by path; None answers 404.
        reads: what the device reads, in order.
        is_used: whether the device read the honest tree before.
        later_s: how much later than the honest tree it reads.
        is_followed: whether it reads the honest tree afterwards, and must not have kept anything forged.
    """

    seed: int
    stolen: frozenset[str]
    files: Mapping[str, bytes | None]
    reads: tuple[str, ...]
    is_used: bool
    later_s: int
    is_followed: bool


@dataclass(slots=True)
class Outcome:
    """What a device made of one case.

    Attributes:
        findings: what it took that the stolen keys may not set; empty for a device that holds.
        trusted: roles that it trusted at the end.
        altered: those that say what their owners never signed, with stolen keys that may.
        answers: how many reads gave a document.
    """

    findings: list[str] = field(default_factory=list)
    trusted: frozenset[str] = frozenset()
    altered: frozenset[str] = frozenset()
    answers: int = 0


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


class _Past:
    """What everybody really signed: two states, the older with a lower floor and nothing halted."""

    def __init__(self, folder: Path) -> None:
        self.world = TreeWorld(folder / "world", clock=ManualClock())
        world = self.world
        self.states: list[dict[str, bytes | None]] = []
        self.signed: dict[str, set[bytes]] = {}
        self.floors: list[dict[str, str]] = []
        for version in ("1.0.0", "1.1.0", "1.2.0"):
            world.push(world.package(version))
        with mock.patch.object(limits, "BIN_VERSIONS", 2):
            for version in ("1.0.0", "1.1.0", "1.2.0"):
                world.push(world.package(version, feature="bandwidth", team="speech"))
        world.tree.publish_policy(APP, world.policy(1, "1.0.0").to_bytes())
        halted: tuple[HaltedVersion, ...] = (HaltedVersion(feature=FEATURE, version=self.ref("1.2.0")),)
        self.first_halt = Halt(app=APP, serial=1, halted=halted, frozen=("bandwidth",))
        world.tree.publish_halt(APP, self.first_halt.to_bytes())
        self._keep()
        self._sign_floor("1.1.0")
        world.tree.publish_policy(APP, world.policy(2, "1.1.0").to_bytes())
        halted = (*halted, HaltedVersion(feature="bandwidth", version=self.ref("1.0.0", "bandwidth")))
        second_halt = Halt(app=APP, serial=2, halted=halted, frozen=("bandwidth",))
        world.tree.publish_halt(APP, second_halt.to_bytes())
        self._keep()
        self.manifests = {manifest.path: manifest.sha256 for manifest in world.tree.manifests()}
        policies = (world.policy(1, "1.0.0"), world.policy(2, "1.1.0"))
        self.policies = {policy.to_bytes() for policy in policies}
        self.halts = {
            self.first_halt.to_bytes(),
            Halt(app=APP, serial=2, halted=halted, frozen=("bandwidth",)).to_bytes(),
        }
        self.roles = frozenset(world.tree.state().roles) | {*_TOP}

    def ref(self, version: str, feature: str = FEATURE) -> VersionRef:
        """Return how documents name a version."""
        return VersionRef(version=version, manifest_sha256=self.world.tree.manifest(feature, version).sha256)

    def _sign_floor(self, version: str) -> None:
        from alcove.registry.team import sign_floor  # noqa: PLC0415 - needed once

        world = self.world
        signed = sign_floor(
            world.tree.team_metadata("text"),
            team="text",
            feature=FEATURE,
            min_version=version,
            signer=world.keys.teams["text"],
            expires_s=world.clock.now_s() + layout.TEAM_LIFETIME_S,
        )
        world.tree.accept_team_metadata(signed, {})

    def _keep(self) -> None:
        folder = self.world.tree.folder
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.json")}
        self.states.append(dict(files))
        for path, data in files.items():
            if path.startswith(f"{layout.METADATA}/"):
                role = path.removesuffix(".json").rpartition("/")[2].rpartition(".")[2]
                self.signed.setdefault(role, set()).add(Metadata.from_bytes(data).signed_bytes)
        team = self.world.tree.state().roles["team-text"].metadata.signed
        self.floors.append(dict(team.unrecognized_fields.get(FLOORS, {})))


class HostileTrees:
    """Makes cases and judges what devices make of them."""

    def __init__(self, folder: Path) -> None:
        """Build the registry, its past, and a device that knows it, in `folder`: memory is fastest."""
        self.folder = folder
        self.past = _Past(folder)
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
            f"{FEATURE}/{_EVIL}.json": world.package(_EVIL).manifest.to_bytes(),
            f"policy/{APP}.json": world.policy(9, "1.0.0").to_bytes(),
            f"halt/{APP}.json": Halt(app=APP, serial=9).to_bytes(),
        }
        # The forged manifest also under a number that exists.
        self.evil[f"{FEATURE}/1.1.0.json"] = (
            world.package("1.1.0").manifest.model_copy(update={"lineage": None, "min_runtime": "0.2.0"}).to_bytes()
        )
        self.root = (world.tree.folder / layout.metadata_file("root", 1)).read_bytes()
        self._base = [{name: _signed(files, name) for name in _current(files)} for files in self.past.states]
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
    ) -> TreeClient:
        """Return a device's client; `reader` in the place of the one that devices have."""
        client = TreeClient(
            folder, MemoryFetcher(files), "https://tree.invalid", self.root, clock=clock, files=UnsyncedDisk()
        )
        if reader is not None:
            client._reader = reader  # type: ignore[misc]  # noqa: SLF001 - a class attribute, for a wrong one
        return client

    def case(self, seed: int) -> Case:
        """Return the case of a seed."""
        return _Maker(self, random.Random(seed), seed).make()  # noqa: S311 - repeatable on purpose

    def judge(self, case: Case, reader: type[BoundedUpdater] | None = None) -> Outcome:
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

    def _read_all(self, client: TreeClient, case: Case, clock: ManualClock, outcome: Outcome) -> None:
        for what in case.reads:
            try:
                outcome.findings += self._read(client, what, case)
                outcome.answers += 1
            except RegistryError:
                continue
            finally:
                self._judge_roles(client, case, clock, outcome)

    def _read(self, client: TreeClient, what: str, case: Case) -> list[str]:
        verb, _, rest = what.partition(" ")
        if verb == "refresh":
            client.refresh()
            return []
        if verb == "policy":
            return self._judge_policy(client, case)
        if verb == "halt":
            return self._judge_halt(client, case)
        if verb == "floor":
            client.min_version(rest)
            return []
        feature, _, version = rest.partition(" ")
        return self._judge_manifest(client, feature, version, case)

    def _judge_policy(self, client: TreeClient, case: Case) -> list[str]:
        known = client.stored_policy(APP)
        policy = client.policy(APP)
        if known is not None and policy.serial < known.serial and not case.stolen & {"root", "targets"}:
            return [f"the policy's serial fell from {known.serial} to {policy.serial}"]
        if policy.to_bytes() in self.past.policies or _may(case.stolen, "policy"):
            return []
        return ["a policy that its key never signed"]

    def _judge_halt(self, client: TreeClient, case: Case) -> list[str]:
        known = client.stored_halt(APP)
        halt = client.halt(APP)
        if known is not None and not _may_any(case.stolen, ("team-text", "team-speech")):
            lifted: dict[str, Sequence[Lift]] = {}
            if not gives_back_only_lifted(known, halt, lifted):
                return ["a halt gave back what no team lifted"]
        if halt.serial == 0 or halt.to_bytes() in self.past.halts or _may(case.stolen, "halt"):
            return []
        return ["a halt that its key never signed"]

    def _judge_manifest(self, client: TreeClient, feature: str, version: str, case: Case) -> list[str]:
        manifest = client.manifest(feature, version)
        path = manifest_path(feature, version)
        if _may(case.stolen, "team-text" if feature == FEATURE else "team-speech"):
            return []
        if self.past.manifests.get(path) != manifest.sha256 or manifest.path != path:
            return [f"a manifest that no team signed: {path}"]
        # A new device knows of the past what it is shown; one that read the tree knows the last floor.
        floors = self.past.floors[-1:] if case.is_used else self.past.floors
        if all(is_below(version, one.get(feature)) for one in floors):
            return [f"{path} is below its floor"]
        return []

    def _judge_roles(self, client: TreeClient, case: Case, clock: ManualClock, outcome: Outcome) -> None:
        updater = client._updater  # noqa: SLF001 - what is trusted is looked at, not asked for
        trusted = {} if updater is None else dict(updater._trusted_set._trusted_set)  # noqa: SLF001
        altered = set()
        for role, signed in trusted.items():
            if role not in self.past.roles and not case.stolen & {"root", "targets", "team-text", "team-speech"}:
                outcome.findings.append(f"{role} is trusted, a role that the tree never had")
            metadata: Metadata[Any] = Metadata(signed)
            if metadata.signed_bytes in self.past.signed.get(role, ()):
                continue
            altered.add(role)
            if not _may(case.stolen, role):
                outcome.findings.append(f"{role} says what its key never signed")
            if role != "timestamp" and not case.stolen >= _DATERS and "root" not in case.stolen:
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
    return "targets" in stolen and owner not in _TOP


def _may_any(stolen: frozenset[str], roles: Sequence[str]) -> bool:
    return any(_may(stolen, role) for role in roles)


def _current(files: Mapping[str, bytes | None]) -> dict[str, str]:
    """Return the newest metadata file of each role, by role."""
    newest: dict[str, tuple[int, str]] = {}
    for path in files:
        if path.startswith(f"{layout.METADATA}/"):
            number, _, role = path.removeprefix(f"{layout.METADATA}/").removesuffix(".json").rpartition(".")
            newest[role] = max(newest.get(role, (-1, "")), (int(number or 0), path))
    return {role: path for role, (_, path) in newest.items()}


def _signed(files: Mapping[str, bytes | None], role: str) -> _Json:
    signed: _Json = json.loads(files[_current(files)[role]] or b"")["signed"]
    return signed


class _Maker:
    """Makes one case."""

    def __init__(self, trees: HostileTrees, chance: random.Random, seed: int) -> None:
        self.trees = trees
        self.chance = chance
        self.seed = seed
        self.stolen = self._stolen()
        self.base = chance.choice((0, 1, 1, 1, 1))
        # How often what names a document says less than an honest server would, or something else.
        self.carelessness = chance.choice((0.0, 0.0, 0.02, 0.3))
        self.is_undigested = chance.random() < 0.3
        self.files: dict[str, bytes | None] = dict(trees.past.states[self.base])
        self.listed: dict[str, Any] = {}
        for path, data in trees.evil.items():
            self.files[layout.target_file(path, hashlib.sha256(data).hexdigest())] = data

    def make(self) -> Case:
        """Return the case: roles, then the snapshot that names them, then the timestamp that names it."""
        chance = self.chance
        mutable = [role for role in self.stolen if role not in ("root", "snapshot", "timestamp")]
        mutable += [bin_role for bin_role in ("bin-speech-0", "bin-speech-1") if "team-speech" in self.stolen]
        for role in chance.sample(mutable, k=chance.randint(min(1, len(mutable)), len(mutable))):
            self._alter_role(role)
        if chance.random() < 0.15:
            self._alter_role(chance.choice(("policy", "halt", "team-text", "targets", "bin-speech-0")))
        if "root" in self.stolen or chance.random() < 0.03:
            self._alter_root()
        self._snapshot()
        return Case(
            self.seed,
            self.stolen,
            self.files,
            self._reads(),
            chance.random() < 0.5,
            chance.choice((0, 0, 0, 0, 0, 0, 2 * _DAY_S, 8 * _DAY_S)),
            chance.random() < 0.2,
        )

    def _stolen(self) -> frozenset[str]:
        chance = self.chance
        kind = chance.random()
        online = set(chance.sample(ONLINE_ROLES, k=chance.randint(1, 4)))
        if kind < 0.7:
            online |= _DATERS
        if kind < 0.25:
            online.add(chance.choice(("team-text", "team-speech")))
        elif kind > 0.97:
            online = set(chance.sample((*ONLINE_ROLES, "targets", "team-text", "team-speech"), k=2))
        return frozenset(online)

    def _reads(self) -> tuple[str, ...]:
        chance = self.chance
        pool = ["policy", "halt", "refresh", f"floor {FEATURE}", "floor bandwidth"]
        pool += [f"manifest {FEATURE} {version}" for version in ("1.0.0", "1.1.0", "1.2.0", _EVIL)]
        pool += [f"manifest bandwidth {version}" for version in ("1.0.0", "1.2.0", _EVIL)]
        if chance.random() < 0.4:
            return ("halt", f"floor {FEATURE}", "policy", f"manifest {FEATURE} 1.1.0", f"manifest {FEATURE} {_EVIL}")
        return tuple(chance.choices(pool, k=chance.randint(3, 9)))

    # What a role says.

    def _alter_role(self, role: str) -> None:
        chance = self.chance
        known = self.trees._base[self.base].get(role)  # noqa: SLF001 - of this module
        signed: _Json = copy.deepcopy(known) if known is not None else self._targets({})
        signed["version"] = signed["version"] + 1
        for _ in range(chance.choice((1, 1, 2, 3))):
            change = chance.choices(
                (self._delegate, self._name_targets, self._set_teams_fields, self._mutate, self._redate),
                (4, 3, 2, 4, 1),
            )[0]
            change(signed)
        self._publish(role, signed, self._signer_of(role))

    def _signer_of(self, role: str) -> Signer:
        owner = layout.bin_owner(role) or role
        if owner in self.stolen and self.chance.random() >= self.carelessness / 4:
            return self.trees.signers[owner]
        return self._any_signer()

    def _any_signer(self) -> Signer:
        return self.chance.choice([self.trees.own, *(self.trees.signers[role] for role in sorted(self.stolen))])

    def _delegate(self, signed: _Json) -> None:
        """Let some role, perhaps one that is there, be signed by a key of the thief, and serve what it says."""
        chance = self.chance
        keys, roles = {}, []
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            signer = self._any_signer()
            key = signer.public_key
            keys[key.keyid] = {"keytype": key.keytype, "scheme": key.scheme, "keyval": key.keyval}
            name = chance.choice(_NAMES if chance.random() < 0.3 else _NAMES[:5])
            role: _Json = {"name": name, "keyids": [key.keyid], "threshold": 1}
            role["terminating"] = chance.random() < 0.5
            if chance.random() < 0.9:
                role["paths"] = chance.sample(_PATTERNS, k=chance.randint(1, 3))
                if chance.random() < 0.5:
                    role["paths"] = ["*/*"]
            else:
                role["path_hash_prefixes"] = chance.choice((["0"], [""], [f"{digit:x}" for digit in range(16)]))
            roles.append(role)
            self._plant(name, signer)
        if chance.random() < 0.5:
            signed["targets"] = {}
        delegations: _Json = {"keys": keys, "roles": roles}
        if chance.random() < 0.25:
            bits = chance.choice((1, 2, 2, 3, 8, 32))
            prefix = chance.choice(("bin-text", "bin-speech", "team", "policy", "bin-evil"))
            delegations = {
                "keys": keys,
                "succinct_roles": {"keyids": [*keys], "threshold": 1, "bit_length": bits, "name_prefix": prefix},
            }
            signer = self._any_signer()
            for number in range(2 ** min(bits, 2)):
                self._plant(f"{prefix}-{number:x}", signer)
        known = signed.get("delegations")
        if chance.random() < 0.3 and isinstance(known, dict) and isinstance(known.get("roles"), list):
            order = [roles, known["roles"]] if chance.random() < 0.5 else [known["roles"], roles]
            before = known["keys"] if isinstance(known.get("keys"), dict) else {}
            delegations = {"keys": before | keys, "roles": [*order[0], *order[1]]}
        signed["delegations"] = delegations

    def _plant(self, name: str, signer: Signer) -> None:
        """Serve a role that says what the thief likes, under the number that the tree has or another."""
        chance = self.chance
        known = self.trees._base[self.base].get(name)  # noqa: SLF001 - of this module
        number = 1 if known is None else known["version"]
        planted = self._targets({path: _target(data) for path, data in self.trees.evil.items()})
        planted["version"] = number + chance.choice((0, 0, 1, 2))
        if chance.random() < 0.5:
            self._set_teams_fields(planted)
        self._publish(name, planted, signer)

    def _name_targets(self, signed: _Json) -> None:
        """Name forged documents, or true ones in another place."""
        chance = self.chance
        targets = signed.setdefault("targets", {})
        if not isinstance(targets, dict):
            return
        everything = [*self.trees.evil.items()]
        for path, data in chance.sample(everything, k=chance.randint(1, len(everything))):
            targets[path] = _target(data, chance.choice((("sha256",), ("sha256",), ("sha512",), ("sha256", "sha512"))))
        if chance.random() < 0.3 and targets:
            place = chance.choice(
                [manifest_path(FEATURE, "1.0.0"), manifest_path("bandwidth", "1.2.0"), f"halt/{APP}.json"]
            )
            targets[place] = copy.deepcopy(targets[chance.choice(list(targets))])

    def _set_teams_fields(self, signed: _Json) -> None:
        chance = self.chance
        signed[FLOORS] = chance.choice(({}, {FEATURE: "0.0.1"}, {FEATURE: "9.9.9"}, {"bandwidth": "0.0.1"}))
        ref = self.trees.past.first_halt.halted[0].version.manifest_sha256
        lift = {"app": APP, "feature": FEATURE, "manifest_sha256": ref, "serial": chance.choice((1, 2, 99))}
        signed[LIFTS] = chance.choice(([], [lift], [{"app": APP, "feature": "bandwidth", "serial": 99}], [lift, lift]))

    def _redate(self, signed: _Json) -> None:
        now_s = self.trees.past.world.clock.now_s()
        later_s = self.chance.choice((-1, 1, 10 * _DAY_S, 10_000 * _DAY_S))
        signed["expires"] = utc(now_s + later_s).isoformat().replace("+00:00", "Z")
        signed["version"] = self.chance.choice((0, 1, signed.get("version"), 2**31, 2**63, "2"))

    def _mutate(self, signed: _Json) -> None:
        """Change any one field, however deep."""
        chance = self.chance
        places: list[tuple[Any, Any]] = []
        _walk(signed, places)
        if not places:
            return
        holder, key = chance.choice(places)
        kind = chance.random()
        if kind < 0.2:
            del holder[key]
        elif kind < 0.6:
            holder[key] = copy.deepcopy(chance.choice(_VALUES))
        elif kind < 0.8:
            other, name = chance.choice(places)
            if not (isinstance(other, list) and name >= len(other)) and (isinstance(other, list) or name in other):
                holder[key] = copy.deepcopy(other[name])
        elif isinstance(holder, dict):
            holder[chance.choice((*_NAMES, *_TOP, "delegations", "keys", "roles", "paths", "hashes", "length"))] = (
                copy.deepcopy(holder[key])
            )
        else:
            holder.append(copy.deepcopy(holder[key]))

    def _alter_root(self) -> None:
        root = copy.deepcopy(self.trees._base[self.base]["root"])  # noqa: SLF001 - of this module
        root["version"] += 1
        key = self.trees.own.public_key
        root["keys"][key.keyid] = {"keytype": key.keytype, "scheme": key.scheme, "keyval": key.keyval}
        for role in self.chance.sample(_TOP, k=self.chance.randint(1, 4)):
            root["roles"][role] = {"keyids": [key.keyid], "threshold": 1}
        self.files[layout.metadata_file("root", root["version"])] = self._metadata(root, self._signer_of("root"))

    # What dates it.

    def _publish(self, role: str, signed: _Json, signer: Signer) -> None:
        data = self._metadata(signed, signer)
        version = signed.get("version")
        self.files[f"{layout.METADATA}/{version}.{role.replace('/', '%2F')}.json"] = data
        self.listed[f"{role}.json"] = self._link(version, data)

    def _link(self, version: Any, data: bytes) -> _Json:
        """Name metadata as an honest server does, mostly; else by less, or by something else."""
        chance = self.chance
        link: _Json = {"version": version, "length": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}
        if self.is_undigested and chance.random() < 0.7:
            del link["hashes"]
        if chance.random() < self.carelessness:
            algorithm = chance.choice(("sha512", "sha256", "md5", "blake2b-256"))
            link["hashes"] = {algorithm: chance.choice((hashlib.sha512(data).hexdigest(), "", "0" * 64))}
        if chance.random() < self.carelessness:
            link["length"] = chance.choice((0, 1, len(data) + 1, 2**40, None))
        return link

    def _snapshot(self) -> None:
        chance = self.chance
        if "snapshot" in self.stolen or (self.listed and chance.random() < 0.3):
            snapshot = copy.deepcopy(self.trees._base[self.base]["snapshot"])  # noqa: SLF001 - of this module
            snapshot["version"] += chance.choice((0, 1, 1, 1, 1))
            snapshot["meta"] |= self.listed
            for name in list(snapshot["meta"]):
                if self.is_undigested and chance.random() < 0.5:
                    snapshot["meta"][name].pop("hashes", None)
                if chance.random() < self.carelessness / 4:
                    snapshot["meta"][name].pop("length", None)
            if chance.random() < self.carelessness:
                self._mutate(snapshot)
            data = self._metadata(snapshot, self._signer_of("snapshot"))
            self.files[f"{layout.METADATA}/{snapshot.get('version')}.snapshot.json"] = data
            self._timestamp(self._link(snapshot.get("version"), data))
        elif "timestamp" in self.stolen:
            self._timestamp(None)

    def _timestamp(self, link: _Json | None) -> None:
        chance = self.chance
        timestamp = copy.deepcopy(self.trees._base[self.base]["timestamp"])  # noqa: SLF001 - of this module
        timestamp["version"] += 1
        timestamp["expires"] = utc(self.trees.past.world.clock.now_s() + 20 * _DAY_S).isoformat().replace("+00:00", "Z")
        if link is not None:
            timestamp["meta"]["snapshot.json"] = link
        if chance.random() < self.carelessness:
            self._mutate(timestamp)
        self.files[layout.metadata_file("timestamp")] = self._metadata(timestamp, self._signer_of("timestamp"))

    def _targets(self, targets: _Json) -> _Json:
        expires = utc(self.trees.past.world.clock.now_s() + 20 * _DAY_S).isoformat().replace("+00:00", "Z")
        return {"_type": "targets", "spec_version": "1.0.31", "version": 0, "expires": expires, "targets": targets}

    def _metadata(self, signed: _Json, signer: Signer) -> bytes:
        chance = self.chance
        try:
            body = str(encode_canonical(signed)).encode()
        except Exception:  # noqa: BLE001 - a float: no honest signature covers it either
            body = b"{}"
        signature = signer.sign(body).to_dict()
        if chance.random() < self.carelessness / 4:  # under somebody else's name
            signature["keyid"] = chance.choice(list(self.trees.signers.values())).public_key.keyid
        return json.dumps({"signatures": [signature], "signed": signed}).encode()


def _target(data: bytes, algorithms: Sequence[str] = ("sha256",)) -> _Json:
    return {"length": len(data), "hashes": {name: hashlib.new(name, data).hexdigest() for name in algorithms}}


def _walk(value: Any, places: list[tuple[Any, Any]]) -> None:
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        places.append((value, key))
        _walk(item, places)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A role of the thief's under the name of another: what python-tuf confuses without our rules.

    Attributes:
        delegator: whose key is stolen; its new metadata hands its paths on.
        name: of the role that is shadowed; its number stays what it is, and the snapshot gives no digest of it.
        documents: what the shadow names, by path.
    """

    delegator: str
    name: str
    documents: Mapping[str, bytes]

    def files(self, world: TreeWorld, stolen: Mapping[str, Signer]) -> dict[str, bytes]:
        """Return what to serve in the place of an honest tree; what no stolen key signs, a key of the thief does."""
        own = CryptoSigner(Ed25519PrivateKey.generate())
        state = world.tree.state()
        expires = utc(world.clock.now_s() + 20 * _DAY_S)
        pattern = {"policy": "policy/*.json", "halt": "halt/*.json"}.get(self.delegator, "*/*")
        delegated = DelegatedRole(self.name, [own.public_key.keyid], 1, True, [pattern])
        delegating = Targets(
            version=state.roles[self.delegator].version + 1,
            expires=expires,
            delegations=Delegations({own.public_key.keyid: own.public_key}, {self.name: delegated}),
        )
        files, targets = {}, {}
        for path, data in self.documents.items():
            targets[path] = TargetFile.from_data(path, data, ["sha256"])
            files[layout.target_file(path, targets[path].hashes["sha256"])] = data
        shadow = Targets(version=state.roles[self.name].version, expires=expires, targets=targets)
        snapshot = Snapshot(state.snapshot.version + 1, expires=expires, meta=dict(state.snapshot.meta))
        snapshot.meta[f"{self.name}.json"] = MetaFile(shadow.version)
        snapshot.meta[f"{self.delegator}.json"] = MetaFile(delegating.version)
        link = MetaFile(snapshot.version)
        timestamp = Timestamp(state.timestamp.version + 1, expires=expires, snapshot_meta=link)
        roles = {self.delegator: delegating, self.name: shadow, "snapshot": snapshot, "timestamp": timestamp}
        for name, signed in roles.items():
            metadata: Metadata[Any] = Metadata(signed)
            metadata.sign(own if name == self.name else stolen.get(name, own))
            files[layout.metadata_file(name, None if name == "timestamp" else signed.version)] = metadata.to_bytes()
        return files


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
        outcome = trees.judge(case, reader)
        if note is not None:
            note(case, outcome)
        if outcome.findings:
            found.append((case, outcome.findings))
    return found
