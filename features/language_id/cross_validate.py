"""Measures on sources never seen: trains once without each source, and fits the temperature to what these models say.

    python -m alcove.features.language_id.cross_validate --data FOLDER --runs runs/left-out --device cuda

writes left_out.json beside the card: by source and kind of text accuracy and calibration error, and how near languages
are told apart.  Each model is trained for the same number of steps.  The calibration error
of a source is that under a temperature fitted to all *other* sources, so nothing of a source had a part in its figures.
The temperature fitted to all of them is what the committed program gets.
"""

import argparse
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.language_id.calibrate import Scored, Verdicts, accuracy, calibration_error, fit, judge, score
from alcove.features.language_id.config import CONFIGS, DEFAULT_VERSION, LANGUAGES, NEAR_GROUPS, ModelConfig
from alcove.features.language_id.contract import LEFT_OUT
from alcove.features.language_id.dataset import SPACELESS, Corpus, CorpusReader
from alcove.features.language_id.near import Answers, answer, measure_near
from alcove.features.language_id.sampling import BagTable, Sampler
from alcove.features.language_id.train import PLANS, Training, TrainingPlan, read_excluded_sentences
from alcove.runtime import _native

FOLDS: Final = {
    "ntrex": ("ntrex",),
    "tatoeba": ("tatoeba",),
    "commonvoice": ("commonvoice",),
    "asp": ("asp",),
    "aosp": ("aosp",),
    "mozilla-www": ("mozilla-www",),
    "udhr": ("udhr",),
    "voice-web-ui": ("voice-web-ui",),
    "thunderbird": ("thunderbird",),
    "mw-visualeditor": ("mw-visualeditor",),
    "bible, ud, latin-library, wisesight": ("bible", "ud", "latin-library", "wisesight"),
    "nchlt, mi-corpus, omilab": ("nchlt", "mi-corpus", "omilab"),
}
"""Sources left out together: the last two are of languages that the others of the same fold are not in."""

KINDS: Final = ("words", "pairs", "sentences")
PER_LANGUAGE: Final = 100
LEAST_SENTENCES: Final = 20
"""Of a language in a fold, for it to count."""
CALIBRATED: Final = 15
"""Texts of each language, kind and fold that the temperature is fitted to and judged by."""
SHORTEST_WORD: Final = 5
SEED: Final = 75

Texts = dict[str, tuple[list[str], list[int]]]
"""By kind: texts, and the numbers of their languages."""


def texts_of(corpus: Corpus, sources: Sequence[str]) -> Texts:
    """Return texts of some sources: sentences, and words of 5 letters or more and pairs of such cut from them."""
    choice = random.Random(SEED)  # noqa: S311 (repeatable, nothing secret)
    lines, numbers = corpus.lines, {corpus.sources.index(s) for s in sources if s in corpus.sources}
    is_spaceless = np.isin(lines.languages, [LANGUAGES.index(code) for code in SPACELESS])
    is_own = np.isin(lines.sources, sorted(numbers)) & (lines.is_counted != is_spaceless)  # whole lines, not pieces
    found: Texts = {kind: ([], []) for kind in KINDS}
    for language in range(len(LANGUAGES)):
        own = np.flatnonzero(is_own & (lines.languages == language)).tolist()
        if len(own) < LEAST_SENTENCES:
            continue
        choice.shuffle(own)
        split = [[corpus.words[n] for n in lines.words[lines.starts[i] : lines.starts[i + 1]].tolist()] for i in own]
        add(found["sentences"], (" ".join(words) for words in split[:PER_LANGUAGE]), language)
        if LANGUAGES[language] in SPACELESS:
            continue
        words = list(dict.fromkeys(word for words in split for word in words if len(word) >= SHORTEST_WORD))
        choice.shuffle(words)
        add(found["words"], words[:PER_LANGUAGE], language)
        pairs = (f"{a} {b}" for a, b in zip(words[::2], words[1::2], strict=False))
        add(found["pairs"], list(pairs)[:PER_LANGUAGE], language)
    return found


def add(place: tuple[list[str], list[int]], texts: Any, language: int) -> None:
    """Append texts of one language."""
    own = list(texts)
    place[0].extend(own)
    place[1].extend([language] * len(own))


def score_texts(training: Training, texts: Texts) -> dict[str, Scored]:
    """Return what a trained network says of texts, by kind; kinds without any are left out."""
    return {
        kind: score(
            training.network,
            training.config,
            own,
            languages,
            hash_batch=_native.ngram_hash_batch,
        )
        for kind, (own, languages) in texts.items()
        if own
    }


