"""An n-gram hash with a table composes text as Unicode's NFC, and is safe whatever the table's bytes are.

The page is kernels/microkernels/ngram_hash/README.md, "Table"; composing is compared with Python's `unicodedata`.
"""

import unicodedata

import numpy as np
import pytest
from alcove.runtime import InputError, InvalidTextError, _native
from alcove.runtime.composition import make_composition_table
from hypothesis import given
from hypothesis import strategies as st

HASH = (1, 5, 61_056, 7)
COMPOSES = make_composition_table()
MARKS = (
    "".join(map(chr, range(0x300, 0x370)))
    + "\u0591\u05bc\u0653\u064b\u093c\u094d\u09be\u0dcf\u0f71\u0f72\u0e38\u3099\u1161\u11a8"
)
BASES = (
    "aAeioOuycdhrstzäêộǖǭșẹọ"
    "ΑαιυωᾳΰῆЕеиіїגשבﬡאوقनकळক࿙ᄀ가각れウ一"
    "\u212b\u2126\u0958\ufb1d\u0344\u0340\u1fef\uf900\u09c7\u0dd9\u2000 -1'·"
)
BEYOND_THE_BMP = frozenset(
    c for c in range(0x10000) if any(ord(d) >= 0x10000 for d in unicodedata.normalize("NFC", chr(c)))
)


def ids(text: str | bytes, table: bytes | None = None, capacity: int = 1 << 16, buckets: int = HASH[2]) -> list[int]:
    """Return the native ids."""
    found: list[int] = _native.ngram_hash(text, HASH[0], HASH[1], buckets, HASH[3], capacity, table).tolist()
    return found


BMP = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters=[*map(chr, BEYOND_THE_BMP)])


@given(st.text(alphabet=BASES + MARKS * 2, max_size=12) | st.text(alphabet=BMP, max_size=20))
def test_text_with_a_table_has_the_ids_of_its_nfc(text: str) -> None:
    """Marks in any order and number, Hangul's letters, characters that stand for others, a mark at the beginning."""
    assert ids(text, COMPOSES) == ids(unicodedata.normalize("NFC", text))


@given(st.text(alphabet="𐐀𠀀😀ae\u0301\u0323", max_size=12))
def test_characters_beyond_the_bmp_stay_and_hold_what_is_around_them_apart(text: str) -> None:
    """None of these composes with anything."""
    assert ids(text, COMPOSES) == ids(unicodedata.normalize("NFC", text))


def test_every_code_point_of_the_bmp_becomes_its_nfc() -> None:
    """One word for each, but for the seven whose form lies beyond the BMP."""
    assert len(BEYOND_THE_BMP) == 7
    for first in range(0, 0x10000, 0x1000):
        points = [c for c in range(first, first + 0x1000) if not 0xD800 <= c < 0xE000 and c not in BEYOND_THE_BMP]
        text = " ".join(f"a{chr(c)}b" for c in points)
        assert ids(text, COMPOSES) == ids(unicodedata.normalize("NFC", text)), hex(first)


def test_everyday_text_typed_in_any_form_is_one() -> None:
    """Composed, decomposed, and half composed, as keyboards of Vietnamese give it."""
    for text in ["Trạm xe lửa gần nhất ở đâu?", "가장 가까운 기차역이 어디예요?", "Ọ̀rọ̀ àkọ́kọ́", "Žluťoučký kůň", "क़लम"]:
        forms = {form: ids(unicodedata.normalize(form, text), COMPOSES) for form in ("NFC", "NFD")}
        assert forms["NFC"] == forms["NFD"] == ids(unicodedata.normalize("NFC", text))
    assert ids("viê\u0323t", COMPOSES) == ids("việt")


def test_a_long_run_of_marks_is_cut_and_costs_little() -> None:
    """32 code points are composed together; what follows stays as it is, and capacity ends the reading as ever."""
    marks = "\u0323\u0301" * 100
    assert ids("e" + marks[:31], COMPOSES) == ids(unicodedata.normalize("NFC", "e" + marks[:31]))
    assert len(ids("e" + marks, COMPOSES)) > 900
    assert len(ids("e" + "\u0323\u0301" * 100_000, COMPOSES, capacity=64)) == 64


def refused_at(data: bytes, table: bytes | None) -> int | None:
    """Return the position that is named as the bytes are refused, None if they are not."""
    try:
        ids(data, table)
    except InvalidTextError as error:
        return error.position
    return None


@given(st.binary(max_size=16) | st.lists(st.sampled_from([b"e", b"\xcc\x81", b"\xcc", b"\xe1\x84\x80"])).map(b"".join))
def test_malformed_bytes_are_refused_where_they_are_without_a_table(data: bytes) -> None:
    """The same verdict and position."""
    assert refused_at(data, COMPOSES) == refused_at(data, None)


def test_a_table_of_another_form_is_refused() -> None:
    """Any length but the right one, another mark."""
    for wrong in [b"", COMPOSES[:7], COMPOSES[:-1], COMPOSES + b"\0", b"XX" + COMPOSES[2:], COMPOSES[:999]]:
        with pytest.raises(InputError, match="table"):
            ids("text", wrong)


@given(st.data())
def test_no_bytes_of_a_table_give_an_id_beyond_the_buckets(data: st.DataObject) -> None:
    """A table that was changed anywhere gives other ids below `buckets`, or a typed error; it always ends."""
    table = bytearray(COMPOSES)
    for _ in range(data.draw(st.integers(1, 30))):
        table[data.draw(st.integers(0, len(table) - 1) | st.integers(0, 2000))] = data.draw(st.integers(0, 255))
    text = unicodedata.normalize("NFD", "Trạm xe lửa 가장 \u0344\u0958\u212b")
    text += data.draw(st.text(alphabet=BASES + MARKS, max_size=8))
    try:
        found = ids(text, bytes(table), buckets=64)
    except InputError:
        return
    assert all(0 <= one < 64 for one in found)


def test_a_table_full_of_chance_is_safe() -> None:
    """Indices, kinds, entries and order by chance, in a right frame."""
    random = np.random.default_rng(3)
    for _ in range(200):
        table = COMPOSES[:8] + random.integers(0, 256, len(COMPOSES) - 8, np.uint8).tobytes()
        text = "".join(chr(c) for c in random.integers(0x20, 0xD7FF, 60))
        assert all(0 <= one < 64 for one in ids(text, table, buckets=64))
