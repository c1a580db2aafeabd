"""The committed bandwidth programs: size, re-export to the same bytes, answers, accuracy and model card figures."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from alcove.features.bandwidth import Bandwidth, BandwidthStream
from alcove.features.bandwidth.baselines import BASELINES
from alcove.features.bandwidth.call import latest_observation
from alcove.features.bandwidth.card import certainty_picture, figures, mean_of_sources
from alcove.features.bandwidth.closed_loop import CALL_TICKS, compare, recorded_paths
from alcove.features.bandwidth.config import DEFAULT_VERSION, STATISTICS
from alcove.features.bandwidth.contract import MISSING, PROGRAMS, program_path
from alcove.features.bandwidth.dataset import make_capacities, make_recording
from alcove.features.bandwidth.evaluate import choose_segments, evaluate
from alcove.features.bandwidth.harness import ProgramEstimator, estimates_of, score
from alcove.features.bandwidth.link import LinkModel
from alcove.features.bandwidth.observation import observations_of, statistics_of
from alcove.features.bandwidth.replay import random_paths, read_traces, record_segments
from alcove.features.bandwidth.sender import Sender, random_streams
from alcove.features.card_figures import replace_figures
from alcove.platform.cli.main import app_of
from alcove.runtime import InputError, Model, load
from alcove.runtime.certificate import check_certificate
from typer.testing import CliRunner

from tests.features.exported import assert_exported_again

VARIANTS = ("int8", "f32")
FOLDER = PROGRAMS.parent
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "bwe" / "bwe_traces.csv.xz"


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    """Both variants of the default version, loaded."""
    return {variant: load(program_path(DEFAULT_VERSION, variant)) for variant in VARIANTS}


@pytest.fixture(scope="module")
def observations() -> np.ndarray:
    """What three simulated calls show, f32 [3, 120, 150]."""
    return observations_of(make_recording(3, 120, 77).statistics)


@pytest.mark.parametrize("variant", VARIANTS)
def test_program_is_small_certified_and_remembers(variant: str, models: dict[str, Model]) -> None:
    """Int8 within 600 kB; a state for what the layer, the answer and its deviation remember."""
    model = models[variant]
    assert variant == "f32" or program_path(DEFAULT_VERSION).stat().st_size <= 600_000
    assert [port.shape for port in model.inputs] == [(1, 150)]
    assert [port.shape for port in model.outputs] == [(1, 1), (1, 1)]
    assert set(model.states) == {"hidden", "capacity", "spread"}
    report = check_certificate(model)
    assert report.samples >= 10
    assert report.licence == "procedural"
    model.verify_weights()


@pytest.mark.parametrize("variant", VARIANTS)
def test_committed_program_is_exported_again_to_the_same_bytes(variant: str) -> None:
    """The float32 program is the checkpoint of both."""
    pytest.importorskip("torch", reason="exporting needs torch: install alcove-platform[export]")
    from alcove.features.bandwidth.build import build

    assert_exported_again(bytes(build(DEFAULT_VERSION, variant)), program_path(DEFAULT_VERSION, variant).read_bytes())


def test_native_answers_equal_torch_over_a_call(models: dict[str, Model], observations: np.ndarray) -> None:
    """With the memory of 120 ticks: float32 to a thousandth, int8 within the certificate's tenth nearly always."""
    torch = pytest.importorskip("torch", reason="comparing needs torch: install alcove-platform[export]")
    from alcove.features.bandwidth.build import module_of_program
    from alcove.runtime.program import Program

    module = module_of_program(Program(program_path(DEFAULT_VERSION, "f32").read_bytes()), DEFAULT_VERSION)
    sessions = {variant: models[variant].session() for variant in VARIANTS}
    off: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for row in observations[0]:
        with torch.no_grad():
            expected = module(torch.from_numpy(row[None]))[0].item()
        for variant, session in sessions.items():
            off[variant].append(abs(session(row[None])[0].item() / expected - 1))
    assert max(off["f32"]) < 1e-3
    assert np.quantile(off["int8"], 0.95) < 0.1


