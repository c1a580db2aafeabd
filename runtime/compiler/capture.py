"""Captures a torch module as a torch graph, with its dynamic sizes.

`torch.export` traces it; a `str` argument stands for a text of any length and is traced as a uint8 tensor.  Whatever
tracing raises (control flow that depends on data, a mistake in the model) becomes an `ExportError` with the user's
line.
"""

import contextlib
import inspect
import io
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TextIO, cast

import sympy
import torch
import torch.utils._pytree as pytree
from alcove.runtime.compiler.assigned_buffers import write_assigned_buffers
from alcove.runtime.compiler.buckets import choose_buckets
from alcove.runtime.compiler.checks import (
    BRANCH,
    check_arguments,
    check_dims,
    check_tensors,
    unknown_argument,
    unwritable,
)
from alcove.runtime.compiler.composite_ops import keep_composite_ops
from alcove.runtime.compiler.constant_buffers import trace_with_constant_buffers
from alcove.runtime.compiler.decompositions import run_decompositions
from alcove.runtime.compiler.distributions import trace_distributions
from alcove.runtime.compiler.held_tensors import list_changed_constants
from alcove.runtime.compiler.packed_sequences import trace_packed_sequences
from alcove.runtime.compiler.python_state import refuse_python_state
from alcove.runtime.compiler.questions import Questions, answer_questions
from alcove.runtime.compiler.rules import TEXT_ONLY
from alcove.runtime.compiler.scripts import ScriptedModule
from alcove.runtime.compiler.size_functions import trace_functions_of_sizes
from alcove.runtime.compiler.source import path_of_traceback, source_of_stack, source_of_traceback
from alcove.runtime.compiler.strides import examples_of
from alcove.runtime.compiler.tensor_places import trace_writes_at_tensors
from alcove.runtime.compiler.terms import Space
from alcove.runtime.compiler.traced_functions import trace_functions_that_look
from alcove.runtime.errors import ArgumentError, ExportError, Finding
from torch import nn
from torch.export.graph_signature import InputKind

TRACED_TEXT_BYTES: Final = 8  # length of the stand-in for a text; anything above 1 is traced as "any length"
TEXT_BYTES_BOUND: Final = 2**31 - 1
TEXT_DIM: Final = "utf8_bytes"
SIZE_BOUND: Final = 2**31

_TRACING: Final = threading.Lock()
"""Tracing changes torch for its time (`composite_ops.py`, logs), so modules are traced one after the other."""

_ADVICE: Final = " If you're using mark_dynamic"  # torch's, on other functions than export
_UNEQUAL: Final = re.compile(r"\] != \d+\.?$")
"""What torch asks for where a tensor is sliced in two dimensions to a size that may be all of it."""
_CONSTRAINTS: Final = ("Constraints violated", "Cannot create Dim")
"""How torch begins to say that a size is not free; the second where it fails to say more."""
_FIXED: Final = "pecializ"
"""What torch says of a size that became a number."""
_FREE: Final = (
    " len(x), int(n), float(n), range(n) and numpy's functions make a number of a size: take x.shape[0], n // 2, "
    "math.sqrt(n), and tensors in place of loops."
)
_NAMED: Final = re.compile(r"(\w+) = (L\[[^ ]+\]\.size\(\)\[\d+\])")
"""Where torch says which Dim stands for what."""
_USER_CODE: Final = re.compile(r"# File: (?P<source>[^\n]+?:\d+) in ")


@dataclass(frozen=True)
class Symbol:
    """A size that varies, in [minimum, maximum]: dimension `dim` of the input `port` is it * `factor` + `addend`."""

    name: str
    minimum: int
    maximum: int
    port: str
    dim: int
    expression: Any  # torch's symbol (sympy)
    factor: int = 1
    addend: int = 0

    def dimension(self, size: int) -> int:
        """Return the dimension of the input that brings this size."""
        return size * self.factor + self.addend

    @property
    def dimension_name(self) -> str:
        """What the dimension is called, such as 2*n."""
        multiple = self.name if self.factor == 1 else f"{self.factor}*{self.name}"
        return f"{multiple}{self.addend:+}" if self.addend else multiple


