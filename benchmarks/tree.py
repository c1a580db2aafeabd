"""Measures what a tree of 10 000 versions costs a device, and what publishing one more version costs the server.

A real tree of 50 teams with 200 versions each, in hash bins, behind the built-in server's own routes on loopback; a
device reads it through the SDK's transport.  `python -m benchmarks --only tree`.
"""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web
from alcove.platform.ingress.static import static_routes
from alcove.registry import layout
from alcove.registry._tuf import Metadata, TargetFile, Targets
from alcove.registry.client import RepositoryClient
from alcove.registry.hash_bins import HashBins
from alcove.registry.keys import create_keys
from alcove.registry.metadata_writer import MetadataWriter
from alcove.registry.package import create_package
from alcove.registry.policy import FeaturePolicy, Policy, VersionRef
from alcove.registry.repository import Repository, initialize_repository
from alcove.registry.signed_time import utc
from alcove.registry.team import sign_version
from alcove.registry.testing import FakeVerifier, FolderFetcher
from alcove.registry.trust import SignedRole, bins_of
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.files import DISK
from alcove.sdk.egress import Egress, TufFetcher
from alcove.sdk.transport import TrafficStats

from benchmarks.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alcove.registry.keys import KeyRing
    from alcove.registry.package import Package

TEAMS: Final = 50
VERSIONS: Final = 200  # of each team
APP: Final = "messenger"
PUSHES: Final = 8  # of other teams, timed
REPEATS: Final = 15  # of the look-up; the least counts


def measure() -> list[Figure]:
    """Return bytes that a device moves and times that device and server take, at 10 000 versions of 50 teams."""
    with tempfile.TemporaryDirectory(prefix="alcove-tree-") as temporary:
        return _measure(Path(temporary))


def _measure(folder: Path) -> list[Figure]:
    teams = {f"team{number:02d}": (_feature(number),) for number in range(TEAMS)}
    keys = create_keys(folder / "keys", teams=teams)
    initialize_repository(folder / "tree", keys, teams)
    own = _fill(folder / "tree", keys)
    cold = Repository(folder / "tree", keys=keys.online)
    cold_s = _seconds(cold.state)
    _publish_policy(cold, own)
    state = cold.state()
    teams_of = [role for role in state.roles if layout.is_team(role)]
    count = sum(1 for role in teams_of for _ in state.targets_of(role))
    bins = sum(len(bins_of(state.roles[role].metadata.signed)) for role in teams_of)
    with _serve(folder / "tree") as url:
        device = _Device(folder / "device", url, cold.root_bytes())
        first = device.check_in()
        unchanged = device.check_in()
        push_s = [_push(cold, keys, number) for number in range(1, PUSHES + 1)]
        others = device.check_in()
        _push(cold, keys, PUSHES + 1)
        foreign = device.check_in()
    look_up_s = min(device.look_up(folder / "tree") for _ in range(REPEATS))
    files = "files read, not fetched: signatures, digests, dates of an unchanged tree; ≤ 15"
    return [
        Figure("versions in the tree", count, "", f"{TEAMS} teams of {VERSIONS} versions"),
        Figure("hash bins beneath the teams", bins, "", "at most 64 versions in each on average"),
        Figure("first fetch: received", first, "bytes", "metadata, policy and a manifest, without headers; ≤ 25 000"),
        Figure("unchanged: received", unchanged, "bytes", "the timestamp; ≤ 1 000"),
        Figure("one foreign publish: received", foreign, "bytes", "timestamp and snapshot"),
        Figure(f"{PUSHES} foreign publishes: received", others, "bytes", "between two check-ins"),
        Figure("verify and look-up on the device", 1000 * look_up_s, "ms", files),
        Figure("publish one version", statistics.median(push_s), "s", "signing, review and synced files; ≤ 2"),
        Figure("prove the whole tree in a new process", cold_s, "s", "every role once; afterwards what changed"),
    ]


