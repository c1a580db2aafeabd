"""Orders the dimensions of activations: sinks permutes below operators until they cancel.

Rules of images permute to channels-last before their operator and back after it.  This pass sinks each permute below
the operators that follow, as long as those can work on the other order, until it meets its inverse and both are gone.
What is left permutes where an operator insists, at inputs and at outputs.

A value that a permute would make is only a *view* at first: an order of another value, its base.  An operator with a
way here works on the bases and hands an order on; for any other the permute is made, once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.builder import row_major_strides
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import NONE, Graph, Node, Origin, Value
from alcove.runtime.compiler.permutations import (
    Copy,
    Permutation,
    apply,
    compose,
    inverse,
    is_identity,
    keeps_elements,
    order_of_ones,
    order_of_strides,
    reshape_view,
    steps_of_strides,
)
from alcove.runtime.compiler.sizes import is_at_most
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.attributes import (
    AsStridedCopyAttributes,
    ConcatAttributes,
    LayerNormAttributes,
    PadAttributes,
    ReduceAttributes,
)
from alcove.runtime.format.named_attributes import Attributes

Choices = dict[str, Permutation | None]
"""The order in which the operands of a node were joined, None for their own, by the key of its result."""


def layout(graph: Graph, choices: Choices | None = None) -> Graph:
    """Return the graph with as few permutes as sinking them leaves; outputs and states keep their order.

    Args:
        graph: of one module, at given sizes.
        choices: what was chosen at the sizes before; what is chosen now is added. What costs least depends on the
            sizes, but a program has the same operators at all of them.
    """
    return eliminate_dead_code(_Layout(graph, {} if choices is None else choices).run())


class EmptyTensorError(ZeroDivisionError):
    """A tensor that an operator works with has no elements at these sizes: its strides are 0, and say nothing.

    Attributes:
        origin: of the operator.
    """

    def __init__(self, origin: Origin) -> None:
        super().__init__(f"{origin.op}: a tensor that it works with has no elements")
        self.origin = origin


class _Layout:
    """One walk over a graph."""

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self.graph = graph
        self.choices = choices
        self.values: dict[str, Value] = dict(graph.values)
        self.nodes: list[Node] = []
        self.views: dict[str, tuple[str, Permutation, Origin]] = {}  # view -> its base, its order, who asked for it
        self.view_of: dict[tuple[str, Permutation], str] = {}  # the first view of a base by an order
        self.materialized: set[str] = set()  # views that are values by now
        self.arranged: dict[tuple[str, Permutation], str] = {}  # (value, order) -> base with that order
        self.copied: dict[str, tuple[str, Copy]] = {}  # result of a strided copy -> what it reads

    def run(self) -> Graph:
        for node in self.graph.nodes:
            way = _WAYS.get(node.op)
            try:
                is_done = way is not None and way(self, node)
            except ZeroDivisionError:
                raise EmptyTensorError(node.origin) from None
            if not is_done:
                self.keep(node)
        for key in [port.value for port in self.graph.outputs] + [state.update for state in self.graph.states]:
            self.materialize(key)
        return replace(self.graph, values=self.values, nodes=tuple(self.nodes))

    # -- views ----------------------------------------------------------------------------------------------------

    def shape(self, key: str) -> tuple[int, ...]:
        return self.values[key].shape

    def add_view(self, key: str, base: str, order: Permutation, origin: Origin) -> None:
        """Let `key` be a view."""
        self.views[key] = (base, order, origin)
        self.view_of.setdefault((base, order), key)

    def order(self, key: str) -> Permutation | None:
        """Return the order of a view, or None."""
        return self.views[key][1] if key in self.views else None

    def materialize(self, key: str) -> str:
        """Make a view a value, for an operator that insists; return its key."""
        if key not in self.views or key in self.materialized:
            return key
        self.materialized.add(key)
        base, order, origin = self.views[key]
        self._permute(base, order, key, origin)
        return key

    def keep(self, node: Node) -> None:
        """Add a node that insists on the order of its inputs."""
        for key in node.inputs:
            self.materialize(key)
        self.nodes.append(node)

    def base(self, key: str, order: Permutation) -> str:
        """Return a value whose view by `order` is `key`."""
        if key in self.views and self.views[key][1] == order:
            return self.views[key][0]
        if (key, order) in self.arranged:
            return self.arranged[key, order]
        back = inverse(order)
        value = self.values[key]
        if value.constant is not None:
            moved = self.new(key, value, apply(back, value.shape))
            computed = value.name if value.name.startswith(COMPUTED) else COMPUTED + key
            array = value.constant.transpose(back).copy()
            self.values[moved] = replace(self.values[moved], name=computed, constant=array)
        else:
            source, own, origin = self.views.get(key, (key, tuple(range(len(order))), Origin("layout")))
            own = compose(own, back)
            if (source, own) in self.view_of:
                return self.materialize(self.view_of[source, own])
            moved = self.new(key, value, apply(back, value.shape))
            self._permute(source, own, moved, origin)
        self.arranged[key, order] = moved
        return moved

    def cost(self, key: str, order: Permutation) -> int:
        """Return how many elements `base` would have to move."""
        if key in self.views:
            base, own, _ = self.views[key]
            return 0 if keeps_elements(compose(own, inverse(order)), self.shape(base)) else self.elements(key)
        is_free = self.values[key].constant is not None or keeps_elements(inverse(order), self.shape(key))
        is_there = (key, order) in self.arranged or (key, inverse(order)) in self.view_of
        return 0 if is_free or is_there else self.elements(key)

    def elements(self, key: str) -> int:
        """Return how many elements a value has at these sizes."""
        return math.prod(map(int, self.shape(key)))

    def new(self, key: str, like: Value, shape: Sequence[int]) -> str:
        """Add a value of the type of `like`; return its key."""
        count = 1
        while (name := f"{key}:moved{count if count > 1 else ''}") in self.values:
            count += 1
        self.values[name] = replace(like, key=name, name=name, shape=tuple(shape), constant=None)
        return name

    def sink(self, node: Node, inputs: Sequence[str], order: Permutation, attributes: Attributes | None = None) -> bool:
        """Add `node` working on bases; its result has a view by `order`."""
        attributes = node.attributes if attributes is None else attributes
        view = node.outputs[0]
        base = view
        if not is_identity(order):
            value = self.values[view]
            base = self.new(view, value, apply(inverse(order), value.shape))
            self.add_view(view, base, order, node.origin)
        self.nodes.append(replace(node, inputs=tuple(inputs), outputs=(base, *node.outputs[1:]), attributes=attributes))
        return True

    def _permute(self, base: str, order: Permutation, out: str, origin: Origin) -> None:
        shape = self.shape(base)
        if keeps_elements(order, shape):
            self.reshape(base, out, origin)
            return
        self.copy(base, Copy(0, apply(order, row_major_strides(shape))), out, origin)

    def reshape(self, source: str, out: str, origin: Origin) -> None:
        """Add a reshape; where it moves ones alone, its result is as much a copy as `source` is."""
        if source in self.copied:
            first, copy = self.copied[source]
            strides = [step for step, size in zip(copy.strides, self.shape(source), strict=True) if size != 1]
            kept = [size for size in self.shape(source) if size != 1]
            if kept == [size for size in self.shape(out) if size != 1]:
                steps = iter(strides)
                moved = tuple(0 if size == 1 else next(steps) for size in self.shape(out))
                self.copied[out] = (first, Copy(copy.offset, moved))
        self.nodes.append(Node("reshape", (source,), (out,), NONE, origin))

    def copy(self, source: str, copy: Copy, out: str, origin: Origin) -> None:
        """Add a strided copy; of what another one has copied, it reads what that one read."""
        if source in self.copied and is_at_most(math.prod(self.shape(out)), math.prod(self.shape(source))):
            first_source, first = self.copied[source]
            both = first.then(self.shape(source), self.shape(out), copy)
            if both is not None:
                source, copy = first_source, both
        self.copied[out] = (source, copy)
        attributes = AsStridedCopyAttributes(offset=copy.offset, strides=copy.strides)
        self.nodes.append(Node("as_strided_copy", (source,), (out,), attributes, origin))


Way = Callable[[_Layout, Node], bool]
"""Adds a node on bases, or hands a view on, and returns True; or does nothing and returns False."""


def _elementwise(walk: _Layout, node: Node) -> bool:
    order = walk.order(node.inputs[0])
    return order is not None and walk.sink(node, [walk.base(node.inputs[0], order)], order)


def _choose_order(walk: _Layout, node: Node) -> Permutation | None:
    """Return the order in which operands of one node are best joined, None for their own."""
    keys, out = node.inputs, node.outputs[0]
    rank = len(walk.shape(out))
    found = {order: None for key in keys if len(walk.shape(key)) == rank and (order := walk.order(key)) is not None}
    if not found:
        return None
    if out in walk.choices:
        return walk.choices[out]
    best = min(found, key=lambda order: sum(walk.cost(key, order) for key in keys if len(walk.shape(key)) == rank))
    sinking = sum(walk.cost(key, best) for key in keys if len(walk.shape(key)) == rank)
    staying = sum(walk.elements(key) for key in keys if walk.order(key) is not None and key not in walk.materialized)
    return walk.choices.setdefault(out, best if sinking <= staying else None)


def _broadcast(walk: _Layout, node: Node) -> bool:
    rank = len(walk.shape(node.outputs[0]))
    order = _choose_order(walk, node)
    if order is None:
        return False
    return walk.sink(node, [walk.base(_widen(walk, key, rank), order) for key in node.inputs], order)


def _widen(walk: _Layout, key: str, rank: int) -> str:
    """Return operand `key` with ones before its shape, so that it has `rank`."""
    value = walk.values[key]
    missing = rank - len(value.shape)
    if missing == 0:
        return key
    shape = (1,) * missing + value.shape
    wide = walk.new(key, value, shape)
    if value.constant is not None:
        walk.values[wide] = replace(walk.values[wide], name=value.name, constant=value.constant.reshape(shape))
    else:
        walk.reshape(walk.materialize(key), wide, Origin("layout"))
    return wide


def _concat(walk: _Layout, node: Node) -> bool:
    order = _choose_order(walk, node)
    if order is None:
        return False
    attributes = ConcatAttributes(axis=order[node.read(ConcatAttributes).axis])
    return walk.sink(node, [walk.base(key, order) for key in node.inputs], order, attributes)


def _pad(walk: _Layout, node: Node) -> bool:
    order = walk.order(node.inputs[0])
    if order is None:
        return False
    settings = node.read(PadAttributes)
    back = inverse(order)
    attributes = replace(settings, before=apply(back, settings.before), after=apply(back, settings.after))
    return walk.sink(node, [walk.base(node.inputs[0], order)], order, attributes)


def _reduce(walk: _Layout, node: Node) -> bool:
    order = walk.order(node.inputs[0])
    if order is None:
        return False
    attributes = node.read(ReduceAttributes)
    axes = order[attributes.first_axis : attributes.first_axis + attributes.axis_count]
    if list(axes) != list(range(axes[0], axes[0] + attributes.axis_count)):
        return False
    kept = [axis for axis in range(len(order)) if axis not in axes]
    left = tuple(kept.index(axis) for axis in order if axis not in axes)
    return walk.sink(node, [walk.base(node.inputs[0], order)], left, replace(attributes, first_axis=axes[0]))


def _last_axes(count: Callable[[Node], int]) -> Way:
    """Return the way of an operator over its last `count(node)` dimensions, which must be the base's last too."""

    def way(walk: _Layout, node: Node) -> bool:
        order = walk.order(node.inputs[0])
        if order is None:
            return False
        rank, last = len(order), count(node)
        if order[rank - last :] != tuple(range(rank - last, rank)):
            return False
        rest = [walk.materialize(key) for key in node.inputs[1:]]
        return walk.sink(node, [walk.base(node.inputs[0], order), *rest], order)

    return way


