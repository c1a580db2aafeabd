"""Rows to policy: the same rows always give the same bytes, and a new serial only where devices must read again."""

import random

import pytest
from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.domain.errors import BelowMinVersionError, InvalidFieldError
from alcove.platform.domain.limits import WINDOW_LATE_S
from alcove.platform.domain.policy import compile_policy
from alcove.platform.domain.records import (
    ArmRecord,
    Default,
    ExperimentRecord,
    ExperimentState,
    RolloutRecord,
    RolloutState,
)
from alcove.platform.services.loading import load_app
from alcove.platform.services.policy.decide import decide_policy, validate_may_run
from alcove.platform.services.saving import save_app
from alcove.platform.store import Store
from alcove.platform.store.catalog import add_rules
from alcove.platform.store.defaults import set_default
from alcove.platform.store.publications import last_publication, list_unpublished, mark_published
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.errors import VersionHaltedError
from alcove.registry.limits import FEATURES_MAX, HALTED_MAX
from alcove.registry.policy import VersionRef, halt_from_bytes, policy_from_bytes

from tests.platform.versions import add_released

FEATURES = tuple(f"f{index}" for index in range(6))


def digest(version: str) -> str:
    """A made-up digest of a version."""
    return (version.replace(".", "") * 64)[:64]


def default(feature: str, version: str = "1.0.0") -> Default:
    """A default version."""
    return Default("app", feature, version, digest(version))


def rollout(feature: str, share: int = 500) -> RolloutRecord:
    """A running rollout to 2.0.0."""
    version, state = "2.0.0", RolloutState.RUNNING
    return RolloutRecord(
        1, f"ro-{feature}", "app", feature, version, digest(version), f"salt-{feature}", state, share, 1, 1, 0
    )


def experiment(feature: str) -> ExperimentRecord:
    """A running experiment of 1.0.0 and 2.0.0."""
    arms = tuple(
        ArmRecord(name, version, digest(version), 5000) for name, version in (("control", "1.0.0"), ("new", "2.0.0"))
    )
    return ExperimentRecord(
        sequence=1, experiment_id=f"ex-{feature}", app="app", feature=feature, salt=f"salt-{feature}", arms=arms,
        state=ExperimentState.RUNNING, epsilon="2", latency_edges_ms=(1.0, 2.5), window_s=3600, minimum_cohort=100,
        created_at_s=1, started_at_s=7300, stopped_at_s=None, task_id=None, decision=None, policy_serial=0,
    )  # fmt: skip


def test_the_same_rows_in_any_order_give_the_same_bytes() -> None:
    """Nothing of the order of rows, and no clock, reaches the document."""
    rows = (
        [default(feature) for feature in FEATURES],
        [rollout("f1"), rollout("f3")],
        [experiment("f2"), experiment("f4")],
    )
    seen = set()
    for seed in range(20):
        for part in rows:
            random.Random(seed).shuffle(part)
        policy = compile_policy("app", 7, defaults=rows[0], rollouts=rows[1], experiments=rows[2], min_versions={})
        seen.add(policy.to_bytes())
    assert len(seen) == 1
    assert policy_from_bytes(seen.pop()) == policy


def test_the_policy_says_what_the_rows_say() -> None:
    """Defaults, shares, arms and the task arrive unchanged."""
    policy = compile_policy(
        "app", 3, defaults=[default("f1"), default("f2"), default("f3")], rollouts=[rollout("f1", 250)],
        experiments=[experiment("f2")], min_versions={},
    )  # fmt: skip
    assert (policy.app, policy.serial, sorted(policy.features)) == ("app", 3, ["f1", "f2", "f3"])
    one, two, three = (policy.features[name] for name in ("f1", "f2", "f3"))
    assert one.rollout is not None
    assert (one.rollout.share_basis_points, one.rollout.version.version, one.experiments) == (250, "2.0.0", ())
    (compared,) = two.experiments
    assert [arm.share_basis_points for arm in compared.arms] == [5000, 5000]
    (task,) = compared.tasks
    assert task.first_window_start_s == 7300 - WINDOW_LATE_S
    assert task.cell_count == 2 * 2 * 3
    assert (three.rollout, three.experiments, three.default.version) == (None, (), "1.0.0")


def test_more_features_than_a_device_reads_are_refused() -> None:
    """A policy that no device would accept is never decided."""
    many = [default(f"f{index}") for index in range(FEATURES_MAX + 1)]
    with pytest.raises(InvalidFieldError, match="policy"):
        compile_policy("app", 1, defaults=many, rollouts=[], experiments=[], min_versions={})


