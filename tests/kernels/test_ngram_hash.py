"""The native n-gram hash follows its page (kernels/microkernels/ngram_hash/README.md), for any text and any bytes.

The reference below is written from that page, not from the C++; the character tables are read from `tables.inc`, which
the page names as their definition.
"""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.kernels.microkernels.ngram_hash import make_tables
from alcove.runtime import InvalidTextError, _native
from hypothesis import given
from hypothesis import strategies as st

SEED = 0x616C636F7665
MASK = (1 << 64) - 1
PARAMS = [
    (1, 4, 120_000, SEED),
    (1, 3, 16_384, 0),
    (2, 5, 2**31 - 1, 2**63 - 1),
    (1, 1, 1, 1),
    (8, 8, 997, 7),
    (3, 8, 64, 9),
]

TEXTS = {
    "en": "Don't panic: it's 42 o'clock, rock 'n' roll!",
    "de": "Straße, Maß, ÜBERGRÖẞE und Äpfel",
    "tr": "İstanbul'da IŞIK ve ılık çay",
    "vi": "Tiếng Việt rất ĐẸP, Ừ Ữ Ặ",
    "yo": "Ẹ káàárọ̀, báwo ni? Ọ̀RỌ̀",
    "ca": "col·lecció · paral·lel·",
    "el": "ΚΑΛΗΜΈΡΑ κόσμε, Οδυσσεύς Ὀδυσσεὺς",
    "ru": "Где ближайшая АПТЕКА? Ёлка",
    "uk": "Об’єкт, об'єкт, обʼєкт, ЇЖАК",
    "hy": "ԲԱՐԵՎ ինչպե՞ս ես",
    "ka": "ᲒᲐᲛᲐᲠᲯᲝᲑᲐ, ႠႡ როგორ ხარ",
    "he": "שלום, מה נשמע? ארה״ב",
    "ar": "مَرْحَبًا، كيف حالك؟ ١٢٣",
    "fa": "می‌خواهم نمی‌دانم ‌x‌",
    "hi": "नमस्ते, आप कैसे हैं? क्‍ष १२३।",
    "ta": "வணக்கம், எப்படி இருக்கிறீர்கள்?",
    "th": "สวัสดีครับ สบายดีไหม",
    "zh": "请问，最近的车站在哪里？　１２３",
    "ja": "こんにちは、元気ですか？スーパー・マン々",
    "ko": "안녕하세요, 지하철역이 어디예요?",
    "fullwidth": "Ｈｅｌｌｏ ＷＯＲＬＤ",
    "emoji": "😀👍🏽 ❤️ 👨‍👩‍👧",
    "planes": "𐐀𐐨 𝄞 𠀀𠀁 𞤀 \U000e0041 \U0010ffff",
    "joiners": "'a' a''b a'’b '' ' a·'b 'a'b'c'",
    "long word": "a" * 31 + " " + "b" * 32 + " " + "c" * 33,
    "control": "a\0b\tc\nd\x7fe\x85f\xa0g\xadh",
    "empty": "",
}


def read_tables() -> dict[str, list[int]]:
    """Return the arrays of tables.inc by name."""
    text = Path(make_tables.__file__).with_name("tables.inc").read_text(encoding="utf-8")
    arrays = re.findall(r"constexpr \w+ (\w+)\[(\d+)\] = \{(.*?)\};", text, re.DOTALL)
    tables = {
        name: [int(item.strip().rstrip("u"), 0) for item in body.split(",") if item.strip()] for name, _, body in arrays
    }
    assert all(len(tables[name]) == int(size) for name, size, _ in arrays)
    return tables


TABLES = read_tables()