def _reshape(walk: _Layout, node: Node) -> bool:
    key, view = node.inputs[0], node.outputs[0]
    if key not in walk.views:
        moved_ones = order_of_ones(walk.shape(key), walk.shape(view))
        if moved_ones is None or walk.values[key].constant is not None:
            walk.reshape(key, view, node.origin)
            return True
        walk.add_view(view, key, moved_ones, node.origin)
        return True
    base, order, _ = walk.views[key]
    found = reshape_view(order, walk.shape(base), walk.shape(view))
    if found is None:
        return False
    left, shape = found
    if is_identity(left):
        walk.reshape(base, view, node.origin)
        return True
    moved = base
    if shape != walk.shape(base):
        moved = walk.new(view, walk.values[view], shape)
        walk.reshape(base, moved, node.origin)
    walk.add_view(view, moved, left, node.origin)
    return True


def _as_strided_copy(walk: _Layout, node: Node) -> bool:
    """Hand a permute on as a view; slice and repeat the base of one."""
    key, view = node.inputs[0], node.outputs[0]
    attributes = node.read(AsStridedCopyAttributes)
    offset, strides = attributes.offset, attributes.strides
    shape, out = walk.shape(key), walk.shape(view)
    order = order_of_strides(shape, out, offset, strides)
    if order is not None:
        base, own, _ = walk.views.get(key, (key, tuple(range(len(shape))), node.origin))
        both = compose(own, order)
        if is_identity(both):
            walk.reshape(base, view, node.origin)
        else:
            walk.add_view(view, base, both, node.origin)
        return True
    copy = Copy(offset, tuple(strides[: len(out)]))
    own_order = walk.order(key)
    steps = steps_of_strides(shape, out, offset, strides)
    if own_order is None or steps is None:
        return _sink_copy(walk, node, copy)
    base = walk.base(key, own_order)
    back = inverse(own_order)
    sizes = row_major_strides(walk.shape(base))
    starts, strides_by_axis = (apply(back, numbers) for numbers in steps)
    moved = tuple(step * size for step, size in zip(strides_by_axis, sizes, strict=True))
    start = sum(first * size for first, size in zip(starts, sizes, strict=True))
    sliced = walk.new(view, walk.values[view], apply(back, out))
    walk.copy(base, Copy(start, moved), sliced, node.origin)
    walk.add_view(view, sliced, own_order, node.origin)
    return True


def _sink_copy(walk: _Layout, node: Node, copy: Copy) -> bool:
    """Copy a value, or what a view sees."""
    key, view = node.inputs[0], node.outputs[0]
    if key in walk.views:
        base, order, _ = walk.views[key]
        views = Copy(0, apply(order, row_major_strides(walk.shape(base))))
        both = views.then(walk.shape(key), walk.shape(view), copy)
        if both is not None and is_at_most(math.prod(walk.shape(view)), math.prod(walk.shape(key))):
            walk.copy(base, both, view, node.origin)
            return True
    walk.copy(walk.materialize(key), copy, view, node.origin)
    return True


_WAYS: Final[Mapping[str, Way]] = {
    "unary": _elementwise,
    "cast": _elementwise,
    "binary": _broadcast,
    "where": _broadcast,
    "concat": _concat,
    "pad": _pad,
    "reduce": _reduce,
    "softmax": _last_axes(lambda _: 1),
    "layer_norm": _last_axes(lambda node: node.read(LayerNormAttributes).axis_count),
    "reshape": _reshape,
    "as_strided_copy": _as_strided_copy,
}
