"""Generates tokens with a language model: prefill once, then decode token by token, until something ends it.

The program keeps its own past in states (`docs/how-to/language-models.md`). Which token is chosen follows from logits,
sampling and the token's number alone, by exact arithmetic in native code: the same on every machine.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Final, SupportsIndex

import numpy as np
from alcove.runtime import _native
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.errors import ArgumentError, InputError
from alcove.runtime.format.spec import DType
from alcove.runtime.model import Model, Port, Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

PREFILL: Final = "prefill"
DECODE: Final = "decode"
_WHOLE: Final = {DType.I64: np.int64, DType.I32: np.int32}


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen from logits.

    Attributes:
        temperature: logits are divided by it; 0 takes the greatest, the first of equal ones.
        top_k: among the k greatest alone; 0 for all.
        top_p: among the fewest that together have this probability, in (0, 1]; of those that `top_k` leaves.
        seed: of the random bits, in [0, 2**64).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def choose(self, logits: "NDArray[np.float32]", draw: int) -> int:
        """Return the token that is chosen from f32 [vocabulary], with random bits number `draw` of the seed.

        Raises:
            InputError: a number is out of range, or a logit is NaN or infinite.
        """
        for name, value, bits in (("top_k", self.top_k, 32), ("seed", self.seed, 64), ("draw", draw, 64)):
            if not 0 <= value < 1 << bits:
                raise InputError(None, f"{name} is {value}, allowed are 0 to 2**{bits} - 1")
        row = np.ascontiguousarray(logits, np.float32)
        return _native.sample_logits(row, self.temperature, self.top_k, self.top_p, self.seed, draw)


GREEDY: Final = Sampling()
"""Takes the greatest logit."""


@dataclass(frozen=True)
class _Step:
    """A method that takes tokens and gives logits.

    Attributes:
        method: its name.
        tokens: its first input.
        position: its second input, which says where the tokens stand; None where the program counts by itself.
        least: fewest tokens of a run.
        most: most tokens of a run.
    """

    method: str
    tokens: Port
    position: Port | None
    least: int
    most: int

    def run(self, session: Session, tokens: Sequence[int], start: int) -> "NDArray[np.float32]":
        """Return the logits of the last of these tokens, f32 [vocabulary]."""
        inputs = [_fill(self.tokens, tokens)]
        if self.position is not None:
            inputs.append(_fill(self.position, range(start, start + len(tokens))))
        logits: NDArray[np.float32] = session.run(self.method, *inputs)[0]
        last: NDArray[np.float32] = logits.reshape(-1, logits.shape[-1])[-1]
        return last


def generate(
    model: Model | Session,
    tokens: Iterable[SupportsIndex],
    max_new_tokens: int,
    *,
    sampling: Sampling = GREEDY,
    stop: Iterable[SupportsIndex] = (),
    start: int = 0,
    cancellation: Cancellation | None = None,
) -> Iterator[int]:
    """Yield the tokens that a language model continues `tokens` with, each as soon as it is chosen.

    The program has a method "prefill" and a method "decode", or one method for both. The first input is tokens, int64
    or int32 [n] or [1, n]; a second one, if there is one, is where they stand. The first output is logits, float32
    [..., vocabulary], of which the last row counts. Prompts that are longer than a run of "prefill" takes are given in
    parts; what remains goes through "decode".

    Close the iterator (or leave the loop) to end early: a session then holds the prompt and every token that was
    yielded but the last.

    Args:
        model: a model, of which each call makes a new session; or a session, which goes on from what it holds.
        tokens: the prompt, or what follows on what the session holds; at least one, in a list, an array or a tensor of
            one dimension.
        max_new_tokens: most tokens to yield.
        sampling: how each is chosen; token number i of a call takes random bits number i of the seed.
        stop: tokens that end it; they are not yielded.
        start: where the first of `tokens` stands, for a program that is told; 0 in a new session.
        cancellation: ends a run at hand, from any thread.

    Raises:
        ArgumentError: the program is no such model, there are no tokens, or they can't be divided into its runs.
        InputError: a number of `sampling` is out of range; while it runs, a token is, a logit is NaN or infinite, or
            the cache is full.
        RunCancelledError: the session or `cancellation` was cancelled; the session is as before that run.
    """
    session = model.session() if isinstance(model, Model) else model
    steps = _steps(session.model)
    prompt = _whole_numbers("a token", tokens)
    if not prompt:
        raise ArgumentError("generate needs at least one token to continue")
    if max_new_tokens < 0:
        raise ArgumentError(f"generate of {max_new_tokens} tokens")
    _check_divisible(steps, len(prompt), max_new_tokens)
    sampling.choose(np.zeros(1, np.float32), 0)  # refuses numbers out of range
    return _generate(
        session=session,
        steps=steps,
        tokens=prompt,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        stop=frozenset(_whole_numbers("a stop", stop)),
        start=start,
        cancellation=cancellation,
    )


def _whole_numbers(what: str, values: Iterable[SupportsIndex]) -> list[int]:
    """Return whole numbers of any type, also numpy's and torch's, as Python has them."""
    try:
        return [index(value) for value in values]
    except TypeError as error:
        raise ArgumentError(f"{what} is no whole number, or they are not in one row: {values!r:.80}") from error


def _check_divisible(steps: "tuple[_Step, ...]", count: int, max_new_tokens: int) -> None:
    """Refuse, before anything runs, tokens that can't be divided into runs."""
    while max_new_tokens > 0 and count > 0:
        count -= min(_step_for(steps, count).most, count)
    if max_new_tokens > 1:
        _step_for(steps, 1)


