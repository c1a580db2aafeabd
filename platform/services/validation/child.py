"""Runs as the process that checks one program: it reads a job, confines itself, answers and ends.

    python -I -m alcove.platform.services.validation.child < job

Standard input is one line of JSON (`children.py` writes it); the blobs are open descriptors.  Standard output is one
line when it is confined, and one with the answer.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import alcove.registry.delta
import alcove.runtime.certificate
import alcove.runtime.format.reader
import numpy as np
from alcove.platform.services.validation import jobs
from alcove.platform.services.validation.confinement import confine
from alcove.runtime.cancellation import Alarm

__all__ = ["main"]


def main() -> int:
    """Do the job; return the exit code."""
    job = json.loads(sys.stdin.readline())
    _prepare()
    alarm = Alarm()
    held = confine(cpu_s=job["cpu_s"], memory_bytes=job["memory_bytes"])
    _send({"confined": True, "calls": held.calls, "network": held.network})
    try:
        answer = jobs.answer(job["kind"], job, _reader(job["blobs"]), alarm)
    except MemoryError:
        answer = {"bound": "memory"}
    _send(answer)
    return 0


def _prepare() -> None:
    """Load what is loaded on first use: afterwards no file can be opened."""
    _ = (alcove.registry.delta, alcove.runtime.certificate, alcove.runtime.format.reader)
    from alcove.runtime import load  # noqa: PLC0415
    from alcove.runtime.certificate import document  # noqa: F401, PLC0415
    from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415

    with contextlib.suppress(AlcoveRuntimeError):
        load(b"no program")
    np.random.default_rng(0).standard_normal(3)
    np.isnan(np.zeros(3, dtype="<f4")).sum()


def _reader(descriptors: Mapping[str, int]) -> Callable[[str], bytes]:
    def read(sha256: str) -> bytes:
        descriptor = descriptors[sha256]
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)  # to ask for its status may be a call by path
        pieces, start = [], 0
        while start < size_bytes:
            piece = os.pread(descriptor, min(jobs.PIECE_BYTES, size_bytes - start), start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        data = b"".join(pieces)
        if hashlib.sha256(data).hexdigest() != sha256:
            msg = "a blob changed on its way"
            raise ValueError(msg)
        return data

    return read


def _send(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
