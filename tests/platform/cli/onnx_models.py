"""Makes small models in the ONNX format, and computes them by the importer and by ONNX's own definition."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")
onnx = pytest.importorskip("onnx", reason="ONNX files are read with onnx: install alcove-platform[onnx]")

Arrays = dict[str, Any]
RNG = np.random.default_rng(3)


def f32(*shape: int) -> Any:
    """Return weights."""
    return (RNG.normal(size=shape) * 0.4).astype(np.float32)


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    weights: Arrays | None = None,
    opset: int = 17,
    *,
    kind: int = 1,
) -> Any:
    """Return a model of nodes, with float32 inputs unless `kind` says otherwise."""
    helper = onnx.helper
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node; names are separated by blanks, `_` is left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    made = outputs.split()
    return onnx.helper.make_node(kind, names, made, name=f"{kind}_of_{made[0]}", **attributes)


def save(model: Any, path: Path) -> Path:
    """Write a model."""
    onnx.save(model, str(path))
    return path


def answers(model: Any, inputs: Arrays, **options: Any) -> list[Any]:
    """Return the outputs of the module that is made of a model."""
    from alcove.platform.cli.importing.onnx_files.make import module_of

    module = module_of(model, Path(), {name: array.shape for name, array in inputs.items()}, **options)
    with torch.no_grad():
        found = module(*(torch.from_numpy(inputs[name]) for name in module.input_names))
    return [each.numpy() for each in found.values()]


def reference(model: Any, inputs: Arrays) -> list[Any]:
    """Return the outputs of ONNX's own slow definition."""
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, inputs))


def words(said: Any) -> str:
    """Return what a command wrote as an error, on one line."""
    return " ".join(said.err.replace("│", " ").split())
