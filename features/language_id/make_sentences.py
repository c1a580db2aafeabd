"""Chooses the sentences that the demo's devices read, and writes `sentences.tsv` from Common Voice (CC0).

    python -m alcove.features.language_id.make_sentences --data FOLDER

Training leaves every text of the file out, so that the demo does not read what the models were trained on.
"""

import argparse
import random
from pathlib import Path

from alcove.features.language_id.contract import SENTENCES
from alcove.features.language_id.dataset import read_rows

SEED = 75
PER_LANGUAGE = 32
FEWEST_LINES = 60
"""A language with fewer suitable lines is left out: taking them would starve its training."""

SHORTEST, LONGEST = 16, 60
"""Characters of a sentence; half of it for the dense scripts of zh, ja and ko."""

HEADING = """\
# Sentences of Mozilla Common Voice, licence CC0-1.0, from https://github.com/mozilla/voice-web
# language (ISO 639-1) <TAB> text; made by make_sentences.py, left out of training
"""


def is_suitable(language: str, text: str) -> bool:
    """Return whether a sentence is as long as a chat message."""
    divisor = 2 if language in {"zh", "ja", "ko"} else 1
    return SHORTEST // divisor <= len(text) <= LONGEST // divisor


def choose(data: Path) -> list[tuple[str, str]]:
    """Return the chosen (language, text), by language, from the training file in `data`."""
    found: dict[str, list[str]] = {}
    for language, source, text in read_rows(data / "lid_train.tsv.xz"):
        if source == "commonvoice" and is_suitable(language, text):
            found.setdefault(language, []).append(text)
    choice = random.Random(SEED)  # noqa: S311 (repeatable, nothing secret)
    chosen: list[tuple[str, str]] = []
    for language in sorted(found):
        if len(found[language]) >= FEWEST_LINES:
            chosen.extend((language, text) for text in sorted(choice.sample(found[language], PER_LANGUAGE)))
    return chosen


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with lid_train.tsv.xz")
    arguments = parser.parse_args()
    rows = "".join(f"{language}\t{text}\n" for language, text in choose(arguments.data))
    SENTENCES.write_text(HEADING + rows, encoding="utf-8")


if __name__ == "__main__":
    main()