class _Device:
    """One device, which keeps what it has read."""

    def __init__(self, folder: Path, url: str, root: bytes) -> None:
        self._folder, self._url, self._root = folder, url, root

    def check_in(self) -> int:
        """Read policy, halt, floor and the version that it runs, as a sync does; return the bytes received."""
        traffic = TrafficStats()
        egress = Egress(self._url, traffic=traffic)
        try:
            client = RepositoryClient(self._folder, TufFetcher(egress, self._url), self._url, self._root)
            client.halt(APP)
            client.policy(APP)
            client.min_version(_feature(0))
            client.manifest(_feature(0), "1.0.0")
        finally:
            egress.close()
        return traffic.received_bytes

    def look_up(self, tree: Path) -> float:
        """Verify the tree in a folder and find one version; return the seconds that it took."""
        client = RepositoryClient(self._folder, FolderFetcher(tree), "https://tree.invalid", self._root)

        def run() -> None:
            client.refresh()
            client.manifest(_feature(0), "1.0.0")

        return _seconds(run)


def _feature(number: int) -> str:
    return f"feature_{number:02d}"


def _package(number: int, version: str) -> Package:
    return create_package(
        feature=_feature(number),
        team=f"team{number:02d}",
        version=version,
        programs={"f32": f"program {number} {version}".encode()},
        card=f"# {_feature(number)} {version}\n",
        verifier=FakeVerifier(),
    )


def _fill(folder: Path, keys: KeyRing) -> Package:
    """Sign every version as its team would have, and publish them at once; return the one that the device runs."""
    tree = Repository(folder, keys=keys.online)
    state = tree.state()
    expires = utc(SYSTEM_CLOCK.now_s() + layout.TEAM_LIFETIME_S)
    own = _package(0, "1.0.0")
    roles = {}
    for number in range(TEAMS):
        role, signer = f"team-team{number:02d}", keys.teams[f"team{number:02d}"]
        versions = HashBins(role, Targets(version=1), {})
        for minor in range(VERSIONS):
            path = f"{_feature(number)}/1.{minor}.0.json"
            is_own = path == own.manifest.path
            # What stands in a manifest weighs nothing here: the tree names its digest and length.
            data = own.manifest.to_bytes() if is_own else hashlib.sha512(path.encode()).digest() * 14
            versions.add(
                path, TargetFile.from_data(path, data, ["sha256"]), {signer.public_key.keyid: signer.public_key}
            )
        for name in versions.changed:
            signed = versions.owner if name == role else versions.bins[name]
            signed.version += 1
            signed.expires = expires
            metadata = Metadata(signed)
            metadata.sign(signer)
            roles[name] = SignedRole(metadata, metadata.to_bytes())
    for sha256, data in own.blobs().items():
        tree.blobs.put(sha256, data)
    MetadataWriter(folder, keys.online, DISK, SYSTEM_CLOCK.now_s()).publish(
        targets={own.manifest.path: own.manifest.to_bytes()},
        roles=roles,
        snapshot=state.snapshot,
        timestamp=state.timestamp,
    )
    return own


def _publish_policy(tree: Repository, package: Package) -> None:
    ref = VersionRef(version=package.manifest.version, manifest_sha256=package.manifest.sha256)
    rules = FeaturePolicy(min_version="0.0.1", default=ref)
    tree.publish_policy(APP, Policy(app=APP, serial=1, features={_feature(0): rules}).to_bytes())


def _push(tree: Repository, keys: KeyRing, number: int) -> float:
    """Publish one version more of a team; return the seconds from signing to the timestamp."""
    package = _package(number, "2.0.0")
    for sha256, data in package.blobs().items():
        tree.blobs.put(sha256, data)
    team = package.manifest.team

    def publish() -> None:
        expires_s = SYSTEM_CLOCK.now_s() + layout.TEAM_LIFETIME_S
        signed = sign_version(tree.team_metadata(team), package.manifest, keys.teams[team], expires_s)
        tree.accept_team_metadata(signed, {package.manifest.path: package.manifest.to_bytes()}, team=team)

    return _seconds(publish)


def _seconds(call: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    """Serve a tree on loopback, with the routes of the built-in server, in a thread; give the address."""
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.add_routes(static_routes(folder))
    runner = web.AppRunner(app, access_log=None)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(start(), loop).result()
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
