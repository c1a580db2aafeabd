"""Writes tools/locks/: every pin of constraints.txt with the SHA-256 of each file that the index has for it.

`make lock` runs it after a change of constraints.txt. `make setup` installs from it with `--require-hashes`: a file
that an index or a mirror changed is refused. torch has two files of its own: the build without CUDA, where pip finds
one (its local version sorts first), else the index's, whose CUDA packages are locked too. server.txt is the part of the
first that a server needs, for its image and its virtual environment. uv reads the index, pip says what it would take.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
LOCKS = ROOT / "tools" / "locks"
SERVER_EXTRAS = ("commands", "server", "oidc")
HEADER = "# Written by `make lock` from constraints.txt: do not edit.\n"


def read_pins(text: str) -> dict[str, str]:
    """Return name → version of all pins of a constraints or lock file, names normalized (PEP 503)."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def read_hashes(text: str) -> dict[str, list[str]]:
    """Return name → SHA-256 digests (hexadecimal) of a lock file, names normalized."""
    hashes: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if found := re.match(r"([\w.-]+)==", line):
            name = re.sub(r"[-_.]+", "-", found[1]).lower()
            hashes[name] = []
        elif found := re.match(r"\s+--hash=sha256:([0-9a-f]{64})", line):
            hashes[name].append(found[1])
    return hashes


def server_requirements() -> list[str]:
    """Return what a server needs by pyproject.toml: the bare dependencies and those of `SERVER_EXTRAS`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(one for name in SERVER_EXTRAS for one in extras[name])]


def hash_index(uv: str, requirements: str, *options: str) -> str:
    """Return uv's lock of some requirements: pins, markers and digests of all files that the index has."""
    command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--universal"]
    done = subprocess.run(
        [*command, "--python-version", "3.11", *options, "-"],
        check=True,
        capture_output=True,
        text=True,
        input=requirements,
    )
    return done.stdout


def find_cpu_wheel(requirement: str) -> tuple[str, str]:
    """Return version and SHA-256 of what pip takes for a requirement on this machine.

    Raises:
        SystemExit: that is no build without CUDA.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        subprocess.run([*pip, "--report", report, requirement], check=True)
        (item,) = json.loads(report.read_text(encoding="utf-8"))["install"]
    version: str = item["metadata"]["version"]
    if not version.endswith("+cpu"):
        raise SystemExit(f"{requirement}: pip takes {version} here; lock on a machine whose pip finds the +cpu wheel")
    return version, item["download_info"]["archive_info"]["hashes"]["sha256"]


def main() -> None:
    """Write the lock files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", default="uv", help="the uv to read the index with")
    arguments = parser.parse_args()
    constraints = CONSTRAINTS.read_text(encoding="utf-8")
    torch = f"torch=={read_pins(constraints)['torch']}"
    others = "\n".join(line for line in constraints.splitlines() if not line.startswith("torch=="))
    LOCKS.mkdir(exist_ok=True)
    version, digest = find_cpu_wheel(torch)
    files = {
        "requirements.txt": hash_index(arguments.uv, others, "--no-deps"),
        "server.txt": hash_index(arguments.uv, "\n".join(server_requirements()), "--constraint", str(CONSTRAINTS)),
        "torch.txt": hash_index(arguments.uv, torch, "--constraint", str(CONSTRAINTS)),
        "torch-cpu.txt": f"torch=={version} \\\n    --hash=sha256:{digest}\n",
    }
    for name, text in files.items():
        (LOCKS / name).write_text(HEADER + text, encoding="utf-8")
        print(f"{name}: {len(read_pins(text))} pins, {sum(map(len, read_hashes(text).values()))} digests")


if __name__ == "__main__":
    main()