def kind_and_folded(c: int) -> tuple[str, int]:
    """Return the kind of a code point and what it becomes."""
    if c in (0x27, 0x2019, 0x02BC):
        return "joiner", 0x27
    if c in (0xB7, 0x200C, 0x200D):
        return "joiner", c
    if c >= 0x10000:
        is_word = c <= 0x1CFFF or 0x1E000 <= c <= 0x1EFFF or 0x20000 <= c <= 0x3FFFF
        return ("word" if is_word else "separator"), c
    if not TABLES["kWordBlocks"][TABLES["kWordIndex"][c // 64]] >> (c % 64) & 1:
        return "separator", c
    return "word", (c + TABLES["kFoldBlocks"][TABLES["kFoldIndex"][c // 64] * 64 + c % 64]) % 0x10000


def words_of(text: str) -> Iterator[list[int]]:
    """Yield the folded words of a text."""
    kinds = [kind_and_folded(ord(character)) for character in text]
    word: list[int] = []
    for i, (kind, folded) in enumerate(kinds):
        is_held = kind == "joiner" and 0 < i < len(kinds) - 1 and kinds[i - 1][0] == kinds[i + 1][0] == "word"
        if kind == "word" or is_held:
            word.append(folded)
        elif word:
            yield word
            word = []
    if word:
        yield word


def hash_of(state: int, characters: list[int], buckets: int) -> int:
    """Return the id of one n-gram or word."""
    for c in characters:
        state = ((state ^ c) * 0x9E3779B97F4A7C15) & MASK
        state ^= state >> 32
    return (state & 0xFFFFFFFF) * buckets >> 32


def reference(text: str, min_order: int, max_order: int, buckets: int, seed: int) -> list[int]:
    """Return all ids of a text, as the page says."""
    ids = []
    for word in words_of(text):
        w = [0x20, *word, 0x20]
        for last in range(len(w)):
            for n in range(min_order, max_order + 1):
                ngram = w[last - n + 1 : last + 1] if last + 1 >= n else []
                if ngram and ngram != [0x20]:
                    ids.append(hash_of(seed, ngram, buckets))
        if len(word) + 2 > max_order and len(word) <= 32:
            ids.append(hash_of(seed ^ 0xD1B54A32D192ED03, w, buckets))
    return ids


def native(text: bytes | str, params: tuple[int, int, int, int], capacity: int = 1 << 16) -> list[int]:
    """Return the native ids."""
    ids: list[int] = _native.ngram_hash(text, *params, capacity).tolist()
    return ids


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("name", TEXTS)
def test_ids_of_real_text_equal_the_reference(name: str, params: tuple[int, int, int, int]) -> None:
    """Two implementations of the page give the same ids in every script."""
    assert native(TEXTS[name], params) == reference(TEXTS[name], *params)


@given(st.text(max_size=60), st.sampled_from(PARAMS))
def test_ids_of_any_text_equal_the_reference(text: str, params: tuple[int, int, int, int]) -> None:
    """Any code points, unassigned ones and controls included."""
    assert native(text, params) == reference(text, *params)


@given(st.text(alphabet="aB'’·\u200d -ß", max_size=24))
def test_joiners_hold_words_together_only_inside_them(text: str) -> None:
    """Every arrangement of letters, joiners and separators is cut as the page says."""
    assert native(text, PARAMS[0]) == reference(text, *PARAMS[0])


@pytest.mark.thorough
def test_every_code_point_has_its_kind_and_folding() -> None:
    """One word of three characters for each code point: the whole of both tables and the rules beyond the BMP."""
    for first in range(0, 0x110000, 0x1000):
        characters = [chr(c) for c in range(first, first + 0x1000) if not 0xD800 <= c <= 0xDFFF]
        text = " ".join(f"a{character}a" for character in characters)
        assert native(text, (3, 3, 2**31 - 1, 5)) == reference(text, 3, 3, 2**31 - 1, 5), hex(first)


FROZEN = [
    10582, 8696, 4883, 42656, 117041, 107927, 50274, 84384, 39389, 37471, 80293, 70954, 22675,
    25715, 50684, 73456, 104065, 116288, 51291, 80293, 55704, 61382, 81819, 60373, 114645,
]  # fmt: skip


def test_ids_are_frozen() -> None:
    """Trained tables are worth nothing if ids move: these must never change."""
    assert native("Wo ist's?", (1, 3, 120_000, SEED)) == FROZEN


def test_case_does_not_change_ids() -> None:
    """Capitals, small letters and fullwidth letters are one."""
    for lower, upper in [
        ("straße", "STRAßE"),
        ("tiếng việt", "TIẾNG VIỆT"),
        ("ẹ káàárọ̀", "Ẹ KÁÀÁRỌ̀"),
        ("обʼєкт", "ОБ'ЄКТ"),
    ]:
        assert native(lower, PARAMS[0]) == native(upper, PARAMS[0])
    assert native("hello", PARAMS[0]) == native("ＨＥＬＬＯ", PARAMS[0])


def test_capacity_cuts_the_ids_and_stops_the_reading() -> None:
    """For every capacity: the first ids and no more; a malformed byte after them is not looked at."""
    text = TEXTS["de"].encode()
    ids = native(text, PARAMS[0])
    for capacity in range(1, len(ids) + 1):
        assert native(text, PARAMS[0], capacity) == ids[:capacity]
    assert native(text + b" \xff", PARAMS[0], len(ids)) == ids
    with pytest.raises(InvalidTextError):
        native(text + b" \xff", PARAMS[0], len(ids) + 1)


def test_batch_equals_one_by_one() -> None:
    """The form that training uses gives the same ids, and offsets that delimit each text."""
    texts = list(TEXTS.values())
    ids, offsets = _native.ngram_hash_batch(texts, *PARAMS[0], 100)
    assert len(offsets) == len(texts) + 1
    for i, text in enumerate(texts):
        assert ids[offsets[i] : offsets[i + 1]].tolist() == native(text, PARAMS[0], 100)


def malformed_at(data: bytes) -> int | None:
    """Return where Python's strict decoder stops, None if it does not."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def refused_at(data: bytes) -> int:
    """Return the position that the native code names as it refuses the bytes."""
    with pytest.raises(InvalidTextError) as caught:
        native(data, PARAMS[0], 64)
    return caught.value.position


MALFORMED = [
    (b"\x80", 0),
    (b"ab\xbf", 2),
    (b"\xc0\x80", 0),
    (b"\xc1\xbf", 0),
    (b"a\xc3", 1),
    (b"a\xc3b", 1),
    (b"\xe0\x9f\xbf", 0),
    (b"\xed\xa0\x80", 0),
    (b"ok \xed\xbf\xbf", 3),
    (b"\xe2\x82", 0),
    (b"\xe2\x82a", 0),
    (b"\xf0\x8f\xbf\xbf", 0),
    (b"\xf4\x90\x80\x80", 0),
    (b"\xf5\x80\x80\x80", 0),
    (b"\xf0\x9f\x98", 0),
    (b"\xff", 0),
    ("é".encode("latin-1"), 0),
    ("Größe".encode() + b"\xfe", 7),
]


@pytest.mark.parametrize(("data", "position"), MALFORMED)
def test_malformed_bytes_are_refused_with_their_position(data: bytes, position: int) -> None:
    """Overlong forms, surrogates, too large values, stray and missing bytes: the first byte of the sequence."""
    assert refused_at(data) == position


@given(
    st.binary(max_size=12)
    | st.lists(st.sampled_from([b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"a", b"\xc3", b"\xed\xa0"])).map(b"".join)
)
def test_any_bytes_are_accepted_exactly_when_python_accepts_them(data: bytes) -> None:
    """The same verdict and the same position as Python's strict decoder."""
    position = malformed_at(data)
    if position is None:
        assert native(data, PARAMS[0]) == reference(data.decode(), *PARAMS[0])
    else:
        assert refused_at(data) == position


def test_every_lead_and_second_byte_is_judged_as_python_judges() -> None:
    """All 65,536 pairs of first bytes, with two valid continuation bytes after them."""
    for lead in range(0x80, 0x100):
        for second in range(0x100):
            data = bytes([lead, second, 0x80, 0x80])
            position = malformed_at(data)
            if position is None:
                native(data, PARAMS[0], 64)
            else:
                assert refused_at(data) == position


def test_committed_tables_are_what_the_script_makes() -> None:
    """The same Unicode version: the same file. A newer one: what was a word character still is."""
    text = Path(make_tables.__file__).with_name("tables.inc").read_text(encoding="utf-8")
    if f"Unicode {unicodedata.unidata_version};" in text:
        assert make_tables.tables() == text
    committed = {c for c in range(0x10000) if TABLES["kWordBlocks"][TABLES["kWordIndex"][c // 64]] >> (c % 64) & 1}
    assert all(make_tables.is_word_character(c) for c in committed)


def test_a_hash_that_leaves_out_the_boundaries_is_caught() -> None:
    """The comparison can fail: a reference without boundary markers gives other ids."""
    unwrapped = [hash_of(SEED, [ord(c)], 120_000) for c in "abc"]
    assert native("abc", (1, 4, 120_000, SEED)) != unwrapped
