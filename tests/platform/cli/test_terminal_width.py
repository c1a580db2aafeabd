"""Help and tables at 80 columns, in a pipe and wide; completion without Python."""

import os
import pty
import re
import subprocess
import sys

import pytest
import typer
from alcove.platform.cli import main
from alcove.platform.cli.completion import Shell, make_script, words_by_command
from alcove.platform.cli.exporting import QUANTIZATIONS
from alcove.platform.cli.failures import name_options

from tests.platform.cli.terminal import COMMANDS, alcove

ROWS = """
from alcove.platform.cli.output import _set_wide, print_table
_set_wide({wide})
print_table(["layer", "operator", "state", "aliases", "digest"],
            [["blocks.0.depthwise", "conv2d", "validated", "@production", "ab" * 32]] * 2)
"""


def _show_at_terminal(code: str) -> str:
    """What a terminal of 80 columns shows of a program's standard output."""
    mine, its = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "LINES": "50", "TERM": "dumb"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        said = b""
        try:
            while part := os.read(mine, 65_536):
                said += part
        except OSError:
            pass  # the other side is closed
        assert process.wait(120) == 0, said
    os.close(mine)
    return said.decode()


def test_a_table_too_wide_for_the_terminal_breaks_no_word() -> None:
    """Each row becomes a block of lines, NAME  VALUE; with --wide and in a pipe it is a table as wide as it is."""
    blocks = _show_at_terminal(ROWS.format(wide=False))
    for words in ("layer     blocks.0.depthwise", "aliases   @production", "digest    " + "ab" * 32):
        assert words in blocks
    wide = _show_at_terminal(ROWS.format(wide=True))
    assert "┃ layer" in wide
    piped = subprocess.run(
        [sys.executable, "-c", ROWS.format(wide=False)], capture_output=True, text=True, check=True
    ).stdout
    assert len(piped.splitlines()) == 6
    assert f"│ blocks.0.depthwise │ conv2d   │ validated │ @production │ {'ab' * 32} │" in piped


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}])
def test_states_are_words_without_a_color(variables: dict[str, str]) -> None:
    """Bold headers are all that a terminal adds, so that nothing is lost where colors are off."""
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"} | variables
    code = [sys.executable, "-c", ROWS.format(wide=True)]
    said = subprocess.run(code, capture_output=True, text=True, check=True, env=environment).stdout
    assert set(re.findall(r"\x1b\[([0-9;]*)m", said)) == {"0", "1"}
    assert "validated" in said


RESULTS = """
from alcove.platform.cli.output import print_table
from alcove.platform.cli.parameter_values import version_text
arm = ["12345", "50.0% [49.0, 51.0]", "81.2% [80.1, 82.3]", "20.3 ms [19.1, 21.5]"]
versions = [version_text("1.2.0", values) for values in ({}, {"enabled": False, "threshold": "0.4"})]
print_table(["arm", "version", "devices", "share", "accepted", "latency"],
            [["control", versions[0], *arm], ["tight", versions[1], *arm]])
"""


def test_results_with_values_beside_the_versions_fit_80_columns() -> None:
    """As a table, with the values below the version that they are of."""
    said = _show_at_terminal(RESULTS)
    assert max(map(len, said.splitlines())) <= 80
    assert "┃ arm" in said
    column = " ".join(line.split("│")[2].strip() for line in said.splitlines() if line.count("│") == 7)
    assert "1.2.0 (enabled=false, threshold=0.4)" in column


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_every_option_whole_and_flags_without_a_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is cut, no flag takes a <bool>, and lines fit a terminal of 80 columns."""
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    said = alcove(*name.split(), "--help").out
    assert "<bool>" not in said
    assert all(len(line) <= 80 for line in said.splitlines() if not line.startswith("Usage"))
    for parameter in COMMANDS[name].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--"):
                assert option in said


def test_completion_needs_no_python() -> None:
    """Bash completes commands by their path, options after a dash, and leaves files to the shell."""
    words = words_by_command(typer.main.get_command(main.app_of(None)))
    script = make_script("bash", words)
    asked = {
        "alcove mod": "model",
        "alcove model alias s": "set",
        "alcove --profile x rollout create --sh": "--share",
        "alcove rollout create ./file": "",
        "alcove model push some.alc --feat": "--feature",
    }
    lines = [
        f'COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _alcove; echo "${{COMPREPLY[*]}}"'
        for line in asked
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join([script, "PATH=", *lines])], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == list(asked.values())
    assert "status" not in words["experiment"]  # another word for show


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_every_command_and_option(shell: Shell) -> None:
    """What the command prints is what the tree holds."""
    said = alcove("completion", shell)
    assert said.code == 0
    for name, command in COMMANDS.items():
        if not command.hidden:
            assert f'"{name}"' in said.out
            assert all(option in said.out for one in command.params for option in one.opts if option.startswith("--"))


def test_a_message_names_fields_as_options_and_nothing_else() -> None:
    """Whole words that the command has an option for; what merely looks like one stays."""
    options = ["--override-reason", "--share", "--version"]
    assert name_options("version: expected 1.2.3", options) == "--version: expected 1.2.3"
    assert name_options("a version: expected 1.2.3", options) == "a version: expected 1.2.3"
    assert name_options("give override_reason, please", options) == "give --override-reason, please"
    assert name_options("my_override_reason-x", options) == "my_override_reason-x"
    assert name_options("share_basis_points: expected 0", options) == "--share: expected 0"
    assert name_options("share_basis_points: expected 0", []) == "share_basis_points: expected 0"
    for field in ("name", "version", "share_basis_points"):  # an arm is one option
        assert name_options(f"arms.{field}: expected other ones", ["--arm"]) == "--arm: expected other ones"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("0 (left out), or 1000 (10 %), the next stage's, got 500", "nothing, or 10 %, the next stage's, got 5 %"),
        ("1 to 10000; the rollout has no stages, got 0", "0.01 % to 100 %; the rollout has no stages, got 0 %"),
        ("1 to 10000, got 20000", "0.01 % to 100 %, got 200 %"),
    ],
)
def test_a_share_is_refused_in_the_unit_that_it_is_typed_in(said: str, shown: str) -> None:
    """Per cent, as --share takes it, not the basis points of the wire."""
    assert name_options(f"share_basis_points: expected {said}", ["--share"]) == f"--share: expected {shown}"


def test_mistakes_of_an_export_are_reported_before_torch_loads() -> None:
    """The compiler's modes are known here without it; a wrong one, or no file, loads neither torch nor gRPC."""
    cases = (
        (["absent.py:make"], "no file absent.py"),
        (["os:make", "--quantize", "int9"], "one of int8, "),
        (["os:make", "--max-drop", "0.1"], "add --calibration"),
        (["os:make", "--calibration", "os:x"], "--quantize int8"),
        (["os:make", "--cast", "half"], "one of float32"),
    )
    code = (
        "import sys\n"
        "from alcove.platform.cli.entry import main\n"
        f"for words, _ in {cases!r}:\n"
        "    assert main(['model', 'export', *words, '--out', 'x.alc']) == 2\n"
        "assert not {'torch', 'grpc'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [words for _, words in cases if words not in done.stderr] == []


def test_the_quantizations_are_those_of_the_compiler() -> None:
    """The command's list, which is there without torch, is the compiler's."""
    options = pytest.importorskip("alcove.runtime.compiler.quantize.options")
    assert options.MODES == QUANTIZATIONS
