"""Files of other libraries give the tokens of these libraries, in all scripts; what can't be said is refused."""

import json
import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from alcove.runtime.tokenizers import Tokenizer, UnsupportedTokenizerError
from alcove.runtime.tokenizers.charsmap import read_charsmap
from alcove.runtime.tokenizers.hugging_face import CL100K
from tokenizers import Regex, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Library

from tests.selection import quick_among

CORPUS = (
    "Wo ist der nächste Bahnhof? Ich hätte gern zwei Fahrkarten nach Köln, bitte.",
    "Où est la gare la plus proche ? J'aimerais deux billets, s'il vous plaît.",
    "Where's the nearest station? I'd like two tickets; they're for 1234 people, don't worry.",
    "Где ближайший вокзал? Мне нужны два билета до Москвы.",
    "最近的车站在哪里？我想买两张票。駅はどこですか。切符を二枚ください。",
    "가장 가까운 역이 어디예요? 표 두 장 주세요.",
    "أين أقرب محطة؟ أريد تذكرتين من فضلك.",
    "निकटतम स्टेशन कहाँ है? मुझे दो टिकट चाहिए।",
    "İstanbul'da en yakın istasyon nerede? ΠΟΥ ΕΙΝΑΙ Ο ΣΤΑΘΜΟΣ;",
    "The theatre there is rather other than the other theatres, and the rest is history.",
)
ODD = (
    "",
    " ",
    "   ",
    "\n\n\ta  b",
    "a" * 300,
    "don't DON'T I'LL 's",
    "1234567 ½ Ⅷ 42",
    "e\u0301 A\u030a \u1100\u1161\u11a8 각",
    "👩‍👩‍👧 😀!",
    "\u200b\ufeffx\x00\x07",
    "a\u00a0b\u3000c",
    "\u2581a \u2581",
    "\r\n\r\nx \r\n",
    "ﬁ Ａｂｃ ㍍",
    "[CLS] <s> <|end|>",
    "!?... (x)",
)
NEW = 0x2E50
"""Tables of Unicode differ in what came after version 8; texts here have none of it."""


def texts() -> list[str]:
    """Return the corpus, odd texts, and random ones of characters that have been there for long."""
    random_ = random.Random(7)
    pool = [chr(code) for code in range(0x20, 0x500) if unicodedata.category(chr(code)) != "Cn" and code not in _LATER]
    mixed = ["".join(random_.choices([*pool, *" \n'ab1"], k=random_.randint(1, 24))) for _ in range(400)]
    return [*CORPUS, *ODD, *mixed]


_LATER = {*range(0x52A, 0x600), 0x37F, *range(0x528, 0x530)}


def compare(expected: Callable[[str], Sequence[int]], ours: Tokenizer, texts_: Sequence[str] | None = None) -> None:
    """Compare the tokens of all texts."""
    for text in texts() if texts_ is None else texts_:
        assert ours.encode(text) == list(expected(text)), ascii(text)


def read(library: Library, path: Path) -> Tokenizer:
    """Return ours from the library's file."""
    library.save(str(path / "tokenizer.json"))
    return Tokenizer.from_file(path / "tokenizer.json")


def train_bytes(library: Library) -> Library:
    """Train byte-level merges on the corpus."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, special_tokens=["<|end|>"])
    library.train_from_iterator(CORPUS * 3, trainer)
    return library


@pytest.mark.parametrize("adds_space", [False, True])
def test_byte_level_tokenizers_as_of_gpt2(tmp_path: Path, *, adds_space: bool) -> None:
    """GPT-2's split, with and without a space before a text; and back to text."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=adds_space)
    ours = read(train_bytes(library), tmp_path)
    plain = [text for text in texts() if "<|end|>" not in text]
    compare(lambda text: library.encode(text).ids, ours, plain)
    for text in plain:
        expected = text.removeprefix(" ") if adds_space else text
        assert ours.decode(ours.encode(text)) == expected


