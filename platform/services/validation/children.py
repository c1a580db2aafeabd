"""Starts a process for each program to be checked, bounds it, and reads its answer.

    asked ─▶ waits (some of a team, some in all) ─▶ blobs copied ─▶ process started, confined ─▶ answer
                                                                         │ too long, too large, crashed
                                                                         ▼
                                                                     group killed

One of a team at a time, and few in all: nothing else that the server does waits for them, and none of their memory is
the server's.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any, BinaryIO, Final

import structlog
from alcove.platform.domain import limits
from alcove.platform.domain.catalog.program_report import ProgramReport
from alcove.platform.domain.errors import CheckBoundError, ChecksFullError
from alcove.platform.services.validation.jobs import VALIDATE, VERIFY, Supplies, raise_refusal
from alcove.registry.errors import StorageError
from alcove.registry.manifest import Manifest, Variant

__all__ = ["ChildChecks"]

MODULE: Final = "alcove.platform.services.validation.child"
MESSAGE_BYTES: Final = 4096  # of its standard error, where it fails by our fault
ANSWER_BYTES: Final = 1024 * 1024  # a line of an answer; operators and the names of weights with NaN
_log = structlog.get_logger()


class ChildChecks:
    """Checks programs in processes of their own.

    Args:
        cpu_s: seconds of processor time of one check.
        memory_bytes: that one check may take.
        module: what runs there; a test may have another one.
    """

    def __init__(
        self, *, cpu_s: int = limits.CHECK_CPU_S, memory_bytes: int = limits.CHECK_MEMORY_BYTES, module: str = MODULE
    ) -> None:
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._module = module
        self._running = asyncio.Semaphore(limits.CHECKS_AT_ONCE)
        self._of_team: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: defaultdict[str, int] = defaultdict(int)
        self._is_told = False

    async def verify(self, manifest: Manifest, variant: Variant, supplies: Supplies) -> None:
        """Check a program as a device would at its installation, and the deltas that make it.

        Raises:
            ProgramRefusedError: it is not what its manifest says, or does not keep its certificate.
            DeltaError, IntegrityError: a delta makes something else.
            CheckBoundError: its checks took more than a program's may.
            ChecksFullError: too many wait already.
            StorageError: a blob cannot be read or copied.
        """
        job = {"manifest": manifest.to_bytes().hex(), "variant": variant.name}
        raise_refusal(variant.name, await self._run_child(manifest.team, variant.name, VERIFY, job, supplies))

    async def validate(self, team: str, variant: str, supplies: Supplies) -> ProgramReport:
        """Return the figures that a feature's rules bound; where a limit of the process was hit, that in their place.

        Raises:
            ChecksFullError: too many wait already.
            StorageError: a blob cannot be read or copied.
        """
        job = {"program": supplies.program, "variant": variant}
        try:
            answer = await self._run_child(team, variant, VALIDATE, job, supplies)
            return ProgramReport.from_json(answer)
        except CheckBoundError as error:
            return ProgramReport.of_refusal(error.bound)
        except (KeyError, TypeError, ValueError):
            return ProgramReport.of_refusal("the process that examined it answered nonsense")

    async def _run_child(
        self, team: str, variant: str, kind: str, job: Mapping[str, Any], supplies: Supplies
    ) -> dict[str, Any]:
        async with self._place(team):
            with ExitStack() as stack:
                files = await asyncio.to_thread(_copy_supplies, stack, supplies)
                return await self._ask(variant, {**job, "kind": kind}, files)

    @asynccontextmanager
    async def _place(self, team: str) -> AsyncIterator[None]:
        """Wait for a place, if one may be waited for."""
        if self._waiting[team] >= limits.CHECKS_OF_TEAM:
            raise ChecksFullError(team, limits.CHECKS_OF_TEAM)
        if sum(self._waiting.values()) >= limits.CHECKS_WAITING:
            raise ChecksFullError("any", limits.CHECKS_WAITING)
        self._waiting[team] += 1
        try:
            async with self._of_team[team], self._running:
                yield
        finally:
            self._waiting[team] -= 1
            if not self._waiting[team]:
                del self._waiting[team], self._of_team[team]

    async def _ask(self, variant: str, job: Mapping[str, Any], files: Mapping[str, BinaryIO]) -> dict[str, Any]:
        descriptors = {sha256: file.fileno() for sha256, file in files.items()}
        request = {**job, "blobs": descriptors, "cpu_s": self._cpu_s, "memory_bytes": self._memory_bytes}
        async with _child(self._module, tuple(descriptors.values())) as process:
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
                raise CheckBoundError(variant, f"it said more than {ANSWER_BYTES} bytes, the server's bound") from None
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
async def _child(module: str, descriptors: tuple[int, ...]) -> AsyncIterator[Process]:
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
        limit=ANSWER_BYTES,
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


def _copy_supplies(stack: ExitStack, supplies: Supplies) -> dict[str, BinaryIO]:
    """Return a nameless file with each blob, read to its end and compared with its digest."""
    files: dict[str, BinaryIO] = {}
    for sha256 in supplies.digests():
        try:
            file: BinaryIO = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - it is: the caller's
            file.writelines(supplies.pieces(sha256))
            file.flush()
        except OSError as error:
            raise StorageError("temporary file", error.strerror or str(error)) from error
        files[sha256] = file
    return files


def _line(line: bytes) -> dict[str, Any] | None:
    """Return a line of the child's, None where it said nothing more, or nonsense."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
