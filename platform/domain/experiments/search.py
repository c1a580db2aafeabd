"""Defines searches for experiments: their filters and order, and the tokens of their pages.  Pure.

A page token holds the sequence number of the last experiment that was given and a digest of filters and order, so that
the next page begins after it whatever was created, started or deleted meanwhile.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.records import ExperimentRecord, ExperimentState

__all__ = ["ExperimentOrder", "ExperimentQuery", "has_words", "page_token", "parse_query"]

_TOKEN: Final = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,17})")


class ExperimentOrder(StrEnum):
    """Order of the experiments found, by creation."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True)
class ExperimentQuery:
    """Filters of a search; all that are given must match.

    Attributes:
        words: in lower case; each must occur in the id, the app, the feature, or an arm's name or version.
        size: most experiments in the answer.
        after: sequence number of the last experiment of the page before; None: from the start.
        needs_decision_at_s: only those that run and have a winner, or whose plan's days are over then; None: any.
    """

    app: str | None = None
    feature: str | None = None
    states: tuple[ExperimentState, ...] = ()
    words: tuple[str, ...] = ()
    order: ExperimentOrder = ExperimentOrder.OLDEST
    size: int = limits.PAGE_SIZE[0]
    after: int | None = None
    needs_decision_at_s: int | None = None


def parse_query(
    *,
    app: str = "",
    feature: str = "",
    states: Sequence[ExperimentState] = (),
    text: str = "",
    order: ExperimentOrder = ExperimentOrder.OLDEST,
    needs_decision_at_s: int | None = None,
    page_size: int = 0,
    page_token: str = "",
) -> ExperimentQuery:
    """Return the search that a request means; "" and 0 stand for what is not given.

    Raises:
        InvalidFieldError: a field is out of its bounds, or the token is none of this search.
    """
    default, most = limits.PAGE_SIZE
    if page_size > most:
        raise InvalidFieldError("page_size", f"at most {most}", page_size)
    if len(states) > len(ExperimentState):
        raise InvalidFieldError("states", f"at most {len(ExperimentState)}", len(states))
    most_words, most_characters = limits.SEARCH_WORDS
    if len(text) > most_characters or not text.isprintable():
        raise InvalidFieldError("text", f"at most {most_characters} printable characters", text)
    words = tuple(text.lower().split())
    if len(words) > most_words:
        raise InvalidFieldError("text", f"at most {most_words} words", len(words))
    query = ExperimentQuery(
        app or None,
        feature or None,
        tuple(sorted(set(states))),
        words,
        order,
        page_size or default,
        needs_decision_at_s=needs_decision_at_s,
    )
    return replace(query, after=_after(query, page_token)) if page_token else query


def page_token(query: ExperimentQuery, last: ExperimentRecord) -> str:
    """Return the token of the page that begins after `last`."""
    return f"{_digest(query)}-{last.sequence}"


def has_words(query: ExperimentQuery, record: ExperimentRecord) -> bool:
    """Return whether each word of a search occurs in one of an experiment's texts."""
    texts = [record.experiment_id, record.app, record.feature]
    texts += [text for arm in record.arms for text in (arm.name, arm.version)]
    return all(any(word in text.lower() for text in texts) for word in query.words)


def _after(query: ExperimentQuery, token: str) -> int:
    found = _TOKEN.fullmatch(token)
    if found is None or found[1] != _digest(query):
        raise InvalidFieldError("page_token", "a next_page_token of this search, with its filters and order", token)
    return int(found[2])


def _digest(query: ExperimentQuery) -> str:
    """Name filters and order; the size of a page and the time may change on the way."""
    what = [query.app, query.feature, query.states, query.words, query.order]
    if query.needs_decision_at_s is not None:
        what.append("needs decision")
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
