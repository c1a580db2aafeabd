"""The `alcove` command: what a team and an operator type, end to end, and what they read when something is wrong."""

import contextlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer
from alcove.platform.cli import entry, main
from alcove.platform.cli.failures import explain
from alcove.platform.cli.shares import share_permyriad
from alcove.platform.client import PlatformClient

FACTORY = '''
"""A small model of somebody's own."""
import torch
from torch import nn


class Polite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(16, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.out(torch.relu(self.hidden(x))), dim=-1)


def make(seed: int = 1):
    torch.manual_seed(seed)
    samples = [(torch.rand(1, 16),) for _ in range(3)]
    return Polite(), (torch.zeros(1, 16),), samples


def other():
    return make(seed=2)


def nonsense():
    return 42
'''


@dataclass(frozen=True)
class Said:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)


def alcove(*arguments: object) -> Said:
    """Run a command line in this process, in a terminal so wide that no path is wrapped."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="400"), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = entry.main([str(argument) for argument in arguments])
    return Said(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Shop:
    """A folder with keys, programs and a running server, all made by commands."""

    folder: Path
    server: str

    def operator(self, *arguments: object) -> Said:
        """Run a command as an operator."""
        return alcove(*arguments, "--server", self.server, "--token-file", self.folder / "operator.token")

    def team(self, *arguments: object) -> Said:
        """Run a command as the team."""
        return alcove(*arguments, "--server", self.server, "--token-file", self.folder / "team.token")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The ceremony, two tokens, two programs, and `alcove serve`."""
    folder = tmp_path_factory.mktemp("shop")
    data_dir = folder / "server"
    for arguments in (
        ("keys", "create", folder / "keys", "--data-dir", data_dir, "--team", "writing=polite,kind"),
        ("token", "create", "--data-dir", data_dir, "--role", "operator", "--out", folder / "operator.token"),
        ("token", "create", "--data-dir", data_dir, "--role", "team:writing", "--out", folder / "team.token"),
    ):
        said = alcove(*arguments)
        assert said.code == 0, said.err
    (folder / "polite_model.py").write_text(FACTORY)
    command = [sys.executable, "-W", "error", "-m", "alcove.platform.cli.entry", "serve"]
    places = ["--data-dir", str(data_dir), "--keys", str(folder / "keys" / "online")]
    options = [*places, "--grpc-port", "0", "--http-port", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (folder / "log").read_text()
    yield Shop(folder, json.loads(line)["grpc"])
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


@pytest.fixture(scope="module")
def programs(shop: Shop) -> tuple[Path, Path]:
    """Two programs, compiled by the command from a file outside of the repository."""
    paths = shop.folder / "one.alc", shop.folder / "two.alc"
    for path, factory in zip(paths, ("make", "other"), strict=True):
        said = alcove("model", "export", f"{shop.folder}/polite_model.py:{factory}", "--out", path, "--json")
        assert said.code == 0, said.err
        assert said.json["size_bytes"] == path.stat().st_size
    return paths


def leaves(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its path."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(leaves(typer.main.get_command(main.app)))


def test_every_promised_verb_is_there() -> None:
    """What the documents name can be typed."""
    promised = {
        "serve", "demo", "keys create", "keys show", "token create", "token list", "token revoke", "audit list",
        "model export", "model inspect", "model verify", "model run", "model push", "model list",
        "rollout create", "rollout status", "rollout advance", "rollout pause", "rollout resume", "rollout rollback",
        "rollout halt", "experiment create", "experiment start", "experiment stop", "experiment results",
        "experiment list", "registry check", "feature list", "feature run",
    }  # fmt: skip
    assert promised <= COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"serve", "feature run"}))
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
    assert "needs alcove[platform]: pip install 'alcove[platform]'" in done.stderr


def test_a_program_is_exported_looked_at_verified_and_run(shop: Shop, programs: tuple[Path, Path]) -> None:
    """The team's way on its own machine, without a server."""
    facts = alcove("model", "inspect", programs[0], "--json").json
    assert [port["direction"] for port in facts["ports"]] == ["input", "output"]
    assert [op["op"] for op in facts["ops"]] == ["linear", "linear", "softmax"]
    assert facts["certificate_bytes"] > 0
    assert alcove("model", "verify", programs[0], "--json").json["samples"] == 3
    outputs = alcove("model", "run", programs[0], json.dumps([[0.5] * 16]), "--json").json
    (values,) = outputs.values()
    assert sum(values[0]) == pytest.approx(1)
    for arguments in (
        ("inspect", programs[0]),
        ("verify", programs[0]),
        ("run", programs[0], json.dumps([[0.5] * 16])),
    ):
        said = alcove("model", *arguments)
        assert (said.code, said.err) == (0, "")
        assert said.out


