"""Encodes and decodes HTTP messages as bytes of their own, for what is encapsulated: binary HTTP of known length.

Names of fields are lower case. What may be left out at the end (empty content, no trailers) is, and zeros may follow:
padding, by which messages of several sizes look alike. Nothing is allocated beyond the bytes that are there.

Source: RFC 9292, sections 3.1, 3.3 to 3.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from alcove.privacy.errors import ObliviousMessageError, ParameterError

__all__ = ["HttpRequest", "HttpResponse", "read_request", "read_response", "write_request", "write_response"]

MAX_FIELDS: Final = 32
"""Most fields of a message that are read."""

_REQUEST, _RESPONSE = 0, 1
_INFORMATIONAL: Final = range(100, 200)
_STATUS: Final = range(200, 600)
_SIZES: Final = (1, 2, 4, 8)

Fields = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class HttpRequest:
    """A request; `authority` is a host and port, `path` begins with a slash."""

    method: str
    scheme: str
    authority: str
    path: str
    fields: tuple[tuple[str, str], ...] = ()
    content: bytes = b""


@dataclass(frozen=True)
class HttpResponse:
    """A response without trailers."""

    status: int
    fields: tuple[tuple[str, str], ...] = ()
    content: bytes = b""

    def field(self, name: str) -> str:
        """Return the value of a field; "" of one that is not there."""
        return next((value for each, value in self.fields if each == name), "")


def write_request(request: HttpRequest, multiple_bytes: int = 1) -> bytes:
    """Return a request, padded to a multiple of so many bytes.

    Raises:
        ParameterError: a text has other characters than ASCII.
    """
    control = [request.method, request.scheme, request.authority, request.path]
    head = _write_number(_REQUEST) + b"".join(_write_text("control data", each) for each in control)
    return _pad(head + _write_rest(request.fields, request.content), multiple_bytes)


def write_response(response: HttpResponse, multiple_bytes: int = 1) -> bytes:
    """Return a response, padded to a multiple of so many bytes.

    Raises:
        ParameterError: a text has other characters than ASCII.
    """
    head = _write_number(_RESPONSE) + _write_number(response.status)
    return _pad(head + _write_rest(response.fields, response.content), multiple_bytes)


def read_request(encoded: bytes) -> HttpRequest:
    """Return a request of known length.

    Raises:
        ObliviousMessageError: it is none.
    """
    reader = _Reader("HttpRequest", encoded)
    reader.expect(_REQUEST)
    method, scheme, authority, path = (reader.read_text(name) for name in ("method", "scheme", "authority", "path"))
    fields, content = reader.read_rest()
    return HttpRequest(method, scheme, authority, path, fields, content)


def read_response(encoded: bytes) -> HttpResponse:
    """Return a response of known length, without those that are informational.

    Raises:
        ObliviousMessageError: it is none.
    """
    reader = _Reader("HttpResponse", encoded)
    reader.expect(_RESPONSE)
    status = reader.read_number("status")
    while status in _INFORMATIONAL:
        reader.read_fields("informational fields")
        status = reader.read_number("status")
    if status not in _STATUS:
        raise reader.refuse("status", f"{status} is no final status")
    fields, content = reader.read_rest()
    return HttpResponse(status, fields, content)


def _write_rest(fields: Fields, content: bytes) -> bytes:
    lines = b"".join(_write_text("name", name) + _write_text("value", value) for name, value in fields)
    if not content and not lines:
        return b""
    rest = _write_number(len(lines)) + lines
    return rest + _write_number(len(content)) + content if content else rest


def _write_text(what: str, text: str) -> bytes:
    if not text.isascii():
        raise ParameterError(name=what, bound="ASCII", value=text)
    return _write_number(len(text)) + text.encode("ascii")


def _write_number(number: int) -> bytes:
    """Return a number in the fewest bytes of QUIC's form (RFC 9000, section 16): two bits say how many."""
    for bits, size in enumerate(_SIZES):
        if number < 1 << 8 * size - 2:
            return (number | bits << 8 * size - 2).to_bytes(size, "big")
    raise ParameterError(name="number", bound="below 2^62", value=number)


def _pad(message: bytes, multiple_bytes: int) -> bytes:
    """Return a message and its padding; before that everything is written out, for zeros would be lengths else."""
    return message if multiple_bytes == 1 else message + bytes(-len(message) % multiple_bytes)


class _Reader:
    """A message that is read from front to back."""

    def __init__(self, message: str, encoded: bytes) -> None:
        self._message = message
        self._encoded = encoded
        self._at = 0

    def refuse(self, field: str, reason: str) -> ObliviousMessageError:
        return ObliviousMessageError(self._message, field, reason)

    def expect(self, framing: int) -> None:
        found = self.read_number("framing")
        if found != framing:
            raise self.refuse("framing", f"{found} came in the place of {framing}, the one of known length")

    def read_number(self, field: str) -> int:
        if self._at >= len(self._encoded):
            raise self.refuse(field, "the message ends before it")
        size = _SIZES[self._encoded[self._at] >> 6]
        return int.from_bytes(self._take(size, field), "big") & (1 << 8 * size - 2) - 1

    def read_bytes(self, field: str) -> bytes:
        return self._take(self.read_number(field), field)

    def read_text(self, field: str) -> str:
        found = self.read_bytes(field)
        if not found.isascii() or any(byte < 32 or byte == 127 for byte in found):
            raise self.refuse(field, "it has other characters than those of ASCII that are seen")
        return found.decode("ascii")

    def read_fields(self, field: str) -> tuple[tuple[str, str], ...]:
        size = self.read_number(field)
        end = self._at + size
        if end > len(self._encoded):
            raise self.refuse(field, f"{size} bytes are announced, {len(self._encoded) - self._at} are left")
        found: list[tuple[str, str]] = []
        while self._at < end:
            if len(found) == MAX_FIELDS:
                raise self.refuse(field, f"at most {MAX_FIELDS} are read")
            name, value = self.read_text(field), self.read_text(field)
            if not name or name != name.lower():
                raise self.refuse(field, "a name is lower case")
            found.append((name, value))
        if self._at != end:
            raise self.refuse(field, "the last one ends behind its section")
        return tuple(found)

    def read_rest(self) -> tuple[tuple[tuple[str, str], ...], bytes]:
        """Return fields and content; what is left out at the end is empty, and padding is zeros."""
        fields = self.read_fields("fields") if self._at < len(self._encoded) else ()
        content = self.read_bytes("content") if self._at < len(self._encoded) else b""
        if self._at < len(self._encoded):
            self.read_fields("trailers")
        if any(self._encoded[self._at :]):
            raise self.refuse("padding", "it is zeros alone")
        return fields, content

    def _take(self, size: int, field: str) -> bytes:
        end = self._at + size
        if end > len(self._encoded):
            raise self.refuse(field, f"{size} bytes are announced, {len(self._encoded) - self._at} are left")
        part, self._at = self._encoded[self._at : end], end
        return part
