"""Defines what Prio3 can measure: each circuit's encoding, and the arithmetic that is zero for valid encodings alone.

A circuit computes with additions and multiplications by constants, and calls one gadget for all other arithmetic. It is
evaluated on a measurement or on a share of one; constants are divided by the number of shares, so that shares of the
output add up.

Source: draft-irtf-cfrg-vdaf, section 7.4 and appendix A.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final, Generic, TypeVar

from alcove.privacy.errors import ParameterError
from alcove.privacy.prio3.fields import FIELD64, FIELD128, Field
from alcove.privacy.prio3.polynomials import dot, inverse_ntt, next_power_of_2, ntt, odd_values

MAX_ENCODED_LENGTH: Final = 1 << 16
"""Most field elements of a measurement; proofs and times grow with it, and no task needs more."""

Measurement = TypeVar("Measurement")
Result = TypeVar("Result")


class Gadget(ABC):
    """Arithmetic that is not affine.

    Attributes:
        arity: number of input wires.
        degree: of the polynomial that it computes.
    """

    arity: int
    degree: int

    @abstractmethod
    def evaluate(self, field: Field, inputs: Sequence[int]) -> int:
        """Return the output for the inputs, of length `arity`."""

    @abstractmethod
    def evaluate_polynomials(self, field: Field, wires: Sequence[Sequence[int]]) -> list[int]:
        """Return the values of the output's polynomial at a power of two of points, enough to determine it."""

    def polynomial_length(self, wire_length: int) -> int:
        """Return how many values determine the output's polynomial where the wires' have `wire_length` values."""
        return self.degree * (wire_length - 1) + 1


class ParallelSum(Gadget):
    """The sum of `count` products: wires 0 and 1 multiplied, wires 2 and 3, and so on."""

    degree = 2

    def __init__(self, count: int) -> None:
        self.arity = 2 * count

    def evaluate(self, field: Field, inputs: Sequence[int]) -> int:
        """Return the sum of products."""
        return dot(inputs[0::2], inputs[1::2]) % field.modulus

    def evaluate_polynomials(self, field: Field, wires: Sequence[Sequence[int]]) -> list[int]:
        """Return 2n values, the wires having n."""
        odd = [odd_values(field, wire) for wire in wires]
        values = [0] * (2 * len(wires[0]))
        values[0::2] = [self.evaluate(field, column) for column in zip(*wires, strict=True)]
        values[1::2] = [self.evaluate(field, column) for column in zip(*odd, strict=True)]
        return values


class PolynomialEvaluation(Gadget):
    """A polynomial of one wire, by its coefficients, lowest first; the last is not 0."""

    arity = 1

    def __init__(self, coefficients: Sequence[int]) -> None:
        self.coefficients = tuple(coefficients)
        self.degree = len(coefficients) - 1

    def evaluate(self, field: Field, inputs: Sequence[int]) -> int:
        """Return the polynomial's value (Horner's rule)."""
        value = 0
        for coefficient in reversed(self.coefficients):
            value = (value * inputs[0] + coefficient) % field.modulus
        return value

    def evaluate_polynomials(self, field: Field, wires: Sequence[Sequence[int]]) -> list[int]:
        """Return the values of the composition."""
        n = next_power_of_2(self.polynomial_length(len(wires[0])))
        return [self.evaluate(field, [value]) for value in ntt(field, inverse_ntt(field, wires[0]), n)]


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation of a circuit has beside the measurement.

    Attributes:
        joint_rand: randomness that client and aggregators share, `joint_rand_length` elements.
        share_count: how many shares the measurement is in; 1 for the measurement itself.
        call: calls the gadget: its input wires, in order, to its output.
    """

    joint_rand: Sequence[int]
    share_count: int
    call: Callable[[Sequence[int]], int]


class Circuit(ABC, Generic[Measurement, Result]):
    """A kind of measurement.

    Attributes:
        algorithm_id: the registered number of the VDAF that uses the circuit.
        field: of all arithmetic.
        gadget: the one that the circuit calls.
        calls: how often it does.
        measurement_length: elements of an encoded measurement.
        joint_rand_length: elements of randomness that client and aggregators share.
        eval_output_length: elements that `evaluate` returns.
        output_length: elements that are added up.
    """

    algorithm_id: int
    field: Field
    gadget: Gadget
    calls: int
    measurement_length: int
    joint_rand_length: int
    eval_output_length: int
    output_length: int

    @abstractmethod
    def encode(self, measurement: Measurement) -> list[int]:
        """Return the measurement as `measurement_length` elements.

        Raises:
            ParameterError: it is out of the circuit's range.
        """

    @abstractmethod
    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return `eval_output_length` elements, or shares of them: all zero where the measurement is valid."""

    @abstractmethod
    def truncate(self, encoded: list[int]) -> list[int]:
        """Return (a share of) the `output_length` elements that are added up."""

    @abstractmethod
    def decode(self, output: list[int]) -> Result:
        """Return the result that a sum of outputs stands for."""


