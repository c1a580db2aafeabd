"""Lowers what masks pick: the whole tensor, with the mask beside it (`picks.py`)."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import sympy
import torch
from alcove.runtime.compiler.lowering.nodes import symbols_of
from alcove.runtime.compiler.lowering.state import LoweringState
from alcove.runtime.compiler.nonzero import add_rows, number_places, take_rows, write_rows
from alcove.runtime.compiler.picks import (
    ADVICE,
    ELEMENTWISE,
    ROWS,
    Pick,
    broadcast,
    is_same,
    keeps_places,
    over_places,
    pick,
    safe_arguments,
    write_back,
)
from alcove.runtime.compiler.rules import RULES, Call, Refused
from alcove.runtime.compiler.sizes import broadcast_shapes
from alcove.runtime.format.spec import DType
from torch import Tensor, fx
from torch._ops import OpOverload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alcove.runtime.compiler.graph import Value

_SELECT: Final = "aten.masked_select.default"
_NONZERO: Final = "aten.nonzero.default"
_PICKING: Final = ("aten.index.Tensor", _SELECT)
_PUT: Final = ("aten.index_put.default", "aten._unsafe_index_put.default")
_VIEWS: Final = tuple(
    f"aten.{name}"
    for name in ("view.default", "reshape.default", "_unsafe_view.default", "squeeze.dim", "squeeze.dims")
)


class MaskLowering(LoweringState):
    """Lowers calls that pick by a mask, and those that take what one picked."""

    def _picks(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        """Lower a call that picks by a mask, or takes what one picked; return whether it is one."""
        target = str(node.target)
        sources = {argument: self.picks[argument] for argument in node.all_input_nodes if argument in self.picks}
        if not sources:
            is_begun = target in _PICKING and self._begin_pick(node, fakes)
            return is_begun or (target == _NONZERO and self._begin_places(node, fakes))
        picked = next(iter(sources.values()))
        if any(not is_same(self.builder, other.mask, picked.mask) for other in sources.values()):
            raise Refused(f"it takes what different masks pick; {ADVICE}")
        if target in _VIEWS and len(node.all_input_nodes) == 1:
            self._view_picked(node, fakes[0], picked)
            return True
        call = self._bind_picked(node, fakes, picked)
        named = {name: sources[value] for name, value in self._argument_nodes(node).items() if value in sources}
        if self._at_places(node, fakes, call, named, sources):
            return True
        if len(named) < len(sources):
            raise Refused(ADVICE)
        rule = RULES.get(target)
        if rule is None:
            self._opaque(node, "")
            return True
        is_elementwise = target in ELEMENTWISE or torch.Tag.pointwise in getattr(node.target, "tags", ())
        ragged = [fake for fake in fakes if self._is_ragged(fake)]
        if is_elementwise and ragged:
            broadcast(call, named, len(ragged[0].shape), self._moved_pick(picked, ragged[0]).axis)
        elif not (target in ROWS and ROWS[target](call, named)):
            if set(named) != {"self"} or bool(ragged) != keeps_places(call):
                raise Refused(ADVICE)
            results = over_places(self.builder, call, named["self"], rule)
            self._keep_picked(node, fakes, picked, results)
            return True
        call = replace(call, arguments=safe_arguments(self.builder, call, named))
        self._keep_picked(node, fakes, picked, rule(call, self.builder))
        return True

    def _at_places(
        self,
        node: fx.Node,
        fakes: list[Tensor],
        call: Call,
        named: "Mapping[str, Pick]",
        sources: "Mapping[fx.Node, Pick]",
    ) -> bool:
        """Lower a call that reads or writes by picked numbers, or under a mask; return whether it is one."""
        is_indexed = call.target == "aten.index.Tensor" or call.target in _PUT
        indices = cast("Sequence[fx.Node | None]", node.args[1]) if is_indexed else ()
        picks = {place: sources[one] for place, one in enumerate(indices) if one is not None and one in sources}
        if picks and "self" not in named:
            if call.target in _PUT:
                self.results[node] = (write_rows(self.builder, call, picks),)
            else:
                rows = RULES[call.target](take_rows(self.builder, call, picks), self.builder)
                self._keep_picked(node, fakes, next(iter(picks.values())), rows)
            return True
        if call.target == "aten.index_add.default" and "index" in named and "self" not in named:
            self.results[node] = (add_rows(self.builder, call, named["index"], named.get("source")),)
            return True
        if call.target in _PUT and set(named) == {"values"} and not picks:
            self.results[node] = (write_back(self.builder, call, call.tensor("values"), named["values"]),)
            return True
        return False

    def _view_picked(self, node: fx.Node, fake: Tensor, picked: Pick) -> None:
        """Lower a view that leaves the places a dimension of their own."""
        (x,) = self.results[node.all_input_nodes[0]]
        moved = self._moved_pick(picked, fake)
        shape = [
            x.shape[picked.axis] if axis == moved.axis else self._number(size, is_shape=True)
            for axis, size in enumerate(fake.shape)
        ]
        if math.prod(shape[: moved.axis]) != math.prod(x.shape[: picked.axis]):
            raise Refused(ADVICE)
        self.results[node] = (self.builder.reshape(x, shape),)
        self.picks[node] = moved

    def _begin_places(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        argument = cast("fx.Node", node.args[0])
        if argument not in self.results or not self._is_ragged(fakes[0]):
            return False
        (x,) = self.results[argument]
        if x.is_ragged or x.dtype is DType.TEXT:
            return False
        numbers, picked = number_places(self.builder, x)
        self._begin(node, fakes[0], numbers, picked)
        return True

    def _begin(self, node: fx.Node, fake: Tensor, whole: "Value", picked: Pick) -> None:
        """Let a node be what a mask picks of a whole tensor."""
        if self._least_picked(fake, picked.mask.shape[0]):
            self.nonempty.append(picked)
        self.counts |= dict.fromkeys(symbols_of(fake) - self.numbers.keys(), picked)
        self.results[node] = (whole,)
        self.picks[node] = self._moved_pick(picked, fake)

    def _keep_picked(self, node: fx.Node, fakes: list[Tensor], picked: Pick, results: Any) -> None:
        self.results[node] = results if isinstance(results, tuple) else (results,)
        ragged = [fake for fake in fakes if self._is_ragged(fake)]
        if ragged:
            self.picks[node] = self._moved_pick(picked, ragged[0])

    def _begin_pick(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        arguments = self._argument_nodes(node)
        given = cast("Sequence[fx.Node | None]", node.args[1]) if "indices" in arguments or len(node.args) > 1 else ()
        masks = [node.args[1]] if str(node.target) == _SELECT else [one for one in given if one is not None]
        if len(masks) != 1 or not self._is_ragged(fakes[0]) or self._shape_of(node.args[0]) is None:
            return False
        (mask,) = self.results[cast("fx.Node", masks[0])]
        (x,) = self.results[cast("fx.Node", node.args[0])]
        if any(value.is_ragged or value.dtype is DType.TEXT for value in (x, mask)):
            return False
        indices: list[Any] = (
            [mask if one is not None else None for one in given] if str(node.target) != _SELECT else [mask]
        )
        if str(node.target) == _SELECT:
            shape = broadcast_shapes(x.shape, mask.shape)
            x, indices = self.builder.expand(x, shape), [self.builder.expand(mask, shape)]
        begun = pick(self.builder, x, indices)
        if begun is None:
            return False
        self._begin(node, fakes[0], *begun)
        return True

    def _shape_of(self, argument: Any) -> Any:
        return self.results.get(argument)

    def _argument_nodes(self, node: fx.Node) -> dict[str, fx.Node]:
        """Return the arguments that are nodes, by name."""
        if not isinstance(node.target, OpOverload):
            return {}
        names = [parameter.name for parameter in node.target._schema.arguments]  # noqa: SLF001 - see `_bind`
        named = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        return {name: value for name, value in named.items() if isinstance(value, fx.Node)}

    def _bind_picked(self, node: fx.Node, fakes: list[Tensor], picked: Pick) -> Call:
        """Return the call as one of whole tensors."""
        known = self.numbers
        symbols = set().union(*(symbols_of(fake) for fake in fakes)) - known.keys()
        self.counted = symbols
        self.numbers = known | dict.fromkeys(symbols, picked.mask.shape[0])
        try:
            return self._bind(node, fakes)
        finally:
            self.numbers = known
            self.counted = set()

    def _moved_pick(self, picked: Pick, fake: Tensor) -> Pick:
        """Return where the places count in a result."""
        sizes: list[Any] = list(fake.shape)
        ragged = [
            axis for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt) and not self._is_known(size)
        ]
        if len(ragged) != 1 or not sizes[ragged[0]].node.expr.is_Symbol:
            raise Refused(ADVICE)
        return Pick(picked.mask, ragged[0])

    def _least_picked(self, fake: Tensor, most: int) -> int:
        """Return the least number of elements, of 0 to `most`, that the module takes a mask to pick: 0 or 1.

        Raises:
            Refused: it asserts something else of that number.
        """
        symbols, least = symbols_of(fake) - self.numbers.keys(), 0
        program = self.captured.program
        conditions = [
            node.args[0].meta.get("val")
            for node in program.graph.nodes
            if str(node.target) == "aten._assert_scalar.default" and isinstance(node.args[0], fx.Node)
        ]
        for symbol in symbols:
            bounds = program.range_constraints.get(symbol)
            if bounds is not None and (bounds.lower > 1 or bounds.upper < most):
                self.asserted = f"the module asserts how many elements a mask picks; {ADVICE}"
            least = max(least, 0 if bounds is None else int(bounds.lower))
        for value in conditions:
            if not isinstance(value, torch.SymBool) or not symbols & value.node.expr.free_symbols:
                continue
            condition = value.node.expr.subs(self.numbers)
            if isinstance(condition, sympy.Eq) and all(side.is_Symbol for side in condition.args):
                continue  # torch's own, of two masks: where both meet, they are compared
            holds = [bool(condition.subs(dict.fromkeys(symbols, count)) == True) for count in (0, 1, most)]  # noqa: E712 - sympy's
            if not isinstance(condition, sympy.Le | sympy.Ge | sympy.Gt | sympy.Ne) or not all(holds[1:]):
                self.asserted = f"the module asserts how many elements a mask picks; {ADVICE}"
            least = max(least, 0 if holds[0] else 1)
        return least
