"""`alcove demo`: six steps that hold, a decision that follows the models, and honesty with few devices."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.cli.demo.people import Person, load_sentences


def run_demo(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Run the command as a person would; returns exit code, the JSON record and what was printed."""
    record = folder / "result.json"
    alcove = Path(sys.executable).parent / "alcove"
    command: list[str | Path] = [alcove, "demo", "--json", record, *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert record.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(record.read_text(encoding="utf-8")), done.stdout + done.stderr


def check_record(result: dict[str, Any]) -> None:
    """What must hold of every complete record."""
    assert all(result["steps"].values()), result["steps"]
    assert result["ramped"]
    assert result["tamper_refused"]
    assert "blob" in result["tamper_error"]
    assert result["epsilon"] == 2
    assert result["privacy"]["report_bytes"] == 38
    assert result["bytes_left_device"] == 38 + result["privacy"]["request_bytes"]
    assert result["bytes_moved"]["second_sync_received"] < result["bytes_moved"]["first_sync_received"] / 100
    assert [arm["version"] for arm in result["arms"]] == ["1.0.0", "2.0.0"]
    assert result["seconds"] > 0


@pytest.mark.parametrize(("swap", "winner"), [((), "2.0.0"), (("--swap",), "1.0.0")])
def test_the_better_model_wins_whichever_arm_it_is(tmp_path: Path, swap: tuple[str, ...], winner: str) -> None:
    """With the fleet the reports decide; swapping the two models swaps the result."""
    code, result, printed = run_demo(tmp_path, "--devices", "2", *swap)
    assert code == 0, printed
    check_record(result)
    assert (result["decision"], result["winner"], result["ramped_to"]) == ("winner", winner, winner), printed
    assert result["override_reason"] is None
    for arm in result["arms"]:
        low, high = arm["interval"]
        assert low < arm["accuracy"] < high
        assert arm["share"] == pytest.approx(0.5, abs=0.1)


def test_twenty_four_devices_alone_are_inconclusive(tmp_path: Path) -> None:
    """With too few devices the demo says so, and ramps only by an explicit, audited override."""
    code, result, printed = run_demo(tmp_path, "--devices", "24", "--fleet", "0")
    assert code == 0, printed
    check_record(result)
    assert (result["decision"], result["winner"]) == ("inconclusive", None)
    assert result["override_reason"]
    assert "inconclusive, hold" in printed


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """`--keep` never mixes with what lies there; the error names the folder."""
    (tmp_path / "something").touch()
    alcove = Path(sys.executable).parent / "alcove"
    done = subprocess.run([alcove, "demo", "--keep", tmp_path], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert not (tmp_path / "keys").exists()


def test_a_person_repeats_from_the_seed() -> None:
    """The demo's people are the same in each run; their noise and secrets are not."""
    sentences = load_sentences()
    first, again, other = (Person(seed, sentences) for seed in (7, 7, 8))
    texts = [[person.write().whole for _ in range(5)] for person in (first, again, other)]
    assert texts[0] == texts[1] != texts[2]


def test_the_canary_is_in_everything_that_is_typed() -> None:
    """The search for leaks is only worth something if each text holds what is searched for."""
    person = Person(3, load_sentences(), canary="CANARY")
    for typing in [person.write() for _ in range(20)]:
        assert "CANARY" in typing.opening
        assert "CANARY" in typing.whole
