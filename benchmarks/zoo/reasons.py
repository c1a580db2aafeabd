"""Says where the time of a network goes: `python -m benchmarks.zoo.reasons NETWORK`, in a process of its own."""

import json
import sys
from collections import Counter

import numpy as np
from alcove.runtime.format.reader import read_spec
from alcove.runtime.model import load
from alcove.runtime.profile.fused import parts_of

from benchmarks.zoo.networks import BY_NAME
from benchmarks.zoo.store import newest

RUNS = 7


def shares(name: str) -> dict[str, float]:
    """Return the share of each operator in the time of a network, the largest first."""
    path, golden = newest(BY_NAME[name], "alcove"), newest(BY_NAME[name], "golden")
    if path is None or golden is None:
        return {}
    program = path.read_bytes()
    with np.load(golden) as arrays:
        given = [np.ascontiguousarray(arrays["x"])]
    session = load(program).session()
    session(*given)
    steps = np.median(np.diff(session.timestamps(given, RUNS), axis=1), axis=0)
    spent: Counter[str] = Counter()
    for op, time_ns in zip(read_spec(program).ops, steps, strict=False):
        spent[op.name if op.name not in {"unary", "binary", "reduce"} else parts_of(op)[0]] += int(time_ns)
    total = sum(spent.values()) or 1
    return {op: time_ns / total for op, time_ns in spent.most_common()}


def main() -> None:
    """Measure and print one line of JSON."""
    print("RESULT " + json.dumps(shares(sys.argv[1])), flush=True)


if __name__ == "__main__":
    main()