@pytest.mark.parametrize("bad", [np.nan, -1.0, -np.inf, np.inf])
@pytest.mark.parametrize("place", [0, 37, 104, 149])
def test_observation_that_cannot_be_keeps_the_estimate_and_doubts_it(
    bad: float, place: int, models: dict[str, Model], observations: np.ndarray
) -> None:
    """NaN, negative, infinite: the estimate before, 5 % less certain each tick; then as if it had not been."""
    disturbed, calm = models["int8"].session(), models["int8"].session()
    for row in observations[1, :40]:
        before = disturbed(row[None])
        calm(row[None])
    wrong = observations[1, 40].copy()
    wrong[place] = bad
    for times in range(1, 4):
        capacity, std = disturbed(wrong[None])
        assert capacity == before[0]
        assert std == pytest.approx(before[1] * 1.05**times, rel=1e-4)
    for row in observations[1, 40:50]:
        np.testing.assert_array_equal(disturbed(row[None])[0], calm(row[None])[0])


def test_delay_below_its_base_is_no_bad_value(models: dict[str, Model], observations: np.ndarray) -> None:
    """The statistic "delay" leaves off 200 ms, so it alone is often negative."""
    assert observations[:, 50:, [known.name for known in STATISTICS].index("delay_ms") * 10].min() < 0
    session = models["int8"].session()
    answers = [session(row[None])[0].item() for row in observations[1, :60]]
    assert len(set(answers)) > 50


def test_missing_from_the_first_tick_is_an_answer_too(models: dict[str, Model]) -> None:
    """Nothing known: the start, with a deviation as large, which grows to five times as much."""
    session = models["int8"].session()
    answers = [Bandwidth().decode(session(MISSING)) for _ in range(400)]
    assert {answer.capacity_bps for answer in answers} == {500e3}
    assert answers[0].std_bps >= 500e3
    assert answers[-1].std_bps == pytest.approx(2.5e6)


def test_input_of_another_shape_is_a_typed_error(models: dict[str, Model]) -> None:
    """And the session continues."""
    session = models["int8"].session()
    with pytest.raises(InputError):
        session(np.zeros((1, 149), np.float32))
    assert session(MISSING)[0].item() == 500e3


def test_stream_counts_ticks_that_did_not_come_as_missing(models: dict[str, Model], observations: np.ndarray) -> None:
    """A pause of 0.5 s is eight missing ticks: nothing is forgotten, a bad observation after it is doubted for all."""
    stream, session = BandwidthStream(models["int8"]), models["int8"].session()
    for tick, row in enumerate(observations[2, :30]):
        stream.update(60.0 * tick, row)
        last = session(row[None])
    answer = stream.update(60.0 * 29 + 540.0, np.full(150, np.nan, np.float32))
    assert answer.capacity_bps == last[0].item()
    assert answer.std_bps == pytest.approx(last[1].item() * 1.05**9, rel=1e-3)


def test_stream_starts_again_after_a_pause_of_ten_seconds(models: dict[str, Model], observations: np.ndarray) -> None:
    """The path may be any other one: the answer is that of a new call."""
    stream = BandwidthStream(models["int8"])
    for tick, row in enumerate(observations[2, :30]):
        stream.update(60.0 * tick, row)
    later = stream.update(60.0 * 29 + 10_000.0, observations[0, 40])
    assert later == BandwidthStream(models["int8"]).update(0.0, observations[0, 40])


@pytest.mark.parametrize("time_ms", [0.0, -60.0, np.nan, np.inf])
def test_time_that_does_not_go_on_is_refused(
    time_ms: float, models: dict[str, Model], observations: np.ndarray
) -> None:
    """The clock stood, went back, or is none: an error, and the stream as it was."""
    stream, calm = BandwidthStream(models["int8"]), BandwidthStream(models["int8"])
    for one in (stream, calm):
        one.update(0.0, observations[0, 0])
    with pytest.raises(ValueError, match="time must be after the last one"):
        stream.update(time_ms, observations[0, 1])
    with pytest.raises(ValueError, match="has 150 values, not the shape"):
        stream.update(60.0, observations[0, 1, :10])
    assert stream.update(60.0, observations[0, 1]) == calm.update(60.0, observations[0, 1])


