"""Converts an exported network in a peer's own environment: `python convert.py PEER NETWORK.pt2 INPUTS MODEL FORM`.

NETWORK.pt2 is what `torch.export.save` wrote, INPUTS an `.npz` of the inputs that calibrate, FORM is f32 or int8.
Needs torch and the peer's converter, no alcove; the conversions are those of `../shared/peers/export.py`.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch


def _ort(program: Any, names: list[str], inputs: dict[str, Any], model: Path, form: str) -> None:
    plain = model.with_suffix(".plain.onnx") if form == "int8" else model
    torch.onnx.export(program, (), str(plain), input_names=names, dynamo=True, external_data=False, verbose=False)
    if form == "f32":
        return
    quantization = import_module("onnxruntime.quantization")
    prepared = model.with_suffix(".prepared.onnx")
    import_module("onnxruntime.quantization.shape_inference").quant_pre_process(str(plain), str(prepared))

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        """Gives the inputs once."""

        def __init__(self) -> None:
            self.left = [inputs]

        def get_next(self) -> dict[str, Any] | None:
            """Return the next inputs, None after the last."""
            return self.left.pop() if self.left else None

    quantization.quantize_static(
        str(prepared),
        str(model),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )


def _litert(program: Any, names: list[str], inputs: dict[str, Any], model: Path, form: str) -> None:
    plain = model.with_suffix(".plain.tflite") if form == "int8" else model
    given = tuple(torch.from_numpy(inputs[name]) for name in names)
    import_module("litert_torch").convert(program.module().eval(), given).export(str(plain))
    if form == "f32":
        return
    quantizer = import_module("ai_edge_quantizer.quantizer").Quantizer(str(plain))
    quantizer.load_quantization_recipe(import_module("ai_edge_quantizer.recipe").static_wi8_ai8())
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter(model_path=str(plain))
    signature, ports = next(iter(interpreter.get_signature_list().items()))
    calibration = {signature: [dict(zip(sorted(ports["inputs"]), (inputs[name] for name in names), strict=True))]}
    quantizer.quantize(quantizer.calibrate(calibration)).export_model(str(model), overwrite=True)


def main() -> None:
    """Convert."""
    peer, network, given, model, form = sys.argv[1:]
    torch.set_num_threads(1)
    with np.load(given) as arrays:
        inputs = {name: arrays[name] for name in sorted(arrays.files)}
    convert = {"ort": _ort, "litert": _litert}[peer]
    convert(torch.export.load(network), list(inputs), inputs, Path(model), form)


if __name__ == "__main__":
    main()