@dataclass(frozen=True)
class Captured:
    """A traced module.

    Attributes:
        program: torch's own record: graph, signature, parameters.
        module: the module itself, for what the graph does not hold (labels).
        text_inputs: positions in the flat list of arguments that stand for a text.
        output_names: one name an output, in order; from dictionary keys and field names where there are any.
        symbols: the sizes that vary, in the order of the inputs; those of texts are not among them.
        kept: buffers that other methods of the program change.
    """

    program: torch.export.ExportedProgram
    module: nn.Module
    text_inputs: frozenset[int]
    output_names: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    kept: frozenset[str] = frozenset()

    @property
    def states(self) -> frozenset[str]:
        """Names of the buffers that a session keeps: those that this method or another one changes."""
        return self.kept.union(self.program.graph_signature.buffers_to_mutate.values())

    @cached_property
    def space(self) -> Space:
        """The terms of the sizes that vary."""
        return Space(self.symbols, [tuple(bucket.values()) for bucket in choose_buckets(self.symbols)])

    def largest(self) -> dict[str, int]:
        """Return the upper bound of each symbol, by name."""
        return {symbol.name: symbol.maximum for symbol in self.symbols}

    def substitution(self, sizes: Mapping[str, int]) -> dict[Any, int]:
        """Return what stands for torch's symbols when the symbols by name have these `sizes`."""
        numbers = {symbol.expression: sizes[symbol.name] for symbol in self.symbols}
        texts = dict.fromkeys(_text_symbols(self.program, self.text_inputs), TRACED_TEXT_BYTES)
        return numbers | texts


def capture(
    module: nn.Module, args: Sequence[object], dynamic_shapes: object, kept: frozenset[str] = frozenset()
) -> Captured:
    """Trace `module` with `args`.

    Args:
        module: in eval mode; it is not changed.
        args: one example for each argument of `forward`: tensors, or `str` for a text.
        dynamic_shapes: as `torch.export.export` takes it, or None; the entry of a text must be None or absent.
        kept: names of buffers that other methods of the program change.

    Raises:
        ExportError: torch could not trace it; one finding with the line that stopped it.
        ArgumentError: an argument is neither a tensor nor a `str`, `forward` takes others, or `dynamic_shapes` has
            another structure than `args`.
    """
    check_arguments(module, args)
    check_tensors(module)
    places: list[int] = []  # of each argument, in the flat list of tensors
    leaves: list[object] = []
    owners: list[int] = []  # of each leaf, the argument that holds it
    for index, argument in enumerate(args):
        places.append(len(leaves))
        leaves += pytree.tree_leaves(argument)
        owners += [index] * (len(leaves) - len(owners))
    texts = frozenset(index for index, value in enumerate(args) if isinstance(value, str))
    text_inputs = frozenset(places[index] for index in texts)
    for index, value in enumerate(leaves):
        is_known = isinstance(value, torch.Tensor | int | float | None) or index in text_inputs
        if not is_known:
            raise ArgumentError(unknown_argument(owners[index], args[owners[index]], value))
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise ArgumentError(
                f"argument {owners[index]} of the module is on {value.device}; pass a tensor of the cpu"
            )
    # Copies: torch traces two arguments that are one tensor as one.
    examples = examples_of(module, pytree.tree_map(_example, tuple(args)))
    shapes = _dynamic_shapes(module, len(examples), texts, dynamic_shapes)
    check_dims(shapes, args)
    examples = tuple(_vary_example(value, arguments) for value, arguments in zip(examples, shapes, strict=True))
    names = {
        (places[index], axis): getattr(dim, "root", dim)
        for index, arguments in enumerate(shapes)
        for axis, dim in _given_dims(arguments)
        if hasattr(dim, "__name__")
    }
    said = io.StringIO()
    try:
        with (
            _TRACING,
            _calm_torch(said),
            answer_questions() as questions,
            keep_composite_ops(),
            trace_packed_sequences(),
            trace_writes_at_tensors(),
            trace_functions_that_look(),
            trace_distributions(),
            trace_functions_of_sizes(module),
            contextlib.nullcontext() if isinstance(module, ScriptedModule) else refuse_python_state(module, examples),
            write_assigned_buffers(module),
        ):
            # Not a tuple of Nones where nothing varies: the arguments of `forward(*args)` count as one.
            varying = _bind_shapes(module, shapes) if any(entry is not None for entry in shapes) else None
            exported = trace_with_constant_buffers(
                lambda: _export_graph(module, examples, varying, questions), run_decompositions, kept
            )
    except ExportError:
        raise
    except Exception as error:  # whatever stops the tracer is the finding, and it is chained
        raise ExportError([_finding(error, said.getvalue(), module, has_texts=bool(texts))]) from error
    # Torch asks within flex_attention, which is refused by its name.
    if questions.unchecked and not any(str(node.target) == "flex_attention" for node in exported.graph.nodes):
        raise _fixed_size_error(questions.unchecked[0], {})
    sys.stderr.write(said.getvalue())  # what the module itself prints is not lost
    symbols = _symbols(exported, text_inputs, names)
    return Captured(exported, module, text_inputs, _output_names(exported), symbols, kept)


