"""Time a peer with some threads: `python -m benchmarks.scale.threaded_peer PEER MODEL THREADS`, in its environment.

The peers' own script (`../shared/peers/bench_one.py`) runs each of them with one thread.  This one gives them more, and
keeps its protocol: as many repeats, as long ones, and a line RESULT with the same names.  PEERS_ART says where the
model's files are.  Numpy and the peer are imported, torch only where the peer takes its tensors.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

REPEATS: Final = 5
REPEAT_S: Final = 0.7
CALLS: Final = range(40, 4001)
"""How many calls a repeat has."""

Floats = NDArray[np.float32]
Peer = tuple[Callable[[], Any], Callable[[Any], Any]]
"""A call with bound inputs, and what reads the output from its result."""


def litert(path: Path, x: Floats, threads: int) -> Peer:
    """XNNPACK's pool."""
    library: Any = import_module("ai_edge_litert.interpreter")
    result = library.Interpreter(model_path=f"{path}.tflite", num_threads=threads)
    result.allocate_tensors()
    result.set_tensor(result.get_input_details()[0]["index"], x)
    output = result.get_output_details()[0]["index"]
    return result._interpreter.Invoke, lambda _: result.get_tensor(output)  # noqa: SLF001 - as the peers' script calls it


def openvino(path: Path, x: Floats, threads: int) -> Peer:
    """One stream of a number of threads, siblings of one core included: they are counted as cores here."""
    ov: Any = import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_HYPER_THREADING": True,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(f"{path}.xml", "CPU", settings).create_infer_request()
    request.set_input_tensor(0, ov.Tensor(x, shared_memory=True))
    infer = import_module("openvino._pyopenvino").InferRequest.infer
    return (
        lambda: infer(request, {}, share_outputs=True, decode_strings=False),
        lambda _: request.get_output_tensor(0).data,
    )


def ort(path: Path, x: Floats, threads: int) -> Peer:
    """The pool within an operator; operators run one by one."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = ort.InferenceSession(f"{path}.onnx", options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    output = session.get_outputs()[0]
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros(output.shape, np.float32))
    binding.bind_ortvalue_output(output.name, value)
    run, bound = session._sess.run_with_iobinding, binding._iobinding  # noqa: SLF001 - as the peers' script calls it
    return lambda: run(bound, None), lambda _: value.numpy()


def et(path: Path, x: Floats, threads: int) -> Peer:
    """The pool that XNNPACK takes, created with a number of threads."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    library: Any = import_module("executorch.extension.pybindings.portable_lib")
    library._unsafe_reset_threadpool(threads)  # noqa: SLF001 - the only way there is
    model = library._load_for_executorch(f"{path}.pte")  # noqa: SLF001 - as the peers' script calls it
    inputs = [torch.from_numpy(x)]
    return lambda: model.forward(inputs, clone_outputs=False), lambda outputs: outputs[0].numpy()


PEERS: Final = {"litert": litert, "openvino": openvino, "ort": ort, "et": et}


def time_call(call: Callable[[], object]) -> dict[str, float]:
    """Return the lowest median of the repeats, in microseconds, and how many cores were busy in that repeat."""
    start = time.perf_counter()
    call()
    count = int(min(CALLS[-1], max(CALLS[0], REPEAT_S / max(time.perf_counter() - start, 1e-6))))
    for _ in range(min(count, 200)):
        call()
    repeats = []
    for _ in range(REPEATS):
        times = np.empty(count)
        wall, busy = time.perf_counter(), time.process_time()
        for i in range(count):
            before = time.perf_counter()
            call()
            times[i] = time.perf_counter() - before
        used = (time.process_time() - busy) / (time.perf_counter() - wall)
        repeats.append((float(np.median(times)) * 1e6, used))
    (best, used), (worst, _) = min(repeats), max(repeats)
    return {"p50_us": best, "worst_median_us": worst, "runs": count * REPEATS, "busy_cores": used}


def main(peer: str, model: str, threads: int) -> None:
    """Load, compare with torch's answer, time, print."""
    path = Path(os.environ["PEERS_ART"]) / model
    golden = np.load(f"{path}.npz")
    x = golden["in0"]  # named here because some peers keep its address alone
    call, read = PEERS[peer](path, x, threads)
    error = float(np.abs(np.asarray(read(call())).reshape(-1) - golden["out0"].reshape(-1)).max())
    found = {"peer": peer, "model": model, "threads": threads, "max_abs_err": error, **time_call(call)}
    print("RESULT " + json.dumps(found), flush=True)
    os._exit(0)  # some peers hang or crash when their threads are ended


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
