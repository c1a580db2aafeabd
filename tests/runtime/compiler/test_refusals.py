"""What cannot be exported is refused with one readable list of findings, each with its source line."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from alcove.runtime.compiler.suggestions import suggest_form
from alcove.runtime.ops import LabelledTopK, NgramHash, ngram_hash
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.attention.flex_attention import flex_attention

from tests.selection import quick_every

HERE = Path(__file__)


def line_of(mark: str) -> str:
    """Return "file:line" of the line of this file that ends with the comment `mark`."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return f"{HERE}:{number}"


def refusal(module: nn.Module, *args: object, **options: Any) -> ExportError:
    """Return the error of an export that must fail."""
    with pytest.raises(ExportError) as caught:
        export(module.eval(), args, **options)
    return caught.value


class Block(nn.Module):
    """A block with two operators that no program has."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        x = x + torch.randn_like(x)  # noise line
        return torch.special.airy_ai(x)  # airy line


@dataclass
class Scores:
    """What a module may give where its class is registered."""

    values: Tensor


class Unsupported(nn.Module):
    """Four operators, an output and an input that no program has, between some that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.block = Block()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Run."""
        x = self.block(torch.relu(self.first(x)))
        root = torch.linalg.eigh(x.T @ x).eigenvectors  # root line
        places = torch.unique(root)  # places line
        return self.first(x)[:, :0], x + places.sum() + y.abs().float().mean()  # y line


def test_all_findings_come_at_once_with_the_users_lines() -> None:
    """Op, module, source line and nearest form of each: inputs, operators in the order of the graph, outputs."""
    error = refusal(Unsupported(), torch.zeros(1, 8), torch.zeros(2, dtype=torch.float64))
    seen = [(f.op, f.module_path, f.source) for f in error.findings]
    assert seen == [
        ("input y", "", ""),
        ("aten.randn_like.default", "block", line_of("noise line")),
        ("aten.special_airy_ai.default", "block", line_of("airy line")),
        ("aten._linalg_eigh.default", "", line_of("root line")),
        ("aten._unique2.default", "", line_of("places line")),
        ("aten.abs.default", "", line_of("y line")),
        ("output output_0", "", line_of("y line")),
    ]
    words = ("float64", "outside the program", "coverage", "at most 6", "sort", "stay in float32", "no elements")
    for finding, word in zip(error.findings, words, strict=True):
        assert word in finding.suggestion
        assert finding.op in str(error)
        assert finding.suggestion in str(error)


class Branch(nn.Module):
    """A choice that depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        if x.sum() > 0:  # branch line
            return torch.relu(x)
        return x


class Number(nn.Module):
    """A number read out of a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x * float(x.max())  # number line


class Mistake(nn.Module):
    """A plain mistake of shapes."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x @ torch.ones(3, 3)  # mistake line


