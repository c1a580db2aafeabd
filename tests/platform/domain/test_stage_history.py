"""Which analyses of a rollout are kept: bounded in number, all of the newest, older ones evenly over its life."""

import itertools
from dataclasses import replace

import pytest
from alcove.platform.domain.rollout_records import AnalysisRecord, KeptAnalysis, StageDecisionKind
from alcove.platform.domain.rollouts.history import KEPT_NEWEST, KEPT_OLDER, is_news, select_superfluous
from hypothesis import given
from hypothesis import strategies as st

DAY = 86_400
FOUND = AnalysisRecord(1000, StageDecisionKind.HOLD, "inconclusive", "because", 10, (5.0, 5.0), (), looks=1)


def keep_up(step_s: int, count: int, window_s: int = DAY) -> list[int]:
    """Times that are kept after analyses every `step_s`, thinned out after each one as the store does."""
    kept: list[int] = []
    for number in range(count):
        kept.append(1_000_000 + number * step_s)
        gone = set(select_superfluous(kept, window_s))
        kept = [at_s for place, at_s in enumerate(kept) if place not in gone]
    return kept


@pytest.mark.thorough
def test_a_year_of_analyses_each_minute_is_kept_in_a_bounded_number_over_the_whole_year() -> None:
    """The newest are all there; between older ones there is never more than a few periods."""
    minutes = 365 * 24 * 12  # one in five minutes
    kept = keep_up(300, minutes)
    assert len(kept) <= KEPT_NEWEST + KEPT_OLDER
    assert kept[-KEPT_NEWEST:] == [1_000_000 + number * 300 for number in range(minutes - KEPT_NEWEST, minutes)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(kept)]
    assert max(gaps) <= 2 * 365 * DAY / (KEPT_OLDER / 2)
    assert kept[0] - 1_000_000 <= 365 * DAY / (KEPT_OLDER / 2)


def test_of_few_analyses_all_are_kept_and_then_the_last_of_each_hour() -> None:
    """A daily window is looked at by hours."""
    assert keep_up(60, KEPT_NEWEST) == [1_000_000 + 60 * number for number in range(KEPT_NEWEST)]
    older = keep_up(60, 24 * 60)[:-KEPT_NEWEST]
    assert {(at_s + 60) % 3600 < 60 for at_s in older[:-1]} == {True}


@given(st.lists(st.integers(0, 10**10), max_size=300).map(sorted), st.sampled_from([60, 3600, DAY, 30 * DAY]))
def test_whatever_the_times_no_more_are_kept_and_none_of_the_newest_goes(times_s: list[int], window_s: int) -> None:
    """A second thinning finds nothing more to take."""
    gone = select_superfluous(times_s, window_s)
    assert not set(gone) & set(range(max(0, len(times_s) - KEPT_NEWEST), len(times_s)))
    kept = [at_s for place, at_s in enumerate(times_s) if place not in set(gone)]
    assert len(kept) <= KEPT_NEWEST + KEPT_OLDER
    assert select_superfluous(kept, window_s) == []


def test_what_the_clock_alone_changes_is_no_news() -> None:
    """New reports, another decision, another look and another stage are."""
    last = KeptAnalysis(1, 1, 100, FOUND)
    assert is_news(None, 1, FOUND)
    assert not is_news(last, 1, replace(FOUND, analyzed_at_s=2000, reason="it has lasted 2 h", next_look_at_s=5))
    assert is_news(last, 2, FOUND)
    for change in (
        replace(FOUND, reports=11),
        replace(FOUND, pooled_reports=11),
        replace(FOUND, looks=2),
        replace(FOUND, decision=StageDecisionKind.READY),
        replace(FOUND, code="other"),
    ):
        assert is_news(last, 1, change)
