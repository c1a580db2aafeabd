"""Looks at a part of the server in a bounded time; one look at a part is under way at a time, however long it takes.

idle ──run──▶ looking ──done──▶ idle
│     ▲
└─────┘ late: FAILED is answered, and the next run waits for the same look
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.health import HealthCheck, HealthState
from alcove.registry.errors import RegistryError

__all__ = ["PROBE_S", "Probe"]

PROBE_S: Final = 2.0  # seconds that a look may take: a person waits for the page
Look = Callable[[], Awaitable[HealthCheck]]


class Probe:
    """A look at a part.

    Args:
        name: of the part.
        look: at it.
        remedy: what to do where it fails or does not answer, a sentence.
        patience_s: seconds that it may take.
    """

    def __init__(self, name: str, look: Look, remedy: str, *, patience_s: float = PROBE_S) -> None:
        self._name, self._look, self._remedy, self._patience_s = name, look, remedy, patience_s
        self._task: asyncio.Task[HealthCheck] | None = None
        self._began_s = 0.0

    async def run(self) -> HealthCheck:
        """Return what is found; never raises what the part does."""
        if self._task is None:
            self._task = asyncio.create_task(self._look_and_time())
            self._began_s = time.monotonic()
        await asyncio.wait({self._task}, timeout=self._patience_s)
        if not self._task.done():
            waited = f"It has not answered for {time.monotonic() - self._began_s:.0f} s."
            return HealthCheck(self._name, HealthState.FAILED, waited, self._remedy)
        task, self._task = self._task, None
        error = task.exception()
        if error is None:
            return task.result()
        # Our own errors name no secret; of others the kind is enough.
        words = str(error) if isinstance(error, PlatformError | RegistryError) else type(error).__name__
        return HealthCheck(self._name, HealthState.FAILED, "It fails.", self._remedy, words)

    async def close(self) -> None:
        """Wait a moment for a look that is under way, since a cancelled call of the database costs its connection."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._patience_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look_and_time(self) -> HealthCheck:
        began_s = time.perf_counter()
        found = await self._look()
        return replace(found, latency_ms=(time.perf_counter() - began_s) * 1000)
