"""Module docstrings open with a statement of what the module provides."""

import ast
from pathlib import Path

import pytest

FOLDERS = ("benchmarks", "features", "platform", "privacy", "registry", "runtime", "sdk", "tests", "tools")


def opening(source: str) -> str:
    """The first paragraph of a module's docstring, on one line."""
    return " ".join((ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0].split())


def is_question(text: str) -> bool:
    """Whether it asks the reader, in its first or last sentence, instead of saying."""
    return text.endswith("?") or "? " in text


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_opens_with_a_question(repository: Path, folder: str) -> None:
    """Module docstrings are statements."""
    found = sorted((repository / folder).rglob("*.py"))
    assert found
    asking = {path.as_posix(): opening(path.read_text(encoding="utf-8")) for path in found}
    assert not {path: text for path, text in asking.items() if is_question(text)}


def test_a_question_is_found() -> None:
    """The control."""
    assert is_question(opening('"""What does it do?  This.\n\nMore."""'))
    assert not is_question(opening('"""Does this.\n\nWhy?  Because."""'))
