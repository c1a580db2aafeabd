"""The committed feed_ranking programs: size, re-export to the same bytes, answers, deltas and model card figures."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.features.feed_ranking import Adapter, FeedAnswer, FeedRanking, FeedRequest, ItemDelta
from alcove.features.feed_ranking.card import (
    FLOAT,
    KNN,
    KNN_MARGIN,
    NETWORK,
    OURS,
    goal,
    picture,
    verdict,
    write,
)
from alcove.features.feed_ranking.config import DEFAULT_VERSION
from alcove.features.feed_ranking.contract import PROGRAMS, program_path
from alcove.features.feed_ranking.delta import delta_bytes
from alcove.features.feed_ranking.request import Weights
from alcove.platform.cli.main import app_of
from alcove.runtime import Model, load
from alcove.runtime.certificate import check_certificate
from typer.testing import CliRunner

from tests.features.exported import assert_exported_again
from tests.selection import quick_among

VARIANTS = ("int8", "f32")
FOLDER = PROGRAMS.parent
ITEMS = 9724
PLAIN = Weights(recency=0.0, freshness=0.0, diversity=0.0)


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    """Both variants of the default version, loaded."""
    return {variant: load(program_path(DEFAULT_VERSION, variant)) for variant in VARIANTS}


def ask(model: Model, history: list[int], candidates: list[int], **more: Any) -> FeedAnswer:
    """The typed answer of a request."""
    feature = FeedRanking()
    request = FeedRequest(**{"history": history, "candidates": candidates, "weights": PLAIN, **more})
    return feature.decode(model(*feature.inputs(request)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_program_is_small_and_certified(variant: str, models: dict[str, Model]) -> None:
    """Int8 within 2 MB with its table; up to 1,000 candidates and 4,096 added items."""
    model = models[variant]
    assert variant == "f32" or program_path(DEFAULT_VERSION).stat().st_size <= 2_000_000
    assert [port.dims for port in model.inputs[:3]] == [("1", "50"), ("1", "1..1000"), ("1..4096", "65")]
    report = check_certificate(model)
    assert report.samples >= 8
    assert report.licence == "procedural"
    model.verify_weights()


@pytest.mark.parametrize("variant", quick_among(VARIANTS, ["int8"]))
def test_committed_program_is_exported_again_to_the_same_bytes(variant: str) -> None:
    """The int8 program is the checkpoint of both."""
    pytest.importorskip("torch", reason="exporting needs torch: install alcove-platform[export]")
    from alcove.features.feed_ranking.build import build

    assert_exported_again(bytes(build(DEFAULT_VERSION, variant)), program_path(DEFAULT_VERSION, variant).read_bytes())


def test_native_answers_equal_torch(models: dict[str, Model]) -> None:
    """Scores, user vectors and rows of drawn requests, both variants, within the certificate's thousandth."""
    torch = pytest.importorskip("torch", reason="comparing needs torch: install alcove-platform[export]")
    from alcove.features.feed_ranking.build import module_of_program
    from alcove.features.feed_ranking.config import CONFIGS
    from alcove.runtime.program import Program

    module = module_of_program(Program(program_path(DEFAULT_VERSION).read_bytes()), CONFIGS[DEFAULT_VERSION])
    rng = np.random.default_rng(4)
    for length in (0, 1, 5, 50):
        history, candidates = rng.integers(1, ITEMS + 9, length).tolist(), rng.integers(1, ITEMS + 9, 300).tolist()
        inputs = FeedRanking().inputs(FeedRequest(history=history, candidates=candidates))
        with torch.no_grad():
            expected = module(*map(torch.from_numpy, inputs))
        for model in models.values():
            for native, eager in zip(model(*inputs), expected, strict=True):
                np.testing.assert_allclose(native, eager.numpy(), rtol=1e-3, atol=1e-3)


def test_order_hangs_on_the_history_and_on_its_order(models: dict[str, Model]) -> None:
    """Another history, another order of the same: other scores. The same again: the same answer."""
    candidates = list(range(500, 900))
    answers = [ask(models["int8"], history, candidates) for history in ([1, 2, 3], [3, 2, 1], [2001, 2002, 2003])]
    assert len({answer.ranked for answer in answers}) == 3
    assert ask(models["int8"], [1, 2, 3], candidates) == answers[0]


def test_without_a_history_popular_items_come_first(models: dict[str, Model]) -> None:
    """A cold start, for unknown items too; candidates given in another order are ranked alike."""
    cold = ask(models["int8"], [], list(range(1, 1001)), limit=1000)
    assert cold.is_cold_start
    assert all(entry.because == () for entry in cold.ranked)
    assert ask(models["int8"], [ITEMS + 50, 2**31 - 1], list(range(1, 1001)), limit=1000).ranked == cold.ranked
    turned = ask(models["int8"], [], list(range(1000, 0, -1)), limit=1000)
    assert [entry.item for entry in turned.ranked[:50]] == [entry.item for entry in cold.ranked[:50]]
    assert not ask(models["int8"], [1], [2]).is_cold_start


def test_reason_is_what_the_score_loses_without_that_item(models: dict[str, Model]) -> None:
    """The last item of the history, left out for real."""
    history = [1, 50, 260]
    answer = ask(models["f32"], history, [1196, 1210, 2571, 480, 589])
    found = [
        (entry.relevance, reason.effect, entry.item)
        for entry in answer.ranked
        for reason in entry.because
        if reason.item == 260
    ]
    assert found
    without = {
        entry.item: entry.relevance for entry in ask(models["f32"], history[:-1], [1196, 1210, 2571, 480, 589]).ranked
    }
    for relevance, effect, item in found:
        assert relevance - without[item] == pytest.approx(effect, abs=2e-3)