def _export_graph(
    module: nn.Module, examples: tuple[object, ...], varying: Any, questions: Questions
) -> torch.export.ExportedProgram:
    """Return torch's graph."""
    try:
        exported = torch.export.export(module, examples, dynamic_shapes=varying, strict=False)
    except Exception as error:
        is_constraint = any(words in str(error) for words in _CONSTRAINTS)
        if not is_constraint or not questions.broken:
            raise
        names = {source: name for name, source in _NAMED.findall(str(error))}
        raise _fixed_size_error(questions.broken, names) from error
    changed = list_changed_constants(exported)
    if changed:
        raise ExportError([_changed_finding(name, node) for name, node in changed])
    return exported


def _changed_finding(name: str, node: torch.fx.Node) -> Finding:
    advice = "forward writes into it, and it is no buffer: register it (register_buffer), so that the session keeps it"
    return Finding(f"tensor {name}", "", source_of_stack(node.stack_trace), advice)


def _fixed_size_error(sizes: Mapping[str, int], names: Mapping[str, str]) -> ExportError:
    """Return what is raised where the module asks what has another answer at some sizes, by torch's sources."""
    broken = {names.get(source, source): size for source, size in sizes.items()}
    way = f"it takes another way at {broken}: let the Dim end before it or begin after it"
    if not broken:
        way = "by a number or an answer that it makes of several: fix one, or compute with tensors"
    reason = f"the module fixes or bounds a size that should vary, {way}"
    return ExportError([Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason)])


def _example(value: object) -> object:
    if isinstance(value, str):
        return torch.full((TRACED_TEXT_BYTES,), ord("a"), dtype=torch.uint8)
    return value


