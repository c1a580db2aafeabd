"""Measures how near languages are told apart: the first guess, whether it is one of their group, and the candidates."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from alcove.features.language_id.calibrate import Scored, probabilities
from alcove.features.language_id.config import CANDIDATE_SHARE, CONFIGS, DEFAULT_VERSION, LANGUAGES
from torch import Tensor


class Answers(NamedTuple):
    """What an app gets to see of n texts.

    Attributes:
        ranked: int64 [n, k], numbers of the likeliest languages, best first.
        best: f32 [n], probability of the likeliest.
        is_candidate: bool [n, k], which of these are candidates (`LanguageAnswer.candidates`).
        languages: int64 [n], the true ones.
    """

    ranked: Tensor
    best: Tensor
    is_candidate: Tensor
    languages: Tensor


def answer(scored: Scored, temperature: Tensor) -> Answers:
    """Return the answers to texts under a temperature f32 [75]."""
    likely, ranked = probabilities(scored, temperature).topk(CONFIGS[DEFAULT_VERSION].ranked, dim=1)
    return Answers(ranked, likely[:, 0], likely >= CANDIDATE_SHARE * likely[:, :1], scored.languages)


def measure_near(answers: Mapping[str, Sequence[Answers]], groups: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the figures of each group of languages, and of all languages together ("all"), as JSON values.

    Args:
        answers: by kind of text, of sources each; these count by their texts.
        groups: codes of languages; each language of a group counts the same.

    Returns:
        by the group's codes and kind: `texts`; shares in [0, 1]: `accuracy` of the first guess, `in_group` (the first
        guess is one of the group), `held` (the candidates hold the true language), `several` (more than one candidate);
        and `over_confidence` (mean probability less accuracy).
    """
    named = {", ".join(group): group for group in groups} | {"all": LANGUAGES}
    kinds = {kind: Answers(*map(torch.cat, zip(*own, strict=True))) for kind, own in answers.items() if own}
    return {
        name: {
            kind: own
            for kind, found in kinds.items()
            if (own := _measure(found, [LANGUAGES.index(code) for code in group]))
        }
        for name, group in named.items()
    }


def _measure(answers: Answers, group: Sequence[int]) -> dict[str, float]:
    ranked, best, is_candidate, languages = answers
    is_true = ranked == languages[:, None]
    in_group = torch.isin(ranked[:, 0], torch.tensor(group, device=ranked.device))
    figures = {
        "accuracy": is_true[:, 0],
        "in_group": in_group,
        "held": (is_true & is_candidate).any(dim=1),
        "several": is_candidate.sum(dim=1) > 1,
        "over_confidence": best - is_true[:, 0].to(best.dtype),
    }
    rows = [languages == language for language in group]
    present = [own for own in rows if own.any()]
    if not present:
        return {}
    shares = {name: _mean_of_means(values, present) for name, values in figures.items()}
    return {"texts": int(sum(own.sum() for own in present))} | shares


def _mean_of_means(values: Tensor, rows: Sequence[Tensor]) -> float:
    return round(float(torch.stack([values[own].to(torch.float64).mean() for own in rows]).mean()), 4)
