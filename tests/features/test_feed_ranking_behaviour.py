"""What one hit rate hides is measured as defined: short histories, rare items, ties, what is shown, and newcomers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="scoring needs torch: install alcove-platform[export]")

from alcove.features.feed_ranking.behaviour import (  # noqa: E402 (after the check for torch)
    by_length,
    by_popularity,
    describe_lists,
    gini,
    shorten,
    ties,
)
from alcove.features.feed_ranking.dataset import Lines, Questions  # noqa: E402
from alcove.features.feed_ranking.harness import Answers, answers_of  # noqa: E402
from alcove.features.feed_ranking.newcomers import new_user_questions, split_of  # noqa: E402
from alcove.features.feed_ranking.scoring import first_of_all, places_of_all, scores_of  # noqa: E402


class NextNumber:
    """A ranker whose user vector is the last item's row number, and that wants the next number: 20 rows."""

    def __init__(self) -> None:
        self.table = torch.cat([torch.eye(20), torch.zeros(20, 1)], dim=1)

    def parameters(self) -> Iterator[Any]:
        """Yield the table."""
        yield self.table

    def states(self, _users: Any, rows: Any) -> Any:
        """Return the next number's vector after each item; the first item's before all."""
        before = torch.nn.functional.pad(rows, (1, 0))
        return torch.eye(21)[before + 1][..., :20]

    def rows(self, rows: Any) -> Any:
        """Return rows of the table."""
        return self.table[rows]


def make_questions(*given: tuple[list[int], list[int]]) -> Questions:
    """Questions of (history, candidates)."""
    histories = tuple(np.array(history, np.int64) for history, _ in given)
    return Questions(np.arange(len(given)), histories, np.array([candidates for _, candidates in given], np.int64))


def test_place_among_all_items_leaves_out_the_history() -> None:
    """The next number is first; another one ties with all the rest that the history lacks."""
    questions = make_questions(([3, 4], [5, 9]), ([7], [2, 8]), ([], [1, 2]))
    ranker = NextNumber()
    assert scores_of(ranker, questions).tolist() == [[1, 0], [0, 1], [1, 0]]
    # Rows 1 to 19 without 7: 8 is before 2, and the 16 others tie with it.
    assert places_of_all(ranker, questions, 20).tolist() == [0, 17, 0]
    best = first_of_all(ranker, questions, 20, 3)
    assert best[:, 0].tolist() == [5, 8, 1]
    assert not {3, 4} & set(best[0].tolist())
    assert (best > 0).all()


def test_short_histories_keep_the_latest_items() -> None:
    """None, one, two; the whole where it is shorter."""
    questions = make_questions(([3, 4, 5], [6, 9]), ([7], [8, 9]))
    assert [row.tolist() for row in shorten(questions, 2).histories] == [[4, 5], [7]]
    assert [row.tolist() for row in shorten(questions, 0).histories] == [[], []]
    wide = Questions(questions.rows, questions.histories, np.tile(np.arange(1, 20), (2, 1)))
    wide.candidates[:, 0] = [6, 8]
    found = by_length(lambda given: scores_of(NextNumber(), given), wide)
    assert list(found) == ["0", "1", "2", "3", "5", "10", "all"]
    assert [found[length]["hit_rate"] for length in ("0", "1", "all")] == [0.0, 1.0, 1.0]


def test_ties_are_counted_both_ways() -> None:
    """Eleven that tie with the target: lost, all are before it; won, none is."""
    scores = np.zeros((2, 12), np.float32)
    scores[1, 0] = 1.0
    found = ties(answers_of(scores))
    assert found == {"share": 0.5, "mean": 5.5, "hit_rate_lost": 0.5, "hit_rate_won": 1.0}


def test_thirds_of_items_are_by_how_often_they_were_touched() -> None:
    """Six items in three pairs; each target is in the third of its item."""
    counts = np.array([0, 50, 1, 9, 60, 2, 8])
    questions = make_questions(([1], [2, 9]), ([1], [5, 9]), ([1], [3, 9]), ([1], [4, 9]))
    answers = {"a": Answers(np.array([0, 20, 20, 3]), np.zeros(4, np.int64))}
    found = by_popularity(answers, questions, counts)
    assert {name: (given["questions"], given["interactions"]) for name, given in found.items()} == {
        "rarest": (2, 3),
        "middle": (1, 17),
        "most popular": (1, 110),
    }
    assert [given["scores"]["a"]["hit_rate"] for given in found.values()] == [0.5, 0.0, 1.0]


def test_what_is_shown_is_compared_with_what_was_taken() -> None:
    """Gini of equals is 0, of one alone nearly 1; the shown of two users are known items."""
    assert gini(np.array([3, 3, 3])) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 8])) == pytest.approx(0.75)
    assert gini(np.zeros(3, np.int64)) == 0
    counts = np.arange(20)
    found = describe_lists(NextNumber(), make_questions(([3, 4], [5, 9]), ([7], [8, 2])), counts)
    assert found["users"] == 2
    assert found["taken_count"] == 6.5
    assert 10 / 19 <= found["coverage"] <= 1


def test_newcomers_are_in_nothing_that_training_sees() -> None:
    """Users left out have no line, items left out no row; a new user is asked about with the first items alone."""
    rng = np.random.default_rng(4)
    rows = tuple(rng.permutation(np.arange(1, 301))[:30] for _ in range(100))
    split = split_of(Lines(tuple(map(str, range(100))), rows), np.arange(1, 301))
    assert len(split.known.items) == 80
    assert len(split.left_out) == 20
    assert "0" not in split.known.users
    assert not {"5", "10"} & set(split.known.users)
    assert max(int(items.max()) for items in split.known.items) < split.rows
    assert len(split.new) == 15
    # The rows stand for the ids that they were.
    assert sorted(split.ids[split.left_out[1] - 1].tolist()) == sorted(rows[5].tolist())
    found = new_user_questions(split, 3)
    assert len(found.rows) == 20
    for history, candidates, line in zip(found.histories, found.candidates, split.left_out, strict=True):
        known = line[line < split.rows]
        assert history.tolist() == known[:3].tolist()
        assert candidates[0] == known[3]
        assert not set(candidates[1:].tolist()) & set(line.tolist())
        assert candidates.max() < split.rows
