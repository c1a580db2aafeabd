"""`alcove model stub` writes a contract whose inputs and answers have types, and mypy holds an app to them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from alcove.features.bandwidth.contract import Bandwidth
from alcove.platform.cli.stub_source import stub_source
from alcove.runtime import load
from alcove.runtime.errors import InputError
from alcove.sdk import AnswerError, Client, Port
from alcove.sdk.ports import ports_of

from tests.platform.cli.terminal import Shop, alcove, ok

APP = """
from alcove.sdk import Answer, Client
from feed import Feed, FeedAnswer
from kind import Kind
from words import Words, WordsAnswer


def answer(client: Client) -> tuple[float, str] | None:
    kind = client.feature(Kind).predict([[1.0, 0.5]])
    words: Answer[WordsAnswer] = client.feature(Words()).predict(utf8="hi")
    ranked: Answer[FeedAnswer] = client.feature(Feed).predict(
        [[1, 2]], candidates=[[3]], added=[[0.5]], offset=[[1]], signals=[[[1.0, 0.0]]], weights=[[1.0]]
    )
    if kind.value is None or words.value is None or ranked.value is None:
        return None
    return float(ranked.value.scores[0, 0]), str(words.value.indices[0, 0])


async def answer_later(client: Client) -> WordsAnswer | None:
    return (await client.feature(Words).predict_async(b"hi")).value
"""
MISUSE = """
from alcove.sdk import Client
from feed import Feed
from words import Words


def answer(client: Client) -> None:
    words = client.feature(Words)
    words.predict(3)  # arg-type
    words.predict("a", "b")  # call-arg
    words.predict(text="a")  # call-arg
    value: int = words.predict("a").value  # assignment
    answer = words.predict("a").value
    answer.values  # union-attr
    if answer is not None:
        answer.language  # attr-defined
    client.feature(Feed).predict([[1]])  # call-arg
    client.feature(Feed).predict([["a"]], [[1]], [[1.0]], [[1.0]], [[[1.0]]], [[1.0]])  # list-item
"""
CONFIG = """
[mypy]
strict = True
explicit_package_bases = True
mypy_path = {view}:{folder}
[mypy-alcove.*]
ignore_errors = True
[mypy-alcove.runtime.*,alcove.registry.*,alcove.privacy.*,alcove.platform.*]
follow_imports = skip
"""


def import_file(path: Path) -> ModuleType:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_stub(folder: Path, source: object, name: str, *options: str) -> Path:
    """Write the stub of a source to NAME.py."""
    out = folder / f"{name}.py"
    ok(alcove("model", "stub", source, "-o", out, *options))
    return out


@pytest.mark.thorough
def test_an_app_is_held_to_the_types_of_a_stub(repository: Path, programs: tuple[Path, Path], tmp_path: Path) -> None:
    """Strict mypy accepts an app that uses them, and marks each line that does not, and no other."""
    subprocess.run([sys.executable, "tools/view.py"], check=True, cwd=repository, capture_output=True)
    write_stub(tmp_path, programs[0], "kind", "--feature", "kind")
    words = next((repository / "features/language_id/programs").glob("*-4*.alc"))
    write_stub(tmp_path, words, "words", "--feature", "words")
    feed = next((repository / "features/feed_ranking/programs").glob("*f32.alc"))
    write_stub(tmp_path, feed, "feed", "--feature", "feed")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "misuse.py").write_text(MISUSE)
    config = tmp_path / "mypy.ini"
    config.write_text(CONFIG.format(view=repository / "build/view", folder=tmp_path))
    options = ["--config-file", str(config), "--cache-dir", str(tmp_path / "cache"), "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *options]
    names = ("app.py", "misuse.py", "kind.py", "words.py", "feed.py")
    done = subprocess.run([*command, *names], check=False, capture_output=True, text=True, cwd=tmp_path)
    found = set(re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE))
    lines = enumerate(MISUSE.splitlines(), 1)
    wrong = {("misuse.py", str(number), line.partition("  # ")[2]) for number, line in lines if "  # " in line}
    assert found == wrong, done.stdout + done.stderr


def test_file_server_and_installed_feature_give_the_same_contract(
    shop: Shop, programs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Of one program: by its file, by FEATURE@VERSION and FEATURE@ALIAS."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    card = tmp_path / "card.md"
    card.write_text("# Planned\n")
    ok(
        shop.team(
            "model", "push", f"f32={programs[0]}", "--feature", "planned", "--team", "writing", "--key", key,
            "--version", "7.1.0", "--card", card,
        )
    )  # fmt: skip
    ok(shop.team("model", "validate", "planned@7.1.0"))
    ok(shop.team("model", "release", "planned@7.1.0", "--reason", "it passed"))
    ok(shop.team("model", "alias", "set", "planned@7.1.0", "@typed", "--reason", "it is"))
    contracts = [import_file(write_stub(tmp_path, programs[0], "by_file", "--feature", "planned")).Planned()]
    for source, name in (("planned@7.1.0", "by_version"), ("planned@typed", "by_alias")):
        out = tmp_path / f"{name}.py"
        said = ok(shop.team("model", "stub", source, "-o", out, "--json"))
        assert said.json == {"file": str(out), "feature": "planned", "class": "Planned"}
        assert "as of planned 7.1.0;" in out.read_text()
        contracts.append(import_file(out).Planned())
    assert contracts[0].signature == contracts[1].signature == contracts[2].signature
    assert contracts[0].name == "planned"


def test_a_stub_answers_and_a_program_of_another_signature_does_not(repository: Path, tmp_path: Path) -> None:
    """As the app's baseline: typed values; with another program in its place: `no_model`, never a wrong value."""
    module = import_file(write_stub(tmp_path, "bandwidth", "bandwidth"))
    others = next((repository / "features/language_id/programs").glob("*-4*.alc"))
    for program, error in ((Bandwidth.default_program, None), (others, AnswerError.NO_MODEL)):
        client = Client(
            "messenger",
            tmp_path / f"device{error}",
            "http://127.0.0.1:1",
            b"",
            baselines={"bandwidth": program},
        )
        answer = client.feature(module.Bandwidth).predict(observation=np.zeros((1, 150), np.float32))
        assert answer.error == error
        assert (answer.value is None) == (error is not None)
        if answer.value is not None:
            assert isinstance(answer.value.output_0, float)
            with pytest.raises(InputError, match="expected 150"):
                client.feature(module.Bandwidth).predict([[1.0]])
        client.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent", "-o", "x.py"), "neither FEATURE@VERSION nor a .alc file; installed features: background"),
        (("bandwidth", "-o", "x.txt"), "name a .py file in a folder that is there"),
        (("bandwidth", "-o", "nowhere/x.py"), "name a .py file in a folder that is there"),
    ],
)
def test_a_wrong_source_or_file_is_named(arguments: tuple[str, ...], message: str) -> None:
    """One sentence, and nothing is written."""
    said = alcove("model", "stub", *arguments)
    assert said.code == 2
    assert message in said.err


