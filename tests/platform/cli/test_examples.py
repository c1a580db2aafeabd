"""Help ends with examples that the command itself understands."""

import shlex
from pathlib import Path

import pytest
from alcove.platform.cli.examples import EXAMPLES

from tests.platform.cli.terminal import COMMANDS, alcove

MANY = 3  # options; a command with more has an example
_COLUMNS = 80


def calls_of(name: str) -> list[list[str]]:
    """The words of each example of a command, lines that go on put together."""
    return [shlex.split(line) for line in "\n".join(EXAMPLES[name]).replace("\\\n", "").split("\n")]


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, command in COMMANDS.items()
        if not command.hidden and sum(one.param_type_name == "option" for one in command.params) > MANY
    ),
)
def test_a_command_with_many_options_has_an_example_at_the_end_of_its_help(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One or two lines of 80 columns, under "Examples:"."""
    monkeypatch.setenv("TERMINAL_WIDTH", str(_COLUMNS))
    said = alcove(*name.split(), "--help").out
    lines = said.rstrip().splitlines()
    start = next(at for at, line in enumerate(lines) if line.strip() == "Examples:")
    shown = lines[start + 1 :]
    assert [line.strip() for line in shown] == [line.strip() for line in EXAMPLES[name]]
    assert 1 <= len(shown) <= 2
    assert max(map(len, shown)) <= _COLUMNS


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_understood_by_its_command(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its options exist, its values are of their types, and nothing that is required is missing; it does not run."""
    monkeypatch.chdir(tmp_path)
    Path("mobilenet.onnx").touch()  # what an option looks for as it is read
    Path("calls.csv").touch()
    Path("photos").mkdir()
    for variable in ("ALCOVE_SERVER", "ALCOVE_TOKEN_FILE", "ALCOVE_DATABASE"):
        monkeypatch.delenv(variable, raising=False)
    for words in calls_of(name):
        path = name.split()
        assert words[: len(path) + 1] == ["alcove", *path]
        context = COMMANDS[name].make_context(name, words[len(path) + 1 :])
        given = {key for key, value in context.params.items() if value is not None}
        assert given


def test_an_example_that_is_wrong_would_be_found() -> None:
    """A misspelled option, a value of another type, and a required option that is left out are refused."""
    command = COMMANDS["rollout create"]
    right = calls_of("rollout create")[0][3:]
    for wrong in ([*right, "--shares", "1%"], right[2:], [*right, "--expected-devices", "many"]):
        with pytest.raises(Exception, match=r"(?i)no such option|missing parameter|valid integer"):
            command.make_context("create", list(wrong))
