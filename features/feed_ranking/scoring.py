"""Scores questions with a network in torch: among their candidates, and among all items."""

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
import torch
from alcove.features.feed_ranking.config import HISTORY
from alcove.features.feed_ranking.dataset import Ids, Questions
from alcove.features.feed_ranking.harness import Scores
from torch import Tensor

SCORED_AT_ONCE: Final = 256


class Ranker(Protocol):
    """What can be trained here: this feature's network, and the baselines."""

    def states(self, users: Tensor, rows: Tensor, /) -> Tensor:
        """Return vectors f32 [n, t + 1, dim] of users [n] with histories [n, t], at the start and after each item."""
        ...

    def rows(self, rows: Tensor, /) -> Tensor:
        """Return vectors and popularity f32 [..., dim + 1] of rows of items."""
        ...

    def parameters(self) -> Iterator[Tensor]:
        """Yield what shows the device that it is on."""
        ...


def last_states(ranker: Ranker, questions: Questions) -> Iterator[tuple[Ids, Tensor]]:
    """Yield numbers int64 [n] of some questions in rows of the table, and the vectors f32 [n, dim] of their users."""
    device = next(iter(ranker.parameters())).device
    order = np.argsort([len(history) for history in questions.histories], kind="stable")
    for at in range(0, len(order), SCORED_AT_ONCE):
        chosen = order[at : at + SCORED_AT_ONCE]
        latest = [questions.histories[i][-HISTORY:] for i in chosen]
        padded = np.zeros((len(chosen), max(len(row) for row in latest)), np.int64)
        for place, row in enumerate(latest):
            padded[place, : len(row)] = row
        users = torch.from_numpy(questions.rows[chosen]).to(device)
        states = ranker.states(users, torch.from_numpy(padded).to(device))
        yield chosen, states[torch.arange(len(chosen)), torch.tensor([len(row) for row in latest])]


@torch.no_grad()
def scores_of(ranker: Ranker, questions: Questions) -> Scores:
    """Return the scores f32 [n, candidates] of questions in rows of the table."""
    found = np.empty(questions.candidates.shape, np.float32)
    # Each row once: candidates are many more than items.
    table = ranker.rows(
        torch.arange(int(questions.candidates.max()) + 1, device=next(iter(ranker.parameters())).device)
    )
    for chosen, last in last_states(ranker, questions):
        items = table[torch.from_numpy(questions.candidates[chosen]).to(last.device)]
        found[chosen] = ((items[..., :-1] @ last[:, :, None])[..., 0] + items[..., -1]).cpu().numpy()
    return found


def scores_of_all(ranker: Ranker, questions: Questions, rows: int) -> Iterator[tuple[Ids, Tensor]]:
    """Yield numbers int64 [n] of some questions, and scores f32 [n, rows] of all items.

    Items of the history, and row 0, have -inf.
    """
    table: Tensor | None = None
    for chosen, last in last_states(ranker, questions):
        if table is None:
            table = ranker.rows(torch.arange(rows, device=last.device))
        scores = torch.addmm(table[:, -1], last, table[:, :-1].T)
        scores[:, 0] = -torch.inf
        for place, index in enumerate(chosen):
            scores[place, torch.from_numpy(questions.histories[index]).to(last.device)] = -torch.inf
        yield chosen, scores


@torch.no_grad()
def places_of_all(ranker: Ranker, questions: Questions, rows: int) -> Ids:
    """Return each target's place among all items that the history lacks, ties before it, int64 [n].

    A target that is in the history, touched again, is at the last place.
    """
    found = np.zeros(len(questions.rows), np.int64)
    for chosen, scores in scores_of_all(ranker, questions, rows):
        targets = torch.from_numpy(questions.candidates[chosen, :1]).to(scores.device)
        found[chosen] = (scores >= scores.gather(1, targets)).sum(dim=1).cpu().numpy() - 1
    return found


@torch.no_grad()
def first_of_all(ranker: Ranker, questions: Questions, rows: int, count: int) -> Ids:
    """Return the `count` best of all items that each history lacks, int64 [n, count]."""
    found = np.zeros((len(questions.rows), count), np.int64)
    for chosen, scores in scores_of_all(ranker, questions, rows):
        found[chosen] = scores.topk(count).indices.cpu().numpy()
    return found
