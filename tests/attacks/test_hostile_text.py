"""Texts that others write, in every field that a command shows: they stay texts, on their own line."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.cli import connection
from alcove.platform.cli.main import run
from alcove.platform.cli.output import plain, print_diff, print_json, print_markdown, print_rows, print_table, say
from alcove.platform.client import Arm, PlatformClient
from alcove.platform.client.errors import ClientError
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.services.auth import local
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.errors import ProgramRefusedError
from alcove.runtime import load
from alcove.runtime.certificate import certificate_bytes, embed_certificate
from alcove.runtime.certificate.samples import Sample
from alcove.runtime.errors import AlcoveRuntimeError
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import classifier
from pydantic import BaseModel

TEXTS = {
    "closing tag": "[/b]x",
    "opening tag": "[black on black]hidden[/]",
    "link": "[link=https://example.org]click[/link]",
    "emoji": ":pile_of_poo:",
    "color": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "one byte control": "\x9b31mred",
    "line": "first\nalcove: all is well",
    "return": "first\ralcove: all is well",
    "other lines": "a\u2028b\u2029c\x0bd\x0ce\x85f",
    "override": "abc\u202egnp.exe\u202c",
    "isolate": "\u2066abc\u2069\u200f\u061c",
    "hidden": "a\u200bb\ufeffc\u00add",
    "tags": "a\U000e0041b",
    "half": "a\ud800b",
    "zero": "a\x00b\x08\x7f",
}
ACTED_ON = frozenset(
    "\x1b\x9b\x07\x08\x00\x7f\r\x0b\x0c\x85\u2028\u2029\u202e\u202c\u2066\u2069\u200f\u061c\u200b\ufeff\u00ad"
)


def is_harmless(shown: str) -> bool:
    """Whether no character is left that a terminal acts on, except the ends of our own lines."""
    return not ACTED_ON & set(shown) and not any(ord(one) >= 0xE0000 or 0xD800 <= ord(one) < 0xE000 for one in shown)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_way_of_printing_shows_a_text_as_it_is(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Lines, tables, their titles and heads, JSON, Markdown, differences."""
    shown = plain(text)
    assert is_harmless(shown)
    assert "\n" not in shown
    say(text, f"{text} {text}")
    out = capsys.readouterr().out
    assert out == f"{shown}\n{shown} {shown}\n"
    print_table([text], [[text]], title=text)
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert out.replace("_", " ").count(shown.replace("_", " ")) == 3
    print_rows([{"a": text}], as_json=False, empty="")
    assert shown in capsys.readouterr().out
    print_json({"a": text})
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert json.loads(out) == {"a": text}
    for show in (print_markdown, print_diff):
        show(text)
        assert is_harmless(capsys.readouterr().out)


# Every command that reads what others wrote, with that text in every field of what it reads


def poison(value: Any, text: str) -> Any:
    """A copy of a value with the text put behind every text inside."""
    if isinstance(value, BaseModel):
        fields = {name: poison(getattr(value, name), text) for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, str):
        return value + text
    if isinstance(value, (list, tuple)):
        return type(value)(poison(item, text) for item in value)
    if isinstance(value, dict):
        return {key: poison(item, text) for key, item in value.items()}
    return value


class Poisoned:
    """A client whose server is in an attacker's hands: every answer has the text in every field."""

    def __init__(self, client: PlatformClient, text: str) -> None:
        self._client, self._text = client, text

    def __enter__(self) -> "Poisoned":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        called = getattr(self._client, name)

        def call(*args: Any, **more: Any) -> Any:
            found = called(*args, **more)
            if isinstance(found, Iterator):
                return (poison(item, self._text) for item in found)
            return poison(found, self._text)

        return call


@dataclass(frozen=True)
class Shown:
    """A server with one of everything: how to ask it, and the ids of what has one."""

    address: str
    token_file: Path
    data_dir: Path
    ids: dict[str, str]


