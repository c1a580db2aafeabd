"""Does everything that cannot be exported come as one readable list?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from alcove.runtime.compiler.legalise import OPERATORS, nearest_form
from alcove.runtime.ops import LabelledTopK, NgramHash, ngram_hash
from torch import Tensor, nn

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

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        x = self.norm(x)  # norm line
        return F.gelu(x)  # gelu line


class Unsupported(nn.Module):
    """Four operators and an output that no program has, between some that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.block = Block()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Run."""
        y = self.block(torch.relu(self.first(x)))
        z = torch.sigmoid(y) * x  # product line
        worst = torch.topk(z, 2, largest=False).values  # worst line
        return worst, self.first(y).squeeze(0)


def test_all_findings_come_at_once_with_the_users_lines() -> None:
    """Op, module, source line and nearest form of each, in the order of the graph; the message holds all of them."""
    error = refusal(Unsupported(), torch.zeros(1, 8))
    seen = [(f.op, f.module_path, f.source) for f in error.findings]
    assert seen == [
        ("aten.layer_norm.default", "block.norm", line_of("norm line")),
        ("aten.gelu.default", "block", line_of("gelu line")),
        ("aten.sigmoid.default", "", line_of("product line")),
        ("aten.mul.Tensor", "", line_of("product line")),
        ("aten.topk.default", "", line_of("worst line")),
        ("output output_1", "", ""),
    ]
    nearest = [f.nearest for f in error.findings]
    assert "relu" in nearest[1]
    assert "largest=True" in nearest[4]
    assert "[1, 8]" in nearest[5]
    for finding in error.findings:
        assert finding.op in str(error)
        assert finding.nearest in str(error)


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
    assert any(part in finding.nearest for part in word.split("|"))
    assert error.__cause__ is not None
    said = capfd.readouterr()
    assert said.out + said.err == ""


class Stateful(nn.Module):
    """A module that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        self.get_buffer("calls").add_(1)
        return torch.relu(x)


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


IDS = torch.tensor([1, 2, 3], dtype=torch.int32)
OFFSETS = torch.zeros(1, dtype=torch.int32)
X = torch.zeros(1, 8)


@pytest.mark.parametrize(
    ("module", "arg", "words"),
    [
        (Stateful(), X, "keeps no state"),
        (Simple(lambda _, x: (torch.relu(x), 3)), X, "only tensors"),
        (Simple(lambda _, x: x), X, "handed back"),
        (Simple(lambda _, x: torch.zeros(1, 3)), X, "depends on no input"),
        (Simple(lambda _, x: ()), X, "at least one tensor"),
        (Simple(lambda _, x: torch.relu(x)), torch.zeros(8), "[1, 8]"),
        (Simple(lambda _, x: torch.relu(x)), torch.zeros(1, 8, dtype=torch.float64), "float32"),
        (Simple(lambda _, x: torch.relu(x)), torch.zeros(1, 8, dtype=torch.int64), "int32"),
        (Simple(lambda _, x: torch.relu(x)), torch.zeros(1, 0), "no elements"),
        (Simple(lambda _, x: torch.relu(x.view(2, 4))), X, "rows and columns"),
        (Simple(lambda _, x: torch.topk(x, 1)), torch.zeros(2, 8), "one row"),
        (Simple(lambda _, x: torch.topk(x, 1025)), torch.zeros(1, 2000), "1024"),
        (Simple(lambda _, x: x @ x.t()), X, "constant"),
        (Simple(lambda _, x: torch.addmm(torch.ones(3), x, torch.ones(8, 3), alpha=2)), X, "alpha"),
        (Simple(lambda _, x: torch.relu(x) + x), X, "right after a linear"),
        (Simple(lambda s, x: s.lin(x), lin=nn.Linear(8, 2).to(torch.bfloat16)), X.to(torch.bfloat16), "float32"),
        (Simple(lambda _, x: F.linear(x, torch.full((2, 8), torch.nan))), X, "finite"),
        (Simple(lambda s, x: s.bag(x, OFFSETS), bag=nn.EmbeddingBag(9, 4, mode="max")), IDS, "mode='mean'"),
        (Simple(lambda s, x: s.bag(x, OFFSETS), bag=nn.EmbeddingBag(9, 4, padding_idx=0)), IDS, "padding_idx"),
        (Simple(lambda s, x: s.bag(x, torch.tensor([0, 2])), bag=nn.EmbeddingBag(9, 4)), IDS, "offsets [0]"),
        (Simple(lambda s, x: s.emb(x), emb=nn.Embedding(9, 4)), IDS, "embedding_bag"),
        (Simple(lambda s, x: s.top(x), top=LabelledTopK(("a", "b"), 1)), X, "2 labels for 8 scores"),
        (Simple(lambda s, x: s.top(x), top=LabelledTopK([f"bad\n{i}" for i in range(8)], 1)), X, "printable"),
        (Simple(lambda s, x: torch.relu(x.to(torch.float32))), "text", "ngram_hash"),
        (Simple(lambda s, x: s.hash(x[1:]), hash=NgramHash(1, 3, 9, 0, 8)), "text", "ngram_hash"),
    ],
)
def test_forms_that_are_not_supported_name_the_one_that_is(module: nn.Module, arg: object, words: str) -> None:
    """The finding says what to write instead."""
    error = refusal(module, arg)
    assert words in str(error)


