"""Validates values that came over the wire: names, digests, request ids, reasons, etags and pages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, StaleEtagError
from alcove.platform.domain.records import Page
from alcove.privacy.limits import MIN_EPSILON
from alcove.registry.canonical import fault_text
from pydantic import TypeAdapter, ValidationError

__all__ = [
    "fields_named",
    "validate_digest",
    "validate_epsilon",
    "validate_etag",
    "validate_field",
    "validate_page",
    "validate_reason",
    "validate_request_id",
    "validate_search",
]

_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ETAG = re.compile(r"[1-9][0-9]{0,17}")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what validates a kind; making one takes longer than a hundred validations."""
    return TypeAdapter(kind)


@contextmanager
def fields_named(prefix: str = "") -> Iterator[None]:
    """Turn what pydantic refuses inside the block into an error that names the field, the bound and the value.

    Raises:
        InvalidFieldError: something was refused; the error names the first fault.
    """
    try:
        yield
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        name = ".".join(part for part in (prefix, where) if part) or "request"
        raise InvalidFieldError(name, fault_text(fault), fault["input"]) from None


def validate_field(field: str, kind: Any, value: object) -> Any:
    """Return `value` as the annotated type `kind` (such as `AppName`).

    Raises:
        InvalidFieldError: it is none.
    """
    with fields_named(field):
        return _adapter(kind).validate_python(value)


def validate_epsilon(field: str, value: str, highest: Fraction) -> None:
    """Refuse a privacy loss that a device never spends on one report.

    Raises:
        InvalidFieldError: it is no decimal number from `MIN_EPSILON` to `highest`.
    """
    # As a decimal: the fraction of "1e999999999" has as many digits, and making it would never end.
    if not MIN_EPSILON <= validate_field(field, Decimal, value) <= highest:
        raise InvalidFieldError(field, f"{float(MIN_EPSILON):g} to {highest}", value)


def validate_digest(field: str, value: str) -> str:
    """Return `value`, 64 lower-case hexadecimal digits.

    Raises:
        InvalidFieldError: it is something else.
    """
    if _DIGEST.fullmatch(value) is None:
        raise InvalidFieldError(field, "64 lower-case hexadecimal digits", value)
    return value


def validate_request_id(value: str) -> str:
    """Return `value`, 8 to 64 characters of [A-Za-z0-9_-].

    Raises:
        InvalidFieldError: it is something else.
    """
    shortest, longest = limits.REQUEST_ID_LENGTH
    if not shortest <= len(value) <= longest or _REQUEST_ID.fullmatch(value) is None:
        raise InvalidFieldError("request_id", f"{shortest} to {longest} characters of [A-Za-z0-9_-]", value)
    return value


def validate_reason(field: str, value: str) -> str:
    """Return `value` without outer space: 1 to 500 printable characters.

    Raises:
        InvalidFieldError: it is something else.
    """
    text = value.strip()
    if not 1 <= len(text) <= limits.REASON_LENGTH or not text.isprintable():
        raise InvalidFieldError(field, f"1 to {limits.REASON_LENGTH} printable characters", value)
    return text


def validate_etag(etag: str, revision: int, *, kind: str, name: str) -> None:
    """Let a mutation pass whose sender has seen the thing as it is now, or did not ask for that.

    Args:
        etag: as received: the revision that the sender read, decimal; "" to change the thing whatever it is now.
        revision: of the thing, read in the transaction that changes it.
        kind: what it is, such as "rollout".
        name: its id.

    Raises:
        InvalidFieldError: no etag of ours.
        StaleEtagError: the thing was changed since.
    """
    if not etag:
        return
    if _ETAG.fullmatch(etag) is None:
        raise InvalidFieldError("etag", "an etag as it was read, or nothing", etag)
    if int(etag) != revision:
        raise StaleEtagError(kind, name, etag, str(revision))


def validate_page(page_size: int, page_token: str) -> Page:
    """Return the part of a list that a request wants; a token is the last sequence number of the page before.

    Raises:
        InvalidFieldError: the size is above the most, or the token is none of ours.
    """
    default, most = limits.PAGE_SIZE
    if page_size > most:
        raise InvalidFieldError("page_size", f"at most {most}", page_size)
    if page_token and not (page_token.isascii() and page_token.isdigit() and len(page_token) <= 18):
        raise InvalidFieldError("page_token", "a next_page_token of this list", page_token)
    return Page(after=int(page_token or 0), size=page_size or default)


def validate_search(text: str) -> tuple[str, ...]:
    """Return the words of a search, in lower case; each must occur in what is found.

    Raises:
        InvalidFieldError: there are too many, or the text is too long or not printable.
    """
    most_words, most_characters = limits.SEARCH_WORDS
    if len(text) > most_characters or not text.isprintable():
        raise InvalidFieldError("text", f"at most {most_characters} printable characters", text)
    words = tuple(text.lower().split())
    if len(words) > most_words:
        raise InvalidFieldError("text", f"at most {most_words} words", len(words))
    return words
