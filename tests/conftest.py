"""Fixtures and rules of all tests: the repository's root, an S3 store, tools that a machine may lack, hypothesis."""

import gc
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from alcove.platform.testing.s3 import S3MissingError, S3Server

from tests.selection import Part
from tools.test_packages import TOOLS, find_tool

ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 1024**3  # of the files of tests that fail or run, and of what tests map and run beside them


def find_memory() -> Path | None:
    """Return a file system in memory with room for the files of all tests, where programs may be run; None: none.

    What is tested syncs each of its files, many thousand times in a run; a disk makes that a third of the time.
    """
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    has_room = found.f_bavail * found.f_frsize >= ROOM_BYTES
    return MEMORY if has_room and not found.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK) else None


if (_memory := find_memory()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_memory))

# Torch's models here are small: threads for their operators mostly wait for each other, and take the processors of the
# other test processes while they do.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PYTHONPATH"] = str(Path(__file__).parent / "hidden")  # see boto3.py and sitecustomize.py there

# A machine at load 20 takes seconds for an example: neither a slow example nor slow data is a finding.
hypothesis.settings.register_profile(
    "alcove", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("alcove")


def pytest_collection_finish() -> None:
    """Leave what is loaded now out of garbage collections: with torch a full one takes 0.2 s, and exports make many."""
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of a part of the files, for automation that has no time for all of them at once."""
    parser.addoption("--part", metavar="K/N", help="only the K-th of N parts of the files; a file stays in its part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the real PostgreSQL: its fixture skips by itself, `-m needs` finds it by the mark; take a part."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("postgresql"))
    if text := config.getoption("--part"):
        part = Part.read(str(text))
        others = [item for item in items if not part.has(item.location[0])]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if part.has(item.location[0])]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose tools are not here."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if find_tool(name) is None:
                pytest.skip(f"needs {name}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was skipped and what would run it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(describe_skips([report.longrepr[2] for report in skipped]))


def describe_skips(reasons: list[str]) -> str:
    """Return one line for the reasons of all skipped tests.

    >>> describe_skips(["Skipped: needs nginx", "Skipped: needs chromium", "Skipped: no IPv6 here"])
    'skipped 3: 2 need chromium, nginx (make test-packages installs them), 1 no IPv6 here'
    """
    counts: dict[str, int] = defaultdict(int)
    tools: set[str] = set()
    for reason in reasons:
        text = reason.removeprefix("Skipped: ")
        found = re.fullmatch(r"needs ([\w-]+)", text)
        if found and found[1] in TOOLS:
            tools.add(found[1])
        else:
            counts[text] += 1
    parts = [f"{count} {text}" for text, count in sorted(counts.items())]
    if tools:
        needing = len(reasons) - sum(counts.values())
        parts.insert(0, f"{needing} need {', '.join(sorted(tools))} (make test-packages installs them)")
    return f"skipped {len(reasons)}: {', '.join(parts)}"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3-compatible store, for all tests of this process."""
    try:
        server = S3Server.start()
    except S3MissingError as missing:
        pytest.skip(str(missing))
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The same, with its keys in the environment of this test and of what it starts."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return s3_server
