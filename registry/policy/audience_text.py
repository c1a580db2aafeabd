"""Parses audiences and device attributes from the text that people write.

    audience    constraint { "and" constraint }
    constraint  attribute comparison value  |  attribute [ "not" ] "in" "(" value { "," value } ")"
    comparison  "=="  "!="  "<"  "<="  ">"  ">="

`app_version` and `memory_mb` have an order: they take ==, <, <=, >, >= and may be bounded twice.  The other attributes
take ==, !=, in and not in.  Several constraints on one attribute are met together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import AttributeValueError, AudienceSyntaxError, UnknownAttributeError
from alcove.registry.limits import AUDIENCE_LENGTH_MAX
from alcove.registry.policy.attributes import ATTRIBUTES, OSES, RANGED, DeviceAttributes, app_version_number, spell
from alcove.registry.policy.audience import Audience, both, choice, interval

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["parse_attributes", "parse_audience"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z0-9_][A-Za-z0-9._-]*)|(?P<sign>==|!=|<=|>=|<|>|\(|\)|,)|(?P<odd>\S))"
)
_ORDERED: Final = ("==", "<", "<=", ">", ">=")
_NAMED: Final = ("==", "!=")


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    position: int
    is_word: bool


def parse_audience(text: str) -> Audience:
    """Return the audience that `text` describes; `str()` of it is text again.

    Raises:
        AudienceSyntaxError: the text does not read as an audience, or is longer than `limits.AUDIENCE_LENGTH_MAX`.
        UnknownAttributeError: it names an attribute that no device has.
        AttributeValueError: a value of another type than its attribute's.
        EmptyAudienceError: no device can be in it.
    """
    if len(text) > AUDIENCE_LENGTH_MAX:
        bound = f"at most {AUDIENCE_LENGTH_MAX} characters"
        raise AudienceSyntaxError(
            text[:AUDIENCE_LENGTH_MAX], position=AUDIENCE_LENGTH_MAX, expected=bound, found=f"{len(text)} in all"
        )
    return _Parser(text).audience()


def parse_attributes(text: str) -> DeviceAttributes:
    """Return the device that text such as "os=ios,app_version=2.3.0" describes; "" is one that says nothing.

    Raises:
        AudienceSyntaxError: a part is not NAME=VALUE, or names an attribute again.
        UnknownAttributeError: an attribute that no device has.
        AttributeValueError: a value of another form than its attribute's.
    """
    values: dict[str, str | int] = {}
    position = 0
    for part in text.split(",") if text.strip() else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name in values:
            expected = "NAME=VALUE" if not equals else f"{name} once"
            raise AudienceSyntaxError(text, position=position, expected=expected, found=part.strip())
        if name not in ATTRIBUTES:
            raise UnknownAttributeError(name, known=ATTRIBUTES, position=position)
        values[name] = _value(name, value)
        position += len(part) + 1
    return DeviceAttributes(**values)  # type: ignore[arg-type]  # each was checked against its attribute


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            _Token(match[match.lastgroup or 0], match.start(match.lastgroup or 0), match.lastgroup == "word")
            for match in _TOKEN.finditer(text)
        ]
        self._next = 0

    def audience(self) -> Audience:
        parts = [self._constraint()]
        while self._next < len(self._tokens):
            self._take("'and' or the end", lambda token: token.text == "and")
            parts.append(self._constraint())
        return reduce(both, parts)

    def _constraint(self) -> Audience:
        name = self._take(f"an attribute ({', '.join(ATTRIBUTES)})", lambda token: token.is_word)
        if name.text not in ATTRIBUTES:
            raise UnknownAttributeError(name.text, known=ATTRIBUTES, position=name.position)
        signs = _ORDERED if name.text in RANGED else (*_NAMED, "in", "not in")
        sign = self._take(f"one of {' '.join(signs)}", lambda token: token.text in signs or self._is_not(token, signs))
        if name.text in RANGED:
            return _compare(name.text, sign.text, self._number(name.text))
        is_barred = sign.text in ("!=", "not")
        if sign.text == "not":
            self._take("'in'", lambda token: token.text == "in")
        words = [self._word(name.text)] if sign.text in _NAMED else self._words(name.text)
        return choice(name.text, without=words) if is_barred else choice(name.text, among=words)

    @staticmethod
    def _is_not(token: _Token, signs: tuple[str, ...]) -> bool:
        return token.text == "not" and "not in" in signs

    def _words(self, name: str) -> list[str]:
        self._take("'('", lambda token: token.text == "(")
        words = [self._word(name)]
        while self._take("',' or ')'", lambda token: token.text in (",", ")")).text == ",":
            words.append(self._word(name))
        return words

    def _word(self, name: str) -> str:
        token = self._take(f"a value of {name}", lambda token: token.is_word)
        word = str(spell(name, token.text))
        if name == "os" and word not in OSES:
            raise AttributeValueError(name, expected=f"one of {', '.join(OSES)}", value=word)
        return word

    def _number(self, name: str) -> int:
        value = _value(name, self._take(f"a value of {name}", lambda token: token.is_word).text)
        return app_version_number(value) if isinstance(value, str) else value

    def _take(self, expected: str, is_fit: Callable[[_Token], bool]) -> _Token:
        if self._next == len(self._tokens):
            raise AudienceSyntaxError(self._text, position=len(self._text), expected=expected, found="")
        token = self._tokens[self._next]
        if not is_fit(token):
            raise AudienceSyntaxError(self._text, position=token.position, expected=expected, found=token.text)
        self._next += 1
        return token


def _value(name: str, text: str) -> str | int:
    """Return a value as written in text."""
    is_number = name == "memory_mb" and text.isascii() and text.isdigit() and len(text) <= len(str(RANGED[name]))
    return spell(name, int(text) if is_number else text)


def _compare(name: str, sign: str, number: int) -> Audience:
    low = {"==": number, ">=": number, ">": number + 1}.get(sign, 0)
    high = {"==": number + 1, "<": number, "<=": number + 1}.get(sign)
    return interval(name, low=low, high=high)
