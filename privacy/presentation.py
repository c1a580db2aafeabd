"""Encodes and decodes structures in TLS's presentation language, from what their fields are annotated with.

    @dataclass(frozen=True)
    class Interval(Structure):
        start: Annotated[int, U64]
        duration: Annotated[int, U64]

Numbers are big-endian. Decoding takes exactly the bytes that the structure has: what is left over is an error, and no
length is believed beyond the bytes that are there. Each family of structures names its error.

Source: RFC 8446, section 3.
"""

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any, ClassVar, Final, Self, get_type_hints

from alcove.privacy.errors import MessageError, ParameterError


class Reader:
    """Bytes that are read from front to back.

    Attributes:
        message: what is being read, for errors.
        error: what is raised where the bytes are wrong.
    """

    def __init__(self, message: str, encoded: bytes, error: type[MessageError]) -> None:
        self.message = message
        self.error = error
        self._encoded = encoded
        self._size = len(encoded)
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes have been read."""
        return self._at == self._size

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._at

    def read(self, size: int, field: str) -> bytes:
        """Return the next bytes.

        Raises:
            MessageError: there are fewer.
        """
        at = self._at
        self._at = end = at + size
        if end > self._size:
            raise self.refuse(field, f"{size} bytes are announced, {self._size - at} are left")
        return self._encoded[at:end]

    def refuse(self, field: str, reason: str) -> MessageError:
        """Return the error for a field."""
        return self.error(self.message, field, reason)


class Codec(ABC):
    """How a field is written."""

    @abstractmethod
    def write(self, value: Any, field: str) -> bytes:
        """Return the value's bytes, or raise `ParameterError`."""

    @abstractmethod
    def read(self, reader: Reader, field: str) -> Any:
        """Return the next value, or raise `MessageError`."""


class Unsigned(Codec):
    """An unsigned number of some bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._end = 1 << 8 * size

    def write(self, value: Any, field: str) -> bytes:
        """Return the number, big-endian."""
        if not 0 <= value < self._end:
            raise ParameterError(name=field, bound=f"in [0, 2^{8 * self.size})", value=value)
        return int(value).to_bytes(self.size)

    def read(self, reader: Reader, field: str) -> int:
        """Return the number."""
        return int.from_bytes(reader.read(self.size, field))


class Enumerated(Codec):
    """One of an enumeration's numbers, of one byte; another is refused."""

    def __init__(self, kind: type[IntEnum]) -> None:
        self.kind = kind

    def write(self, value: Any, field: str) -> bytes:
        """Return the number."""
        return U8.write(self.kind(value), field)

    def read(self, reader: Reader, field: str) -> IntEnum:
        """Return the member."""
        number = U8.read(reader, field)
        try:
            return self.kind(number)
        except ValueError:
            raise reader.refuse(field, f"{number} is no {self.kind.__name__}") from None


class Fixed(Codec):
    """As many bytes each time."""

    def __init__(self, size: int) -> None:
        self.size = size

    def write(self, value: Any, field: str) -> bytes:
        """Return the bytes."""
        if len(value) != self.size:
            raise ParameterError(name=field, bound=f"{self.size} bytes", value=len(value))
        return bytes(value)

    def read(self, reader: Reader, field: str) -> bytes:
        """Return the bytes."""
        return reader.read(self.size, field)


class Opaque(Codec):
    """Bytes behind their length; `least` of them at least."""

    def __init__(self, length_size: int, least: int = 0) -> None:
        self.length = Unsigned(length_size)
        self.least = least

    def write(self, value: Any, field: str) -> bytes:
        """Return length and bytes."""
        size = len(value)
        if size < self.least:
            raise ParameterError(name=field, bound=f"at least {self.least} bytes", value=size)
        return self.length.write(size, field) + bytes(value)

    def read(self, reader: Reader, field: str) -> bytes:
        """Return the bytes."""
        size = int.from_bytes(reader.read(self.length.size, field))
        if size < self.least:
            raise reader.refuse(field, f"it has {size} bytes, at least {self.least} are required")
        return reader.read(size, field)


