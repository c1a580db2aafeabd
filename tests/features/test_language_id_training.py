"""Training of language_id on a small made-up corpus: sources read and excluded, sampling, resumption, calibration."""

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
    BagTable,
    Corpus,
    CorpusReader,
    Sampler,
    make_separator_table,
    strip_marks,
)
from alcove.runtime import _native

torch = pytest.importorskip("torch", reason="training needs torch: install alcove[export]")

CONFIG = ModelConfig(version="0.0.1", min_order=1, max_order=3, buckets=512, dim=4, hidden=6)
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
    return CorpusReader(data, without=frozenset(), excluded=frozenset({"ausgenommener satz"}), seed=3).read()


def test_sources_without_a_free_licence_and_excluded_texts_are_never_read(corpus: Corpus) -> None:
    """Not a word of them is in the corpus, and the record says what was read."""
    assert "verbotenes" not in corpus.words
    assert "ausgenommener" not in corpus.words
    assert "yarda" not in corpus.words
    assert corpus.rows_read == {"commonvoice": 150, "aosp": 150, "ntrex": 150}


def test_held_out_lines_are_chosen_by_their_text_and_never_drawn(data: Path, corpus: Corpus) -> None:
    """About the share asked for; the same lines each time; with the rest they are all; their weight is kept."""
    readers = [CorpusReader(data, without=frozenset(), excluded=frozenset(), seed=3, held_out=0.3) for _ in range(2)]
    parts = [reader.read() for reader in readers]
    held = readers[0].held_out_lines
    assert held == readers[1].held_out_lines
    assert 0.2 < len(held) / 450 < 0.4
    assert {line.weight for line in held} == {1.0, 0.35, 2.0}
    drawn = [len(lines.cumulative) for lines in parts[0].lines]
    whole = [len(lines.cumulative) for lines in corpus.lines]
    for language, code in enumerate(LANGUAGES):
        doubled = 2 if code in {"zh", "ja", "th"} else 1
        kept = sum(line.language == language for line in held)
        excluded = code == "de"  # the corpus of the other tests leaves one line out
        assert drawn[language] == whole[language] + excluded - kept * doubled
    assert all(line.words == line.text.split() for line in held)


def test_a_further_source_can_be_left_out(data: Path) -> None:
    """For measuring on a source that training never saw."""
    corpus = CorpusReader(data, without=frozenset({"ntrex"}), excluded=frozenset(), seed=3).read()
    assert set(corpus.rows_read) == {"commonvoice", "aosp"}


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


def test_a_run_is_not_measured_on_a_source_that_it_saw(tmp_path: Path) -> None:
    """Its own record says what was read."""
    from alcove.features.language_id.evaluate import evaluate_held_out

    (tmp_path / "run.json").write_text(json.dumps({"rows_read": {"ntrex": 5}}), encoding="utf-8")
    with pytest.raises(ValueError, match="trained on ntrex"):
        evaluate_held_out(tmp_path, "ntrex", {})


def test_batches_are_balanced_and_repeatable(corpus: Corpus) -> None:
    """The same seed and step: the same batch. Another step: another. Each language has about its share."""
    sampler = Sampler(corpus, seed=5, other_share=0.1)
    batch, again, other = sampler.batch(7, 3000), sampler.batch(7, 3000), sampler.batch(8, 3000)
    assert np.array_equal(batch.words, again.words)
    assert np.array_equal(batch.starts, again.starts)
    assert not np.array_equal(batch.words[:1000], other.words[:1000])
    counts = np.bincount(batch.languages + 1, minlength=len(LANGUAGES) + 1)
    assert counts[0] == 300
    assert counts[1:].min() > 10
    assert counts[1:].max() < 80


