"""Computes the statistics of experiments: from private aggregates to intervals and a decision.

An `Aggregate` is what is read, `estimate` what it says by a metric, `decide` what follows by a test and rules,
`evaluate_guardrail` whether a guardrail is kept, `PowerModel` what may be hoped for before anything is sent.  Pure
functions over numbers: no files, clocks, randomness or sockets.
"""

from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import Aggregate, pool, regroup, select_bins
from alcove.platform.stats.aggregator_noise import IdleReports, aggregate_from_noised_histogram
from alcove.platform.stats.allocation import AllocationRule, next_buckets, next_shares
from alcove.platform.stats.always_valid_p import always_valid_p
from alcove.platform.stats.bayes import ArmPosterior, BayesianView, DifferencePosterior, bayesian_view, primary_weights
from alcove.platform.stats.bin_metric import BinMetric
from alcove.platform.stats.comparison import ArmEstimate, Comparison, Rules, decide
from alcove.platform.stats.cuped_gain import cuped_error_ratio
from alcove.platform.stats.decision import Decision, DecisionKind, Difference, ReasonCode, SampleRatio, apply_guardrails
from alcove.platform.stats.epochs import CombinedEpochs, bayesian_view_of_epochs, combine_epochs, expected_share_bounds
from alcove.platform.stats.errors import AggregateError, ArgumentError, StatsError
from alcove.platform.stats.estimates import Estimates, Metric, estimate
from alcove.platform.stats.group_sequential import GroupSequential
from alcove.platform.stats.guardrail import (
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardVerdict,
    evaluate_guardrail,
    evaluate_guardrails,
)
from alcove.platform.stats.heterogeneity import Heterogeneity, cochran_q
from alcove.platform.stats.latency_bins import explain_resolution, is_resolved, propose_edges
from alcove.platform.stats.mechanism import Mechanism
from alcove.platform.stats.metrics import AdjustedDifference, MetricDifference, cuped_difference, ratio_difference
from alcove.platform.stats.noise_share import noise_share
from alcove.platform.stats.one_sided import AlwaysValidBound, GuardTests, HarmBound, Look, OneSidedBound, PlannedBound
from alcove.platform.stats.own_metric import evaluate_bin_guardrail
from alcove.platform.stats.plausibility import find_impossible
from alcove.platform.stats.power import (
    MetricModel,
    PowerModel,
    bin_model,
    mean_model,
    ratio_model,
    share_model,
    slow_model,
)
from alcove.platform.stats.pre_period import Adjustment, PrePeriod, split_pre_period
from alcove.platform.stats.preference import Preference, read_preference
from alcove.platform.stats.primary import Primary, PrimaryKind
from alcove.platform.stats.quantiles import QuantileComparison, quantile_difference
from alcove.platform.stats.randomized_response import aggregate_from_randomized_response
from alcove.platform.stats.secondary import (
    FixedHorizon,
    SecondaryDifference,
    benjamini_hochberg,
    secondary_differences,
)
from alcove.platform.stats.sequential import AlwaysValid, SequentialTest
from alcove.platform.stats.strata import Stratum, effective_reports

__all__ = [
    "AdjustedDifference",
    "Adjustment",
    "Aggregate",
    "AggregateError",
    "AllocationRule",
    "AlwaysValid",
    "AlwaysValidBound",
    "ArgumentError",
    "ArmEstimate",
    "ArmPosterior",
    "BayesianView",
    "BinMetric",
    "CombinedEpochs",
    "Comparison",
    "Decision",
    "DecisionKind",
    "Difference",
    "DifferencePosterior",
    "Estimates",
    "FixedHorizon",
    "GroupSequential",
    "GuardKind",
    "GuardMetric",
    "GuardTests",
    "GuardVerdict",
    "Guardrail",
    "HarmBound",
    "Heterogeneity",
    "IdleReports",
    "Interval",
    "Look",
    "Mechanism",
    "Metric",
    "MetricDifference",
    "MetricModel",
    "OneSidedBound",
    "PlannedBound",
    "PowerModel",
    "PrePeriod",
    "Preference",
    "Primary",
    "PrimaryKind",
    "QuantileComparison",
    "ReasonCode",
    "Rules",
    "SampleRatio",
    "SecondaryDifference",
    "SequentialTest",
    "StatsError",
    "Stratum",
    "aggregate_from_noised_histogram",
    "aggregate_from_randomized_response",
    "always_valid_p",
    "apply_guardrails",
    "bayesian_view",
    "bayesian_view_of_epochs",
    "benjamini_hochberg",
    "bin_model",
    "cochran_q",
    "combine_epochs",
    "cuped_difference",
    "cuped_error_ratio",
    "decide",
    "effective_reports",
    "estimate",
    "evaluate_bin_guardrail",
    "evaluate_guardrail",
    "evaluate_guardrails",
    "expected_share_bounds",
    "explain_resolution",
    "find_impossible",
    "is_resolved",
    "mean_model",
    "next_buckets",
    "next_shares",
    "noise_share",
    "pool",
    "primary_weights",
    "propose_edges",
    "quantile_difference",
    "ratio_difference",
    "ratio_model",
    "read_preference",
    "regroup",
    "secondary_differences",
    "select_bins",
    "share_model",
    "slow_model",
    "split_pre_period",
]