def test_command_answers_every_line_of_standard_input_with_one_line(observations: np.ndarray) -> None:
    """Good, empty, broken and wrong ones: the bad get an error or the estimate before, and the call continues."""
    good = [json.dumps([round(float(value), 3) for value in row]) for row in observations[0, :24]]
    numbers = json.loads(good[20])
    missing = [json.dumps([bad, *numbers[1:]]) for bad in (float("nan"), float("inf"), -5.0, None)]
    broken = ["", " ", "oops", "[1, 2", "[]", json.dumps(numbers[:149]), json.dumps([*numbers, 0.0]), '{"t_ms": 60}']
    lines = [*good[:20], *missing, *broken, *good[20:]]
    run = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "bandwidth", "--input", "-"], input="\n".join(lines) + "\n"
    )
    assert run.exit_code == 0
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert [answer["version"] for answer in answers] == [DEFAULT_VERSION] * len(lines)
    assert [answer["value"] is None for answer in answers] == [line in broken for line in lines]
    assert all(answer["error"]["message"] for answer in answers[24:32])
    before = answers[19]["value"]
    for times, answer in enumerate(answers[20:24], start=1):
        assert answer["value"]["capacity_bps"] == before["capacity_bps"]
        assert answer["value"]["std_bps"] == pytest.approx(before["std_bps"] * 1.05**times, rel=1e-4)
    calm = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "bandwidth", "--input", "-"], input="\n".join(good) + "\n"
    )
    assert [json.loads(line) for line in calm.stdout.splitlines()][20:] == answers[32:]


def test_estimate_is_nearer_than_every_baseline_on_made_up_calls(models: dict[str, Model]) -> None:
    """On calls that no training saw: a fifth less error and over-estimation than the best of them in each."""
    calls = make_recording(64, 200, 31_337)
    ours = score(estimates_of(lambda n: ProgramEstimator(models["int8"], n), calls.statistics), calls)
    theirs = [score(estimates_of(make, calls.statistics), calls) for make in BASELINES.values()]
    assert ours.relative_error < 0.8 * min(found.relative_error for found in theirs)
    assert ours.over_rate < 0.8 * min(found.over_rate for found in theirs)


@pytest.mark.thorough
@pytest.mark.skipif(not DATA.is_file(), reason=f"the recorded traces are not beside the checkout ({DATA})")
def test_error_on_recorded_traces_has_a_ceiling(models: dict[str, Model]) -> None:
    """Two sources that training never saw, a few segments of each."""
    segments = choose_segments(read_traces(DATA), "dev", 8)
    for source in ("norway-hsdpa", "oboe-conviva"):
        calls = record_segments(segments[source], 500, 3)
        ours = score(estimates_of(lambda n: ProgramEstimator(models["int8"], n), calls.statistics), calls)
        assert ours.relative_error < 0.25, source
        assert ours.over_rate < 0.25, source


def test_card_shows_what_was_measured_of_this_very_program() -> None:
    """The card's figures are those of evaluation.json, measured on the committed bytes, and they hold the goal."""
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))["result"]
    assert result["digest"] == hashlib.sha256(program_path(DEFAULT_VERSION).read_bytes()).hexdigest()
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(result)) == card
    ours, *theirs = mean_of_sources(result).values()
    for figure, in_the_mean, of_each in (("relative_error", 0.7, 0.86), ("over_rate", 0.7, 0.87)):
        assert ours[figure] <= in_the_mean * min(baseline[figure] for baseline in theirs)
        for source, (own, *baselines) in ((name, found.values()) for name, found in result["sources"].items()):
            assert own[figure] <= of_each * min(baseline[figure] for baseline in baselines), source
    assert result["program"]["int8"]["tick_us"] <= 15
    certain = list(result["certainty"].values())
    assert all(0.63 <= found["within_1"] <= 0.73 for found in certain)
    assert np.mean([found["within_2"] for found in certain]) >= 0.9
    mmwave = result["mmwave"]["GCC-like"]
    assert mmwave["calls"] >= 20
    assert mmwave["freezes_per_minute_ratio"][0] < 1
    assert mmwave["bitrate_bps_ratio"][0] >= 1
    assert mmwave["queue_p95_ms_ratio"][0] <= 1.2
    assert len(result["seeds"]) == 3
    for steps in result["steps"].values():
        assert steps["bandwidth"]["median_s"] <= 1.0
        assert steps["bandwidth"]["curve_s"] <= 1.0
        assert steps["bandwidth"]["within_1_s"] >= 0.6
    assert {"step_2.svg", "step_0_5.svg"} <= {path.name for path in FOLDER.iterdir()}
    assert (FOLDER / "certainty.svg").read_text(encoding="utf-8") == certainty_picture(result)


