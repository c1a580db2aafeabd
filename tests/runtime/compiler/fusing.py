"""What the tests of fusions share: a function compiled with and without the pass, against torch."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from alcove.runtime import load
from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.fuse import fuse
from alcove.runtime.compiler.layout import layout
from alcove.runtime.compiler.legalize import legalize
from alcove.runtime.compiler.lower import lower
from torch import Tensor, nn


class Of(nn.Module):
    """A function of its inputs and its layers, which are all given to it."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, *inputs: Tensor) -> Any:
        """Run."""
        return self.function(*inputs, *self.layers)


def fuse_ops(function: Callable[..., Any] | nn.Module, *inputs: Tensor) -> Counter[str]:
    """Return the operators after the pass, movements aside; the program answers as before, and as torch does."""
    module = (function if isinstance(function, nn.Module) else Of(function)).eval()
    before = layout(legalize(eliminate_dead_code(lower(capture(module, inputs, None)))))
    after = fuse(before)
    with torch.no_grad():
        eager = module(*inputs)
    expected = [y.numpy() for y in (eager if isinstance(eager, tuple) else (eager,))]
    for graph in (before, after):
        answers = load(generate_program(graph))(*(x.numpy() for x in inputs))
        for seen, wanted in zip(answers, expected, strict=True):
            np.testing.assert_allclose(seen, wanted, rtol=1e-4, atol=1e-5)
    assert len(after.nodes) <= len(before.nodes)
    return Counter(node.op for node in after.nodes if node.op not in {"as_strided_copy", "reshape"})
