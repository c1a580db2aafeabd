"""Training of feed_ranking learns a known order, resumes bit for bit, and exports programs that match the network."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress

torch = pytest.importorskip("torch", reason="training needs torch: install alcove-platform[export]")

from alcove.features import card_figures  # noqa: E402 (after the check for torch)
from alcove.features.feed_ranking.attributes import attributes_of_network, rows_of_attributes  # noqa: E402
from alcove.features.feed_ranking.baselines import Fpmc, Gru4Rec  # noqa: E402
from alcove.features.feed_ranking.build import compile_module, module_of_network  # noqa: E402
from alcove.features.feed_ranking.card import FLOAT, OURS, figures, picture  # noqa: E402
from alcove.features.feed_ranking.config import HISTORY, ModelConfig  # noqa: E402
from alcove.features.feed_ranking.dataset import Lines, Questions, questions_of_last, table_ids  # noqa: E402
from alcove.features.feed_ranking.evaluate import evaluate, main, program_scores  # noqa: E402
from alcove.features.feed_ranking.harness import counts_of, popularity, score_of  # noqa: E402
from alcove.features.feed_ranking.network import FeedRankingNetwork  # noqa: E402
from alcove.features.feed_ranking.runs import Task  # noqa: E402
from alcove.features.feed_ranking.scoring import scores_of  # noqa: E402
from alcove.features.feed_ranking.train import Training, TrainingPlan, batches, loss_of  # noqa: E402
from alcove.runtime import load  # noqa: E402

CONFIG = ModelConfig("test", dim=16, heads=2, hidden=16)
PLAN = TrainingPlan(
    epochs=12, batch_items=200, drawn=40, learning_rate=1e-2, warmup_steps=5, dropout=0.1, weight_decay=0, ahead=0.2
)
ROWS = 81
"""Eight rings of ten items: after each comes the next of its ring."""
ATTRIBUTES = {row: [(row - 1) // 10] for row in range(1, ROWS)}


@pytest.fixture(scope="module")
def lines() -> Lines:
    """People who walk along a ring."""
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(300):
        ring, begin, length = int(rng.integers(8)), int(rng.integers(10)), int(rng.integers(4, 9))
        rows.append(1 + 10 * ring + (begin + np.arange(length)) % 10)
    return Lines(tuple(map(str, range(300))), tuple(rows))


def make(lines: Lines) -> Any:
    """An untrained network."""
    return FeedRankingNetwork(CONFIG, counts_of(lines, ROWS), ATTRIBUTES, 0.1)


@pytest.fixture(scope="module")
def trained_network(lines: Lines, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A network that learned all but the last items."""
    known = lines.without_last()
    training = Training(lambda: make(known), known, ROWS, plan=PLAN, folder=tmp_path_factory.mktemp("run"))
    with Progress(disable=True) as progress:
        training.run(progress)
    return training.best


@pytest.fixture(scope="module")
def questions(lines: Lines) -> Questions:
    """About the last items."""
    return questions_of_last(lines, 50, 1)


def test_training_finds_what_comes_next(trained_network: Any, lines: Lines, questions: Questions) -> None:
    """The next on the ring is first of 51 nearly always; popularity knows nothing of it."""
    found = score_of(scores_of(trained_network, questions))
    assert found.hit_rate > 0.95
    assert found.first_rate > 0.7
    assert score_of(popularity(lines.without_last(), ROWS)(questions)).hit_rate < 0.5


@pytest.mark.parametrize("name", ["GRU4Rec", "FPMC"])
def test_baselines_that_are_trained_learn_it_too(name: str, lines: Lines, questions: Questions, tmp_path: Path) -> None:
    """The baselines learn: the next item of a ring follows from the last item alone."""
    known = lines.without_last()
    counts = counts_of(known, ROWS)
    makers = {"GRU4Rec": lambda: Gru4Rec(counts, 16, 0.1), "FPMC": lambda: Fpmc(counts, 300, 16, 0.1)}
    training = Training(makers[name], known, ROWS, plan=replace(PLAN, epochs=25), folder=tmp_path)
    with Progress(disable=True) as progress:
        training.run(progress)
    assert score_of(scores_of(training.best, questions)).hit_rate > 0.9


