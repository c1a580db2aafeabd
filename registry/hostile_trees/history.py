"""Builds a repository with a history: honest metadata in two states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unittest import mock

from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata
from alcove.registry.hostile_trees.case import APP, FEATURE, TOP, Json
from alcove.registry.min_versions import FIELD as MIN_VERSIONS
from alcove.registry.policy.document import Halt, HaltedVersion, VersionRef
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.testing_seams import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class History:
    """Honest metadata of two states, the older with a lower minimum version and nothing halted."""

    def __init__(self, folder: Path) -> None:
        self.world = RepositoryFixture(folder / "world", clock=ManualClock())
        world = self.world
        self.states: list[dict[str, bytes | None]] = []
        self.signed: dict[str, set[bytes]] = {}
        self.parse_min_versions: list[dict[str, str]] = []
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
        self._sign_min_version("1.1.0")
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
        self.roles = frozenset(world.tree.state().roles) | {*TOP}

    def ref(self, version: str, feature: str = FEATURE) -> VersionRef:
        """Return how documents name a version."""
        return VersionRef(version=version, manifest_sha256=self.world.tree.manifest(feature, version).sha256)

    def _sign_min_version(self, version: str) -> None:
        from alcove.registry.team import sign_min_version  # noqa: PLC0415 - needed once

        world = self.world
        signed = sign_min_version(
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
        self.parse_min_versions.append(dict(team.unrecognized_fields.get(MIN_VERSIONS, {})))


def current_files(files: Mapping[str, bytes | None]) -> dict[str, str]:
    """Return the newest metadata file of each role, by role."""
    newest: dict[str, tuple[int, str]] = {}
    for path in files:
        if path.startswith(f"{layout.METADATA}/"):
            number, _, role = path.removeprefix(f"{layout.METADATA}/").removesuffix(".json").rpartition(".")
            newest[role] = max(newest.get(role, (-1, "")), (int(number or 0), path))
    return {role: path for role, (_, path) in newest.items()}


def signed_part(files: Mapping[str, bytes | None], role: str) -> Json:
    """Return what the newest metadata of a role says."""
    signed: Json = json.loads(files[current_files(files)[role]] or b"")["signed"]
    return signed
