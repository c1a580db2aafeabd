"""Answers what torch asks of sizes while it traces, for all sizes within bounds.

Torch proves little of quotients and remainders: what it cannot prove fixes or bounds the size.  The sizes are bounded,
so each is tried, and what has one answer at all of them fixes nothing.

Torch also assumes that a size is not 1, and asks wherever it works out strides: whether a tensor is contiguous, or
empty.  A program's tensors are row-major and never empty, so these questions have the answer of the example.  Questions
of the module itself, and of torch's layers, stay what they are.
"""

import contextlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import sympy
import torch
from alcove.runtime.compiler.symbolic import values_of
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

MAX_TRIED: Final = 2**20
"""Sizes, or combinations of them, that are tried for one question."""
_CONFIG: Final[Any] = import_module("torch.fx.experimental._config")  # it has no public name
_INPUTS: Final[Any] = import_module("torch._export.non_strict_utils")
_TORCH: Final = str(Path(torch.__file__).parent)
_BOOKKEEPING: Final = tuple(
    f"{_TORCH}/{part}"
    for part in (
        *("_subclasses", "_decomp", "_refs", "_prims", "_meta_registrations.py", "_ops.py"),
        "distributions/mixture_same_family.py",  # whether batches fit: those of one do where all others do
    )
)
_CACHE: Final = f"{_TORCH}/_subclasses/fake_tensor.py"
"""Where torch compares strides, to know a result again."""
_ASKING: Final = (f"{_TORCH}/fx/experimental", f"{_TORCH}/__init__.py", __file__)
"""Files of those who hand a question on."""


@dataclass
class Questions:
    """What a trace asked.

    Attributes:
        broken: of the first question without one answer, sizes at which it is another than the example's, by the name
            of torch's source (`L['x'].size()[1]`).
        unchecked: of each question that torch fixed and does not check, sizes with another answer, if known.
        equalities: torch's, of sizes that one Dim or its multiples name; None before it has them.
    """

    broken: dict[str, int] = field(default_factory=dict)
    unchecked: list[dict[str, int]] = field(default_factory=list)
    equalities: Any = None
    _answers: dict[Any, Any] = field(default_factory=dict)
    _wrong: dict[Any, dict[str, int]] = field(default_factory=dict)

    def answer(self, node: Any) -> Any:
        """Return what a question is at all sizes, None where that is not one answer or is not known."""
        expression = node.expr
        if expression not in self._answers:
            self._answers[expression] = self._answer(node, expression)
        return self._answers[expression]

    def _answer(self, node: Any, expression: Any) -> Any:
        free = sorted(expression.free_symbols, key=str)
        lines = {symbol: self._line_of(node.shape_env, symbol) for symbol in free}
        roots = sorted({root for line in lines.values() for root in line.free_symbols}, key=str)
        ranges = [node.shape_env.var_to_range.get(root) for root in roots]
        if not roots or not node.has_hint() or not all(map(_is_bounded, ranges)):
            return None
        spans = [range(max(int(each.lower), 1), int(each.upper) + 1) for each in ranges if each is not None]
        if math.prod(map(len, spans)) > MAX_TRIED:
            return None
        grid = np.meshgrid(*(np.arange(span.start, span.stop) for span in spans), indexing="ij", sparse=True)
        numbers = {symbol: values_of(line, dict(zip(roots, grid, strict=True))) for symbol, line in lines.items()}
        known = {symbol: number for symbol, number in numbers.items() if number is not None}
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values_of(expression, known) if len(known) == len(numbers) else None
        if values is None or values.dtype.kind not in "ib":
            return None
        hint = values.dtype.type(node.hint)
        wrong = np.argwhere(np.broadcast_to(values != hint, [len(span) for span in spans]))
        if len(wrong) == 0:
            return node.hint
        for symbol, number in known.items():
            source = node.shape_env.var_to_sources[symbol][0].name
            name = source if isinstance(source, str) else source()
            size = int(np.broadcast_to(number, [len(span) for span in spans])[tuple(wrong[0])])
            self._wrong.setdefault(expression, {})[name] = size
        self.broken = self.broken or (self._wrong[expression] if values.dtype.kind == "b" else {})
        return None

    def note_guard(self, node: Any) -> None:
        """Remember that torch fixed the answer to a question.

        It checks later what it fixed, but for multiples of a Dim, and for several sizes together.
        """
        lines = [self._line_of(node.shape_env, symbol) for symbol in node.expr.free_symbols]
        if len({root for line in lines for root in line.free_symbols}) > 1 or any(not line.is_Symbol for line in lines):
            self.unchecked.append(self._wrong.get(node.expr, {}))

    def _line_of(self, environment: Any, symbol: Any) -> Any:
        """Return what a size is in terms of the sizes that vary: one and the same where Dims are, or a multiple."""
        sources = environment.var_to_sources.get(symbol)
        if self.equalities is None or not sources or symbol in self.equalities.phantom_symbols:
            return symbol
        line = self.equalities._rewrite(sources[0])  # noqa: SLF001 - torch has no public way to ask
        roots = {root: environment.source_to_var.get(str(root), root) for root in line.free_symbols}
        return line.xreplace(roots)


