"""Fetches programs, has them opened, and keeps what was found (P1 to P3 of this package)."""

import asyncio
import hashlib
import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from alcove.platform.client import PlatformClient, VersionDetails
from alcove.platform.confined.asking import ConfinedCalls
from alcove.platform.domain import limits
from alcove.platform.domain.errors import CheckBoundError
from alcove.platform.listening.allowance import streaming

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import BinaryIO

__all__ = ["PROGRAMS", "ProgramNotShownError", "Programs", "VariantProgram", "variants_of"]

MODULE: Final = "alcove.platform.console.programs.child"
ANSWER_BYTES: Final = 8 * 1024 * 1024  # of what is said of one program; thousands of operators
KEPT_BYTES: Final = 32 * 1024 * 1024  # of answers
WAITING: Final = 8  # who ask for a program that is not known yet; each holds a page
Ask = Callable[[Callable[[PlatformClient], Any]], Any]
"""Makes calls with the viewer's identity; gives an awaitable."""


class ProgramNotShownError(Exception):
    """A program cannot be shown.

    Attributes:
        reason: why, for people.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class VariantProgram:
    """A program as a manifest names it.

    Attributes:
        feature, version: that it is of.
        variant: its name.
        sha256, size_bytes: of the file.
        requirements: what a device must have for it, in words; "": nothing.
        deltas: bytes of the delta from each base, by the base's digest.
        package: what the page of the program says of its origin.
    """

    feature: str
    version: str
    variant: str
    sha256: str
    size_bytes: int
    requirements: str
    deltas: Mapping[str, int]
    package: Mapping[str, Any]


def variants_of(details: VersionDetails) -> dict[str, VariantProgram]:
    """Return the programs that a version's manifest names, by variant.

    Raises:
        ProgramNotShownError: the manifest is not the one that the version has.
    """
    from alcove.registry.manifest import Manifest  # noqa: PLC0415 - loads pydantic's models on first use

    version = details.version
    if hashlib.sha256(details.manifest).hexdigest() != version.manifest_sha256:
        raise ProgramNotShownError(f"the manifest of {version.feature} {version.version} has another digest")
    manifest = Manifest.from_bytes(details.manifest)
    lineage = None if manifest.lineage is None else manifest.lineage.model_dump()
    return {
        one.name: VariantProgram(
            manifest.feature,
            manifest.version,
            one.name,
            one.sha256,
            one.size_bytes,
            "" if one.requirements is None else str(one.requirements),
            {delta.base_sha256: delta.size_bytes for delta in one.deltas},
            {
                "feature": manifest.feature,
                "version": manifest.version,
                "variant": one.name,
                "manifest_sha256": manifest.sha256,
                "lineage": lineage,
            },
        )
        for one in manifest.variants
    }


class Programs:
    """Programs of this console.

    Args:
        module: what runs in the process that opens them; a test may have another one.
    """

    def __init__(self, module: str = MODULE) -> None:
        self._asking = ConfinedCalls(
            module, cpu_s=limits.CHECK_CPU_S, memory_bytes=limits.CHECK_MEMORY_BYTES, answer_bytes=ANSWER_BYTES
        )
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def facts(self, ask: Ask, program: VariantProgram) -> dict[str, Any]:
        """Return what a program is, as `summarize_program` says it.

        Raises:
            ProgramNotShownError: it cannot be opened, or too many wait.
            ClientError: it cannot be fetched.
        """
        job = {
            "kind": "inspect",
            "program": program.sha256,
            "name": f"{program.feature} {program.version}, {program.variant}",
            "package": dict(program.package),
        }
        found = await self._answer(ask, job, [program])
        facts: dict[str, Any] = found["facts"]
        return facts

    async def comparison(self, ask: Ask, left: VariantProgram, right: VariantProgram) -> dict[str, Any]:
        """Return the figures of two programs as "left" and "right", and how far each weight moved as "changes".

        Raises:
            ProgramNotShownError: one cannot be opened, or too many wait.
            ClientError: one cannot be fetched.
        """
        return await self._answer(ask, {"kind": "compare", "left": left.sha256, "right": right.sha256}, [left, right])

    async def _answer(self, ask: Ask, job: Mapping[str, Any], programs: Sequence[VariantProgram]) -> dict[str, Any]:
        key = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
        if key not in self._kept:
            async with self._place():
                if key not in self._kept:
                    self._keep(key, await self._open(ask, job, programs))
        self._kept.move_to_end(key)
        found: dict[str, Any] = json.loads(self._kept[key])
        if "refused" in found:
            raise ProgramNotShownError(str(found["refused"]))
        return found

    @asynccontextmanager
    async def _place(self) -> "AsyncIterator[None]":
        if self._waiting >= WAITING:
            raise ProgramNotShownError(f"{WAITING} programs are being opened or wait already; load the page again soon")
        self._waiting += 1
        try:
            with streaming():  # the process has a time limit of its own, which is longer than that of a small answer
                async with self._turn:
                    yield
        finally:
            self._waiting -= 1

    def _keep(self, key: str, answer: bytes) -> None:
        """Keep an answer; forget the longest unused ones beyond the bound, but not this one."""
        self._kept[key] = answer
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > KEPT_BYTES:
            self._kept.popitem(last=False)

    async def _open(self, ask: Ask, job: Mapping[str, Any], programs: Sequence[VariantProgram]) -> bytes:
        with ExitStack() as stack:
            files: dict[str, BinaryIO] = {}
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alcove-console-")))
            for program in programs:
                path = folder / program.sha256
                size_bytes = await ask(_fetching(program.sha256, path))
                if size_bytes != program.size_bytes:
                    bound = f"{program.size_bytes} bytes as its manifest says, got {size_bytes}"
                    raise ProgramNotShownError(f"the program of variant {program.variant}: expected {bound}")
                files[program.sha256] = stack.enter_context(path.open("rb"))
            try:
                answer = await self._asking.ask(programs[0].variant, job, files)
            except CheckBoundError as error:  # not kept: a busy machine may be why
                raise ProgramNotShownError(str(error)) from error
        return json.dumps(answer).encode()


def _fetching(sha256: str, path: Path) -> Callable[[PlatformClient], int]:
    return lambda client: client.download_blob(sha256, path)


PROGRAMS: Final = web.AppKey("programs", Programs)
"""Where the application has them."""
