"""Reads a team's texts, and puts a text model behind its tokenizer: UTF-8 in, labels or a vector out."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
import typer
from alcove.platform.cli.importing.folders import Folder
from alcove.platform.cli.importing.pretrained import Pretrained, import_transformers, quiet
from alcove.runtime.ops import LabelledTopK
from alcove.runtime.tokenizers import Tokenizer, UnsupportedTokenizerError
from alcove.runtime.tokenizers.modules import Tokenize
from torch import Tensor, nn

LENGTH: Final = 128
"""Tokens where no number is given."""
TOKENIZERS: Final = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
"""Files that a tokenizer is read from."""
MOST_LINES: Final = 100_000
OWN: Final = (
    "The train to Hamburg leaves at seven from platform four.",
    "I did not like it at all: too slow, too loud and far too expensive.",
    "What a wonderful evening, thank you so much for everything!",
    "Bitte sagen Sie mir, wo ich hier eine Fahrkarte kaufen kann.",
    "La réunion de demain est annulée ; merci de prévenir Marie.",
    "Mañana va a llover en toda la costa, según el informe.",
    "Restart the router, wait a minute, then try to sign in again.",
    "She sold 120 shares of the company on Friday for 3,400 dollars.",
)
"""Texts of ours, from which those of a certificate are chosen."""


@dataclass(frozen=True)
class Texts:
    """A team's texts.

    Attributes:
        texts: in the order of the file.
        labels: of each; empty if the file has none.
    """

    texts: list[str]
    labels: list[str]


def read_texts(path: Path) -> Texts:
    """Return the texts in a file: one a line, or label, tab and text in each.

    Raises:
        typer.BadParameter: it is empty, no UTF-8, or some lines have a label and others have not.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--texts {path}: texts are lines of UTF-8 ({error})") from None
    rows = [line for line in lines if line.strip()][:MOST_LINES]
    if not rows:
        raise typer.BadParameter(f"--texts {path}: no text in it; one a line, or label, tab and text")
    parted = [row.split("\t", 1) for row in rows]
    without = [index for index, row in enumerate(parted) if len(row) == 1]
    if len(without) == len(rows):
        return Texts(rows, [])
    if without:
        raise typer.BadParameter(
            f"--texts {path}: {len(without)} of {len(rows)} lines have no tab, such as {rows[without[0]][:40]!r}; a "
            "label, a tab and a text in each, or texts alone"
        )
    return Texts([text for _, text in parted], [label for label, _ in parted])


def read_tokenizer(folder: Folder) -> Tokenizer:
    """Return the tokenizer of a folder: `tokenizer.json`, or what transformers makes of its other files.

    Raises:
        typer.BadParameter: there is none, or one that no table can say.
    """
    path = folder.path / "tokenizer.json"
    try:
        if path.is_file():
            return Tokenizer.from_file(path)
        with tempfile.TemporaryDirectory() as made:
            _backend(folder).save(f"{made}/tokenizer.json")
            return Tokenizer.from_file(f"{made}/tokenizer.json")
    except UnsupportedTokenizerError as error:
        words = f"its tokenizer can't be part of a program: {error}"
        raise typer.BadParameter(f"--architecture {folder.path}: {words}") from None


def _backend(folder: Folder) -> Any:
    transformers = import_transformers(folder.path)
    if not any((folder.path / name).is_file() for name in TOKENIZERS):  # transformers makes an empty one then
        raise typer.BadParameter(f"--architecture {folder.path}: no tokenizer there: none of {', '.join(TOKENIZERS)}")
    try:
        with quiet(transformers):
            found = transformers.AutoTokenizer.from_pretrained(str(folder.path), local_files_only=True, use_fast=True)
    except Exception as error:  # noqa: BLE001 - transformers raises what its readers raise
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"--architecture {folder.path}: no tokenizer that can be read ({words})") from None
    return found.backend_tokenizer


