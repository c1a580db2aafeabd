"""Evaluates the committed programs in the native runtime, and writes the figures of CARD.md.

python -m alcove.features.language_id.evaluate --data FOLDER    # writes the card and its neighbours
    --peers PEERS              # also beside other libraries, installed in that environment (peers.py)
    --held-out RUN ntrex       # also a run of `train --without ntrex` on that source
                               # (left_out.json, by cross_validate.py, is shown as it lies here)
python -m alcove.features.language_id.evaluate --texts FILE.tsv             # your texts: language<TAB>text; only prints
python -m alcove.features.language_id.evaluate                              # the demo's sentences; only prints
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from alcove.features.card_figures import replace_figures
from alcove.features.language_id.card import accuracy_picture, figures
from alcove.features.language_id.config import CONFIGS, DEFAULT_VERSION, LANGUAGES, NEAR_GROUPS, UNKNOWN_BELOW
from alcove.features.language_id.contract import LEFT_OUT, SENTENCES, TRIALS, program_path
from alcove.features.language_id.dataset import (
    KEPT_FROM_TRAINING,
    NEVER_SHOWN,
    SPACELESS,
    is_among,
    make_separator_table,
    read_rows,
)
from alcove.features.language_id.metrics import (
    Prediction,
    accuracy_by_language,
    auroc,
    confusions,
    expected_calibration_error,
    mean_accuracy,
    share_below,
)
from alcove.features.language_id.overlap import shared_words
from alcove.features.language_id.peers import compare, sample
from alcove.features.language_id.robustness import measure_characters, measure_robustness
from alcove.features.language_id.spans import WORD, Run, detect_spans
from alcove.runtime import Session, load

FOLDER: Final = Path(__file__).parent
LATENCY_TEXTS: Final = 2000
CHANGED_TEXTS: Final = 200
"""Of each language and kind, for the figures of changed texts."""
SEED: Final = 75
SHORTEST_WORD: Final = 5
"""Letters of a word that stands alone, as in lid_dev.tsv.xz."""
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


def evaluate_held_out(
    run: Path, source: str, texts: dict[str, Texts], python: Path | None = None, per_language: int = 0
) -> dict[str, Any]:
    """Return how a run of the default version does on a source that it was trained without, as JSON values.

    Args:
        run: folder of the run.
        source: as in lid_train.tsv.xz.
        texts: of the source, by kind.
        python: of the environment with other libraries; None to leave them out.
        per_language: texts of a language and kind for these.

    Raises:
        FileNotFoundError: the folder holds no finished run.
        ValueError: it was trained on that source.
    """
    from alcove.features.language_id.build import compile_module, module_of_run  # noqa: PLC0415 - loads torch

    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    if source in record["rows_read"]:
        raise ValueError(f"{run} was trained on {source}")
    version = DEFAULT_VERSION
    program = compile_module(module_of_run(run, version), version)
    session = load(bytes(program)).session()
    result: dict[str, Any] = {"version": version, "source": source, "steps": record["plan"]["steps"], "kinds": {}}
    for kind, own in texts.items():
        predictions = predict(session, own)
        right = sum(p.is_right for p in predictions) / len(predictions)
        result["kinds"][kind] = {
            "accuracy": round(mean_accuracy(predictions), 4),
            "calibration_error": round(expected_calibration_error(predictions), 4),
            "over_confidence": round(statistics.mean(p.probability for p in predictions) - right, 4),
        }
    result["languages"] = len({language for language, _ in texts["sentences"]})
    result["mean_accuracy"] = round(statistics.mean(kind["accuracy"] for kind in result["kinds"].values()), 4)
    if python is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "held_out.alc"
            program.save(path)
            rows = compare(python, path, sample(texts, per_language))
        result["peers"] = {"per_language": per_language, "rows": rows}
    return result


def source_lines(data: Path, source: str) -> dict[str, list[str]]:
    """Return the lines of a source of the training file, by language."""
    lines: dict[str, list[str]] = {}
    for language, own_source, text in read_rows(data / "lid_train.tsv.xz"):
        if own_source == source:
            lines.setdefault(language, []).append(text)
    return lines


def distinct_words(lines: Sequence[str], separators: dict[int, str]) -> dict[str, None]:
    """Return the words of at least `SHORTEST_WORD` letters as they stand, each once, in order."""
    return dict.fromkeys(
        word for text in lines for word in text.translate(separators).split() if len(word) >= SHORTEST_WORD
    )


def source_texts(data: Path, source: str, per_language: int = 150) -> dict[str, Texts]:
    """Return texts of a source of the training file by kind: sentences, and words and pairs cut from them."""
    choice = random.Random(SEED)  # noqa: S311 (repeatable, nothing secret)
    lines = source_lines(data, source)
    texts: dict[str, list[tuple[str, str]]] = {kind: [] for kind in KINDS}
    separators = make_separator_table()
    for language, own in sorted(lines.items()):
        choice.shuffle(own)
        texts["sentences"] += [(language, text) for text in own[:per_language]]
        if language in SPACELESS:
            continue
        words = list(distinct_words(own, separators))
        choice.shuffle(words)
        texts["words"] += [(language, word) for word in words[:per_language]]
        pairs = zip(words[::2], words[1::2], strict=False)
        texts["pairs"] += [(language, f"{a} {b}") for a, b in islice(pairs, per_language)]
    return dict(texts)


def compare_peers(python: Path, version: str, kinds: dict[str, Texts], per_language: int) -> dict[str, Any]:
    """Return how other libraries do on a sample of the texts, as JSON values."""
    chosen = sample(kinds, per_language)
    return {"per_language": per_language, "rows": compare(python, program_path(version), chosen)}


def share_of_spans_right(session: Run, sentences: Texts) -> float:
    """Return the share of words that `detect_spans` gives the right language, in texts of two sentences in a row.

    The sentences follow each other in an order of chance; two of one language in a row are left out.
    """
    order = list(sentences)
    random.Random(SEED).shuffle(order)  # noqa: S311 (repeatable, nothing secret)
    right = total = 0
    for (one, first), (two, second) in zip(order[::2], order[1::2], strict=False):
        if one == two:
            continue
        text = f"{first} {second}"
        spans = detect_spans(session, text)
        for match in WORD.finditer(text):
            found = next(span.language for span in spans if span.start <= match.start() < span.end)
            right += found == (one if match.start() < len(first) else two)
            total += 1
    return right / total


def evaluate(version: str, kinds: dict[str, Texts], others: dict[str, Texts]) -> dict[str, Any]:
    """Return the figures of a committed version, as JSON values.

    Args:
        version: a committed one.
        kinds: texts by the name of their kind; "sentences" among them if there are `others`.
        others: texts outside the 75 languages, by what training saw of theirs.

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
        few: dict[str, list[tuple[str, str]]] = {kind: [] for kind in kinds}
        for kind, language, text in sample(kinds, CHANGED_TEXTS):
            few[kind].append((language, text))
        result["robustness"] = measure_robustness(session, few)
        result["characters"] = measure_characters(session, kinds["sentences"])
        known = [p.probability for p in predict(session, kinds["sentences"])]
        result["others"] = {name: rejection(known, predict(session, texts)) for name, texts in others.items()}
        result["spans"] = round(
            share_of_spans_right(session, kinds["sentences"][:: len(kinds["sentences"]) // 3000]), 4
        )
    return result


def rejection(known: Sequence[float], unknown: Sequence[Prediction]) -> dict[str, Any]:
    """Return how well texts outside the 75 languages are distinguished from sentences of the 75, as JSON values.

    Args:
        known: probabilities of the best language, of sentences in the 75.
        unknown: predictions of the others, whose `language` is their own code.
    """
    by_language: dict[str, list[Prediction]] = {}
    for prediction in unknown:
        by_language.setdefault(prediction.language, []).append(prediction)
    return {
        "texts": len(unknown),
        "unknown": round(share_below(unknown, UNKNOWN_BELOW), 4),
        "auroc": round(auroc(known, [p.probability for p in unknown]), 4),
        "unknown_by_language": {
            code: round(share_below(own, UNKNOWN_BELOW), 4) for code, own in sorted(by_language.items())
        },
    }


def dev_texts(data: Path) -> dict[str, Texts]:
    """Return the development texts by kind, words and pairs first."""
    rows = list(read_rows(data / "lid_dev.tsv.xz"))
    return {kind: [(row[1], row[2]) for row in rows if row[0] == name] for kind, name in KINDS.items()}


def other_texts(data: Path) -> dict[str, Texts]:
    """Return texts outside the 75 languages, none of which training drew: "taught" and "never seen" languages."""
    texts: dict[str, list[tuple[str, str]]] = {"taught": [], "never seen": []}
    for code, _, text in read_rows(data / "lid_other_languages.tsv.xz"):
        if code in NEVER_SHOWN:
            texts["never seen"].append((code, text))
        elif is_among(text, KEPT_FROM_TRAINING):
            texts["taught"].append((code, text))
    return dict(texts)


def read_record(path: Path) -> dict[str, Any] | None:
    """Return what was written to `LEFT_OUT` or `TRIALS`, None where that was not done."""
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def main() -> None:
    """Evaluate the committed versions and print, or write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data", type=Path, help="folder with lid_dev.tsv.xz: evaluate on it and write the card")
    where.add_argument("--texts", type=Path, help="file of language<TAB>text: evaluate on it and print")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--peers", type=Path, help="environment with other libraries, compared with on the same texts")
    parser.add_argument("--per-language", type=int, default=100, help="texts of a language and kind for these")
    parser.add_argument("--held-out", nargs=2, metavar=("RUN", "SOURCE"), help="with --data: a run without that source")
    arguments = parser.parse_args()
    kinds: dict[str, Texts]
    if arguments.data:
        kinds, others = dev_texts(arguments.data), other_texts(arguments.data)
    else:
        path: Path = arguments.texts or SENTENCES
        kinds = {path.name: texts_of_tsv(path)}
        others = {}
    results = [evaluate(version, kinds, others) for version in sorted(CONFIGS) if program_path(version).exists()]
    document: dict[str, Any] = {"results": results}
    measured = FOLDER / "evaluation.json"
    if arguments.data and measured.exists():  # what takes long is kept until it is measured again
        earlier = json.loads(measured.read_text(encoding="utf-8"))
        document |= {key: earlier[key] for key in ("held_out", "peers") if key in earlier}
    python = arguments.peers / "bin" / "python" if arguments.peers else None
    if arguments.data and arguments.held_out:
        run, source = arguments.held_out
        texts = source_texts(arguments.data, source)
        document["held_out"] = evaluate_held_out(Path(run), source, texts, python, arguments.per_language)
        separators = make_separator_table()
        words = {
            code: {word.lower() for word in distinct_words(own, separators)}
            for code, own in source_lines(arguments.data, source).items()
        }
        document["held_out"]["shared_words"] = shared_words(words, NEAR_GROUPS)
    if python is not None:
        document["peers"] = compare_peers(python, DEFAULT_VERSION, kinds, arguments.per_language)
    text = figures(
        results,
        held_out=document.get("held_out"),
        left_out=read_record(LEFT_OUT),
        trials=read_record(TRIALS),
        peers=document.get("peers"),
    )
    print(text)  # noqa: T201 (what the command is for)
    written = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if arguments.json:
        arguments.json.write_text(written, encoding="utf-8")
    if arguments.data:
        measured.write_text(written, encoding="utf-8")
        (FOLDER / "accuracy.svg").write_text(accuracy_picture(results[-1]), encoding="utf-8")
        card = FOLDER / "CARD.md"
        card.write_text(replace_figures(card.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
