"""Provides Prio3: a measurement is split into shares that look like noise, with a proof of its range that both check.

A client shards its measurement (`Prio3.shard`) and sends one input share to each aggregator. The aggregators verify
(`verify_init`, `verifier_shares_to_message`, `verify_next`) without seeing the measurement, add up what is valid, and
release one sum each (`aggregate`); the collector adds the two (`unshard`).

`Prio3` is the readable form that devices use; `alcove.privacy.prio3.native.NativePrio3` gives the same bytes faster.
Messages are bytes, as the draft lays them out.

Source: draft-irtf-cfrg-vdaf, sections 6 and 7, drafts 18 to 20 (the same bytes).
"""

from alcove.privacy.prio3.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from alcove.privacy.prio3.fields import FIELD64, FIELD128, Field
from alcove.privacy.prio3.vdaf import Prio3, Report, VerifyState

__all__ = [
    "FIELD64",
    "FIELD128",
    "Circuit",
    "Count",
    "Field",
    "Histogram",
    "MultihotCountVec",
    "Prio3",
    "Report",
    "Sum",
    "SumVec",
    "VerifyState",
]
