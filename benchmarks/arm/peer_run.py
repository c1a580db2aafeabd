"""Runs a peer's model for the plugin that counts: `peer_run.py PEER FILE INPUTS.npz TIMES`, by a Python for 64-bit ARM.

After a first run, getppid() stands before and after TIMES runs.  Only numpy and the peer are imported.  The exit code
is 1 where an answer is not the one of the file.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402  (after the variables that it reads)

Runner = tuple[Callable[[], object], Callable[[], list[Any]]]
"""What runs, and what gives the answers of the last run."""
TOLERANCE = 0.1
"""Of an answer: int8 models are far from float32, and wrong ones farther."""


def onnxruntime(path: str, inputs: list[Any], outputs: list[Any]) -> Runner:
    """Bind inputs and outputs once, one thread."""
    engine: Any = importlib.import_module("onnxruntime")
    options = engine.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = engine.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for port, value in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(port.name, value)
    results = [engine.OrtValue.ortvalue_from_numpy(np.zeros_like(value)) for value in outputs]
    for port, value in zip(session.get_outputs(), results, strict=True):
        binding.bind_ortvalue_output(port.name, value)
    run, bound = session._sess.run_with_iobinding, binding._iobinding  # noqa: SLF001  (the leanest call there is)
    return lambda: run(bound, None), lambda: [value.numpy() for value in results]


def ncnn(path: str, inputs: list[Any], outputs: list[Any]) -> Runner:
    """Compute in float32, as the others do; inputs are wrapped once, one thread."""
    engine: Any = importlib.import_module("ncnn")
    net = engine.Net()
    net.opt.num_threads = 1
    net.opt.use_vulkan_compute = False
    for name in ("use_bf16_storage", "use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, name, False)
    if net.load_param(f"{path}/m.ncnn.param") or net.load_model(f"{path}/m.ncnn.bin"):
        raise RuntimeError("load failed")
    mats = []
    for given in inputs:
        value = given.astype(np.int32) if given.dtype == np.int64 else given
        if value.ndim == 4 or (value.dtype == np.int32 and value.ndim > 1):
            value = value[0]
        elif len(inputs) == 1:
            value = value.reshape(-1)
        mats.append(engine.Mat(np.ascontiguousarray(value)).clone())
    last: list[Any] = []

    def run() -> None:
        extractor = net.create_extractor()
        for index, mat in enumerate(mats):
            extractor.input(f"in{index}", mat)
        last[:] = [extractor.extract(f"out{index}") for index in range(len(outputs))]

    return run, lambda: [np.array(result[1]) for result in last]


def litert(path: str, inputs: list[Any], _: list[Any]) -> Runner:
    """Set inputs once, one thread; numbers of int8 are scaled as the model says."""
    engine: Any = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = engine.Interpreter(model_path=path, num_threads=1)
    interpreter.allocate_tensors()
    ports = interpreter.get_input_details()
    for index, given in enumerate(inputs):
        port = next((port for port in ports if port["name"].endswith(f"args_{index}:0")), ports[index])
        scale, zero = port["quantization"]
        value = np.clip(np.round(given / scale + zero), -128, 127) if port["dtype"] == np.int8 else given
        interpreter.set_tensor(port["index"], value.astype(port["dtype"]))

    def read(port: Any) -> Any:
        value = interpreter.get_tensor(port["index"])
        scale, zero = port["quantization"]
        return (value.astype(np.float32) - zero) * scale if value.dtype == np.int8 else value

    invoke = interpreter._interpreter.Invoke  # noqa: SLF001  (the leanest call there is)
    return invoke, lambda: [read(port) for port in interpreter.get_output_details()]


def main() -> int:
    """Run, and compare the answers; they may come in another order."""
    peer, path, values, times = sys.argv[1:]
    file = np.load(values)
    inputs = [file[f"in{index}"] for index in range(int(file["n_in"]))]
    expected = [file[f"out{index}"] for index in range(int(file["n_out"]))]
    run, answers = {"onnxruntime": onnxruntime, "ncnn": ncnn, "litert": litert}[peer](path, inputs, expected)
    run()
    os.getppid()
    for _ in range(int(times)):
        run()
    os.getppid()
    left = [np.asarray(answer, np.float64).reshape(-1) for answer in answers()]
    for value in expected:
        fitting = [place for place, answer in enumerate(left) if answer.size == value.size]
        error = float(np.abs(left.pop(fitting[0]) - value.reshape(-1)).max()) if fitting else float("inf")
        if not error < TOLERANCE:
            print(f"answers are {error} away", file=sys.stderr, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # engines' own threads and destructors need not end in an emulator
