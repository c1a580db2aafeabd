"""Programs of every format version so far, which are kept here, still open and give the same bits."""

import hashlib
import json
from importlib import import_module
from pathlib import Path

import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.format import records
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import patch, reseal

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = sorted(GOLDEN.glob("*/*.alc"))


@pytest.fixture(autouse=True)
def _tools(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tools/ is no installed package."""
    monkeypatch.syspath_prepend(str(repository))


def answers(path: Path) -> dict[str, str]:
    """What was written down when the program was made."""
    stored: dict[str, dict[str, str]] = json.loads((path.parent / "answers.json").read_text(encoding="utf-8"))
    return stored[path.stem]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_program_of_an_earlier_version_gives_its_bits(path: Path) -> None:
    """The file is as it was, opens, its weights are right, and the outputs of three runs are those of then."""
    program = path.read_bytes()
    assert hashlib.sha256(program).hexdigest() == answers(path)["program"]
    load(program).verify_weights()
    assert import_module("tools.golden").answer_of(program) == answers(path)["outputs"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_todays_writer_still_writes_those_bytes(path: Path) -> None:
    """One canonical encoding: a change of the format is a new version, not a change of this one."""
    program = path.read_bytes()
    assert write_program(read_spec(program)) == program


def test_programs_of_each_version_are_kept_and_none_is_missing() -> None:
    """A folder for this version, its list complete."""
    for folder in GOLDEN.iterdir():
        stored = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
        assert {path.stem for path in folder.glob("*.alc")} == set(stored)
    assert (GOLDEN / f"{records.MAJOR}.{records.MINOR}").is_dir(), "python -m tools.golden"
    assert len(PROGRAMS) >= 16


def test_another_rule_of_an_operator_would_be_noticed() -> None:
    """A test for the tests: other weights give another digest."""
    path = GOLDEN / "2.0/layers.alc"
    spec = read_spec(path.read_bytes())
    at = path.read_bytes().rindex(next(t.data for t in spec.tensors if len(t.data) > 64)[:64])
    changed = reseal(patch(path.read_bytes(), at + 64, "B", path.read_bytes()[at + 64] ^ 0x40))
    assert import_module("tools.golden").answer_of(changed) != answers(path)["outputs"]


def test_a_later_major_version_is_refused_by_name() -> None:
    """A runtime says that it is too old, not that the file is broken."""
    later = reseal(patch((GOLDEN / "2.0/layers.alc").read_bytes(), 8, "H", records.MAJOR + 1))
    with pytest.raises(ProgramError, match="header_version"):
        load(later)
