"""Runs a simulation for a page of the console: a question on standard input, an answer on standard output, both JSON.

It bounds itself: time of a processor, and no claim to the processor that anything else wants.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

__all__ = ["main", "simulate_plan"]

CPU_S: Final = 60  # seconds of a processor
RUNS_MAX: Final = 20
WINDOWS: Final = 14
HARM: Final = 4.0  # margins by which a harmful version is worse, as forecasts take it


def main() -> int:
    """Answer one question; return the exit code."""
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    question = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(simulate_plan(question)))
    return 0


def simulate_plan(question: dict[str, Any]) -> dict[str, Any]:
    """Return what a sound version and a harmful one would meet, as plain values.

    Args:
        question: "plan" as `Plan` dumps it, "behavior" of the version in use, "devices", and "run_s", the seconds of
            each version after which no further run begins.
    """
    from alcove.platform.client import Plan  # noqa: PLC0415 - what it loads counts against the bounds
    from alcove.platform.console.simulated_plans import harmful, scenario_of  # noqa: PLC0415 - loads statistics
    from alcove.platform.domain.errors import InvalidFieldError  # noqa: PLC0415 - as above
    from alcove.platform.simulation.run import simulate  # noqa: PLC0415 - loads statistics
    from alcove.platform.simulation.summary import summarize  # noqa: PLC0415 - loads statistics

    plan = Plan.model_validate(question["plan"])
    outcomes = []
    try:
        usual = scenario_of(plan, question["behavior"], question["devices"], WINDOWS, RUNS_MAX)
        for title, scenario in (("A sound version", usual), harmful(usual, HARM)):
            began_s = time.monotonic()
            runs = list(_until(simulate(scenario), began_s + question["run_s"]))
            summary = summarize(runs, windows=WINDOWS, seconds=1.0)
            outcomes.append(
                {
                    "title": title,
                    "runs": summary.runs,
                    "stopped": [summary.harmed.share, summary.harmed.low, summary.harmed.high],
                    "completed": [summary.completed.share, summary.completed.low, summary.completed.high],
                    "windows_to_harm": summary.windows_to_harm,
                    "waits": {
                        code: count for code, count in summary.codes.items() if not code.startswith(("harmful", "safe"))
                    },
                }
            )
    except (InvalidFieldError, ValueError) as error:
        return {"devices": 0, "windows": 0, "outcomes": [], "problem": str(error)[:500]}
    return {"devices": question["devices"], "windows": WINDOWS, "outcomes": outcomes, "problem": ""}


def _until(runs: Iterator[Any], end_s: float) -> Iterator[Any]:
    """Yield the first run, and others as long as there is time."""
    yield next(runs)
    yield from takewhile(lambda _: time.monotonic() < end_s, runs)


if __name__ == "__main__":
    sys.exit(main())
