"""Runs checks in worker processes, so that a crash of one is a line of the report.

Each worker is a fresh process that does one task after the other.  One that dies or says nothing for too long is
replaced, and its task gets what stands for a lost one.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")

TIMEOUT_S: Final = 240.0
STOP_S: Final = 5.0


@dataclass
class _Worker(Generic[T]):
    process: Any
    connection: Connection
    name: str = ""
    since_s: float = 0.0


def in_processes(
    names: Sequence[str],
    work: Callable[[str], T],
    lost: Callable[[str, str], T],
    *,
    workers: int,
    on_done: Callable[[str], None] = lambda _: None,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, T]:
    """Do `work` for each name in worker processes.

    Args:
        names: what to work on.
        work: picklable: processes find it by its module and name.
        lost: gives the result for (name, reason) if `work` raised, died or took too long.
        workers: number of processes.
        on_done: called with each name when it is done.
        timeout_s: longest time for one name.

    Returns:
        results by name, in the order of `names`.
    """
    waiting = list(reversed(names))
    found: dict[str, T] = {}
    busy: list[_Worker[T]] = [_start(work, waiting.pop()) for _ in range(min(workers, len(names)))]
    while busy:
        ready = wait([worker.connection for worker in busy], timeout=1.0)
        for worker in list(busy):
            result: T | None = None
            reason = ""
            if worker.connection in ready:
                received = _receive(worker)
                result, reason = received
            elif time.monotonic() - worker.since_s > timeout_s:
                result, reason = None, f"no answer for {timeout_s:.0f} s"
            else:
                continue
            found[worker.name] = lost(worker.name, reason) if reason else cast("T", result)
            on_done(worker.name)
            if reason:
                busy.remove(worker)
                _stop(worker)
                if waiting:
                    busy.append(_start(work, waiting.pop()))
            elif waiting:
                _give(worker, waiting.pop())
            else:
                busy.remove(worker)
                _stop(worker)
    return {name: found[name] for name in names}


def _start(work: Callable[[str], T], name: str) -> _Worker[T]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, work), daemon=True)
    process.start()
    there.close()
    worker: _Worker[T] = _Worker(process, here)
    _give(worker, name)
    return worker


def _give(worker: _Worker[T], name: str) -> None:
    worker.name, worker.since_s = name, time.monotonic()
    worker.connection.send(name)


def _receive(worker: _Worker[T]) -> tuple[T | None, str]:
    """Return the result and "", or None and why there is none."""
    try:
        return cast("tuple[T | None, str]", worker.connection.recv())
    except (EOFError, ConnectionResetError):
        worker.process.join()
        return None, f"the process died with {worker.process.exitcode}"


def _stop(worker: _Worker[T]) -> None:
    """End a worker: it leaves by itself when its connection closes, unless it hangs."""
    worker.connection.close()
    worker.process.join(STOP_S)
    worker.process.terminate()
    worker.process.join()


def _serve(connection: Connection, work: Callable[[str], T]) -> None:
    """Work on what comes until nothing comes; what libraries print meanwhile is dropped."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    while True:
        try:
            name = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            answer: tuple[T | None, str] = (work(name), "")
        except Exception as error:  # noqa: BLE001 - one task must not end the others
            answer = (None, f"{type(error).__name__}: {error}")
        connection.send(answer)
