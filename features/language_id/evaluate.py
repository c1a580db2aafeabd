"""How good are the committed programs?  Runs them in the native runtime and writes the figures of CARD.md.

python -m alcove.features.language_id.evaluate --data ../shared/data/lid    # writes the card and its neighbours
python -m alcove.features.language_id.evaluate --texts FILE.tsv             # your texts: language<TAB>text; only prints
python -m alcove.features.language_id.evaluate                              # the demo's sentences; only prints
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from alcove.features.language_id.card import accuracy_picture, figures, replace_figures
from alcove.features.language_id.config import CONFIGS, LANGUAGES
from alcove.features.language_id.contract import SENTENCES, UNKNOWN_BELOW, program_path
from alcove.features.language_id.dataset import DOUBTED, read_rows
from alcove.features.language_id.metrics import (
    Prediction,
    accuracy_by_language,
    confusions,
    expected_calibration_error,
    mean_accuracy,
    share_below,
)
from alcove.runtime import Session, load

FOLDER: Final = Path(__file__).parent
LATENCY_TEXTS: Final = 2000
KINDS: Final = {"words": "single-words", "pairs": "word-pairs", "sentences": "sentences"}
"""What the card calls them, and what lid_dev.tsv.xz does."""

Texts = Sequence[tuple[str, str]]
"""(language, text)."""


def texts_of_tsv(path: Path) -> list[tuple[str, str]]:
    """Return the (language, text) of a file with a tab between them; lines that begin with # are comments.

    Raises:
        ValueError: a line has no tab, or an unknown language; names the line.
    """
    texts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line or line.startswith("#"):
            continue
        language, tab, text = line.partition("\t")
        if not tab or language not in LANGUAGES:
            raise ValueError(
                f"{path.name}, line {number}: expected one of {len(LANGUAGES)} languages, a tab and a text"
            )
        texts.append((language, text))
    return texts


def predict(session: Session, texts: Texts) -> list[Prediction]:
    """Return a prediction for each text."""
    return list(_predictions(session, texts))


def _predictions(session: Session, texts: Texts) -> Iterator[Prediction]:
    for language, text in texts:
        probabilities, languages = session(text)
        yield Prediction(language, str(languages[0, 0]), float(probabilities[0, 0]))


def latency_us(session: Session, texts: Texts) -> float:
    """Return the median time of one prediction in microseconds, Python's call included."""
    times = []
    for _, text in texts[:LATENCY_TEXTS]:
        began = time.perf_counter_ns()
        session(text)
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000


def summary_of(session: Session, texts: Texts) -> dict[str, Any]:
    """Return the figures of one kind of text, as JSON values; shares in [0, 1]."""
    predictions = predict(session, texts)
    spread = texts[:: max(1, len(texts) // LATENCY_TEXTS)]
    return {
        "texts": len(texts),
        "accuracy": round(mean_accuracy(predictions), 4),
        "calibration_error": round(expected_calibration_error(predictions), 4),
        "right_unknown": round(share_below([p for p in predictions if p.is_right], UNKNOWN_BELOW), 4),
        "wrong_unknown": round(share_below([p for p in predictions if not p.is_right], UNKNOWN_BELOW), 4),
        "latency_us": round(latency_us(session, spread), 1),
        "by_language": {code: round(share, 4) for code, share in accuracy_by_language(predictions).items()},
        "confusions": confusions(predictions, 12),
    }


def evaluate(version: str, kinds: dict[str, Texts], others: Texts) -> dict[str, Any]:
    """Return the figures of a committed version, as JSON values.

    Args:
        version: a committed one.
        kinds: texts by the name of their kind.
        others: texts outside the 75 languages, may be empty.

    Raises:
        ProgramError: the committed program is damaged.
    """
    path = program_path(version)
    model = load(path)
    session = model.session()
    result: dict[str, Any] = {
        "version": version,
        "size_bytes": path.stat().st_size,
        "memory_ceiling_bytes": model.memory_ceiling_bytes,
        "digest": model.digest,
        "unknown_below": UNKNOWN_BELOW,
        "kinds": {kind: summary_of(session, texts) for kind, texts in kinds.items()},
    }
    result["mean_accuracy"] = round(statistics.mean(kind["accuracy"] for kind in result["kinds"].values()), 4)
    if others:
        result["others_unknown"] = round(share_below(predict(session, others), UNKNOWN_BELOW), 4)
    return result


def dev_texts(data: Path) -> dict[str, Texts]:
    """Return the development texts by kind, words and pairs first."""
    rows = list(read_rows(data / "lid_dev.tsv.xz"))
    return {kind: [(row[1], row[2]) for row in rows if row[0] == name] for kind, name in KINDS.items()}


def other_texts(data: Path) -> Texts:
    """Return the texts in languages that training never saw, not even to doubt them."""
    rows = read_rows(data / "lid_other_languages.tsv.xz")
    return [("", text) for code, _, text in rows if code not in DOUBTED]


def main() -> None:
    """Evaluate the committed versions and print, or write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data", type=Path, help="folder with lid_dev.tsv.xz: evaluate on it and write the card")
    where.add_argument("--texts", type=Path, help="file of language<TAB>text: evaluate on it and print")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    arguments = parser.parse_args()
    kinds: dict[str, Texts]
    if arguments.data:
        kinds, others = dev_texts(arguments.data), other_texts(arguments.data)
    else:
        path = arguments.texts or SENTENCES
        kinds, others = {path.name: texts_of_tsv(path)}, []
    results = [evaluate(version, kinds, others) for version in sorted(CONFIGS) if program_path(version).exists()]
    print(figures(results))  # noqa: T201 (what the command is for)
    document = json.dumps({"results": results}, indent=1, ensure_ascii=False) + "\n"
    if arguments.json:
        arguments.json.write_text(document, encoding="utf-8")
    if arguments.data:
        (FOLDER / "evaluation.json").write_text(document, encoding="utf-8")
        (FOLDER / "accuracy.svg").write_text(accuracy_picture(results[-1]), encoding="utf-8")
        card = FOLDER / "CARD.md"
        card.write_text(replace_figures(card.read_text(encoding="utf-8"), figures(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
