"""Time one network on all engines by turns: `python -m benchmarks.zoo.call NETWORK SECONDS ROUNDS`, in one process.

Blocks of calls take turns, so that a slow moment hits all of a round.  Each engine has one thread and bound inputs.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.networks import BY_NAME
from benchmarks.zoo.store import newest

Floats = NDArray[np.float32]
Engine = tuple[Callable[[], Any], Callable[[Any], Any]]
"""A call, and what reads the answer from its result."""
FEWEST: Final = 3
"""Calls of a block; the first of each brings its weights back into the caches and does not count."""


def _alcove(path: Path, x: Floats) -> Engine:
    from alcove.runtime.model import load

    session = load(path).session()
    return lambda: session(x), lambda outputs: outputs[0]


def _ort(path: Path, x: Floats) -> Engine:
    library: Any = import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, x)
    output = session.get_outputs()[0]
    value = library.OrtValue.ortvalue_from_numpy(np.zeros(output.shape, np.float32))
    binding.bind_ortvalue_output(output.name, value)
    return lambda: session.run_with_iobinding(binding), lambda _: value.numpy()


def _litert(path: Path, x: Floats) -> Engine:
    library: Any = import_module("ai_edge_litert.interpreter")
    result = library.Interpreter(model_path=str(path), num_threads=1)
    result.allocate_tensors()
    result.set_tensor(result.get_input_details()[0]["index"], x)
    output = result.get_output_details()[0]["index"]
    return result.invoke, lambda _: result.get_tensor(output)


def _et(path: Path, x: Floats) -> Engine:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    library: Any = import_module("executorch.extension.pybindings.portable_lib")
    library._unsafe_reset_threadpool(1)  # noqa: SLF001 - the only way there is
    model = library._load_for_executorch(str(path))  # noqa: SLF001 - as its own examples do
    inputs = [torch.from_numpy(x)]
    return lambda: model.forward(inputs, clone_outputs=False), lambda outputs: outputs[0].numpy()


ENGINES: Final[Mapping[str, Callable[[Path, Floats], Engine]]] = {
    "alcove": _alcove,
    "ort": _ort,
    "litert": _litert,
    "et": _et,
}


def _block(call: Callable[[], Any], count: int) -> float:
    """Return the median of some calls after one, in microseconds."""
    call()
    times = np.empty(count)
    for i in range(count):
        start = time.perf_counter_ns()
        call()
        times[i] = time.perf_counter_ns() - start
    return float(np.median(times)) / 1000


def measure(name: str, seconds: float, rounds: int) -> dict[str, Any]:
    """Return each engine's times in microseconds, round by round, its difference from eager, and what failed."""
    network = BY_NAME[name]
    golden = newest(network, "golden")
    if golden is None:
        return {"failed": {"golden": "not exported"}}
    with np.load(golden) as arrays:
        x, expected = np.ascontiguousarray(arrays["x"]), arrays["y"]
    calls: dict[str, Callable[[], Any]] = {}
    differences: dict[str, float] = {}
    failed: dict[str, str] = {}
    for engine, start in ENGINES.items():
        path = newest(network, engine)
        if path is None:
            continue
        try:
            call, read = start(path, x)
            actual = np.asarray(read(call()), np.float64).reshape(expected.shape)
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
            failed[engine] = f"{type(error).__name__}: {error}"[:160]
            continue
        calls[engine] = call
        differences[engine] = float(np.abs(actual - expected).max() / np.abs(expected).max())
    counts = {engine: max(FEWEST, round(seconds * 1e6 / rounds / _block(call, 1))) for engine, call in calls.items()}
    times: dict[str, list[float]] = {engine: [] for engine in calls}
    for _ in range(rounds):
        for engine, call in calls.items():
            times[engine].append(_block(call, counts[engine]))
    return {"times_us": times, "differences": differences, "failed": failed}


def main() -> None:
    """Measure and print one line of JSON."""
    name, seconds, rounds = sys.argv[1:]
    print("RESULT " + json.dumps(measure(name, float(seconds), int(rounds))), flush=True)


if __name__ == "__main__":
    main()
