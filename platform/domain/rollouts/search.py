"""Defines searches for rollouts: their filters and order, and the tokens of their pages.  Pure.

A page token is the sequence number of the last rollout that was given: the next page begins after it, whatever was
created or changed meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_page, validate_search
from alcove.platform.domain.records import Page, RolloutState

__all__ = ["RolloutOrder", "RolloutQuery", "parse_query"]


class RolloutOrder(StrEnum):
    """Order of the rollouts found, by when they were created."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True)
class RolloutQuery:
    """Filters of a search; all that are given must match.

    Attributes:
        page: which part of the list; `after` 0: from the start.
        app, feature: of which; None: of any.
        states: in one of them; (): in any.
        words: in lower case; each must occur in id, app, feature or version.
        order: of the list.
    """

    page: Page
    app: str | None = None
    feature: str | None = None
    states: tuple[RolloutState, ...] = ()
    words: tuple[str, ...] = ()
    order: RolloutOrder = RolloutOrder.OLDEST


def parse_query(
    *,
    app: str = "",
    feature: str = "",
    states: Sequence[RolloutState] = (),
    text: str = "",
    order: RolloutOrder = RolloutOrder.OLDEST,
    page_size: int = 0,
    page_token: str = "",
) -> RolloutQuery:
    """Return the search that a request means; "" and 0 stand for what is not given.

    Raises:
        InvalidFieldError: a field is out of its bounds, or the token is none of a list.
    """
    if len(states) > len(RolloutState):
        raise InvalidFieldError("states", f"at most {len(RolloutState)}", len(states))
    return RolloutQuery(
        validate_page(page_size, page_token),
        app or None,
        feature or None,
        tuple(sorted(set(states))),
        validate_search(text),
        order,
    )