class Vector(Codec):
    """Structures one after the other, behind the number of their bytes; `most` of them are read."""

    def __init__(self, kind: type["Structure"], length_size: int, least: int = 0, most: int | None = None) -> None:
        self.kind = kind
        self.bytes = Opaque(length_size, least)
        self.most = most

    def write(self, value: Any, field: str) -> bytes:
        """Return length and structures."""
        return self.bytes.write(b"".join(each.to_bytes() for each in value), field)

    def read(self, reader: Reader, field: str) -> tuple[Any, ...]:
        """Return the structures."""
        inner = Reader(f"{reader.message}.{field}", self.bytes.read(reader, field), reader.error)
        return _read_all(self.kind, inner, field, self.most)


class Rest(Codec):
    """Structures one after the other, up to the end of the message; `most` of them are read."""

    def __init__(self, kind: type["Structure"], most: int | None = None) -> None:
        self.kind = kind
        self.most = most

    def write(self, value: Any, field: str) -> bytes:  # noqa: ARG002 - the others name it in their errors
        """Return the structures."""
        return b"".join(each.to_bytes() for each in value)

    def read(self, reader: Reader, field: str) -> tuple[Any, ...]:
        """Return the structures."""
        return _read_all(self.kind, reader, field, self.most)


class Nested(Codec):
    """A structure."""

    def __init__(self, kind: type["Structure"]) -> None:
        self.kind = kind

    def write(self, value: Any, field: str) -> bytes:  # noqa: ARG002
        """Return its bytes."""
        encoded: bytes = value.to_bytes()
        return encoded

    def read(self, reader: Reader, field: str) -> Any:  # noqa: ARG002
        """Return it."""
        return self.kind.read_from(reader)


U8: Final = Unsigned(1)
U16: Final = Unsigned(2)
U32: Final = Unsigned(4)
U64: Final = Unsigned(8)


class Structure:
    """A frozen dataclass whose fields are annotated with codecs.

    Attributes:
        message_error: what is raised for bytes that are no such structure; one for each family.
    """

    message_error: ClassVar[type[MessageError]] = MessageError
    _codecs: ClassVar[tuple[tuple[str, Codec], ...] | None] = None

    @classmethod
    def _list_codecs(cls) -> tuple[tuple[str, Codec], ...]:
        """Return each field with its codec, in order; of each class they are worked out once."""
        found = cls.__dict__.get("_codecs")
        if found is None:
            hints = get_type_hints(cls, include_extras=True)
            found = cls._codecs = tuple((name, hints[name].__metadata__[0]) for name in cls.__annotations__)
        return found

    def to_bytes(self) -> bytes:
        """Return the bytes.

        Raises:
            ParameterError: a field is out of its bound.
        """
        return b"".join([codec.write(getattr(self, name), name) for name, codec in self._list_codecs()])

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Self:
        """Return the structure of which these are all bytes.

        Raises:
            MessageError: they are not.
        """
        reader = Reader(cls.__name__, encoded, cls.message_error)
        result = cls.read_from(reader)
        if not reader.is_at_end:
            raise reader.refuse("end", "there are more bytes")
        return result

    @classmethod
    def read_from(cls, reader: Reader) -> Self:
        """Return the structure that comes next."""
        return cls(**{name: codec.read(reader, name) for name, codec in cls._list_codecs()})


def _read_all(kind: type[Structure], reader: Reader, field: str, most: int | None) -> tuple[Any, ...]:
    """Return what there is; a bound on the bytes is none on the time, for an empty structure costs as much as any."""
    found: list[Structure] = []
    while not reader.is_at_end:
        if len(found) == most:
            raise reader.refuse(field, f"at most {most} are read")
        found.append(kind.read_from(reader))
    return tuple(found)