def test_samples_hold_words_of_their_language_alone(corpus: Corpus) -> None:
    """The last character of a made-up word names its language."""
    batch = Sampler(corpus, seed=1).batch(0, 1500)
    spaceless = {LANGUAGES.index(code) for code in ("zh", "ja", "th")}
    seen = set()
    for i, language in enumerate(batch.languages.tolist()):
        words = [corpus.words[n] for n in batch.words[batch.starts[i] : batch.starts[i + 1]]]
        seen.add(len(words))
        if language not in spaceless:
            assert {word[-1] for word in words} == {chr(0x4E00 + language)}
    assert {1, 2, 3, 4} <= seen


def test_words_lose_their_marks_only_in_latin_script() -> None:
    """As people type in a hurry; what has no marks, and other scripts, stay."""
    pairs = {"ọ̀rọ̀": "oro", "đường": "duong", "łódź": "lodz", "été": "ete", "ёлка": "ёлка", "abc": "abc", "हाँ": "हाँ"}
    assert {word: strip_marks(word) for word in pairs} == pairs


def test_plain_texts_are_the_same_texts_without_marks(corpus: Corpus) -> None:
    """All of them at share 1, none at 0; nothing else of the batch changes."""
    marked = replace(corpus, plain=np.roll(np.arange(len(corpus.words), dtype=np.int32), 1))
    batch = Sampler(marked, seed=4).batch(3, 500)
    plain = Sampler(marked, seed=4, plain_share=1.0).batch(3, 500)
    assert np.array_equal(plain.words, marked.plain[batch.words])
    assert np.array_equal(plain.starts, batch.starts)