class Count(Circuit[int, int]):
    """Measurements 0 or 1; the result is how many were 1."""

    algorithm_id = 1
    field = FIELD64
    calls = measurement_length = eval_output_length = output_length = 1
    joint_rand_length = 0

    def __init__(self) -> None:
        self.gadget = ParallelSum(1)

    def encode(self, measurement: int) -> list[int]:
        """Return the one element."""
        return [_check_range("measurement", measurement, 1)]

    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return x^2 - x."""
        (element,) = encoded
        return [(run.call([element, element]) - element) % self.field.modulus]

    def truncate(self, encoded: list[int]) -> list[int]:
        """Return the element."""
        return encoded

    def decode(self, output: list[int]) -> int:
        """Return the count."""
        return output[0]


class Sum(Circuit[int, int]):
    """Measurements from 0 to `max_measurement`; the result is their sum."""

    algorithm_id = 2
    field = FIELD64
    joint_rand_length = 0
    output_length = 1

    def __init__(self, max_measurement: int) -> None:
        self.range = BoundedInteger(self.field, max_measurement)
        self.gadget = PolynomialEvaluation((0, -1, 1))
        self.calls = self.measurement_length = self.eval_output_length = self.range.bits

    def encode(self, measurement: int) -> list[int]:
        """Return the measurement's bits."""
        return self.range.encode("measurement", measurement)

    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return b^2 - b of each bit b."""
        return [run.call([bit]) for bit in encoded]

    def truncate(self, encoded: list[int]) -> list[int]:
        """Return the integer."""
        return [self.range.decode(encoded)]

    def decode(self, output: list[int]) -> int:
        """Return the sum."""
        return output[0]


class _Chunked(Circuit[Measurement, list[int]]):
    """A circuit whose encoding is all bits, checked `chunk_length` at a time."""

    field = FIELD128

    def _set_lengths(self, *, encoded: int, output: int, chunk_length: int | None) -> None:
        if not 1 <= encoded <= MAX_ENCODED_LENGTH:
            raise ParameterError(name="length of the encoding", bound=f"in [1, {MAX_ENCODED_LENGTH}]", value=encoded)
        self.chunk_length = max(1, isqrt(encoded)) if chunk_length is None else chunk_length
        if not 1 <= self.chunk_length <= MAX_ENCODED_LENGTH:
            raise ParameterError(name="chunk_length", bound=f"in [1, {MAX_ENCODED_LENGTH}]", value=self.chunk_length)
        self.gadget = ParallelSum(self.chunk_length)
        self.measurement_length = encoded
        self.output_length = output
        self.calls = self.joint_rand_length = -(-encoded // self.chunk_length)

    def _check_bits(self, encoded: Sequence[int], run: Evaluation) -> int:
        """Return the sum of r^k (b^2 - b), one r a chunk and k from 1 in it: zero where every element is 0 or 1."""
        modulus = self.field.modulus
        one_share = self.field.invert(run.share_count)
        checked = 0
        for index, r in enumerate(run.joint_rand):
            chunk = list(encoded[index * self.chunk_length : (index + 1) * self.chunk_length])
            chunk += [0] * (self.chunk_length - len(chunk))
            wires = []
            power = r
            for bit in chunk:
                wires += [power * bit % modulus, (bit - one_share) % modulus]
                power = power * r % modulus
            checked += run.call(wires)
        return checked % modulus

    def decode(self, output: list[int]) -> list[int]:
        """Return the sums, one an element."""
        return output


class SumVec(_Chunked[Sequence[int]]):
    """Vectors of `length` integers from 0 to `max_measurement`; the result is their sum, element by element."""

    algorithm_id = 3
    eval_output_length = 1

    def __init__(
        self, length: int, max_measurement: int, chunk_length: int | None = None, field: Field = FIELD128
    ) -> None:
        self.field = field
        self.length = length
        self.range = BoundedInteger(field, max_measurement)
        self._set_lengths(encoded=length * self.range.bits, output=length, chunk_length=chunk_length)

    def encode(self, measurement: Sequence[int]) -> list[int]:
        """Return the bits of every integer."""
        _check_length(measurement, self.length)
        return [bit for value in measurement for bit in self.range.encode("measurement", value)]

    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return the check of bits."""
        return [self._check_bits(encoded, run)]

    def truncate(self, encoded: list[int]) -> list[int]:
        """Return the integers."""
        bits = self.range.bits
        return [self.range.decode(encoded[at : at + bits]) for at in range(0, len(encoded), bits)]


