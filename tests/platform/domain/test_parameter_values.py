"""Values are read within the bounds that a version's team declared, or refused with parameter, bound and value."""

import json
from dataclasses import replace

import pytest
from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.domain.errors import InvalidFieldError, OverrideRequiredError
from alcove.platform.domain.parameter_values import parameters_of, plain_values, read_values
from alcove.platform.domain.records import (
    ArmRecord,
    Default,
    ExperimentRecord,
    ExperimentState,
    RolloutRecord,
    RolloutState,
    StoredDecision,
    VersionState,
)
from alcove.platform.domain.rollout_records import AnalysisRecord, PlanAction, RolloutPlan, StageDecisionKind
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.domain.snapshots.rollout import SAME_VERSION, advance, follow_plan
from alcove.registry.parameters import Encoded, Parameter, Setting

PARAMETERS = (
    Parameter(name="enabled", type="bool", default=True),
    Parameter(name="rows", type="int", default=3, minimum=1, maximum=10),
    Parameter(name="threshold", type="float", default="0.5", minimum="0.1", maximum="9"),
    Parameter(name="tone", type="text", default="plain", choices=("plain", "kind", "true", "3")),
)


@pytest.mark.parametrize(
    ("name", "given", "encoded"),
    [
        ("enabled", "false", False),
        ("enabled", False, False),
        ("rows", "07", 7),
        ("rows", 7, 7),
        ("threshold", "0.40", "0.4"),
        ("threshold", "1", "1"),
        ("threshold", 1, "1"),
        ("threshold", "2e0", "2"),
        ("tone", "true", "true"),
        ("tone", "3", "3"),
    ],
)
def test_a_value_is_read_by_the_type_of_its_parameter(name: str, given: Encoded, encoded: Encoded) -> None:
    """A text as people write it, or a value of the type: the policy has one encoding of it."""
    assert read_values("values", "f 1.0.0", PARAMETERS, ((name, given),)) == (Setting(name=name, value=encoded),)


@pytest.mark.parametrize(
    ("name", "given", "field", "bound"),
    [
        ("enabled", "yes", "values.enabled", "true or false"),
        ("enabled", 1, "values.enabled", "true or false"),
        ("rows", "11", "values.rows", "a whole number from 1 to 10"),
        ("rows", True, "values.rows", "a whole number from 1 to 10"),
        ("rows", "1.5", "values.rows", "a whole number from 1 to 10"),
        ("rows", "9" * 5000, "values.rows", "a whole number from 1 to 10"),
        ("threshold", "0.05", "values.threshold", "a decimal number from 0.1 to 9"),
        ("threshold", "nan", "values.threshold", "a decimal number from 0.1 to 9"),
        ("threshold", "1e999999999", "values.threshold", "a decimal number from 0.1 to 9"),
        ("threshold", False, "values.threshold", "a decimal number from 0.1 to 9"),
        ("tone", "rude", "values.tone", "one of plain, kind, true, 3"),
        ("tone", 3, "values.tone", "one of plain, kind, true, 3"),
        ("tone", None, "values.tone", "one of plain, kind, true, 3"),
        ("unknown", "1", "values.name", "a parameter of f 1.0.0: enabled, rows, threshold, tone"),
    ],
)
def test_a_value_that_the_team_does_not_allow_is_refused(
    name: str, given: Encoded | None, field: str, bound: str
) -> None:
    """With what it is a value of, what would be allowed, and what was given."""
    with pytest.raises(InvalidFieldError) as caught:
        read_values("values", "f 1.0.0", PARAMETERS, ((name, given),))
    shown = name if field == "values.name" else given
    assert (caught.value.field, caught.value.bound, caught.value.value) == (field, bound, shown)


def test_a_parameter_that_is_given_twice_is_refused() -> None:
    """Which of both is meant nobody can tell."""
    with pytest.raises(InvalidFieldError, match="each parameter once, got 'rows'"):
        read_values("values", "f 1.0.0", PARAMETERS, (("rows", 1), ("rows", 2)))


