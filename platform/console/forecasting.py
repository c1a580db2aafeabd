"""Asks for forecasts, which take seconds of the server's processors, so that nobody meets an error for asking again.

question ─▶ asked already? ─▶ join its computation
         ─▶ else wait for the person's turn ─▶ does anybody still want it? ─▶ call ─▶ kept for a minute
         after `WAIT_S` the page says that it computes; the same question, asked again, joins or finds the answer

The server computes two at a time, and one of each caller; a person who moves a slider asks ten times.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import DeadlineError, PlatformClient, TooManyCallsError
from alcove.platform.console.pages.page import Pages
from alcove.platform.console.viewer import VIEWER
from alcove.platform.core.turns import Turns

__all__ = ["ComputingError", "Forecasts"]

WAIT_S: Final = 12.0  # seconds that a page waits; an answer of the console has twenty
KEPT_S: Final = 60.0  # seconds that a forecast is kept: the metrics that it reads may change
KEPT: Final = 64  # forecasts, of all persons


class ComputingError(Exception):
    """The forecast is computed or waits for its turn; asking again with the same words gets it."""


class _Question:
    """A question that was asked."""

    def __init__(self, answer: "asyncio.Task[Any]") -> None:
        self.answer = answer
        self.asked_s = time.monotonic()


class Forecasts:
    """Forecasts of one area's pages.

    Args:
        pages: ask the server.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._turns = Turns(1)
        self._questions: OrderedDict[tuple[str, str], _Question] = OrderedDict()
        self._askers: dict[tuple[str, str], list[web.Request]] = {}

    async def get(self, request: web.Request, question: str, work: Callable[[PlatformClient], Any]) -> Any:
        """Return what `work` forecasts.

        Args:
            request: of the person who asks.
            question: all that the answer follows from, as text.
            work: makes the call.

        Raises:
            ComputingError: the answer is not there yet.
            ClientError: the call was refused.
        """
        name = (request[VIEWER].info.principal, question)
        self._forget()
        asked = self._questions.get(name)
        if asked is None:
            task = asyncio.create_task(self._compute(name, request, work))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen, whoever waits
            asked = self._questions[name] = _Question(task)
        self._askers.setdefault(name, []).append(request)
        try:
            return await asyncio.wait_for(asyncio.shield(asked.answer), WAIT_S)
        except (TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not asked.answer.cancelled():
                raise
            raise ComputingError from None
        except (DeadlineError, TooManyCallsError):
            self._questions.pop(name, None)
            raise ComputingError from None
        except Exception:
            self._questions.pop(name, None)
            raise

    async def _compute(self, name: tuple[str, str], request: web.Request, work: Callable[[PlatformClient], Any]) -> Any:
        async with self._turns.turn(name[0]):
            if not any(_is_there(asker) for asker in self._askers.pop(name, [])):
                self._questions.pop(name, None)  # the slider has moved on
                raise asyncio.CancelledError
            return await self._pages.ask(request, work)

    def _forget(self) -> None:
        """Drop answers that are old, and the oldest where there are too many."""
        now_s = time.monotonic()
        for name, asked in list(self._questions.items()):
            is_old = now_s - asked.asked_s > KEPT_S or len(self._questions) > KEPT
            if asked.answer.done() and is_old:
                del self._questions[name]


def _is_there(request: web.Request) -> bool:
    """Return whether the browser still waits for an answer."""
    return request.transport is not None and not request.transport.is_closing()
