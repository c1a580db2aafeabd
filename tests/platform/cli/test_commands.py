"""What all commands have in common: their names, `--json`, `--help`, how shares and tokens are given."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from alcove import __version__
from alcove.platform.cli import entry, main
from alcove.platform.cli.failures import explain
from alcove.platform.cli.main import SERVER_ONLY, app_of
from alcove.platform.cli.shares import share_basis_points
from alcove.platform.cli.summaries import SUMMARIES
from alcove.platform.client import PlatformClient, UnavailableError
from typer.testing import CliRunner

from tests.platform.cli.terminal import COMMANDS, Shop, alcove


def test_every_promised_verb_is_there() -> None:
    """What the documents name can be typed."""
    promised = {
        "serve", "demo", "keys create", "keys show", "token create", "token list", "token revoke", "audit list",
        "model export", "model inspect", "model verify", "model run", "model push", "model list",
        "model show", "model download", "model diff", "model validate", "model release", "model deprecate",
        "model revoke", "model rules", "model alias set", "model alias remove", "model alias approve",
        "model alias list", "model alias history", "model tag set", "model tag remove",
        "rollout create", "rollout status", "rollout advance", "rollout pause", "rollout resume", "rollout rollback",
        "rollout halt", "rollout list", "rollout delete", "experiment create", "experiment show", "experiment delete",
        "experiment start", "experiment stop", "experiment results",
        "experiment list", "token renew", "login", "profile list", "profile delete", "completion",
        "registry check", "registry gc", "feature list", "feature run",
        "aggregator create", "aggregator leader", "aggregator helper", "aggregator rotate-key",
        "aggregator gateway-key", "holdout set", "holdout show", "holdout plan", "holdout start", "holdout status",
        "holdout result", "holdout stop", "policy list", "policy diff",
    }  # fmt: skip
    assert promised <= COMMANDS.keys()


SPEAK_JSON = {"serve", "feature run", "aggregator leader", "aggregator helper"}  # and nothing else
SPEAK_TO_SHELLS = {"completion"}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SPEAK_JSON - SPEAK_TO_SHELLS))
def test_every_command_speaks_json(name: str) -> None:
    """Programs can read what people read as a table."""
    assert "--json" in [option for parameter in COMMANDS[name].params for option in parameter.opts]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_is_explained(name: str) -> None:
    """`--help` says what a command does, and what each of its options means."""
    said = alcove(*name.split(), "--help")
    assert said.code == 0
    assert COMMANDS[name].help
    assert all(getattr(parameter, "help", "") for parameter in COMMANDS[name].params)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_option_means_two_things(name: str) -> None:
    """Options that several commands share meet no option of a command's own."""
    options = [option for parameter in COMMANDS[name].params for option in (*parameter.opts, *parameter.secondary_opts)]
    assert len(options) == len(set(options))