class Histogram(_Chunked[int]):
    """Measurements are one of `length` cells; the result is how many fell into each."""

    algorithm_id = 4
    eval_output_length = 2

    def __init__(self, length: int, chunk_length: int | None = None) -> None:
        self.length = length
        self._set_lengths(encoded=length, output=length, chunk_length=chunk_length)

    def encode(self, measurement: int) -> list[int]:
        """Return a one at the cell's place, zeros elsewhere."""
        cell = _check_range("measurement", measurement, self.length - 1)
        return [int(place == cell) for place in range(self.length)]

    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return the check of bits, and the elements' sum less 1."""
        modulus = self.field.modulus
        bits = self._check_bits(encoded, run)
        return [bits, (sum(encoded) - self.field.invert(run.share_count)) % modulus]

    def truncate(self, encoded: list[int]) -> list[int]:
        """Return all elements."""
        return encoded


class MultihotCountVec(_Chunked[Sequence[bool]]):
    """Vectors of `length` booleans, at most `max_weight` of them true; the result is how often each was."""

    algorithm_id = 5
    eval_output_length = 2

    def __init__(self, length: int, max_weight: int, chunk_length: int | None = None) -> None:
        if not 1 <= max_weight <= length:
            raise ParameterError(name="max_weight", bound=f"in [1, {length}]", value=max_weight)
        self.length = length
        self.weight = BoundedInteger(self.field, max_weight)
        self._set_lengths(encoded=length + self.weight.bits, output=length, chunk_length=chunk_length)

    def encode(self, measurement: Sequence[bool]) -> list[int]:
        """Return the booleans, then the bits of how many are true."""
        _check_length(measurement, self.length)
        bits = [_check_range("measurement", int(each), 1) for each in measurement]
        return bits + self.weight.encode("weight of the measurement", sum(bits))

    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return the check of bits, and the true weight less the claimed one."""
        bits = self._check_bits(encoded, run)
        claimed = self.weight.decode(encoded[self.length :])
        return [bits, (sum(encoded[: self.length]) - claimed) % self.field.modulus]

    def truncate(self, encoded: list[int]) -> list[int]:
        """Return the booleans."""
        return encoded[: self.length]


class BoundedInteger:
    """Integers from 0 to a maximum as bits of which every combination is in range.

    The weights are powers of two but for the last, which is what is left of the maximum, so no sum of them passes it.

    Attributes:
        bits: how many an integer has.
        weights: of the bits.

    Raises:
        ParameterError: the maximum is not in [1, modulus).
    """

    def __init__(self, field: Field, maximum: int) -> None:
        if not 1 <= maximum < field.modulus:
            raise ParameterError(name="max_measurement", bound=f"in [1, {field.modulus})", value=maximum)
        self.field = field
        self.maximum = maximum
        self.bits = maximum.bit_length()
        self._rest = (1 << self.bits - 1) - 1
        self.weights = [*(1 << bit for bit in range(self.bits - 1)), maximum - self._rest]

    def encode(self, name: str, value: int) -> list[int]:
        """Return the bits, lowest weight first; where two encodings exist, the one without the last weight.

        Raises:
            ParameterError: `value` is out of range; it is called `name`.
        """
        last = int(_check_range(name, value, self.maximum) > self._rest)
        rest = value - last * self.weights[-1]
        return [*(rest >> bit & 1 for bit in range(self.bits - 1)), last]

    def decode(self, encoded: Sequence[int]) -> int:
        """Return (a share of) the integer that (shares of) bits stand for."""
        return dot(self.weights, encoded) % self.field.modulus


def _check_range(name: str, value: int, maximum: int) -> int:
    if not 0 <= value <= maximum:
        raise ParameterError(name=name, bound=f"in [0, {maximum}]", value=value)
    return value


def _check_length(measurement: Sequence[object], length: int) -> None:
    if len(measurement) != length:
        raise ParameterError(name="measurement", bound=f"of {length} elements", value=len(measurement))
