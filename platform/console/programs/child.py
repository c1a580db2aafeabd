"""Runs as the process that opens programs for a page.

    python -I -m alcove.platform.console.programs.child < job

A job is {"kind": "inspect", "program", "name", "package"} or {"kind": "compare", "left", "right"}, programs by digest.
The answer is what was asked for, or {"refused": why}.
"""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from alcove.platform.confined.child import Read, answer_one
from alcove.platform.inspection.diff import figures_of, relative_changes
from alcove.platform.inspection.summary import summarize_program
from alcove.registry.errors import ProgramRefusedError
from alcove.runtime import load
from alcove.runtime.cancellation import Alarm
from alcove.runtime.errors import AlcoveRuntimeError

__all__ = ["main"]


def main() -> int:
    """Do the job; return the exit code."""
    return answer_one(_prepare, _answer)


def _answer(job: Mapping[str, Any], read: Read, _alarm: Alarm) -> dict[str, Any]:
    try:
        if job["kind"] == "inspect":
            data = read(job["program"])
            return {"facts": summarize_program(data, load(data), job["name"], package=job["package"])}
        sides = [read(job[side]) for side in ("left", "right")]
        figures = [asdict(figures_of(program)[0]) for program in sides]
        return {"left": figures[0], "right": figures[1], "changes": relative_changes(*sides)}
    except ProgramRefusedError as error:
        return {"refused": error.reason}
    except AlcoveRuntimeError as error:
        return {"refused": str(error)}


def _prepare() -> None:
    """Load what is loaded on first use: afterwards no file can be opened."""
    for work in (lambda: figures_of(b"no program"), lambda: relative_changes(b"no program", b""), lambda: load(b"no")):
        with contextlib.suppress(AlcoveRuntimeError, ProgramRefusedError):
            work()
    np.linalg.norm(np.frombuffer(b"\0" * 12, dtype="<f4").astype(np.float64))


if __name__ == "__main__":
    sys.exit(main())