def test_delta_adds_items_without_another_program(models: dict[str, Model]) -> None:
    """A copy of an item's row under a new id is ranked beside it; the delta of another program is refused."""
    model, feature = models["int8"], FeedRanking()
    row = model(*feature.inputs(FeedRequest(history=[], candidates=[100])))[2][0]
    data = delta_bytes(np.vstack([row, -row]), program=model.digest, first_id=ITEMS + 1)
    delta = ItemDelta.read(data, program=model.digest, dim=feature.dim, first_id=ITEMS + 1)
    request = FeedRequest(history=[1, 2], candidates=[100, ITEMS + 1, ITEMS + 2, ITEMS + 3])
    answer = feature.decode(model(*feature.inputs(request, delta=delta)))
    relevance = {entry.item: entry.relevance for entry in answer.ranked}
    assert relevance[ITEMS + 1] == pytest.approx(relevance[100], abs=1e-3)
    assert answer.unknown == (ITEMS + 3,)
    assert feature.decode(model(*feature.inputs(request))).unknown == (ITEMS + 1, ITEMS + 2, ITEMS + 3)
    with pytest.raises(ValueError, match="program is"):
        ItemDelta.read(data, program=models["f32"].digest, dim=feature.dim, first_id=ITEMS + 1)


def test_rows_of_new_items_are_made_of_their_attributes(models: dict[str, Model]) -> None:
    """Of the committed vectors of genres: other genres, other rows, and all of a size that the program knows."""
    pytest.importorskip("torch", reason="the module needs torch: install alcove-platform[export]")
    from alcove.features.feed_ranking.attributes import rows_of_attributes
    from alcove.features.feed_ranking.build import attributes_path

    document = json.loads(attributes_path(DEFAULT_VERSION).read_text(encoding="utf-8"))
    rows = rows_of_attributes(document, [[1], [2], [1, 2], []])
    assert rows.shape == (4, FeedRanking.dim + 1)
    assert len(np.unique(rows, axis=0)) == 4
    known = models["int8"](*FeedRanking().inputs(FeedRequest(history=[], candidates=list(range(1, 1001)))))[2][0]
    assert np.linalg.norm(rows, axis=1).max() < 3 * np.linalg.norm(known, axis=1).max()


def test_adapter_learns_from_answers_and_forgets(models: dict[str, Model]) -> None:
    """What is taken again and again rises; after a reset the order is the first one."""
    model, feature, adapter = models["int8"], FeedRanking(), Adapter(FeedRanking.dim)
    request = FeedRequest(history=[1, 2, 3], candidates=list(range(100, 160)), weights=PLAIN)

    def place_of(item: int) -> int:
        answer = feature.decode(model(*feature.inputs(replace(request, limit=60), adapter=adapter)))
        return [entry.item for entry in answer.ranked].index(item)

    first = [place_of(item) for item in range(100, 160)]
    chosen_item = 100 + first.index(30)
    for _ in range(20):
        adapter.learn(model(*feature.inputs(request, adapter=adapter)), chosen_item)
    assert place_of(chosen_item) < 30
    adapter.reset()
    assert [place_of(item) for item in range(100, 160)] == first


def test_command_answers_every_line_with_one_line() -> None:
    """Good, empty, broken and wrong ones; an answer of each good one holds ids, scores and reasons."""
    good = '{"history": [1, 2, 3], "candidates": [10, 20, 30, 10]}'
    broken = ["", "oops", "[]", '{"history": [1]}', '{"history": [], "candidates": []}']
    broken.append(json.dumps({"history": [], "candidates": list(range(1, 10_001))}))
    lines = [good, *broken, good]
    run = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "feed_ranking", "--input", "-"], input="\n".join(lines) + "\n"
    )
    assert run.exit_code == 0
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert [answer["value"] is None for answer in answers] == [line in broken for line in lines]
    assert all(answer["error"]["message"] for answer in answers[1:-1])
    assert answers[0] == answers[-1]
    assert sorted(entry["item"] for entry in answers[0]["value"]["ranked"]) == [10, 20, 30]


def test_card_shows_what_was_measured_of_this_very_program() -> None:
    """The card's figures are those of evaluation.json: three seeds, item-kNN beaten by three points, and the goals."""
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))["result"]
    assert result["digest"] == hashlib.sha256(program_path(DEFAULT_VERSION).read_bytes()).hexdigest()
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert write(card, result) == card
    assert (FOLDER / "ranking.svg").read_text(encoding="utf-8") == picture(result)
    assert result["programs"]["1,000 candidates, median (µs)"] <= 500
    for name, found in result["sets"].items():
        scores, seeds = found["scores"], found["seeds"][NETWORK]
        assert found["program_bytes"] <= 2_000_000, name
        assert len(seeds) == 3, name
        assert min(seed["hit_rate"] for seed in seeds) >= scores[KNN]["hit_rate"] + KNN_MARGIN, name
        assert scores[OURS]["gain"] > max(scores[other]["gain"] for other in (KNN, "popularity")), name
        assert abs(scores[OURS]["gain"] - scores[FLOAT]["gain"]) < 0.01, name
    assert {name for name in result["sets"] if goal(name)} == {"beauty", "toys", "lastfm", "games"}
    assert set(result["newcomers"]) == set(result["sets"])


def test_verdict_says_what_is_met_missed_or_within_the_spread() -> None:
    """Of three seeds; of one alone nothing is said about a spread."""
    assert verdict([0.60, 0.61, 0.62], 0.58) == "met by 0.030"
    assert verdict([0.58, 0.60, 0.62], 0.59) == "met by 0.010, less than the spread"
    assert verdict([0.58, 0.60, 0.62], 0.61) == "missed by 0.010"
    assert verdict([0.6], 0.58) == "met by 0.020"
