"""Defines the errors of comparing aggregates, and the fields that each carries.

::

    StatsError
    ├── AggregateError   the data: shapes, finiteness, covariance, size
    └── ArgumentError    the call: a parameter out of its bounds

A comparison that has too little data is no error: it is an `INCONCLUSIVE` decision with a reason.
"""


class StatsError(Exception):
    """Base of all errors of `alcove.platform.stats`.

    Attributes:
        name: the thing that is wrong (a field or a parameter).
        bound: what was required of it.
        value: what was seen, as text.
    """

    def __init__(self, name: str, bound: str, value: object) -> None:
        self.name = name
        self.bound = bound
        self.value = str(value)
        super().__init__(f"{name} must be {bound}, not {self.value}")


class AggregateError(StatsError):
    """The aggregate itself is malformed; nothing may be concluded from it."""


class ArgumentError(StatsError):
    """A parameter of the call is out of its bounds; the data may be fine."""
