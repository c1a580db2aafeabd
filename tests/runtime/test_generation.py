"""Tokens are chosen by exact arithmetic: published random bits, a plain oracle; iterators end when they should."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.runtime import ArgumentError, Cancellation, InputError, RunCancelledError, Sampling, _native, generate, load
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from alcove.runtime.model import Model
from alcove.runtime.testing import Assembly, classifier
from numpy.typing import NDArray

VOCABULARY = 7


def logits(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Numbers as a model's, two of them equal."""
    values = (np.random.default_rng(seed).standard_normal(count) * 2).astype(np.float32)
    values[count // 2] = values[0]
    return values


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_random_bits_are_those_of_the_published_vectors(counter: list[int], key: list[int], words: object) -> None:
    """Random123 1.14, kat_vectors, philox4x32 10."""
    assert _native.philox(counter, key) == words


def weights(values: NDArray[np.float32], temperature: float) -> list[int]:
    """The weights by plain double arithmetic, step by step as sampling.h says."""
    taylor = [1.0 / k for k in (39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1)]
    greatest, result = float(values.max()), []
    for value in values:
        x = (float(value) - greatest) * (1.0 / temperature)
        if not x > -28.0:
            result.append(0)
            continue
        n = float(np.floor(x * float.fromhex("0x1.71547652b82fep+0") + 0.5))
        r = (x - n * float.fromhex("0x1.62e42fee00000p-1")) - n * float.fromhex("0x1.a39ef35793c76p-33")
        p = taylor[0]
        for term in taylor[1:]:
            p = p * r + term
        result.append(int(min(p * 2.0**n, 1.0) * 2.0**40))
    return result


def oracle(values: NDArray[np.float32], sampling: Sampling, draw: int) -> int:
    """The token, by sorting and adding up whole numbers."""
    order = sorted(range(len(values)), key=lambda i: (-float(values[i]), i))
    if sampling.temperature == 0:
        return order[0]
    kept = order[: sampling.top_k] if sampling.top_k else order
    weight = weights(values, sampling.temperature)
    if sampling.top_p < 1:
        enough = (int(sampling.top_p * 2**32) << 32) * sum(weight[i] for i in kept) >> 64
        total, fewest = 0, []
        for i in kept:
            fewest.append(i)
            total += weight[i]
            if total >= enough:
                break
        kept = fewest
    key = [sampling.seed & 0xFFFFFFFF, sampling.seed >> 32]
    low, high, _, _ = _native.philox([draw & 0xFFFFFFFF, draw >> 32, 0, 0], key)
    point = (high << 32 | low) * sum(weight[i] for i in kept) >> 64
    for i in sorted(kept):
        point -= weight[i]
        if point < 0:
            return i
    raise AssertionError


@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.7, 1.0, 30.0])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (1, 1.0), (5, 1.0), (99, 1.0), (0, 0.5), (0, 1e-12), (6, 0.9)])
def test_tokens_are_those_of_a_plain_oracle(temperature: float, top_k: int, top_p: float) -> None:
    """Several sizes, seeds and draws, equal logits and logits that are never chosen among them."""
    for count in (1, 2, 19, 90):
        values = logits(count)
        if count > 2:
            values[1] = -np.inf
        for draw in (0, 1, 2**32, 2**64 - 1):
            sampling = Sampling(temperature, top_k, top_p, seed=draw ^ 0x123456789ABCDEF)
            assert sampling.choose(values, draw) == oracle(values, sampling, draw)


def test_tokens_come_as_often_as_their_probability_says() -> None:
    """20,000 draws: each within five standard deviations."""
    values = logits(6)
    expected = np.array([float(Fraction(w, sum(weights(values, 1.0)))) for w in weights(values, 1.0)])
    seen = np.bincount([Sampling(1.0, seed=5).choose(values, i) for i in range(20000)], minlength=6) / 20000
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / 20000)).all()


@pytest.mark.parametrize(
    ("sampling", "value", "words"),
    [
        (Sampling(-1.0), 0.0, "temperature is -1"),
        (Sampling(float("nan")), 0.0, "temperature"),
        (Sampling(float("inf")), 0.0, "temperature"),
        (Sampling(1.0, top_p=0.0), 0.0, "top_p is 0"),
        (Sampling(1.0, top_p=1.5), 0.0, "top_p"),
        (Sampling(1.0, top_k=-1), 0.0, "top_k is -1"),
        (Sampling(1.0, top_k=2**32), 0.0, "top_k is 4294967296"),
        (Sampling(1.0, seed=-1), 0.0, "seed is -1"),
        (Sampling(1.0, seed=2**64), 0.0, "seed is 18446744073709551616"),
        (Sampling(), float("nan"), "logit 1 is nan"),
        (Sampling(1.0), float("inf"), "logit 1 is inf"),
    ],
)
def test_what_gives_no_choice_is_refused(sampling: Sampling, value: float, words: str) -> None:
    """Numbers out of range, and logits that are no numbers."""
    with pytest.raises(InputError, match=words):
        sampling.choose(np.array([0, value], np.float32), 0)
    with pytest.raises(InputError, match=f"0 logits|{words}"):
        sampling.choose(np.zeros(0, np.float32), 0)


