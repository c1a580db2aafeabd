"""The feed example app, with a real client and the committed program: reasons, seen and new items, size limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.features.errors import FieldError
from alcove.features.feed_ranking import FeedAnswer, FeedRanking
from alcove.features.feed_ranking.example import Feed
from alcove.sdk import Client, FeatureHandle

CANDIDATES = list(range(100, 400))


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[FeatureHandle[FeedAnswer]]:
    """A client that never reaches a server: the baseline answers."""
    with Client("reader", tmp_path / "data", "https://models.example.org", b"") as client:
        yield client.feature(FeedRanking)


def test_what_was_opened_is_a_reason_and_not_shown_again(handle: FeatureHandle[FeedAnswer]) -> None:
    """Before: popular items without a reason. After: the opened item explains others."""
    feed = Feed(handle)
    cold = feed.order(CANDIDATES)
    assert len(cold) == 10
    assert all(entry.because == () for entry in cold)
    opened = cold[0].item
    feed.was_opened(opened)
    warm = feed.order(CANDIDATES)
    assert opened not in {entry.item for entry in warm}
    assert {reason.item for entry in warm for reason in entry.because} == {opened}


def test_what_was_shown_sinks_and_comes_back(handle: FeatureHandle[FeedAnswer]) -> None:
    """At once other items come first; a year later the same as at first."""
    feed = Feed(handle)
    first = [entry.item for entry in feed.order(CANDIDATES, now_h=0.0)]
    again = feed.order(CANDIDATES, now_h=0.0)
    assert [entry.item for entry in again] != first
    assert all(entry.recency == -1.0 for entry in again if entry.item in first)
    assert [entry.item for entry in feed.order(CANDIDATES, now_h=9000.0)] == first


def test_new_item_gains(handle: FeatureHandle[FeedAnswer]) -> None:
    """The last of a feed, published this hour, is higher than before."""
    last = Feed(handle).order(CANDIDATES, limit=300)[-1].item
    fresh = [entry.item for entry in Feed(handle).order(CANDIDATES, age_h={last: 0.0}, limit=300)]
    assert fresh.index(last) < 299


def test_nothing_to_show_and_too_much_to_show(handle: FeatureHandle[FeedAnswer]) -> None:
    """All opened: an empty feed. More than a thousand: an error before the program runs."""
    feed = Feed(handle, history=[5, 6])
    assert feed.order([5, 6]) == ()
    assert feed.order([]) == ()
    with pytest.raises(FieldError, match="at most 1000"):
        feed.order(list(range(10, 2000)))
