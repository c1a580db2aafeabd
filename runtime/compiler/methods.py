"""Joins several entry points into one program: methods that share weights and what a session keeps.

Each method is compiled as a program of its own.  Constants of the same bytes are kept and stored once; buffers that
several methods change or read are one state, whatever a method calls them, if they are one tensor in torch.
"""

import copy
import hashlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from alcove.runtime.compiler.codegen import Emitted
from alcove.runtime.compiler.quantize.report import QuantizationReport
from alcove.runtime.errors import ArgumentError, ExportError, Finding, ProgramError
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import ONLY_METHOD, Data, ProgramSpec, Storage
from alcove.runtime.format.writer import write_program
from alcove.runtime.model import load
from alcove.runtime.program import Program
from torch import Tensor, nn


@dataclass(frozen=True)
class Method:
    """An entry point to export beside others: `export({"prefill": Method(...), "decode": Method(...)})`.

    Attributes:
        module: a module, or a method of one (`model.decode`), which is called in place of `forward`.
        args: one example for each argument, as `export` takes them.
        dynamic_shapes: as `export` takes it.
        calibration: real inputs of this method, where `quantize` needs them.
    """

    module: nn.Module | Callable[..., object]
    args: Sequence[object]
    dynamic_shapes: object = None
    calibration: object = None


@dataclass(frozen=True)
class Compiled:
    """An entry point after all passes.

    Attributes:
        result: the program; as bytes if its sizes vary, for those are tried on the bytes.
        passes: (name of a pass, graph after it as text), in order.
        quantization: what quantizing did; None for a program that is not quantized.
    """

    result: Emitted | bytes
    passes: Sequence[tuple[str, str]]
    quantization: QuantizationReport | None

    def write(self) -> Program:
        """Return it as a program of its own.

        Raises:
            ExportError: it is beyond a cap of the format.
        """
        data = self.result if isinstance(self.result, bytes) else self.result.write()
        return Program(data, self.passes, self.quantization)

    def share(self, constants: dict[bytes, Data]) -> "Compiled":
        """Return it with constants that others have too in place of its own.

        Args:
            constants: those so far, by digest; its own are added.
        """
        emitted = self.result if isinstance(self.result, Emitted) else Emitted(read_spec(self.result), ())
        tensors = tuple(
            replace(tensor, data=constants.setdefault(hashlib.sha256(tensor.data).digest(), tensor.data))
            if tensor.storage is Storage.CONSTANT
            else tensor
            for tensor in emitted.spec.tensors
        )
        return replace(self, result=replace(emitted, spec=replace(emitted.spec, tensors=tensors)))


def entry_of(method: Method) -> nn.Module:
    """Return a module whose `forward` is the method; parameters and buffers are those of the module itself.

    Raises:
        ArgumentError: it is neither a module nor a method of one.
    """
    if isinstance(method.module, nn.Module):
        return method.module
    owner = getattr(method.module, "__self__", None)
    if not inspect.ismethod(method.module) or not isinstance(owner, nn.Module):
        raise ArgumentError(f"a method is a module or a method of one, such as model.decode, not {method.module!r}")
    entry = copy.copy(owner)
    entry.__dict__["forward"] = method.module.__func__.__get__(entry)
    return entry


def check_methods(methods: Mapping[str, Method]) -> None:
    """Refuse what can't be the methods of a program.

    Raises:
        ArgumentError: there is none, a name is no identifier, or a value is no `Method`.
    """
    if not methods:
        raise ArgumentError("export needs a module, or at least one method")
    for name, method in methods.items():
        if not str(name).isidentifier():
            raise ArgumentError(f"a method's name is an identifier, such as 'decode', not {name!r}")
        if not isinstance(method, Method):
            raise ArgumentError(f"method {name!r} is {type(method).__name__}; give alcove.runtime.Method(module, args)")


def join_methods(
    methods: Iterable[tuple[str, Compiled]], entries: Mapping[str, nn.Module], progress: Callable[[str], None]
) -> Program:
    """Return one program with a method for each, the first as the one that a call runs.

    Args:
        methods: by name, each compiled when it is taken, so that weights of one method alone are in memory twice; one
            that is called "forward" and has no others is the program of its module.
        entries: the module of each, whose buffers say which states are one.
        progress: takes the name of a step.

    Raises:
        ArgumentError: two methods keep different buffers under one name.
        ExportError: one of them, or all together, are beyond a cap of the format.
    """
    constants: dict[bytes, Data] = {}
    compiled = {name: one.share(constants) for name, one in methods}
    progress("write")
    if set(compiled) == {ONLY_METHOD}:
        return compiled[ONLY_METHOD].write()
    emitted = {name: one.result for name, one in compiled.items() if isinstance(one.result, Emitted)}
    specs = _share_states({name: one.spec for name, one in emitted.items()}, entries)
    names = list(specs)
    others = tuple(replace(specs[name], method=name) for name in names[1:])
    passes = [(f"{name}: {title}", text) for name, one in compiled.items() for title, text in one.passes]
    report = next((one.quantization for one in compiled.values() if one.quantization), None)
    data = write_program(replace(specs[names[0]], method=names[0], others=others))
    try:
        load(data)
    except ProgramError as error:
        for one in emitted.values():
            one.write()  # one that is at fault by itself names the place in its module
        finding = Finding(op="program", module_path="", source="", suggestion=error.message)
        raise ExportError([finding]) from error
    return Program(data, passes, report)


def list_kept(changed: Mapping[str, Collection[str]], entries: Mapping[str, nn.Module]) -> dict[str, frozenset[str]]:
    """Return for each method the names of the buffers that others change and it does not.

    Args:
        changed: names of the buffers that each method changes.
        entries: the module of each.
    """
    buffers = {method: dict(entry.named_buffers(remove_duplicate=False)) for method, entry in entries.items()}
    states = {_identity(buffers[method][name]) for method, names in changed.items() for name in names}
    return {
        method: frozenset(name for name, buffer in found.items() if _identity(buffer) in states).difference(
            changed[method]
        )
        for method, found in buffers.items()
    }


def _share_states(specs: Mapping[str, ProgramSpec], entries: Mapping[str, nn.Module]) -> dict[str, ProgramSpec]:
    """Return the programs with one name for each buffer: the one that the first method has for it."""
    names: dict[tuple[int, tuple[int, ...]], str] = {}
    owners: dict[str, tuple[tuple[int, tuple[int, ...]], str]] = {}
    shared: dict[str, ProgramSpec] = {}
    for method, spec in specs.items():
        buffers = dict(entries[method].named_buffers(remove_duplicate=False))
        states = []
        for state in spec.states:
            identity = _identity(buffers[state.name])
            name = names.setdefault(identity, state.name)
            known, first = owners.setdefault(name, (identity, method))
            if known != identity:
                raise ArgumentError(
                    f"methods {first!r} and {method!r} keep different buffers that are both called {name!r}: methods "
                    "share what a session keeps, so give them one module, or other names"
                )
            states.append(replace(state, name=name))
        shared[method] = replace(spec, states=tuple(states))
    return shared


def _identity(buffer: Tensor) -> tuple[int, tuple[int, ...]]:
    return buffer.data_ptr(), tuple(buffer.shape)