def test_any_file_of_traces_is_scored_with_all_baselines(tmp_path: Path) -> None:
    """A file without a split, one source, one capacity: figures by source and steps that can be printed."""
    lines = [f"mine,one,{t * 1000},{1500 + 700 * (t // 5 % 2)}" for t in range(13)]
    (tmp_path / "t.csv").write_text("\n".join(["source,trace_id,t_ms,capacity_kbps", *lines]) + "\n")
    result, curves = evaluate(tmp_path / "t.csv", split="dev", most=4, step_calls=2, calls=0)
    assert set(result["sources"]["mine"]) == {"bandwidth", *BASELINES}
    assert result["sources"]["mine"]["bandwidth"]["ticks"] == 200 - 17
    assert set(curves) == {"2", "0.5"}
    assert "| mine | **bandwidth** |" in figures(result)
    (tmp_path / "short.csv").write_text("source,trace_id,t_ms,capacity_kbps\na,b,0,1\na,b,1000,1\n")
    with pytest.raises(ValueError, match="no trace of 9 s or more"):
        evaluate(tmp_path / "short.csv", split="dev", most=4, step_calls=0, calls=0)


def test_observation_of_a_running_call_is_that_of_its_recording() -> None:
    """What the app computes tick by tick from what it counted, against the whole at the end."""
    paths = random_paths(make_capacities(3, 90, np.random.default_rng(8)), 8)
    link, sender = LinkModel(paths, 8), Sender(random_streams(3, np.random.default_rng(8)), 9)
    live = []
    for tick in range(90):
        link.step(sender.packets(tick, np.full(3, 5e5)))
        live.append(latest_observation(link.received, tick))
    np.testing.assert_allclose(
        np.stack(live, axis=1), observations_of(statistics_of(link.received)), rtol=1e-3, atol=0.02
    )


def test_stream_says_what_to_send_and_when_to_probe(models: dict[str, Model], observations: np.ndarray) -> None:
    """No more than the capacity; a probe at the beginning for an app that says what it wants, none for others."""
    stream, quiet = BandwidthStream(models["int8"]), BandwidthStream(models["int8"])
    answers = [stream.update(60.0 * tick, row, 6e6) for tick, row in enumerate(observations[0])]
    others = [quiet.update(60.0 * tick, row) for tick, row in enumerate(observations[0])]
    assert all(answer.target_bps <= max(answer.capacity_bps, 1e4) for answer in answers)
    assert answers[0].probe_bps > 0
    assert all(answer.probe_bps == 0 for answer in others)
    assert [answer.target_bps for answer in answers] == [answer.target_bps for answer in others]
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match="the wanted rate must be 0 bit/s or more"):
            stream.update(1e6, observations[0, 0], wrong)


@pytest.mark.thorough
def test_calls_that_follow_the_estimate_have_an_experience(models: dict[str, Model]) -> None:
    """Over a good link nobody freezes, and the feature's call has a picture worth the name."""
    found = compare(recorded_paths([np.full(CALL_TICKS, 4e6)] * 4), 3, models["int8"])
    assert {"bandwidth", *BASELINES} < set(found)
    ours = found["bandwidth"]
    assert 1e6 < ours.bitrate_bps.mean() < 4.2e6
    assert ours.frozen_share.mean() < 0.1
    assert 0 <= ours.queue_p95_ms.mean() < 1000
