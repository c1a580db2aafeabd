"""Training of language_id on a small made-up corpus: sources, sampling, choice of n-grams, resumption, calibration."""

import json
import lzma
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from alcove.features.language_id.dataset import (
    NON_COMMERCIAL,
    STRONG_COPYLEFT,
    Corpus,
    CorpusReader,
    cut_pieces,
    make_separator_table,
    mistype,
    strip_marks,
)
from alcove.runtime import _native
from alcove.runtime.composition import make_composition_table

torch = pytest.importorskip("torch", reason="training needs torch: install alcove-platform[export]")

CONFIG = ModelConfig(version="0.0.1", min_order=1, max_order=3, buckets=512, dim=4, hidden=6)
WEIGHS = ModelConfig(version="0.0.2", min_order=1, max_order=3, buckets=2048, dim=9, hidden=0, weighs=True)
ALPHABETS = ("abcdefgh", "ijklmnop", "αβγδεζηθ", "абвгдежз", "กขคงจฉชซ")


def made_up_word(language: int, i: int) -> str:
    """Return a word that only one made-up language has."""
    letters = ALPHABETS[language % len(ALPHABETS)]
    size = 3 + i % 5
    return "".join(letters[(language * 5 + i * 3 + k * k) % 8] for k in range(size)) + chr(0x4E00 + language)


