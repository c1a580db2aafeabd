"""What a message or a page tells people to install is a distribution of ours, by a name that is ours."""

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import alcove
import pytest

from tools.distributions import EXTRAS, NOT_OFFERED, SDK, list_distributions, read_extras

FOLDERS = (
    "benchmarks", "deploy", "docs", "features", "kernels", "namespace", "platform", "privacy", "registry", "runtime",
    "sdk", "tests", "tools",
)  # fmt: skip
SUFFIXES = frozenset({".py", ".md", ".sh", ".toml", ".yaml", ".yml", ".ipynb", ""})
INSTALL = re.compile(r"pip\"?,? (?:\S*=\S* )?install (?P<rest>[^`\n]*)")
NAME = re.compile(r"^(?P<name>alcove[\w.-]*)(?:\[(?P<extras>[\w,-]+)\])?(?:[=<>!~].*)?$")
WITH_EXTRAS = re.compile(r"\b(?P<name>alcove[\w-]*)\[(?P<extras>[a-z][a-z,_-]*)\]")


def find_texts(repository: Path) -> Iterator[tuple[str, str]]:
    """The path and the text of every file that may tell somebody what to install; decisions tell what once was."""
    files = [*repository.glob("*.md"), repository / "Makefile", repository / "pyproject.toml"]
    files += [path for folder in FOLDERS for path in (repository / folder).rglob("*")]
    for path in files:
        name = path.relative_to(repository).as_posix()
        is_text = path.suffix in SUFFIXES and path.is_file() and "/__pycache__/" not in name
        if is_text and path != Path(__file__) and not name.startswith(("docs/decisions/", "docs/plots/")):
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:  # no text: a file without a suffix may be anything
                continue


def find_wrong_names(text: str, built: dict[str, frozenset[str]]) -> list[str]:
    """What a text tells people to install, by a name or with an extra that no wheel of ours has."""
    named = [(found["name"], found["extras"]) for found in WITH_EXTRAS.finditer(text)]
    for line in INSTALL.finditer(text.replace("\\\n", " ")):
        words = [word.strip("'\"(),.;:\\").rstrip("/") for word in line["rest"].split()]
        named += [(found["name"], found["extras"]) for word in words if (found := NAME.match(word))]
    return [
        f"{name}[{extras}]" if extras else name
        for name, extras in named
        if name.endswith((".py", ".whl")) is False
        and not (name in built and set((extras or "").split(",")) - {""} <= built[name])
    ]


def read_project(repository: Path) -> dict[str, object]:
    """The table of pyproject.toml that describes the project."""
    text = (repository / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, object] = tomllib.loads(text)["project"]
    return project


def test_every_distribution_that_is_named_is_one_that_is_built(repository: Path) -> None:
    """`alcove` is another project's on the public index: no message and no page tells anyone to install it."""
    built = list_distributions(repository)
    texts = list(find_texts(repository))
    wrong = {name: found for name, text in texts if (found := find_wrong_names(text, built))}
    # The tree's own extras, of which no wheel has all.
    assert wrong.pop("pyproject.toml") == [
        "alcove-sdk[commands,export,oidc,onnx,openfeature,parquet,plot,server,traces]"
    ]
    assert wrong == {}
    assert len([name for name, text in texts if INSTALL.search(text)]) > 20


@pytest.mark.parametrize(
    "line",
    [
        "pip install alcove",
        "pip install 'alcove[export]'",
        ".venv/bin/pip install --find-links build/wheels alcove alcove-feature-language-id",
        "needs alcove[platform]",
        "pip install 'alcove-platform[openfeature]'",
        "pip install alcove-feature-language-ids==0.1.0",
    ],
)
def test_another_name_or_extra_is_caught(repository: Path, line: str) -> None:
    """A test for the tests: a stranger's name, an extra that the wheel lacks, a feature that is none."""
    assert find_wrong_names(line, list_distributions(repository))


def test_pages_say_where_the_wheels_are(repository: Path) -> None:
    """The distributions are on no index, so a page installs them from a folder or by a file."""
    for name, text in find_texts(repository):
        if not name.endswith(".md"):
            continue
        for line in INSTALL.finditer(text.replace("\\\n", " ")):
            words = [word.strip("'\"") for word in line["rest"].split()]
            if any(NAME.match(word) for word in words):
                assert "--find-links" in words, f"{name}: {line[0]}"


def test_every_extra_of_the_tree_is_offered_by_one_wheel(repository: Path) -> None:
    """What pyproject.toml makes optional can be installed from the wheels, each extra from where its code is."""
    project = read_project(repository)
    offered = [extra for extras in EXTRAS.values() for extra in extras]
    assert len(offered) == len(set(offered))
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    assert set(offered) | NOT_OFFERED == set(extras)
    assert all(requirements for name in EXTRAS for requirements in read_extras(project, name).values())


def test_the_version_is_one(repository: Path) -> None:
    """`alcove.__version__` is the distribution's."""
    project = read_project(repository)
    assert project["name"] == SDK
    assert alcove.__version__ == project["version"] == metadata.version(SDK)
