"""What a restart completes: decisions that the tree is missing, versions that the rows are missing, old signatures."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.services.catalog.revocation import revoke
from alcove.platform.services.policy import PolicyPublisher
from alcove.platform.services.publishing import VersionPublisher
from alcove.platform.services.rollouts import engine as rollouts
from alcove.platform.services.validation import InThisProcess
from alcove.platform.store import Store
from alcove.platform.store.catalog import add_rules
from alcove.platform.store.publications import Publication, add_publication, list_unpublished
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import find_version
from alcove.platform.testing import ServerWorld
from alcove.registry import program_verification
from alcove.registry.errors import PublishError, StorageError
from alcove.registry.manifest import Manifest
from alcove.registry.policy import FeaturePolicy, Halt, HaltedVersion, Policy, VersionRef
from alcove.registry.program_verification import ProgramFacts
from alcove.registry.repository import Repository
from alcove.registry.testing import FakeVerifier
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.testing_seams import ManualClock

TEAMS = {"text": ("text_00", "text_01")}


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerWorld:
    """A world of its own, for a server in this process."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)
    return ServerWorld(tmp_path / "fresh", teams=TEAMS)


@pytest.fixture
def settings(fresh: ServerWorld) -> Settings:
    """Its server's settings, on a free port, for no devices."""
    keys = fresh.online_keys
    return Settings(data_dir=fresh.data_dir, online_keys=keys, grpc_port=0, only="grpc", refresh_s=0.05)


def publish_to_tree(fresh: ServerWorld, feature: str = "text_00") -> Manifest:
    """What a server does before it is killed: the tree has the version, no row says so."""
    package = fresh.package(feature)
    tree = Repository(fresh.data_dir / "tree", keys=fresh.keys.online)
    for sha256, data in package.blobs().items():
        tree.blobs.put(sha256, data)
    tree.accept_team_metadata(fresh.sign(package), {package.manifest.path: package.manifest.to_bytes()}, team="text")
    return package.manifest


def policy(manifest: Manifest, serial: int, app: str = "app") -> Policy:
    """A policy whose devices run one version."""
    ref = VersionRef(version=manifest.version, manifest_sha256=manifest.sha256)
    return Policy(app=app, serial=serial, features={manifest.feature: FeaturePolicy(min_version="0.0.0", default=ref)})


async def test_a_restart_lists_what_the_tree_holds_and_publishes_what_was_decided(
    fresh: ServerWorld, settings: Settings
) -> None:
    """Killed between tree and row, or between decision and tree: the next start completes both."""
    manifest = publish_to_tree(fresh)
    store = await Store.open(settings.database)
    async with store.write() as session:
        for serial in (1, 2):
            document = policy(manifest, serial).to_bytes()
            await add_publication(session, Publication("policy", "app", serial, document, is_published=False))
    await store.close()
    async with run(settings):
        pass
    published = fresh.tree.policy("app")
    assert published is not None
    assert published.serial == 2
    store = await Store.open(settings.database)
    async with store.read() as session:
        assert await list_unpublished(session) == []
        version = await find_version(session, "text_00", "1.0.0")
    await store.close()
    assert version is not None
    assert version.manifest_sha256 == manifest.sha256


async def test_one_document_that_is_refused_holds_up_no_other(fresh: ServerWorld, store: Store) -> None:
    """What the tree refuses stays, is reported, and the rest is published."""
    manifest = publish_to_tree(fresh)
    unsigned = policy(manifest, 1, "a-bad").model_copy(deep=True)
    ref = VersionRef(version="9.9.9", manifest_sha256="0" * 64)
    unsigned.features["text_00"] = FeaturePolicy(min_version="0.0.0", default=ref)
    async with store.write() as session:
        for document in (unsigned, policy(manifest, 1, "b-good")):
            await add_publication(
                session, Publication("policy", document.app, 1, document.to_bytes(), is_published=False)
            )
    tree = Repository(fresh.data_dir / "tree", keys=fresh.keys.online)
    publisher = PolicyPublisher(store, tree, asyncio.Lock())
    for _ in range(2):
        failures = await publisher.flush()
        assert list(failures) == [("policy", "a-bad")]
        assert isinstance(failures["policy", "a-bad"], PublishError)
    assert tree.policy("b-good") is not None
    assert tree.policy("a-bad") is None
    async with store.write() as session:
        better = policy(manifest, 2, "a-bad")
        await add_publication(session, Publication("policy", "a-bad", 2, better.to_bytes(), is_published=False))
    assert await publisher.flush() == {}
    assert tree.policy("a-bad") == better


async def test_a_failing_disk_is_tried_again(fresh: ServerWorld, store: Store) -> None:
    """The decision waits until the tree can be written."""
    manifest = publish_to_tree(fresh)
    tree = Repository(fresh.data_dir / "tree", keys=fresh.keys.online)
    broken = [True]

    class Flaky:
        def publish_policy(self, app: str, policy_bytes: bytes) -> bool:
            if broken:
                broken.clear()
                raise StorageError("tree", "no space left")
            return tree.publish_policy(app, policy_bytes)

        def publish_halt(self, app: str, halt_bytes: bytes) -> bool:
            return tree.publish_halt(app, halt_bytes)

    async with store.write() as session:
        document = policy(manifest, 1).to_bytes()
        await add_publication(session, Publication("policy", "app", 1, document, is_published=False))
    publisher = PolicyPublisher(store, Flaky(), asyncio.Lock())
    assert list(await publisher.flush()) == [("policy", "app")]
    assert tree.policy("app") is None
    assert await publisher.flush() == {}
    assert tree.policy("app") == policy(manifest, 1)