def test_run_that_was_cut_off_ends_with_the_same_weights(lines: Lines, tmp_path: Path) -> None:
    """Once in a piece, once stopped after each of three epochs; with the check that says when to stop."""
    plan = replace(PLAN, epochs=3)
    known = lines.without_last()
    asked = questions_of_last(lines, 20, 1)

    def run(folder: Path, until: int) -> Training:
        training = Training(lambda: make(known), known, ROWS, plan=plan, folder=folder, asked=asked)
        with Progress(disable=True) as progress:
            training.run(progress, until=until)
        return training

    whole = run(tmp_path / "whole", 3)
    for epoch in (1, 2, 3):
        pieces = run(tmp_path / "pieces", epoch)
    assert pieces.best_epoch == whole.best_epoch
    for name, value in whole.kept.state_dict().items():
        assert torch.equal(value, pieces.kept.state_dict()[name]), name
    loss = [check["loss"] for check in whole.checks]
    assert loss == [check["loss"] for check in pieces.checks]
    assert loss[-1] < loss[0]


def test_training_stops_when_the_gain_has_fallen(lines: Lines, tmp_path: Path) -> None:
    """With a learning rate that ruins what was learned, long before the last epoch; the best stays."""
    known = lines.without_last()
    plan = replace(PLAN, epochs=40, learning_rate=3.0, patience=2)
    training = Training(
        lambda: make(known), known, ROWS, plan=plan, folder=tmp_path, asked=questions_of_last(lines, 20, 1)
    )
    with Progress(disable=True) as progress:
        training.run(progress)
    assert training.epoch == training.best_epoch + 2 < 40


def test_epoch_holds_every_item_of_every_line_once_as_a_target() -> None:
    """Short lines whole, long ones in pieces whose ends meet."""
    rng = np.random.default_rng(1)
    rows = tuple(rng.permutation(np.arange(1, 400))[:size] for size in (1, 2, 7, 50, 51, 52, 120, 333))
    given = Lines(tuple(map(str, range(len(rows)))), rows)
    for seed in range(5):
        seen: dict[int, list[int]] = {user: [] for user in range(len(rows))}
        for users, padded in batches(given, PLAN, np.random.default_rng(seed)):
            assert padded.shape[1] <= HISTORY + 1
            for user, row in zip(users, padded, strict=True):
                seen[int(user)] += row[row > 0].tolist()
        for user, row in enumerate(rows):
            assert set(seen[user]) == set(row.tolist())
            assert len(seen[user]) <= len(row) + 1 + len(row) // HISTORY


def test_loss_is_the_softmax_of_the_next_item_among_those_drawn(lines: Lines) -> None:
    """By hand for one place; a draw that is the target counts once."""
    torch.manual_seed(1)
    network = make(lines).eval()
    state, target, drawn = torch.randn(1, 1, 16), torch.tensor([[4]]), torch.tensor([9, 4, 30])
    table = network.items.fold()
    scores = table[[4, 9, 30], :-1] @ state[0, 0] + table[[4, 9, 30], -1]
    expected = torch.logsumexp(scores, 0) - scores[0]
    assert loss_of(state, target, drawn, network).item() == pytest.approx(expected.item(), rel=1e-5)


def test_loss_ahead_adds_the_items_behind_the_next_one(lines: Lines) -> None:
    """By hand for a line of three, beside one of one: each later item has its share, as many as there are."""
    torch.manual_seed(1)
    network = make(lines).eval()
    states, drawn = torch.randn(2, 3, 16), torch.tensor([9, 30])
    rows = torch.tensor([[4, 5, 6], [7, 0, 0]])
    table = network.items.fold()

    def cost(state: Any, target: int) -> Any:
        scores = table[[target, 9, 30], :-1] @ state + table[[target, 9, 30], -1]
        return torch.logsumexp(scores, 0) - scores[0]

    following = cost(states[0, 0], 4) + cost(states[0, 1], 5) + cost(states[0, 2], 6) + cost(states[1, 0], 7)
    later = 0.5 * (cost(states[0, 0], 5) + cost(states[0, 1], 6)) + 0.25 * cost(states[0, 0], 6)
    found = loss_of(states, rows, drawn, network, 0.5)
    assert found.item() == pytest.approx(((following + later) / 4).item(), rel=1e-5)


def test_items_share_the_vectors_of_their_attributes() -> None:
    """Own part plus the sum over the root of their number; without attributes the own part alone."""
    torch.manual_seed(2)
    network = FeedRankingNetwork(CONFIG, np.ones(4), {1: [0, 2], 3: [1]}, 0.0)
    own, shared = network.items.own, network.items.shared
    table = network.items.fold()
    torch.testing.assert_close(table[1], own[1] + (shared[0] + shared[2]) / 2**0.5)
    torch.testing.assert_close(table[2], own[2])
    torch.testing.assert_close(table[3], own[3] + shared[1])
    assert not table[0].any()
    rows = rows_of_attributes(attributes_of_network(network), [[0, 2], [0], []])
    base = rows[2]
    np.testing.assert_allclose(rows[1] - base, shared[0].detach(), atol=1e-4)
    with pytest.raises(ValueError, match="attributes are 0 to 2"):
        rows_of_attributes(attributes_of_network(network), [[3]])


