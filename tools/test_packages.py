"""Lists what some tests need beside Python, a C++ compiler and make, and installs it from Debian.

`python3 tools/test_packages.py` installs what is missing (as root); `--list` prints a line for each tool. Tests ask
`find_tool`, by the marker `needs` of tests/conftest.py. Only the standard library is used: it runs before anything
is installed.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["TOOLS", "Tool", "find_tool", "list_missing"]


@dataclass(frozen=True)
class Tool:
    """One thing that tests may need.

    Attributes:
        package: Debian's name of the package that holds it.
        commands: all of them must be there; each is a tuple of places, names on the path or patterns below `/`.
        reason: what is tested with it.
    """

    package: str
    commands: tuple[tuple[str, ...], ...]
    reason: str


TOOLS: Final = {
    "aarch64-gcc": Tool(
        "g++-aarch64-linux-gnu", (("aarch64-linux-gnu-gcc",), ("aarch64-linux-gnu-g++",)), "the build for 64-bit ARM"
    ),
    "qemu-aarch64": Tool("qemu-user", (("qemu-aarch64",),), "the same bits on 64-bit ARM"),
    "valgrind": Tool("valgrind", (("valgrind",),), "counts of instructions, and memory errors of a C host"),
    "faketime": Tool("faketime", (("faketime",),), "the expiry of metadata in a real process"),
    "postgresql": Tool(
        "postgresql", (("postgres", "/usr/lib/postgresql/*/bin/postgres"),), "several servers on one database"
    ),
    "nginx": Tool("nginx-light", (("nginx", "/usr/sbin/nginx"),), "static files for devices"),
    "promtool": Tool("prometheus", (("promtool",),), "alert rules and their unit tests"),
    "prometheus": Tool("prometheus", (("prometheus",),), "alert rules and the dashboard, on a server's figures"),
    "systemd-analyze": Tool("systemd", (("systemd-analyze",),), "units of systemd"),
    "chromium": Tool("chromium", (("chromium",),), "pages in a real browser"),
}


def find_tool(name: str) -> list[str] | None:
    """Return the paths of a tool's commands, or None where one of them is missing."""
    found = [_find(places) for places in TOOLS[name].commands]
    return [path for path in found if path] if all(found) else None


def list_missing() -> list[str]:
    """Return the names of the tools that this machine lacks."""
    return [name for name in TOOLS if find_tool(name) is None]


def _find(places: tuple[str, ...]) -> str | None:
    for place in places:
        if not place.startswith("/"):
            candidate = shutil.which(place)
            if candidate is not None:
                return candidate
            continue
        for path in sorted(Path("/").glob(place[1:]), reverse=True):
            if os.access(path, os.X_OK):
                return str(path)
    return None


def main() -> int:
    """Install what is missing; return 1 where that cannot be done here."""
    if "--list" in sys.argv[1:]:
        for name, tool in TOOLS.items():
            print(f"{name}\t{'missing' if find_tool(name) is None else 'found'}\t{tool.package}\t{tool.reason}")
        return 0
    packages = [TOOLS[name].package for name in list_missing()]
    if not packages:
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        quiet = ["apt-get", "-qq"]
        if (
            subprocess.run([*quiet, "update"], env=environment, check=False).returncode == 0
            and subprocess.run(
                [*quiet, "install", "--yes", *packages], env=environment, check=False, stdout=subprocess.DEVNULL
            ).returncode
            == 0
        ):
            return 0
    print(f"alcove: some tests need {', '.join(packages)}: sudo apt-get install {' '.join(packages)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
