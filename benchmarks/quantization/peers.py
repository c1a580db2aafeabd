"""Quantizes modules by ONNX Runtime and by torchao, where they are installed, with the samples that alcove is given.

Scores are kept in a file, since only alcove changes between two measurements.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from benchmarks.quantization.network import Recorder, noise_db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from benchmarks.quantization.network import Network, Score


def score_onnxruntime(module: nn.Module, samples: list[Tensor], score: Score) -> float | None:
    """Return the score of a statically quantized module (QDQ, per channel); None without onnxruntime and onnx."""
    if any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "onnx", "onnxscript")):
        return None
    runtime: Any = importlib.import_module("onnxruntime")
    quantization: Any = importlib.import_module("onnxruntime.quantization")
    shapes: Any = importlib.import_module("onnxruntime.quantization.shape_inference")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc] # the base is untyped
        def __init__(self, name: str) -> None:
            self._samples: Iterator[dict[str, Any]] = iter([{name: sample.numpy()} for sample in samples])

        def get_next(self) -> dict[str, Any] | None:
            return next(self._samples, None)

    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        plain, ready, small = (Path(folder) / f"{name}.onnx" for name in ("plain", "ready", "small"))
        torch.onnx.export(module, (samples[0],), plain, dynamo=True, verbose=False, external_data=False)
        shapes.quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        name = runtime.InferenceSession(ready, options).get_inputs()[0].name
        quantization.quantize_static(
            str(ready), str(small), Reader(name), quant_format=quantization.QuantFormat.QDQ, per_channel=True
        )
        session = runtime.InferenceSession(small, options)
        return score(lambda x: session.run(None, {name: x}))


def score_torchao(module: nn.Module, samples: list[Tensor], score: Score) -> float | None:
    """Return the score of a module that PT2E has quantized for x86 (uint8 activations, int8 by channel); None without.

    Its reference form is run: float32 arithmetic between quantize and dequantize.
    """
    if importlib.util.find_spec("torchao") is None:
        return None
    pt2e: Any = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    x86: Any = importlib.import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with torch.no_grad():
        prepared = pt2e.prepare_pt2e(torch.export.export(module, (samples[0],)).module(), quantizer)
        for sample in samples:
            prepared(sample)
        converted = pt2e.convert_pt2e(prepared)

        def run(x: Any) -> list[Any]:
            found = converted(torch.from_numpy(np.ascontiguousarray(x)))
            return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]

        return score(run)


PEERS: Final[dict[str, Callable[[nn.Module, list[Tensor], Score], float | None]]] = {
    "onnxruntime": score_onnxruntime,
    "torchao": score_torchao,
}
"""By the name of the package."""


def scores(network: Network, kept: Path, exact: Recorder) -> list[tuple[float, float | None] | None]:
    """Return the score of each peer, and its dB beside what `exact` holds.

    They are from `kept` where it has those of the same package, weights, samples and test.
    """
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    found: list[tuple[float, float | None] | None] = []
    for package, score in PEERS.items():
        if importlib.util.find_spec(package) is None:
            found.append(None)
            continue
        key = f"{package} {importlib.metadata.version(package)} {_digest(network)}"
        if key not in known:
            recorders: list[Recorder] = []

            def measure(run: Any, recorders: list[Recorder] = recorders) -> float:
                recorders.append(Recorder(run))
                return network.score(recorders[0])

            result = score(network.module, network.samples, measure)
            known[key] = [result, noise_db(exact, recorders[0])]
            kept.write_text(json.dumps(known, indent=1), encoding="utf-8")
        found.append(tuple(known[key]))
    return found


def _digest(network: Network) -> str:
    hashed = hashlib.sha256(f"{network.title} {network.unit} {network.tested}".encode())
    for tensor in (*network.module.state_dict().values(), *network.samples):
        hashed.update(np.ascontiguousarray(tensor.detach().numpy()).tobytes())
    return hashed.hexdigest()[:16]