OTHER_ROWS = [
    *(f"br\tcommonvoice\t{' '.join(f'zz{chr(97 + i)}{chr(97 + k)}' for k in range(12))}" for i in range(26)),
    "ast\tcommonvoice\tnunca nun vi esto",
    "ha\tlafand\tba a yarda",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that training reads, six lines a language."""
    folder = tmp_path_factory.mktemp("lid")
    lines = []
    for language, code in enumerate(LANGUAGES):
        for i in range(6):
            text = " ".join(made_up_word(language, i + k) for k in range(4))
            lines.append(f"{code}\t{('commonvoice', 'aosp', 'ntrex')[i % 3]}\t{text}")
    lines.extend(f"de\t{source}\tverbotenes {source}" for source in sorted(NON_COMMERCIAL | STRONG_COPYLEFT))
    lines.append("de\tcommonvoice\tausgenommener satz")
    files = {
        "lid_train": "lang\tsource\ttext\n" + "\n".join(lines) + "\n",
        "lid_words": "lang\tcount\tword\n"
        + "".join(f"{code}\t7\t{made_up_word(i, 9)}\n" for i, code in enumerate(LANGUAGES)),
        "lid_other_languages": "code\tsource\ttext\n" + "".join(f"{row}\n" for row in OTHER_ROWS),
    }
    for name, text in files.items():
        (folder / f"{name}.tsv.xz").write_bytes(lzma.compress(text.encode()))
    return folder


@pytest.fixture(scope="module")
def corpus(data: Path) -> Corpus:
    """The corpus of that folder, one sentence excluded."""
    return CorpusReader(data, excluded=frozenset({"ausgenommener satz"}), seed=3).read()


def make_sampler(corpus: Corpus, *, seed: int = 1, without: frozenset[str] = frozenset(), **plan: object):  # type: ignore[no-untyped-def]
    """Return a sampler of the corpus; imports torch's part late."""
    from alcove.features.language_id.sampling import Sampler, SamplingPlan

    return Sampler(corpus, SamplingPlan(**plan), seed=seed, without=without)  # type: ignore[arg-type]


def texts_of_batch(corpus: Corpus, batch) -> list[list[str]]:  # type: ignore[no-untyped-def]
    """Return the words of each text."""
    words, starts = batch.words.tolist(), batch.starts.tolist()
    return [[corpus.words[n] for n in words[a:b]] for a, b in pairwise(starts)]


def test_sources_without_a_free_licence_and_excluded_texts_are_never_read(corpus: Corpus) -> None:
    """Not a word of them is in the corpus, and the record says what was read."""
    assert "verbotenes" not in corpus.words
    assert "ausgenommener" not in corpus.words
    assert "yarda" not in corpus.words
    assert corpus.rows_read == {"commonvoice": 150, "aosp": 150, "ntrex": 150}


def test_of_a_large_source_only_so_many_lines_of_a_language_are_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones; other sources are read whole."""
    from alcove.features.language_id import dataset

    monkeypatch.setattr(dataset, "AT_MOST", {"aosp": 1})
    assert CorpusReader(data, excluded=frozenset(), seed=3).read().rows_read["aosp"] == len(LANGUAGES)


def test_a_source_that_is_left_out_is_never_drawn(corpus: Corpus) -> None:
    """Neither its lines nor its words: the ninth made-up word is in lines of ntrex alone."""
    alone = {made_up_word(language, 8) for language in range(len(LANGUAGES))}
    drawn = {w for text in texts_of_batch(corpus, make_sampler(corpus).batch(0, 4000)) for w in text}
    assert alone & drawn
    sampler = make_sampler(corpus, without=frozenset({"ntrex"}))
    drawn = {w for step in range(3) for text in texts_of_batch(corpus, sampler.batch(step, 4000)) for w in text}
    assert not alone & drawn


def test_a_language_without_lines_is_not_drawn(corpus: Corpus) -> None:
    """Rather than by the texts of its neighbor."""
    lines = corpus.lines
    only = replace(corpus, lines=replace(lines, sources=np.where(lines.languages == 5, 2, 0)))
    batch = make_sampler(only, without=frozenset({corpus.sources[2]})).batch(0, 3000)
    assert 5 not in batch.languages.tolist()


def test_texts_of_a_source_are_its_lines_and_words_and_pairs_cut_from_them(data: Path) -> None:
    """For measuring on it: long words alone, each once; languages without spaces give sentences; the rest is absent."""
    from alcove.features.language_id.evaluate import source_texts

    texts = source_texts(data, "ntrex", per_language=2)
    lines = {text for _, text in source_texts(data, "ntrex", per_language=9)["sentences"]}
    assert {language for language, _ in texts["sentences"]} == set(LANGUAGES)
    assert len(texts["sentences"]) == 2 * len(LANGUAGES)
    assert {text for _, text in texts["sentences"]} == lines  # two of six lines a language are of this source
    assert not {language for kind in ("words", "pairs") for language, _ in texts[kind]} & {"zh", "ja", "th"}
    words = [word for _, word in texts["words"]]
    assert len(words) == len(set(words)) > len(LANGUAGES)
    for language, text in [*texts["words"], *texts["pairs"]]:
        for word in text.split():
            assert len(word) >= 5
            assert word[-1] == chr(0x4E00 + LANGUAGES.index(language))
    assert {len(text.split()) for _, text in texts["pairs"]} == {2}


def test_a_fold_is_measured_on_the_lines_of_its_sources(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole lines, long words and pairs; languages with too few lines, and pieces of spaceless ones, are left out."""
    from alcove.features.language_id import cross_validate

    assert cross_validate.texts_of(corpus, ["ntrex"])["sentences"] == ([], [])
    monkeypatch.setattr(cross_validate, "LEAST_SENTENCES", 2)
    texts = cross_validate.texts_of(corpus, ["ntrex", "absent"])
    assert sorted(texts["sentences"][1]) == sorted([*range(len(LANGUAGES))] * 2)
    assert {len(text.split()) for text in texts["sentences"][0]} == {4}
    spaceless = {LANGUAGES.index(code) for code in ("zh", "ja", "th")}
    for kind, size in (("words", 1), ("pairs", 2)):
        own, languages = texts[kind]
        assert not spaceless & set(languages)
        assert all(len(text.split()) == size and min(map(len, text.split())) >= 5 for text in own)
        assert all(text[-1] == chr(0x4E00 + language) for text, language in zip(own, languages, strict=True))


def test_a_run_is_not_measured_on_a_source_that_it_saw(tmp_path: Path) -> None:
    """Its own record says what was read."""
    from alcove.features.language_id.evaluate import evaluate_held_out

    (tmp_path / "run.json").write_text(json.dumps({"rows_read": {"ntrex": 5}}), encoding="utf-8")
    with pytest.raises(ValueError, match="trained on ntrex"):
        evaluate_held_out(tmp_path, "ntrex", {})


def test_batches_are_balanced_and_repeatable(corpus: Corpus) -> None:
    """The same seed and step: the same batch. Another step: another. Each language has about its share."""
    sampler = make_sampler(corpus, seed=5, other_share=0.1)
    batch, again, other = sampler.batch(7, 3000), sampler.batch(7, 3000), sampler.batch(8, 3000)
    assert torch.equal(batch.words, again.words)
    assert torch.equal(batch.starts, again.starts)
    assert not torch.equal(batch.words[:1000], other.words[:1000])
    counts = np.bincount(batch.languages.numpy() + 1, minlength=len(LANGUAGES) + 1)
    assert counts[0] == 300
    assert counts[1:].min() > 10
    assert counts[1:].max() < 80


def test_samples_hold_words_of_their_language_alone(corpus: Corpus) -> None:
    """The last character of a made-up word names its language."""
    batch = make_sampler(corpus, other_share=0.0).batch(0, 1500)
    spaceless = {LANGUAGES.index(code) for code in ("zh", "ja", "th")}
    seen = set()
    for words, language in zip(texts_of_batch(corpus, batch), batch.languages.tolist(), strict=True):
        seen.add(len(words))
        if language not in spaceless:
            assert {word[-1] for word in words} == {chr(0x4E00 + language)}
    assert {1, 2, 3, 4} <= seen


def test_single_characters_of_spaceless_languages_are_drawn(corpus: Corpus) -> None:
    """A piece of one is as likely as its frequency says, a short word of another language is rare."""
    assert {len(piece) for piece in cut_pieces("字" * 500, np.random.default_rng(1))} == {1, 2, 3, 4, 5, 6, 8}
    batch = make_sampler(corpus).batch(1, 6000)
    texts = zip(texts_of_batch(corpus, batch), batch.languages.tolist(), strict=True)
    alone = [(words[0], language) for words, language in texts if len(words) == 1]
    japanese = [word for word, language in alone if LANGUAGES[language] == "ja"]
    assert sum(len(word) == 1 for word in japanese) > len(japanese) / 10


def test_words_lose_their_marks_only_in_latin_script() -> None:
    """As people type in a hurry; what has no marks, and other scripts, stay."""
    pairs = {"ọ̀rọ̀": "oro", "đường": "duong", "łódź": "lodz", "été": "ete", "ёлка": "ёлка", "abc": "abc", "हाँ": "हाँ"}
    assert {word: strip_marks(word) for word in pairs} == pairs


def test_a_typing_error_is_one_letter_and_spares_the_first() -> None:
    """Lost, doubled, in its neighbor's place, or another one."""
    made = {mistype("hello", "xyz", chance / 400) for chance in range(400)}
    assert {"hllo", "heello", "hlelo", "hyllo"} <= made
    assert all(4 <= len(word) <= 6 for word in made)
    assert {word[0] for word in made} <= {"h", "e"}


def test_plain_and_mistyped_texts_are_the_same_texts_with_other_words(corpus: Corpus) -> None:
    """All of them at share 1, none at 0; nothing else of the batch changes."""
    shifted = np.roll(np.arange(len(corpus.words), dtype=np.int32), 1)
    changed = replace(corpus, plain=shifted, mistyped=shifted)
    batch = make_sampler(changed, seed=4).batch(3, 500)
    plain = make_sampler(changed, seed=4, plain_share=1.0).batch(3, 500)
    mistyped = make_sampler(changed, seed=4, mistyped_share=1.0).batch(3, 500)
    for other, least in ((plain, 1.0), (mistyped, 0.3)):
        assert torch.equal(other.starts, batch.starts)
        is_changed = other.words.numpy() != batch.words.numpy()
        assert np.array_equal(other.words.numpy()[is_changed], shifted[batch.words.numpy()[is_changed]])
        assert is_changed.mean() >= least
    assert (mistyped.words.numpy() == batch.words.numpy()).any()


def test_bags_of_a_batch_equal_the_hash_of_the_texts(corpus: Corpus) -> None:
    """Joining the words' bags is the same as hashing the text on the device."""
    from alcove.features.language_id.sampling import BagTable

    batch = make_sampler(corpus, seed=2, other_share=0.05).batch(0, 400)
    ids, starts = BagTable(corpus.words, CONFIG, _native.ngram_hash_batch).bags(batch)
    for i, words in enumerate(texts_of_batch(corpus, batch)):
        direct = _native.ngram_hash(
            " ".join(words), CONFIG.min_order, CONFIG.max_order, CONFIG.buckets, CONFIG.seed, CONFIG.capacity
        )
        assert ids[starts[i] : starts[i + 1]].tolist() == direct.tolist()


def test_words_are_cut_as_the_kernel_cuts_them() -> None:
    """Hashing the cut words gives the ids of the whole text, in many scripts."""
    separators = make_separator_table()
    for text in [
        "Don't stop, O’Neill – 24/7!",
        "col·lecció 3½ «ñandú»",
        "می‌خواهم؟ نه.",
        "हाँ, क्‍ष।",
        "你好，世界 ｈｉ",
        "Ẹ káàárọ̀!",
    ]:
        whole = _native.ngram_hash(text, 1, 5, 60_000, 1, 4096).tolist()
        words = text.translate(separators).split()
        assert [n for word in words for n in _native.ngram_hash(word, 1, 5, 60_000, 1, 4096).tolist()] == whole


def make_training(config: ModelConfig, corpus: Corpus, folder: Path, **plan: object):  # type: ignore[no-untyped-def]
    """Return a training of twelve small steps unless `plan` says more."""
    from alcove.features.language_id.sampling import BagTable
    from alcove.features.language_id.train import Training, TrainingPlan

    given = {"steps": 12, "batch_size": 128, "warmup_steps": 2, "checkpoint_every": 4, "report_every": 4} | plan
    bags = BagTable(corpus.words, config, _native.ngram_hash_batch)
    return Training(config, TrainingPlan(**given), make_sampler(corpus), bags, folder)  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, hidden=0, weighs=True)])