def test_a_file_whose_name_is_no_feature_asks_for_one(classifier: Path, tmp_path: Path) -> None:
    """By the option that says it."""
    strange = tmp_path / "My Model.alc"
    strange.write_bytes(classifier.read_bytes())
    said = alcove("model", "stub", strange, "-o", tmp_path / "x.py")
    assert said.code == 2
    assert "'My Model' is no name of a feature" in said.err
    assert "--feature" in said.err


HOSTILE = [
    '"""',
    "\n    import os",
    "class",
    "self",
    "9 lives",
    "ü",
    "",
    "\\",
    "x",
    "x",
    "x_",
    '"); raise SystemExit(("',
]


def test_names_of_ports_are_text_and_nothing_else(tmp_path: Path) -> None:
    """Whatever a program calls its ports: the source compiles, says their names, and does nothing by them."""
    inputs = [Port(name, "f32", (1, 2)) for name in HOSTILE]
    outputs = [Port(name, "i32", (1,), is_ragged=True, labels=(name, "other")) for name in HOSTILE]
    path = tmp_path / "hostile.py"
    path.write_text(stub_source("hostile", "hostile 1.0.0", inputs, outputs))
    contract = import_file(path).Hostile()
    assert [port.name for port in contract.signature.inputs] == HOSTILE
    values = list(range(len(HOSTILE)))
    assert list(contract.encode(*values)) == values
    decoded: Any = contract.decode(values)
    names = list(type(decoded).__slots__)
    assert [getattr(decoded, name) for name in names] == values
    assert all(name.isidentifier() for name in names)


def test_ports_of_every_program_here_have_a_stub(repository: Path, tmp_path: Path) -> None:
    """Text, pictures, several inputs, labels, varying sizes."""
    programs = sorted((repository / "features").glob("*/programs/*.alc"))
    assert len(programs) > 5
    for number, program in enumerate(programs):
        model = load(program)
        path = tmp_path / f"stub{number}.py"
        path.write_text(stub_source("one", "one 1.0.0", ports_of(model.inputs), ports_of(model.outputs)))
        assert import_file(path).One().signature.mismatch(model) == ""
