"""Measures cold starts: users and items that training never saw.

A network is trained without every fifth user and without a twentieth of the items.  Each user left out is asked about
after their first 0, 1, 2, ... items; items left out are asked about with rows made of their attributes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import torch
from alcove.features.feed_ranking.attributes import attributes_of_network, rows_of_attributes
from alcove.features.feed_ranking.dataset import NEGATIVES, Ids, Lines, Questions, rows_of, table_ids
from alcove.features.feed_ranking.harness import counts_of, score_of
from alcove.features.feed_ranking.scoring import scores_of
from torch import Tensor

EACH: Final = 5
"""One user in so many is not learned from."""
LEFT_OUT: Final = 0.05
"""Share of the items that are not learned from."""
FIRST: Final = (0, 1, 2, 3, 5, 10, 20)
"""Items that are known of a new user."""
SEED: Final = 3


@dataclass(frozen=True)
class Split:
    """What training sees and what it does not, in rows: items of the table first, then those left out of training.

    Attributes:
        known: lines to learn from, in rows.
        rows: of the table, with row 0.
        new: rows of the items left out, `rows` and on.
        ids: the id of each row from 1.
        left_out: lines of the users left out, in rows, with new items in them.
    """

    known: Lines
    rows: int
    new: Ids
    ids: Ids
    left_out: tuple[Ids, ...]


Attributes = dict[int, Sequence[int]]
"""By row."""


def split_newcomers(lines: Lines, given: Mapping[int, Sequence[int]]) -> tuple[Split, Attributes, Attributes]:
    """Return the split of a set's lines, the attributes of all its rows, and of those that training sees.

    Args:
        lines: of ids.
        given: attributes by id.
    """
    split = split_of(lines, table_ids(lines, (), given))
    by_row = {row: given[int(item)] for row, item in enumerate(split.ids, start=1) if int(item) in given}
    return split, by_row, {row: values for row, values in by_row.items() if row < split.rows}


def split_of(lines: Lines, every: Ids) -> Split:
    """Return the split of lines of ids; the items left out are drawn."""
    count = round(LEFT_OUT * len(every))
    order = np.random.default_rng(SEED).permutation(every)
    ids = np.concatenate([np.sort(order[count:]), np.sort(order[:count])])
    places = np.argsort(ids)
    rows = len(every) - count + 1

    def in_rows(items: Ids) -> Ids:
        return places[rows_of(items, ids[places]) - 1] + 1

    whole = [in_rows(items) for items in lines.items]
    kept = [row for row in range(len(whole)) if row % EACH and (whole[row] < rows).any()]
    known = Lines(tuple(lines.users[row] for row in kept), tuple(whole[row][whole[row] < rows] for row in kept))
    return Split(known, rows, np.arange(rows, len(every) + 1), ids, tuple(whole[::EACH]))


class Extended:
    """A trained network whose table has rows of new items behind it.

    Args:
        network: the feature's.
        added: rows f32 [n, dim + 1].
    """

    def __init__(self, network: Any, added: np.ndarray) -> None:
        self._network = network
        table = network.items.fold()
        self._table = torch.cat([table, torch.from_numpy(added).to(table.device)])

    def parameters(self) -> Iterator[Tensor]:
        """Yield what shows the device."""
        yield self._table

    def states(self, _users: Tensor, rows: Tensor) -> Tensor:
        """Return user vectors f32 [n, t + 1, dim]."""
        states: Tensor = self._network.encoder(self._table[rows][..., :-1])
        return states

    def rows(self, rows: Tensor) -> Tensor:
        """Return vectors and popularity f32 [..., dim + 1]."""
        return self._table[rows]


def draw_candidates(touched: Ids, target: int, among: Ids, rng: np.random.Generator) -> Ids:
    """Return the target and 99 others of `among` that were not touched, or as many as there are."""
    free = np.setdiff1d(among, touched)
    return np.concatenate([[target], rng.choice(free, min(NEGATIVES, len(free)), replace=False)])


def _questions(found: Sequence[tuple[Ids, int, Ids]], among: Ids) -> Questions:
    """Return questions of (history, target, touched)."""
    if not found:
        return Questions(np.zeros(0, np.int64), (), np.zeros((0, 1 + NEGATIVES), np.int64))
    rng = np.random.default_rng(SEED)
    candidates = [draw_candidates(touched, target, among, rng) for _, target, touched in found]
    width = min(len(row) for row in candidates)
    return Questions(
        np.full(len(found), -1),
        tuple(history for history, _, _ in found),
        np.stack([row[:width] for row in candidates]),
    )


def new_user_questions(split: Split, length: int) -> Questions:
    """Return questions about the item behind the first `length` of each user left out who has so many; may be none."""
    lines = [row[row < split.rows] for row in split.left_out]
    found = [(row[:length], int(row[length]), row) for row in lines if len(row) > length]
    return _questions(found, np.arange(1, split.rows))


def newcomer_figures(network: Any, split: Split, attributes: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    """Return scores of new users by the length of their history, and of new items, as JSON values.

    Args:
        network: the feature's, trained on `split.known`.
        split: what it was trained on.
        attributes: of rows; without any, new items are not asked about.
    """
    result: dict[str, Any] = {"users": {}, "items": {}}
    counts = counts_of(split.known, split.rows).astype(np.float32)
    for length in FIRST:
        asked = new_user_questions(split, length)
        if not len(asked.rows):
            continue
        by_count = counts[asked.candidates] + np.random.default_rng(0).random(asked.candidates.shape) * 0.5
        result["users"][str(length)] = {
            "feature": asdict(score_of(scores_of(network, asked))),
            "popularity": asdict(score_of(by_count.astype(np.float32))),
        }
    if not attributes:
        return result
    found = [
        (row[:place], int(row[place]), row)
        for row in split.left_out
        for place in range(1, len(row))
        if row[place] >= split.rows
    ]
    document = attributes_of_network(network)
    most = len(document["attributes"])
    values = [[value for value in attributes.get(int(row), []) if value < most] for row in split.new]
    extended = Extended(network, rows_of_attributes(document, values))
    for name, among in (("new", split.new), ("all", np.arange(1, int(split.new[-1]) + 1))):
        asked = _questions(found, among)
        drawn = np.random.default_rng(1).random(asked.candidates.shape).astype(np.float32)
        result["items"][name] = {
            "feature": asdict(score_of(scores_of(extended, asked))),
            "chance": asdict(score_of(drawn)),
        }
    return result
