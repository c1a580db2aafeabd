"""The operators `tokenize` and `detokenize` follow their page, for any text, any table and any bytes."""

import struct
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, InvalidTextError, ProgramError, RunCancelledError, _native, export, load
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.testing import reseal
from alcove.runtime.testing_tokens import byte_pair, composing, tokens, unigram, word_piece
from alcove.runtime.tokenizers import Tokenizer
from alcove.runtime.tokenizers.modules import Detokenize, Tokenize
from alcove.runtime.tokenizers.table import Parts, write_table
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.runtime.tokenizers.reference import encode

MAKERS = (byte_pair, unigram, word_piece)
ALL = (*MAKERS, composing)
LETTERS = st.text(alphabet="thearnioANÆ\u0308 '\t\n!42s花한각\u2581\x7fé", max_size=60)
HANGUL = st.text(alphabet="xya \u1100\u1161\u11a8가각花", max_size=12)
TEXTS = st.text() | LETTERS | HANGUL
LONG = {
    "one letter": "a" * 1200,
    "the longest merge": "the" * 400,
    "spaces": " " * 1200,
    "ideographs": "花" * 400,
    "unknown": "é" * 600,
    "dropped": "\x7f" * 1200,
}


@cache
def parts(make: Callable[[], Parts]) -> Parts:
    """Return a tokenizer, made once."""
    return make()


@cache
def table(make: Callable[[], Parts]) -> bytes:
    """Return its table, written once."""
    return write_table(make())


@pytest.mark.parametrize("make", ALL)
@given(text=TEXTS, capacity=st.integers(0, 40), max_bytes=st.integers(1, 100))
def test_tokens_are_those_of_the_page(make: Callable[[], Parts], text: str, capacity: int, max_bytes: int) -> None:
    """Any text, with any room for tokens and bytes."""
    ids, count = _native.tokenize(text, table(make), capacity, max_bytes)
    assert (ids.tolist(), count) == encode(parts(make), text, capacity, max_bytes)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_long_words_have_the_same_tokens(make: Callable[[], Parts], text: str) -> None:
    """A word of a thousand symbols is joined as one of three is."""
    ids, count = _native.tokenize(text, table(make), 4096, 3000)
    assert (ids.tolist(), count) == encode(parts(make), text, 4096, 3000)


@pytest.mark.parametrize("make", MAKERS)
def test_every_cut_of_a_text_is_tokens_or_an_error_that_says_where(make: Callable[[], Parts]) -> None:
    """A text that ends within a character is refused at that character."""
    data = "aé花😀 the".encode()
    for end in range(len(data) + 1):
        whole = data[:end].decode(errors="ignore")
        if len(whole.encode()) == end:
            ids, _ = _native.tokenize(data[:end], table(make), 40, 100)
            assert ids.tolist() == encode(parts(make), whole, 40, 100)[0]
            continue
        with pytest.raises(InvalidTextError) as caught:
            _native.tokenize(data[:end], table(make), 40, 100)
        assert caught.value.position == len(whole.encode())


@pytest.mark.parametrize("make", ALL)
def test_any_byte_of_a_table_may_be_wrong(make: Callable[[], Parts]) -> None:
    """Tokens of the vocabulary that the bytes claim, or the error; each byte of fields and sections, and every cut."""
    whole = table(make)
    places = [*range(min(len(whole), 1200)), *range(1200, len(whole), 97)]
    for place in places:
        for value in (0, 0xFF, whole[place] ^ 0x80):
            _check_any(whole[:place] + bytes([value]) + whole[place + 1 :])
    for end in range(0, len(whole), 53):
        _check_any(whole[:end])


@given(data=st.binary(max_size=400))
def test_random_bytes_behind_the_fields_are_no_danger(data: bytes) -> None:
    """Sections of any place and size."""
    for model in range(3):
        for kind in range(5):
            _check_any(struct.pack("<4s5I", b"TOK1", model, kind, 0xFFFFFFFF, 3, 500) + data)


def _check_any(table_: bytes) -> None:
    (vocabulary,) = struct.unpack_from("<I", table_, 20) if len(table_) >= 24 else (0,)
    refusal = ""
    try:
        ids, count = _native.tokenize("the Æther 花 한글 an'tA\u0308 42", table_, 20, 60)
    except InputError as error:
        refusal = str(error)
    if refusal:
        assert "the table is not one of a tokenizer" in refusal
        return
    assert ((ids >= 0) & (ids < vocabulary)).all()
    assert 0 <= count <= len(ids)
    assert len(_native.detokenize(ids.tolist(), table_)) <= len(ids) * len(table_)


