"""Attack: an operator's token is used to look at devices, by audiences that hardly one of them meets.

The calls that take an audience refuse what is cut too finely, in every state in which they take one.  (What an operator
may do to whose features is `tests/platform/domain/test_permissions.py`.)
"""

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from alcove.platform.domain.audience import validate_audience
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.records import Default
from alcove.platform.services.rollouts import engine
from alcove.platform.services.rollouts.engine import RolloutSpec
from alcove.platform.store import Store
from alcove.platform.store.defaults import set_default
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.policy.attributes import MEMORY_STEPS_MB

from tests.platform.versions import add_released

WORDS = {
    "os": "os in (ios)",
    "region": "region in (AT)",
    "locale": "locale in (de-AT)",
    "device_class": "device_class in (phone)",
    "memory_mb": "memory_mb >= 8192",
    "app_version": "app_version == 2.1.0",
}


def fine() -> list[str]:
    """Audiences that too few devices meet: memory between the steps, to the megabyte, or four attributes and more."""
    numbers = [*range(1, 40), *(step + by for step in MEMORY_STEPS_MB[1:] for by in (-1, 1)), 3000, 7683, 100_000]
    cuts = [f"memory_mb {sign} {number}" for number in numbers for sign in ("==", ">=", "<", ">", "<=")]
    pairs = [f"memory_mb >= 4096 and memory_mb < {4096 + width}" for width in (1, 2, 64, 2047, 2049)]
    many = [" and ".join(part) for size in (4, 5, 6) for part in itertools.combinations(WORDS.values(), size)]
    # "above the step less one" and "up to the step less one" are the step itself.
    same = {f"memory_mb > {step - 1}" for step in MEMORY_STEPS_MB} | {
        f"memory_mb <= {step - 1}" for step in MEMORY_STEPS_MB
    }
    return [text for text in (*cuts, *pairs, *many) if text not in same]


@pytest.mark.parametrize("words", [1, 2, 3])
def test_coarse_audiences_are_taken(words: int) -> None:
    """Every combination of up to three attributes; ordinary audiences still work."""
    for parts in itertools.combinations(WORDS.values(), words):
        assert validate_audience(" and ".join(parts))


def test_every_audience_that_is_cut_too_finely_is_refused() -> None:
    """By name, with the bound: over 200 of them."""
    texts = fine()
    assert len(texts) > 200
    for text in texts:
        with pytest.raises(InvalidFieldError, match=r"memory_mb from and below|at most 3 attributes"):
            validate_audience(text)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A fresh database with two versions."""
    opened = await Store.open(tmp_path / "alcove.db")
    async with opened.write() as session:
        for version in ("1.0.0", "2.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        await set_default(session, Default("app", "f", "1.0.0", "1" * 64))
    yield opened
    await opened.close()


async def test_no_call_takes_what_another_refuses(store: Store) -> None:
    """Creating with it, and updating a draft to it: neither."""
    spec = RolloutSpec("app", "f", "2.0.0", audience="os in (ios)")
    async with store.write() as session:
        uow = UnitOfWork(session, "operator:text", 1_000_000)
        with pytest.raises(InvalidFieldError, match="memory_mb"):
            await engine.create(uow, replace(spec, audience="memory_mb == 7683"))
        draft = await engine.create(uow, spec)
        with pytest.raises(InvalidFieldError, match="memory_mb"):
            await engine.update(uow, draft.rollout_id, lambda before: replace(before, audience="memory_mb == 7683"))
