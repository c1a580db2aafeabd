"""Runs as the process that checks one program.

python -I -m alcove.platform.services.validation.child < job
"""

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import alcove.registry.delta
import alcove.runtime.certificate
import alcove.runtime.format.reader
import numpy as np
from alcove.platform.confined.child import Read, answer_one
from alcove.platform.services.validation import jobs
from alcove.runtime.cancellation import Alarm

__all__ = ["main"]


def main() -> int:
    """Do the job; return the exit code."""
    return answer_one(_prepare, _answer)


def _answer(job: Mapping[str, Any], read: Read, alarm: Alarm) -> dict[str, Any]:
    return jobs.answer(job["kind"], job, read, alarm)


def _prepare() -> None:
    """Load what is loaded on first use."""
    _ = (alcove.registry.delta, alcove.runtime.certificate, alcove.runtime.format.reader)
    from alcove.runtime import load  # noqa: PLC0415
    from alcove.runtime.certificate import document  # noqa: F401, PLC0415
    from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415

    with contextlib.suppress(AlcoveRuntimeError):
        load(b"no program")
    np.random.default_rng(0).standard_normal(3)
    np.isnan(np.zeros(3, dtype="<f4")).sum()


if __name__ == "__main__":
    sys.exit(main())
