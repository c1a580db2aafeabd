"""Defines feed ranking for apps: the request, the ordered answer with its reasons, and how both are read."""

import json
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from alcove.features.feed_ranking.config import (
    CONFIGS,
    DEFAULT_VERSION,
    HISTORY,
    MAX_CANDIDATES,
    MAX_HISTORY_GIVEN,
    PADDING,
)
from alcove.features.feed_ranking.delta import ItemDelta
from alcove.features.feed_ranking.personalize import Adapter
from alcove.features.feed_ranking.rerank import UNKNOWN_AGE, rerank
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

PROGRAMS: Final = Path(__file__).parent / "programs"

MAX_ID: Final = 2**31 - 1
MAX_HOURS: Final = 1e6
"""A century: more is a mistake of units."""
MAX_WEIGHT: Final = 100.0
REASONS: Final = 3
"""Items of the history that an answer names."""
LEAST_EFFECT: Final = 1e-6
"""What is less is how numbers round."""

Inputs = tuple[NDArray[Any], ...]


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of `version` lies, variant "int8" or "f32", whether or not there is one."""
    return PROGRAMS / f"feed_ranking-{version}{'' if variant == 'int8' else '-' + variant}.alc"


class Weights(BaseModel):
    """What counts beside relevance, in logarithms of odds (`rerank.py`): 0.7 halves or doubles; 0 for not at all.

    Attributes:
        recency: what an item loses that was seen this moment; half of it a day later.
        freshness: what an item gains that was published this moment; half of it two days later.
        diversity: what an item loses that has the direction of one shown before it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    recency: float = Field(default=1.0, ge=0, le=MAX_WEIGHT, allow_inf_nan=False)
    freshness: float = Field(default=0.5, ge=0, le=MAX_WEIGHT, allow_inf_nan=False)
    diversity: float = Field(default=0.3, ge=0, le=MAX_WEIGHT, allow_inf_nan=False)


class FeedRequest(BaseModel):
    """What is to be ranked.

    Attributes:
        history: ids of what the user touched, the latest last; only the latest 50 are read; may be empty.
        candidates: ids, 1 to 1,000; of one that occurs twice the first counts.
        seen_h: hours since each candidate was shown to the user, null for never; or nothing for none at all.
        age_h: hours since each candidate was published, null where nobody knows; or nothing.
        weights: of the re-ranking.
        limit: most items of the answer, 1 to 1,000.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    history: list[int] = Field(max_length=MAX_HISTORY_GIVEN)
    candidates: list[int] = Field(min_length=1, max_length=MAX_CANDIDATES)
    seen_h: list[float | None] | None = None
    age_h: list[float | None] | None = None
    weights: Weights = Weights()
    limit: int = Field(default=20, ge=1, le=MAX_CANDIDATES)

    @model_validator(mode="after")
    def _check(self) -> "FeedRequest":
        for name in ("history", "candidates"):
            ids: list[int] = getattr(self, name)
            if ids and not (min(ids) >= 1 and max(ids) <= MAX_ID):
                raise ValueError(f"{name}: ids must be 1 to {MAX_ID}, not {min(ids)} or {max(ids)}")
        for name in ("seen_h", "age_h"):
            hours: list[float | None] | None = getattr(self, name)
            if hours is None:
                continue
            if len(hours) != len(self.candidates):
                raise ValueError(f"{name}: one value for each of {len(self.candidates)} candidates, not {len(hours)}")
            if not all(value is None or 0 <= value <= MAX_HOURS for value in hours):
                raise ValueError(f"{name}: hours must be 0 to {MAX_HOURS:g}, or null")
        return self


class Reason(BaseModel):
    """One item of the history, and what it did for an item of the answer.

    Attributes:
        item: of the history.
        effect: by how much the answer's item would be less relevant without it, above 0.
    """

    model_config = ConfigDict(frozen=True)

    item: int
    effect: float = Field(gt=0, allow_inf_nan=False)


class RankedItem(BaseModel):
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
    """

    model_config = ConfigDict(frozen=True)

    item: int
    score: float = Field(allow_inf_nan=False)
    relevance: float = Field(allow_inf_nan=False)
    recency: float = Field(le=0)
    freshness: float = Field(ge=0)
    diversity: float = Field(le=0)
    because: tuple[Reason, ...] = Field(max_length=REASONS)


class FeedAnswer(BaseModel):
    """The order of a feed.

    Attributes:
        ranked: the first first.
        unknown: candidates that neither the program nor a delta has a row for, as they were given: not ranked.
        is_cold_start: nothing of the history is known, so that the order is by popularity.
    """

    model_config = ConfigDict(frozen=True)

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
            # JSON first: what Python takes for NaN is refused by the bounds, with the field's name.
            request = FeedRequest.model_validate(json.loads(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "request"
            raise ValueError(f"{where}: {first['msg']}") from None
        except RecursionError:
            raise ValueError("expected a JSON object; it is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"expected a JSON object with history and candidates; {error}") from None
        return self.inputs(request)

    def inputs(self, request: FeedRequest, delta: ItemDelta | None = None, adapter: Adapter | None = None) -> Inputs:
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
        ranked = [
            {
                "item": item,
                "score": score,
                "relevance": relevance,
                "recency": recency,
                "freshness": freshness,
                "diversity": diversity,
                "because": because,
            }
            for item, score, relevance, recency, freshness, diversity, because in columns
        ]
        return FeedAnswer.model_validate(
            {"ranked": ranked, "unknown": unknown.tolist(), "is_cold_start": not known.any()}
        )


def _reasons(effects: NDArray[np.floating[Any]], history: NDArray[np.int64]) -> list[list[dict[str, float]]]:
    """Return for each row of effects [n, 50] the items with the greatest ones above 0, each item once.

    Of two that are equal the later one comes first.
    """
    latest_first = effects[:, ::-1]
    order = np.argsort(-latest_first, axis=1, kind="stable")
    items, sizes = history[::-1][order].tolist(), np.take_along_axis(latest_first, order, axis=1).tolist()
    found: list[list[dict[str, float]]] = []
    for row, values in zip(items, sizes, strict=True):
        named: dict[int, float] = {}
        for item, effect in zip(row, values, strict=True):
            if effect <= LEAST_EFFECT or len(named) == REASONS:
                break
            named.setdefault(item, effect)
        found.append([{"item": item, "effect": effect} for item, effect in named.items()])
    return found
