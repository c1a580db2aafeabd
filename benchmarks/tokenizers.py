"""Times tokenizers beside the libraries they are read from: `python -m benchmarks.tokenizers [--rounds N]`.

Each is trained on the page's own texts, then all texts are tokenized by turns, on one core.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import sentencepiece
from alcove.runtime.tokenizers import Tokenizer
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers, trainers

from benchmarks.options import write_json

DOCUMENTS = Path(__file__).resolve().parents[1] / "docs"
Encode = Callable[[str], Sequence[int]]


def read_texts() -> list[str]:
    """Return the paragraphs of the documents."""
    paths = sorted(DOCUMENTS.glob("*.md"))
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.strip()]


def make_pairs(texts: Sequence[str], folder: Path) -> dict[str, tuple[Tokenizer, Encode]]:
    """Return tokenizers by name: ours, and the library's function."""
    byte_pair, word_piece = Library(models.BPE()), Library(models.WordPiece(unk_token="[UNK]"))
    byte_pair.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte_pair.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=4000, initial_alphabet=alphabet))
    word_piece.normalizer, word_piece.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    word_piece.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=4000, special_tokens=["[UNK]"]))
    pairs: dict[str, tuple[Tokenizer, Encode]] = {}
    for name, library in {"byte-pair, tokenizers": byte_pair, "WordPiece, tokenizers": word_piece}.items():
        library.save(str(folder / "tokenizer.json"))
        ours = Tokenizer.from_file(folder / "tokenizer.json")
        pairs[name] = ours, partial(_ids, library)
    (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    for kind in ("unigram", "bpe"):
        sentencepiece.SentencePieceTrainer.Train(
            input=str(folder / "texts.txt"),
            model_prefix=str(folder / kind),
            vocab_size=2000,
            hard_vocab_limit=False,
            model_type=kind,
            minloglevel=2,
        )
        other = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{kind}.model"))
        pairs[f"{kind}, sentencepiece"] = Tokenizer.from_file(folder / f"{kind}.model"), other.encode
    return pairs


def _ids(library: Library, text: str) -> Sequence[int]:
    ids: Sequence[int] = library.encode(text).ids
    return ids


def rate(encode: Encode, texts: Sequence[str]) -> float:
    """Return how many MB a second are tokenized."""
    begin = time.perf_counter()
    for text in texts:
        encode(text)
    return sum(len(text.encode()) for text in texts) / (time.perf_counter() - begin) / 1e6


def main() -> int:
    """Train, time, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokenizers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often all take their turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    texts, rows = read_texts(), []
    with tempfile.TemporaryDirectory(prefix="alcove-tokenizers-") as folder:
        pairs = make_pairs(texts, Path(folder))
        for name, (ours, library) in pairs.items():
            equal = sum(ours.encode(text) == list(library(text)) for text in texts)
            turns = [(rate(ours.encode, texts), rate(library, texts)) for _ in range(options.rounds)]
            rows.append(
                {
                    "tokenizer": name,
                    "texts": len(texts),
                    "equal": equal,
                    "mb_per_s": median(mine for mine, _ in turns),
                    "library_mb_per_s": median(other for _, other in turns),
                    "ratio": median(mine / other for mine, other in turns),
                    "table_bytes": len(ours.table),
                }
            )
    table = Table("tokenizer", "texts", "equal", "MB/s", "library", "ratio", "table, bytes")
    for row in rows:
        speeds = (f"{row['mb_per_s']:.1f}", f"{row['library_mb_per_s']:.1f}", f"{row['ratio']:.2f}×")
        table.add_row(str(row["tokenizer"]), str(row["texts"]), str(row["equal"]), *speeds, f"{row['table_bytes']:,}")
    Console().print(table)
    write_json(options.json, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
