"""`alcove feature run` answers each line of input, valid or not, with one line of JSON."""

import json
from pathlib import Path

import numpy as np
import pytest
from alcove.features import catalogue
from alcove.features.bandwidth.config import STATISTICS
from alcove.features.bandwidth.dataset import make_recording
from alcove.features.bandwidth.observation import observations_of
from alcove.platform.cli.feature import answers
from alcove.platform.cli.main import app_of
from PIL import Image
from typer.testing import CliRunner

BAD = [b"", b"\n", b"[1, 2, 3]\n", b"{}\n", b"\xff\xfe\n", b"not JSON\n", b"[" * 5000 + b"\n", b"x" * 1_000_000 + b"\n"]


def observations() -> list[list[float]]:
    """Return the ticks of a simulated call."""
    return [
        [round(float(value), 3) for value in row] for row in observations_of(make_recording(1, 60, 2).statistics)[0]
    ]


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_bad_and_empty_lines_are_answered_with_an_error_or_a_value(name: str) -> None:
    """One answer each, with the committed version; none ends the run."""
    given = list(answers(name, iter(BAD)))
    assert len(given) == len(BAD)
    for answer in given:
        assert answer["version"] == catalogue()[name].default_version
        assert (answer["value"] is None) == ("error" in answer)
        json.dumps(answer, allow_nan=False)


def test_observations_are_the_ticks_of_one_call_and_bad_lines_change_nothing() -> None:
    """Estimates with errors between them are those without them; a list, an object, lists by name say the same."""
    rows = observations()
    plain = [json.dumps(row).encode() for row in rows]
    by_name = {known.name: rows[3][10 * n : 10 * n + 10] for n, known in enumerate(STATISTICS)}
    mixed = [
        b"",
        *plain[:2],
        b"[]",
        json.dumps({"observation": rows[2]}).encode(),
        json.dumps(by_name).encode(),
        *plain[4:],
    ]
    values = [answer["value"] for answer in answers("bandwidth", iter(mixed)) if answer["value"]]
    assert values == [answer["value"] for answer in answers("bandwidth", iter(plain))]
    assert all(set(value) == {"capacity_bps", "std_bps"} for value in values)
    assert len({value["capacity_bps"] for value in values}) > 40


def test_missing_values_leave_the_estimate_and_widen_it() -> None:
    """null, NaN and a negative count: a value, not an error."""
    rows = observations()
    lines = [json.dumps(row).encode() for row in rows[:20]]
    text, value = json.dumps(rows[20]), str(rows[20][10])
    lines += [text.replace(value, bad, 1).encode() for bad in ("null", "NaN", "-5")]
    *_, before, first, second, third = (answer["value"] for answer in answers("bandwidth", iter(lines)))
    for later, earlier in ((first, before), (second, first), (third, second)):
        assert later["capacity_bps"] == before["capacity_bps"]
        assert later["std_bps"] == pytest.approx(1.05 * earlier["std_bps"], rel=1e-4)


def test_command_prints_one_line_per_line(tmp_path: Path) -> None:
    """From a file and from standard input."""
    lines = [json.dumps(row) for row in observations()[:3]]
    (tmp_path / "calls.jsonl").write_text("\n".join([*lines, "", "oops"]) + "\n")
    run = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "bandwidth", "--input", str(tmp_path / "calls.jsonl")]
    )
    assert run.exit_code == 0
    printed = [json.loads(line) for line in run.stdout.splitlines()]
    assert [answer["value"] is None for answer in printed] == [False, False, False, True, True]
    assert "list of 150 numbers" in printed[4]["error"]["message"]
    again = CliRunner().invoke(app_of("feature"), ["feature", "run", "bandwidth"], input="\n".join(lines) + "\n")
    assert [json.loads(line) for line in again.stdout.splitlines()] == printed[:3]
    assert np.isfinite([answer["value"]["capacity_bps"] for answer in printed[:3]]).all()


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_picture_in_the_place_of_lines_is_one_input(tmp_path: Path, suffix: str) -> None:
    """The picture that was meant, not its bytes as lines; a feature that takes text says so."""
    picture = tmp_path / f"photo.{suffix}"
    Image.new("RGB", (64, 48), (10, 120, 200)).save(picture)
    run = CliRunner().invoke(app_of("feature"), ["feature", "run", "scene_tags", "--input", str(picture)])
    assert run.exit_code == 0
    [answer] = [json.loads(line) for line in run.stdout.splitlines()]
    assert answer["value"]["embedding"]
    refused = CliRunner().invoke(app_of("feature"), ["feature", "run", "language_id", "--input", str(picture)])
    assert refused.exit_code == 2
    assert "takes lines of text" in " ".join(refused.output.replace("│", " ").split())


def test_file_of_which_no_line_is_answered_is_a_failure(tmp_path: Path) -> None:
    """Exit code 1, so that a script notices; a line that is answered is enough for 0."""
    (tmp_path / "lines").write_text("nothing\nof this is there\n")
    run = CliRunner().invoke(app_of("feature"), ["feature", "run", "scene_tags", "--input", str(tmp_path / "lines")])
    assert run.exit_code == 1
    assert len(run.stdout.splitlines()) == 2


def test_asking_for_json_changes_nothing(tmp_path: Path) -> None:
    """As other commands: --json is understood; a line of JSON answers each line of input either way."""
    path = tmp_path / "lines"
    path.write_text("Wo ist der Bahnhof?\nOù est la gare ?\n")
    call = ["feature", "run", "language_id", "--input", str(path)]
    plain, asked = (CliRunner().invoke(app_of("feature"), [*call, *more]) for more in ([], ["--json"]))
    assert (asked.exit_code, asked.stdout) == (0, plain.stdout)
    assert [set(json.loads(line)) for line in asked.stdout.splitlines()] == [{"value", "version"}] * 2