def test_a_program_gives_the_tokens_of_the_library() -> None:
    """All models in one program; ids back to bytes."""
    model = load(tokens())
    found = dict(zip((port.name for port in model.outputs), model("the Ænther 42", np.arange(5)), strict=True))
    for make in MAKERS:
        ids, count = _native.tokenize("the Ænther 42", table(make), 12, 64)
        assert found[f"{make.__name__} tokens"].tolist() == ids.tolist()
        assert found[f"{make.__name__} count"] == count
        utf8, size = found[f"{make.__name__} utf8"], int(found[f"{make.__name__} size"][0])
        assert _native.detokenize(list(range(5)), table(make)).startswith(utf8[:size].tobytes())
        assert not utf8[size:].any()


def test_a_program_names_the_text_and_the_id_that_it_refuses() -> None:
    """Typed errors, with the port, the place and the bound."""
    model = load(tokens())
    with pytest.raises(InvalidTextError, match="bad byte at position 2"):
        model(b"ab\xff", np.arange(5))
    with pytest.raises(InputError, match="detokenize: index 3 is 99, allowed are 0 to 15"):
        model("ab", np.array([0, 1, 2, 99, 4]))


@pytest.mark.parametrize("max_bytes", [0, -1, 2**20 + 1])
def test_a_bound_out_of_range_is_refused(max_bytes: int) -> None:
    """By the verifier, whatever scratch the program has."""
    data = bytearray(tokens())
    place = data.index(struct.pack("<q", 64))
    data[place : place + 8] = struct.pack("<q", max_bytes)
    with pytest.raises(ProgramError):
        load(reseal(bytes(data)))


class Classifier(nn.Module):
    """Mean of the embeddings of a text's tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.tokens, self.table = Tokenize(tokenizer, 16), nn.Embedding(tokenizer.vocabulary, 6)

    def forward(self, text: Tensor) -> Tensor:
        """Return f32 [6]."""
        ids, count = self.tokens(text)
        mask = (torch.arange(16) < count).float()
        mean: Tensor = (self.table(ids) * mask[:, None]).sum(0) / count.clamp(min=1)
        return mean


@pytest.mark.parametrize("make", MAKERS)
def test_a_module_that_reads_text_is_exported_whole(make: Callable[[], Parts]) -> None:
    """Text, tokens, embeddings and a mask in one program, equal to eager."""
    module = Classifier(Tokenizer.from_parts(make(), {})).eval()
    model = load(bytes(export(module, ("the an",))))
    for text in ("the an here", "", "花 the\u2581 42", "the " * 40):
        utf8 = torch.tensor(list(text.encode()), dtype=torch.uint8)
        np.testing.assert_allclose(model(text)[0], module(utf8).detach(), rtol=1e-5, atol=1e-6)


class Writer(nn.Module):
    """Tokens to text."""

    def __init__(self, tokenizer: Tokenizer, capacity: int) -> None:
        super().__init__()
        self.text = Detokenize(tokenizer, capacity)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return uint8 [capacity] and how many are in use."""
        utf8, size = self.text(ids)
        return utf8, size


def test_text_without_room_ends_at_a_token() -> None:
    """Eager and program leave out the same tokens."""
    module = Writer(Tokenizer.from_parts(byte_pair(), {}), 4)
    model = load(bytes(export(module, (torch.zeros(3, dtype=torch.int64),))))
    for ids in ([97, 98, 99], [256, 257, 97], [97, 256, 256]):
        utf8, size = module(torch.tensor(ids))
        ours = model(np.array(ids))
        assert (ours[0].tobytes(), ours[1].tolist()) == (bytes(utf8.tolist()), size.tolist())


def test_a_tokenizer_of_a_hostile_table_can_be_cancelled() -> None:
    """All pieces are the same long string, so that every search is as long as it can be."""
    whole = Parts(
        word_piece().model, word_piece().split, [b""], {b"a" * 255: 0}, most_characters=2**31, continuation=b""
    )
    module_of_text = Tokenize(Tokenizer.from_parts(whole, {}), 8, 2**17)
    session = load(bytes(export(module_of_text, ("a",)))).session()
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(RunCancelledError), cancellation.over(session):
        session("a" * 2**17)
