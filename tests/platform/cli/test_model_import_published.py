"""`alcove model import --onnx`: published networks in today's and in the first versions' forms give the same numbers.

The graphs come with the package onnx, without their weights; these are made here.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.platform.cli.onnx_models import answers, onnx

helper, numpy_helper = onnx.helper, onnx.numpy_helper
FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
ROLES = ("scale", "shift", "mean", "var")
"""Inputs of a batch norm after the first."""


def read_published(name: str) -> Any:
    """Return a network with weights of the size that He et al. (2015) start from."""
    model = onnx.load(str(FOLDER / f"light_{name}.onnx"))
    graph, random = model.graph, np.random.default_rng(5)
    held = {each.name: each for each in graph.initializer}
    roles = {
        key: role
        for node in graph.node
        if node.op_type == "BatchNormalization"
        for role, key in zip(ROLES, node.input[1:], strict=True)
    }
    kept, made = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = numpy_helper.to_array(held[node.input[0]]).tolist()
        role = roles.get(node.output[0], "weight" if len(shape) > 1 else "shift")
        if role in {"scale", "var"}:
            values = random.uniform(0.5, 1.5, shape)
        else:
            spread = np.sqrt(2 / np.prod(shape[1:])) if role == "weight" else 0.1
            values = random.normal(0, spread, shape)
        made.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
    read = {name for node in kept for name in node.input}
    made += [each for each in graph.initializer if each.name in read]
    ports = [each for each in graph.input if each.name in read - {tensor.name for tensor in made}]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(kept)
    graph.initializer.extend(made)
    graph.input.extend(ports)
    return model


def write_first_forms(model: Any) -> Any:
    """Return the network as files of opset 3 have it: sizes in attributes, weights among the inputs."""
    model = copy.deepcopy(model)
    held = {each.name: each for each in model.graph.initializer}
    for node in model.graph.node:
        new: dict[str, Any] = {}
        if node.op_type == "BatchNormalization":
            new = {"is_test": 1, "spatial": 1, "consumed_inputs": [0, 0, 0, 1, 1]}
        elif node.op_type == "Dropout":
            new = {"is_test": 1}
        elif node.op_type == "Gemm":
            new = {"broadcast": 1}
        elif node.op_type == "Reshape":
            new = {"shape": numpy_helper.to_array(held[node.input[1]]).tolist()}
            del node.input[1]
        elif node.op_type in {"Add", "Mul"}:
            second = held.get(node.input[1])
            new = {"broadcast": 1}
            if second is not None and len(second.dims) == 3:
                second.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(second).reshape(-1), second.name))
                new |= {"axis": 1}
        elif node.op_type == "Conv":
            node.attribute.remove(next(each for each in node.attribute if each.name == "kernel_shape"))
        node.attribute.extend(helper.make_attribute(name, value) for name, value in new.items())
    model.ir_version = 3
    model.opset_import[0].version = 3
    model.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in held.values()
    )
    return model


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v2"])
def test_a_published_network_is_the_same_in_the_first_forms(name: str) -> None:
    """Squeezes, shuffles, batch norms, as ONNX Runtime computes them where it is installed."""
    model = read_published(name)
    port = model.graph.input[0]
    shape = [each.dim_value for each in port.type.tensor_type.shape.dim]
    inputs = {port.name: np.random.default_rng(7).normal(size=shape).astype(np.float32)}
    today, first = answers(model, inputs)[0], answers(write_first_forms(model), inputs)[0]
    assert np.ptp(today) > 1e-4
    np.testing.assert_allclose(first, today, atol=1e-5 * np.ptp(today))
    try:
        import onnxruntime
    except ImportError:
        return
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(today, session.run(None, inputs)[0], atol=1e-4 * np.ptp(today))
