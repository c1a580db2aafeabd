"""Traces `torch.distributions` without their checks of data.

A distribution looks whether its parameters, and the values that it is asked about, are allowed, and raises an error if
not; no trace can look.  For the time of a trace those checks are left out, as torch does with `validate_args=False`:
for arguments that eager takes the numbers are the same, and for others they mean nothing.  Shapes are still checked.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.distributions import Distribution, Geometric

_DISTRIBUTION: Final[Any] = Distribution
_TORCH: Final[Any] = torch
_PLAIN_INIT: Final[Any] = _DISTRIBUTION.__init__
_PLAIN_CHECK: Final[Any] = _DISTRIBUTION._validate_sample  # noqa: SLF001 - torch has no public way to leave parts out
_LOOKS_ITSELF: Final = (Geometric,)
"""What looks at its parameters outside of the functions below."""


def _init(
    self: Any,
    batch_shape: torch.Size = torch.Size(),  # noqa: B008 - torch's signature
    event_shape: torch.Size = torch.Size(),  # noqa: B008 - torch's signature
    validate_args: bool | None = None,
) -> None:
    """Stand for `Distribution.__init__`."""
    is_checked = self._validate_args if validate_args is None else validate_args
    _PLAIN_INIT(self, batch_shape, event_shape, validate_args=False)
    self._validate_args = is_checked and not isinstance(self, _LOOKS_ITSELF)


def _check_shape(self: Any, value: Any) -> None:
    """Stand for `Distribution._validate_sample`: only of types and shapes."""
    if not isinstance(value, Tensor):
        raise ValueError("The value argument to log_prob must be a Tensor")  # noqa: TRY004 - torch's own error
    event = cast("torch.Size", self.event_shape)
    if value.shape[value.dim() - len(event) :] != event:
        raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {event}.")
    shared = min(value.dim(), len(self.batch_shape) + len(event))
    whole = (*self.batch_shape, *event)
    _TORCH.broadcast_shapes(value.shape[value.dim() - shared :], whole[len(whole) - shared :])


@contextlib.contextmanager
def trace_distributions() -> Iterator[None]:
    """Leave checks of data out while a module is traced; one thread at a time."""
    _DISTRIBUTION.__init__ = _init
    _DISTRIBUTION._validate_sample = _check_shape  # noqa: SLF001 - see above
    try:
        yield
    finally:
        _DISTRIBUTION.__init__ = _PLAIN_INIT
        _DISTRIBUTION._validate_sample = _PLAIN_CHECK  # noqa: SLF001 - see above
