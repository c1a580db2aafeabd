"""Generates text with a language model whose program also holds its tokenizer."""

import codecs
from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.errors import ArgumentError
from alcove.runtime.format.spec import DType
from alcove.runtime.generation import GREEDY, Sampling, generate
from alcove.runtime.model import Model, Session

TOKENIZE: Final = "tokenize"
DETOKENIZE: Final = "detokenize"


def generate_text(
    model: Model | Session,
    text: str,
    max_new_tokens: int,
    *,
    sampling: Sampling = GREEDY,
    stop: Collection[int] = (),
    cancellation: Cancellation | None = None,
) -> Iterator[str]:
    """Yield what a language model continues a text with, each piece as soon as its characters are whole.

    Beside what `generate` asks for, the program has the modules of `alcove.runtime.tokenizers.modules` as methods:
    "tokenize", of a text to int64 [capacity] and their number int64 [1], and "detokenize", of one token int64 [1] to
    uint8 [capacity] and their number int64 [1].

    Args:
        model: a model, of which each call makes a new session; or a session, which goes on from what it holds.
        text: the prompt.
        max_new_tokens: most tokens to generate.
        sampling: how each is chosen.
        stop: tokens that end it; they are not written.
        cancellation: ends a run at hand, from any thread.

    Raises:
        ArgumentError: the program is no such model, or the text has no tokens.
        InputError: the cache is full.
        InvalidTextError: a surrogate stands alone.
        RunCancelledError: the session or `cancellation` was cancelled.
    """
    session = model.session() if isinstance(model, Model) else model
    _check_methods(session.model)
    ids, count = session.run(TOKENIZE, text)[:2]
    prompt = ids.reshape(-1)[: int(count.reshape(-1)[0])].tolist()
    if not prompt:
        raise ArgumentError("generate_text needs a text of at least one token")
    tokens = generate(session, prompt, max_new_tokens, sampling=sampling, stop=stop, cancellation=cancellation)
    return _write(session, tokens)


def _write(session: Session, tokens: Iterator[int]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        utf8, size = session.run(DETOKENIZE, np.array([token], np.int64))[:2]
        if piece := decoder.decode(utf8.reshape(-1)[: int(size.reshape(-1)[0])].tobytes()):
            yield piece
    if rest := decoder.decode(b"", final=True):
        yield rest


def _check_methods(model: Model) -> None:
    missing = [name for name in (TOKENIZE, DETOKENIZE) if name not in model.methods]
    if missing:
        raise ArgumentError(
            f"the program has no method {missing[0]!r}, so it takes tokens and no text; there are "
            f"{', '.join(model.methods)}"
        )
    token = model.method(DETOKENIZE).inputs
    if len(token) != 1 or token[0].dtype is not DType.I64 or tuple(token[0].shape) != (1,):
        raise ArgumentError(f"method {DETOKENIZE!r} takes another input than one token, int64 [1]: {token}")
    if [port.dtype for port in model.method(TOKENIZE).inputs] != [DType.TEXT]:
        raise ArgumentError(f"method {TOKENIZE!r} takes other inputs than a text")
