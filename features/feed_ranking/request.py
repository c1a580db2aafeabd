"""Defines what feed ranking is asked, from Python and as JSON, and refuses what cannot be by the field's name."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeGuard

from alcove.features.errors import FieldError
from alcove.features.feed_ranking.config import MAX_CANDIDATES, MAX_HISTORY_GIVEN

MAX_ID: Final = 2**31 - 1
MAX_HOURS: Final = 1e6
"""A century: more is a mistake of units."""
MAX_WEIGHT: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What counts beside relevance, in logarithms of odds (`rerank.py`): 0.7 halves or doubles; 0 for not at all.

    Attributes:
        recency: what an item loses that was seen this moment; half of it a day later.
        freshness: what an item gains that was published this moment; half of it two days later.
        diversity: what an item loses that has the direction of one shown before it.

    Raises:
        FieldError: a weight is no number, or out of its bounds.
    """

    recency: float = 1.0
    freshness: float = 0.5
    diversity: float = 0.3

    def __post_init__(self) -> None:
        for name in ("recency", "freshness", "diversity"):
            weight: object = getattr(self, name)
            if not (_is_number(weight) and 0 <= weight <= MAX_WEIGHT):
                raise FieldError(name, f"a number from 0 to {MAX_WEIGHT:g}", weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRequest:
    """What is to be ranked.

    Attributes:
        history: ids of what the user touched, the latest last; only the latest 50 are read; may be empty.
        candidates: ids, 1 to 1,000; of one that occurs twice the first counts.
        seen_h: hours since each candidate was shown to the user, null for never; or nothing for none at all.
        age_h: hours since each candidate was published, null where nobody knows; or nothing.
        weights: of the re-ranking.
        limit: most items of the answer, 1 to 1,000.

    Raises:
        FieldError: a field is of another type, or out of its bounds; numbers are Python's, not numpy's (`tolist`).
    """

    history: list[int]
    candidates: list[int]
    seen_h: list[float | None] | None = None
    age_h: list[float | None] | None = None
    weights: Weights = field(default_factory=Weights)
    limit: int = 20

    def __post_init__(self) -> None:
        _check_ids("history", self.history, 0, MAX_HISTORY_GIVEN)
        _check_ids("candidates", self.candidates, 1, MAX_CANDIDATES)
        _check_hours("seen_h", self.seen_h, len(self.candidates))
        _check_hours("age_h", self.age_h, len(self.candidates))
        if not isinstance(self.weights, Weights):
            raise FieldError("weights", "weights", self.weights)
        if not (_is_integer(self.limit) and 1 <= self.limit <= MAX_CANDIDATES):
            raise FieldError("limit", f"an integer from 1 to {MAX_CANDIDATES}", self.limit)


def read_request(document: object) -> FeedRequest:
    """Return the request of a parsed line of JSON.

    Raises:
        FieldError: it is no object with the fields of `FeedRequest`, or one is out of its bounds, as NaN is.
    """
    given = _arguments(FeedRequest, document)
    if "weights" in given:
        weights = _arguments(Weights, given["weights"], "weights")
        try:
            given["weights"] = Weights(**weights)
        except FieldError as error:
            raise FieldError(f"weights.{error.field}", error.bound, error.value) from None
    return FeedRequest(**given)


def _arguments(kind: type, document: object, within: str = "") -> dict[str, Any]:
    """Return the fields of a JSON object that are those of a dataclass; `within` a field of the request.

    Raises:
        FieldError: it is no object, it has another field, or one is missing.
    """
    if not isinstance(document, dict):
        raise FieldError(within or "request", "a JSON object", document)
    known = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    place = f"{within}." if within else ""
    for name in document:
        if name not in known:
            raise FieldError(f"{place}{name:.40}", f"one of the fields {', '.join(known)}", name)
    for name, is_required in known.items():
        if is_required and name not in document:
            raise FieldError(f"{place}{name}", "a value", None)
    return dict(document)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_ids(name: str, ids: object, least: int, most: int) -> None:
    """Raise `FieldError` where a request's list is none of ids."""
    if not isinstance(ids, list):
        raise FieldError(name, "a list of ids", ids)
    if not least <= len(ids) <= most:
        raise FieldError(name, f"at least {least} and at most {most} ids", len(ids))
    for place, value in enumerate(ids):
        if not (_is_integer(value) and 1 <= value <= MAX_ID):
            raise FieldError(f"{name}.{place}", f"an id, an integer from 1 to {MAX_ID}", value)


def _check_hours(name: str, hours: object, count: int) -> None:
    """Raise `FieldError` where a request's list is none of hours, one for each candidate."""
    if hours is None:
        return
    if not isinstance(hours, list):
        raise FieldError(name, "a list of hours, or nothing", hours)
    if len(hours) != count:
        raise FieldError(name, f"one value for each of {count} candidates", len(hours))
    for place, value in enumerate(hours):
        if value is not None and not (_is_number(value) and 0 <= value <= MAX_HOURS):
            raise FieldError(f"{name}.{place}", f"hours from 0 to {MAX_HOURS:g}, or null", value)
