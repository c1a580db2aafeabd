"""Defines feed ranking for apps: how a request becomes inputs, and the ordered answer with its reasons."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.feed_ranking.config import CONFIGS, DEFAULT_VERSION, HISTORY, PADDING
from alcove.features.feed_ranking.request import FeedRequest, read_request
from alcove.features.feed_ranking.rerank import UNKNOWN_AGE, rerank
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.features.feed_ranking.delta import ItemDelta
    from alcove.features.feed_ranking.personalize import Adapter

PROGRAMS: Final = Path(__file__).parent / "programs"

REASONS: Final = 3
"""Items of the history that an answer names."""
LEAST_EFFECT: Final = 1e-6
"""What is less is how numbers round."""

Inputs = tuple[NDArray[Any], ...]


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of `version` lies, variant "int8" or "f32", whether or not there is one."""
    return PROGRAMS / f"feed_ranking-{version}{'' if variant == 'int8' else '-' + variant}.alc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One item of the history, and what it did for an item of the answer.

    Attributes:
        item: of the history.
        effect: by how much the answer's item would be less relevant without it, above 0.

    Raises:
        FieldError: the effect is none.
    """

    item: int
    effect: float

    def __post_init__(self) -> None:
        if not 0 < self.effect < math.inf:
            raise FieldError("effect", "a finite number above 0", self.effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedItem:
    """One item to show, and why it is there.

    Attributes:
        item: its id.
        score: what decided at its turn: relevance + recency + freshness + diversity.
        relevance: of the model; differences between items are logarithms of odds.
        recency: 0 or less, for having been seen.
        freshness: 0 or more, for being new.
        diversity: 0 or less, for being like what is shown before.
        because: up to three items of the history with the greatest effect, the greatest first: each measured by running
            the model without that item. Empty if none speaks for it.

    Raises:
        FieldError: a number is not finite or has the wrong sign, or there are more reasons.
    """

    item: int
    score: float
    relevance: float
    recency: float
    freshness: float
    diversity: float
    because: tuple[Reason, ...]

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise FieldError("score", "a finite number", self.score)
        if not math.isfinite(self.relevance):
            raise FieldError("relevance", "a finite number", self.relevance)
        if not self.recency <= 0:
            raise FieldError("recency", "0 or less", self.recency)
        if not self.freshness >= 0:
            raise FieldError("freshness", "0 or more", self.freshness)
        if not self.diversity <= 0:
            raise FieldError("diversity", "0 or less", self.diversity)
        if len(self.because) > REASONS:
            raise FieldError("because", f"at most {REASONS} reasons", len(self.because))


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedAnswer:
    """The order of a feed.

    Attributes:
        ranked: the first first.
        unknown: candidates that neither the program nor a delta has a row for, as they were given: not ranked.
        is_cold_start: nothing of the history is known, so that the order is by popularity.
    """

    ranked: tuple[RankedItem, ...]
    unknown: tuple[int, ...]
    is_cold_start: bool


class FeedRanking:
    """Feed ranking: history and candidates in, `FeedAnswer` out; nothing is remembered between two requests."""

    name: ClassVar[str] = "feed_ranking"
    summary: ClassVar[str] = "Orders a feed by what its reader opened before, with reasons."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)
    dim: ClassVar[int] = CONFIGS[DEFAULT_VERSION].dim

    def parse(self, line: bytes) -> Inputs:
        """Return the program's inputs of one line of JSON: an object with the fields of `FeedRequest`.

        Raises:
            ValueError: it is none; names the field, what was expected and what was seen.
        """
        try:
            document: object = json.loads(line)
        except RecursionError:
            raise ValueError("expected a JSON object; it is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"expected a JSON object with history and candidates; {error}") from None
        return self.inputs(read_request(document))

    def inputs(
        self, request: FeedRequest, delta: "ItemDelta | None" = None, adapter: "Adapter | None" = None
    ) -> Inputs:
        """Return the program's inputs.

        Args:
            request: what is to be ranked.
            delta: items beyond the program's table.
            adapter: what was learned on this device.

        Raises:
            ValueError: the delta or the adapter is for vectors of another size.
        """
        added = np.zeros((1, self.dim + 1), np.float32) if delta is None else delta.rows
        offset = np.zeros((1, self.dim), np.float32) if adapter is None else adapter.offset
        if added.shape[1] != self.dim + 1 or offset.shape != (1, self.dim):
            raise ValueError(
                f"vectors of {self.dim} numbers expected, not a delta's {added.shape[1] - 1} or an "
                f"adapter's {offset.shape[1]}"
            )
        count = len(request.candidates)
        history = np.full((1, HISTORY), PADDING, np.int64)
        latest = request.history[-HISTORY:]
        history[0, : len(latest)] = latest
        signals = np.full((1, count, 2), UNKNOWN_AGE, np.float32)
        for column, hours in enumerate((request.seen_h, request.age_h)):
            if hours is not None:
                signals[0, :, column] = [UNKNOWN_AGE if value is None else value for value in hours]
        weights = request.weights
        numbers = [[weights.recency, weights.freshness, weights.diversity, request.limit]]
        candidates = np.array([request.candidates], np.int64)
        return history, candidates, added, offset, signals, np.array(numbers, np.float32)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> FeedAnswer:
        """Return the answer in a program's outputs (`model.Ranked`).

        Raises:
            ValueError: the outputs are not these, or hold a number that is not finite.
        """
        shapes = [output.shape for output in outputs]
        count = shapes[0][-1] if shapes and shapes[0] else 0
        dim = shapes[1][-1] if len(shapes) > 1 and shapes[1] else 0
        wanted = [(1, count), (1, HISTORY + 1, dim), (1, count, dim + 1), (1, HISTORY), (1, HISTORY)]
        wanted += [(1, count), (1, count, 2), (1, 4)]
        if shapes != wanted or not count:
            raise ValueError(f"feed_ranking expects the outputs of its program; these are of the shapes {shapes}")
        scores, users, rows, known, history, candidates, signals, weights = (output[0] for output in outputs)
        if not (np.isfinite(scores).all() and np.isfinite(users).all() and np.isfinite(weights).all()):
            raise ValueError("the program gave a number that is not finite: an offset or a row that it got was none")
        _, firsts = np.unique(candidates, return_index=True)
        is_item = rows.any(axis=1)
        places = np.sort(firsts)
        unknown = candidates[places[~is_item[places]]]
        places = places[is_item[places]]
        order = rerank(
            scores[places].astype(np.float64),
            signals[places, 0].astype(np.float64),
            signals[places, 1].astype(np.float64),
            rows[places, :-1],
            recency=float(weights[0]),
            freshness=float(weights[1]),
            diversity=float(weights[2]),
            limit=int(weights[3]),
        )
        shown = places[order.places]
        # How much less relevant each shown item is without each item of the history, [shown, 50].
        effects = np.where(known > 0, rows[shown, :-1] @ (users[0] - users[1:]).T, 0.0)
        columns = zip(
            candidates[shown].tolist(),
            order.score.tolist(),
            order.relevance.tolist(),
            order.recency.tolist(),
            order.freshness.tolist(),
            order.diversity.tolist(),
            _reasons(effects, history),
            strict=True,
        )
        ranked = tuple(
            RankedItem(
                item=item,
                score=score,
                relevance=relevance,
                recency=recency,
                freshness=freshness,
                diversity=diversity,
                because=because,
            )
            for item, score, relevance, recency, freshness, diversity, because in columns
        )
        return FeedAnswer(ranked=ranked, unknown=tuple(unknown.tolist()), is_cold_start=not known.any())


def _reasons(effects: NDArray[np.floating[Any]], history: NDArray[np.int64]) -> list[tuple[Reason, ...]]:
    """Return for each row of effects [n, 50] the items with the greatest ones above 0, each item once.

    Of two that are equal the later one comes first.
    """
    latest_first = effects[:, ::-1]
    order = np.argsort(-latest_first, axis=1, kind="stable")
    items, sizes = history[::-1][order].tolist(), np.take_along_axis(latest_first, order, axis=1).tolist()
    found: list[tuple[Reason, ...]] = []
    for row, values in zip(items, sizes, strict=True):
        named: dict[int, float] = {}
        for item, effect in zip(row, values, strict=True):
            if effect <= LEAST_EFFECT or len(named) == REASONS:
                break
            named.setdefault(item, effect)
        found.append(tuple(Reason(item=item, effect=effect) for item, effect in named.items()))
    return found
