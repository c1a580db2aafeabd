"""`alcove model verify` of several programs, and the hook of docs/how-to/check-in-ci.md that calls it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from alcove.features.language_id.contract import program_path

from tests.platform.cli.terminal import alcove


@pytest.fixture
def two_programs(tmp_path: Path) -> tuple[Path, Path]:
    """A sound program, and one of which the last byte of the file is missing."""
    program = program_path("1.0.0").read_bytes()
    sound, torn = tmp_path / "sound.alc", tmp_path / "torn.alc"
    sound.write_bytes(program)
    torn.write_bytes(program[:-1])
    return sound, torn


def test_every_program_is_checked_and_those_that_are_damaged_are_named(two_programs: tuple[Path, Path]) -> None:
    """One that is damaged or absent hides no other; the exit code is 1, and JSON lists those that are sound."""
    sound, torn = two_programs
    absent = sound.with_name("absent.alc")
    said = alcove("model", "verify", torn, absent, sound)
    assert said.code == 1
    assert said.out.startswith(f"{sound}: what program")
    assert [line.split(": ")[1] for line in said.err.splitlines()] == [str(torn), str(absent)]
    listed = alcove("model", "verify", sound, torn, "--json")
    assert (listed.code, [facts["path"] for facts in listed.json]) == (1, [str(sound)])
    assert alcove("model", "verify", sound, "--json").json["what"] == "program"
    assert (alcove("model", "verify", torn, "--json").code, alcove("model", "verify", torn, "--json").out) == (1, "")


def test_layers_are_compared_for_one_program(two_programs: tuple[Path, Path]) -> None:
    """A module has one program."""
    said = alcove("model", "verify", *two_programs, "--layers", "polite.py:feature")
    assert (said.code, "compares one program, got 2" in said.err) == (2, True)


def test_the_hook_of_the_guide_refuses_a_damaged_program(
    two_programs: tuple[Path, Path], tmp_path: Path, repository: Path
) -> None:
    """As pre-commit runs it, in a repository of one program, and then of two."""
    page = (repository / "docs/how-to/check-in-ci.md").read_text(encoding="utf-8")
    ((text),) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / ".pre-commit-config.yaml").write_text(text)
    tools = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(tmp_path / "hooks"),
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    assert run("git", "init", "--quiet").returncode == 0
    for program, code in zip(two_programs, (0, 1), strict=True):
        program.rename(folder / program.name)
        assert run("git", "add", ".").returncode == 0
        done = run(str(tools / "pre-commit"), "run", "--all-files")
        assert done.returncode == code, done.stdout + done.stderr
    assert "torn.alc: the header says" in done.stdout
    assert "sound.alc" in done.stdout