@pytest.mark.parametrize(
    ("module", "mark", "word"),
    [
        (Branch(), "branch line", "branches"),
        (Number(), "number line", "branches"),
        (Mistake(), "mistake line", "3x3|3, 3"),
    ],
)
def test_module_that_torch_cannot_trace_gives_a_finding(
    module: nn.Module, mark: str, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One finding with the line that stopped it; torch's own noise stays out of the terminal; its error is chained."""
    error = refusal(module, torch.zeros(1, 8))
    (finding,) = error.findings
    assert finding.source == line_of(mark)
    assert any(part in finding.suggestion for part in word.split("|"))
    assert error.__cause__ is not None
    said = capfd.readouterr()
    assert said.out + said.err == ""


class Simple(nn.Module):
    """A module made of a function."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> object:
        """Run."""
        return self.function(self, x)


X = torch.zeros(1, 8)
IDS = torch.tensor([1, 2, 3])
TEXT = "any text"
ZERO = torch.zeros(1, dtype=torch.int64)
PAST = torch.zeros(1, 1, 4)


def _hash(buckets: int = 9) -> NgramHash:
    return NgramHash(1, 3, buckets, 0, 8)


def _change(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


REFUSED: dict[str, tuple[nn.Module, object, str]] = {
    # ports
    "number beside a tensor": (Simple(lambda _, x: (torch.relu(x), 3)), X, "only tensors can be outputs, not 3"),
    "word beside a tensor": (Simple(lambda _, x: (torch.relu(x), "a")), X, "only tensors can be outputs, not 'a'"),
    "no output": (Simple(lambda _, x: ()), X, "return at least one tensor"),
    "text as output": (Simple(lambda _, x: x), TEXT, "a text cannot be an output"),
    "input without elements": (
        Simple(lambda _, x: torch.relu(x)),
        torch.zeros(1, 0),
        "no elements, its shape is [1, 0]",
    ),
    "output without elements": (Simple(lambda _, x: x[:, :0]), X, "no elements, its shape is [1, 0]"),
    "the best none": (Simple(lambda _, x: torch.topk(x, 0)), X, "no elements"),
    "changed input": (Simple(lambda _, x: _change(x)), X, "changes its input 'x'; return the changed tensor"),
    "labels of others": (Simple(lambda s, x: s.top(x), top=LabelledTopK(("a", "b"), 1)), X, "2 labels for 8 scores"),
    "label with a line": (
        Simple(lambda s, x: s.top(x), top=LabelledTopK([f"bad\n{i}" for i in range(8)], 1)),
        X,
        "label 'bad\\n0' is not printable",
    ),
    # types
    "float64": (Simple(lambda _, x: x.relu()), X.double(), "torch.float64 has no place in a program; pass float32"),
    "float16": (Simple(lambda _, x: x.relu()), X.half(), "torch.float16 has no place in a program; pass float32"),
    "bfloat16": (Simple(lambda s, x: s.lin(x), lin=nn.Linear(8, 2).bfloat16()), X.bfloat16(), "pass float32"),
    "int16": (Simple(lambda _, x: x + 1), X.to(torch.int16), "pass int32 or int64, which hold the same numbers"),
    "int16 within": (Simple(lambda _, x: x + x.to(torch.int16)), IDS, "take int32 or int64 in its place"),
    "int16 constant": (Simple(lambda _, x: x + IDS.to(torch.int16)), IDS, "take int32 or int64 in its place"),
    "complex": (Simple(lambda _, x: x.abs()), X.to(torch.complex64), "torch.complex64 has no place"),
    "float64 between": (Simple(lambda _, x: x.double().sum().float()), X, "gives torch.float64"),
    "float16 between": (Simple(lambda _, x: (x.half() + 1).float()), X, "stay in float32"),
    # data decides a size
    "nonzero": (Simple(lambda _, x: torch.nonzero(x)), X, "how many elements a mask picks"),
    "where with one argument": (Simple(lambda _, x: torch.where(x > 0)[0]), X, "how many elements a mask picks"),
    "mask as index": (
        Simple(lambda _, x: x[x > 0]),
        X,
        "how many elements a mask picks depends on data",
    ),
    "masked select": (Simple(lambda _, x: torch.masked_select(x, x > 0).flip(0)), X, "use torch.where"),
    "values at a mask": (
        Simple(lambda _, x: torch.index_put(x, (x > 0,), x[0, :3])),
        X,
        "one value for all places",
    ),
    "unique": (Simple(lambda _, x: torch.unique(x)), X, "sort, and compare neighbours"),
    "bincount": (Simple(lambda _, x: torch.bincount(x)), IDS, "minlength"),
    "repeats": (Simple(lambda _, x: torch.repeat_interleave(x, x)), IDS, "repeat every element the same number"),
    "range up to a number": (Simple(lambda _, x: torch.arange(x[0].item())), IDS, "leave out item()"),
    "number of a tensor": (Simple(lambda _, x: x * x.sum().item()), X, "leave out item()"),
    "classes by data": (Simple(lambda _, x: F.one_hot(x)), IDS, "no branches, numbers or sizes that depend on data"),
    # training
    "dropout": (Simple(lambda _, x: F.dropout(x, 0.5, training=True)), X, "call module.eval()"),
    "dropout of attention": (
        Simple(lambda _, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)),
        torch.zeros(1, 2, 4, 8),
        "dropout_p=0",
    ),
    "dropout between layers": (
        Simple(
            lambda s, x: torch.lstm(x, (PAST, PAST), list(s.lstm.parameters()), True, 1, 0.5, True, False, False),
            lstm=nn.LSTM(3, 4),
        ),
        torch.zeros(2, 1, 3),
        "module.eval() before export",
    ),
    "random slope": (Simple(lambda _, x: F.rrelu(x, training=True)), X, "module.eval() before export"),
    "statistics of an instance": (
        Simple(lambda _, x: F.instance_norm(x, torch.zeros(3), torch.ones(3), use_input_stats=True)),
        torch.zeros(2, 3, 4),
        "module.eval() before the export",
    ),
    # random numbers
    "rand": (Simple(lambda _, x: x + torch.rand(8)), X, "draw random numbers outside"),
    "randn_like": (Simple(lambda _, x: x + torch.randn_like(x)), X, "draw random numbers outside"),
    "randint": (Simple(lambda _, x: x + torch.randint(0, 3, (8,))), X, "draw random numbers outside"),
    "randperm": (Simple(lambda _, x: x[:, torch.randperm(8)]), X, "draw random numbers outside"),
    "bernoulli": (Simple(lambda _, x: torch.bernoulli(x)), X, "draw random numbers outside"),
    "multinomial": (Simple(lambda _, x: torch.multinomial(x + 1, 1)), X, "draw random numbers outside"),
    "normal": (Simple(lambda _, x: torch.normal(x)), X, "draw random numbers outside"),
    "gumbel": (Simple(lambda _, x: F.gumbel_softmax(x)), X, "noise = -log(-log(torch.rand(...)))"),
    "sample": (Simple(lambda _, x: Normal(x, 1.0).rsample()), X, "draw random numbers outside"),
    # operators without a rule
    "attention by a function": (
        Simple(lambda _, x: flex_attention(x, x, x, lambda score, b, h, i, j: score + (i - j))),
        torch.zeros(1, 2, 8, 4),
        "F.scaled_dot_product_attention",
    ),
    "inverse of a large matrix": (Simple(lambda _, x: torch.linalg.inv(x)), torch.eye(65), "at most 64"),
    "singular vectors": (Simple(lambda _, x: torch.linalg.svd(x)[0]), torch.eye(3), "signs"),
    "an object of a class of its own": (Simple(lambda _, x: Scores(x)), X, "torch.export.register_dataclass"),
    "a gradient": (
        Simple(lambda _, x: torch.func.vmap(torch.func.jacrev(torch.tanh))(x)),
        X,
        "torch.func.jvp",
    ),
    "a loss of alignments": (
        Simple(lambda _, x: F.ctc_loss(x[:, None], torch.ones(1, 2).long(), torch.tensor([1]), torch.tensor([1]))),
        X,
        "a loss is for training",
    ),
    "inverse of constants that have none": (
        Simple(lambda _, x: x + torch.linalg.inv(torch.ones(3, 3))),
        torch.eye(3),
        "the input matrix is singular",
    ),
    "parts of a solver": (
        Simple(lambda _, x: torch.ops.aten._linalg_solve_ex(x, x)[1]),
        torch.eye(3),
        "without LU and pivots",
    ),
    "another factorization": (
        Simple(lambda _, x: torch.linalg.ldl_factor(x).LD),
        torch.eye(3),
        "other solvers and factorizations",
    ),
    "nothing like it": (Simple(lambda _, x: torch.special.airy_ai(x)), X, "docs/coverage.md lists"),
    # operators with a rule for other forms
    "bound that is no number": (Simple(lambda _, x: x.clamp(min=float("nan"))), X, "not NaN"),
    "strides of a transposed tensor": (
        Simple(lambda _, x: torch.as_strided(x.T, (2, 2), (1, 2))),
        torch.zeros(3, 4),
        "call contiguous() before it",
    ),
    "weights that are inputs": (
        Simple(
            lambda _, x: torch.rnn_tanh(
                x, x[:1], [x[0], x[0], x[0, :, 0], x[0, :, 0]], True, 1, 0.0, False, False, False
            )[0]
        ),
        torch.zeros(2, 3, 3),
        "weights that are parameters",
    ),
    # texts
    "text as numbers": (Simple(lambda _, x: torch.relu(x.to(torch.float32))), TEXT, "whole, by NgramHash"),
    "part of a text": (Simple(lambda s, x: s.hash(x[1:]), hash=_hash()), TEXT, "whole, by NgramHash"),
    "ids of a text in a table": (
        Simple(lambda s, x: s.table(s.hash(x)), table=nn.Embedding(9, 4), hash=_hash()),
        TEXT,
        "only embedding_bag takes them",
    ),
    "sum of the ids of a text": (Simple(lambda s, x: s.hash(x).sum(), hash=_hash()), TEXT, "only embedding_bag takes"),
    "largest of a bag": (
        Simple(lambda s, x: F.embedding_bag(s.hash(x), torch.ones(9, 4), ZERO, mode="max"), hash=_hash()),
        TEXT,
        "mode='sum' or mode='mean'",
    ),
    "table that is not finite": (
        Simple(lambda s, x: F.embedding_bag(s.hash(x), torch.full((9, 4), torch.nan), ZERO), hash=_hash()),
        TEXT,
        "not finite",
    ),
    "table smaller than the buckets": (
        Simple(lambda s, x: F.embedding_bag(s.hash(x), torch.ones(99, 4), ZERO), hash=_hash(100)),
        TEXT,
        "ngram_hash of at most 99 buckets",
    ),
    "65 outputs": (
        Simple(lambda _, x: tuple(x + i for i in range(65))),
        torch.ones(2),
        "outputs: there are 65, a program has at most 64; join some",
    ),
    "nine dimensions": (
        Simple(lambda _, x: x.exp()),
        torch.ones((1,) * 9),
        "input x: it has 9 dimensions, a tensor of a program at most 8",
    ),
    "seed below zero": (
        Simple(lambda _, x: F.embedding_bag(ngram_hash(x, 1, 2, 1, -1, 9), torch.ones(1, 4), ZERO)),
        TEXT,
        "does not fit",
    ),
}
"""What stands in the brackets of the test's name, and words of what the user reads."""


@pytest.mark.parametrize("case", quick_every(REFUSED, 2))
def test_what_no_program_has_is_reported_with_what_to_write(case: str) -> None:
    """The first finding says it; every finding of an operator has the user's line."""
    module, arg, words = REFUSED[case]
    error = refusal(module, arg)
    assert words in str(error)
    for finding in error.findings:
        if finding.op.startswith(("aten.", "cond")):
            assert finding.source.startswith(f"{HERE}:"), finding


class Picked(nn.Module):
    """Computes with as many rows as data says, in ways that ask for their shape."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        rows = x[x[:, 0] > 0]
        rows = F.pad(rows.transpose(0, 1), (1, 0, 0, 1))  # picking line
        values, places = rows.max(0)
        return (values + places).sum() + rows.permute(1, 0).mean(0)


def test_shape_that_depends_on_data_is_one_finding() -> None:
    """The finding names its origin, not what is computed with it."""
    (finding,) = refusal(Picked(), torch.randn(5, 3)).findings
    assert finding.source == line_of("picking line")
    assert "depends on data" in finding.suggestion


def test_batch_norm_in_training_is_refused() -> None:
    """It would change its buffers; for a module in training mode the finding advises eval()."""
    module = Simple(lambda s, x: s.norm(x), norm=nn.BatchNorm1d(8)).train()
    with pytest.raises(ExportError, match=r"statistics of training: call module\.eval\(\)"):
        export(module, (torch.zeros(2, 8),))


def test_active_dropout_is_refused() -> None:
    """For a module in training mode the finding advises eval()."""
    module = Simple(lambda s, x: s.drop(x), drop=nn.Dropout(0.5)).train()
    with pytest.raises(ExportError, match=r"eval\(\)"):
        export(module, (X,))


def test_generator_of_torch_is_refused() -> None:
    """The trace holds it as an object."""
    module = Simple(lambda _, x: x * torch.rand(1, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(ExportError, match="only tensors are in a program"):
        export(module.eval(), (X,))


def test_what_was_refused_once_is_a_program_now() -> None:
    """Forms that an older exporter had no place for: each of them exports."""
    for function, arg in (
        (lambda _, x: x, X),
        (lambda _, x: torch.zeros(1, 3), X),
        (lambda _, x: torch.relu(x.view(2, 4)) + x.view(2, 4).sum(), X),
        (lambda _, x: torch.topk(x, 2, largest=False), torch.zeros(2, 8)),
        (lambda _, x: F.gelu(x @ x.t()), X),
        (lambda _, x: F.linear(x, torch.full((2, 8), torch.nan)), X),
        (lambda _, x: F.embedding_bag(x, torch.ones(9, 4), torch.tensor([0, 2]), mode="max"), IDS),
    ):
        assert bytes(export(Simple(function).eval(), (arg,)))


def test_table_that_int8_cannot_scale_is_refused() -> None:
    """As a finding, not as an error of the quantizer."""
    table = torch.ones(9, 4)
    table[3, 2] = 2.0**121
    module = Simple(
        lambda s, x: F.embedding_bag(s.hash(x), s.table.weight, ZERO), hash=_hash(), table=nn.Embedding(9, 4)
    )
    module.load_state_dict({"table.weight": table})
    assert "2**113" in str(refusal(module, TEXT, quantize="int8"))


class Endless(nn.Module):
    """More operations in one run than the op budget."""

    def __init__(self) -> None:
        super().__init__()
        self.hash = NgramHash(1, 2, 1, 0, 2**20)
        self.table = nn.Parameter(torch.zeros(1, 300_000))

    def forward(self, utf8: Tensor) -> Tensor:
        """Run."""
        return F.embedding_bag(self.hash(utf8), self.table, torch.zeros(1, dtype=torch.int64))  # op budget line


def test_program_beyond_a_cap_of_the_format_is_refused() -> None:
    """What the verifier of the devices would refuse is a finding at export, with the line of the operator."""
    (finding,) = refusal(Endless(), "text").findings
    assert finding.op.startswith("aten._embedding_bag")
    assert finding.source == line_of("op budget line")
    assert "operations" in finding.suggestion


def test_wrong_use_of_export_is_a_plain_error(text_model: nn.Module) -> None:
    """Arguments that are not tensors or texts, unknown modes, shapes of a text."""
    with pytest.raises(TypeError, match="argument 0"):
        export(text_model, ({3},))
    with pytest.raises(TypeError, match="any length"):
        export(text_model, ("a",), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(TypeError, match="names"):
        export(text_model, ("a",), dynamic_shapes={"nothing": None})
    with pytest.raises(TypeError, match="1 arguments"):
        export(text_model, ("a",), dynamic_shapes=(None, None))
    with pytest.raises(ValueError, match="int4"):
        export(text_model, ("a",), quantize="int4")
    with pytest.raises(ValueError, match="calibration"):
        export(text_model, ("a",), calibration=[("a",)])


def test_nearest_form_has_an_answer_for_every_operator() -> None:
    """A table, then similar names, then where the list is."""
    assert "keep the mask" in suggest_form("aten.nonzero.default")
    assert suggest_form("aten.gelus.default") == "no rule for it; near it: gelu and elu"
    assert "coverage" in suggest_form("aten.airy.default")
    assert suggest_form("mine.quite_another.default")
