"""A PostgreSQL of tests that were killed is ended and removed by the next ones."""

import os
import subprocess
import sys
from pathlib import Path

from alcove.platform.testing import postgres

# A shell's background job ignores SIGQUIT, and so do all processes that it starts; a database does not.
_HEAR_QUIT = """
import signal
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
print("ready", flush=True)
signal.pause()
"""


def _line_of(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_orphans_are_ended_and_removed_and_nothing_else_is(tmp_path: Path) -> None:
    """The folder and the process of a maker that is gone; those of one that runs, and other folders, stay."""
    maker = subprocess.Popen(["true"])
    maker.wait()
    orphan, kept = tmp_path / f"alcove-pg-{maker.pid}-a", tmp_path / f"alcove-pg-{os.getpid()}-b"
    others = [tmp_path / "alcove-pg-c", tmp_path / f"alcove-pg-x{maker.pid}-d", tmp_path / f"{maker.pid}-e"]
    wait = [sys.executable, "-S", "-c", _HEAR_QUIT]
    servers = []
    for folder in (orphan, kept, *others):
        (folder / "data").mkdir(parents=True)
        servers.append(subprocess.Popen([*wait, folder], stdout=subprocess.PIPE))
        assert _line_of(servers[-1]) == b"ready\n"
        (folder / "data" / "postmaster.pid").write_text(f"{servers[-1].pid}\n{folder}\n")
    try:
        postgres._remove_orphans(tmp_path)
        assert servers[0].wait(120) != 0
        assert [server.poll() for server in servers[1:]] == [None] * 4
        assert sorted(tmp_path.iterdir()) == sorted([kept, *others])
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def test_process_that_has_the_number_of_an_ended_server_is_left_alone(tmp_path: Path) -> None:
    """Numbers are used again: a process that does not name the folder is another's."""
    maker = subprocess.Popen(["true"])
    maker.wait()
    orphan = tmp_path / f"alcove-pg-{maker.pid}-a"
    (orphan / "data").mkdir(parents=True)
    (orphan / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    postgres._remove_orphans(tmp_path)
    assert not orphan.exists()