@pytest.mark.parametrize("expression", CL100K)
def test_byte_level_tokenizers_as_of_llama_3_and_qwen_2(tmp_path: Path, expression: str) -> None:
    """cl100k's split with one to three digits, words that are pieces, and NFC."""
    digits = CL100K[expression]
    library = Library(models.BPE(ignore_merges=digits == 3))
    parts = [pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    library.pre_tokenizer = pre_tokenizers.Sequence(parts)
    if digits == 1:
        library.normalizer = normalizers.NFC()
    ours = read(train_bytes(library), tmp_path)
    composed = [text for text in texts() if "<|end|>" not in text and (digits != 1 or has_one_mark(text))]
    compare(lambda text: library.encode(text).ids, ours, composed)


def has_one_mark(text: str) -> bool:
    """Return whether no two marks follow each other: their order is not changed here."""
    kinds = "".join("m" if unicodedata.combining(each) else "." for each in unicodedata.normalize("NFD", text))
    return "mm" not in kinds


@pytest.mark.parametrize("lowers", [True, False])
def test_word_pieces_as_of_bert(tmp_path: Path, *, lowers: bool) -> None:
    """Cleaned, split at punctuation and ideographs, accents stripped; between [CLS] and [SEP]."""
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=lowers)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    library.train_from_iterator(CORPUS * 3, trainers.WordPieceTrainer(vocab_size=500, special_tokens=special))
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    ours = read(library, tmp_path)
    assert ours.special == {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    compare(lambda text: library.encode(text).ids, ours, [text for text in texts() if "[CLS]" not in text])
    library.enable_truncation(8)
    for text in CORPUS:
        assert ours.encode(text, capacity=8) == library.encode(text).ids


@pytest.mark.parametrize("falls_back", [False, True])
def test_unigrams_with_marked_spaces(tmp_path: Path, *, falls_back: bool) -> None:
    """Metaspace, fused unknown tokens, or the tokens of bytes."""
    library = Library(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>")
    library.train_from_iterator(CORPUS * 3, trainer)
    if falls_back:
        saved = json.loads(library.to_str())
        saved["model"]["byte_fallback"] = True
        saved["model"]["vocab"] += [[f"<0x{byte:02X}>", -9.0] for byte in range(256)]
        library = Library.from_str(json.dumps(saved))
    ours = read(library, tmp_path)
    spelled = ("<s>", "</s>")
    compare(lambda text: library.encode(text).ids, ours, [t for t in texts() if not any(s in t for s in spelled)])


def test_llama_2_as_tokenizers_writes_it(tmp_path: Path) -> None:
    """Merges over characters, U+2581 for spaces and before a text, bytes for what is unknown."""
    library = Library(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    special = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    library.train_from_iterator(CORPUS[:3], trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", "<s>"]))
    saved = json.loads(library.to_str())
    vocabulary = saved["model"]["vocab"]
    vocabulary |= {name: len(vocabulary) + at for at, name in enumerate(special[2:])}
    library = Library.from_str(json.dumps(saved))
    ours = read(library, tmp_path)
    plain = [text for text in texts() if text and "<" not in text]
    compare(lambda text: library.encode(text).ids, ours, plain)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus in a file, ten times."""
    path: Path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(CORPUS * 10), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("rule", quick_among(["nmt_nfkc", "identity"], ["nmt_nfkc"]))
def test_models_of_sentencepiece(corpus: Path, kind: str, rule: str) -> None:
    """With and without normalization, extra spaces and tokens of bytes."""
    path = corpus.with_name(f"{kind}-{rule}")
    plain = rule == "identity"
    sentencepiece.SentencePieceTrainer.Train(
        input=str(corpus),
        model_prefix=str(path),
        vocab_size=460 if plain else 200,
        hard_vocab_limit=kind == "bpe",
        model_type=kind,
        normalization_rule_name=rule,
        byte_fallback=plain,
        remove_extra_whitespaces=not plain,
        num_threads=1,
        minloglevel=2,
    )
    library = sentencepiece.SentencePieceProcessor(model_file=f"{path}.model")
    ours = Tokenizer.from_file(f"{path}.model")
    readable = [text for text in texts() if "\0" not in text]
    compare(library.encode, ours, readable)
    framed = Tokenizer.from_file(f"{path}.model", prefix=["<s>"], suffix=["</s>"])
    assert framed.encode(CORPUS[0]) == [1, *library.encode(CORPUS[0]), 2]
    for text in CORPUS:
        assert ours.decode(ours.encode(text)) == library.decode(library.encode(text))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model": {"type": "WordLevel", "vocab": {}}}, "WordLevel.*BPE, Unigram and WordPiece"),
    "ends of words": ({"model": {"type": "BPE", "vocab": {}, "merges": [], "end_of_word_suffix": "</w>"}}, "</w>"),
    "another normalizer": ({"normalizer": {"type": "NFD"}}, "NFD.*BertNormalizer, NFC"),
    "another split": ({"pre_tokenizer": {"type": "Digits"}}, "Digits.*ByteLevel"),
    "another expression": (
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Isolated", "invert": False}},
        "expressions of GPT-2",
    ),
    "another template": ({"post_processor": {"type": "Other"}}, "post-processor Other"),
    "no merges": ({"model": {"type": "BPE", "vocab": {"a": 0}}}, "merges"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_no_table_can_say_is_refused_by_name(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """One error with all reasons."""
    plain = {"added_tokens": [], "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain | change), encoding="utf-8")
    with pytest.raises(UnsupportedTokenizerError, match=reason):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("name", ["tokenizer.json", "x.model"])
def test_files_that_are_no_tokenizer_are_refused(tmp_path: Path, name: str) -> None:
    """Nothing, text, numbers, nesting, and bytes of each kind."""
    for data in (b"", b"{}", b"[]", b"[" * 5000, b"\xff" * 40, bytes(range(256)), b'{"model": 3}', b"\x0a\x03abc"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UnsupportedTokenizerError):
            Tokenizer.from_file(tmp_path / name)


def test_a_damaged_charsmap_is_refused() -> None:
    """Cut off, or a trie that never ends."""
    assert not read_charsmap(b"")
    for blob in (b"\xff", b"\x10\0\0\0abc"):
        with pytest.raises(UnsupportedTokenizerError):
            read_charsmap(blob)
    units = [0] * 256
    units[1] = 1 << 10 | 1  # byte 1 leads to where the trie begins
    endless = b"".join(unit.to_bytes(4, "little") for unit in units)
    with pytest.raises(UnsupportedTokenizerError, match="over 255 bytes"):
        read_charsmap(len(endless).to_bytes(4, "little") + endless)
