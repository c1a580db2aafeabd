"""Asks for forecasts, which take seconds of the server's processors, so that nobody meets an error for asking again.

question ─▶ asked already? ─▶ join its computation
         ─▶ else wait for the person's turn ─▶ does anybody still want it? ─▶ call ─▶ kept for a minute
         after `WAIT_S` the page says that it computes; the same question, asked again, joins or finds the answer

The server computes two at a time, and one of each caller; a person who moves a slider asks ten times.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from aiohttp import web
from alcove.platform.client import DeadlineError, TooManyCallsError
from alcove.platform.console.viewer import VIEWER
from alcove.platform.core.turns import Turns

__all__ = ["ComputingError", "Forecasts"]

_Answer = TypeVar("_Answer")

WAIT_S: Final = 12.0  # seconds that a page waits; an answer of the console has twenty
KEPT_S: Final = 60.0  # seconds that an answer is kept: the metrics that it reads may change
KEPT: Final = 64  # answers, of all persons


class ComputingError(Exception):
    """The forecast is computed or waits for its turn; asking again with the same words gets it."""


class _Question:
    """A question that was asked."""

    def __init__(self, asker: web.Request) -> None:
        self.askers = [asker]
        self.ended_s: float | None = None
        self.is_begun = False
        self.answer: asyncio.Task[Any]

    def note_end(self, answer: "asyncio.Task[Any]") -> None:
        """Note when the answer was there, and look at an error that nobody may wait for."""
        self.ended_s = time.monotonic()
        if not answer.cancelled():
            answer.exception()


class Forecasts:
    """Forecasts of one area's pages; simulations are some, too."""

    def __init__(self) -> None:
        self._turns = Turns(1)
        self._questions: OrderedDict[tuple[str, str], _Question] = OrderedDict()

    async def get(self, request: web.Request, question: str, work: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return what `work` forecasts.

        Args:
            request: of the person who asks.
            question: all that the answer follows from, as text.
            work: computes the answer, or has it computed.

        Raises:
            ComputingError: the answer is not there yet.
            ClientError: the call was refused.
        """
        name = (request[VIEWER].info.principal, question)
        self._forget()
        asked = self._questions.get(name)
        if asked is None:
            asked = self._questions[name] = _Question(request)
            asked.answer = asyncio.create_task(self._compute(name, asked, work))
            asked.answer.add_done_callback(asked.note_end)
        elif not asked.is_begun:
            asked.askers.append(request)
        try:
            return cast("_Answer", await asyncio.wait_for(asyncio.shield(asked.answer), WAIT_S))
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

    async def _compute(
        self, name: tuple[str, str], asked: _Question, work: Callable[[], Awaitable[_Answer]]
    ) -> _Answer:
        async with self._turns.turn(name[0]):
            asked.is_begun = True
            if not any(_is_there(asker) for asker in asked.askers):
                self._questions.pop(name, None)  # the slider has moved on
                raise asyncio.CancelledError
            return await work()

    def _forget(self) -> None:
        """Drop answers that are old, and the oldest where there are too many."""
        now_s = time.monotonic()
        for name, asked in list(self._questions.items()):
            if asked.ended_s is None:
                continue
            if now_s - asked.ended_s > KEPT_S or len(self._questions) > KEPT:
                del self._questions[name]


def _is_there(request: web.Request) -> bool:
    """Return whether the browser still waits for an answer."""
    return request.transport is not None and not request.transport.is_closing()
