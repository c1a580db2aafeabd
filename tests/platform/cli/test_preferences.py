"""Comparisons by preference, as an operator types them: preset, experiment, results and simulation."""

import json
from pathlib import Path

import pytest

from tests.platform.cli.terminal import Shop, alcove


def test_a_preset_decides_an_experiment_of_two_versions(shop: Shop, programs: tuple[Path, Path]) -> None:
    """The server says that the metric is a preference; a preset that there is none of is refused with the list."""
    key, card = shop.folder / "keys" / "teams" / "writing.pem", shop.folder / "card.md"
    card.write_text("# Compared\n")
    options = ("--feature", "compared", "--team", "writing", "--key", key, "--card", card)
    for version, program in zip(("1.0.0", "1.1.0"), programs, strict=True):
        shop.team("model", "push", f"f32={program}", "--version", version, *options, "--json")
    shop.release("1.0.0", "1.1.0", feature="compared")
    about = ("--feature", "compared", "--owner", "calls")
    made = shop.team("metric", "create-preset", "preferred", *about, "--json")
    assert made.code == 0, made.err
    assert (made.json[0]["kind"], made.json[0]["bin_values"]) == ("preference", [0.0, 0.0, 0.5, 1.0])
    refused = shop.team("metric", "create-preset", "stars", *about)
    assert (refused.code, "call_good" in refused.err) == (2, True)
    shown = shop.team("metric", "list", "--feature", "compared")
    assert "no preference = 0.5" in " ".join(shown.out.split())
    arms = ("--arm", "old=1.0.0:50%", "--arm", "new=1.1.0:50%")
    created = shop.operator(
        "experiment", "create", "--app", "compared", "--feature", "compared", *arms,
        "--primary", "metric:preferred", "--mde", "0.1", "--devices", "400000", "--start", "--json",
    )  # fmt: skip
    assert created.code == 0, created.err
    (experiment,) = created.json
    assert experiment["primary"]["is_preference"]
    results = shop.operator("experiment", "results", experiment["experiment_id"])
    assert results.code == 0, results.err
    assert "people prefer" not in results.out  # there are no reports yet
    shop.operator("experiment", "stop", experiment["experiment_id"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--preference", "0.6", "--ties", "0.2", "--answering", "1"), "first run: people prefer treatment to control"),
        (("--good", "0.5,0.9"), "the treatment won in 100.0% of 2 runs"),
    ],
)
def test_a_simulation_says_what_an_experiment_would(options: tuple[str, ...], words: str) -> None:
    """In words; every run has a record in JSON."""
    small = ("--devices", "40000", "--runs", "2")
    assert words in " ".join(alcove("experiment", "simulate-rating", *options, *small).out.split())
    runs = json.loads(alcove("experiment", "simulate-rating", *options, *small, "--json").out)
    assert [run["won_window"] for run in runs] == [1, 1]


def test_measured_calls_say_in_words_which_version_is_better_and_how_many_calls_that_takes(tmp_path: Path) -> None:
    """The better sound wins by ratings, the slower frames lose by budgets; JSON has every run of both outcomes."""
    table = tmp_path / "calls.csv"
    table.write_text("control_db,treatment_db,control_us,treatment_us\n11,13,200,400\n5,13,200,200\n13,13,200,200\n")
    options = ("--calls", table, "--devices", "9000", "--runs", "1", "--slowdown", "50", "--answering", "0.8")
    words = " ".join(alcove("experiment", "simulate-rating", *options).out.split())
    assert "calls rated good: 100.0% with the treatment, 33.3% with the control in the table" in words
    assert "more of them: the treatment is better the treatment won in 1 of 1 runs" in words
    assert "of them rated, find this difference in 80 % of experiments" in words
    assert "more of them: the control is better the treatment won in 0 of 1 runs the control won in 1 of 1" in words
    runs = json.loads(alcove("experiment", "simulate-rating", *options, "--json").out)
    assert [run["outcome"] for run in runs] == ["call_good", "frame_budget_kept"]
    assert runs[0]["run"]["difference"] == pytest.approx(2 / 3, abs=0.15)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "one of --preference and --good"),
        (("--preference", "0.5", "--good", "0.5,0.6"), "one of --preference and --good"),
        (("--good", "0.5"), "0.80,0.82"),
        (("--calls", "nowhere.csv"), "does not exist"),
        (("--preference", "0.9", "--ties", "0.5"), "cannot be"),
        (("--good", "0.5,1.5"), "of sum 1"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options: tuple[str, ...], words: str) -> None:
    """With what there is to write."""
    refused = alcove("experiment", "simulate-rating", *options)
    assert refused.code == 2
    assert words in " ".join(refused.err.replace("│", " ").split())