def summarize(folds: Mapping[str, Mapping[str, Scored]], steps: Mapping[str, int]) -> dict[str, Any]:
    """Return the figures of all folds, as JSON values, and the temperature fitted to all.

    Args:
        folds: by the sources left out and the kind of text.
        steps: how long each model was trained.
    """
    samples = {name: {kind: _sample(scored) for kind, scored in fold.items()} for name, fold in folds.items()}
    result: dict[str, Any] = {"folds": {}, "all": {}}
    honest: dict[str, list[Verdicts]] = {kind: [] for kind in KINDS}
    answers: dict[str, list[Answers]] = {kind: [] for kind in KINDS}
    for name, fold in folds.items():
        others = [sample for other, sample in samples.items() if other != name]
        temperature = fit(_join(others))
        own: dict[str, Any] = {}
        for kind, scored in fold.items():
            verdicts = judge(scored, temperature)
            honest[kind].append(judge(samples[name][kind], temperature))
            answers[kind].append(answer(scored, temperature))
            own[kind] = {"texts": len(scored.languages), "accuracy": round(accuracy(scored), 4), **_errors(verdicts)}
        languages = torch.unique(torch.cat([scored.languages for scored in fold.values()]))
        mean = statistics.mean(kind["accuracy"] for kind in own.values())
        result["folds"][name] = {
            "languages": len(languages),
            "steps": steps[name],
            "mean_accuracy": round(mean, 4),
            "kinds": own,
        }
    for kind in KINDS:
        verdicts = Verdicts(*(torch.cat(parts) for parts in zip(*honest[kind], strict=True)))
        shares = [fold["kinds"][kind]["accuracy"] for fold in result["folds"].values() if kind in fold["kinds"]]
        result["all"][kind] = {"accuracy": round(statistics.mean(shares), 4), **_errors(verdicts)}
    result["mean_accuracy"] = round(statistics.mean(kind["accuracy"] for kind in result["all"].values()), 4)
    result["near"] = measure_near(answers, NEAR_GROUPS)
    result["temperatures"] = {
        "one for all": _compare(folds, samples, by_language=False),
        "one a language": _compare(folds, samples, by_language=True),
    }
    temperature = fit(_join(list(samples.values())))
    result["temperature"] = {code: round(value, 3) for code, value in zip(LANGUAGES, temperature.tolist(), strict=True)}
    return result


def _compare(
    folds: Mapping[str, Mapping[str, Scored]], samples: Mapping[str, Mapping[str, Scored]], *, by_language: bool
) -> dict[str, float]:
    """Return how honest sources are under temperatures fitted to the others, of one kind or the other."""
    sources: list[float] = []
    honest: dict[str, list[Verdicts]] = {kind: [] for kind in KINDS}
    answers: dict[str, list[Answers]] = {kind: [] for kind in KINDS}
    for name, fold in folds.items():
        others = [sample for other, sample in samples.items() if other != name]
        temperature = fit(_join(others), by_language=by_language)
        for kind, scored in fold.items():
            sources.append(calibration_error(judge(scored, temperature))[0])
            honest[kind].append(judge(samples[name][kind], temperature))
            answers[kind].append(answer(scored, temperature))
    pooled = [
        calibration_error(Verdicts(*(torch.cat(parts) for parts in zip(*own, strict=True))))[0]
        for own in honest.values()
    ]
    near = measure_near(answers, [group for group in NEAR_GROUPS if len(group) > 1])
    groups = [own for name, kinds in near.items() if name != "all" for own in kinds.values()]
    figures = {
        "source": statistics.mean(sources),
        "worst_source": max(sources),
        "worst_kind": max(pooled),
        "near": statistics.mean([abs(own["over_confidence"]) for own in groups] or [0.0]),
        "near_held": statistics.mean([own["held"] for own in groups] or [0.0]),
    }
    return {name: round(value, 4) for name, value in figures.items()}


def _sample(scored: Scored) -> Scored:
    """Return so many texts that each language counts the same, whatever source it is from."""
    count = CALIBRATED * len(torch.unique(scored.languages))
    order = torch.randperm(len(scored.languages), generator=torch.Generator().manual_seed(SEED))[:count]
    return Scored(*(part[order.to(part.device)] for part in scored))


def _join(folds: Sequence[Mapping[str, Scored]]) -> list[list[Scored]]:
    """Return the texts of each kind together, as `fit` takes them."""
    by_kind = [[fold[kind] for fold in folds if kind in fold] for kind in KINDS]
    return [[Scored(*(torch.cat(parts) for parts in zip(*own, strict=True)))] for own in by_kind if own]


def _errors(verdicts: Verdicts) -> dict[str, float]:
    error, over = calibration_error(verdicts)
    return {"calibration_error": round(error, 4), "over_confidence": round(over, 4)}


def validate(
    corpus: Corpus, config: ModelConfig, plan: TrainingPlan, runs: Path, *, device: str, folds: Sequence[str]
) -> dict[str, dict[str, Scored]]:
    """Train without the sources of each fold, and return what each model says of them."""
    bags = BagTable(corpus.words, config, _native.ngram_hash_batch, device)
    found = {}
    for name in folds:
        sampler = Sampler(corpus, plan.sampling, seed=plan.seed, without=frozenset(FOLDS[name]), device=device)
        training = Training(config, plan, sampler, bags, runs / name.split(",")[0])
        training.run()
        found[name] = score_texts(training, texts_of(corpus, FOLDS[name]))
    return found


def main() -> None:
    """Train, measure and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with lid_train.tsv.xz and its neighbours")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--device", default="cpu", help="of torch")
    parser.add_argument("--output", type=Path, default=LEFT_OUT)
    arguments = parser.parse_args()
    version = DEFAULT_VERSION
    plan = replace(PLANS[version], steps=arguments.steps)
    corpus = CorpusReader(arguments.data, excluded=read_excluded_sentences(), seed=1).read()
    scored = validate(corpus, CONFIGS[version], plan, arguments.runs, device=arguments.device, folds=list(FOLDS))
    document = {"version": version} | summarize(scored, dict.fromkeys(scored, plan.steps))
    arguments.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
