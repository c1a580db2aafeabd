"""The contract of feed_ranking: request validation, and ordering by scores and weights; no program or torch is used."""

import json
from typing import Any

import numpy as np
import pytest
from alcove.features.errors import FieldError
from alcove.features.feed_ranking import FeedRanking, FeedRequest
from alcove.features.feed_ranking.config import HISTORY
from alcove.features.feed_ranking.rerank import rerank

GOOD: dict[str, Any] = {"history": [1, 2], "candidates": [3, 4, 5]}


def line(**fields: Any) -> bytes:
    """A request with some other fields."""
    return json.dumps({**GOOD, **fields}).encode()


def outputs_of(scores: list[float], candidates: list[int], history: list[int], **more: Any) -> list[np.ndarray]:
    """Outputs as a program gives them, with vectors of two numbers."""
    count = len(scores)
    ids = np.zeros((1, HISTORY), np.int64)
    ids[0, : len(history)] = history
    users = np.zeros((1, HISTORY + 1, 2), np.float32)
    users[0] = more.get("users", 0.0)
    rows = np.zeros((1, count, 3), np.float32)
    rows[0] = more.get("rows", [[1, 0, 1]] * count)
    signals = np.full((1, count, 2), -1, np.float32)
    for column, name in enumerate(("seen_h", "age_h")):
        if name in more:
            signals[0, :, column] = more[name]
    known = (ids > 0).astype(np.float32)
    weights = np.array([more.get("weights", [0, 0, 0, 20])], np.float32)
    return [
        np.array([scores], np.float32),
        users,
        rows,
        known,
        ids,
        np.array([candidates], np.int64),
        signals,
        weights,
    ]


def test_line_becomes_padded_ids_and_signals() -> None:
    """History at the front, zeros behind it; -1 for what nobody knows."""
    history, candidates, added, offset, signals, weights = FeedRanking().parse(
        line(seen_h=[None, 1.5, 0], limit=7, weights={"diversity": 0.0})
    )
    assert history.dtype == candidates.dtype == np.int64
    assert history[0, :3].tolist() == [1, 2, 0]
    assert history.shape == (1, HISTORY)
    assert candidates.tolist() == [[3, 4, 5]]
    assert not added.any()
    assert added.shape == (1, FeedRanking.dim + 1)
    assert not offset.any()
    assert signals.tolist() == [[[-1, -1], [1.5, -1], [0, -1]]]
    assert weights.tolist() == [[1.0, 0.5, pytest.approx(0.0), 7.0]]


def test_of_a_long_history_the_latest_are_read() -> None:
    """The latest last, as it came; repeated items stay."""
    history, *_ = FeedRanking().parse(line(history=[*range(1, 100), 9, 9]))
    assert history[0].tolist() == [*range(52, 100), 9, 9]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"candidates": []}, "candidates: .*at least 1"),
        ({"candidates": list(range(1, 10_001))}, "candidates: .*at most 1000"),
        ({"candidates": [1, -4]}, "candidates.1: expected an id, an integer from 1 to 2147483647, not -4"),
        ({"candidates": [1, 2**40]}, "candidates.1"),
        ({"candidates": [1, 0]}, "candidates.1"),
        ({"candidates": [1.5]}, "candidates.0"),
        ({"candidates": [True]}, "candidates.0"),
        ({"candidates": ["3"]}, "candidates.0"),
        ({"candidates": [float("nan")]}, "candidates.0"),
        ({"candidates": None}, "candidates"),
        ({"history": [10**30]}, "history"),
        ({"history": [[1]]}, "history.0"),
        ({"history": "1 2 3"}, "history"),
        ({"history": [1] * 100_001}, "history: .*at most 100000"),
        ({"seen_h": [1.0]}, "one value for each of 3"),
        ({"seen_h": [float("nan"), None, None]}, "hours from 0 to 1e"),
        ({"age_h": [float("inf"), None, None]}, "hours from 0 to 1e"),
        ({"age_h": [-1, None, None]}, "hours from 0 to 1e"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": True}, "limit"),
        ({"weights": [1]}, "weights: expected a JSON object"),
        ({"weights": {"recency": True}}, "weights.recency"),
        ({"weights": {"recency": float("nan")}}, "weights.recency"),
        ({"weights": {"diversity": -1}}, "weights.diversity"),
        ({"weights": {"novelty": 1}}, "weights.novelty"),
        ({"user": 5}, "user: expected one of the fields history, candidates"),
    ],
)
def test_request_that_cannot_be_is_refused_by_the_name_of_its_field(bad: dict[str, Any], said: str) -> None:
    """One sentence, a ValueError, nothing half read."""
    with pytest.raises(ValueError, match=said):
        FeedRanking().parse(line(**bad))


@pytest.mark.parametrize("text", [b"", b" ", b"oops", b"[1, 2", b"[]", b"3", b"{}", b"\xff", b"[" * 100_000])
def test_what_is_no_request_is_refused(text: bytes) -> None:
    """Neither JSON nor an object with both lists."""
    with pytest.raises(ValueError, match=r"expected|request|history"):
        FeedRanking().parse(text)


def test_request_from_python_is_checked_likewise() -> None:
    """An app builds the object itself."""
    with pytest.raises(FieldError, match="at most 1000"):
        FeedRequest(history=[], candidates=list(range(1, 1002)))


