"""Messages of experiments with interim analyses."""

from alcove.platform.domain.experiment_records import InterimAnalysis, PairRecord, StoredDecision
from alcove.platform.domain.records import ArmRecord, ExperimentRecord
from alcove.platform.domain.states import ExperimentState
from alcove.platform.server.experiment_convert import experiment_message


def test_an_experiment_with_interim_analyses_has_a_message() -> None:
    """A pair of an interim analysis tells what it kept; what was not kept is absent, not zero."""
    decision = StoredDecision("inconclusive", None, "interval_includes_zero", "no difference is shown yet")
    pair = PairRecord(1, 0, 0.01, -0.02, 0.04, 0.3)
    record = ExperimentRecord(
        sequence=1, experiment_id="ex-000000000001", app="mail", feature="polite", salt="0" * 32,
        arms=tuple(ArmRecord(name, f"{i}.0.0", str(i) * 64, 5000) for i, name in enumerate(("old", "new"), 1)),
        state=ExperimentState.RUNNING, epsilon="2", latency_edges_ms=(), window_s=86_400, minimum_cohort=100,
        created_at_s=1, started_at_s=2, stopped_at_s=None, task_id="0" * 32, decision=None, policy_serial=1,
        interim_analyses=(InterimAnalysis(1000, 0.2, 2.4, 3, decision, (pair,)),),
    )  # fmt: skip
    (analysis,) = experiment_message(record).interim_analyses
    (first,) = analysis.pairs
    assert (first.difference.value, first.difference.low, first.difference.high, first.p_value) == (
        0.01,
        -0.02,
        0.04,
        0.3,
    )
    assert not first.HasField("lift")
    assert not first.HasField("noise_percent")
