"""Writes what installed wheels are tested with: `python -m tools.wheel_reference FOLDER`.

FOLDER/tree        a signed tree of static files, in which `language_id` 1.0.0 is for everybody
FOLDER/root.json   what an app ships of it
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from alcove.features.language_id.contract import program_path
from alcove.registry.policy.document import policy_to_bytes
from alcove.registry.program_verification import RuntimeVerifier
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.testing_seams import ManualClock

APP = "messenger"
VERSION = "1.0.0"


def write(folder: Path) -> None:
    """Write tree and root into a folder, which is made; the keys are thrown away."""
    with tempfile.TemporaryDirectory() as keys:
        fixture = RepositoryFixture(Path(keys), clock=ManualClock(int(time.time())))
        program = program_path(VERSION).read_bytes()
        fixture.push(fixture.package(VERSION, program=program, verifier=RuntimeVerifier()))
        fixture.tree.publish_policy(APP, policy_to_bytes(fixture.policy(1, VERSION, app=APP)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "root.json").write_bytes(fixture.tree.root_bytes())
        shutil.move(Path(keys) / "tree", folder / "tree")  # the two may be on different file systems


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel_reference")
    parser.add_argument("folder", type=Path, help="absent so far")
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
