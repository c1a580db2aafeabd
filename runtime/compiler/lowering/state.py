"""What a walk over a torch graph knows, and how constants, arguments and sizes become values of the program's graph."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from alcove.runtime.compiler.builder import FOLLOWER
from alcove.runtime.compiler.capture import Captured, Symbol
from alcove.runtime.compiler.graph import Port, State, Value
from alcove.runtime.compiler.lowering.nodes import advise_type, has_place, is_row_major, tensors_of
from alcove.runtime.compiler.picks import ADVICE, Pick, count_picked
from alcove.runtime.compiler.rules import DTYPES, Call, Refused, Result
from alcove.runtime.compiler.rules.complex_numbers import Pair, pair_of
from alcove.runtime.compiler.sizes import Size, size_of, whole
from alcove.runtime.compiler.suggestions import is_listed
from alcove.runtime.compiler.symint_lowering import Origins, SizedBuilder, with_origins
from alcove.runtime.compiler.weights import COMPUTED, toggle_transposed
from alcove.runtime.format.spec import DType
from torch import Tensor, fx
from torch._ops import HigherOrderOperator, OpOverload

if TYPE_CHECKING:
    from alcove.runtime.compiler.control_flow import Part

_STORAGE_VIEWS: Final = {f"aten.as_strided{kind}.default" for kind in ("", "_copy", "_scatter")}
"""They count in torch's storage; a program's tensors are row-major."""
_ONE_PLACE: Final = ("aten.select.int", "aten.select_scatter.default")
"""They may take the number of a place from a tensor."""
_TRANSPOSES: Final = {"aten.t.default", "aten.permute.default", "aten.transpose.int", "aten.numpy_T.default"}


class LoweringState:
    """What is known of the nodes so far; those who lower a kind of nodes build on it.

    Args:
        captured: as `capture` gives it.
        sizes: a number for each of `captured.symbols` by name.
        computes_sizes: whether the program computes what follows from sizes that vary, instead of holding constants.
    """

    prefix = ""  # of the names of values, where the graph is part of another

    def __init__(self, captured: Captured, sizes: Mapping[str, int], *, computes_sizes: bool = False) -> None:
        self.captured = captured
        self.sizes = tuple(sizes.items())
        self._known_sizes: dict[Any, int] = {}
        self.numbers = captured.substitution(sizes)
        self.computes_sizes = computes_sizes
        self.builder = SizedBuilder(captured.space, [size for _, size in self._symbol_sizes()])
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self.states: dict[str, tuple[str, str]] = {}  # buffer -> what nodes read, what a session starts with
        self.updates: list[State] = []
        self.results: dict[fx.Node, tuple[Value, ...]] = {}
        self.pairs: dict[fx.Node, tuple[Pair, ...]] = {}  # of nodes that give complex tensors, in place of results
        self.constants: dict[fx.Node, Tensor] = {}
        self.folded: dict[fx.Node, tuple[Tensor, ...]] = {}  # of nodes with several results
        self.labels: dict[str, tuple[str, ...]] = {}
        self.unsized: set[fx.Node] = set()  # refused ones whose shapes depend on data: no rule can ask for those
        self.numbers_of: dict[fx.Node, Any] = {}  # of nodes that give a number, which control flow decides
        self.several: dict[fx.Node, list[Part]] = {}  # results of control flow
        self.picks: dict[fx.Node, Pick] = {}  # of nodes whose results are what a mask picks, as the whole tensor
        self.counts: dict[Any, Pick] = {}  # by torch's symbol for how many a mask picks
        self.nonempty: list[Pick] = []  # masks of which the module asserts that they pick something
        self.asserted = ""  # why no output can be one: the module asserts what no program does
        self.counted: set[Any] = set()  # those that stand for all places at the moment
        self.keeps = False  # whether the constants of the node at hand are not computed with now

    # -- constants -----------------------------------------------------------------------------------------------

    def _resolve(self, node: fx.Node) -> Any:
        """Return a constant's elements, a size, or for what a factory imitates any tensor of its shape and type."""
        fake = node.meta["val"]
        if node in self.numbers_of:
            return self._known_number(node)
        if not isinstance(fake, Tensor):
            return self._number(fake)
        if node in self.constants:
            return self.constants[node]
        shape = (1,) if self._is_ragged(fake) else self._shape(fake)
        return torch.empty(shape, dtype=fake.dtype)

    def _constant_name(self, node: fx.Node, result: Tensor) -> str:
        """Return the parameter's name where it can be found back in the program, else a name that says "computed"."""
        sources = node.all_input_nodes
        if len(sources) == 1 and sources[0] in self.constants and sources[0] in self.results:
            before, name = self.constants[sources[0]], self.results[sources[0]][0].name
            if before.dtype == result.dtype and before.shape == result.shape and torch.equal(before, result):
                return name
            if str(node.target) in _TRANSPOSES and before.dim() == 2 and torch.equal(before.T, result):
                return toggle_transposed(name)
        return COMPUTED + self.prefix + node.name

    def _constant(self, node: fx.Node, name: str, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """Let a node be a constant.

        Args:
            node: torch's.
            name: what the program calls it.
            tensor: its elements.
            shape: the tensor's, where some of its sizes vary.
        """
        self.constants[node] = tensor
        if tensor.is_complex():
            self.pairs[node] = (pair_of(self.builder, tensor.detach().resolve_conj().resolve_neg().numpy()),)
        else:
            self.results[node] = (self._as_value(tensor, name, shape),)

    def _constants(self, node: fx.Node, tensors: tuple[Tensor, ...]) -> None:
        self.folded[node] = tensors
        self.results[node] = tuple(
            self._as_value(part, COMPUTED + node.name, self._shape(fake))
            for part, fake in zip(tensors, tensors_of(node), strict=True)
        )

    def _as_value(self, tensor: Tensor, name: str, shape: Sequence[int] | None = None) -> Value:
        """Return a torch constant as a value; float64 becomes f32, as torch computes with it beside f32 tensors."""
        array = tensor.detach().cpu().contiguous().resolve_neg()
        if array.dtype not in DTYPES:
            array = array.to(torch.float32)  # a rule refuses results of other types; a scalar's type does not count
        return self.builder.constant(array.numpy(), name=name, shape=shape)

    # -- nodes that no rule takes ---------------------------------------------------------------------------------

    def _opaque(self, node: fx.Node, refusal: str) -> None:
        """Keep a node that no rule takes, under torch's name, with outputs of the shapes that torch knows."""
        outputs = []
        for fake in tensors_of(node):
            try:
                shape = self._shape(fake)
            except Refused as add_refused:
                shape = (1,)
                if not is_listed(str(node.target)):
                    refusal = refusal or str(add_refused)
            outputs.append((DTYPES.get(fake.dtype, DType.F32), shape))
        if any(self._is_ragged(fake) for fake in tensors_of(node)):
            self.unsized.add(node)
        inputs = [value for argument in node.all_input_nodes for value in self.results.get(argument, ())]
        numbers = tuple(
            argument for argument in (*node.args, *node.kwargs.values()) if isinstance(argument, int | float)
        )
        name = str(node.target)
        name = f"higher_order.{name}" if isinstance(node.target, HigherOrderOperator) else name
        self.results[node] = self.builder.add_refused(name, inputs, outputs, numbers, refusal)

    def _follow(self, node: fx.Node, fakes: list[Tensor]) -> None:
        """Keep a node for the sake of the refused one whose results it takes."""
        outputs = [
            (DTYPES.get(fake.dtype, DType.F32), (1,) if self._is_ragged(fake) else self._shape(fake)) for fake in fakes
        ]
        if any(self._is_ragged(fake) for fake in fakes):
            self.unsized.add(node)
        inputs = [value for argument in node.all_input_nodes for value in self.results.get(argument, ())]
        self.results[node] = self.builder.ops(FOLLOWER, inputs, outputs)

    # -- arguments and sizes --------------------------------------------------------------------------------------

    def _bind(self, node: fx.Node, fakes: list[Tensor]) -> Call:
        """Return the call's arguments by name, with tensors as values and sizes as numbers."""
        for fake in fakes:
            if not has_place(fake):
                raise Refused(f"it gives {fake.dtype}, which has no place in a program; {advise_type(fake.dtype)}")
        wrong = next((fake for argument in node.all_input_nodes for fake in self._stored_wrong(argument)), None)
        if wrong is not None:
            is_real = wrong.dtype.is_floating_point or wrong.dtype.is_complex
            advice = "call module.float() before export" if is_real else advise_type(wrong.dtype)
            raise Refused(f"it takes {wrong.dtype}, which has no place in a program; {advice}")
        target = node.target
        if str(target) in _STORAGE_VIEWS and not is_row_major(node.args[0]):
            raise Refused("as_strided of a contiguous tensor: call contiguous() before it")
        arguments: dict[str, Any] = {}
        if isinstance(target, OpOverload):
            # Torch has no public name for an operator's parameters.
            for index, parameter in enumerate(target._schema.arguments):  # noqa: SLF001
                if index < len(node.args):
                    arguments[parameter.name] = node.args[index]
                elif parameter.name in node.kwargs:
                    arguments[parameter.name] = node.kwargs[parameter.name]
                elif parameter.has_default_value():
                    arguments[parameter.name] = parameter.default_value
        bound: dict[str, Any] = {}
        tensors = [argument for argument in node.all_input_nodes if tensors_of(argument)]
        self.keeps = self.computes_sizes and all(argument in self.constants for argument in tensors)
        for name, value in arguments.items():
            read = self._read(value) if str(target) in _ONE_PLACE else None
            if name in {"self", "other"} and torch.Tag.pointwise in getattr(target, "tags", ()):
                read = self._picked_count(value)
            bound[name] = fx.node.map_arg(value, self._argument) if read is None else read
        results = tuple(
            Result(DTYPES.get(fake.dtype, DType.F32), (1,) if self._is_ragged(fake) else self._shape(fake))
            for fake in fakes
        )
        return Call(str(target), bound, results)

    def _stored_wrong(self, argument: fx.Node) -> list[Tensor]:
        """Return what torch knows of a constant whose type no program has; numbers take the type of their tensors."""
        known = tensors_of(argument) if argument in self.constants else []
        return [fake for fake in known if fake.dim() and not has_place(fake)]

    def _read(self, argument: object) -> Value | None:
        """Return the tensor of which `argument` is the one number, read in torch's run: `x[i]` for a tensor `i`."""
        if not isinstance(argument, fx.Node) or str(argument.target) != "aten._local_scalar_dense.default":
            return None
        (value,) = self.results[cast("fx.Node", argument.args[0])]
        return value

    def _picked_count(self, argument: object) -> Value | None:
        """Return the tensor of a number of picked elements; None for anything else."""
        size = argument.meta.get("val") if isinstance(argument, fx.Node) else None
        picked = self.counts.get(size.node.expr) if isinstance(size, torch.SymInt) else None
        return None if picked is None else count_picked(self.builder, picked)

    def _argument(self, node: fx.Node) -> Any:
        if node in self.numbers_of:
            return self._known_number(node)
        fake = node.meta["val"]
        if not isinstance(fake, Tensor):
            number = self._number(fake)
            if self.computes_sizes and isinstance(fake, torch.SymFloat):
                return with_origins(number, Origins(fake.node.expr, self._symbol_sizes()))
            return number
        if node in self.pairs:
            return self.pairs[node][0]
        (value,) = self.results[node]
        return self.builder.hide_constant(value) if self.keeps else value

    def _symbol_sizes(self) -> tuple[tuple[Symbol, int], ...]:
        """Return each symbol with its size now."""
        return tuple(
            (symbol, size_of(self.captured.space, symbol.expression, size))
            for symbol, (_, size) in zip(self.captured.symbols, self.sizes, strict=True)
        )

    def _known_number(self, node: fx.Node) -> Any:
        if self.numbers_of[node] is None:
            raise Refused("a number that control flow decides in the run; carry it as a tensor")
        return self.numbers_of[node]

    def _shape(self, fake: Tensor) -> tuple[int, ...]:
        return tuple(whole(self._number(size, is_shape=True)) for size in fake.shape)

    def _number(self, size: Any, *, is_shape: bool = False) -> Any:
        """Return a size, or what was computed from sizes, as a number.

        Args:
            size: a number, or torch's symbol for one.
            is_shape: whether it is a dimension of a tensor; else an argument of an operator.

        Raises:
            Refused: it depends on data.
        """
        if not isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
            return size
        if not is_shape and self.counted & size.node.expr.free_symbols:
            raise Refused(ADVICE)
        expression = size.node.expr
        known = self._known_sizes.get(expression, self.numbers.get(expression))
        if isinstance(known, Size):
            return known
        value = expression.subs({symbol: int.__int__(number) for symbol, number in self.numbers.items()})
        if value.free_symbols and (isinstance(size, torch.SymFloat) or not is_shape):
            raise Refused(
                "it takes a number that was read out of a tensor: leave out item(), int(), float() and tolist(), and "
                "compute with the tensor; a program's sizes follow from the sizes of its inputs alone"
            )
        if value.free_symbols:
            raise Refused("its size depends on data; a program's sizes follow from the sizes of its inputs")
        if isinstance(size, torch.SymBool):
            return bool(value)
        if isinstance(size, torch.SymFloat) or not expression.free_symbols <= self.captured.space.expressions:
            return int(value) if isinstance(size, torch.SymInt) else float(value)
        self._known_sizes[expression] = size_of(self.captured.space, expression, int(value))
        return self._known_sizes[expression]

    def _is_known(self, size: torch.SymInt) -> bool:
        return not size.node.expr.subs(self.numbers).free_symbols

    def _is_ragged(self, fake: Tensor) -> bool:
        sizes: list[Any] = list(fake.shape)
        return any(isinstance(size, torch.SymInt) and not self._is_known(size) for size in sizes)