UNSUPPORTED = """
import torch
from torch import nn

class Unsupported(nn.Module):
    def forward(self, x):
        x = torch.special.i0(x)
        return x, torch.lgamma(x), torch.rand_like(x)

def make():
    return Unsupported().eval(), (torch.ones(2),)
"""


def test_what_an_export_finds_is_read_by_people_and_by_programs(tmp_path: Path) -> None:
    """Each finding with its line: in words on standard error, with --json as data on standard output too."""
    (tmp_path / "unsupported.py").write_text(UNSUPPORTED)
    arguments = ("model", "export", f"{tmp_path}/unsupported.py:make", "--out", tmp_path / "x.alc")
    said, as_json = alcove(*arguments), alcove(*arguments, "--json")
    assert (said.code, as_json.code, said.out) == (1, 1, "")
    findings = as_json.json["findings"]
    assert len(findings) >= 2
    for finding in findings:
        assert {"op", "module_path", "source", "nearest"} == finding.keys()
        assert "unsupported.py:" in finding["source"]
        assert finding["op"] in said.err
    assert said.err == as_json.err
    assert not (tmp_path / "x.alc").exists()


def test_an_export_explains_its_passes(shop: Shop, tmp_path: Path) -> None:
    """The graph after each pass, with the user's lines, on standard output; with --json on standard error."""
    factory = f"{shop.folder}/polite_model.py:make"
    said = alcove("model", "export", factory, "--out", tmp_path / "one.alc", "--explain")
    assert (said.code, said.err) == (0, "")
    places = [said.out.index(f"== after {name} ==") for name in ("capture", "lower", "layout", "fuse", "pack", "plan")]
    assert places == sorted(places)
    assert "polite_model.py:" in said.out
    assert "arena: " in said.out
    as_json = alcove("model", "export", factory, "--out", tmp_path / "two.alc", "--explain", "--json")
    assert as_json.json["size_bytes"] == (tmp_path / "two.alc").stat().st_size
    assert "== after plan ==" in as_json.err


