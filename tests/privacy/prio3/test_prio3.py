"""Valid reports add up, nothing else is accepted, and a helper's share is the same for every measurement."""

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest
from alcove.privacy.errors import ParameterError, VdafDecodeError, VdafError, VdafVerificationError
from alcove.privacy.prio3 import FIELD64, FIELD128, Count, Histogram, MultihotCountVec, Prio3, Report, Sum, SumVec
from alcove.privacy.prio3.polynomials import extend_to_power_of_2, inverse_ntt, ntt, odd_values, weights_at
from hypothesis import given, settings
from hypothesis import strategies as st

CONTEXT = b"alcove test"
KEY = bytes(range(32))


def verify(prio3: Prio3[Any, Any], nonce: bytes, public: bytes, shares: Sequence[bytes]) -> list[bytes]:
    """The output shares of a report, both aggregators being in one process."""
    given = [prio3.verify_init(KEY, CONTEXT, index, Report(nonce, public, share)) for index, share in enumerate(shares)]
    message = prio3.verifier_shares_to_message(CONTEXT, [share for _, share in given])
    return [prio3.verify_next(state, message) for state, _ in given]


def aggregate(prio3: Prio3[Any, Any], measurements: Sequence[object]) -> object:
    """The result of measurements, each sharded, verified and added."""
    outputs = []
    for measurement in measurements:
        nonce = os.urandom(16)
        outputs.append(verify(prio3, nonce, *prio3.shard(CONTEXT, measurement, nonce, os.urandom(prio3.rand_bytes))))
    return prio3.unshard([prio3.aggregate(each) for each in zip(*outputs, strict=True)])


