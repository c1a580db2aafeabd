"""Describes a program: its signature, operators, weights, memory plan, certificate and provenance.

One dictionary of plain values: `alcove model inspect` prints it, `--json` gives it away, `--html` and the console draw
it.  Where sizes come with the inputs, operators and memory plan are those at the greatest sizes.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from alcove.runtime import Model
from alcove.runtime.certificate.document import TOLERANCES, parse
from alcove.runtime.errors import CertificateError
from alcove.runtime.format import records
from alcove.runtime.format.fixed import at_sizes
from alcove.runtime.format.liveness import compute_live_ranges
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, ProgramSpec, Storage, TensorSpec
from alcove.runtime.profile.fused import parts_of
from alcove.runtime.profile.measure import module_of, shape_text
from alcove.runtime.profile.work import work_of

if TYPE_CHECKING:
    from alcove.runtime.profile import Profile

__all__ = ["summarize_program"]


def summarize_program(
    data: bytes,
    model: Model,
    name: str,
    *,
    package: Mapping[str, Any] | None = None,
    profile: "Profile | None" = None,
) -> dict[str, Any]:
    """Return what a program is.

    Args:
        data: its bytes.
        model: loaded from them, with the method of which ports, states, operators and weights are told.
        name: of its file.
        package: what its package's manifest says of it: feature, version, variant, manifest_sha256, lineage.
        profile: adds times, and takes operators and memory plan at its sizes.

    Raises:
        ProgramError: its bytes are no valid program.
    """
    whole = read_spec(data).find_method(model.name)
    spec = profile.spec if profile else at_sizes(whole, [symbol.max for symbol in whole.symbols])
    _, major, minor, *_ = records.HEADER.unpack_from(data)
    facts: dict[str, Any] = {
        "file": name,
        "digest": model.digest,
        "format": f"{major}.{minor}",
        "size_bytes": len(data),
        "memory_ceiling_bytes": model.memory_ceiling_bytes,
        "arena_bytes": spec.arena_bytes,
        "weights_bytes": sum(len(tensor.data) for tensor in spec.tensors),
        "certificate_bytes": len(model.certificate),
        "certificate": _certificate(model),
        "provenance": _provenance(spec, package),
        "methods": list(model.methods),
        "method": model.name,
        "sizes": [{"name": symbol.name, "min": symbol.min, "max": symbol.max} for symbol in whole.symbols],
        "ports": _ports(model),
        "states": list(model.states),
        "ops": _ops(spec),
        "weights": _weights(spec),
        "plan": _plan(spec),
    }
    if profile:
        _add_times(facts, profile)
    return facts


def _ports(model: Model) -> list[dict[str, Any]]:
    return [
        {
            "direction": direction,
            "name": port.name,
            "dtype": port.dtype.name.lower(),
            "shape": list(port.shape),
            "dims": list(port.dims),
            "is_ragged": port.is_ragged,
            "labels": len(port.labels),
        }
        for direction, ports in (("input", model.inputs), ("output", model.outputs))
        for port in ports
    ]


def _certificate(model: Model) -> dict[str, Any] | None:
    if not model.certificate:
        return None
    try:
        document = parse(model.certificate)
    except CertificateError as error:
        return {"problem": str(error)}
    return {
        "licence": document.licence,
        "tolerance": document.tolerance,
        "bound": TOLERANCES[document.tolerance],
        "samples": len(document.samples),
        "sources": sorted({sample.source for sample in document.samples}),
        "sha256": hashlib.sha256(model.certificate).hexdigest(),
    }


def _provenance(spec: ProgramSpec, package: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the files of the model that operators name, and what a package's manifest says of this very program."""
    files = sorted({op.source.rpartition(":")[0] for op in spec.ops if op.source})
    return {"model_files": files, "package": package and dict(package)}


def _ops(spec: ProgramSpec) -> list[dict[str, Any]]:
    found = []
    for index, op in enumerate(spec.ops):
        work = work_of(spec, op)
        found.append({
            "index": index,
            "op": op.name,
            "parts": parts_of(op),
            "source": op.source,
            "module": module_of(spec, op),
            "takes": shape_text(spec, op.inputs),
            "gives": shape_text(spec, op.outputs[:1]),
            "attributes": [value if math.isfinite(value) else str(value) for value in op.attributes],  # as JSON has it
            "inputs": list(op.inputs),
            "outputs": list(op.outputs),
            "weight_bytes": work.weight_bytes,
            "activation_bytes": work.activation_bytes,
            "flops": work.flops,
        })  # fmt: skip
    return found


def _describe_tensor(tensor: TensorSpec) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype.name.lower(), "shape": list(tensor.shape)}


def _weights(spec: ProgramSpec) -> list[dict[str, Any]]:
    """Return the constants, largest first, with the operators that read them."""
    readers: dict[int, list[int]] = {}
    for at, op in enumerate(spec.ops):
        for index in op.inputs:
            readers.setdefault(index, []).append(at)
    constants = [
        _describe_tensor(tensor)
        | {"size_bytes": len(tensor.data), "layout": tensor.layout.name.lower(), "ops": readers.get(at, [])}
        for at, tensor in enumerate(spec.tensors)
        if tensor.storage is Storage.CONSTANT
    ]
    return sorted(constants, key=lambda weight: (-weight["size_bytes"], weight["name"]))


def _plan(spec: ProgramSpec) -> list[dict[str, Any]]:
    """Return every tensor of the arena with its bytes and its life; steps are operators, -1 is before the first."""
    lives = compute_live_ranges(spec)
    return [
        _describe_tensor(spec.tensors[index])
        | {
            "tensor": index,
            "offset": spec.tensors[index].offset,
            "size_bytes": spec.tensors[index].size_bytes,
            "first": first,
            "last": last,
        }
        for index, (first, last) in lives.items()
        if spec.tensors[index].dtype is not DType.TEXT
    ]


def _add_times(facts: dict[str, Any], profile: "Profile") -> None:
    for op, timed in zip(facts["ops"], profile.ops, strict=True):
        op |= {
            "time_us": timed.time_us,
            "share": timed.share,
            "floor_us": timed.floor_us,
            "roofline": timed.roofline,
            "bound": timed.bound,
            "weight_bytes": timed.work.weight_bytes,
            "activation_bytes": timed.work.activation_bytes,
        }
    facts["profile"] = {
        "runs": profile.runs,
        "isa": profile.machine.isa,
        "threads": profile.machine.threads,
        "sizes": dict(profile.sizes),
        "ops_us": profile.ops_us,
        "call_us": profile.call_us,
        "outside_us": profile.outside_us,
        "f32_gflops": profile.machine.f32_gflops,
        "i8_gops": profile.machine.i8_gops,
    }