def test_layers_are_compared_with_torch(
    shop: Shop, programs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer of the module and the whole program; the first layer that departs is named, and the status says so."""
    factory = f"{shop.folder}/polite_model.py:make"
    arguments = ("model", "verify", programs[0], "--layers", factory)
    facts = alcove(*arguments, "--json").json
    assert facts["first"] is None
    assert [layer["op"] for layer in facts["layers"]] == [
        "aten.linear.default",
        "aten.relu.default",
        "aten.linear.default",
        "aten.softmax.int",
    ]
    assert facts["layers"][0]["module_path"] == "hidden"
    assert facts["program_difference"] < 1e-6
    said = alcove(*arguments)
    assert said.code == 0
    assert "every layer agrees" in said.out
    stranger = ("model", "verify", programs[1], "--layers", factory)
    other = alcove(*stranger, "--json")
    assert other.code == 1
    assert other.json["first"] is None
    assert other.json["program_difference"] > 1e-3
    assert other.json["program_is_other"]
    assert other.json["program_first"].startswith("op 0, linear, polite_model.py:")
    assert "not of this module; its first step that differs: op 0, linear, polite_model.py:" in alcove(*stranger).out

    from alcove.runtime.compiler.rules import RULES

    monkeypatch.setitem(RULES, "aten.relu.default", lambda call, b: b.unary("sigmoid", call.tensor("self")))
    said = alcove(*arguments)
    assert said.code == 1
    assert "first to depart: relu" in said.out
    assert "polite_model.py:" in said.out
    assert said.out.count("DEPARTS") >= 1
    assert alcove(*arguments, "--json").json["first"] == "relu"
    missing = alcove("model", "verify", programs[0], "--layers", f"{shop.folder}/polite_model.py:nothing")
    assert missing.code != 0
    assert "nothing" in missing.err


BROKEN = """
import torch
from torch import nn


def raises():
    raise RuntimeError("no data here")


def needs(size):
    return size


def nothing():
    return None


def bare():
    return nn.ReLU(), torch.ones(1, 16)


def swapped():
    return (torch.ones(1, 16),), nn.ReLU()


def counted():
    return nn.ReLU(), (torch.ones(1, 16),), 3


number = 3
"""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("raises", r"raises RuntimeError: no data here at .*broken\.py:7"),
        ("needs", "raises TypeError: needs.. missing 1 required positional argument: 'size'"),
        ("nothing", "must return .module, args. or .module, args, samples., not NoneType"),
        ("bare", "must return its args as a tuple, not as Tensor"),
        ("swapped", "must return a torch module first, not tuple"),
        ("counted", "must return its samples as a list of tuples like args, not 3"),
        ("number", "is no function but int"),
        ("absent", "has no function 'absent'"),
    ],
)
def test_what_a_users_function_does_wrong_is_told_with_its_line(function: str, words: str, tmp_path: Path) -> None:
    """Wrong use, exit code 2, in one sentence; also of the function for calibration, and of a file that has errors."""
    (tmp_path / "broken.py").write_text(BROKEN)
    said = alcove("model", "export", f"{tmp_path}/broken.py:{function}", "--out", tmp_path / "x.alc")
    assert (said.code, said.out) == (2, "")
    assert re.search(words, said.err)
    assert "Traceback" not in said.err
    assert not (tmp_path / "x.alc").exists()


def test_options_of_an_export_are_checked_before_it(shop: Shop, tmp_path: Path) -> None:
    """Wrong use, in one sentence that names the option: modes, budgets, classes, licences, places."""
    factory = f"{shop.folder}/polite_model.py:make"
    for options, words in (
        (("--out", tmp_path / "x.alc", "--quantize", "int16"), "quantize must be one of"),
        (("--out", tmp_path / "x.alc", "--quantize", "int8", "--max-drop", "0.1"), "max_drop and metric need calibrat"),
        (("--out", tmp_path / "x.alc", "--tolerance", "loose"), "--tolerance is one of"),
        (("--out", tmp_path / "x.alc", "--licence", "mine"), "--licence is one of"),
        (("--out", tmp_path), "it is a folder; name a file in it"),
        (("--out", tmp_path / "none" / "x.alc"), "there is no folder"),
    ):
        said = alcove("model", "export", factory, *options)
        assert (said.code, said.out) == (2, "")
        assert words in said.err
        assert "Traceback" not in said.err


def test_a_file_may_be_named_as_a_module_of_python(tmp_path: Path) -> None:
    """Python's own stays; and a number with a fraction is no index."""
    (tmp_path / "io.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Embedding(4, 2), (torch.tensor([1, 2]),)\n"
    )
    said = alcove("model", "export", f"{tmp_path}/io.py:make", "--out", tmp_path / "x.alc")
    assert said.code == 0, said.err
    assert sys.modules["io"] is io
    fraction = alcove("model", "run", tmp_path / "x.alc", "[1.5, 2]")
    assert fraction.code == 2
    assert "1.5 is no whole number" in fraction.err
    beyond = alcove("model", "run", tmp_path / "x.alc", "[1, 9]")
    assert beyond.code == 1
    assert "index 1 is 9, allowed are 0 to 3" in beyond.err


def test_a_file_with_a_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    """A syntax error, a package that is not there, and anything that the file raises."""
    for text, words in (
        ("def f(:\n", r"raises SyntaxError: invalid syntax at .*\.py:1"),
        ("import no_such_package\n", "No module named 'no_such_package'"),
        ("x = 1\nraise ValueError('at once')\n", r"raises ValueError: at once at .*\.py:2"),
    ):
        (tmp_path / "broken_file.py").write_text(text)
        said = alcove("model", "export", f"{tmp_path}/broken_file.py:f", "--out", tmp_path / "x.alc")
        assert said.code == 2
        assert re.search(words, said.err)
        assert "Traceback" not in said.err


def test_from_push_to_everyone(shop: Shop, programs: tuple[Path, Path]) -> None:
    """Two versions, an experiment without reports, an override, everyone; then a halt, and a sound tree throughout."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    card = shop.folder / "card.md"
    card.write_text("# Polite\n")
    options = ("--feature", "polite", "--team", "writing", "--key", key, "--card", card)
    for version, program in zip(("1.0.0", "1.1.0"), programs, strict=True):
        said = shop.team("model", "push", f"f32={program}", "--version", version, *options, "--json")
        assert said.code == 0, said.err
        assert (said.json["version"], said.json["variants"][0]["name"]) == (version, "f32")
    again = shop.team("model", "push", f"f32={programs[1]}", "--version", "1.1.0", *options)
    assert again.code == 0, again.err
    other = shop.team("model", "push", f"f32={programs[0]}", "--version", "1.1.0", *options)
    assert other.code == 1
    assert "polite 1.1.0 exists already" in other.err
    assert [row["version"] for row in shop.operator("model", "list", "--json").json] == ["1.0.0", "1.1.0"]

    arms = ("--arm", "control=1.0.0:50%", "--arm", "new=1.1.0:5000")
    said = shop.operator("experiment", "create", "--app", "mail", "--feature", "polite", *arms, "--start", "--json")
    assert said.code == 0, said.err
    (experiment,) = said.json
    assert (experiment["state"], [arm["share_permyriad"] for arm in experiment["arms"]]) == ("running", [5000, 5000])
    shown = shop.operator("experiment", "results", experiment["experiment_id"])
    assert "inconclusive, hold" in shown.out
    report = shop.operator("experiment", "results", experiment["experiment_id"], "--json").json
    assert report["results"]["report_count"] == 0
    stopped = shop.operator("experiment", "stop", experiment["experiment_id"])
    assert stopped.code == 0
    assert "inconclusive, hold" in stopped.out

    (rollout,) = shop.operator(
        "rollout", "create", "--app", "mail", "--feature", "polite", "--version", "1.1.0", "--json"
    ).json
    refused = shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "100%")
    assert refused.code == 1
    assert "override_reason" in refused.err
    why = ("--override-reason", "a trial")
    (half,) = shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "50%", *why, "--json").json
    assert half["share_permyriad"] == 5000
    assert shop.operator("rollout", "pause", rollout["rollout_id"], "--json").json[0]["state"] == "paused"
    assert shop.operator("rollout", "resume", rollout["rollout_id"], "--json").json[0]["state"] == "running"
    done = shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "10000", *why)
    assert "completed" in done.out
    assert "100 %" in done.out
    going = ("--app", "mail", "--feature", "polite", "--version", "1.0.0", "--share", "1%", *why)
    (back,) = shop.operator("rollout", "create", *going, "--json").json
    taken = shop.operator("rollout", "rollback", back["rollout_id"], "--reason", "it was better before", "--json")
    assert taken.json[0]["state"] == "rolled_back"
    listed = shop.operator("rollout", "status", "--app", "mail")
    assert "rolled back" in listed.out
    assert "completed" in listed.out

    audit = ("audit", "list", "--data-dir", shop.folder / "server")
    entries = alcove(*audit, "--object", rollout["rollout_id"], "--json").json
    assert [entry["action"].split()[0] for entry in entries] == ["create", "advance", "pause", "resume", "advance"]
    assert [entry["details"]["override_reason"] for entry in entries if entry["action"] == "advance rollout"] == [
        "a trial"
    ] * 2
    assert {entry["who"].partition("/")[0] for entry in entries} == {"operator"}
    assert all(entry["at_s"] > 0 and entry["object"] == rollout["rollout_id"] for entry in entries)
    table = alcove(*audit).out
    assert "create token" in table
    assert "a trial" in table

    checked = alcove("registry", "check", "--data-dir", shop.folder / "server", "--json")
    assert (checked.code, checked.json["is_sound"], checked.json["problems"]) == (0, True, [])


def test_a_changed_blob_is_found_by_the_check(shop: Shop, programs: tuple[Path, Path]) -> None:
    """One flipped byte in a published program: exit code 1, and the blob is named."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", "kind", "--version", "1.0.0", "--team", "writing", "--key", key)
    pushed = shop.team("model", "push", programs[0], *options, "--json")
    assert pushed.code == 0, pushed.err
    blob = shop.folder / "server" / "tree" / "blobs" / pushed.json["variants"][0]["sha256"]
    good = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    try:
        for form in ((), ("--json",)):
            said = alcove("registry", "check", "--data-dir", shop.folder / "server", *form)
            assert said.code == 1
            assert blob.name in said.out.replace("\n", "")
    finally:
        blob.write_bytes(good)


