"""Looks at parts of the server: bounded, one at a time, shared, and without a secret."""

import asyncio

import pytest
from alcove.platform.core.sharing import Shared
from alcove.platform.domain.errors import StoreUnavailableError
from alcove.platform.domain.health import HealthCheck, HealthState, worst_state
from alcove.platform.server.probes import Probe

OK = HealthCheck("disk", HealthState.OK, "It works.")


async def test_a_part_that_hangs_fails_and_has_one_look_under_way() -> None:
    """However many ask: the second waits for the same look; when it ends, its answer counts."""
    released = asyncio.Event()
    looks = 0

    async def look() -> HealthCheck:
        nonlocal looks
        looks += 1
        await released.wait()
        return OK

    probe = Probe("disk", look, "Mend it.", patience_s=0)
    for _ in range(3):
        found = await probe.run()
        assert (found.state, found.remedy) == (HealthState.FAILED, "Mend it.")
        assert found.summary.startswith("It has not answered for")
    assert looks == 1
    released.set()
    await probe.close()
    assert (await probe.run()).state is HealthState.OK
    assert looks == 1


async def test_an_error_of_ours_is_shown_by_its_words_and_another_by_its_kind() -> None:
    """Its words are `detail`, which only operators of everything get; others' words may hold a password."""

    def failing(error: Exception) -> Probe:
        async def look() -> HealthCheck:
            raise error

        return Probe("database", look, "Mend it.")

    ours = await failing(StoreUnavailableError("db.example/alcove", "refused")).run()
    assert "db.example" in ours.detail
    assert "db.example" not in ours.summary + ours.remedy
    other = await failing(ValueError("postgresql://ann:pw@db/")).run()
    assert other.detail == "ValueError"


async def test_those_who_ask_together_share_an_answer_and_a_failure_is_not_kept() -> None:
    """One who gives up ends it for nobody else; after an error the next one asks again."""
    answers: list[Exception | int] = [ValueError("first"), 2, 3]
    asked = 0

    async def work() -> int:
        nonlocal asked
        answer = answers[asked]
        asked += 1
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    shared = Shared(work, 1e9)
    failed = await asyncio.gather(*(shared.get() for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in failed] == ["first"] * 3
    impatient = asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    impatient.cancel()
    assert [await shared.get() for _ in range(3)] == [2, 2, 2]
    assert asked == 2
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await shared.close()


def test_the_whole_is_as_its_worst_part_and_what_is_not_there_is_no_fault() -> None:
    """Failed before degraded; off counts as well."""
    parts = [HealthCheck("a", state, "") for state in (HealthState.OFF, HealthState.OK)]
    assert worst_state(parts) is HealthState.OK
    assert worst_state([*parts, HealthCheck("b", HealthState.DEGRADED, "")]) is HealthState.DEGRADED
    assert worst_state([*parts, HealthCheck("b", HealthState.FAILED, "")]) is HealthState.FAILED
