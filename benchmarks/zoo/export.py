"""Export networks: `python -m benchmarks.zoo.export WHAT,WHAT NETWORK...`, in a process of its own.

WHAT is golden, alcove or ort, in the environment of the zoo, or litert or et, in that of the peer; what is there stays.
"""

import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from benchmarks.zoo.networks import BY_NAME, Network
from benchmarks.zoo.store import FOLDER, forget, is_settled, path_of, refusal_of, seconds_of


def _golden(network: Network, path: Path) -> None:
    with torch.no_grad():
        output = network.build()(network.example())
    if not torch.isfinite(output).all():
        raise ValueError("eager's answer is not finite")
    np.savez(path, x=network.example().numpy(), y=output.numpy())


def _alcove(network: Network, path: Path) -> None:
    from alcove.runtime import export

    module, args = network.build(), (network.example(),)
    export(torch.nn.ReLU().eval(), args)  # the first export of a process fills tables
    torch.export.export(module, args, strict=False)  # and so does the first trace of a module
    begins = [("torch.export", time.process_time())]
    torch.export.export(module, args, strict=False)
    program = export(module, args, progress=lambda step: begins.append((step, time.process_time())))
    begins.append(("", time.process_time()))
    program.save(path)
    path.chmod(0o444)
    steps = {name: end - begin for (name, begin), (_, end) in pairwise(begins)}
    seconds_of(network).write_text(json.dumps(steps) + "\n", encoding="utf-8")


def _ort(network: Network, path: Path) -> None:
    export: Any = torch.onnx.export
    export(
        network.build(),
        (network.example(),),
        path,
        dynamo=True,
        input_names=["x"],
        output_names=["y"],
        external_data=False,
        verbose=False,
    )


def _litert(network: Network, path: Path) -> None:
    library: Any = import_module("litert_torch")
    library.convert(network.build(), (network.example(),)).export(str(path))


def _et(network: Network, path: Path) -> None:
    exir: Any = import_module("executorch.exir")
    xnnpack: Any = import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
    program = torch.export.export(network.build(), (network.example(),))
    lowered = exir.to_edge_transform_and_lower(program, partitioner=[xnnpack.XnnpackPartitioner()])
    path.write_bytes(lowered.to_executorch().buffer)


EXPORTS: Final[Mapping[str, Callable[[Network, Path], None]]] = {
    "golden": _golden,
    "alcove": _alcove,
    "ort": _ort,
    "litert": _litert,
    "et": _et,
}


def main(whats: Sequence[str], names: Sequence[str]) -> None:
    """Export each network for each engine."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        for what in whats:
            if not is_settled(BY_NAME[name], what):
                _export(BY_NAME[name], what)
        torch.compiler.reset()  # what one export keeps is of no use to the next


def _export(network: Network, what: str) -> None:
    """Write the file, or beside its place why there is none."""
    forget(network, what)
    path = path_of(network, what)
    try:
        EXPORTS[what](network, path)
    except Exception as error:  # noqa: BLE001 - an exporter may fail in any way of its own
        path.unlink(missing_ok=True)
        line = re.sub("\x1b\\[[0-9;]*m", "", (str(error).strip().splitlines() or [""])[0])  # without colours
        refusal_of(network, what).write_text(f"{type(error).__name__}: {line}"[:200] + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2:])
