"""Gives a process its frame that opens a program: it reads a job, confines itself, answers and ends.

Standard input is one line of JSON (`asking.py` writes it); the blobs are open descriptors.  Standard output is one line
when it is confined, and one with the answer.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from alcove.platform.confined.confinement import confine
from alcove.runtime.cancellation import Alarm

__all__ = ["PIECE_BYTES", "Read", "answer_one"]

PIECE_BYTES: Final = 1024 * 1024
Read = Callable[[str], bytes]
"""Returns the bytes of a blob by its digest."""


def answer_one(prepare: Callable[[], None], answer: Callable[[Mapping[str, Any], Read, Alarm], dict[str, Any]]) -> int:
    """Do one job; return the exit code.

    Args:
        prepare: loads what is loaded on first use: afterwards no file can be opened.
        answer: does the job; confined.
    """
    job = json.loads(sys.stdin.readline())
    prepare()
    alarm = Alarm()
    held = confine(cpu_s=job["cpu_s"], memory_bytes=job["memory_bytes"])
    _send({"confined": True, "calls": held.calls, "network": held.network})
    try:
        found = answer(job, _reader(job["blobs"]), alarm)
    except MemoryError:
        found = {"bound": "memory"}
    _send(found)
    return 0


def _reader(descriptors: Mapping[str, int]) -> Read:
    def read(sha256: str) -> bytes:
        descriptor = descriptors[sha256]
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)  # to ask for its status may be a call by path
        pieces, start = [], 0
        while start < size_bytes:
            piece = os.pread(descriptor, min(PIECE_BYTES, size_bytes - start), start)
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
