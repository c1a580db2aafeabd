"""Measures item deltas, the adapter and re-ranking, with and without, on users that training never saw.

One program serves all three: trained without every fifth user, as the users of devices are, and without some items.
"""

from typing import Final

import numpy as np
from alcove.features.feed_ranking.config import HISTORY
from alcove.features.feed_ranking.dataset import Ids
from alcove.features.feed_ranking.delta import ItemDelta
from alcove.features.feed_ranking.harness import Scores, score_of
from alcove.features.feed_ranking.newcomers import Split, draw_candidates
from alcove.features.feed_ranking.personalize import Adapter
from alcove.features.feed_ranking.request import Weights
from alcove.features.feed_ranking.rerank import rerank
from alcove.runtime import Model
from numpy.typing import NDArray

LEAST_ITEMS: Final = 40
"""Items of a line that is studied."""
ASKED: Final = 20
"""Items at its end that are asked about."""
FEEDBACK: Final = 100
"""Items before those that the adapter learned from, at most."""
SEED: Final = 3

Figures = dict[str, dict[str, list[float]]]


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


def studied_lines(split: Split) -> list[Ids]:
    """Return the lines of users that training never saw which are long enough, in rows."""
    return [items for items in split.left_out if len(items) >= LEAST_ITEMS]


def adapter_study(model: Model, split: Split) -> Figures:
    """Return the figures of the end of each line, after feedback on what came before and meanwhile."""
    ask, rng = Asker(model), np.random.default_rng(SEED)
    every = np.arange(1, split.rows)
    scores: dict[str, list[Scores]] = {"history alone": [], "history and adapter": [], "a stranger's adapter": []}
    stranger = Adapter(ask.dim)
    for items in studied_lines(split):
        adapter = Adapter(ask.dim)
        for place in range(max(1, len(items) - ASKED - FEEDBACK), len(items)):
            if items[place] >= split.rows:
                continue
            candidates = draw_candidates(items, int(items[place]), every, rng)
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
    for items in studied_lines(split):
        for place in range(len(items) - ASKED, len(items)):
            if items[place] < split.rows:
                continue
            candidates = draw_candidates(items, int(items[place]), split.new, rng)
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
    for items in studied_lines(split):
        if items[-1] >= split.rows:
            continue
        candidates = draw_candidates(items, int(items[-1]), every, rng)
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
