"""Simulates a rollout's plan for a page, in a process of its own, for a bounded time.

The process reads a plan as JSON, repeats runs until its time is over, and writes what it found.  One runs at a time,
with less claim to a processor than anything else.
"""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Final

from alcove.platform.client import Plan

__all__ = ["DEVICES_MAX", "Outcome", "Simulated", "Simulator", "SimulatorBusyError", "why_not"]

DEVICES_MAX: Final = 1_000_000  # virtual devices: a run of 14 windows takes two or three seconds
DEVICES_USUAL: Final = 100_000  # where a plan does not say how many there are
RUN_S: Final = 5.0  # seconds of each of the two versions, after which no further run begins
END_S: Final = 120.0  # seconds until the process is ended, whatever it does: it gets what others leave of a processor
ANSWER_BYTES: Final = 64 * 1024
MODULE: Final = "alcove.platform.console.simulation_process"


class SimulatorBusyError(Exception):
    """The simulation took too long for a machine that has other work."""


@dataclass(frozen=True)
class Outcome:
    """What runs with one version say.

    Attributes:
        title: which version.
        runs: how many were repeated.
        stopped: share that harm stopped, with its 95 % interval.
        completed: share that reached everybody, with its 95 % interval.
        windows_to_harm: median of the windows until harm was found; None: it never was.
        waits: rules that held the others back at the end, with the number of runs.
    """

    title: str
    runs: int
    stopped: tuple[float, float, float]
    completed: tuple[float, float, float]
    windows_to_harm: float | None
    waits: dict[str, int]


@dataclass(frozen=True)
class Simulated:
    """What a simulation found.

    Attributes:
        devices: virtual devices.
        windows: of each run, at most.
        outcomes: of a sound version, and of a harmful one.
        problem: why the plan cannot be simulated; "": it was.
    """

    devices: int = 0
    windows: int = 0
    outcomes: tuple[Outcome, ...] = ()
    problem: str = ""


def why_not(plan: Plan) -> str:
    """Return why a plan cannot be simulated, a sentence; "": it can."""
    if plan.own_guardrails:
        return "A metric of your own is watched, and nothing is known of how virtual devices would count it."
    if not (plan.stages and plan.guardrails):
        return "Nothing is watched: a simulation needs a stage and a guardrail."
    return ""


class Simulator:
    """Simulates one plan at a time.

    Args:
        run_s: seconds of each version after which no further run begins.
        end_s: seconds until a process is ended.
    """

    def __init__(self, run_s: float = RUN_S, end_s: float = END_S) -> None:
        self._turn = asyncio.Lock()
        self._run_s, self._end_s = run_s, end_s

    async def run(self, plan: Plan, behavior: dict[str, float]) -> Simulated:
        """Return what virtual devices with the plan do.

        Args:
            plan: that `why_not` has nothing against.
            behavior: of the version in use: shares as parts of 1, "latency_ms".

        Raises:
            SimulatorBusyError: it took too long.
        """
        question = {
            "plan": plan.model_dump(mode="json"),
            "behavior": behavior,
            "devices": min(plan.expected_devices or DEVICES_USUAL, DEVICES_MAX),
            "run_s": self._run_s,
        }
        async with self._turn:
            return _read(await _run(json.dumps(question).encode(), self._end_s))


async def _run(question: bytes, end_s: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(question), end_s)
    except TimeoutError:
        raise SimulatorBusyError from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return answer[:ANSWER_BYTES]


def _read(answer: bytes) -> Simulated:
    try:
        found: dict[str, Any] = json.loads(answer)
    except ValueError:  # it was ended for its memory or its time
        raise SimulatorBusyError from None
    outcomes = tuple(
        Outcome(
            each["title"],
            each["runs"],
            tuple(each["stopped"]),
            tuple(each["completed"]),
            each["windows_to_harm"],
            each["waits"],
        )
        for each in found.get("outcomes", ())
    )
    return Simulated(found["devices"], found["windows"], outcomes, found["problem"])