async def test_a_publication_interrupted_before_its_row_succeeds_when_repeated(
    fresh: ServerWorld, store: Store
) -> None:
    """The same metadata again is no second version: the row is written, once."""
    package = fresh.package("text_00")
    tree = Repository(fresh.data_dir / "tree", keys=fresh.keys.online)
    for sha256, data in package.blobs().items():
        tree.blobs.put(sha256, data)
    signed = fresh.sign(package)
    versions = VersionPublisher(store, tree, asyncio.Lock(), SYSTEM_CLOCK, InThisProcess())
    await versions.to_tree(package.manifest, signed)
    for _ in range(2):
        await versions.to_tree(package.manifest, signed)
        async with store.write() as session:
            record = await versions.to_row(UnitOfWork(session, "p", 1), package.manifest)
            assert record.sequence == 1
    assert await versions.reconcile() == 0


async def test_a_verification_that_takes_long_holds_up_no_halt(
    fresh: ServerWorld, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a pushed program is looked at for as long as it likes, policies and halts go out; then it is published."""
    manifest = publish_to_tree(fresh)
    is_analyzed, may_end = threading.Event(), threading.Event()

    class Slow(FakeVerifier):
        def inspect(self, variant: str, program: bytes) -> ProgramFacts:
            is_analyzed.set()
            assert may_end.wait(30)
            return super().inspect(variant, program)

    monkeypatch.setattr(program_verification, "RuntimeVerifier", Slow)
    package = fresh.package("text_00", "2.0.0")
    tree, lock = Repository(fresh.data_dir / "tree", keys=fresh.keys.online), asyncio.Lock()
    for sha256, data in package.blobs().items():
        tree.blobs.put(sha256, data)
    versions = VersionPublisher(store, tree, lock, SYSTEM_CLOCK, InThisProcess())
    pushed = asyncio.create_task(versions.to_tree(package.manifest, fresh.sign(package)))
    try:
        assert await asyncio.to_thread(is_analyzed.wait, 30)
        halted = HaltedVersion(feature="text_00", version=VersionRef(version="1.0.0", manifest_sha256=manifest.sha256))
        halt = Halt(app="app", serial=1, halted=(halted,))
        async with store.write() as session:
            for item in (
                Publication("policy", "app", 1, policy(manifest, 1).to_bytes(), is_published=False),
                Publication("halt", "app", 1, halt.to_bytes(), is_published=False),
            ):
                await add_publication(session, item)
        async with asyncio.timeout(20):
            assert await PolicyPublisher(store, tree, lock).flush() == {}
        assert tree.halt("app") == halt
        assert tree.policy("app") == policy(manifest, 1)
        assert not pushed.done()
    finally:
        may_end.set()
    await pushed
    assert tree.manifest("text_00", "2.0.0") == package.manifest


async def test_signatures_are_renewed_while_the_server_runs(fresh: ServerWorld, settings: Settings) -> None:
    """Half of the timestamp's life over: it is signed again without a restart."""
    clock = ManualClock(SYSTEM_CLOCK.now_s())
    async with run(settings, clock):
        before = fresh.tree.state().timestamp
        clock.time_s += 13 * 3600
        async with asyncio.timeout(20):
            while fresh.tree.state().timestamp.version == before.version:  # noqa: ASYNC110 - a file tells no event
                await asyncio.sleep(0.02)
        after: Any = fresh.tree.state().timestamp
    assert after.expires > before.expires


async def test_a_revocation_that_was_decided_reaches_every_app_after_a_kill(
    fresh: ServerWorld, settings: Settings
) -> None:
    """Killed between decision and tree: the next start halts the version in each app that has it."""
    manifest = publish_to_tree(fresh)
    async with run(settings):
        pass
    apps = ["one", "two", "three"]
    store = await Store.open(settings.database)
    async with store.write() as session:
        uow = UnitOfWork(session, "operator/test", 1)
        await add_rules(session, "text_00", FeatureRules(accepts_any_state=True))
        for app in apps:
            rollout = await rollouts.create(uow, rollouts.RolloutSpec(app, "text_00", "1.0.0"))
            await rollouts.advance(uow, rollout.rollout_id, share_basis_points=10_000, override_reason="test")
    async with store.write() as session:
        record, apps_changed = await revoke(
            UnitOfWork(session, "operator/test", 2), "text_00", "1.0.0", reason="it lies"
        )
    await store.close()
    assert (record.state, apps_changed) == ("revoked", sorted(apps))
    assert [fresh.tree.halt(app) for app in apps] == [None, None, None]
    async with run(settings):
        for app in apps:
            halt = fresh.tree.halt(app)
            assert halt is not None
            assert halt.digests == {manifest.sha256}
            now = fresh.tree.policy(app)
            assert now is None or "text_00" not in now.features