@pytest.fixture(scope="session")
def shown_to(server_world: ServerWorld, attacked: Served, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The attacked server, furnished."""
    token_file = tmp_path_factory.mktemp("reader") / "token"
    token_file.write_text(server_world.token("operator"))
    token_file.chmod(0o600)
    with server_world.client(attacked, "team:text") as team, server_world.client(attacked, "operator") as operator:
        for version in ("1.0.0", "2.0.0"):
            server_world.publish(team, "text_07", version)
        team.set_tag("text_07", "1.0.0", "note", "[/b]x")
        team.set_alias("text_07", "production", "1.0.0", reason="[/b]x")
        rollout = operator.create_rollout("shown", "text_07", "1.0.0")
        arms = [Arm(name=name, version=f"{at}.0.0", share_basis_points=5000) for at, name in enumerate(("a", "b"), 1)]
        experiment = operator.create_experiment("shown", "text_07", arms)
        operator.create_layer("shown", "main")
        operator.create_metric("text_07", "m", "count", owner="[/b]x", description="[/b]x", more_is_better=True)
        operator.set_holdout("shown", 100)
        operator.start_experiment(experiment.experiment_id)
    ids = {"rollout": rollout.rollout_id, "experiment": experiment.experiment_id}
    return Shown(attacked.grpc_address, token_file, server_world.data_dir, ids)


COMMANDS = (
    "model list",
    "model show text_07@1.0.0",
    "model alias list text_07",
    "rollout status",
    "rollout status {rollout}",
    "experiment list",
    "experiment results {experiment}",
    "layer list --app shown",
    "metric list",
    "metric show m --feature text_07",
    "holdout show --app shown",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("as_json", [False, True], ids=["shown", "json"])
def test_what_a_server_says_is_shown_as_it_is(
    shown_to: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, *, as_json: bool
) -> None:
    """Hostile text in every field of every answer: no traceback, no escape, no forged line."""
    text = "".join(text for name, text in TEXTS.items() if name != "half")  # which no answer can hold
    arguments = [*command.format(**shown_to.ids).split(), *(["--json"] if as_json else [])]
    arguments += ["--server", shown_to.address, "--token-file", str(shown_to.token_file)]
    connect = connection.CallOptions.connect
    monkeypatch.setattr(connection.CallOptions, "connect", lambda call: Poisoned(connect(call), text))
    assert run(arguments) == 0
    said = capsys.readouterr()
    assert is_harmless(said.out + said.err)
    assert said.out
    assert not any(line.strip().startswith("alcove: all is well") for line in said.out.splitlines())
    if as_json:
        json.loads(said.out)


@pytest.mark.parametrize("as_json", [False, True], ids=["shown", "json"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_audit_log_is_shown_whatever_stands_in_it(
    shown_to: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, *, as_json: bool
) -> None:
    """It only grows: one entry that ended the command would end it for good."""
    found = local.list_local_audit(shown_to.data_dir)
    assert found
    hostile = [
        replace(
            entry,
            principal=entry.principal + text,
            action=entry.action + text,
            subject=entry.subject + text,
            details={key + text: text for key in entry.details},
        )
        for entry in found
    ]
    monkeypatch.setattr(local, "newest_local_audit", lambda *_, **__: hostile)
    assert run(["audit", "list", "--data-dir", str(shown_to.data_dir), *(["--json"] if as_json else [])]) == 0
    said = capsys.readouterr().out
    assert is_harmless(said)
    assert not any(line.strip().startswith("alcove: all is well") for line in said.splitlines())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_an_error_says_is_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Of the server, of the registry, of a field."""
    for error in (
        ClientError("INTERNAL", "x", text),
        ProgramRefusedError("f32", text),
        InvalidFieldError("a", text, "b"),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("alcove.platform.cli.main.app_of", lambda *_, fail=fail: fail)
        monkeypatch.setattr("alcove.platform.cli.main.options_of", lambda _given: set())
        assert run(["model", "list"]) == 1
        said = capsys.readouterr().err
        assert is_harmless(said)
        assert said.count("\n") == 1


# A program of somebody else's, whose names are hostile


def rename_all(text: str) -> bytes:
    """A text model with a text behind every name."""
    spec = classifier()
    return write_program(
        replace(
            spec,
            tensors=tuple(replace(each, name=each.name + text) for each in spec.tensors),
            ops=tuple(replace(each, source=each.source + text) for each in spec.ops),
            inputs=tuple(replace(each, name=each.name + text) for each in spec.inputs),
            outputs=tuple(
                replace(each, name=each.name + text, labels=tuple(label + text for label in each.labels))
                for each in spec.outputs
            ),
        )
    )


def certify_program(program: bytes) -> bytes:
    """The program with a certificate of one sample, which names its outputs."""
    model = load(program)
    outputs = [model("one text")]
    names = [port.name for port in model.outputs]
    sample = Sample(inputs=("one text",), source=TEXTS["closing tag"])
    document = certificate_bytes([sample], outputs, outputs, [names], licence="procedural", tolerance="tight")
    return embed_certificate(program, document)


def is_opened(text: str) -> bool:
    """Whether the runtime opens a program with such names."""
    try:
        load(rename_all(text))
    except (AlcoveRuntimeError, UnicodeError):
        return False
    return True


@pytest.fixture(scope="module")
def hostile_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text model with hostile text behind every name: of tensors, inputs, outputs, labels and source lines.

    The runtime opens no program whose names hold control characters; what else there is, is here.
    """
    text = "".join(text for text in TEXTS.values() if is_opened(text))
    assert text.startswith(TEXTS["closing tag"])
    path = tmp_path_factory.mktemp("hostile") / "program.alc"
    path.write_bytes(certify_program(rename_all(text)))
    return path


@pytest.mark.parametrize(
    "command",
    [
        "model inspect {program}",
        "model inspect {program} --json",
        "model inspect {program} --profile",
        "model profile {program} --runs 1",
        "model profile {program} --runs 1 --by module",
        "model profile {program} --runs 1 --json",
        "model diff {program} {other}",
        "model diff {program} {other} --json",
        "model diff {other} {program} --by-operator",
    ],
)
def test_names_in_a_program_are_shown_as_they_are(
    hostile_program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A foreign program's names are shown, and have no effect on the terminal."""
    other = tmp_path / "other.alc"
    other.write_bytes(certify_program(write_program(classifier(hidden=17))))
    assert run(command.format(program=hostile_program, other=other).split()) == 0
    said = capsys.readouterr()
    assert is_harmless(said.out + said.err)
    assert not any(line.strip().startswith("alcove: all is well") for line in said.out.splitlines())
    if "--json" in command:
        json.loads(said.out)


@pytest.mark.parametrize("as_json", [False, True], ids=["shown", "json"])
def test_tokens_are_listed_whatever_stands_in_them(
    shown_to: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    """A data folder that somebody else wrote to."""
    text = "".join(text for name, text in TEXTS.items() if name != "half")
    found = local.list_local_tokens(shown_to.data_dir)
    assert found
    hostile = [replace(token, token_id=token.token_id + text, role=token.role + text) for token in found]
    monkeypatch.setattr(local, "list_local_tokens", lambda *_, **__: hostile)
    assert run(["token", "list", "--data-dir", str(shown_to.data_dir), *(["--json"] if as_json else [])]) == 0
    said = capsys.readouterr().out
    assert is_harmless(said)
    assert not any(line.strip().startswith("alcove: all is well") for line in said.splitlines())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_misspelt_command_is_shown_as_it_is(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """An argument may come from a file or a page that somebody pasted."""
    for arguments in ([text], ["model", text], ["model", "list", f"--{text}"], ["rollout", "create", "--stage", text]):
        assert run(arguments) == 2
        said = capsys.readouterr()
        assert is_harmless(said.out + said.err), ascii(said.err)
