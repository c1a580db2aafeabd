"""Keeps the devices' process, and reads its figures."""

import contextlib
import socket
from typing import Final

from alcove.platform.domain.errors import IngressFailedError
from alcove.platform.ingress.figures import IngressFigures
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.server.kept_process import KeptKind, KeptProcess

__all__ = ["IngressProcess"]

ANSWER_S: Final = 2.0  # seconds that its figures may take
KIND: Final = KeptKind(
    "the devices' process", "alcove.platform.ingress", "devices are answered again", IngressFailedError
)


class IngressProcess(KeptProcess):
    """The process that answers devices.

    Args:
        settings: what it gets at its start.
        listener: the listening socket; stays the caller's.
    """

    def __init__(self, settings: IngressSettings, listener: socket.socket) -> None:
        super().__init__(KIND, settings.to_json(), listener)
        self._last = IngressFigures()

    async def figures(self) -> IngressFigures:
        """Return its sums; those of the last time where it does not answer."""
        if self.has_ended:
            return self._last
        with contextlib.suppress(TimeoutError, OSError, ValueError):
            self._last = IngressFigures.from_json(await self.ask("figures", ANSWER_S))
        return self._last