def count_other_tokens(folder: Folder, tokenizer: Tokenizer, texts: Sequence[str], length: int) -> int | None:
    """Return how many texts have other tokens than transformers gives; None where it can't be asked."""
    try:
        backend = _backend(folder)
        backend.no_padding()
        backend.enable_truncation(length)
        return len([text for text in texts if backend.encode(text).ids != tokenizer.encode(text, length)])
    except Exception:  # noqa: BLE001 - a comparison more; the certificate does not depend on it
        return None


class TextModel(nn.Module):
    """A text model behind its tokenizer: a text in, scores of labels, of tokens, or a vector out."""

    def __init__(self, pretrained: Pretrained, tokenizer: Tokenizer, length: int, pooling: "Pooling") -> None:
        super().__init__()
        self.tokens = Tokenize(tokenizer, length)
        self.model = pretrained.module
        self.task = pretrained.task
        self.length = length
        self.pooling = pooling
        self.padding = int(getattr(pretrained.config, "pad_token_id", None) or 0)
        self.is_multiple = getattr(pretrained.config, "problem_type", None) == "multi_label_classification"
        self.label = LabelledTopK(pretrained.labels, 1) if pretrained.labels else None
        self.reads_last = _reads_last(pretrained.module)

    def forward(self, text: Tensor) -> dict[str, Tensor]:
        """Return what is known of the uint8 [bytes] `text`; in an exported program of a `str`."""
        ids, count = self.tokens(text)
        inside = torch.arange(self.length) < count
        ids = torch.where(inside, ids, self.padding)[None]
        mask = inside[None].long()
        if self.task == "embedding":
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            return {"embedding": self.pooling.pool(hidden, inside, count)}
        if self.reads_last:
            base = getattr(self.model, self.model.base_model_prefix)
            hidden = base(input_ids=ids, attention_mask=mask).last_hidden_state
            logits = self.model.score(hidden.index_select(1, count - 1)[:, 0])
        else:
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        scores = torch.sigmoid(logits) if self.is_multiple else torch.softmax(logits, -1)
        assert self.label is not None  # noqa: S101 - these tasks have labels
        if self.task == "tokens":
            scores = scores[0] * inside[:, None]
            return {"scores": scores, "label": self.label(scores).indices, "tokens": ids[0], "count": count}
        return {"scores": scores, "label": self.label(scores).indices}


def _reads_last(module: Any) -> bool:
    """Return whether a classifier reads the last token, which transformers looks for by the padding."""
    return hasattr(module, "score") and type(module).__name__.endswith("ForSequenceClassification")


@dataclass(frozen=True)
class Pooling:
    """How the vectors of tokens become one.

    Attributes:
        first: by the first token, in place of the mean over all.
        is_unit: whether its length is 1.
    """

    first: bool = False
    is_unit: bool = True

    def pool(self, hidden: Tensor, inside: Tensor, count: Tensor) -> Tensor:
        """Return f32 [1, width] of f32 [1, tokens, width]."""
        found = hidden[:, 0] if self.first else (hidden * inside[None, :, None]).sum(1) / count
        return F.normalize(found, dim=-1) if self.is_unit else found


def read_pooling(folder: Folder) -> Pooling:
    """Return the pooling of a sentence model: its own files', else the mean, of length 1."""
    own, modules = folder.path / "1_Pooling" / "config.json", folder.path / "modules.json"
    try:
        first = bool(json.loads(own.read_text("utf-8")).get("pooling_mode_cls_token")) if own.is_file() else False
        is_unit = "Normalize" in modules.read_text("utf-8") if modules.is_file() else True
    except (ValueError, AttributeError) as error:
        raise typer.BadParameter(f"--architecture {folder.path}: {own.name} is damaged ({error})") from None
    return Pooling(first, is_unit)


def check_length(folder: Folder, length: int | None) -> int:
    """Return how many tokens a program reads.

    Raises:
        typer.BadParameter: more than the model has places for.
    """
    places = folder.config.get("max_position_embeddings") or folder.config.get("n_positions")
    most = int(places) - (2 if "roberta" in str(folder.config.get("model_type")) else 0) if places else 1 << 14
    if folder.config.get("model_type") == "t5":
        most = 1 << 14
    if length is not None and length > most:
        raise typer.BadParameter(f"--length {length}: the model has places for {most} tokens")
    return length or min(LENGTH, most)
