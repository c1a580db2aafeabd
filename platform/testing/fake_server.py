"""Runs the server with pretended programs: the real server, except what reads programs.

`python -m alcove.platform.testing.fake_server [--note-opened FILE] [--as-uid UID] …the server's options…`

With `--note-opened` the path of each file that Python opens is written to a file.

With `--as-uid` (started as root) the process gives up root before it reads anything: what other users may not read is
then out of its reach.
"""

import asyncio
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

from alcove.platform.core.log import configure_log
from alcove.platform.server import serve
from alcove.platform.server.__main__ import main
from alcove.platform.server.serve import run as run_server
from alcove.platform.server.settings import Settings
from alcove.platform.services.validation import InThisProcess
from alcove.platform.testing.world import Served, ServerWorld
from alcove.registry import program_validation, program_verification
from alcove.registry.testing import FakeValidator, FakeVerifier

__all__ = ["run"]


def run(arguments: list[str]) -> int:
    """Serve; return the exit code."""
    program_verification.RuntimeVerifier = FakeVerifier  # type: ignore[misc, assignment]  # the one thing that is pretended
    program_validation.RuntimeValidator = FakeValidator  # type: ignore[misc, assignment]  # and what looks into it
    serve.ChildChecks = InThisProcess  # type: ignore[assignment, attr-defined]  # which another process would not know of
    configure_log()
    if arguments[:1] == ["--note-opened"]:
        _note_opened(Path(arguments[1]))
        arguments = arguments[2:]
    if arguments[:1] == ["--as-uid"]:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_load_everything(Path(folder)))
        uid = int(arguments[1])
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        # The devices' process is a Python of its own, which the other user may not be able to start.
        arguments = [*arguments[2:], "--only", "grpc"]
    return main(arguments)


def _note_opened(path: Path) -> None:
    """Write down what is opened from now on; a hook cannot be taken away again."""
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(event: str, details: tuple[object, ...]) -> None:
        if event == "open" and isinstance(details[0], str | bytes | os.PathLike):
            os.write(notes, os.fsencode(os.path.realpath(details[0])) + b"\n")

    sys.addaudithook(note)


async def _load_everything(folder: Path) -> None:
    """Serve once in here, so that every module is loaded: the other user may not be able to read Python itself."""
    world = await asyncio.to_thread(ServerWorld, folder / "warm", teams={"text": ("text_00",)})
    keys = world.online_keys
    async with run_server(Settings(data_dir=world.data_dir, online_keys=keys, grpc_port=0, http_port=0)) as running:

        def use() -> None:
            served = Served(None, running.grpc_address, running.http_url, world.folder / "log")
            with world.client(served, "team:text") as team:
                world.publish(team, "text_00")
            with urllib.request.urlopen(running.http_url + "/metadata/timestamp.json", timeout=20):  # noqa: S310
                pass

        await asyncio.to_thread(use)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
