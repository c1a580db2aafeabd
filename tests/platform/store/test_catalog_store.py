"""The tables of versions' lives: what is current is what happened."""

import dataclasses
import itertools
import json
import random

import pytest
from alcove.platform.domain.catalog.lifecycle import Action
from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.domain.errors import PlatformError
from alcove.platform.services.catalog.aliases import approve, move_alias
from alcove.platform.services.catalog.rules import set_rules
from alcove.platform.services.catalog.states import move
from alcove.platform.store import Store
from alcove.platform.store.catalog import list_versions, open_proposals, rules_of, state_moves
from alcove.platform.store.catalog_tables import AliasMoveRow, AliasProposalRow, AliasRow, FeatureRulesRow
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import add_version, get_version, version_of, versions_query
from sqlalchemy import select

VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
ALIASES = ("production", "canary", "old")


@pytest.mark.parametrize("had", [False, True])
async def test_rules_from_before_versions_had_to_be_released_have_them_released(store: Store, had: bool) -> None:
    """A row with the earlier field is read; what else it says holds."""
    earlier = {"must_approve_aliases": True, "must_approve_rollouts": False, "must_be_released": had}
    bounds = {"max_size_bytes": 7, "max_memory_bytes": 0, "max_latency_ms": 0.0, "allowed_ops": ["add"]}
    async with store.write() as session:
        session.add(FeatureRulesRow(feature="f", rules=json.dumps(earlier | bounds), set_by="ann", set_at_s=3))
    async with store.read() as session:
        rules = await rules_of(session, "f")
    bound = FeatureRules(must_approve_aliases=True, max_size_bytes=7, allowed_ops=("add",))
    assert rules == dataclasses.replace(bound, set_by="ann", set_at_s=3)
    assert not rules.accepts_any_state


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_current_is_the_last_of_what_happened(store: Store, seed: int) -> None:
    """S7: after any hundred moves, refused ones among them, aliases and states are the ends of their histories."""
    chance = random.Random(seed)
    async with store.write() as session:
        for version in VERSIONS:
            await add_version(
                session, feature="f", version=version, team="t", manifest_sha256="0", manifest=b'{"variants":[]}',
                published_at_s=1,
            )  # fmt: skip
    refused = done = 0
    for step in range(100):
        try:
            async with store.write() as session:
                await _any_move(UnitOfWork(session, chance.choice(("team:t/a", "team:t/b")), step), chance)
            done += 1
        except PlatformError:
            refused += 1
    assert min(done, refused) > 5
    async with store.read() as session:
        moves = (await session.scalars(select(AliasMoveRow).order_by(AliasMoveRow.sequence))).all()
        ends: dict[str, str | None] = {}
        for item in moves:
            assert item.from_version == ends.get(item.alias)  # each begins where the one before ended
            assert item.approved_by != item.moved_by
            ends[item.alias] = item.to_version
        rows = (await session.scalars(select(AliasRow))).all()
        assert {row.alias: row.version for row in rows} == {name: end for name, end in ends.items() if end is not None}
        last = {item.alias: item.sequence for item in moves}
        proposals = (await session.scalars(select(AliasProposalRow))).all()
        waiting = {item.proposal_id for item in proposals if item.base_sequence == last.get(item.alias, 0)}
        assert {item.proposal_id for item in await open_proposals(session, "f")} == waiting
        records = [version_of(*row) for row in (await session.execute(versions_query())).all()]
        for record in records:
            steps = await state_moves(session, record)
            assert record.state == (steps[-1].to_state if steps else "registered")
            assert all(before.to_state == after.from_state for before, after in itertools.pairwise(steps))
        for item_listed in await list_versions(session, records):
            pointing = sorted(name for name, end in ends.items() if end == item_listed.record.version)
            assert list(item_listed.aliases) == pointing


async def _any_move(uow: UnitOfWork, chance: random.Random) -> None:
    """Do something, which may well be refused."""
    what = chance.choice(("alias", "alias", "alias", "remove", "approve", "state", "rules"))
    alias, version = chance.choice(ALIASES), chance.choice(VERSIONS)
    if what == "alias":
        await move_alias(uow, feature="f", alias=alias, version=version, reason="r")
    elif what == "remove":
        await move_alias(uow, feature="f", alias=alias, version=None, reason="r")
    elif what == "approve":
        query = select(AliasProposalRow.proposal_id).order_by(AliasProposalRow.sequence.desc()).limit(3)
        await approve(uow, chance.choice((await uow.session.scalars(query)).all() or ["ap-none"]))
    elif what == "rules":
        await set_rules(uow, "f", FeatureRules(must_approve_aliases=chance.random() < 0.5))
    else:
        action = chance.choice([action for action in Action if action is not Action.REVOKE or chance.random() < 0.1])
        await move(uow, await get_version(uow.session, "f", version), action, "r")
