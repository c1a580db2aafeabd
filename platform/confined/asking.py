"""Starts a process for each job about a program, bounds it, and reads its answer.

process started, confined ─▶ answer
│ too long, too large, crashed
▼
group killed
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, Final

import structlog
from alcove.platform.domain import limits
from alcove.platform.domain.errors import CheckBoundError

__all__ = ["ConfinedCalls"]

MESSAGE_BYTES: Final = 4096  # of its standard error, where it fails by our fault
_log = structlog.get_logger()


class ConfinedCalls:
    """Asks processes of a module, one for each job; the caller bounds how many run at once.

    Args:
        module: what runs there; its `main` calls `child.answer_one`.
        cpu_s: seconds of processor time of one job.
        memory_bytes: that one job may take.
        answer_bytes: of an answer, at most.
    """

    def __init__(self, module: str, *, cpu_s: int, memory_bytes: int, answer_bytes: int) -> None:
        self._module = module
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._answer_bytes = answer_bytes
        self._is_told = False

    async def ask(self, variant: str, job: Mapping[str, Any], files: Mapping[str, BinaryIO]) -> dict[str, Any]:
        """Return the answer to a job.

        Args:
            variant: whose program it is about, for the words of an error.
            job: plain values.
            files: the blobs that it may read, by digest.

        Raises:
            CheckBoundError: it took more than it may, or ended without an answer.
        """
        descriptors = {sha256: file.fileno() for sha256, file in files.items()}
        request = {**job, "blobs": descriptors, "cpu_s": self._cpu_s, "memory_bytes": self._memory_bytes}
        async with _child(self._module, tuple(descriptors.values()), self._answer_bytes) as process:
            if process.stdin is None or process.stdout is None:
                raise AssertionError
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                with contextlib.suppress(ConnectionError):
                    await process.stdin.drain()
                async with asyncio.timeout(limits.CHECK_START_S):
                    confined = _line(await process.stdout.readline())
                if confined is not None:
                    self._tell(confined)
                    async with asyncio.timeout(self._cpu_s + limits.CHECK_GRACE_S):
                        answer = _line(await process.stdout.readline())
                    if answer is not None and "bound" not in answer:
                        return answer
                    if answer is not None:
                        raise CheckBoundError(variant, self._memory_bound())
                async with asyncio.timeout(limits.CHECK_GRACE_S):
                    await process.wait()
            except ValueError:  # of `readline`
                raise CheckBoundError(
                    variant, f"it said more than {self._answer_bytes} bytes, the server's bound"
                ) from None
            except TimeoutError:
                bound = f"more than {self._cpu_s + limits.CHECK_GRACE_S:g} s, the server's bound"
                raise CheckBoundError(variant, bound) from None
            message = b"" if process.stderr is None else await process.stderr.read(MESSAGE_BYTES)
        raise CheckBoundError(
            variant, self._explain_end(process.returncode or 0, message, is_confined=confined is not None)
        )

    def _memory_bound(self) -> str:
        return f"more than {self._memory_bytes} bytes of memory, the server's bound"

    def _explain_end(self, code: int, message: bytes, *, is_confined: bool) -> str:
        """Say why a process ended without an answer; what is no program's doing goes to the log."""
        if code >= 0 or not is_confined:
            _log.error("a process for checking programs failed", code=code, said=message.decode("utf-8", "replace"))
        if not is_confined:
            return f"the server could not start its checks (exit code {code})"
        if -code in (signal.SIGXCPU, signal.SIGKILL):
            return f"more than {self._cpu_s} s of processor time, the server's bound"
        if -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS):  # what running out of memory looks like in C++
            return f"its process crashed (signal {-code}), perhaps for want of memory: {self._memory_bound()}"
        return f"its process ended (exit code {code})"

    def _tell(self, confined: Mapping[str, Any]) -> None:
        """Say once what holds programs on this machine."""
        if not self._is_told:
            self._is_told = True
            held = {name: bool(confined.get(name)) for name in ("calls", "network")}
            (_log.info if held["calls"] else _log.warning)("programs are checked in processes of their own", **held)


@asynccontextmanager
async def _child(module: str, descriptors: tuple[int, ...], answer_bytes: int) -> AsyncIterator[Process]:
    """Run the child while the block runs; at its end the child and all that it started are gone."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        module,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        pass_fds=descriptors,
        start_new_session=True,
        env={"LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        limit=answer_bytes,
        cwd="/",
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        await asyncio.shield(process.wait())


def _line(line: bytes) -> dict[str, Any] | None:
    """Return a line of the child's, None where it said nothing more, or nonsense."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