def test_greatest_score_comes_first_and_equals_as_given() -> None:
    """Of a candidate given twice the first counts; without a history it is a cold start."""
    answer = FeedRanking().decode(outputs_of([1.0, 3.0, 1.0, 3.0, 9.0], [7, 5, 6, 5, 7], []))
    assert [entry.item for entry in answer.ranked] == [5, 7, 6]
    assert [entry.score for entry in answer.ranked] == [3.0, 1.0, 1.0]
    assert answer.is_cold_start
    assert all(entry.because == () for entry in answer.ranked)


def test_candidate_without_a_row_is_reported_and_not_ranked() -> None:
    """In the order given; with none known the feed is empty, and that is an answer."""
    rows = [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    answer = FeedRanking().decode(outputs_of([0.0, -5.0, 0.0], [9, 4, 8], [1], rows=rows))
    assert [entry.item for entry in answer.ranked] == [4]
    assert answer.unknown == (9, 8)
    assert not answer.is_cold_start
    empty = FeedRanking().decode(outputs_of([0.0], [9], [1], rows=[[0, 0, 0]]))
    assert (empty.ranked, empty.unknown) == ((), (9,))


def test_limit_is_how_many_are_shown() -> None:
    """The best of them."""
    answer = FeedRanking().decode(outputs_of([1.0, 2.0, 3.0], [1, 2, 3], [], weights=[0, 0, 0, 2]))
    assert [entry.item for entry in answer.ranked] == [3, 2]


def test_reasons_are_the_items_without_which_the_score_falls_most() -> None:
    """User vector [4, 0]; without item 11 it is [1, 0], without 12 [3, 0], without 13 [6, 0], without 14 [2, 0]."""
    users = np.full((HISTORY + 1, 2), [4.0, 0.0])
    users[1:5, 0] = [1, 3, 6, 2]
    answer = FeedRanking().decode(outputs_of([4.0], [7], [11, 12, 13, 14], users=users))
    assert [(reason.item, reason.effect) for reason in answer.ranked[0].because] == [(11, 3.0), (14, 2.0), (12, 1.0)]


def test_item_that_occurs_twice_in_the_history_is_one_reason() -> None:
    """With the greater of its effects."""
    users = np.full((HISTORY + 1, 2), [4.0, 0.0])
    users[1:3, 0] = [1, 3]
    answer = FeedRanking().decode(outputs_of([4.0], [7], [11, 11], users=users))
    assert [(reason.item, reason.effect) for reason in answer.ranked[0].because] == [(11, 3.0)]


def test_weights_move_what_was_seen_down_and_what_is_new_up() -> None:
    """Recency 1.0: just seen loses 1, a day ago 0.5. Freshness 0.5: just published gains 0.5, two days ago 0.25."""
    given = outputs_of(
        [2.0, 2.0, 2.0], [1, 2, 3], [], seen_h=[0, 24, -1], age_h=[-1, 0, 48], weights=[1.0, 0.5, 0.0, 20]
    )
    answer = FeedRanking().decode(given)
    assert [(entry.item, entry.score) for entry in answer.ranked] == [(3, 2.25), (2, 2.0), (1, 1.0)]
    assert [(entry.recency, entry.freshness) for entry in answer.ranked] == [(0, 0.25), (-0.5, 0.5), (-1, 0)]


def test_diversity_shows_another_kind_before_more_of_the_same() -> None:
    """Two of one direction and a weaker one across it: across comes second, and the cost of likeness is given."""
    rows = [[3, 0, 0], [2, 0, 0], [0, 1, 0]]
    given = outputs_of([2.0, 1.9, 1.5], [1, 2, 3], [], rows=rows, weights=[0, 0, 0.5, 20])
    ranked = FeedRanking().decode(given).ranked
    assert [entry.item for entry in ranked] == [1, 3, 2]
    assert [entry.diversity for entry in ranked] == pytest.approx([0.0, 0.0, -0.5])
    plain = FeedRanking().decode(outputs_of([2.0, 1.9, 1.5], [1, 2, 3], [], rows=rows)).ranked
    assert [entry.item for entry in plain] == [1, 2, 3]


@pytest.mark.parametrize("limit", [1, 7, 40])
def test_order_agrees_with_its_definition_on_drawn_candidates(limit: int) -> None:
    """Each turn takes the greatest value less likeness to what was taken: compared with that, step by step."""
    rng = np.random.default_rng(limit)
    relevance, vectors = rng.normal(size=40), rng.normal(size=(40, 5)).astype(np.float32)
    none = np.full(40, -1.0)
    order = rerank(relevance, none, none, vectors, recency=1, freshness=1, diversity=0.8, limit=limit)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    chosen: list[int] = []
    for turn in range(limit):
        cost = [max([0.0, *(float(unit[i] @ unit[j]) for j in chosen)]) for i in range(40)]
        value = [-np.inf if i in chosen else relevance[i] - 0.8 * cost[i] for i in range(40)]
        chosen.append(int(np.argmax(value)))
        assert order.score[turn] == pytest.approx(value[chosen[-1]], abs=1e-6)
    assert order.places.tolist() == chosen


@pytest.mark.parametrize("place", [0, 1])
def test_outputs_that_are_not_finite_are_refused(place: int) -> None:
    """A broken offset or row shows in the scores or the user vector."""
    given = outputs_of([1.0, 2.0], [1, 2], [])
    given[place][0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        FeedRanking().decode(given)


def test_outputs_of_another_program_are_refused() -> None:
    """Too few, none, of other shapes."""
    given = outputs_of([1.0, 2.0], [1, 2], [])
    for wrong in ([], given[:-1], [given[0][:, :1], *given[1:]], [np.float32(3), *given[1:]]):
        with pytest.raises(ValueError, match="expects the outputs of its program"):
            FeedRanking().decode([np.asarray(one) for one in wrong])
