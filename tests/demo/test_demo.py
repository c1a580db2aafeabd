"""`alcove demo`: steps that hold, a decision that follows the models, and honesty with few devices."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.cli.demo.actors import Person, load_sentences

pytestmark = pytest.mark.timeout(1000)  # a whole story, on a machine that may be busy


def run_demo(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Run the command as a person would; returns exit code, the JSON record and what was printed."""
    record = folder / "result.json"
    alcove = Path(sys.executable).parent / "alcove"
    command: list[str | Path] = [alcove, "demo", "--json", record, *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert record.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(record.read_text(encoding="utf-8")), done.stdout + done.stderr


def unbox(text: str) -> str:
    """What a message in a box says, without the box and its line breaks."""
    return " ".join(text.replace("│", " ").split())


def check_record(result: dict[str, Any]) -> None:
    """What must hold of every complete record."""
    assert all(result["steps"].values()), result["steps"]
    assert result["ramped"]
    assert result["tamper_refused"]
    assert "blob" in result["tamper_error"]
    is_private = result["mechanism"] == "prio3"
    assert result["epsilon"] == (1 if is_private else 2)
    sizes = range(1200, 3000) if is_private else range(38, 39)
    assert result["privacy"]["report_bytes"] in sizes or result["batch"] is None
    assert result["bytes_left_device"] == result["privacy"]["report_bytes"] + result["privacy"]["request_bytes"]
    assert result["bytes_moved"]["second_sync_received"] < result["bytes_moved"]["first_sync_received"] / 100
    assert [arm["version"] for arm in result["arms"]] == ["1.0.0", "2.0.0"]
    assert result["seconds"] > 0
    assert (result["guarded"]["version"], result["guarded"]["share"]) == ("2.1.0", 0.1)


def check_batch(result: dict[str, Any], *, compared: int = 100) -> None:
    """What must hold of the reports' way through two aggregators."""
    batch = result["batch"]
    assert batch["acknowledged"] == batch["released"]
    assert 0 < batch["released"] - result["fleet"] <= result["devices"]
    assert batch["killed_process"] > 0
    assert batch["repeated_uploads"] > 0
    assert batch["compared"] == compared
    assert batch["forged_refused"] == result["fleet"] // 100
    assert batch["tokens_spent"] == batch["acknowledged"] <= batch["tokens_issued"]
    assert batch["tokens_recognized"] == 0
    assert batch["least_share_bits"] > 64  # a count has 14 bits; 26 numbers of 128, all longer than this but by 2^-59
    assert batch["single_reports_at_server"] == 0
    assert 0 < batch["largest_noise"] < 100  # both aggregators' noise in 13 cells, scale 2 each
    assert {party["name"] for party in result["parties"]} == {
        "a device",
        "leader",
        "helper",
        "leader and helper together",
        "issuer of tokens",
        "server",
    }


@pytest.mark.parametrize(
    ("options", "winner"),
    [
        pytest.param(("--devices", "4", "--fleet", "2400"), "2.0.0", id="few devices", marks=pytest.mark.thorough),
        pytest.param((), "2.0.0", id="as it comes", marks=pytest.mark.thorough),
        pytest.param(("--devices", "2", "--swap"), "1.0.0", id="swapped", marks=pytest.mark.thorough),
        pytest.param(
            ("--mechanism", "randomized-response"), "2.0.0", id="randomized response", marks=pytest.mark.thorough
        ),
    ],
)
def test_the_better_model_wins_whichever_arm_it_is(tmp_path: Path, options: tuple[str, ...], winner: str) -> None:
    """With the fleet the reports decide; swapping the two models swaps the result."""
    code, result, printed = run_demo(tmp_path, *options)
    assert code == 0, printed
    check_record(result)
    assert (result["decision"], result["winner"], result["ramped_to"]) == ("winner", winner, winner), printed
    assert result["override_reason"] is None
    guarded = result["guarded"]
    assert (guarded["state"], guarded["decision"]) == ("halted", "harm"), printed
    assert guarded["reports"] >= 100  # of a fifth: they may come one by one, and the server be quicker than the fleet
    by_itself = "halted" if result["mechanism"] == "prio3" else "paused"  # tokens attest reports
    assert guarded["by_itself"] == by_itself
    assert f"{by_itself} by itself" in unbox(printed)
    for arm in result["arms"]:
        low, high = arm["interval"]
        assert low < arm["accepted"] < high
        assert arm["share"] == pytest.approx(0.5, abs=0.1)
    if result["mechanism"] == "prio3":
        check_batch(result)
        small = result["small_difference"]
        assert small["devices"] >= result["fleet"]
        assert small["winner"] in (winner, None), printed  # never the trimmed one
        assert small["detectable"]["two aggregators, ε = 1"] < small["detectable"]["randomized response, ε = 2"] / 3
        assert "Who held what" in printed


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="prio3"),
        pytest.param(("--mechanism", "randomized-response", "--devices", "2"), id="randomized response"),
    ],
)
@pytest.mark.thorough
def test_few_devices_alone_are_inconclusive(tmp_path: Path, options: tuple[str, ...]) -> None:
    """With too few devices the demo says so, and ramps only by an explicit, audited override."""
    code, result, printed = run_demo(tmp_path, "--fleet", "0", *options)
    assert code == 0, printed
    check_record(result)
    assert (result["decision"], result["winner"]) == ("inconclusive", None)
    assert result["override_reason"]
    assert "inconclusive, hold" in unbox(printed)
    assert (result["guarded"]["state"], result["guarded"]["seconds"]) == ("rolled_back", None)


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """`--folder` never mixes with what lies there; the error names the folder."""
    (tmp_path / "something").touch()
    alcove = Path(sys.executable).parent / "alcove"
    done = subprocess.run([alcove, "demo", "--folder", tmp_path], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not empty" in unbox(done.stderr)
    assert not (tmp_path / "keys").exists()


@pytest.mark.thorough
def test_a_step_that_does_not_hold_is_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no program can be loaded the demo ends with 1, says why, and writes the record all the same."""
    keep = tmp_path / "keep"
    keep.mkdir()
    keep.chmod(0o755)
    monkeypatch.setenv("ALCOVE_ISA", "abacus")
    options = ("--mechanism", "randomized-response", "--devices", "1", "--fleet", "0", "--folder", str(keep))
    code, result, printed = run_demo(tmp_path, *options)
    assert code == 1
    assert "ALCOVE_ISA" in result["error"]
    assert "ALCOVE_ISA" in printed
    assert "Traceback" not in printed
    assert not all(result["steps"].values())
    assert "inconclusive" not in printed


def test_a_record_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    """A folder that is not there is found at once, not after the run."""
    alcove = Path(sys.executable).parent / "alcove"
    record = tmp_path / "missing" / "result.json"
    done = subprocess.run([alcove, "demo", "--json", record], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "is no folder" in unbox(done.stderr)


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
