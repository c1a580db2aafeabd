"""Commands print through one module, to which every text is only that."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "platform/cli/output.py"

FILES = sorted(path for path in (ROOT / "platform/cli").rglob("*.py") if path != OUTPUT)
PRINTS = {
    "print",
    "echo",
    "secho",
    "echo_via_pager",
    "Console",
    "Table",
    "Panel",
    "Markdown",
    "Syntax",
    "from_markup",
}
"""Names that print, or that take markup; ours are called otherwise."""
STREAMS = {"stdout", "stderr"}
SPEAK_TO_PROGRAMS = {"entry.py", "timing.py", "device.py"}
"""What runs before rich is known to be there, and child processes whose lines of JSON their parent reads."""


def offences(source: str) -> list[int]:
    """The lines that print by another way than `output.py`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = getattr(node.func, "value", None)
            is_console = name == "print" and isinstance(owner, ast.expr) and "console" in ast.unparse(owner)
            is_stream = name == "write" and isinstance(owner, ast.Attribute) and owner.attr in STREAMS
            if (name in PRINTS and not is_console) or is_stream:
                found.append(node.lineno)
            found += [word.value.lineno for word in node.keywords if word.arg == "markup" and _is_true(word.value)]
    return found


def _is_true(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and value.value is False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_prints_through_the_one_module(path: Path) -> None:
    """No echo, no console, no table and no markup of its own."""
    if path.name in SPEAK_TO_PROGRAMS:
        return
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "print(x)",
        "typer.echo(x)",
        "typer.secho(x)",
        "Console().status(x)",
        "Table(x)",
        "sys.stdout.write(x)",
        "T(markup=True)",
    ],
)
def test_every_other_way_is_found(line: str) -> None:
    """The rule itself."""
    assert offences(line) == [1]


def test_consoles_take_no_markup() -> None:
    """One place makes them."""
    source = OUTPUT.read_text(encoding="utf-8")
    assert source.count("Console(**options") == source.count("Console(") == 2
    assert '"markup": False, "emoji": False, "highlight": False' in source