@contextlib.contextmanager
def answer_questions() -> Iterator[Questions]:
    """Answer while a module is traced; one thread at a time."""
    node: Any = SymNode
    environment: Any = ShapeEnv
    plain, plain_bool = node.evaluate, node.guard_bool
    plain_create, plain_equalities = environment.create_symbol, _INPUTS.EqualityConstraint
    questions = Questions()

    def evaluate(self: Any, size_oblivious: bool = False) -> Any:
        known = questions.answer(self) if self.shape_env is not None else None
        if known is not None:
            return known
        environment = self.shape_env
        before = 0 if environment is None else len(environment.guards)
        result = plain(self, size_oblivious)
        if environment is None or not self.expr.free_symbols:
            return result
        is_frozen = environment.frozen or environment.runtime_asserts_frozen
        is_fixed = len(environment.guards) > before or (is_frozen and _is_open(environment, self.expr))
        if is_fixed and _asker() != _CACHE:
            questions.note_guard(self)
        return result

    def guard_bool(self: Any, file: str, line: int) -> bool:
        if (file or _asker().startswith(_BOOKKEEPING)) and _is_about_one(self.expr) and self.has_hint():
            answer = bool(self.hint)
            if answer is (type(self.expr).__name__ == "Unequality"):
                return answer
        return bool(plain_bool(self, file, line))

    def create_symbol(self: Any, *args: Any, **options: Any) -> Any:
        # Of a Dim that only multiples of it name, torch would take it that it is 2 or more.
        return plain_create(self, *args, **options | {"do_not_specialize_zero_one": True})

    def make_equalities(**options: Any) -> Any:
        questions.equalities = plain_equalities(**options)
        return questions.equalities

    node.evaluate, node.guard_bool, environment.create_symbol = evaluate, guard_bool, create_symbol
    _INPUTS.EqualityConstraint = make_equalities
    try:
        with _CONFIG.patch(backed_size_oblivious=True):
            yield questions
    finally:
        node.evaluate, node.guard_bool, environment.create_symbol = plain, plain_bool, plain_create
        _INPUTS.EqualityConstraint = plain_equalities


def _is_open(environment: Any, expression: Any) -> bool:
    """Return whether torch does not know an answer that holds at all sizes."""
    return environment._maybe_evaluate_static(expression) is None  # noqa: SLF001 - torch has no public way to ask


def _is_bounded(each: Any) -> bool:
    return each is not None and getattr(each.upper, "is_Integer", False) and getattr(each.lower, "is_Integer", False)


def _is_about_one(expression: Any) -> bool:
    """Return whether a question is whether something is 1 or 0, such as 8 * n == 8."""
    if type(expression).__name__ not in {"Equality", "Unequality"}:
        return False
    first, second = sorted(expression.args, key=lambda part: part.is_Integer)
    if not second.is_Integer:
        return False
    number = int(second)
    return number in {0, 1} or all(int(factor) % number == 0 for factor in _factors(first))


def _factors(expression: Any) -> list[Any]:
    """Return the whole number before each part of a sum."""
    return [part.as_coeff_Mul()[0] for part in sympy.Add.make_args(sympy.expand(expression))]


def _asker() -> str:
    """Return the file of who asks."""
    frame = sys._getframe(2)  # noqa: SLF001 - who asks
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ASKING):
        frame = frame.f_back
    return frame.f_code.co_filename
