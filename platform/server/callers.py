"""How often may one caller call?  A bucket for each, so that a loop gone wrong at one team stops nobody else's halt."""

import time
from collections.abc import Callable
from typing import Final

from alcove.platform.core.errors import TooManyCallsError
from alcove.platform.ingress.rate import RateLimit

__all__ = ["CallerLimits"]

CALLERS_KEPT: Final = 10_000  # buckets in memory; callers are authenticated, so there are never many


class CallerLimits:
    """Lets each caller make `per_second` calls a second, and at most as many at once.

    Args:
        per_second: calls, > 0.
        monotonic_s: seconds that only rise.
    """

    def __init__(self, per_second: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._monotonic_s = monotonic_s
        self._buckets: dict[str, RateLimit] = {}

    def take(self, caller: str) -> None:
        """Count a call.

        Raises:
            TooManyCallsError: the caller made too many; it says when the next one passes.
        """
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= CALLERS_KEPT:
                self._buckets.clear()
            bucket = self._buckets[caller] = RateLimit(self._per_second, self._monotonic_s)
        if not bucket.take(1):
            raise TooManyCallsError(caller, self._per_second)
