"""Runs one engine on one network, block by block as it is asked: `python engine.py ENGINE MODEL INPUTS THREADS ANSWER`.

A process of its own for each engine, which keeps its threads, so that blocks of several engines can take turns.  It
needs numpy and the engine alone, since the peers' interpreter may be another than ours.  It writes the network's answer
to ANSWER and says that it is ready; each line of standard input is a number of calls, and what comes back is their
median in microseconds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

Inputs = Sequence[Any]
Call = Callable[[], Any]


def _alcove(path: str, inputs: Inputs, threads: int) -> Call:
    session = import_module("alcove.runtime").load(Path(path)).session(threads=threads)
    return lambda: session(*inputs)[0]


def _ort(path: str, inputs: Inputs, threads: int) -> Call:
    library = import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = library.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for port, value in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(port.name, value)
    binding.bind_output(session.get_outputs()[0].name)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()

    return call


def _litert(path: str, inputs: Inputs, threads: int) -> Call:
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter(model_path=path, num_threads=threads)
    interpreter.allocate_tensors()
    ports = sorted(interpreter.get_input_details(), key=lambda port: str(port["name"]))
    for port, value in zip(ports, inputs, strict=True):
        interpreter.set_tensor(port["index"], value)
    output = interpreter.get_output_details()[0]["index"]

    def call() -> Any:
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return call


ENGINES: Final = {"alcove": _alcove, "ort": _ort, "litert": _litert}


def main() -> None:
    """Load, answer once, then time blocks until standard input ends."""
    name, model, given, threads, answer = sys.argv[1:]
    with np.load(given) as arrays:
        inputs = [np.ascontiguousarray(arrays[key]) for key in sorted(arrays.files)]
    call = ENGINES[name](model, inputs, int(threads))
    np.save(answer, np.asarray(call()))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        times_ns = []
        for _ in range(int(line)):
            start_ns = time.perf_counter_ns()
            call()
            times_ns.append(time.perf_counter_ns() - start_ns)
        print(json.dumps(statistics.median(times_ns) / 1000), flush=True)


if __name__ == "__main__":
    main()