def test_what_goes_wrong_is_told_in_a_sentence(shop: Shop, programs: tuple[Path, Path], tmp_path: Path) -> None:
    """Exit codes 1 (refused), 2 (wrong use), 3 (no answer); never a traceback; the thing is named."""
    (tmp_path / "bad.alc").write_bytes(b"not a program")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "alcove.db").write_bytes(b"this is not a database, it is a sentence" * 100)
    (tmp_path / "bare.token").write_text(f"alc_{'0' * 16}_{'0' * 64}")
    key = shop.folder / "keys" / "teams" / "writing.pem"
    push = ("model", "push", "--feature", "polite", "--version", "9.0.0", "--team", "writing")
    operator_file = shop.folder / "operator.token"
    factory = f"{shop.folder}/polite_model.py"
    here = ("--server", shop.server, "--token-file")
    create = ("rollout", "create", "--app", "a", "--version", "1.0.0", "--feature")
    experiment = ("experiment", "create", "--app", "a", "--feature", "polite", "--arm")
    cases: list[tuple[int, str, Callable[[], Said]]] = [
        (3, "alcove serve", lambda: alcove("model", "list", "--server", "127.0.0.1:1", "--token-file", operator_file)),
        (2, "ALCOVE_TOKEN_FILE", lambda: alcove("model", "list", "--server", shop.server)),
        (1, "absent.token", lambda: alcove("model", "list", "--token-file", tmp_path / "absent.token")),
        (1, "latin: expected UTF-8 text", lambda: alcove("model", "list", *here, tmp_path / "latin")),
        (1, "UTF-8 text", lambda: shop.team(*push, programs[0], "--key", key, "--card", tmp_path / "latin")),
        (1, "put a backup", lambda: alcove("token", "list", "--data-dir", tmp_path / "damaged")),
        (1, "put a backup", lambda: alcove("audit", "list", "--data-dir", tmp_path / "damaged")),
        (1, "unknown token", lambda: alcove("model", "list", *here, tmp_path / "bare.token")),
        (1, "may not create rollouts", lambda: shop.team(*create, "polite")),
        (1, "no version named", lambda: shop.operator(*create, "nothing")),
        (2, "a share is written", lambda: shop.operator("rollout", "advance", "ro-1", "--share", "101%")),
        (1, "no rollout named 'ro-1'", lambda: shop.operator("rollout", "status", "ro-1")),
        (1, "no experiment named", lambda: shop.operator("experiment", "results", "ex-1")),
        (2, "NAME=VERSION:SHARE", lambda: shop.operator(*experiment, "1.0.0")),
        (1, "bad.alc", lambda: alcove("model", "inspect", tmp_path / "absent" / "bad.alc")),
        (1, "alcove: ", lambda: alcove("model", "inspect", tmp_path / "bad.alc")),
        (1, "alcove: ", lambda: alcove("model", "verify", tmp_path / "bad.alc")),
        (2, "JSON array", lambda: alcove("model", "run", programs[0], "hello")),
        (2, "takes 1 inputs", lambda: alcove("model", "run", programs[0], "[[1]]", "[[1]]")),
        (1, "alcove: ", lambda: alcove("model", "run", programs[0], "[[1.0]]")),
        (1, "alcove: ", lambda: shop.team(*push, tmp_path / "bad.alc", "--key", key)),
        (2, "twice", lambda: shop.team(*push, programs[0], programs[1], "--key", key)),
        (1, "absent.pem", lambda: shop.team(*push, programs[0], "--key", tmp_path / "absent.pem")),
        (1, "key of the team", lambda: shop.team(*push, programs[0], "--key", shop.folder / "keys/online/policy.pem")),
        (2, "MODULE:FACTORY", lambda: alcove("model", "export", "nothing", "--out", tmp_path / "x")),
        (2, "absent.py", lambda: alcove("model", "export", f"{tmp_path}/absent.py:make", "--out", tmp_path / "x")),
        (2, "no function 'absent'", lambda: alcove("model", "export", f"{factory}:absent", "--out", tmp_path / "x")),
        (2, "must return", lambda: alcove("model", "export", f"{factory}:nonsense", "--out", tmp_path / "x")),
        (2, "no_such_module", lambda: alcove("model", "export", "no_such_module:make", "--out", tmp_path / "x")),
        (1, "alcove: ", lambda: alcove("registry", "check", "--data-dir", tmp_path)),
    ]  # fmt: skip
    for code, words, run in cases:
        said = run()
        flat = " ".join((said.out + said.err).replace("│", " ").split())
        assert (said.code, words in flat or words == "alcove: ") == (code, True), (words, said)
        assert "Traceback" not in flat
    assert not (tmp_path / "x").exists()


