"""One protocol for all models: the item before the question says when training stops, and is learned from by none."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress

torch = pytest.importorskip("torch", reason="training needs torch: install alcove-platform[export]")

from alcove.features.feed_ranking import train as train_module  # noqa: E402 (after the check for torch)
from alcove.features.feed_ranking.config import ModelConfig  # noqa: E402
from alcove.features.feed_ranking.dataset import Lines  # noqa: E402
from alcove.features.feed_ranking.evaluate import evaluate  # noqa: E402
from alcove.features.feed_ranking.harness import item_knn, popularity  # noqa: E402
from alcove.features.feed_ranking.runs import NETWORKS, OURS, network_of_run, run, task_of  # noqa: E402
from alcove.features.feed_ranking.train import TrainingPlan  # noqa: E402

CONFIG = ModelConfig("test", dim=16, heads=2, hidden=16)
PLAN = TrainingPlan(epochs=2, batch_items=200, drawn=40, learning_rate=1e-2, warmup_steps=5)
USERS = 60
VALIDATION, QUESTION = 1000, 2000
"""Added to a user's number: the item before the question, and the question's, which nobody else touches."""


@pytest.fixture
def lines() -> Lines:
    """Five items of 40, then the two of each user's own."""
    rng = np.random.default_rng(2)
    rows = [
        np.array([*rng.permutation(np.arange(1, 41))[:5], VALIDATION + user, QUESTION + user]) for user in range(USERS)
    ]
    return Lines(tuple(map(str, range(USERS))), tuple(rows))


def test_history_that_is_asked_with_ends_with_the_validation_item(lines: Lines) -> None:
    """The lines to learn from end with it too: training keeps it back itself."""
    task = task_of(lines, None, {}, 30)
    assert [int(history[-1]) for history in task.questions.histories] == [VALIDATION + user for user in range(USERS)]
    assert task.questions.candidates[:, 0].tolist() == [QUESTION + user for user in range(USERS)]
    assert [int(items[-1]) for items in task.lines.items] == [VALIDATION + user for user in range(USERS)]


@pytest.mark.parametrize("name", [OURS, *NETWORKS])
def test_no_network_learns_from_validation_items_or_questions(
    name: str, lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch of training holds one; each row that a batch holds is one of the forty items before."""
    seen: set[int] = set()
    batches = train_module.batches

    def watch_batches(*given: Any) -> Iterator[Any]:
        for users, rows in batches(*given):
            seen.update(rows.ravel().tolist())
            yield users, rows

    monkeypatch.setattr(train_module, "batches", watch_batches)
    with Progress(disable=True) as progress:
        run(name, task_of(lines, None, {}, 30), tmp_path, progress, config=CONFIG, plan=PLAN)
    assert seen == set(range(1, 41))


@pytest.mark.thorough
def test_baselines_without_training_are_given_the_same(
    lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """item-kNN and popularity are made of the lines without validation items."""
    given: dict[str, set[int]] = {}

    def watch(name: str, baseline: Any) -> Any:
        def make_baseline(known: Lines, rows: int) -> Any:
            given[name] = set(np.concatenate(known.items).tolist())
            return baseline(known, rows)

        return make_baseline

    for name, baseline in (("item_knn", item_knn), ("popularity", popularity)):
        monkeypatch.setattr(f"alcove.features.feed_ranking.evaluate.{name}", watch(name, baseline))
    with Progress(disable=True) as progress:
        found = evaluate(
            task_of(lines, None, {}, 30), tmp_path, progress, config=CONFIG, plan=PLAN, networks=[], seeds=[1]
        )
    assert given == {"item_knn": set(range(1, 41)), "popularity": set(range(1, 41))}
    assert found["interactions"] == 5 * USERS


def test_run_is_read_where_it_was_trained_before(lines: Lines, tmp_path: Path) -> None:
    """The same answers, with no training; the network of the folder is the one that gave them, in half floats."""
    task = task_of(lines, None, {}, 30)
    with Progress(disable=True) as progress:
        first = run(OURS, task, tmp_path, progress, config=CONFIG, plan=PLAN)
        checkpoint = tmp_path / f"{OURS}-1" / "checkpoint.pt"
        checkpoint.unlink()
        again = run(OURS, task, tmp_path, progress, config=CONFIG, plan=PLAN)
        assert not checkpoint.exists()
        other = run(OURS, task, tmp_path, progress, config=CONFIG, plan=replace(PLAN, seed=2))
    np.testing.assert_array_equal(first.places, again.places)
    assert again.places_of_all is not None
    assert (first.places != other.places).any()
    network = network_of_run(tmp_path / f"{OURS}-1", task, CONFIG)
    # Rows of items that training never saw: nobody counts as having touched them.
    table = network.items.fold()
    assert table[41:, -1].max() < table[1:41, -1].min()
