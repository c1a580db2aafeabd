"""Defines audiences of devices: a conjunction of constraints, at most one for each attribute, in one canonical form.

    app_version >= 2.1.0 and app_version < 3.0.0 and locale in (de, en-GB) and locale not in (de-AT) and os in (ios)

Numbers (app_version, memory_mb) are held to an interval, words (device_class, locale, os, region) to a set.  A locale
covers those that it begins: `de` covers `de-AT`.  A device that does not state an attribute meets no constraint on it.

- A1  One meaning has one form: two audiences of the same devices are equal, and so are their encodings.
- A2  An audience is never empty: `both` and the constructors refuse what no device can meet.
- A3  Whether two audiences share a device is decided, not guessed, and a witness is named.

This module loads no pydantic; `document.py` holds the encoded form in the signed policy.
"""

from __future__ import annotations

import itertools
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alcove.registry.errors import AttributeValueError, AudienceError, EmptyAudienceError, UnknownAttributeError
from alcove.registry.limits import AUDIENCE_VALUES_MAX
from alcove.registry.policy.attributes import (
    ATTRIBUTES,
    RANGED,
    DeviceAttributes,
    app_version_number,
    app_version_text,
    spell,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["Audience", "Choice", "Interval", "both", "choice", "interval", "overlap_witness", "overlaps"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers in [low, high)."""

    low: int
    high: int

    def admits(self, value: str | int) -> bool:
        """Tell whether a device's number is in it."""
        return isinstance(value, int) and self.low <= value < self.high


@dataclass(frozen=True, slots=True)
class Choice:
    """Words that `among` covers (None: all) and `without` does not; each in order, with nothing that is redundant."""

    among: tuple[str, ...] | None
    without: tuple[str, ...] = ()

    def admits(self, value: str | int) -> bool:
        """Tell whether a device's word is in it."""
        if not isinstance(value, str):
            return False
        if self.among is not None and not _is_covered(value, self.among):
            return False
        return not _is_covered(value, self.without)


Constraint = Interval | Choice


@dataclass(frozen=True, slots=True)
class Audience:
    """A set of devices; made by `interval`, `choice` and `both`, or read from a document or from text.

    Attributes:
        constraints: by attribute, in alphabetical order; at least one.
    """

    constraints: tuple[tuple[str, Constraint], ...]

    def matches(self, attributes: DeviceAttributes) -> bool:
        """Tell whether a device meets every constraint."""
        return self.unmet(attributes) is None

    def unmet(self, attributes: DeviceAttributes) -> str | None:
        """Return the first attribute whose constraint a device does not meet; None if it meets all."""
        values = attributes.values
        for name, constraint in self.constraints:
            value = values.get(name)
            if value is None or not constraint.admits(value):
                return name
        return None

    def witness(self) -> DeviceAttributes:
        """Return a device that is in it (A2)."""
        known: dict[str, Any] = {name: _witness(name, constraint) for name, constraint in self.constraints}
        return DeviceAttributes(**known)

    def __str__(self) -> str:
        return " and ".join(part for name, constraint in self.constraints for part in _texts(name, constraint))

    def to_json(self) -> dict[str, dict[str, object]]:
        """Return the plain values that stand for it in a signed document."""
        return {name: _to_json(name, constraint) for name, constraint in self.constraints}

    @classmethod
    def from_json(cls, value: object) -> Audience:
        """Return the audience that `value` stands for.

        Raises:
            AudienceError: it stands for none, or is not the canonical form (A1).
        """
        if not isinstance(value, dict) or not value:
            msg = "an audience is an object with at least one attribute"
            raise AudienceError(msg)
        audience = cls(tuple((name, _from_json(name, value[name])) for name in sorted(value, key=str)))
        if audience.to_json() != value:
            msg = f"not the canonical form of the audience {audience}"
            raise AudienceError(msg)
        return audience


def interval(attribute: str, *, low: int = 0, high: int | None = None) -> Audience:
    """Return the audience of devices whose `attribute` is in [low, high); an app version counts by its number.

    Raises:
        AttributeValueError: not an attribute with numbers.
        EmptyAudienceError: no number is in it.
    """
    bound = RANGED.get(attribute)
    if bound is None:
        raise AttributeValueError(
            attribute, expected="a word; it is held to a set with in, not in or ==", value=(low, high)
        )
    low, high = max(low, 0), bound if high is None else min(high, bound)
    if low >= high:
        highest = _number_text(attribute, high) if high > 0 else "the lowest there is"
        raise EmptyAudienceError(attribute, f"from {_number_text(attribute, low)} and below {highest}")
    return Audience(((attribute, Interval(low, high)),))


def choice(attribute: str, *, among: Iterable[str] | None = None, without: Iterable[str] = ()) -> Audience:
    """Return the audience of devices whose `attribute` is covered by one of `among` and by none of `without`.

    Raises:
        UnknownAttributeError: no device has the attribute.
        AttributeValueError: a word is none of the attribute's, or they are too many or none.
        EmptyAudienceError: nothing of `among` is left.
    """
    if attribute not in ATTRIBUTES:
        raise UnknownAttributeError(attribute, known=ATTRIBUTES)
    if attribute in RANGED:
        raise AttributeValueError(attribute, expected="a number; it is compared with <, <=, >, >= or ==", value="a set")
    wanted = None if among is None else {str(spell(attribute, word)) for word in among}
    barred = {str(spell(attribute, word)) for word in without}
    if wanted is None and not barred:
        raise AttributeValueError(attribute, expected="held to at least one word", value=())
    return Audience(((attribute, _limit(attribute, _canonical(attribute, wanted, barred))),))


def both(first: Audience, second: Audience) -> Audience:
    """Return the audience of devices that are in both.

    Raises:
        EmptyAudienceError: there is none.
        AttributeValueError: more words of one attribute than an audience may name.
    """
    result = _combine(first, second)
    for name, constraint in result.constraints:
        if isinstance(constraint, Choice):
            _limit(name, constraint)
    return result


def overlap_witness(first: Audience | None, second: Audience | None) -> DeviceAttributes | None:
    """Return a device that is in both, or None if there is none; an audience of None is everybody (A3)."""
    if first is None or second is None:
        some = first or second
        return DeviceAttributes() if some is None else some.witness()
    try:
        return _combine(first, second).witness()
    except EmptyAudienceError:
        return None


def overlaps(first: Audience | None, second: Audience | None) -> bool:
    """Tell whether a device can be in both; an audience of None is everybody."""
    if first is None or second is None:
        return True
    other = dict(second.constraints)
    return all(name not in other or _do_meet(constraint, other[name]) for name, constraint in first.constraints)


def _combine(first: Audience, second: Audience) -> Audience:
    merged = dict(first.constraints)
    for name, constraint in second.constraints:
        merged[name] = constraint if name not in merged else _merge(name, merged[name], constraint)
    return Audience(tuple(sorted(merged.items())))


def _is_covered(word: str, broad: Collection[str]) -> bool:
    """Tell whether a word, or a locale that it begins with, is among some; no other attribute's words have a "-"."""
    while word not in broad:
        word = word.rpartition("-")[0]
        if not word:
            return False
    return True


def _broadest(words: Iterable[str]) -> set[str]:
    """Return the words that no other of them covers; they are as many as a document holds, their bound comes after."""
    known = set(words)
    return {word for word in known if not _is_covered(word.rpartition("-")[0], known)}


def _canonical(name: str, among: set[str] | None, without: set[str]) -> Choice:
    """Return the one form (A1): `among` are the shortest words that are in, `without` the shortest cut out of them."""
    barred = _broadest(without)
    if among is None:
        return Choice(None, tuple(sorted(barred)))
    left = _broadest(word for word in among if not _is_covered(word, barred))
    if not left:
        wanted = f"in ({', '.join(sorted(among))})" if among else "in no word that is asked for"
        raise EmptyAudienceError(name, wanted + (f" and not in ({', '.join(sorted(without))})" if without else ""))
    cut = {word for word in barred if _is_covered(word, left)}
    return Choice(tuple(sorted(left)), tuple(sorted(cut)))


def _limit(name: str, result: Choice) -> Choice:
    for words in (result.among or (), result.without):
        if len(words) > AUDIENCE_VALUES_MAX:
            raise AttributeValueError(name, expected=f"held to at most {AUDIENCE_VALUES_MAX} words", value=len(words))
    return result


def _merge(name: str, first: Constraint, second: Constraint) -> Constraint:
    if isinstance(first, Interval) and isinstance(second, Interval):
        low, high = max(first.low, second.low), min(first.high, second.high)
        if low >= high:
            wanted = " and ".join(part for one in (first, second) for part in _texts(name, one))
            raise EmptyAudienceError(name, wanted)
        return Interval(low, high)
    if not isinstance(first, Choice) or not isinstance(second, Choice):
        msg = f"{name} is held to an interval and to a set"  # impossible: an attribute has one kind
        raise TypeError(msg)
    among: set[str] | None
    if first.among is None or second.among is None:
        among = None if first.among is second.among else set(first.among or second.among or ())
    else:
        among = {word for word in first.among if _is_covered(word, second.among)}
        among |= {word for word in second.among if _is_covered(word, first.among)}
        if not among:
            raise EmptyAudienceError(name, " and ".join((*_texts(name, first), *_texts(name, second))))
    return _canonical(name, among, {*first.without, *second.without})


def _do_meet(first: Constraint, second: Constraint) -> bool:
    """Tell whether one value can meet both; the rule of `_merge` without making the result."""
    if isinstance(first, Interval) and isinstance(second, Interval):
        return max(first.low, second.low) < min(first.high, second.high)
    if not isinstance(first, Choice) or not isinstance(second, Choice):
        return False
    if first.among is None and second.among is None:
        return True  # at most 128 words are cut out of more than 1 000
    # A policy may have 100,000 pairs to compare, of 64 words each.
    wanted = [set(one.among) for one in (first, second) if one.among is not None]
    barred = {*first.without, *second.without}
    return any(
        all(_is_covered(word, words) for words in wanted) and not _is_covered(word, barred)
        for words in wanted
        for word in words
    )


def _witness(name: str, constraint: Constraint) -> str | int:
    if isinstance(constraint, Interval):
        return app_version_text(constraint.low) if name == "app_version" else constraint.low
    if constraint.among is not None:
        return constraint.among[0]
    letters = string.ascii_uppercase if name == "region" else string.ascii_lowercase
    words = map("".join, itertools.product(letters, repeat=2))
    return next(word for word in words if not _is_covered(word, constraint.without))


def _texts(name: str, constraint: Constraint) -> list[str]:
    """Return the constraint as people write it, one or two conditions."""
    if isinstance(constraint, Choice):
        wanted = [] if constraint.among is None else [f"{name} in ({', '.join(constraint.among)})"]
        return wanted + ([f"{name} not in ({', '.join(constraint.without)})"] if constraint.without else [])
    if constraint.high == constraint.low + 1:
        return [f"{name} == {_number_text(name, constraint.low)}"]
    above = [f"{name} >= {_number_text(name, constraint.low)}"]
    if constraint.high == RANGED[name]:
        return above
    below = [f"{name} < {_number_text(name, constraint.high)}"]
    return below if constraint.low == 0 else above + below


def _number_text(name: str, number: int) -> str:
    return app_version_text(number) if name == "app_version" else str(number)


def _to_json(name: str, constraint: Constraint) -> dict[str, object]:
    if isinstance(constraint, Choice):
        wanted: dict[str, object] = {} if constraint.among is None else {"in": list(constraint.among)}
        return wanted | ({"not_in": list(constraint.without)} if constraint.without else {})
    ends = {"from": constraint.low or None, "below": constraint.high if constraint.high != RANGED[name] else None}
    is_text = name == "app_version"
    return {key: app_version_text(end) if is_text else end for key, end in ends.items() if end is not None}


def _from_json(name: object, value: object) -> Constraint:
    if name not in ATTRIBUTES:
        raise UnknownAttributeError(str(name), known=ATTRIBUTES)
    attribute = str(name)
    keys = {"from", "below"} if attribute in RANGED else {"in", "not_in"}
    if not isinstance(value, dict) or not value.keys() <= keys:
        raise AttributeValueError(attribute, expected=f"held by {' and '.join(sorted(keys))}", value=value)
    if attribute in RANGED:
        ends = {key: _number(attribute, value[key]) for key in value}
        made = interval(attribute, low=ends.get("from", 0), high=ends.get("below"))
    else:
        among, without = value.get("in"), value.get("not_in", ())
        if not all(words is None or isinstance(words, (list, tuple)) for words in (among, without)):
            raise AttributeValueError(attribute, expected="held by lists of words", value=value)
        made = choice(attribute, among=among, without=without)
    return made.constraints[0][1]


def _number(attribute: str, value: object) -> int:
    """Return the number of a version or of megabytes as a document writes it."""
    text = spell(attribute, value)
    return app_version_number(text) if isinstance(text, str) else text
