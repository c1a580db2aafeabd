"""Statistics of experiments: from private aggregates to intervals and a decision.

`Aggregate` is what is read, `compare` what is concluded, `design` what may be hoped for before anything is sent. Pure
functions over numbers: no files, clocks, randomness or sockets.
"""

from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import Aggregate, pool
from alcove.platform.stats.comparison import ArmEstimate, Comparison, compare
from alcove.platform.stats.decision import Decision, DecisionKind, Difference, ReasonCode, SampleRatio
from alcove.platform.stats.design import Design
from alcove.platform.stats.errors import AggregateError, ArgumentError, StatsError
from alcove.platform.stats.randomised_response import aggregate_from_randomised_response

__all__ = [
    "Aggregate",
    "AggregateError",
    "ArgumentError",
    "ArmEstimate",
    "Comparison",
    "Decision",
    "DecisionKind",
    "Design",
    "Difference",
    "Interval",
    "ReasonCode",
    "SampleRatio",
    "StatsError",
    "aggregate_from_randomised_response",
    "compare",
    "pool",
]
