"""Defines dimensions: an attribute and up to three values of it, by which the reports of an experiment are told apart.

    os=android,ios+ipados                words; those joined by "+" are one value
    app_version=2.0.0,3.0.0              cuts: below 2.0.0, from 2.0.0 below 3.0.0, from 3.0.0

Each device has one value: the one that its attribute meets, or `OTHER`, the last one, where it states none, meets none,
or may not tell (`sdk/questions.py`).

- D1  Values share no device; each is an audience of the dimension's attribute alone.
- D2  One meaning has one form: words rise in a value, values of words by their first, and cuts rise.

This module loads no pydantic; `document.py` holds the encoded form in the signed policy.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import AttributeValueError, AudienceSyntaxError, DimensionError, UnknownAttributeError
from alcove.registry.limits import AUDIENCE_LENGTH_MAX, DIMENSION_VALUES_MAX
from alcove.registry.policy.attributes import ATTRIBUTES, OSES, RANGED, app_version_number, app_version_text, spell
from alcove.registry.policy.audience import Audience, Choice, Interval, choice, interval, overlaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.registry.policy.attributes import DeviceAttributes

__all__ = ["OTHER", "Dimension", "make_dimension", "parse_dimension"]

OTHER: Final = "other"
"""Name of the value of devices that meet no named one."""

_SECOND: Final = re.compile("[=;]")  # no value has either, so that a second dimension begins there
_DIGITS: Final = len(str(RANGED["memory_mb"]))


@dataclass(frozen=True, slots=True)
class Dimension:
    """An attribute and its values; made by `make_dimension` or `parse_dimension`.

    Attributes:
        attribute: whose values they are.
        audiences: of each named value, in order; `OTHER` follows them.
    """

    attribute: str
    audiences: tuple[Audience, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all values for people, `OTHER` the last."""
        return (*map(_name, self.audiences), OTHER)

    def value_of(self, attributes: DeviceAttributes) -> int:
        """Return the number of the value that a device has, in [0, len(names))."""
        found = (number for number, audience in enumerate(self.audiences) if audience.matches(attributes))
        return next(found, len(self.audiences))

    def to_json(self) -> dict[str, object]:
        """Return the plain values that stand for it in a signed document."""
        constraints = [audience.to_json()[self.attribute] for audience in self.audiences]
        return {"attribute": self.attribute, "values": constraints}

    @classmethod
    def from_json(cls, value: object) -> Dimension:
        """Return the dimension that `value` stands for.

        Raises:
            AudienceError: it stands for none, or is not the canonical form (D2).
        """
        if not isinstance(value, dict) or value.keys() != {"attribute", "values"}:
            raise DimensionError("an attribute and values", type(value).__name__)
        attribute, values = value["attribute"], value["values"]
        if not isinstance(values, list | tuple) or len(values) > DIMENSION_VALUES_MAX:
            raise DimensionError(f"a list of at most {DIMENSION_VALUES_MAX} values", type(values).__name__)
        return make_dimension(str(attribute), [Audience.from_json({attribute: one}) for one in values])

    def __str__(self) -> str:
        if self.attribute not in RANGED:
            return f"{self.attribute}={','.join(map(_name, self.audiences))}"
        intervals = [constraint for audience in self.audiences for _, constraint in audience.constraints]
        cuts = [one.low for one in intervals[1:] if isinstance(one, Interval)]
        return f"{self.attribute}={','.join(_number_text(self.attribute, cut) for cut in cuts)}"


def make_dimension(attribute: str, audiences: Sequence[Audience]) -> Dimension:
    """Return the dimension of these values.

    Raises:
        UnknownAttributeError: no device has the attribute.
        DimensionError: too many values or none, one of another attribute, or two that share a device (D1) or are not
            in their order (D2); or intervals that leave numbers out.
    """
    if attribute not in ATTRIBUTES:
        raise UnknownAttributeError(attribute, known=ATTRIBUTES)
    if not 1 <= len(audiences) <= DIMENSION_VALUES_MAX:
        raise DimensionError(f"1 to {DIMENSION_VALUES_MAX} values beside {OTHER!r}", len(audiences))
    for audience in audiences:
        if [name for name, _ in audience.constraints] != [attribute]:
            raise DimensionError(f"values of {attribute} alone", str(audience))
    for first, second in itertools.combinations(audiences, 2):
        if overlaps(first, second):
            raise DimensionError("values that share no device", f"{first}; {second}")
    if attribute in RANGED:
        _validate_intervals(attribute, audiences)
    else:
        _validate_words(audiences)
    return Dimension(attribute, tuple(audiences))