def test_keys_are_private_and_never_made_twice(shop: Shop, tmp_path: Path) -> None:
    """0600 each; a second ceremony for a tree or with the same keys is refused; one that was interrupted goes on."""
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (shop.folder / "keys").rglob("*.pem")}
    assert modes == {0o600}
    rows = alcove("keys", "show", shop.folder / "keys", "--json").json
    assert {row["kept"] for row in rows} == {"offline", "online", "team"}
    assert len({row["key_id"] for row in rows}) == len(rows) == 7
    assert alcove("keys", "show", shop.folder / "keys").out.count("0600") == 7
    twice = alcove("keys", "create", tmp_path / "keys", "--data-dir", shop.folder / "server", "--team", "a=b")
    assert twice.code == 2
    assert not (tmp_path / "keys").exists()

    first = alcove("keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "one", "--team", "a=b", "--json")
    assert first.code == 0, first.err
    ids = alcove("keys", "show", tmp_path / "keys", "--json").json
    root = (tmp_path / "keys" / "root.json").read_bytes()
    other = alcove("keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "two", "--team", "a=b")
    assert (other.code, "finished ceremony" in " ".join(other.err.replace("│", " ").split())) == (2, True)
    assert not (tmp_path / "two").exists()
    for interrupted_before in ("timestamp.json", "root.json"):
        (tmp_path / "keys" / "root.json").unlink()
        if interrupted_before == "timestamp.json":
            shutil.rmtree(tmp_path / "one")
        resumed = alcove("keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "one", "--team", "a=b")
        assert resumed.code == 0, resumed.err
        assert alcove("keys", "show", tmp_path / "keys", "--json").json == ids
    again = (tmp_path / "keys" / "root.json").read_bytes()
    assert again == (tmp_path / "one" / "tree" / "metadata" / "1.root.json").read_bytes()
    assert json.loads(root)["signed"]["roles"] == json.loads(again)["signed"]["roles"]
    for bad in ("a", "=b", "a=", "a=b,b", "A=b", "a=policy"):
        said = alcove("keys", "create", tmp_path / "bad", "--data-dir", tmp_path / "bad-data", "--team", bad)
        assert said.code == 2, bad
    assert not (tmp_path / "bad").exists()


def test_a_token_file_is_private_from_its_first_moment_and_never_replaced(shop: Shop, tmp_path: Path) -> None:
    """0600; an existing file is left alone and no token is issued for it; a refused role leaves no file."""
    data_dir = shop.folder / "server"
    assert stat.S_IMODE((shop.folder / "operator.token").stat().st_mode) == 0o600
    before = len(alcove("token", "list", "--data-dir", data_dir, "--json").json)
    (tmp_path / "there").write_text("mine")
    said = alcove("token", "create", "--data-dir", data_dir, "--role", "reader", "--out", tmp_path / "there")
    assert said.code == 1
    assert (tmp_path / "there").read_text() == "mine"
    said = alcove("token", "create", "--data-dir", data_dir, "--role", "king", "--out", tmp_path / "new")
    assert said.code == 1
    assert not (tmp_path / "new").exists()
    assert len(alcove("token", "list", "--data-dir", data_dir, "--json").json) == before


def test_a_revoked_token_is_refused_by_the_running_server(shop: Shop, tmp_path: Path) -> None:
    """From the next call on, without a restart; lists show it, and never a digest."""
    data_dir = shop.folder / "server"
    shown = alcove("token", "create", "--data-dir", data_dir, "--role", "reader", "--days", "1", "--json").json
    (tmp_path / "reader").write_text(shown["token"])
    listing = ("model", "list", "--server", shop.server, "--token-file", tmp_path / "reader", "--json")
    assert alcove(*listing).code == 0
    assert alcove("token", "revoke", shown["token_id"], "--data-dir", data_dir).code == 0
    said = alcove(*listing)
    assert said.code == 1
    assert "revoked" in said.err
    (row,) = [
        row
        for row in alcove("token", "list", "--data-dir", data_dir, "--json").json
        if row["token_id"] == shown["token_id"]
    ]
    assert row["revoked_at_s"] is not None
    assert not [key for key in row if "secret" in key]
    assert shown["token_id"] in alcove("token", "list", "--data-dir", data_dir).out
    assert alcove("token", "revoke", "absent", "--data-dir", data_dir, "--json").code == 1


@pytest.mark.parametrize(
    ("text", "permyriad"),
    [("0%", 0), ("100%", 10_000), ("12.5%", 1250), ("0.01 %", 1), ("1.15%", 115), ("2500", 2500), ("10000", 10_000)],
)
def test_shares_are_exact(text: str, permyriad: int) -> None:
    """No share is rounded."""
    assert share_permyriad(text) == permyriad


@pytest.mark.parametrize("text", ["", "%", "100.01%", "10001", "-1", "0.001%", "1e2", "half", "50 percent", "٥٠%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(typer.BadParameter):
        share_permyriad(text)


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
