"""Quantizes modules by ONNX Runtime, where it is installed, with the samples that alcove is given."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn


def score_onnxruntime(module: nn.Module, samples: list[Tensor], score: Callable[[Any], float]) -> float | None:
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
