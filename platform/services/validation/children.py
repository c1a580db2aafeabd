"""Starts a process for each program to be checked, bounds it, and reads its answer.

    asked ─▶ waits (some of a team, some in all) ─▶ blobs copied ─▶ process started, confined ─▶ answer
                                                                         │ too long, too large, crashed
                                                                         ▼
                                                                     group killed

One of a team at a time, and few in all: nothing else that the server does waits for them, and none of their memory is
the server's.
"""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any, BinaryIO, Final

from alcove.platform.confined.asking import ConfinedCalls
from alcove.platform.domain import limits
from alcove.platform.domain.catalog.program_report import ProgramReport
from alcove.platform.domain.errors import CheckBoundError, ChecksFullError
from alcove.platform.services.validation.jobs import VALIDATE, VERIFY, Supplies, raise_refusal
from alcove.registry.errors import StorageError
from alcove.registry.manifest import Manifest, Variant

__all__ = ["ChildChecks"]

MODULE: Final = "alcove.platform.services.validation.child"
ANSWER_BYTES: Final = 1024 * 1024  # a line of an answer; operators and the names of weights with NaN


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
        self._asking = ConfinedCalls(module, cpu_s=cpu_s, memory_bytes=memory_bytes, answer_bytes=ANSWER_BYTES)
        self._running = asyncio.Semaphore(limits.CHECKS_AT_ONCE)
        self._of_team: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: defaultdict[str, int] = defaultdict(int)

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
                return await self._asking.ask(variant, {**job, "kind": kind}, files)

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