def test_help_lists_every_verb_and_loads_none() -> None:
    """What `alcove --help` says of a verb is the first line of the verb's own help."""
    said = alcove("--help")
    assert said.code == 0
    root: Any = typer.main.get_command(main.app_of(None))
    assert SUMMARIES.keys() == main.VERBS.keys()
    for name, summary in SUMMARIES.items():
        own = inspect.cleandoc(root.commands[name].help).partition("\n\n")[0].replace("\n", " ")
        assert summary == own, name
        assert f"  {name}" in said.out
    code = (
        "import sys\nfrom alcove.platform.cli.entry import main\nmain(['--help'])\nmain(['rolout'])\n"
        "assert not {'grpc', 'numpy', 'sqlalchemy'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Did you mean 'rollout'" in done.stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    """The commands it has, and exit code 2: nothing was done."""
    said = alcove("rollout")
    assert said.code == 2
    assert "advance" in said.err
    assert not said.err.startswith("alcove:")


def test_the_version_is_that_of_the_distribution() -> None:
    """`alcove --version` prints one line, for a report of a bug."""
    said = alcove("--version")
    assert (said.code, said.out) == (0, f"alcove {__version__}\n")


def test_python_m_alcove_is_the_command() -> None:
    """`python -m alcove` does what `alcove` does, where an environment's scripts are not on the PATH."""
    done = subprocess.run([sys.executable, "-m", "alcove", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"alcove {__version__}\n"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Socket closed", "--tls-root"),
        (
            "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:10.0.0.1:1: Ssl handshake failed",
            "--tls-root",
        ),
        (
            "last error: UNKNOWN: ipv4:1.2.3.4:1: Failed to connect to remote host: connect: Connection refused (111)",
            "no answer: connect: Connection refused (111)\nIs the server running",
        ),
    ],
)
def test_a_server_that_does_not_answer_is_explained(message: str, words: str) -> None:
    """A plain call to a TLS port, a handshake that fails, and nobody there; gRPC's own words where they say more."""
    explained = explain(UnavailableError("UNAVAILABLE", "", message))
    assert explained is not None
    assert words in explained[0]
    assert explained[1] == 3


def test_without_the_server_libraries_other_verbs_work() -> None:
    """A team's machine has the light command line: help lists all verbs, and one that needs the server says so."""
    code = (
        "import sys\n"
        f"sys.modules |= dict.fromkeys({sorted(SERVER_ONLY)!r})\n"
        "from alcove.platform.cli.entry import main\n"
        "for verbs in (['rollout'], ['model', 'push'], ['keys'], []):\n"
        "    assert main([*verbs, '--help']) == 0, verbs\n"
        "sys.exit(main(['serve', '--data-dir', 'nowhere']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "serve" in done.stdout
    assert "needs the server's libraries: pip install 'alcove-platform[server]'" in done.stderr


@pytest.mark.parametrize("missing", entry._NEEDED)
def test_a_bare_install_names_the_missing_extra(missing: str) -> None:
    """Without the server's libraries the command says what to install, exits with 2, and imports none of them."""
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from alcove.platform.cli.entry import main\n"
        "code = main(['serve'])\n"
        "assert not [name for name in ('typer', 'grpc', 'sqlalchemy', 'rich') if sys.modules.get(name)]\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs alcove-platform: pip install alcove-platform (" in done.stderr


@pytest.mark.parametrize(
    ("text", "basis_points"),
    [("0%", 0), ("100%", 10_000), ("12.5%", 1250), ("0.01 %", 1), ("1.15%", 115), ("2500", 2500), ("10000", 10_000)],
)
def test_shares_are_exact(text: str, basis_points: int) -> None:
    """No share is rounded."""
    assert share_basis_points(text) == basis_points


@pytest.mark.parametrize("text", ["", "%", "100.01%", "10001", "-1", "0.001%", "1e2", "half", "50 percent", "٥٠%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(typer.BadParameter):
        share_basis_points(text)


def test_a_fault_of_ours_is_not_explained_away() -> None:
    """What a user cannot cause keeps its traceback."""
    assert explain(KeyError("x")) is None
    assert explain(OSError("no file in it")) is None


def test_the_token_is_read_from_a_file_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shop: Shop) -> None:
    """No option takes the token itself (a process list would show it); the variables name the server and the file."""
    for name, command in COMMANDS.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--token" not in options, name
    monkeypatch.setenv("ALCOVE_SERVER", shop.server)
    monkeypatch.setenv("ALCOVE_TOKEN_FILE", str(shop.folder / "operator.token"))
    assert alcove("model", "list", "--json").code == 0
    with PlatformClient(shop.server, (shop.folder / "operator.token").read_text().strip()) as client:
        assert client.rollouts("none") == []


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_help_at_80_columns_has_every_option_whole(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is cut, and none says that a flag takes a value."""
    monkeypatch.setenv("COLUMNS", "80")
    run = CliRunner().invoke(app_of(path.split(maxsplit=1)[0]), [*path.split(), "--help"])
    assert run.exit_code == 0
    assert "<bool>" not in run.output
    words = run.output.replace(",", " ").replace("/", " ").split()
    for parameter in COMMANDS[path].params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            assert parameter.param_type_name != "option" or parameter.hidden or name in words, name