def test_bags_of_a_batch_equal_the_hash_of_the_texts(corpus: Corpus) -> None:
    """Joining the words' bags is the same as hashing the text on the device."""
    batch = Sampler(corpus, seed=2, other_share=0.05).batch(0, 400)
    ids, offsets = BagTable(corpus.words, CONFIG, _native.ngram_hash_batch).bags(batch)
    ends = np.append(offsets[1:], len(ids))
    for i in range(400):
        text = " ".join(corpus.words[n] for n in batch.words[batch.starts[i] : batch.starts[i + 1]])
        direct = _native.ngram_hash(
            text, CONFIG.min_order, CONFIG.max_order, CONFIG.buckets, CONFIG.seed, CONFIG.capacity
        )
        assert ids[offsets[i] : ends[i]].tolist() == direct.tolist()


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


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, hidden=0, weighs=True)])
def test_a_run_that_was_cut_off_ends_with_the_same_weights(config: ModelConfig, corpus: Corpus, tmp_path: Path) -> None:
    """Stop after any checkpoint, start again: bit for bit what one go gives; and the loss falls."""
    from alcove.features.language_id.train import Training, TrainingPlan, record_of

    plan = TrainingPlan(steps=12, batch_size=128, warmup_steps=2, checkpoint_every=4, report_every=4)
    shown: list[int] = []
    whole = Training(config, plan, corpus, tmp_path / "whole")
    loss = whole.run(show=lambda step, _: shown.append(step))
    assert shown == list(range(1, 13))
    for cut in (4, 8):
        folder = tmp_path / f"cut{cut}"
        Training(config, plan, corpus, folder).run(until=cut)
        resumed = Training(config, plan, corpus, folder)
        assert resumed.step == cut
        resumed.run()
        for name, weights in whole.network.state_dict().items():
            assert torch.equal(weights, resumed.network.state_dict()[name]), (cut, name)
    lines = [json.loads(line) for line in (tmp_path / "whole/progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert lines[-1]["loss"] < lines[0]["loss"]
    record = record_of(whole, loss)
    assert record["plan"]["steps"] == 12
    assert record["rows_read"]["ntrex"] == 150


WEIGHS = ModelConfig(version="0.0.2", min_order=1, max_order=3, buckets=2048, dim=9, hidden=0, weighs=True)


def test_scores_grow_with_what_is_known_as_the_formula_says() -> None:
    """Against the formula written out in numpy, for bags of several lengths, an empty one and a negative weight."""
    from alcove.features.language_id.network import LanguageIdNetwork

    torch.manual_seed(3)
    network = LanguageIdNetwork(WEIGHS)
    with torch.no_grad():
        network.table.weight.normal_()
        for name, value in (("size", -0.7), ("slope", 0.3), ("t0", 0.2), ("t1", -0.1), ("t2", 0.05)):
            network.get_parameter(name).fill_(value)
        ids, offsets = torch.arange(40), torch.tensor([0, 0, 1, 6])
        trained, found = network.learn(ids, offsets).numpy(), network(ids, offsets).numpy()
    table, out = network.table.weight.detach().numpy().astype(np.float64), network.out
    for i, (first, end) in enumerate([(0, 0), (0, 1), (1, 6), (6, 40)]):
        bag = table[first:end].sum(axis=0)
        known = np.log(1 + max(bag[-1], 0) / 8)
        plain = out.weight.detach().numpy() @ (bag[:-1] * np.exp(-0.7 + 0.3 * known)) + out.bias.detach().numpy()
        hot = plain * np.exp(0.2 - 0.1 * known + 0.05 * known**2)
        assert trained[i] == pytest.approx(plain, rel=1e-4, abs=1e-5)
        under = hot.max() - hot
        assert found[i] == pytest.approx(-under / (1 + under / 80), rel=1e-4, abs=1e-5)


def test_temperature_makes_words_and_sentences_honest_at_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores made three times too large are brought down: the cross entropy of held-out texts is near its least."""
    from alcove.features.language_id import calibrate
    from alcove.features.language_id.calibrate import fit, samples
    from alcove.features.language_id.train import Training, TrainingPlan

    monkeypatch.setattr(calibrate, "RIDGE", 0.01)  # made-up texts are all known alike: only t0 has an answer of its own
    reader = CorpusReader(data, without=frozenset(), excluded=frozenset(), seed=3, held_out=0.3)
    plan = TrainingPlan(steps=60, batch_size=512, warmup_steps=2)
    training = Training(WEIGHS, plan, reader.read(), tmp_path)
    training.run()
    kinds = samples(reader.held_out_lines, seed=1)
    assert len(kinds) == 3
    assert all("  " not in text for text in kinds[1].texts)
    assert {len(text.split()) for text in kinds[0].texts} == {1}
    assert {len(text.split()) for text in kinds[1].texts} == {2}
    shuffled = np.random.default_rng(1)
    for kind in kinds:  # a fifth of the labels by chance: certainty can't be right
        some = shuffled.random(len(kind.languages)) < 0.2
        kind.languages[some] = shuffled.integers(0, len(LANGUAGES), int(some.sum()))
    honest = fit(training.network, WEIGHS, kinds, _native.ngram_hash_batch)
    with torch.no_grad():
        training.network.out.weight.mul_(3)
        training.network.out.bias.mul_(3)
    again = fit(training.network, WEIGHS, kinds, _native.ngram_hash_batch)
    assert again["t0"] == pytest.approx(honest["t0"] - np.log(3), abs=0.1)
    assert again["t1"] == pytest.approx(honest["t1"], abs=0.05)
    found = training.calibrate(reader.held_out_lines)
    kept = torch.load(training.checkpoint, weights_only=True)["network"]
    assert {name: round(kept[name].item(), 5) for name in found} == found


def test_a_network_without_a_temperature_is_not_calibrated() -> None:
    """The mean of rows has none: wrong use, said so."""
    from alcove.features.language_id.calibrate import fit
    from alcove.features.language_id.network import LanguageIdNetwork

    with pytest.raises(ValueError, match="weighs"):
        fit(LanguageIdNetwork(CONFIG), CONFIG, [], _native.ngram_hash_batch)


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
    batch = Sampler(corpus, seed=5, other_share=1.0).batch(0, 2000)
    lengths = np.diff(batch.starts)
    assert set(np.unique(lengths)) == {0, 3, 4, 5, 6, 7, 8, 12}
    assert 0.4 < (lengths == 12).mean() < 0.5
    assert 0.05 < (lengths == 0).mean() < 0.15
    for a, b in pairwise(batch.starts.tolist()):
        if a < b:
            words = [corpus.words[w] for w in batch.words[a:b].tolist()]
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
