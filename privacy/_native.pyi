"""Declares the native module for documentation; written by hand, and tests/privacy/prio3/test_native.py compares it.

Sources: privacy/native. `alcove.privacy.prio3.NativePrio3` wraps it and raises the errors: here a number says how it
went, 0 for well. A message of another size than the instance's raises `ValueError`.
"""

from typing import final

@final
class NativePrio3:
    """Prio3 of a circuit; immutable, for any number of threads. Other Python threads run during each call."""

    def __init__(
        self,
        circuit: int,
        algorithm_id: int,
        element_bytes: int,
        shares: int,
        proofs: int,
        measurement_length: int,
        chunk_length: int,
        output_length: int,
        weights: bytes,
    ) -> None:
        """Make one of a circuit's number and lengths; `weights` are of an integer's bits, encoded, or empty."""
    def shard(self, context: bytes, bits: bytes, nonce: bytes, rand: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the public share and the input shares of an encoded measurement, a byte an element."""
    def verify_init(
        self, verify_key: bytes, context: bytes, aggregator: int, reports: list[tuple[bytes, bytes, bytes]]
    ) -> list[tuple[int, bytes, bytes, bytes]]:
        """Return (outcome, output share, joint rand seed, verifier share) for each (nonce, public, input share)."""
    def combine(self, context: bytes, reports: list[list[bytes]]) -> list[tuple[int, bytes]]:
        """Return (outcome, message) for each report's verifier shares."""
    def aggregate(self, output_shares: list[bytes]) -> tuple[int, bytes]:
        """Return (outcome, sum)."""
