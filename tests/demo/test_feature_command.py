"""`alcove feature`: one JSON answer a line for one text a line, whatever the line holds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alcove.features.language_id.config import LANGUAGES

ALCOVE = Path(sys.executable).parent / "alcove"

LINES: dict[str, tuple[bytes, str | None, bool | None]] = {
    # name: (line without its end, language or None for "any", is_unknown or None for "any")
    "german": ("Wo ist der nächste Bahnhof, bitte?".encode(), "de", False),
    "hindi": ("आज मौसम बहुत अच्छा है।".encode(), "hi", False),
    "japanese": ("駅までどのくらいかかりますか。".encode(), "ja", False),
    "empty": (b"", None, True),
    "spaces": (b"   \t ", None, True),
    "emoji": ("😀🎉🚀".encode(), None, True),
    "digits": (b"1234 5678", None, True),
    "one megabyte": (b"det er en dejlig dag " * 50_000, None, False),
    "a null byte": (b"Guten\0Morgen zusammen", None, None),
}
BAD = {"latin-1": "Où est la gare ?".encode("latin-1"), "cut off": "naïve".encode()[:3], "surrogate": b"\xed\xa0\x80"}


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `alcove feature …` on some bytes."""
    return subprocess.run([ALCOVE, "feature", *arguments], input=stdin, check=False, capture_output=True, timeout=120)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_every_line_has_one_answer(tmp_path: Path, end: bytes) -> None:
    """Good, empty, strange and bad lines: as many answers as lines, in order, from a file and from standard input."""
    lines = [line for line, _, _ in LINES.values()] + list(BAD.values()) + [b"Hei, miten menee?"]
    data = end.join(lines)  # the last line has no end
    file = tmp_path / "texts"
    file.write_bytes(data)
    from_file, from_pipe = run("run", "language_id", "--input", file), run("run", "language_id", "-i", "-", stdin=data)
    assert (from_file.returncode, from_pipe.returncode) == (0, 0), from_file.stderr
    assert from_file.stdout == from_pipe.stdout
    answers: list[dict[str, Any]] = [json.loads(line) for line in from_file.stdout.splitlines()]
    assert len(answers) == len(lines)
    for answer, (name, (_, language, is_unknown)) in zip(answers, LINES.items(), strict=False):
        assert answer["version"] == "4.1.0"
        assert answer["value"]["language"] in ([language] if language else LANGUAGES), name
        assert is_unknown is None or answer["value"]["is_unknown"] is is_unknown, name
        assert answer["value"]["ranked"][0]["language"] == answer["value"]["language"]
    for answer in answers[len(LINES) : -1]:
        assert answer["value"] is None
        assert answer["error"]["type"] == "InvalidTextError"
        assert "position" in answer["error"]["message"]
    assert answers[-1]["value"]["language"] == "fi"


def test_no_line_has_no_answer() -> None:
    """Nothing in, nothing out."""
    done = run("run", "language_id", stdin=b"")
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(("run", "nonsense"), b"language_id"), (("run", "language_id", "--input", "/nonexistent/file"), b"/nonexistent")],
)
def test_wrong_use_says_what_there_is(arguments: tuple[str, ...], named: bytes) -> None:
    """An unknown feature or file: exit code 2, and a sentence that helps."""
    done = run(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_list_names_the_features_as_table_and_as_json() -> None:
    """`feature list` shows what there is; `--json` says the same."""
    rows = {row["feature"]: row for row in json.loads(run("list", "--json").stdout)}
    row = rows["language_id"]
    assert row["version"] == "4.1.0"
    assert 1_000_000 < row["size_bytes"] <= 3_000_000
    assert b"language_id" in run("list").stdout
