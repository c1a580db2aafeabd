"""Programs that the console opens: only those that a manifest names, in a confined process, and kept within a bound."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from alcove.features.language_id.contract import program_path
from alcove.platform.client import PlatformClient, Version, VersionDetails
from alcove.platform.console.programs import opener
from alcove.platform.console.programs.opener import ProgramNotShownError, Programs, VariantProgram, variants_of
from alcove.platform.inspection.diff import relative_changes
from alcove.platform.inspection.page import page_of, page_of_refusal, policy_of_page
from alcove.platform.listening import allowance
from alcove.platform.listening.connections import ConnectionLimits, Connections
from alcove.registry.package import create_package
from alcove.registry.testing import FakeVerifier
from alcove.runtime.format.spec import DType, Storage
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import classifier


class Blobs:
    """Stands for a server that has these programs; counts what is fetched."""

    def __init__(self, *programs: bytes) -> None:
        self.programs = {hashlib.sha256(program).hexdigest(): program for program in programs}
        self.fetched: list[str] = []

    def download_blob(self, sha256: str, path: Path) -> int:
        """Write a program to a file."""
        self.fetched.append(sha256)
        return path.write_bytes(self.programs[sha256])

    async def ask(self, work: Callable[[PlatformClient], Any]) -> Any:
        """Make calls as a page does."""
        return work(cast("PlatformClient", self))


def variant_of(program: bytes, *, size_bytes: int = 0) -> VariantProgram:
    """A program as a manifest names it."""
    digest = hashlib.sha256(program).hexdigest()
    return VariantProgram("text_00", "1.0.0", "f32", digest, size_bytes or len(program), "", {}, {"feature": "text_00"})


async def test_a_program_is_opened_once_and_its_page_says_what_it_is() -> None:
    """In a process of its own; a second look fetches and opens nothing."""
    program = program_path("4.1.0").read_bytes()
    blobs, programs = Blobs(program), Programs()
    facts = await programs.facts(blobs.ask, variant_of(program))
    again = await programs.facts(blobs.ask, variant_of(program))
    assert facts == again
    assert blobs.fetched == [facts["digest"]]
    assert facts["ops"]
    page = page_of(facts, theme="dark")
    assert 'data-theme="dark"' in page
    assert facts["digest"] in page


async def test_two_programs_are_compared_and_how_far_weights_moved_is_said() -> None:
    """Figures of both sides, and a part of the norm for each float weight that both have."""
    old, new = (program_path(version).read_bytes() for version in ("1.0.0", "4.1.0"))
    found = await Programs().comparison(Blobs(old, new).ask, variant_of(old), variant_of(new))
    assert found["left"]["size_bytes"] == len(old)
    assert found["right"]["ops"]
    assert all(change is None or change > 0 for change in found["changes"].values())


async def test_what_is_no_program_or_not_the_named_one_is_not_shown() -> None:
    """Refused by the process that opens it; and before that, by its size; a broken program is remembered as one."""
    blobs, programs = Blobs(b"no program"), Programs()
    for _ in range(2):
        with pytest.raises(ProgramNotShownError):
            await programs.facts(blobs.ask, variant_of(b"no program"))
    assert len(blobs.fetched) == 1
    with pytest.raises(ProgramNotShownError, match="expected 7 bytes"):
        await Programs().facts(blobs.ask, variant_of(b"no program", size_bytes=7))


async def test_few_wait_for_a_program_and_what_was_found_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ninth is told to come again; old answers give way to new ones."""
    monkeypatch.setattr(opener, "KEPT_BYTES", 10)
    programs = Programs()
    begun, gate = asyncio.Event(), asyncio.Event()

    async def answer(_ask: object, job: dict[str, str], _programs: object) -> bytes:
        begun.set()
        await gate.wait()
        return b'{"facts": {"name": "%s"}}' % job["program"].encode()

    monkeypatch.setattr(programs, "_open", answer)
    blobs = Blobs()
    waiting = [asyncio.create_task(programs.facts(blobs.ask, variant_of(b"%d" % number))) for number in range(8)]
    await begun.wait()
    with pytest.raises(ProgramNotShownError, match="8 programs"):
        await programs.facts(blobs.ask, variant_of(b"ninth"))
    gate.set()
    assert len({facts["name"] for facts in await asyncio.gather(*waiting)}) == 8
    assert len(programs._kept) == 1


async def test_an_answer_has_the_time_that_opening_a_program_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that opens slowly, or waits for its turn, ends no connection; the answer after it has its time."""
    programs, connections = Programs(), Connections(ConnectionLimits())
    place = connections.admit("192.0.2.1")
    assert place is not None
    async with asyncio.timeout(600) as limit:
        allowed: list[float | None] = []

        async def answer(*_: object) -> bytes:
            allowed.append(limit.when())
            return b'{"facts": {}}'

        monkeypatch.setattr(programs, "_open", answer)
        token = allowance._allowance.set(allowance._Allowance(connections, place, limit))
        try:
            await programs.facts(Blobs().ask, variant_of(b"program"))
        finally:
            allowance._allowance.reset(token)
        assert allowed == [None]
        assert limit.when() is not None


def test_a_manifest_with_another_digest_names_no_program() -> None:
    """What the server lists is what was signed, or nothing is opened."""
    package = create_package(
        feature="text_00",
        team="text",
        version="1.0.0",
        programs={"f32": b"program"},
        card="# x\n",
        verifier=FakeVerifier(),
    )
    version = Version(
        feature="text_00",
        version="1.0.0",
        team="text",
        manifest_sha256=package.manifest.sha256,
        variants=(),
        published_at_s=1,
        state="released",
        tags=(),
        aliases=(),
    )
    data = package.manifest.to_bytes()
    details = VersionDetails(version=version, manifest=data, card="", inputs=(), outputs=(), moves=())
    assert variants_of(details)["f32"].sha256 == hashlib.sha256(b"program").hexdigest()
    with pytest.raises(ProgramNotShownError, match="another digest"):
        variants_of(details.model_copy(update={"manifest": data + b" "}))


def test_the_frame_lets_its_own_script_and_style_run_and_nothing_else() -> None:
    """No origin, no network, no inline code but what has the digest; a reason is text."""
    policy = policy_of_page()
    assert policy.endswith("sandbox allow-scripts")
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "<script>" not in page_of_refusal("<script>alert(1)</script>")


def test_how_far_weights_moved_is_a_part_of_their_norm() -> None:
    """Every float weight doubled has moved by its own norm; the same program has moved nothing."""

    def program(factor: float, *, is_int8: bool) -> bytes:
        made = classifier(is_int8=is_int8)
        tensors = [
            replace(one, data=(np.frombuffer(one.data, dtype="<f4") * np.float32(factor)).tobytes())
            if one.storage is Storage.CONSTANT and one.dtype is DType.F32
            else one
            for one in made.tensors
        ]
        return write_program(replace(made, tensors=tuple(tensors)))

    assert relative_changes(program(1.0, is_int8=False), program(1.0, is_int8=False)) == {}
    moved = relative_changes(program(1.0, is_int8=False), program(2.0, is_int8=False))
    assert moved
    assert [change for change in moved.values() if change is not None] == pytest.approx([1.0] * len(moved))