def test_table_smaller_than_the_buckets_is_refused() -> None:
    """An id beyond the table would be found only by an unlucky text; it is found here."""
    module = Simple(
        lambda s, x: F.embedding_bag(s.hash(x), s.table.weight, torch.zeros(1, dtype=torch.int64), mode="sum"),
        hash=NgramHash(1, 3, 100, 0, 8),
        table=nn.Embedding(99, 4),
    )
    assert "99 rows for 100 buckets" in str(refusal(module, "text"))


def test_table_that_int8_cannot_scale_is_refused() -> None:
    """As a finding, not as an error of the quantiser."""
    bag = nn.EmbeddingBag(9, 4, mode="sum")
    with torch.no_grad():
        bag.weight[3, 2] = 2.0**121
    module = Simple(lambda s, x: s.bag(x, OFFSETS), bag=bag)
    assert "2**113" in str(refusal(module, IDS, quantize="int8"))


class Endless(nn.Module):
    """More steps in one run than the format allows."""

    def __init__(self) -> None:
        super().__init__()
        self.hash = NgramHash(1, 2, 1, 0, 2**20)
        self.table = nn.Parameter(torch.zeros(1, 20_000))

    def forward(self, utf8: Tensor) -> Tensor:
        """Run."""
        return F.embedding_bag(self.hash(utf8), self.table, torch.zeros(1, dtype=torch.int64))  # steps line


def test_program_beyond_a_cap_of_the_format_is_refused() -> None:
    """What the verifier of the devices would refuse is a finding at export, with the line of the operator."""
    (finding,) = refusal(Endless(), "text").findings
    assert finding.op.startswith("aten.embedding_bag")
    assert finding.source == line_of("steps line")
    assert "steps" in finding.nearest


def test_number_that_the_format_does_not_hold_is_a_finding() -> None:
    """A seed below zero, passed around the checks of `NgramHash`."""
    module = Simple(lambda _, x: F.embedding_bag(ngram_hash(x, 1, 2, 1, -1, 9), torch.ones(1, 4), torch.tensor([0])))
    assert "does not fit" in str(refusal(module, "text"))


def test_active_dropout_is_refused() -> None:
    """A module in training mode is told to call eval()."""
    module = Simple(lambda s, x: s.drop(x), drop=nn.Dropout(0.5)).train()
    with pytest.raises(ExportError, match=r"eval\(\)"):
        export(module, (X,))


def test_rows_that_vary_are_refused() -> None:
    """Only ids and texts vary in length; without a bound not even they."""
    rows = {"x": {0: torch.export.Dim("rows", max=9)}}
    module = Simple(lambda _, x: torch.relu(x))
    assert "vary" in str(refusal(module, torch.zeros(4, 8), dynamic_shapes=rows))
    bag = Simple(lambda s, x: s.bag(x, OFFSETS), bag=nn.EmbeddingBag(9, 4))
    assert "max" in str(refusal(bag, IDS, dynamic_shapes={"x": {0: torch.export.Dim("ids")}}))


def test_wrong_use_of_export_is_a_plain_error(text_model: nn.Module) -> None:
    """Arguments that are not tensors or texts, unknown modes, shapes of a text."""
    with pytest.raises(TypeError, match="argument 0"):
        export(text_model, (3,))
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
    """A table, then similar names, then the list of what there is."""
    assert nearest_form("aten.gelu.default") == "relu"
    assert nearest_form("aten.relu6.default") == "relu"
    assert all(op in nearest_form("aten.fft_fft.default") for op in OPERATORS)
