"""`alcove model push --parameter` declares values that apps read beside a version's answers."""

from pathlib import Path

import pytest
import typer
from alcove.platform.cli.parameters import parse_parameter, parse_parameters
from alcove.registry.manifest import Manifest
from alcove.registry.parameters import Parameter

from tests.platform.cli.terminal import Shop, ok


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("enabled:bool=true", Parameter(name="enabled", type="bool", default=True)),
        ("rows:int=3:-1..10", Parameter(name="rows", type="int", default=3, minimum=-1, maximum=10)),
        (
            "threshold:float=0.50:0..1.0",
            Parameter(name="threshold", type="float", default="0.5", minimum="0", maximum="1"),
        ),
        ("tone:text=plain:plain,kind", Parameter(name="tone", type="text", default="plain", choices=("plain", "kind"))),
    ],
)
def test_a_parameter_is_written_in_one_word(text: str, parameter: Parameter) -> None:
    """Name, type, default and bounds; numbers in whatever way people write them."""
    assert parse_parameter(text) == parameter


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threshold", "a parameter is written NAME:int=3:1..10"),
        ("threshold:double=0.5", "a parameter is written NAME:int=3:1..10"),
        ("threshold:float=much:0..1", "expected a decimal number, got 'much'"),
        ("threshold:float=nan:0..1", "expected a decimal number, got 'nan'"),
        ("threshold:float=0.5", "expected a decimal number, got ''"),
        ("threshold:float=2:0..1", "default of parameter threshold: expected 0 to 1, got 2"),
        ("rows:int=1.5:1..2", "expected a whole number, got '1.5'"),
        ("enabled:bool=1", "expected true or false, got '1'"),
        ("enabled:bool=true:0..1", "a truth value has no bounds"),
        ("tone:text=rude:plain,kind", "expected one of plain, kind, got 'rude'"),
        ("Tone:text=plain:plain", "'Tone:text=plain:plain': "),
    ],
)
def test_a_parameter_that_is_none_is_refused(text: str, message: str) -> None:
    """With the form, or the bound and the value."""
    with pytest.raises(typer.BadParameter) as caught:
        parse_parameter(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rows=how many", "write NAME=WORDS, once, of threshold, enabled; got 'rows=how many'"),
        ("threshold=", "write NAME=WORDS, once, of threshold, enabled; got 'threshold='"),
        ("threshold=" + "x" * 201, "a description has at most 200 characters; got 201 of threshold"),
    ],
)
def test_a_description_of_no_parameter_is_refused(words: str, message: str) -> None:
    """With the names that there are, or the bound; one that is right is with its parameter, by name."""
    texts = ["threshold:float=0.5:0.1..0.9", "enabled:bool=true"]
    assert [one.description for one in parse_parameters(texts, ["threshold=how sure"])] == ["", "how sure"]
    with pytest.raises(typer.BadParameter) as caught:
        parse_parameters(texts, [words])
    assert caught.value.message == message


def test_a_pushed_version_declares_its_parameters(shop: Shop, programs: tuple[Path, Path], tmp_path: Path) -> None:
    """In the manifest that the team signs and devices read."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    pushed = ok(
        shop.team(
            "model", "push", f"f32={programs[0]}", "--feature", "planned", "--team", "writing", "--key", key,
            "--version", "8.0.0", "--parameter", "threshold:float=0.5:0.1..0.9", "--parameter", "enabled:bool=true",
            "--json",
        )
    )  # fmt: skip
    digest = pushed.json["manifest_sha256"]
    (file,) = (shop.folder / "server").rglob(f"{digest}.8.0.0.json")
    assert [one.name for one in Manifest.from_bytes(file.read_bytes()).parameters] == ["enabled", "threshold"]
