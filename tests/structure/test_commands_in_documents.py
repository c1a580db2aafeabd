"""Every `alcove` and `make` command in a document is one that exists, with options that it takes."""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from alcove.platform.cli.examples import EXAMPLES
from alcove.platform.cli.main import app_of

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "console", "bash"}
INDENTED = re.compile(r"(?:^(?: {4}|\$ ).*\n)+", re.MULTILINE)
USAGE_ERROR: type[Any] = typer.BadParameter.__bases__[0]  # whichever click typer uses
INLINE = re.compile(r"(?<!`)`(?:\.venv/bin/)?(alcove [^`]+)`(?!`)")


def documents(repository: Path) -> list[Path]:
    """All pages that a user reads."""
    patterns = ("*.md", "docs/**/*.md", "features/*/*.md")
    return sorted(path for pattern in patterns for path in repository.glob(pattern))


def join_lines(block: str) -> list[str]:
    """The commands of a block: lines that end in a backslash continue."""
    return block.replace("\\\n", " ").splitlines()


def split_words(line: str) -> list[str]:
    """The words of a shell line, comments left out; none where it is no shell line."""
    try:
        return shlex.split(line.strip().removeprefix("$ "), comments=True)
    except ValueError:
        return []


def commands_in(page: str) -> Iterator[tuple[list[str], bool]]:
    """Every call of `alcove` on a page: its words after `alcove`, and whether the whole line is there."""
    blocks = [text for language, text in BLOCK.findall(page) if language in SHELLS]
    for block in [*blocks, *INDENTED.findall(BLOCK.sub("", page))]:
        for line in join_lines(block):
            words = split_words(line)
            for is_pipe, group in itertools.groupby(words, lambda word: word in {"|", "&&", "&", ";", "||", ">", "<"}):
                call = list(group)
                if not is_pipe and Path(call[0]).name == "alcove" and len(call) > 1:
                    yield call[1:], not any("…" in word or "..." in word for word in call)
    for text in INLINE.findall(page):
        words = split_words(" ".join(text.split()))
        yield words[1:], False


def find_commands(root: Any, words: list[str]) -> Iterator[tuple[Any, list[str]]]:
    """The commands that some words name, with the words that are left: `a | b` names two."""
    command, left = root, list(words)
    while hasattr(command, "commands") and left and not left[0].startswith("-"):
        name = left.pop(0).strip("()")
        if name not in command.commands:
            raise AssertionError(f"no command {name!r}")
        if left and left[0].startswith("|"):
            names = [name, *(word.strip("()|") for word in left if word.strip("()|") and not word.startswith("-"))]
            unknown = [other for other in names if other not in command.commands]
            assert not unknown, f"no command {unknown}"
            yield from ((command.commands[other], []) for other in names)
            return
        command = command.commands[name]
    yield command, left


def check(root: Any, words: list[str], *, is_whole: bool) -> None:
    """Refuse a call that would not parse."""
    for command, left in find_commands(root, words):
        if is_whole and not hasattr(command, "commands"):
            try:
                command.make_context(command.name, list(left))
            except USAGE_ERROR as error:
                message = error.format_message()
                if "does not exist" not in message:
                    raise AssertionError(message) from error
            continue
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        named = {word.split("=")[0].strip("[]") for word in left if word.strip("[").startswith("--")}
        assert named <= options | {"--help"}, f"no options {sorted(named - options)}"


@pytest.fixture(scope="module")
def root() -> Any:
    """The whole `alcove` command."""
    return typer.main.get_command(app_of(None))


def test_every_command_in_a_document_parses(repository: Path, root: Any) -> None:
    """Commands, options, their values and what is required, as the command line itself checks them."""
    wrong, count = [], 0
    for path in documents(repository):
        for words, is_whole in commands_in(path.read_text(encoding="utf-8")):
            count += 1
            try:
                check(root, words, is_whole=is_whole)
            except AssertionError as error:
                wrong.append(f"{path.relative_to(repository)}: alcove {shlex.join(words)}: {error}")
    assert not wrong, "\n".join(wrong)
    assert count > 80


def list_variables(command: Any) -> set[str]:
    """The environment variables that the options of a command, and of all below it, are read from."""
    own = {str(parameter.envvar) for parameter in command.params if getattr(parameter, "envvar", None)}
    return own.union(*(list_variables(each) for each in getattr(command, "commands", {}).values()))


def test_variables_in_the_operators_pages_are_those_that_are_read(repository: Path, root: Any) -> None:
    """Each `ALCOVE_…` of docs/deploy is read somewhere, and each one that an option is read from is on a page."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (repository / "docs/deploy").glob("*.md"))
    named = set(re.findall(r"ALCOVE_[A-Z_]+[A-Z]", pages))
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("platform", "registry")
        for path in (repository / folder).rglob("*.py")
    )
    assert list_variables(root) <= named
    read = list_variables(root) | set(re.findall(r"ALCOVE_[A-Z_]+", sources))
    assert not {
        name for name in named if not any(name == one or (one[-1] == "_" and name.startswith(one)) for one in read)
    }


def test_every_command_of_the_readme_shows_an_example(repository: Path) -> None:
    """Whoever looks a command of the first release up by --help finds one to copy."""
    team = (repository / "README.md").read_text(encoding="utf-8").partition("## In a team")[2].partition("\n## ")[0]
    typed = [" ".join(words) + " " for words, _ in commands_in(team)]
    known = [text for text in typed if any(text.startswith(name + " ") for name in EXAMPLES)]
    assert len(set(known)) > 8
    assert known == typed


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```sh\nalcove model fly x.alc\n```\n", "no command 'fly'"),
        ("```python\nx = 1\n```\n\n```sh\nalcove serve --keys\n```\n", "requires an argument"),
        ("```sh\nalcove token create --role reader\n```\n", "Missing option"),
        ("`alcove model inspect --wings`", "no options"),
        ("`alcove model show | fly`", "no command"),
    ],
)
def test_a_command_that_does_not_parse_is_found(root: Any, page: str, message: str) -> None:
    """The search finds what it is for."""
    ((words, is_whole),) = commands_in(page)
    with pytest.raises(AssertionError, match=message):
        check(root, words, is_whole=is_whole)