def _bind_shapes(module: nn.Module, shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `shapes` as `forward` has its parameters: those of `*args` are one entry."""
    parameters = inspect.signature(module.forward).parameters.values()
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return shapes
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*shapes[:first], tuple(shapes[first:])) if len(shapes) > first else shapes


def _vary_example(value: Any, argument: Any) -> Any:
    """Return an example of 2 along every dimension that varies where it has 1: torch takes a 1 as fixed."""
    if isinstance(value, torch.Tensor):
        for axis, dim in _given_dims(argument):
            if hasattr(dim, "__name__") and -value.dim() <= axis < value.dim() and value.shape[axis] == 1:
                value = torch.cat([value, value], dim=axis) if dim.max >= 2 else value
        return value
    if type(value) is dict and isinstance(argument, Mapping):
        return {key: _vary_example(part, argument.get(key)) for key, part in value.items()}
    if type(value) in {list, tuple} and isinstance(argument, Sequence) and len(argument) == len(value):
        return type(value)(_vary_example(part, entry) for part, entry in zip(value, argument, strict=True))
    return value


def _inputs(exported: torch.export.ExportedProgram) -> list[Any]:
    """Return the nodes that stand for the flat arguments, in order."""
    specs = exported.graph_signature.input_specs
    nodes = [node for node in exported.graph.nodes if node.op == "placeholder"]
    return [node for node, spec in zip(nodes, specs, strict=True) if spec.kind is InputKind.USER_INPUT]


def _text_symbols(exported: torch.export.ExportedProgram, text_inputs: frozenset[int]) -> set[Any]:
    nodes = [node for position, node in enumerate(_inputs(exported)) if position in text_inputs]
    return {symbol for node in nodes for symbol in _free_symbols(node.meta["val"].shape[0])}


def _free_symbols(size: Any) -> set[Any]:
    return set(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else set()


def _symbols(
    exported: torch.export.ExportedProgram, text_inputs: frozenset[int], names: Mapping[tuple[int, int], Any]
) -> tuple[Symbol, ...]:
    """Return each size that varies with its bounds, where it first stands alone as a dimension of an input.

    Raises:
        ExportError: a size has no upper bound, or stands nowhere alone.
    """
    found: dict[Any, Symbol] = {}
    unplaced: set[Any] = set()
    findings = []
    for position, node in enumerate(_inputs(exported)):
        fake = node.meta["val"]
        if position in text_inputs or not isinstance(fake, torch.Tensor):
            continue
        sizes: list[Any] = list(fake.shape)  # ints, and symbols where a size varies
        for axis, size in enumerate(sizes):
            unplaced |= _free_symbols(size)
            if not _free_symbols(size) and (position, axis) in names:
                reason = f"the module fixes dimension {axis} to {size}, such as by what it keeps in a buffer"
                findings.append(Finding(op=f"input {node.name}", module_path="", source="", suggestion=reason))
            line = _line_of(size)
            if line is None or (line[0] in found and (found[line[0]].factor, found[line[0]].addend) <= line[1:]):
                continue
            expression, factor, addend = line
            bounds = exported.range_constraints.get(expression)
            lower, upper = str(getattr(bounds, "lower", "")), str(getattr(bounds, "upper", ""))
            if not upper.isdigit() or int(upper) >= SIZE_BOUND:
                reason = f"dimension {axis} varies without a bound: give its Dim a max"
                findings.append(Finding(op=f"input {node.name}", module_path="", source="", suggestion=reason))
                upper = "1"
            dim = names.get((position, axis))
            name = f"{node.name}_{axis}" if dim is None else dim.__name__
            least = max(1, int(lower)) if lower.isdigit() and factor == 1 else max(1, getattr(dim, "min", 1))
            found[expression] = Symbol(name, least, int(upper), node.name, axis, expression, factor, addend)
    for expression in unplaced - set(found):
        reason = f"{expression} is no dimension of an input by itself; let one dimension be the Dim or a multiple of it"
        findings.append(Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason))
    if findings:
        raise ExportError(findings)
    return tuple(found.values())


def _line_of(size: Any) -> tuple[Any, int, int] | None:
    """Return symbol, factor and addend of a size that is a multiple of a symbol with an addend; None for others."""
    free = _free_symbols(size)
    if len(free) != 1:
        return None
    (symbol,) = free
    addend = size.node.expr.xreplace({symbol: sympy.Integer(0)})
    factor = size.node.expr.xreplace({symbol: sympy.Integer(1)}) - addend
    is_line = sympy.expand(symbol * factor + addend - size.node.expr) == 0
    return (symbol, int(factor), int(addend)) if is_line and factor.is_Integer and factor > 0 else None


def _dynamic_shapes(module: nn.Module, count: int, text_inputs: frozenset[int], argument: object) -> tuple[Any, ...]:
    """Return `argument`, one entry an argument, with "any length" for the texts."""
    if argument is None:
        shapes: list[object] = [None] * count
    elif isinstance(argument, Mapping):
        names = _argument_names(module)[:count]
        unknown = set(argument) - set(names)
        if unknown:
            raise ArgumentError(f"dynamic_shapes names {sorted(unknown)}, but the arguments are {names}")
        shapes = [argument.get(name) for name in names]
    elif isinstance(argument, Sequence) and len(argument) == count and not _is_of_all(module, argument, count):
        shapes = list(argument)
    elif isinstance(argument, Sequence) and _is_of_all(module, argument, count):
        shapes = list(argument[0])
    else:
        raise ArgumentError(f"dynamic_shapes must have one entry for each of the {count} arguments")
    for index in text_inputs:
        if shapes[index] is not None:
            raise ArgumentError(f"argument {index} is a text, which has any length: its dynamic_shapes must be None")
        shapes[index] = {0: torch.export.Dim(f"{TEXT_DIM}_{index}", min=0, max=TEXT_BYTES_BOUND)}
    return tuple(shapes)


def _is_of_all(module: nn.Module, argument: Sequence[Any], count: int) -> bool:
    """Return whether one entry holds those of all arguments of `forward(*args)`, as torch has it."""
    takes_any = any(
        parameter.kind is inspect.Parameter.VAR_POSITIONAL
        for parameter in inspect.signature(module.forward).parameters.values()
    )
    return takes_any and len(argument) == 1 and isinstance(argument[0], tuple) and len(argument[0]) == count


def _given_dims(argument: object) -> list[tuple[int, Any]]:
    """Return (axis, Dim) of one argument's entry of `dynamic_shapes`; nothing for nested arguments."""
    if isinstance(argument, Mapping):
        return [(axis, dim) for axis, dim in argument.items() if isinstance(axis, int)]
    return list(enumerate(argument)) if isinstance(argument, Sequence) else []


def _argument_names(module: nn.Module) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(module.forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


@contextlib.contextmanager
def _calm_torch(said: io.StringIO) -> Iterator[None]:
    """Keep torch's logs of a failing trace out of the terminal.

    Args:
        said: gets what it prints, to be made a finding.
    """

    def show(  # noqa: PLR0917 - warnings.showwarning calls it so
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        (file or said).write(warnings.formatwarning(message, category, filename, lineno, line))

    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(said):
            # torch 2.13 warns about its own use of its own deprecated tree classes.
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"copyreg|torch\..*")
            # Caches and torch's recurrent layers assign tensors; what is no cache is refused (python_state.py).
            warnings.filterwarnings("ignore", r"The tensor attributes? .* assigned during export", UserWarning)
            warnings.showwarning = show
            yield
    finally:
        logger.setLevel(level)


def _finding(error: Exception, said: str, module: nn.Module, *, has_texts: bool) -> Finding:
    first_line = str(error).strip().partition("\n")[0] or type(error).__name__
    source = source_of_traceback(error.__traceback__, __file__)
    path = path_of_traceback(error.__traceback__, module)
    op, suggestion = "torch.export", unwritable(error)
    if "data-dependent" in str(error):
        op = "control flow"
        suggestion = BRANCH
        recorded = _USER_CODE.findall(said)
        source = source or (recorded[-1] if recorded else "")
    elif "Constraints violated" in first_line or "specialized it to be a constant" in first_line:
        op = "dynamic_shapes"
        reasons = _reasons(error)
        suggestion = f"the module fixes or bounds a size that should vary: {' '.join(reasons) or first_line}"
        if _FIXED in str(error):
            suggestion += _FREE
        if reasons and all(_UNEQUAL.search(reason) for reason in reasons):
            suggestion += " Keep the Dim below that number, or make the tensor that is sliced to the size one longer."
        if f"{TEXT_DIM}_" in first_line:
            suggestion = TEXT_ONLY
    elif suggestion is None:
        summary = f"forward stops with {type(error).__name__}" if source else "torch cannot trace it"
        suggestion = f"{summary}: {first_line}"
        if has_texts and "uint8" in first_line:  # what a text is while torch traces
            suggestion += f"; {TEXT_ONLY}"
    return Finding(op=op, module_path=path, source=source, suggestion=suggestion)


def _reasons(error: Exception) -> list[str]:
    """Return what torch says of each size, without its advice."""
    return [line.strip(" -").partition(_ADVICE)[0] for line in str(error).splitlines() if line.startswith("  - ")]


def _output_names(exported: torch.export.ExportedProgram) -> tuple[str, ...]:
    """Return a name for each output: its dictionary keys or field names joined, else `output`, `output_<position>`."""
    spec = cast("pytree.TreeSpec", exported.call_spec.out_spec)
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    leaves, _ = pytree.tree_flatten_with_path(tree)
    names = []
    for path, _ in leaves:
        parts = [_key_name(key) for key in path]
        name = "_".join(parts)
        names.append(f"output_{name}" if name[:1].isdigit() else name or "output")
    return tuple(
        name if names.count(name) == 1 and name.isprintable() else f"output_{position}"
        for position, name in enumerate(names)
    )


def _key_name(key: Any) -> str:
    for field in ("key", "name", "idx"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)
