"""Converts an operator's attributes between names, as the compiler has them, and positions, as a program has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True)
class Attributes:
    """The attributes of one operator; this class itself is that of an operator without any.

    Its subclasses are frozen dataclasses, made with keywords only, without a decorator.
    """

    LENGTHS: ClassVar[Mapping[str, int]] = {}
    """How many numbers each attribute that is a tuple has; fewer are followed by zeros."""

    def __init_subclass__(cls) -> None:
        """Make a dataclass of the subclass."""
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        """Pad tuples with zeros."""
        for name, length in self.LENGTHS.items():
            argument = tuple(getattr(self, name))
            object.__setattr__(self, name, argument + (0,) * (length - len(argument)))

    def items(self) -> list[tuple[str, int | float]]:
        """Return (name, number) in the order of the manifest; numbers of a tuple are named "strides[0]" and so on."""
        flat: list[tuple[str, int | float]] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, tuple):
                flat += [(f"{each.name}[{place}]", number) for place, number in enumerate(value)]
            else:
                flat.append((each.name, value))
        return flat

    def numbers(self) -> tuple[int | float, ...]:
        """Return the attributes in the order of the manifest."""
        return tuple(number for _, number in self.items())

    @classmethod
    def from_numbers(cls, numbers: Sequence[int | float]) -> Self:
        """Return the attributes that a program has in this order.

        Raises:
            ValueError: there are more or fewer than the operator takes.
        """
        rest = list(numbers)
        values: dict[str, Any] = {}
        for each in fields(cls):
            length = cls.LENGTHS.get(each.name, 1)
            part = rest[:length]
            del rest[:length]
            if len(part) != length:
                raise ValueError(f"{cls.__name__} of {len(numbers)} numbers")
            values[each.name] = tuple(part) if each.name in cls.LENGTHS else part[0]
        if rest:
            raise ValueError(f"{cls.__name__} of {len(numbers)} numbers")
        return cls(**values)
