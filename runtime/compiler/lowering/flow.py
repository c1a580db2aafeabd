"""Lowers torch's control flow: cond, while_loop, map and scan (`control_flow.py`)."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import torch
from alcove.runtime.compiler.control_flow import CONTROL_FLOW, Inline, Part, deciding_truth
from alcove.runtime.compiler.graph import Origin
from alcove.runtime.compiler.lowering.masks import MaskLowering
from alcove.runtime.compiler.lowering.nodes import attribute_of, origin_of, tensors_of
from alcove.runtime.compiler.rules import TEXT_ONLY, Refused
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.spec import DType
from torch import Tensor, fx
from torch._ops import OpOverload


class FlowLowering(MaskLowering):
    """Lowers calls of torch graphs by torch's control flow, and what follows from the numbers that it decides."""

    @abstractmethod
    def _run_part(self, graph: fx.GraphModule, parts: Sequence[Part], origin: Origin, prefix: str) -> list[Part]:
        """Lower a graph that `origin` calls, with these arguments, and return its results."""

    def _flow(self, node: fx.Node, fakes: list[Tensor]) -> None:
        """Lower a call of torch's control flow."""
        try:
            if self.unsized.intersection(node.all_input_nodes):
                self._follow(node, fakes)
                return
            if str(node.target) not in CONTROL_FLOW:
                self._opaque(node, "")
                return
            arguments = [self._flow_argument(argument) for argument in node.args]
            self.several[node] = CONTROL_FLOW[str(node.target)](self.builder, arguments, self._run_inline(node))
        except Refused as refused:
            self._opaque(node, str(refused))

    def _flow_argument(self, argument: Any) -> Any:
        """Return a torch graph, a part, or a list of those."""
        if isinstance(argument, tuple | list):
            return [self._flow_argument(part) for part in argument]
        if isinstance(argument, fx.Node) and argument.op == "get_attr":
            return attribute_of(argument)
        return self._part(argument)

    def _part(self, argument: Any) -> Part:
        if not isinstance(argument, fx.Node):
            return Part(number=argument)
        if argument in self.picks or argument in self.pairs:
            what = "what a mask picks" if argument in self.picks else "complex numbers"
            raise Refused(f"control flow over tensors; it takes {what}")
        if argument in self.several:
            raise Refused("control flow over tensors, one by one")
        if argument in self.numbers_of:
            return Part(number=self.numbers_of[argument])
        if not tensors_of(argument):
            return Part(number=self._number(argument.meta["val"]))
        (value,) = self.results[argument]
        if value.is_ragged or value.dtype is DType.TEXT:
            raise Refused(TEXT_ONLY)
        return Part(value=value, constant=None if self.computes_sizes else self.constants.get(argument))

    def _run_inline(self, caller: fx.Node) -> Inline:
        def run(graph: fx.GraphModule, parts: Sequence[Part], step: str) -> list[Part]:
            prefix = f"{self.prefix}{caller.name}/{step}/" if step else f"{self.prefix}{caller.name}/"
            results = self._run_part(graph, parts, origin_of(caller), prefix)
            self.builder.start(f"{prefix}results", origin_of(caller))
            return results

        return run

    def _bind_part(self, node: fx.Node, part: Part) -> None:
        if part.value is None:
            self.numbers_of[node] = part.number
            return
        self.results[node] = (part.value,)
        if part.constant is not None:
            self.constants[node] = part.constant

    def _follow_number(self, node: fx.Node) -> None:
        """Compute a number that follows from one that control flow decides."""
        if not any(argument in self.numbers_of for argument in node.all_input_nodes) or isinstance(
            node.target, OpOverload
        ):
            return
        try:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._resolve)
            self.numbers_of[node] = cast("Any", node.target)(*args, **kwargs)
        except Refused:
            self.numbers_of[node] = None

    def _absorb(self, node: fx.Node) -> bool:
        """Make a truth a constant that one constant operand decides; return whether it is."""
        values = [self.constants.get(argument) for argument in node.all_input_nodes]
        decided = None if all(value is None for value in values) else deciding_truth(str(node.target), values)
        if decided is None or any(fake.dim() for fake in tensors_of(node)) or self.computes_sizes:
            return False
        self._constant(node, COMPUTED + self.prefix + node.name, torch.tensor(decided))
        return True