def test_a_run_that_was_cut_off_ends_with_the_same_weights(config: ModelConfig, corpus: Corpus, tmp_path: Path) -> None:
    """Stop after any checkpoint, start again: bit for bit what one go gives; and the loss falls."""
    from alcove.features.language_id.train import record_of

    shown: list[int] = []
    whole = make_training(config, corpus, tmp_path / "whole")
    loss = whole.run(show=lambda step, _: shown.append(step))
    assert shown == list(range(1, 13))
    for cut in (4, 8):
        folder = tmp_path / f"cut{cut}"
        make_training(config, corpus, folder).run(until=cut)
        resumed = make_training(config, corpus, folder)
        assert resumed.step == cut
        resumed.run()
        for name, weights in whole.network.state_dict().items():
            assert torch.equal(weights, resumed.network.state_dict()[name]), (cut, name)
    lines = [json.loads(line) for line in (tmp_path / "whole/progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert lines[-1]["loss"] < lines[0]["loss"]
    record = record_of(whole, corpus, frozenset({"aosp"}), loss)
    assert record["plan"]["steps"] == 12
    assert record["rows_read"] == {"commonvoice": 150, "ntrex": 150}


def test_batches_drawn_at_once_are_as_many_and_as_balanced(corpus: Corpus, tmp_path: Path) -> None:
    """A block of four gives four batches with their own texts; a run resumes within one."""
    whole = make_training(WEIGHS, corpus, tmp_path / "whole", block=4)
    whole.run()
    part = make_training(WEIGHS, corpus, tmp_path / "part", block=4, checkpoint_every=6)
    part.run(until=6)
    resumed = make_training(WEIGHS, corpus, tmp_path / "part", block=4)
    assert resumed.step == 6
    resumed.run()
    for name, weights in whole.network.state_dict().items():
        assert torch.equal(weights, resumed.network.state_dict()[name]), name


def test_the_module_of_a_run_answers_as_the_run_did(corpus: Corpus, tmp_path: Path) -> None:
    """Scores, temperature and what is composed: what calibration sees is what the program says."""
    from alcove.features.language_id.calibrate import probabilities, score, set_temperature
    from alcove.features.language_id.model import LanguageIdModule
    from alcove.features.language_id.network import fake_quantize

    training = make_training(WEIGHS, corpus, tmp_path, steps=40)
    training.run()
    temperature = torch.linspace(-0.2, 0.8, len(LANGUAGES))
    set_temperature(training.network, dict(zip(LANGUAGES, temperature.tolist(), strict=True)))
    texts = [f"{made_up_word(i, 3)} {made_up_word(i, 4)}" for i in range(12)]
    scored = score(training.network, WEIGHS, texts, [0] * 12, hash_batch=_native.ngram_hash_batch)
    expected = probabilities(scored, temperature).amax(dim=1)
    module = LanguageIdModule(replace(WEIGHS, composes=True), make_composition_table()).eval()
    module.network.load_state_dict(training.network.state_dict())
    with torch.no_grad():
        module.network.table.weight.copy_(fake_quantize(training.network.table.weight))
        for text, wanted in zip(texts, expected.tolist(), strict=True):
            utf8 = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
            assert module(utf8).values[0, 0].item() == pytest.approx(wanted, abs=5e-4)


def test_scores_grow_with_what_is_known_as_the_formula_says() -> None:
    """Against the formula written out in numpy, for bags of several lengths, an empty one and a negative weight."""
    from alcove.features.language_id.network import LanguageIdNetwork

    torch.manual_seed(3)
    network = LanguageIdNetwork(WEIGHS)
    with torch.no_grad():
        network.table.weight.normal_()
        for name, value in (("size", -0.7), ("slope", 0.3)):
            network.get_parameter(name).fill_(value)
        own = np.linspace(-0.5, 0.6, len(LANGUAGES))
        network.temperature.copy_(torch.from_numpy(own))
        ids, offsets = torch.arange(40), torch.tensor([0, 0, 1, 6])
        trained, found = network.learn(ids, offsets).numpy(), network(ids, offsets).numpy()
    table, out = network.table.weight.detach().numpy().astype(np.float64), network.out
    for i, (first, end) in enumerate([(0, 0), (0, 1), (1, 6), (6, 40)]):
        bag = table[first:end].sum(axis=0)
        known = np.log(1 + max(bag[-1], 0) / 8)
        plain = out.weight.detach().numpy() @ (bag[:-1] * np.exp(-0.7 + 0.3 * known)) + out.bias.detach().numpy()
        likely = np.exp(plain - plain.max())
        hot = plain * np.exp(own @ (likely / likely.sum()))
        assert trained[i] == pytest.approx(plain, rel=1e-4, abs=1e-5)
        under = hot.max() - hot
        assert found[i] == pytest.approx(-under / (1 + under / 80), rel=1e-4, abs=1e-5)


def make_scored(seed: int, scale: float, count: int = 4000):  # type: ignore[no-untyped-def]
    """Return scores that are honest at temperature -log(scale): languages are drawn by their softmax."""
    from alcove.features.language_id.calibrate import Scored

    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, len(LANGUAGES), generator=random) * 2
    languages = torch.multinomial(torch.softmax(scores, dim=1), 1, generator=random).squeeze(1)
    return Scored(scores * scale, languages)


def test_temperature_makes_scores_honest_that_were_too_large() -> None:
    """Scores times three are brought down; the calibration error is then small, and was not before."""
    from alcove.features.language_id.calibrate import calibration_error, fit, judge

    for scale in (1.0, 3.0):
        found = fit([[make_scored(1, scale), make_scored(2, scale)], [make_scored(4, scale)], []])
        assert found.mean().item() == pytest.approx(-np.log(scale), abs=0.1)
        assert (found - found.mean()).abs().mean() < 0.15
        assert calibration_error(judge(make_scored(3, scale), found))[0] < 0.03
    assert calibration_error(judge(make_scored(3, 3.0), torch.zeros(len(LANGUAGES))))[0] > 0.1
    with pytest.raises(ValueError, match="fitted to texts"):
        fit([[], []])


def test_a_language_that_is_too_sure_gets_a_temperature_of_its_own() -> None:
    """Scores of one language's texts times three: its answers become honest, the others stay as they were."""
    from alcove.features.language_id.calibrate import Scored, calibration_error, fit, judge

    def half_loud(seed: int) -> Scored:
        made = make_scored(seed, 1.0, 12_000)
        is_loud = made.scores.argmax(dim=1) == 7
        return Scored(torch.where(is_loud[:, None], made.scores * 3, made.scores), made.languages)

    found = fit([[half_loud(1)], [half_loud(2)]])
    assert found[7] < -0.5
    assert len(set(fit([[half_loud(1)], [half_loud(2)]], by_language=False).tolist())) == 1
    others = [value for i, value in enumerate(found.tolist()) if i != 7]
    assert np.mean(np.abs(others)) < 0.15
    test = half_loud(3)
    own = Scored(*(part[test.scores.argmax(dim=1) == 7] for part in test))
    assert calibration_error(judge(own, torch.zeros(len(LANGUAGES))))[1] > 0.3
    assert abs(calibration_error(judge(own, found))[1]) < 0.12


def test_sets_of_a_kind_count_the_same_however_large() -> None:
    """A large set of loud scores and a small one of honest scores: in between."""
    from alcove.features.language_id.calibrate import fit

    loud, honest = make_scored(1, 3.0, 6000), make_scored(2, 1.0, 1500)
    both = fit([[loud, honest]]).mean().item()
    assert both == pytest.approx(fit([[make_scored(3, 3.0, 1500), make_scored(4, 1.0, 6000)]]).mean().item(), abs=0.05)
    assert fit([[loud]]).mean().item() + 0.2 < both < fit([[honest]]).mean().item() - 0.2


def test_calibration_error_is_that_of_the_metrics() -> None:
    """The tensors' form and the plain one agree; accuracy likewise, each language the same."""
    from alcove.features.language_id.calibrate import accuracy, calibration_error, judge, probabilities
    from alcove.features.language_id.metrics import Prediction, expected_calibration_error, mean_accuracy

    scored = make_scored(5, 1.5)
    best, guesses = probabilities(scored, torch.zeros(len(LANGUAGES))).max(dim=1)
    predictions = [
        Prediction(LANGUAGES[true], LANGUAGES[guess], probability)
        for true, guess, probability in zip(scored.languages.tolist(), guesses.tolist(), best.tolist(), strict=True)
    ]
    error, over = calibration_error(judge(scored, torch.zeros(len(LANGUAGES))))
    assert error == pytest.approx(expected_calibration_error(predictions))
    assert over == pytest.approx(np.mean([p.probability - p.is_right for p in predictions]))
    assert accuracy(scored) == pytest.approx(mean_accuracy(predictions))


def test_figures_of_a_source_come_from_a_temperature_that_never_saw_it() -> None:
    """A fold whose scores are three times too large is too sure under the temperature of the others, and shown so."""
    from alcove.features.language_id.cross_validate import KINDS, summarize

    folds = {name: {kind: make_scored(i, 1.0, 900) for kind in KINDS} for i, name in enumerate(["a", "b"])}
    folds["loud"] = {"sentences": make_scored(9, 3.0, 900)}
    found = summarize(folds, dict.fromkeys(folds, 12))
    assert list(found["folds"]) == ["a", "b", "loud"]
    loud = found["folds"]["loud"]
    assert list(loud["kinds"]) == ["sentences"]
    assert loud["kinds"]["sentences"]["over_confidence"] > 0.1
    assert found["all"]["words"]["calibration_error"] < 0.1 < found["all"]["sentences"]["calibration_error"]
    assert loud["mean_accuracy"] == loud["kinds"]["sentences"]["accuracy"]
    assert set(found["temperature"]) == set(LANGUAGES)
    for figures in found["temperatures"].values():
        assert loud["kinds"]["sentences"]["calibration_error"] == pytest.approx(figures["worst_source"], abs=0.05)
        assert figures["source"] < figures["worst_source"]
    means = [found["folds"][name]["kinds"]["words"]["accuracy"] for name in ("a", "b")]
    assert found["all"]["words"]["accuracy"] == pytest.approx(sum(means) / 2, abs=1e-4)


def test_models_without_a_source_end_by_steps_and_so_come_out_the_same(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fold has the plan's steps, whatever the time; two runs say the same of the source left out, bit for bit."""
    from alcove.features.language_id import cross_validate
    from alcove.features.language_id.train import TrainingPlan

    monkeypatch.setattr(cross_validate, "LEAST_SENTENCES", 1)
    monkeypatch.setattr(cross_validate, "SHORTEST_WORD", 1)
    plan = TrainingPlan(steps=9, batch_size=128, warmup_steps=2, report_every=3)
    folds = ["ntrex", "commonvoice"]
    one, two = (
        cross_validate.validate(corpus, WEIGHS, plan, tmp_path / name, device="cpu", folds=folds)
        for name in ("one", "two")
    )
    for fold in folds:
        last = (tmp_path / "one" / fold / "progress.jsonl").read_text().splitlines()[-1]
        assert json.loads(last)["step"] == 9
        assert one[fold].keys() == {"words", "pairs", "sentences"}
        for kind, scored in one[fold].items():
            assert torch.equal(scored.scores, two[fold][kind].scores)
            assert torch.equal(scored.languages, two[fold][kind].languages)


def test_near_languages_are_measured_by_group_and_by_candidates() -> None:
    """Three of two Croatian and two Bosnian texts: right, or one of the group, or among the candidates."""
    from alcove.features.language_id.calibrate import Scored
    from alcove.features.language_id.near import answer, measure_near

    bs, hr, sl = (LANGUAGES.index(code) for code in ("bs", "hr", "sl"))
    scores = torch.full((4, len(LANGUAGES)), -30.0)
    scores[0, [hr, bs]] = torch.tensor([5.0, 4.5])  # hr: right, several
    scores[1, [bs, hr]] = torch.tensor([5.0, 4.0])  # hr: held
    scores[2, hr] = 5.0  # bs: one of the group, not held
    scores[3, sl] = 5.0  # bs: neither
    own = answer(Scored(scores, torch.tensor([hr, hr, bs, bs])), torch.zeros(len(LANGUAGES)))
    figures = measure_near({"words": [own], "pairs": []}, [("bs", "hr"), ("xh", "zu")])
    shares = {"texts": 4, "accuracy": 0.25, "in_group": 0.75, "held": 0.5, "several": 0.5}
    assert figures["bs, hr"]["words"].items() >= shares.items()
    assert 0.5 < figures["bs, hr"]["words"]["over_confidence"] < 0.65
    assert figures["xh, zu"] == {}
    assert figures["all"]["words"]["texts"] == 4


def test_a_network_without_a_temperature_is_not_calibrated() -> None:
    """The mean of rows has none: wrong use, said so."""
    from alcove.features.language_id.calibrate import set_temperature
    from alcove.features.language_id.network import LanguageIdNetwork

    with pytest.raises(ValueError, match="weighs"):
        set_temperature(LanguageIdNetwork(CONFIG), dict.fromkeys(LANGUAGES, 1.0))


def test_quantized_table_is_what_the_program_stores() -> None:
    """Training with rounding sees int8 multiples of one scale a column, and passes the gradient through."""
    from alcove.features.language_id.network import fake_quantize

    table = torch.randn(64, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    rounded = fake_quantize(table)
    integers = rounded.detach() / (table.detach().abs().amax(dim=0) / 127)
    assert torch.allclose(integers, integers.round(), atol=1e-4)
    assert integers.abs().max() <= 127.001
    torch.autograd.backward(rounded.sum())
    assert torch.equal(table.grad, torch.ones_like(table))


def test_lines_outside_the_75_are_shown_but_for_those_that_measure(corpus: Corpus, data: Path) -> None:
    """A tenth of the lines of each language, all of some near languages, and sources that are left out: never drawn."""
    from alcove.features.language_id.evaluate import other_texts

    measured = other_texts(data)
    assert [text for _, text in measured["never seen"]] == ["nunca nun vi esto"]
    kept = {text for _, text in measured["taught"]}
    assert 0 < len(kept) < 10
    others = corpus.others
    shown = {" ".join(corpus.words[w] for w in others.words[a:b].tolist()) for a, b in pairwise(others.starts.tolist())}
    assert shown == {row.split("\t")[2] for row in OTHER_ROWS if row.startswith("br")} - kept


def test_text_outside_the_75_is_a_line_a_part_of_it_or_nothing(corpus: Corpus) -> None:
    """Single words are no such text: they may well be in one of ours."""
    batch = make_sampler(corpus, seed=5, other_share=1.0).batch(0, 2000)
    texts = texts_of_batch(corpus, batch)
    lengths = np.array([len(words) for words in texts])
    assert set(np.unique(lengths)) == {0, 3, 4, 5, 6, 7, 8, 12}
    assert 0.4 < (lengths == 12).mean() < 0.5
    assert 0.05 < (lengths == 0).mean() < 0.15
    for words in filter(None, texts):
        assert len({word[:3] for word in words}) == 1
        assert [word[3] for word in words] == sorted(word[3] for word in words)


def test_doubt_is_what_a_text_of_no_language_teaches() -> None:
    """The loss of such a text is least when all languages are equally likely; that of ours when its own is certain."""
    from alcove.features.language_id.train import loss_of

    flat = torch.zeros(1, len(LANGUAGES))
    sure = flat.clone()
    sure[0, 5] = 9.0
    unknown, fifth = torch.tensor([-1]), torch.tensor([5])
    assert loss_of(flat, unknown) < loss_of(sure, unknown)
    assert loss_of(sure, fifth) < loss_of(flat, fifth)
    assert loss_of(flat, unknown).item() == pytest.approx(np.log(75), abs=1e-4)