async def add_feature(store: Store, feature: str) -> None:
    """A published version, so that other rows may name it."""
    async with store.write() as session:
        await add_released(session, feature=feature, version="1.0.0", team="t", manifest_sha256=digest("1.0.0"))


async def test_the_serial_rises_by_one_exactly_when_devices_must_read_again(store: Store) -> None:
    """An unchanged policy keeps its serial; each change takes the next, per app."""
    await add_feature(store, "f")
    serials = []
    for version in ("1.0.0", "1.0.0", "2.0.0", "2.0.0", "1.0.0"):
        async with store.write() as session:
            await set_default(session, default("f", version))
            serials.append(await decide_policy(UnitOfWork(session, "p", 1), "app"))
    assert serials == [1, 1, 2, 2, 3]
    async with store.write() as session:
        assert await decide_policy(UnitOfWork(session, "p", 1), "other") == 1


async def test_decided_documents_wait_until_they_are_published(store: Store) -> None:
    """What was decided is found after a crash; publishing the newest settles the older ones."""
    await add_feature(store, "f")
    for version in ("1.0.0", "2.0.0"):
        async with store.write() as session:
            await set_default(session, default("f", version))
            await decide_policy(UnitOfWork(session, "p", 1), "app")
    async with store.write() as session:
        waiting = await list_unpublished(session)
        assert [item.serial for item in waiting] == [1, 2]
        await mark_published(session, waiting[-1])
        assert await list_unpublished(session) == []


async def decide_halt(uow: UnitOfWork, ref: VersionRef) -> int:
    """Forbid a version of feature "f" in the app; return the serial of the halt that holds then."""
    before = await load_app(uow, "app")
    return (await save_app(uow, before, before.forbid("f", ref))).halt_serial


async def test_a_halt_names_all_that_was_halted_before(store: Store) -> None:
    """Nothing is given back; halting the same version again changes nothing; other apps are not concerned."""
    one, two, three = (VersionRef(version=name, manifest_sha256=digest(name)) for name in ("1.0.0", "2.0.0", "3.0.0"))
    async with store.write() as session:
        uow = UnitOfWork(session, "p", 1)
        await add_rules(session, "f", FeatureRules(accepts_any_state=True))
        await validate_may_run(uow, "app", "f", one)
        assert [await decide_halt(uow, ref) for ref in (one, two, one)] == [1, 2, 2]
        for ref in (one, two):
            with pytest.raises(VersionHaltedError, match=ref.version):
                await validate_may_run(uow, "app", "f", ref)
            await validate_may_run(uow, "other", "f", ref)
        await validate_may_run(uow, "app", "f", three)
        last = await last_publication(session, "halt", "app")
    assert last is not None
    assert [item.version for item in halt_from_bytes(last.document).halted] == [one, two]


async def test_more_halts_than_a_device_reads_are_refused(store: Store) -> None:
    """The bound is named."""
    async with store.write() as session:
        uow = UnitOfWork(session, "p", 1)
        for index in range(HALTED_MAX):
            ref = VersionRef(version=f"1.{index}.0", manifest_sha256=f"{index:064x}")
            await decide_halt(uow, ref)
        with pytest.raises(InvalidFieldError, match=f"at most {HALTED_MAX}"):
            await decide_halt(uow, VersionRef(version="9.0.0", manifest_sha256="f" * 64))


async def test_what_is_below_its_teams_floor_is_neither_taken_nor_published(store: Store) -> None:
    """A floor takes old versions out of the policy, with the rollouts and experiments that need them."""
    rows = [default(name, "1.0.0" if name == "f0" else "2.0.0") for name in ("f0", "f1", "f2", "f3")]
    policy = compile_policy(
        "app", 1, defaults=rows, rollouts=[rollout("f1"), rollout("f3")], experiments=[experiment("f2")],
        min_versions={"f0": "1.0.1", "f1": "2.0.0", "f2": "1.0.1"},
    )  # fmt: skip
    assert {name: rules.min_version for name, rules in policy.features.items()} == {
        "f1": "2.0.0", "f2": "1.0.1", "f3": "0.0.0"
    }  # fmt: skip
    assert policy.features["f1"].rollout is not None
    assert policy.features["f2"].experiments == ()
    async with store.write() as session:
        uow = UnitOfWork(session, "p", 1, min_versions={"f": "2.0.0"})
        await add_rules(session, "f", FeatureRules(accepts_any_state=True))
        await validate_may_run(uow, "app", "f", VersionRef(version="2.0.0", manifest_sha256=digest("2.0.0")))
        with pytest.raises(BelowMinVersionError, match=r"1\.9\.9 is below 2\.0\.0"):
            await validate_may_run(uow, "app", "f", VersionRef(version="1.9.9", manifest_sha256=digest("1.9.9")))
