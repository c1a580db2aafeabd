"""Times a peer in its own environment: `python -m benchmarks.language_models.peer_run`, then what `main` reads.

Prints the least seconds of a call, of prompts or tokens as `run.py` gives them.
"""

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.language_models.limits import POSITIONS, load_module


def open_llama(path: str, length: int, threads: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what empties the cache of a llama.cpp context, and what runs one batch up to its last logits."""
    api = load_module("llama_cpp")
    api.llama_backend_init()
    model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
    options = api.llama_context_default_params()
    options.n_ctx, options.n_batch, options.no_perf = POSITIONS, 512, True
    options.n_threads = options.n_threads_batch = threads
    context = api.llama_init_from_model(model, options)
    tokens = (ctypes.c_int32 * length)(*((37 * i + 5) % 1000 for i in range(length)))

    def clear() -> None:
        api.llama_memory_clear(api.llama_get_memory(context), True)

    def run() -> None:
        if api.llama_decode(context, api.llama_batch_get_one(tokens, length)):
            raise RuntimeError("llama_decode failed")
        api.llama_get_logits_ith(context, -1)

    return clear, run


def open_onnx(path: str, length: int, threads: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what empties the cache of a generator of ONNX Runtime, and what runs tokens up to their last logits."""
    api = load_module("onnxruntime_genai")
    config = Path(path, "genai_config.json")
    text = json.loads(config.read_text(encoding="utf-8"))
    text["model"]["decoder"]["session_options"] |= {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
    config.write_text(json.dumps(text), encoding="utf-8")
    model = api.Model(path)
    options = api.GeneratorParams(model)
    options.set_search_options(max_length=POSITIONS, do_sample=False)
    generator = api.Generator(model, options)
    tokens = np.array([(37 * i + 5) % 1000 for i in range(length)], np.int32)

    def clear() -> None:
        generator.rewind_to(0)

    def run() -> None:
        generator.append_tokens(tokens)

    return clear, run


def main() -> int:
    """Run FILE of PEER with LENGTH tokens a call and so many THREADS for SECONDS, and at least five calls."""
    peer, path, length, threads, seconds = (
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        float(sys.argv[5]),
    )
    clear, run = {"llama.cpp": open_llama, "ONNX Runtime": open_onnx}[peer](path, length, threads)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        clear()
        for _ in range(POSITIONS // length // 2):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
            if time.perf_counter() > until:
                break
    print(min(times))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
