"""Every snippet of the tutorials and guides runs as it stands: Python, C, and the commands of team and operator."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.testing import Environment
from alcove.runtime import _native

from tests.tutorials import REPOSITORY, SERVER, read_blocks, run_tutorial

PAGES = sorted(path for folder in ("tutorials", "how-to") for path in (REPOSITORY / "docs" / folder).glob("*.md"))


def test_every_page_has_a_snippet_or_a_command() -> None:
    """The pages below are those that the tests here read; none is empty of things to try."""
    assert {path.stem for path in PAGES} >= {"app", "team", "operator", "test-an-app", "vary-sizes", "call-from-c"}
    assert all("`alcove" in path.read_text("utf-8") or "```" in path.read_text("utf-8") for path in PAGES)
    languages = {name for path in PAGES for name in re.findall(r"^```(\w+)$", path.read_text("utf-8"), re.MULTILINE)}
    assert languages == {"python", "c", "sh", "cmake", "yaml", "toml", "json"}


@pytest.mark.parametrize(
    "page",
    [
        "tutorials/app",
        "how-to/test-an-app",
        "how-to/vary-sizes",
        "how-to/record-a-metric",
        "how-to/compare-by-eye-and-ear",
        "how-to/stream-frames",
        "how-to/tokenizers",
        "how-to/sound-in-programs",
        "how-to/watch-an-app",
        "how-to/change-a-value",
    ],
)
def test_python_of_a_page_runs_from_top_to_bottom(
    page: str, world: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a server on this machine in the place of the page's own, and its root."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root.json").write_bytes(world.places.root.read_bytes())
    namespace: dict[str, object] = {}
    snippets = read_blocks(REPOSITORY / f"docs/{page}.md", "python")
    assert snippets
    for snippet in snippets:
        exec(snippet.replace(SERVER, world.server.http), namespace)


def test_a_feature_of_ones_own_is_made_and_called_with_its_types(
    world: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a text, a picture and several inputs: Python and commands of the page, in its order."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "root.json").write_bytes(world.places.root.read_bytes())
    page = (REPOSITORY / "docs/how-to/your-own-feature.md").read_text("utf-8")
    namespace: dict[str, object] = {}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for language, snippet in re.findall(r"^```(python|sh)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if language == "sh":
            subprocess.run(["bash", "-ec", snippet], check=True, env=environment, capture_output=True)
        else:
            exec(snippet.replace(SERVER, world.server.http), namespace)


def test_the_c_program_prints_the_language(tmp_path: Path) -> None:
    """By the lines of the guide for an installed wheel, with warnings as errors."""
    page = REPOSITORY / "docs/how-to/call-from-c.md"
    (snippet,) = read_blocks(page, "c")
    (tmp_path / "language.c").write_text(snippet, encoding="utf-8")
    (tmp_path / "language_id.alc").write_bytes(program_path("1.0.0").read_bytes())
    lines = read_blocks(page, "sh")[0].replace("cc ", "cc -std=c11 -Wall -Wextra -Wpedantic -Werror ")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", lines], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "de\n"


@pytest.mark.thorough
def test_the_interface_for_c_is_where_the_command_says() -> None:
    """`python -m alcove.runtime` names folders that hold the headers and the library."""
    asked = [sys.executable, "-m", "alcove.runtime", "--includedir", "--libdir"]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    headers, library = map(Path, done.stdout.split())
    assert (headers / "alcove.h").read_bytes() == (REPOSITORY / "runtime/native/include/alcove.h").read_bytes()
    assert (headers / "alcove.hpp").is_file()
    assert library == Path(_native.__file__).parent


@pytest.mark.thorough
@pytest.mark.parametrize("page", ["team", "operator", "automation"])
def test_commands_of_a_tutorial_run_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    """In an empty folder, with a server on ports that the system chose."""
    programs = Path(sys.executable).parent
    run_tutorial(REPOSITORY / f"docs/tutorials/{page}.md", tmp_path, programs, programs)