def successor(*, most: int = 4) -> Model:
    """A model that says that the token after t is t + 1, modulo 7, and keeps the sum of what it was given.

    One method for runs of exactly one token, or of 1 to `most`.
    """
    build = Assembly()
    table = build.constant("table", np.roll(np.eye(VOCABULARY, dtype=np.float32), 1, axis=1) * np.float32(9))
    rows = build.state("given", np.full(12, -1, np.int64))
    count = build.state("count", np.zeros(1, np.int64))
    build.update(rows, rows)
    tokens = build.input("tokens", DType.I64, (1,))
    build.op("write_rows", [rows, count, tokens], (DType.I64, (1,)), attributes=(0, 0))
    (one,) = build.op("fill", [], (DType.I64, (1,)), attributes=(1,))
    (more,) = build.op("binary", [count, one], (DType.I64, (1,)), attributes=(1,))
    build.update(count, more)
    (row,) = build.op("index_select", [table, tokens], (DType.F32, (1, VOCABULARY)), attributes=(0, 0))
    (given,) = build.op("concat", [rows], (DType.I64, (12,)), attributes=(0,))
    build.output("logits", row)
    build.output("given", given)
    return load(build.program())


def test_each_token_is_given_back_until_the_most_or_a_stop() -> None:
    """The model counts on; a stop is not yielded, and a session goes on after it."""
    model = successor()
    assert list(generate(model, [2, 3], 4)) == [4, 5, 6, 0]
    session = model.session()
    assert list(generate(session, [2, 3], 9, stop={6})) == [4, 5]
    assert list(generate(session, [1], 2)) == [2, 3]
    given = session(np.array([0]))[1]
    assert given.tolist() == [2, 3, 4, 5, 1, 2, 0, -1, -1, -1, -1, -1]
    assert list(generate(model, [2], 0)) == []


def test_who_leaves_the_loop_leaves_the_last_token_out() -> None:
    """The session holds what was yielded before it."""
    session = successor().session()
    for token in generate(session, [0], 9):
        if token == 3:
            break
    assert session(np.array([6]))[1][:5].tolist() == [0, 1, 2, 6, -1]


def test_a_full_cache_and_a_cancelled_run_end_it_by_name() -> None:
    """And the session is as before that run."""
    session = successor().session()
    with pytest.raises(InputError, match="write_rows: index 0 is 12, allowed are 0 to 11"):
        list(generate(session, [0], 20))
    session.reset()
    cancellation = Cancellation()
    tokens = generate(session, [0], 9, cancellation=cancellation)
    assert [next(tokens), next(tokens)] == [1, 2]
    cancellation.cancel()
    with pytest.raises(RunCancelledError):
        next(tokens)
    assert session(np.array([5]))[1][:4].tolist() == [0, 1, 5, -1]


def test_a_session_that_is_cancelled_itself_stays_so_beside_a_cancellation() -> None:
    """Until it is uncancelled, as without one."""
    session = successor().session()
    tokens = generate(session, [0], 9, cancellation=Cancellation())
    assert next(tokens) == 1
    session.cancel()
    with pytest.raises(RunCancelledError):
        next(tokens)
    with pytest.raises(RunCancelledError):
        session(np.array([5]))
    session.uncancel()
    assert session(np.array([5]))[1][:3].tolist() == [0, 5, -1]


def test_what_is_no_language_model_is_refused() -> None:
    """No tokens in, no logits out, nothing to continue."""
    with pytest.raises(ArgumentError, match="takes other inputs than tokens"):
        generate(load(write_program(classifier())), [1], 1)
    with pytest.raises(ArgumentError, match="at least one token"):
        generate(successor(), [], 1)


def test_a_prompt_may_be_any_row_of_whole_numbers() -> None:
    """Lists, tuples, arrays, what an iterator gives; stops too."""
    model = successor()
    prompts = ([2, 3], (2, 3), np.array([2, 3]), np.array([2, 3], np.uint8), iter([2, 3]), range(2, 4))
    for prompt in prompts:
        assert list(generate(model, prompt, 9, stop=np.array([6]))) == [4, 5]


def test_what_can_never_run_is_refused_before_anything_runs() -> None:
    """The session is as it was."""
    session = successor().session()
    for prompt in ([1.5], np.array([[1, 2]]), ["1"], np.array([1.0])):
        with pytest.raises(ArgumentError, match="a token is no whole number"):
            generate(session, prompt, 1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a stop is no whole number"):
        generate(session, [1], 1, stop=["</s>"])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="generate of -1 tokens"):
        generate(session, [1], -1)
    with pytest.raises(InputError, match="top_p is 0"):
        generate(session, [1], 1, sampling=Sampling(1.0, top_p=0.0))
    assert session(np.array([5]))[1][:2].tolist() == [5, -1]
