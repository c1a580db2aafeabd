"""Makes hostile trees from seeds: whatever can be signed with some stolen keys, wherever it can be put."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING, Any

from alcove.registry import layout
from alcove.registry.hostile_trees.case import (
    APP,
    DATERS,
    DAY_S,
    EVIL,
    FEATURE,
    NAMES,
    PATTERNS,
    TOP,
    VALUES,
    Case,
    Json,
)
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.manifest import manifest_path
from alcove.registry.min_versions import FIELD as MIN_VERSIONS
from alcove.registry.reinstatements import FIELD as REINSTATEMENTS
from alcove.registry.signed_time import utc
from securesystemslib.formats import encode_canonical

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from alcove.registry._tuf import Signer
    from alcove.registry.hostile_trees.audit import HostileTrees


class Maker:
    """Makes one case."""

    def __init__(self, trees: HostileTrees, chance: random.Random, seed: int) -> None:
        self.trees = trees
        self.chance = chance
        self.seed = seed
        self.stolen = self._choose_stolen_keys()
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
            chance.choice((0, 0, 0, 0, 0, 0, 2 * DAY_S, 8 * DAY_S)),
            chance.random() < 0.2,
        )

    def _choose_stolen_keys(self) -> frozenset[str]:
        chance = self.chance
        kind = chance.random()
        online: set[str] = set(chance.sample(ONLINE_ROLES, k=chance.randint(1, 4)))
        if kind < 0.7:
            online |= DATERS
        if kind < 0.25:
            online.add(chance.choice(("team-text", "team-speech")))
        elif kind > 0.97:
            online = set(chance.sample((*ONLINE_ROLES, "targets", "team-text", "team-speech"), k=2))
        return frozenset(online)

    def _reads(self) -> tuple[str, ...]:
        chance = self.chance
        pool = ["policy", "halt", "refresh", f"floor {FEATURE}", "floor bandwidth"]
        pool += [f"manifest {FEATURE} {version}" for version in ("1.0.0", "1.1.0", "1.2.0", EVIL)]
        pool += [f"manifest bandwidth {version}" for version in ("1.0.0", "1.2.0", EVIL)]
        if chance.random() < 0.4:
            return ("halt", f"floor {FEATURE}", "policy", f"manifest {FEATURE} 1.1.0", f"manifest {FEATURE} {EVIL}")
        return tuple(chance.choices(pool, k=chance.randint(3, 9)))

    # What a role says.

    def _alter_role(self, role: str) -> None:
        chance = self.chance
        known = self.trees.base[self.base].get(role)
        signed: Json = copy.deepcopy(known) if known is not None else self._targets({})
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

    def _delegate(self, signed: Json) -> None:
        """Let some role, perhaps one that is there, be signed by a key of the thief, and serve what it says."""
        chance = self.chance
        keys, roles = {}, []
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            signer = self._any_signer()
            key = signer.public_key
            keys[key.keyid] = {"keytype": key.keytype, "scheme": key.scheme, "keyval": key.keyval}
            name = chance.choice(NAMES if chance.random() < 0.3 else NAMES[:5])
            role: Json = {"name": name, "keyids": [key.keyid], "threshold": 1}
            role["terminating"] = chance.random() < 0.5
            if chance.random() < 0.9:
                role["paths"] = chance.sample(PATTERNS, k=chance.randint(1, 3))
                if chance.random() < 0.5:
                    role["paths"] = ["*/*"]
            else:
                role["path_hash_prefixes"] = chance.choice((["0"], [""], [f"{digit:x}" for digit in range(16)]))
            roles.append(role)
            self._plant(name, signer)
        if chance.random() < 0.5:
            signed["targets"] = {}
        delegations: Json = {"keys": keys, "roles": roles}
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
        known = self.trees.base[self.base].get(name)
        number = 1 if known is None else known["version"]
        planted = self._targets({path: _target(data) for path, data in self.trees.evil.items()})
        planted["version"] = number + chance.choice((0, 0, 1, 2))
        if chance.random() < 0.5:
            self._set_teams_fields(planted)
        self._publish(name, planted, signer)

    def _name_targets(self, signed: Json) -> None:
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

    def _set_teams_fields(self, signed: Json) -> None:
        chance = self.chance
        signed[MIN_VERSIONS] = chance.choice(({}, {FEATURE: "0.0.1"}, {FEATURE: "9.9.9"}, {"bandwidth": "0.0.1"}))
        ref = self.trees.past.first_halt.halted[0].version.manifest_sha256
        reinstatement = {"app": APP, "feature": FEATURE, "manifest_sha256": ref, "serial": chance.choice((1, 2, 99))}
        signed[REINSTATEMENTS] = chance.choice(
            ([], [reinstatement], [{"app": APP, "feature": "bandwidth", "serial": 99}], [reinstatement, reinstatement])
        )

    def _redate(self, signed: Json) -> None:
        now_s = self.trees.past.world.clock.now_s()
        later_s = self.chance.choice((-1, 1, 10 * DAY_S, 10_000 * DAY_S))
        signed["expires"] = utc(now_s + later_s).isoformat().replace("+00:00", "Z")
        signed["version"] = self.chance.choice((0, 1, signed.get("version"), 2**31, 2**63, "2"))

    def _mutate(self, signed: Json) -> None:
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
            holder[key] = copy.deepcopy(chance.choice(VALUES))
        elif kind < 0.8:
            other, name = chance.choice(places)
            if not (isinstance(other, list) and name >= len(other)) and (isinstance(other, list) or name in other):
                holder[key] = copy.deepcopy(other[name])
        elif isinstance(holder, dict):
            holder[chance.choice((*NAMES, *TOP, "delegations", "keys", "roles", "paths", "hashes", "length"))] = (
                copy.deepcopy(holder[key])
            )
        else:
            holder.append(copy.deepcopy(holder[key]))

    def _alter_root(self) -> None:
        root = copy.deepcopy(self.trees.base[self.base]["root"])
        root["version"] += 1
        key = self.trees.own.public_key
        root["keys"][key.keyid] = {"keytype": key.keytype, "scheme": key.scheme, "keyval": key.keyval}
        for role in self.chance.sample(TOP, k=self.chance.randint(1, 4)):
            root["roles"][role] = {"keyids": [key.keyid], "threshold": 1}
        self.files[layout.metadata_file("root", root["version"])] = self._metadata(root, self._signer_of("root"))

    # What dates it.

    def _publish(self, role: str, signed: Json, signer: Signer) -> None:
        data = self._metadata(signed, signer)
        version = signed.get("version")
        self.files[f"{layout.METADATA}/{version}.{role.replace('/', '%2F')}.json"] = data
        self.listed[f"{role}.json"] = self._link(version, data)

    def _link(self, version: Any, data: bytes) -> Json:
        """Name metadata as an honest server does, mostly; else by less, or by something else."""
        chance = self.chance
        link: Json = {"version": version, "length": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}
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
            snapshot = copy.deepcopy(self.trees.base[self.base]["snapshot"])
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

    def _timestamp(self, link: Json | None) -> None:
        chance = self.chance
        timestamp = copy.deepcopy(self.trees.base[self.base]["timestamp"])
        timestamp["version"] += 1
        timestamp["expires"] = utc(self.trees.past.world.clock.now_s() + 20 * DAY_S).isoformat().replace("+00:00", "Z")
        if link is not None:
            timestamp["meta"]["snapshot.json"] = link
        if chance.random() < self.carelessness:
            self._mutate(timestamp)
        self.files[layout.metadata_file("timestamp")] = self._metadata(timestamp, self._signer_of("timestamp"))

    def _targets(self, targets: Json) -> Json:
        expires = utc(self.trees.past.world.clock.now_s() + 20 * DAY_S).isoformat().replace("+00:00", "Z")
        return {"_type": "targets", "spec_version": "1.0.31", "version": 0, "expires": expires, "targets": targets}

    def _metadata(self, signed: Json, signer: Signer) -> bytes:
        chance = self.chance
        try:
            body = str(encode_canonical(signed)).encode()
        except Exception:  # noqa: BLE001 - a float: no honest signature covers it either
            body = b"{}"
        signature = signer.sign(body).to_dict()
        if chance.random() < self.carelessness / 4:  # under somebody else's name
            signature["keyid"] = chance.choice(list(self.trees.signers.values())).public_key.keyid
        return json.dumps({"signatures": [signature], "signed": signed}).encode()


def _target(data: bytes, algorithms: Sequence[str] = ("sha256",)) -> Json:
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
