"""Makes modules of TorchScript exportable, traced or scripted.

TorchScript's interpreter calls torch's operators, which torch's tracer sees as those of any module; branches on sizes
are taken as with the example, branches on data end the trace.  What the interpreter keeps outside of parameters and
buffers the tracer does not see, so what changes attributes is refused.
"""

import inspect
from typing import Any, Final

import torch
from alcove.runtime.errors import ExportError, Finding
from torch import nn

_CHANGES: Final = ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", "_set_item", "Delete")
"""What changes a list or dictionary."""
PREFIX: Final = "script."
"""Of the names of a script's parameters in the module around it."""


class ScriptedModule(nn.Module):
    """Calls a module of TorchScript."""

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        super().__init__()
        self.script = script
        self.training = script.training

    def forward(self, *args: Any) -> Any:
        """Run."""
        return _run(self.script, *args)


def _run(script: torch.jit.ScriptModule, *args: Any) -> Any:
    # The method itself: calls of a scripted module in a trace end in the Python function that it was made from.
    untyped: Any = script
    return untyped._c._get_method("forward")(*args)  # noqa: SLF001 - torch has no public way


def _with_names(script: torch.jit.ScriptModule) -> ScriptedModule:
    """Return a module whose forward has the script's parameters by name, as torch names what it traces."""

    def forward(self: ScriptedModule, *args: Any) -> Any:
        return _run(self.script, *args)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    method: Any = script.forward
    parameters = [inspect.Parameter("self", kind)]
    for argument in method.schema.arguments[1:]:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        parameters.append(inspect.Parameter(argument.name, kind, default=default))
    vars(forward)["__signature__"] = inspect.Signature(parameters)
    made: ScriptedModule = type("ScriptedModule", (ScriptedModule,), {"forward": forward})(script)
    return made


def _changed_attributes(script: torch.jit.ScriptModule) -> set[str]:
    """Return the names of attributes that a run changes in another way than tensors in place."""
    graph: Any = script.inlined_graph
    changed: set[str] = set()
    for node in graph.findAllNodes("prim::SetAttr", True):
        # `self.count += 1` of a tensor changes it in place, and sets the attribute to what it is already.
        source = _source_of(list(node.inputs())[1].node())
        if source is None or source.s("name") != node.s("name"):
            changed.add(node.s("name"))
    for change in _CHANGES:
        for node in graph.findAllNodes(f"aten::{change}", True):
            source = next(node.inputs()).node()
            if source.kind() == "prim::GetAttr":
                changed.add(source.s("name"))
    return changed


def _source_of(node: Any) -> Any | None:
    """Return what reads the attribute that an operation changes in place; None for any other operation."""
    while node.kind().startswith("aten::") and node.kind().endswith("_"):
        node = next(node.inputs()).node()
        if node.kind() == "prim::GetAttr":
            return node
    return None


def module_of(module: nn.Module) -> nn.Module:
    """Return `module`, one of TorchScript within a module that can be traced.

    Raises:
        ExportError: it keeps something in an attribute from one call to the next.
    """
    if not isinstance(module, torch.jit.ScriptModule):
        return module
    kept = _changed_attributes(module)
    if kept:
        reason = f"the script changes {', '.join(sorted(kept))}; keep it in buffers, which programs have as states"
        raise ExportError([Finding(op="TorchScript", module_path="", source="", suggestion=reason)])
    return _with_names(module)


def plain_name(name: str) -> str:
    """Return the name of a parameter or buffer as the script has it."""
    return name.removeprefix(PREFIX)