def _generate(
    *,
    session: Session,
    steps: tuple[_Step, ...],
    tokens: list[int],
    max_new_tokens: int,
    sampling: Sampling,
    stop: frozenset[int],
    start: int,
    cancellation: Cancellation | None,
) -> Iterator[int]:
    for draw in range(max_new_tokens):
        while True:
            step = _step_for(steps, len(tokens))
            count = min(step.most, len(tokens))
            logits = _run(session, step, tokens[:count], start, cancellation)
            tokens, start = tokens[count:], start + count
            if not tokens:
                break
        token = sampling.choose(logits, draw)
        if token in stop:
            return
        yield token
        tokens = [token]


def _run(
    session: Session, step: _Step, tokens: list[int], start: int, cancellation: Cancellation | None
) -> "NDArray[np.float32]":
    if cancellation is None:
        return step.run(session, tokens, start)
    try:
        with cancellation.over(session):
            return step.run(session, tokens, start)
    finally:
        if cancellation.is_cancelled:  # else it was `Session.cancel`, which holds for later runs too
            session.uncancel()


def _steps(model: Model) -> tuple[_Step, ...]:
    """Return what a program's tokens can go through, the first to be tried first."""
    names: list[str] = [name for name in (PREFILL, DECODE) if name in model.methods]
    if not names and len(model.methods) == 1:
        names = list(model.methods)
    if not names:
        raise ArgumentError(f"the program has the methods {', '.join(model.methods)}; generate runs prefill and decode")
    return tuple(_read_step(name, model.method(name)) for name in names)


def _read_step(name: str, model: Model) -> _Step:
    if not 1 <= len(model.inputs) <= 2 or any(port.dtype not in _WHOLE for port in model.inputs):
        raise ArgumentError(f"method {name!r} takes other inputs than tokens and where they stand: {model.inputs}")
    if not model.outputs or model.outputs[0].dtype is not DType.F32 or not model.outputs[0].shape:
        raise ArgumentError(f"the first output of method {name!r} is no float32 logits")
    tokens, *rest = model.inputs
    if len(tokens.shape) not in (1, 2) or (len(tokens.shape) == 2 and tokens.shape[0] != 1):
        raise ArgumentError(f"the tokens of method {name!r} are [n] or [1, n], not [{', '.join(tokens.dims)}]")
    least = int(tokens.dims[-1].split("..")[0])
    return _Step(name, tokens, rest[0] if rest else None, least, tokens.shape[-1])


def _step_for(steps: tuple[_Step, ...], count: int) -> _Step:
    for step in steps:
        if step.least <= count:
            return step
    fewest = min(step.least for step in steps)
    raise ArgumentError(f"{count} tokens remain, and no method of the program takes fewer than {fewest}")


def _fill(port: Port, values: Sequence[int]) -> "NDArray[np.int64 | np.int32]":
    """Return values as a port takes them; of a port that takes one number the first."""
    array = np.array(values, _WHOLE[port.dtype])
    if not port.shape or (port.shape[-1] == 1 and port.dims[-1] == "1"):
        return array[:1].reshape(port.shape)
    return array.reshape((1,) * (len(port.shape) - 1) + (len(values),))
