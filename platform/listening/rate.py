"""Limits the rate of what arrives from all devices together: a bucket that refills and knows no addresses."""

from collections.abc import Callable

__all__ = ["RateLimit"]


class RateLimit:
    """Lets `per_second` units pass each second, and at most as many at once.

    Args:
        per_second: refill and size of the bucket, > 0.
        monotonic_s: seconds that only rise, such as `time.monotonic`.
    """

    def __init__(self, per_second: int, monotonic_s: Callable[[], float]) -> None:
        self._per_second = per_second
        self._monotonic_s = monotonic_s
        self._left = float(per_second)
        self._seen_s = monotonic_s()

    def take(self, units: int) -> bool:
        """Take `units` from the bucket; False, and nothing taken, if it holds fewer."""
        now_s = self._monotonic_s()
        self._left = min(self._per_second, self._left + (now_s - self._seen_s) * self._per_second)
        self._seen_s = now_s
        if units > self._left:
            return False
        self._left -= units
        return True