def inputs_for(history: list[int], candidates: list[int], **more: np.ndarray) -> tuple[np.ndarray, ...]:
    """Inputs of a program of `CONFIG`."""
    ids = np.zeros((1, HISTORY), np.int64)
    ids[0, : len(history)] = history
    return (
        ids,
        np.array([candidates], np.int64),
        more.get("added", np.zeros((1, 17), np.float32)),
        more.get("offset", np.zeros((1, 16), np.float32)),
        np.full((1, len(candidates), 2), -1, np.float32),
        np.zeros((1, 4), np.float32),
    )


@pytest.fixture(scope="module")
def programs(trained_network: Any) -> dict[str, Any]:
    """Both variants of it, loaded, and the module."""
    module = module_of_network(trained_network, CONFIG)
    return {variant: load(bytes(compile_module(module, variant))) for variant in ("f32", "int8")} | {"module": module}


def test_program_gives_the_scores_of_the_network(
    programs: dict[str, Any], trained_network: Any, questions: Questions
) -> None:
    """float32 to a thousandth; int8 orders as well."""
    expected = scores_of(trained_network, questions)
    np.testing.assert_allclose(program_scores(programs["f32"], questions), expected, rtol=1e-3, atol=1e-3)
    whole = score_of(program_scores(programs["int8"], questions))
    assert abs(whole.gain - score_of(expected).gain) < 0.02


@pytest.mark.parametrize("length", [0, 1, 2, 17, 49, 50])
def test_program_reads_histories_of_every_length(length: int, programs: dict[str, Any], trained_network: Any) -> None:
    """Compared with the network that was trained, which knows no padding."""
    history = np.random.default_rng(length).integers(1, ROWS, length)
    asked = Questions(np.array([0]), (history,), np.arange(1, 20)[None])
    np.testing.assert_allclose(
        program_scores(programs["f32"], asked), scores_of(trained_network, asked), rtol=1e-3, atol=1e-3
    )


def test_unknown_items_of_a_history_are_as_if_they_had_not_been(programs: dict[str, Any]) -> None:
    """Wherever they stand, negative ids and huge ones too."""
    model = programs["int8"]
    clean = model(*inputs_for([3, 4, 5], [6, 7, 40]))
    dirty = model(*inputs_for([900, 3, 0, 4, 10**12, 5, -7, ROWS], [6, 7, 40]))
    np.testing.assert_allclose(dirty[0], clean[0], atol=1e-5)
    assert dirty[3][0, :8].tolist() == [0, 1, 0, 1, 0, 1, 0, 0]
    cold = model(*inputs_for([900, 901], [6, 7, 40]))
    np.testing.assert_allclose(cold[0], model(*inputs_for([], [6, 7, 40]))[0], atol=1e-5)
    assert not cold[3].any()


