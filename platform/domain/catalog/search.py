"""Defines searches for versions: their filters and order, and the tokens of their pages.  Pure.

A page token holds the sort key of the last version that was given and a digest of filters and order: the next page
begins after that version whatever was published, tagged or moved meanwhile, and no version that fits throughout is
given twice or left out.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from alcove.platform.domain import limits
from alcove.platform.domain.catalog.names import AliasName, TagKey, TagValue, sort_key
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_field, validate_search
from alcove.platform.domain.records import VersionRecord, VersionState
from alcove.registry.canonical import FeatureName, TeamName

__all__ = ["VersionOrder", "VersionQuery", "page_token", "parse_query"]

_TOKEN_CHARACTERS = 512  # of a page token; ours have about 100


class VersionOrder(StrEnum):
    """Order of the versions found."""

    OLDEST = "oldest"
    NEWEST = "newest"
    HIGHEST = "highest"


@dataclass(frozen=True)
class VersionQuery:
    """Filters of a search; all that are given must match.

    Attributes:
        tags: keys and values; value None: any.
        words: in lower case; each must occur somewhere in the version's texts or tags.
        size: most versions in the answer.
        after: sort key of the last version of the page before; None: from the start.
    """

    feature: str | None = None
    team: str | None = None
    states: tuple[VersionState, ...] = ()
    alias: str | None = None
    tags: tuple[tuple[str, str | None], ...] = ()
    words: tuple[str, ...] = ()
    order: VersionOrder = VersionOrder.OLDEST
    size: int = limits.PAGE_SIZE[0]
    after: tuple[str, int] | None = None


def parse_query(
    *,
    feature: str = "",
    team: str = "",
    states: Sequence[VersionState] = (),
    alias: str = "",
    tags: Sequence[tuple[str, str]] = (),
    text: str = "",
    order: VersionOrder = VersionOrder.OLDEST,
    page_size: int = 0,
    page_token: str = "",
) -> VersionQuery:
    """Return the search that a request means; "" and 0 stand for what is not given.

    Raises:
        InvalidFieldError: a field is out of its bounds, or the token is none of this search.
    """
    default, most = limits.PAGE_SIZE
    if page_size > most:
        raise InvalidFieldError("page_size", f"at most {most}", page_size)
    if len(states) > len(VersionState):
        raise InvalidFieldError("states", f"at most {len(VersionState)}", len(states))
    if len(tags) > limits.TAG_FILTERS_MAX:
        raise InvalidFieldError("tags", f"at most {limits.TAG_FILTERS_MAX}", len(tags))
    query = VersionQuery(
        feature=validate_field("feature", FeatureName, feature) if feature else None,
        team=validate_field("team", TeamName, team) if team else None,
        states=tuple(sorted(set(states))),
        alias=validate_field("alias", AliasName, alias) if alias else None,
        tags=tuple(
            (validate_field("tags.key", TagKey, key), validate_field("tags.value", TagValue, value) if value else None)
            for key, value in tags
        ),
        words=validate_search(text),
        order=order,
        size=page_size or default,
    )
    return replace(query, after=_after(query, page_token)) if page_token else query


def page_token(query: VersionQuery, last: VersionRecord) -> str:
    """Return the token of the page that begins after `last`."""
    place = [last.feature, sort_key(last.version)] if query.order is VersionOrder.HIGHEST else ["", last.sequence]
    return base64.urlsafe_b64encode(json.dumps([_digest(query), *place]).encode()).decode()


def _after(query: VersionQuery, token: str) -> tuple[str, int]:
    wrong = InvalidFieldError("page_token", "a next_page_token of this search, with its filters and order", token)
    if len(token) > _TOKEN_CHARACTERS:
        raise wrong
    try:
        digest, feature, number = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise wrong from None
    if digest != _digest(query) or not isinstance(feature, str) or type(number) is not int or not 0 <= number < 2**62:
        raise wrong
    return feature, number


def _digest(query: VersionQuery) -> str:
    """Name filters and order; the size of a page may change on the way."""
    what = [query.feature, query.team, query.states, query.alias, query.tags, query.words, query.order]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
