"""Tokens become text again, all at once or as they come."""

from alcove.runtime.testing_tokens import byte_pair, unigram, word_piece
from alcove.runtime.tokenizers import Tokenizer
from hypothesis import given
from hypothesis import strategies as st

PLAIN = Tokenizer.from_parts(byte_pair(), {})
BYTES = Tokenizer.from_parts(byte_pair(), {}, drops_first_space=True)


@given(text=st.text())
def test_text_through_bytes_comes_back(text: str) -> None:
    """A byte-level tokenizer loses nothing, but for the space that it puts before a text."""
    ids = BYTES.encode(text, capacity=4096)
    expected = text.replace("\x7f", "").removeprefix(" ")  # which its table drops
    assert BYTES.decode(ids) == "".join(BYTES.stream(ids)) == expected


@given(ids=st.lists(st.integers(0, 255), max_size=12))
def test_a_stream_of_any_bytes_is_the_decoded_text(ids: list[int]) -> None:
    """Characters that are cut, and bytes that are none, become U+FFFD as they do at once."""
    assert "".join(PLAIN.stream(ids)) == PLAIN.decode(ids)


def test_a_stream_holds_back_what_is_no_whole_character() -> None:
    """Four bytes are four tokens and one character."""
    assert list(PLAIN.stream("a😀é".encode())) == ["a", "😀", "é"]


def test_marks_and_continuations_are_written_as_people_write() -> None:
    """Spaces for U+2581, none within a word."""
    pieces = Tokenizer.from_parts(unigram(), {}, drops_first_space=True)
    assert pieces.decode(pieces.encode("the an here")[1:-2]) == "the an here"
    words = Tokenizer.from_parts(word_piece(), {}, drops_first_space=True)
    assert words.decode(words.encode("there an!")) == "there an !"
