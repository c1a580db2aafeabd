"""Makes traced modules of TorchScript exportable.

TorchScript's interpreter calls torch's operators, which torch's tracer sees as those of any module.  What it keeps
outside of parameters and buffers the tracer does not see, so what sets attributes is refused, and so are scripts.
"""

import inspect
from typing import Any, Final

import torch
from alcove.runtime.errors import ExportError, Finding
from torch import nn

_TRACED: Final[Any] = vars(torch.jit)["TopLevelTracedModule"]
"""What `torch.jit.trace` makes; torch has no public name for it."""
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
        return self.script(*args)


def _with_names(script: torch.jit.ScriptModule) -> ScriptedModule:
    """Return a module whose forward has the script's parameters by name, as torch names what it traces."""

    def forward(self: ScriptedModule, *args: Any) -> Any:
        return self.script(*args)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    method: Any = script.forward
    names = ["self", *(argument.name for argument in method.schema.arguments[1:])]
    vars(forward)["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    made: ScriptedModule = type("ScriptedModule", (ScriptedModule,), {"forward": forward})(script)
    return made


def module_of(module: nn.Module) -> nn.Module:
    """Return `module`, one of TorchScript within a module that can be traced.

    Raises:
        ExportError: it was scripted, or keeps something in an attribute from one call to the next.
    """
    if not isinstance(module, torch.jit.ScriptModule):
        return module
    if not isinstance(module, _TRACED):
        reason = "it was scripted; export the torch.nn.Module that it was made from, or torch.jit.trace of that"
        raise ExportError([Finding(op="TorchScript", module_path="", source="", suggestion=reason)])
    graph: Any = module.inlined_graph
    kept = sorted({node.s("name") for node in graph.findAllNodes("prim::SetAttr", True)})
    if kept:
        reason = f"the script sets {', '.join(kept)}; export the module that it was made from"
        raise ExportError([Finding(op="TorchScript", module_path="", source="", suggestion=reason)])
    return _with_names(module)


def plain_name(name: str) -> str:
    """Return the name of a parameter or buffer as the script has it."""
    return name.removeprefix(PREFIX)
