"""Measures item deltas, the adapter and re-ranking, with and without, on users that training never saw.

One program serves all three: trained without every fifth user, as the users of devices are, and without some items.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.feed_ranking.config import HISTORY
from alcove.features.feed_ranking.contract import Weights
from alcove.features.feed_ranking.dataset import Ids, Lines, rows_of
from alcove.features.feed_ranking.delta import ItemDelta
from alcove.features.feed_ranking.harness import Scores, score_of
from alcove.features.feed_ranking.personalize import Adapter
from alcove.features.feed_ranking.rerank import rerank
from alcove.runtime import Model
from numpy.typing import NDArray

EACH: Final = 5
"""One user in so many is studied, and not learned from."""
LEAST_ITEMS: Final = 40
"""Items of a line that is studied."""
ASKED: Final = 20
"""Items at its end that are asked about."""
FEEDBACK: Final = 100
"""Items before those that the adapter learned from, at most."""
LEFT_OUT: Final = 0.05
"""Share of the items that are new on the device."""
NEGATIVES: Final = 99
SEED: Final = 3

Figures = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Split:
    """What a study trains on and asks about, in rows: items of the table first, then those left out of training.

    Attributes:
        known: lines to learn from, in rows: of the users that are not studied.
        rows: of the table, with row 0.
        new: rows of the items left out, `rows` and on.
        ids: the id of each row from 1.
        studied: the lines that are, in rows.
    """

    known: Lines
    rows: int
    new: Ids
    ids: Ids
    studied: tuple[Ids, ...]


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
    kept = [row for row in range(len(whole)) if row % EACH]
    known = Lines(tuple(lines.users[row] for row in kept), tuple(whole[row][whole[row] < rows] for row in kept))
    studied = tuple(items for items in whole[::EACH] if len(items) >= LEAST_ITEMS)
    return Split(known, rows, np.arange(rows, len(every) + 1), ids, studied)


class Asker:
    """Asks a program, as a device does.

    Args:
        model: the program.
        delta: items beyond its table.
    """

    def __init__(self, model: Model, delta: ItemDelta | None = None) -> None:
        self._session = model.session()
        self.dim = model.inputs[3].shape[1]
        self._added = np.zeros((1, self.dim + 1), np.float32) if delta is None else delta.rows

    def __call__(self, history: Ids, candidates: Ids, adapter: Adapter | None = None) -> list[NDArray[np.generic]]:
        """Return the program's outputs."""
        ids = np.zeros((1, HISTORY), np.int64)
        latest = history[-HISTORY:]
        ids[0, : len(latest)] = latest
        offset = np.zeros((1, self.dim), np.float32) if adapter is None else adapter.offset
        signals = np.full((1, len(candidates), 2), -1, np.float32)
        weights = np.zeros((1, 4), np.float32)
        return self._session(ids, candidates[None], self._added, offset, signals, weights)


def _draw_candidates(touched: Ids, target: int, among: Ids, rng: np.random.Generator) -> Ids:
    free = np.setdiff1d(among, touched)
    return np.concatenate([[target], rng.choice(free, min(NEGATIVES, len(free)), replace=False)])


def adapter_study(model: Model, split: Split) -> Figures:
    """Return the figures of the end of each line, after feedback on what came before and meanwhile."""
    ask, rng = Asker(model), np.random.default_rng(SEED)
    every = np.arange(1, split.rows)
    scores: dict[str, list[Scores]] = {"history alone": [], "history and adapter": [], "a stranger's adapter": []}
    stranger = Adapter(ask.dim)
    for items in split.studied:
        adapter = Adapter(ask.dim)
        for place in range(max(1, len(items) - ASKED - FEEDBACK), len(items)):
            if items[place] >= split.rows:
                continue
            candidates = _draw_candidates(items, int(items[place]), every, rng)
            outputs = ask(items[:place], candidates, adapter)
            if place >= len(items) - ASKED:
                scores["history and adapter"].append(outputs[0][0])
                scores["history alone"].append(ask(items[:place], candidates)[0][0])
                scores["a stranger's adapter"].append(ask(items[:place], candidates, stranger)[0][0])
            adapter.learn(outputs, int(items[place]))
        stranger = adapter
    return {
        "On-device personalization: the last 20 items of a user new to training, after feedback on 100": _figures(
            scores
        )
    }


def delta_study(model: Model, delta: ItemDelta, split: Split) -> Figures:
    """Return the figures of items that training never saw, among others that it never saw."""
    asks = {"random order": None, "new items by a delta": Asker(model, delta)}
    rng = np.random.default_rng(SEED)
    scores: dict[str, list[Scores]] = {name: [] for name in asks}
    for items in split.studied:
        for place in range(len(items) - ASKED, len(items)):
            if items[place] < split.rows:
                continue
            candidates = _draw_candidates(items, int(items[place]), split.new, rng)
            for name, ask in asks.items():
                drawn = rng.random(len(candidates)).astype(np.float32)
                scores[name].append(drawn if ask is None else np.asarray(ask(items[:place], candidates)[0][0]))
    return {"New items: each among 99 other new ones, rows made of attributes": _figures(scores)}


def diversity_study(model: Model, split: Split) -> Figures:
    """Return the figures of the last item of each line, with the weight for diversity and without."""
    ask, rng = Asker(model), np.random.default_rng(SEED)
    every = np.arange(1, split.rows)
    weight = Weights().diversity
    weights = {"relevance alone": 0.0, f"diversity {weight:g} (default)": weight, "diversity 2": 2.0}
    scores: dict[str, list[Scores]] = {name: [] for name in weights}
    for items in split.studied:
        if items[-1] >= split.rows:
            continue
        candidates = _draw_candidates(items, int(items[-1]), every, rng)
        outputs = ask(items[:-1], candidates)
        none = np.full(len(candidates), -1.0)
        relevance = np.asarray(outputs[0][0], np.float64)
        vectors = np.asarray(outputs[2][0, :, :-1], np.float32)
        for name, diversity in weights.items():
            order = rerank(
                relevance, none, none, vectors, recency=0, freshness=0, diversity=diversity, limit=len(candidates)
            )
            found = np.empty(len(candidates), np.float32)
            found[order.places] = -np.arange(len(candidates))
            scores[name].append(found)
    return {"Diversity: what it costs where one item is right": _figures(scores)}


def _figures(scores: dict[str, list[Scores]]) -> dict[str, list[float]]:
    found = {name: score_of(np.stack(given)) for name, given in scores.items()}
    return {name: [round(score.hit_rate, 4), round(score.gain, 4)] for name, score in found.items()}