def test_vector_without_an_item_is_that_of_the_network_without_it(programs: dict[str, Any]) -> None:
    """The last item left out: as if the history ended before it, exactly. One that is unknown: nothing changes."""
    model = programs["f32"]
    users = model(*inputs_for([3, 14, 25, 900], [6]))[1][0]
    np.testing.assert_allclose(users[3], model(*inputs_for([3, 14], [6]))[1][0, 0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(users[4], users[0], atol=1e-5)
    assert np.abs(users[1] - users[0]).max() > 1e-3
    alone = model(*inputs_for([3], [6]))[1][0]
    np.testing.assert_allclose(alone[1], model(*inputs_for([], [6]))[1][0, 0], rtol=1e-3, atol=1e-4)


def test_added_row_ranks_as_the_item_that_it_copies(programs: dict[str, Any]) -> None:
    """As a candidate and in the history; without its delta the same id is unknown."""
    model = programs["int8"]
    rows = model(*inputs_for([], list(range(1, ROWS))))[2][0]
    added = rows[[3, 4]]  # items 4 and 5
    plain = model(*inputs_for([3, 4], [5, 40]))
    moved = model(*inputs_for([3, ROWS], [ROWS + 1, 40], added=added))
    np.testing.assert_allclose(moved[0], plain[0], atol=1e-4)
    without = model(*inputs_for([3, ROWS], [ROWS + 1, 40]))
    assert not without[2][0, 0].any()
    assert without[3][0, :2].tolist() == [1, 0]
    beyond = model(*inputs_for([3], [ROWS + 2, -1, 0], added=added))
    assert not beyond[2].any()


def test_offset_moves_the_user_vector_and_nothing_else(programs: dict[str, Any]) -> None:
    """Scores rise by its product with the item's vector."""
    model = programs["f32"]
    offset = np.linspace(-1, 1, 16, dtype=np.float32)[None]
    plain, moved = model(*inputs_for([3], [5, 40])), model(*inputs_for([3], [5, 40], offset=offset))
    np.testing.assert_allclose(moved[0] - plain[0], plain[2][..., :-1] @ offset[0], atol=1e-3)
    np.testing.assert_allclose(moved[1] - plain[1], np.broadcast_to(offset, (1, 51, 16)), atol=1e-4)


@pytest.mark.thorough
def test_any_set_is_scored_with_every_baseline(lines: Lines, questions: Questions, tmp_path: Path) -> None:
    """Ids of any size, a question from nobody: figures that can be printed and drawn."""
    named = Lines(lines.users, tuple(1000 * items for items in lines.without_last().items))
    asked = Questions(
        np.array([*questions.rows[:60], -1]),
        (*(1000 * history for history in questions.histories[:60]), np.zeros(0, np.int64)),
        1000 * questions.candidates[:61],
    )
    attributes = {1000 * row: values for row, values in ATTRIBUTES.items()}
    plan = replace(PLAN, epochs=10)
    task = Task(named, asked, attributes, table_ids(named, [asked.candidates.ravel()], attributes))
    with Progress(disable=True) as progress:
        found = evaluate(task, tmp_path, progress, config=CONFIG, plan=plan, seeds=[1, 2])
    assert list(found["scores"]) == [OURS, FLOAT, "item-kNN", "popularity", "GRU4Rec", "FPMC"]
    assert [len(given) for given in found["seeds"].values()] == [2, 1, 1]
    assert found["scores"][OURS]["questions"] == 61
    assert found["scores"][OURS]["hit_rate"] > 0.8
    assert found["scores"]["popularity"]["hit_rate"] < 0.5
    result = {"version": "test", "sets": {"rings": found}}
    assert "| **feed_ranking, int8** |" in figures(result)
    assert picture(result).count("<rect") == 7


@pytest.mark.thorough
def test_command_scores_files_with_and_without_a_test(
    lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user a line, a question a line; without one the last items are asked; a card keeps other sets."""
    given = "\n".join(f"u{user} " + " ".join(map(str, row)) for user, row in zip(lines.users, lines.items, strict=True))
    for name in ("rings", "more"):
        (tmp_path / f"{name}.train.txt").write_text(given)
    (tmp_path / "rings.test.txt").write_text("u0\t5\t" + " ".join(map(str, range(20, 40))) + "\nwho\t6\t" + "7 " * 20)
    goals = f"{card_figures.BEGIN}\n{card_figures.END}".replace("figures", "goals")
    (tmp_path / "CARD.md").write_text(f"# Rings\n\n{goals}\n{card_figures.BEGIN}\n{card_figures.END}\n")

    def run(*arguments: str, name: str = "rings") -> dict[str, Any]:
        common = ["--train", f"{tmp_path}/{name}.train.txt", "--epochs", "1", "--json", f"{tmp_path}/found.json"]
        monkeypatch.setattr("sys.argv", ["evaluate", *common, "--baselines", *arguments])
        main()
        found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())["result"]["sets"][name]
        return found

    found = run("--test", f"{tmp_path}/rings.test.txt")
    assert (found["questions"], found["negatives"]) == (2, 20)
    assert found["interactions"] == sum(len(row) for row in lines.items) - 300
    found = run("FPMC", "--negatives", "30", "--write", f"{tmp_path}/CARD.md")
    assert (found["questions"], found["negatives"]) == (300, 30)
    assert found["interactions"] == sum(len(row) for row in lines.items) - 600
    assert "FPMC" in found["scores"]
    run("--negatives", "30", "--write", f"{tmp_path}/CARD.md", name="more")
    assert "| FPMC |" in (tmp_path / "CARD.md").read_text()
    assert "### more" in (tmp_path / "CARD.md").read_text()
    assert (tmp_path / "ranking.svg").read_text().startswith("<svg")
    assert "### rings" in capsys.readouterr().out
