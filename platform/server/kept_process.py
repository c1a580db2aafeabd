"""Keeps a process that answers on one socket: starts it, tells it its settings, starts it again when it ends by itself.

launched ─▶ configured ─▶ answers ─▶ asked to stop ─▶ ended
               ▲        │ ended by itself
               └────────┘ after a pause that grows

The socket that strangers connect to is this process's, so that a port that is taken is an error at the start, and those
who come while the other process starts again wait in its queue.  What the other process does is in
`alcove.platform.listening.kept`.
"""

import asyncio
import contextlib
import json
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from alcove.platform.domain import limits
from alcove.platform.domain.errors import ServerError

__all__ = ["KeptKind", "KeptProcess"]

START_S: Final = 60.0  # seconds; importing what it needs takes one, a loaded machine twenty
PAUSE_S: Final = (0.1, 30.0)  # seconds before it is started again, first and at most
_log = structlog.get_logger()


@dataclass(frozen=True)
class KeptKind:
    """The kind of a process.

    Attributes:
        name: what the log calls it, such as "the devices' process".
        module: that Python runs.
        again: what the log says when it answers again.
        failure: makes the error of one that does not start, from the problem.
    """

    name: str
    module: str
    again: str
    failure: Callable[[str], ServerError]


class KeptProcess:
    """A process that answers on a socket of this one.

    Args:
        kind: of process.
        settings: what it gets at its start, one line; may hold secrets.
        listener: the listening socket; stays the caller's.

    Attributes:
        restarts: how often it ended by itself and was started again.
    """

    def __init__(self, kind: KeptKind, settings: str, listener: socket.socket) -> None:
        self._kind = kind
        self._settings = settings
        self._listener = listener
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._speaking = asyncio.Lock()
        self._is_stopping = False
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Number of the process, None where there is none."""
        return None if self._process is None else self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether there is no process now."""
        return self._process is None or self._process.returncode is not None

    async def launch(self) -> None:
        """Start the process; it imports what it needs and waits for its settings.

        Raises:
            OSError: it cannot be started.
        """
        number = self._listener.fileno()
        flags = [f"-W{option}" for option in sys.warnoptions]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *flags, "-m", self._kind.module, "--socket", str(number),
            stdin=PIPE, stdout=PIPE, pass_fds=(number,),
        )  # fmt: skip

    async def open(self) -> None:
        """Tell it its settings, wait until it answers, and keep it from then on.

        Raises:
            ServerError: it ended, failed, or took too long.
        """
        await self._configure()
        self._keeper = asyncio.create_task(self._keep())

    def ask_to_stop(self) -> None:
        """Tell it that it should end; answers under way get a few seconds."""
        self._is_stopping = True
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"stop\n")

    async def close(self) -> None:
        """Wait until it has ended; one that does not end is killed."""
        self._is_stopping = True
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        await self._end(2 * limits.SHUTDOWN_GRACE_S)

    async def ask(self, line: str, patience_s: float) -> bytes:
        """Return its answer to a line, empty where it ended.

        Raises:
            TimeoutError: it took longer than `patience_s` seconds.
            OSError: it ended meanwhile.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return b""
        async with asyncio.timeout(patience_s), self._speaking:
            process.stdin.write(line.encode() + b"\n")
            await process.stdin.drain()
            return await process.stdout.readline()

    async def _end(self, patience_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        async with self._speaking:
            try:
                async with asyncio.timeout(patience_s):
                    await process.communicate()
            except TimeoutError:
                _log.error(f"{self._kind.name} does not end: it is killed", process=process.pid)
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()

    async def _keep(self) -> None:
        """Start it again whenever it ends; calls of operators continue meanwhile."""
        pause_s, clock_s = PAUSE_S[0], asyncio.get_running_loop().time
        while True:
            began_s = clock_s()
            code = None if self._process is None else await self._process.wait()
            if self._is_stopping:
                return
            if clock_s() - began_s > PAUSE_S[1]:
                pause_s = PAUSE_S[0]
            _log.error(f"{self._kind.name} ended: it is started again", exit_code=code, pause_s=pause_s)
            await self._end(limits.SHUTDOWN_GRACE_S)
            self.restarts += 1
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])
            try:
                await self.launch()
                await self._configure()
            except (ServerError, OSError) as error:
                _log.error(f"{self._kind.name} was not started", error=str(error))
            else:
                _log.info(self._kind.again)

    async def _configure(self) -> None:
        try:
            answer = json.loads(await self.ask(self._settings, START_S))
        except TimeoutError:
            raise self._kind.failure(f"it did not answer within {START_S:.0f} s") from None
        except (OSError, ValueError):
            raise self._kind.failure("it ended; its last words are on standard error") from None
        if "ready" not in answer:
            raise self._kind.failure(str(answer.get("failed", "?")))