def parse_dimension(text: str) -> Dimension:
    """Return the dimension that `text` describes; `str()` of it is text again.

    Raises:
        AudienceSyntaxError: the text does not read as a dimension, or is longer than `limits.AUDIENCE_LENGTH_MAX`.
        UnknownAttributeError: it names an attribute that no device has.
        AttributeValueError: a value of another form than its attribute's.
        DimensionError: too many values, or values that share a device.
    """
    if len(text) > AUDIENCE_LENGTH_MAX:
        bound = f"at most {AUDIENCE_LENGTH_MAX} characters"
        raise AudienceSyntaxError(
            text[:AUDIENCE_LENGTH_MAX], position=AUDIENCE_LENGTH_MAX, expected=bound, found=f"{len(text)} in all"
        )
    attribute, equals, rest = (part.strip() for part in text.partition("="))
    values = [value.strip() for value in rest.split(",")]
    if not (attribute and equals and all(values)):
        expected = "ATTRIBUTE=VALUE,VALUE, such as os=android,ios"
        raise AudienceSyntaxError(text, position=0, expected=expected, found=text)
    second = _SECOND.search(rest)
    if second is not None:
        place = len(text) - len(text.partition("=")[2].lstrip()) + second.start()
        raise AudienceSyntaxError(text, position=place, expected="one dimension alone", found=text[place:])
    if attribute not in ATTRIBUTES:
        raise UnknownAttributeError(attribute, known=ATTRIBUTES)
    named = [value for value in values if value != OTHER]  # it follows the others, whether or not it is written
    if not 1 <= len(named) <= DIMENSION_VALUES_MAX:
        raise DimensionError(f"1 to {DIMENSION_VALUES_MAX} values or cuts beside {OTHER!r}", len(named))
    if attribute in RANGED:
        return make_dimension(attribute, _split_at(attribute, [_number(attribute, value) for value in named]))
    audiences = [_choose(attribute, [word.strip() for word in value.split("+")]) for value in named]
    return make_dimension(attribute, sorted(audiences, key=_words))


def _choose(attribute: str, words: Sequence[str]) -> Audience:
    for word in words:
        if attribute == "os" and spell(attribute, word) not in OSES:
            raise AttributeValueError(attribute, expected=f"one of {', '.join(OSES)}", value=word)
    return choice(attribute, among=words)


def _split_at(attribute: str, cuts: Sequence[int]) -> list[Audience]:
    """Return the values between some cuts."""
    if list(cuts) != sorted(set(cuts)) or cuts[0] <= 0:
        written = ", ".join(_number_text(attribute, cut) for cut in cuts)
        raise DimensionError(f"rising cuts of {attribute} above 0", written)
    return [interval(attribute, low=low, high=high) for low, high in zip((0, *cuts), (*cuts, None), strict=True)]


def _validate_intervals(attribute: str, audiences: Sequence[Audience]) -> None:
    ends = [constraint for audience in audiences for _, constraint in audience.constraints]
    places = [(one.low, one.high) for one in ends if isinstance(one, Interval)]
    bounds = [0, *(high for _, high in places)]
    if [low for low, _ in places] != bounds[:-1] or bounds[-1] != RANGED[attribute] or len(places) < 2:
        raise DimensionError(
            f"intervals of {attribute}, one after the other from the lowest number to the highest",
            "; ".join(map(str, audiences)),
        )


def _validate_words(audiences: Sequence[Audience]) -> None:
    constraints = [constraint for audience in audiences for _, constraint in audience.constraints]
    if any(not isinstance(one, Choice) or one.among is None or one.without for one in constraints):
        raise DimensionError("values of named words", "; ".join(map(str, audiences)))
    if any(OTHER in _words(audience) for audience in audiences):
        raise DimensionError(f"values other than {OTHER!r}, which has all devices of no named value", OTHER)
    if list(audiences) != sorted(audiences, key=_words):
        raise DimensionError("values in the order of their first words", "; ".join(map(str, audiences)))


def _words(audience: Audience) -> tuple[str, ...]:
    ((_, constraint),) = audience.constraints
    return constraint.among or () if isinstance(constraint, Choice) else ()


def _name(audience: Audience) -> str:
    """Return how people name a value: its words, or where its numbers begin and end."""
    ((attribute, constraint),) = audience.constraints
    if isinstance(constraint, Choice):
        return "+".join(constraint.among or ())
    low, high = (_number_text(attribute, end) for end in (constraint.low, constraint.high))
    if constraint.low == 0:
        return f"below {high}"
    return f"from {low}" if constraint.high == RANGED[attribute] else f"from {low} below {high}"


def _number(attribute: str, text: str) -> int:
    is_number = attribute == "memory_mb" and text.isascii() and text.isdigit() and len(text) <= _DIGITS
    value = spell(attribute, int(text) if is_number else text)
    return app_version_number(value) if isinstance(value, str) else value


def _number_text(attribute: str, number: int) -> str:
    return app_version_text(number) if attribute == "app_version" else str(number)
