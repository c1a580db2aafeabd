"""Defines searches for rollouts: their filters and order, and the tokens of their pages.  Pure.

A page token is the sequence number of the last rollout that was given: the next page begins after it, whatever was
created or changed meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_page, validate_search
from alcove.platform.domain.records import Page, RolloutState

__all__ = ["HALT_NEEDS_S", "RolloutNeed", "RolloutOrder", "RolloutQuery", "parse_query"]

HALT_NEEDS_S: Final = 7 * 86_400  # seconds after a halt in which somebody should look at what follows from it


class RolloutOrder(StrEnum):
    """Order of the rollouts found, by when they were created."""

    OLDEST = "oldest"
    NEWEST = "newest"


class RolloutNeed(StrEnum):
    """What a rollout needs a person for: to go on, or to approve its advance."""

    ACTION = "action"
    APPROVAL = "approval"


@dataclass(frozen=True)
class RolloutQuery:
    """Filters of a search; all that are given must match.

    Attributes:
        page: which part of the list; `after` 0: from the start.
        app, feature: of which; None: of any.
        states: in one of them; (): in any.
        words: in lower case; each must occur in id, app, feature or version.
        order: of the list.
        need: that they have; None: any.
        halted_since_s: of a need for action: halts that count, seconds since 1970-01-01 UTC; a whole minute, so that
            answers can be shared.
    """

    page: Page
    app: str | None = None
    feature: str | None = None
    states: tuple[RolloutState, ...] = ()
    words: tuple[str, ...] = ()
    order: RolloutOrder = RolloutOrder.OLDEST
    need: RolloutNeed | None = None
    halted_since_s: int = 0


def parse_query(
    *,
    app: str = "",
    feature: str = "",
    states: Sequence[RolloutState] = (),
    text: str = "",
    order: RolloutOrder = RolloutOrder.OLDEST,
    need: RolloutNeed | None = None,
    now_s: int = 0,
    page_size: int = 0,
    page_token: str = "",
) -> RolloutQuery:
    """Return the search that a request means at a time; "" and 0 stand for what is not given.

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
        need,
        (now_s - HALT_NEEDS_S) // 60 * 60 if need is RolloutNeed.ACTION else 0,
    )