def test_values_stand_by_name_and_defaults_are_left_out() -> None:
    """Values that come to the same on devices are the same here, and the policy is as short as it can be."""
    given = (("tone", "kind"), ("enabled", "false"), ("threshold", "0.50"), ("rows", "3"))
    found = read_values("values", "f 1.0.0", PARAMETERS, given)
    assert plain_values(found) == {"enabled": False, "tone": "kind"}
    assert [setting.name for setting in found] == ["enabled", "tone"]


def test_a_manifest_without_parameters_declares_none() -> None:
    """As all of before do."""
    assert parameters_of(b'{"feature": "f"}') == ()
    declared = [one.model_dump(mode="json") for one in PARAMETERS]
    assert parameters_of(json.dumps({"parameters": declared}).encode()) == PARAMETERS


def make_rollout(*values: Setting) -> RolloutRecord:
    """A rollout of the version that everybody runs, with values."""
    return RolloutRecord(
        sequence=1,
        rollout_id="ro-1",
        app="app",
        feature="f",
        version="1.0.0",
        manifest_sha256="1" * 64,
        salt="salt",
        state=RolloutState.DRAFT,
        share_basis_points=0,
        created_at_s=1,
        updated_at_s=1,
        policy_serial=0,
        values=values,
    )


def test_harm_of_values_does_not_forbid_the_version_that_everybody_runs() -> None:
    """The plan says halt, and the rollout is rolled back: its control group has the same version, and keeps it."""
    default = Default("app", "f", "1.0.0", "1" * 64)
    draft = make_rollout(Setting(name="threshold", value="0.2"))
    plan = RolloutPlan(on_harm=PlanAction.HALT)
    rollout = replace(draft, plan=plan, state=RolloutState.RUNNING, share_basis_points=100, policy_serial=1)
    app = AppSnapshot("app", {"f": default}, {"ro-1": rollout}, {})
    harm = AnalysisRecord(2, StageDecisionKind.HARM, "harm", "it crashes", 9, (5.0, 4.0), (), is_attested=True)
    after = follow_plan(app, rollout, harm, now_s=2, principal="plan")
    assert (after.rollouts["ro-1"].state, after.defaults["f"], after.halt) == (RolloutState.ROLLED_BACK, default, None)
    assert after.entries[-1].details["because"] == SAME_VERSION
    other = replace(rollout, version="2.0.0", manifest_sha256="2" * 64, values=())
    forbidden = follow_plan(app.with_rollout(other), other, harm, now_s=2, principal="plan")
    assert forbidden.rollouts["ro-1"].state is RolloutState.HALTED


def test_the_winner_of_an_experiment_speaks_for_its_own_values_only() -> None:
    """A rollout of the same version with other values needs a reason, as one of another version does."""
    tight, wide = Setting(name="threshold", value="0.7"), Setting(name="threshold", value="0.2")
    arms = (
        ArmRecord("control", "1.0.0", "1" * 64, 5000),
        ArmRecord("tight", "1.0.0", "1" * 64, 5000, (tight,)),
    )
    experiment = ExperimentRecord(
        sequence=1,
        experiment_id="ex-1",
        app="app",
        feature="f",
        salt="salt",
        arms=arms,
        state=ExperimentState.STOPPED,
        epsilon="2",
        latency_edges_ms=(),
        window_s=86_400,
        minimum_cohort=100,
        created_at_s=1,
        started_at_s=2,
        stopped_at_s=3,
        task_id="0" * 64,
        decision=StoredDecision("winner", 1, "better", "it is better"),
        policy_serial=1,
    )
    app = AppSnapshot(
        "app",
        {"f": Default("app", "f", "1.0.0", "1" * 64)},
        {"ro-1": make_rollout(tight)},
        {},
        stopped={"f": experiment},
        states={("f", "1.0.0"): VersionState.RELEASED},
        rules={"f": FeatureRules()},
    )
    after = advance(app, make_rollout(tight), now_s=4, principal="operator", share_basis_points=10_000)
    assert (after.defaults["f"].values, after.entries[-1].details["winner_of"]) == ((tight,), "ex-1")
    with pytest.raises(OverrideRequiredError):
        advance(app, make_rollout(wide), now_s=4, principal="operator", share_basis_points=10_000)