@settings(max_examples=12)
@given(st.data())
def test_results_are_the_sums_of_measurements(data: st.DataObject) -> None:
    """Of every kind, any parameters, two to four aggregators."""
    shares = data.draw(st.integers(2, 4))
    length, chunk = data.draw(st.integers(1, 12)), data.draw(st.none() | st.integers(1, 8))
    most = data.draw(st.integers(1, 300))
    many = st.integers(1, 3)

    def draw(strategy: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(many.flatmap(lambda n: st.lists(strategy, min_size=n, max_size=n)))

    bits = draw(st.integers(0, 1))
    assert aggregate(Prio3(Count(), shares), bits) == sum(bits)
    numbers = draw(st.integers(0, most))
    assert aggregate(Prio3(Sum(most), shares), numbers) == sum(numbers)
    vectors = draw(st.lists(st.integers(0, most), min_size=length, max_size=length))
    assert aggregate(Prio3(SumVec(length, most, chunk), shares), vectors) == [
        sum(each) for each in zip(*vectors, strict=True)
    ]
    cells = draw(st.integers(0, length - 1))
    assert aggregate(Prio3(Histogram(length, chunk), shares), cells) == [cells.count(cell) for cell in range(length)]
    weight = data.draw(st.integers(1, length))
    places = draw(st.sets(st.integers(0, length - 1), max_size=weight))
    truths = [[place in each for place in range(length)] for each in places]
    expected = [sum(each) for each in zip(*truths, strict=True)]
    assert aggregate(Prio3(MultihotCountVec(length, weight, chunk), shares), truths) == expected


INSTANCES: list[tuple[Prio3[Any, Any], object]] = [
    (Prio3(Count()), 1),
    (Prio3(Sum(5)), 3),
    (Prio3(SumVec(2, 2, 2)), [1, 2]),
    (Prio3(Histogram(4, 2)), 3),
    (Prio3(MultihotCountVec(4, 2, 2)), [True, False, False, True]),
    (Prio3(Count(), proofs=2), 1),
]
NAMES = [f"{type(prio3.circuit).__name__} {prio3.proofs}" for prio3, _ in INSTANCES]


@pytest.mark.parametrize(("prio3", "measurement"), INSTANCES, ids=NAMES)
def test_report_with_any_byte_changed_is_refused(prio3: Prio3[Any, Any], measurement: object) -> None:
    """Nonce, public share and each input share, byte by byte; the same report unchanged is accepted."""
    source = random.Random(7)
    nonce = source.randbytes(16)
    public, shares = prio3.shard(CONTEXT, measurement, nonce, source.randbytes(prio3.rand_bytes))
    assert verify(prio3, nonce, public, shares)
    parts = [nonce, public, *shares]
    for index, part in enumerate(parts):
        if index == 0 and not public:
            continue  # without joint randomness the nonce is no part of the proof; DAP's associated data bind it
        for at in range(len(part)):
            changed = bytearray(part)
            changed[at] ^= 1 << source.randrange(8)
            mutant = [*parts[:index], bytes(changed), *parts[index + 1 :]]
            with pytest.raises(VdafError):
                verify(prio3, mutant[0], mutant[1], mutant[2:])


@pytest.mark.parametrize(("prio3", "measurement"), INSTANCES, ids=NAMES)
def test_report_of_another_context_or_key_is_refused(prio3: Prio3[Any, Any], measurement: object) -> None:
    """The aggregators' context is another than the client's; or their keys differ."""
    nonce = os.urandom(16)
    public, shares = prio3.shard(b"another task", measurement, nonce, os.urandom(prio3.rand_bytes))
    with pytest.raises(VdafVerificationError):
        verify(prio3, nonce, public, shares)
    public, shares = prio3.shard(CONTEXT, measurement, nonce, os.urandom(prio3.rand_bytes))
    messages = [
        prio3.verify_init(key, CONTEXT, index, Report(nonce, public, shares[index]))[1]
        for index, key in enumerate((KEY, bytes(32)))
    ]
    with pytest.raises(VdafVerificationError):
        prio3.verifier_shares_to_message(CONTEXT, messages)


@pytest.mark.parametrize(("prio3", "measurement"), INSTANCES, ids=NAMES)
def test_messages_of_another_size_are_refused(prio3: Prio3[Any, Any], measurement: object) -> None:
    """One byte more, one less, nothing: each message; the error names it."""
    nonce = os.urandom(16)
    public, shares = prio3.shard(CONTEXT, measurement, nonce, os.urandom(prio3.rand_bytes))
    for index, share in enumerate(shares):
        for wrong in (share + b"\0", share[:-1], b""):
            with pytest.raises(VdafDecodeError, match=f"aggregator {index}"):
                prio3.verify_init(KEY, CONTEXT, index, Report(nonce, public, wrong))
        with pytest.raises(VdafDecodeError, match="public share"):
            prio3.verify_init(KEY, CONTEXT, index, Report(nonce, public + b"\0", share))
    _, message = prio3.verify_init(KEY, CONTEXT, 0, Report(nonce, public, shares[0]))
    for wrong in (message + b"\0", message[:-1], b""):
        with pytest.raises(VdafDecodeError):
            prio3.verifier_shares_to_message(CONTEXT, [wrong, message])


class Forged(Histogram):
    """A client that encodes whatever it likes."""

    def __init__(self, encoded: Sequence[int]) -> None:
        super().__init__(len(encoded), 2)
        self.forged = [element % self.field.modulus for element in encoded]

    def encode(self, measurement: int) -> list[int]:
        """Return what no honest client would."""
        return self.forged


@pytest.mark.parametrize("encoded", [[0, 0, 0, 0], [1, 1, 0, 0], [2, -1, 0, 0], [2, 0, 0, 0], [-1, 2, 0, 0], [1] * 4])
def test_measurement_that_is_not_one_cell_is_refused(encoded: list[int]) -> None:
    """None, two, a double one, a negative one balanced by others: a proof made by the same code does not hold."""
    forger, honest = Prio3(Forged(encoded)), Prio3(Histogram(4, 2))
    nonce = os.urandom(16)
    public, shares = forger.shard(CONTEXT, 0, nonce, os.urandom(forger.rand_bytes))
    with pytest.raises(VdafVerificationError):
        verify(honest, nonce, public, shares)
    assert verify(honest, nonce, *Prio3(Forged([0, 0, 1, 0])).shard(CONTEXT, 0, nonce, os.urandom(128)))


def test_helpers_share_says_nothing_of_the_measurement() -> None:
    """With the same randomness it is the same for every cell."""
    prio3 = Prio3(Histogram(16))
    rand, nonce = os.urandom(prio3.rand_bytes), os.urandom(16)
    assert len({prio3.shard(CONTEXT, cell, nonce, rand)[1][1] for cell in range(16)}) == 1


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Prio3(Count(), 1), "shares"),
        (lambda: Prio3(Count(), 256), "shares"),
        (lambda: Prio3(Count(), proofs=0), "proofs"),
        (lambda: Sum(0), "max_measurement"),
        (lambda: Sum(FIELD64.modulus), "max_measurement"),
        (lambda: Histogram(0), "length"),
        (lambda: Histogram(1 << 17), "length"),
        (lambda: Histogram(4, 0), "chunk_length"),
        (lambda: MultihotCountVec(4, 5), "max_weight"),
        (lambda: MultihotCountVec(4, 0), "max_weight"),
        (lambda: Count().encode(2), "measurement"),
        (lambda: Count().encode(-1), "measurement"),
        (lambda: Sum(5).encode(6), "measurement"),
        (lambda: SumVec(2, 5).encode([1]), "measurement"),
        (lambda: SumVec(2, 5).encode([1, 6]), "measurement"),
        (lambda: Histogram(4).encode(4), "measurement"),
        (lambda: MultihotCountVec(4, 1).encode([True] * 4), "weight"),
        (lambda: MultihotCountVec(4, 1).encode([True] * 3), "measurement"),
        (lambda: Prio3(Count()).shard(b"", 1, bytes(15), bytes(64)), "nonce"),
        (lambda: Prio3(Count()).shard(b"", 1, bytes(16), bytes(63)), "rand"),
        (lambda: Prio3(Count()).unshard([bytes(8)]), "aggregate_shares"),
        (lambda: Prio3(Count()).verifier_shares_to_message(b"", [b""]), "verifier_shares"),
    ],
)
def test_parameter_out_of_its_bound_is_named(make: Any, name: str) -> None:
    """A typed error names the parameter, its bound and the value."""
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name.startswith(name)


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=lambda field: field.name)
@given(data=st.data())
def test_polynomials_by_their_values_agree_with_their_coefficients(field: Any, data: st.DataObject) -> None:
    """Transform and back, values between, extension, and evaluation at a point, against Horner's rule."""
    elements = st.integers(0, field.modulus - 1)
    log_n = data.draw(st.integers(0, 5))
    n = 1 << log_n
    coefficients = data.draw(st.lists(elements, min_size=n, max_size=n))

    def horner(point: int) -> int:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % field.modulus
        return value

    values = ntt(field, coefficients, n)
    assert values == [horner(root) for root in field.root_powers(n)]
    assert inverse_ntt(field, values) == coefficients
    assert odd_values(field, values) == [horner(root) for root in field.root_powers(2 * n)[1::2]]
    point = data.draw(elements.filter(lambda each: pow(each, n, field.modulus) != 1))
    weighted = zip(weights_at(field, n, point), values, strict=True)
    assert sum(weight * value for weight, value in weighted) % field.modulus == horner(point)
    known = data.draw(st.integers(n // 2 + 1, n))
    coefficients[known:] = [0] * (n - known)
    values = ntt(field, coefficients, n)
    assert extend_to_power_of_2(field, values[:known]) == values
