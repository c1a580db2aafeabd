"""Experiments over the wire: from the draft through private reports to a decision that a rollout may lean on."""

import urllib.error
import urllib.request
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from alcove.platform.cli.demo.reporting import HEADERS
from alcove.platform.cli.demo.reporting import send_reports as send_all
from alcove.platform.client import (
    Arm,
    Experiment,
    FailedPreconditionError,
    InvalidRequestError,
    PlatformClient,
)
from alcove.platform.domain.errors import ResultsRefusedError
from alcove.platform.domain.experiments.machine import mark_started
from alcove.platform.domain.experiments.task import bin_values_ms
from alcove.platform.domain.experiments.task import task_of as record_task
from alcove.platform.domain.limits import WINDOW_LATE_S
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.services.experiments import engine
from alcove.platform.store import Store
from alcove.platform.store.experiments import add_experiment, running_experiments, save_experiment
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.testing import Served, ServerWorld
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.report import Report, report_to_bytes
from alcove.registry.policy import TaskPolicy

from tests.platform.versions import add_released

ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
EPSILON = "2"


def publish_two(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """Versions 1.0.0 and 2.0.0."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")


def start(operator: PlatformClient, app: str, feature: str, **options: Any) -> Experiment:
    """A running experiment of both versions."""
    given: dict[str, Any] = {"epsilon": EPSILON, "latency_edges_ms": (5.0,), "minimum_cohort": 200} | options
    draft = operator.create_experiment(app, feature, ARMS, **given)
    return operator.start_experiment(draft.experiment_id)


def task_of(world: ServerWorld, app: str, feature: str) -> TaskPolicy:
    """The task, as devices read it in the signed policy."""
    policy = world.tree.policy(app)
    assert policy is not None
    (experiment,) = policy.features[feature].experiments
    return experiment.tasks[0]


def post(served: Served, body: bytes) -> int:
    """Send reports; return the HTTP status."""
    request = urllib.request.Request(served.http_url + "/reports", data=body, headers=HEADERS, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def send_reports(served: Served, task: TaskPolicy, accepted: tuple[float, float], per_arm: int, seed: int) -> None:
    """Report as `per_arm` devices of each arm would, whose users accept with the given probabilities."""
    choice = np.random.default_rng(seed)
    keep = float(RandomizedResponse(task.cell_count, Fraction(task.epsilon)).keep_probability)
    bodies = []
    for arm, probability in enumerate(accepted):
        for _ in range(per_arm):
            cell = task.cell_index(arm, int(choice.random() < probability), float(choice.choice((1.0, 9.0))))
            if choice.random() >= keep:
                cell = (cell + int(choice.integers(1, task.cell_count))) % task.cell_count
            bodies.append(report_to_bytes(Report(bytes.fromhex(task.task_id), 0, cell)))
    assert send_all(served.http_url, bodies) == {204: len(bodies)}


def test_a_started_experiment_is_in_the_signed_policy(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Arms, shares and task reach the devices; the control becomes the default of an app that has none."""
    publish_two(world, team, feature)
    draft = operator.create_experiment(app, feature, ARMS, epsilon="1.5", latency_edges_ms=(0.125, 1.0, 20.0))
    assert (draft.state, draft.task_id, draft.started_at_s) == ("draft", "", 0)
    assert (draft.window_s, draft.minimum_cohort) == (86_400, 1000)
    assert world.tree.policy(app) is None
    running = operator.start_experiment(draft.experiment_id)
    policy = world.tree.policy(app)
    assert policy is not None
    rules = policy.features[feature]
    (experiment,) = rules.experiments
    assert (rules.default.version, rules.rollout) == ("1.0.0", None)
    assert [(arm.name, arm.version.version, arm.share_basis_points) for arm in experiment.arms] == [
        (arm.name, arm.version, arm.share_basis_points) for arm in ARMS
    ]
    task = experiment.tasks[0]
    assert (task.task_id, task.epsilon, task.latency_edges_ms) == (running.task_id, "1.5", (0.125, 1.0, 20.0))
    assert task.first_window_start_s == running.started_at_s - WINDOW_LATE_S
    assert operator.experiment(draft.experiment_id) == running
    assert running in operator.experiments(app, feature)


def test_no_report_at_all_means_hold(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Nothing is known: estimates are absent, the decision is inconclusive, and a rollout needs a reason."""
    publish_two(world, team, feature)
    running = start(operator, app, feature)
    found = operator.results(running.experiment_id).results
    assert (found.report_count, found.window_count, sum(found.cell_counts)) == (0, 0, 0)
    assert (found.decision.kind, found.decision.winner) == ("inconclusive", None)
    assert [arm.accepted.value for arm in found.arms] == [None, None]
    assert (found.bayesian.arms, found.bayesian.obstacle) == ((), "arm 0 has no report that the metric reads")
    stopped = operator.stop_experiment(running.experiment_id)
    assert stopped.decision == found.decision
    policy = world.tree.policy(app)
    assert policy is not None
    assert policy.features[feature].experiments == ()
    rollout = operator.create_rollout(app, feature, "2.0.0")
    with pytest.raises(FailedPreconditionError, match="override_reason"):
        operator.advance_rollout(rollout.rollout_id, 10_000)


def test_enough_reports_name_a_winner_and_its_rollout_needs_no_reason(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, served: Served, app: str, feature: str
) -> None:
    """The better arm wins beyond sampling and privacy noise; only its own version advances without an override."""
    publish_two(world, team, feature)
    running = start(operator, app, feature)
    send_reports(served, task_of(world, app, feature), accepted=(0.5, 0.9), per_arm=3000, seed=1)
    found = operator.results(running.experiment_id).results
    assert (found.report_count, found.window_count) == (6000, 1)
    assert found.decision.kind == "winner"
    assert found.decision.winner == 1
    for arm, expected in zip(found.arms, (0.5, 0.9), strict=True):
        assert arm.accepted.low is not None
        assert arm.accepted.high is not None
        assert arm.accepted.low < expected < arm.accepted.high
        assert arm.devices == pytest.approx(3000, abs=600)
    assert found.differences[0].accepted.low is not None
    assert found.differences[0].accepted.low > 0
    control, treatment = (arm.accepted.value for arm in found.arms)
    assert control is not None
    assert treatment is not None
    for lift in (found.differences[0].lift, found.primary[0].lift, found.pairs[0].lift):
        assert lift is not None
        assert lift.value == pytest.approx(treatment / control - 1.0)
        assert 0.0 < (lift.low or 0.0) < (lift.value or 0.0) < (lift.high or 0.0)
    assert found.bayesian.arms[1].chance_best > 0.999
    assert found.cells is None
    cells = operator.results(running.experiment_id, with_cells=True).results.cells
    assert cells is not None
    assert tuple(row.count for row in cells.rows) == found.cell_counts
    sums = [
        [
            sum(row.estimate for row in cells.rows if row.arm == arm and row.outcomes == (name,))
            for name in ("refused", "accepted")
        ]
        for arm in (0, 1)
    ]
    for (refused, accepted), arm in zip(sums, found.arms, strict=True):
        assert accepted / (refused + accepted) == pytest.approx(arm.accepted.value)
    assert len(cells.noise_covariance) == len(cells.rows) * (len(cells.rows) + 1) // 2
    (posterior,) = found.bayesian.differences
    assert found.differences[0].accepted.value is not None
    assert posterior.difference.mean == pytest.approx(found.differences[0].accepted.value, abs=0.01)
    assert found.differences[0].accepted.low < posterior.difference.low < posterior.difference.high
    stopped = operator.stop_experiment(running.experiment_id)
    assert stopped.decision == found.decision
    loser = operator.create_rollout(app, feature, "1.0.0")
    with pytest.raises(FailedPreconditionError, match="override_reason"):
        operator.advance_rollout(loser.rollout_id, 10_000)
    winner = operator.create_rollout(app, feature, "2.0.0")
    assert operator.advance_rollout(winner.rollout_id, 10_000).state == "completed"
    again = operator.results(running.experiment_id).results
    assert again == found


@pytest.mark.thorough
def test_swapping_the_arms_swaps_the_winner(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, served: Served, app: str, feature: str
) -> None:
    """The decision follows the reports, not the order or the name of the arms."""
    publish_two(world, team, feature)
    running = start(operator, app, feature)
    send_reports(served, task_of(world, app, feature), accepted=(0.9, 0.5), per_arm=3000, seed=1)
    assert operator.results(running.experiment_id).results.decision.winner == 0


def test_a_stopped_experiment_takes_no_report(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, served: Served, app: str, feature: str
) -> None:
    """The decision that is kept was made from exactly the counted reports."""
    publish_two(world, team, feature)
    running = start(operator, app, feature)
    body = report_to_bytes(Report(bytes.fromhex(running.task_id), 0, 0))
    assert post(served, body) == 204
    operator.stop_experiment(running.experiment_id)
    assert post(served, body) == 400
    assert operator.results(running.experiment_id).results.report_count == 1


def test_a_feature_is_held_by_one_experiment_or_rollout(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Neither a second experiment nor a rollout starts while one is on devices; the holder is named."""
    publish_two(world, team, feature)
    running = start(operator, app, feature)
    second = operator.create_experiment(app, feature, ARMS)
    with pytest.raises(FailedPreconditionError, match=running.experiment_id):
        operator.start_experiment(second.experiment_id)
    rollout = operator.create_rollout(app, feature, "2.0.0")
    with pytest.raises(FailedPreconditionError, match=running.experiment_id):
        operator.advance_rollout(rollout.rollout_id, 100, override_reason="impatience")
    operator.stop_experiment(running.experiment_id)
    operator.advance_rollout(rollout.rollout_id, 100, override_reason="impatience")
    with pytest.raises(FailedPreconditionError, match=rollout.rollout_id):
        operator.start_experiment(second.experiment_id)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"arms": ARMS[:1]}, "arms"),
        ({"arms": ()}, "arms"),
        (
            {"arms": (ARMS[0], ARMS[0].model_copy(update={"version": "2.0.0"}))},
            r"arms\.name: expected a different name for each arm, got \[",
        ),
        ({"arms": (ARMS[0], ARMS[1].model_copy(update={"version": "1.0.0"}))}, "arms.version"),
        ({"arms": (ARMS[0], ARMS[1].model_copy(update={"share_basis_points": 0}))}, "share"),
        (
            {"arms": (ARMS[0], ARMS[1].model_copy(update={"share_basis_points": 5001}))},
            r"expected shares that add up to at most 10000 basis points \(100 %\), got 10001$",
        ),
        ({"arms": (ARMS[0], ARMS[1].model_copy(update={"name": "a b"}))}, "name"),
        ({"epsilon": "0.001"}, r"epsilon: expected 0\.01 to 6"),
        ({"epsilon": "8.1"}, r"^\S*\s?epsilon: expected 0\.01 to 6"),
        ({"epsilon": "6.01"}, r"epsilon: expected 0\.01 to 6"),
        ({"latency_edges_ms": (2.0, 1.0)}, "latency"),
        ({"latency_edges_ms": tuple(range(1, 18))}, "latency"),
    ],
)
def test_a_field_out_of_its_bounds_is_named_at_creation(
    operator: PlatformClient, app: str, shared_feature: str, change: dict[str, Any], field: str
) -> None:
    """What the devices would refuse is refused before it is a draft."""
    given = {"app": app, "arms": ARMS} | change
    options = {key: value for key, value in given.items() if key not in ("app", "arms")}
    with pytest.raises(InvalidRequestError, match=field):
        operator.create_experiment(given["app"], shared_feature, given["arms"], **options)
    assert operator.experiments(app) == []


@pytest.mark.parametrize("epsilon", ["0.01", "2"])
def test_the_bounds_of_epsilon_themselves_are_accepted(
    operator: PlatformClient, app: str, shared_feature: str, epsilon: str
) -> None:
    """From the least that says something to all that a device spends in a day."""
    assert operator.create_experiment(app, shared_feature, ARMS, epsilon=epsilon).epsilon == epsilon


def draft_record(epsilon: str = "2") -> ExperimentRecord:
    """A draft as the store holds it, of an app with one window a day."""
    arms = tuple(ArmRecord(arm.name, arm.version, "0" * 64, arm.share_basis_points) for arm in ARMS)
    return ExperimentRecord(
        sequence=0, experiment_id="ex-1", app="app", feature="f", salt="salt", arms=arms,
        state=ExperimentState.DRAFT, epsilon=epsilon, latency_edges_ms=(), window_s=86_400, minimum_cohort=100,
        created_at_s=1, started_at_s=None, stopped_at_s=None, task_id=None, decision=None, policy_serial=0,
    )  # fmt: skip


async def test_an_experiment_whose_results_cannot_be_read_still_stops(store: Store) -> None:
    """Whatever statistics say of its numbers, the feature is given back: inconclusive, with the reason."""
    record = draft_record(epsilon="0.001")
    async with store.write() as session:
        await add_released(session, feature="f", version="1.0.0", team="t", manifest_sha256="0" * 64)
        draft = await add_experiment(session, record)
        await save_experiment(session, mark_started(draft, now_s=1000))
    async with store.write() as session:
        uow = UnitOfWork(session, "p", 2000)
        with pytest.raises(ResultsRefusedError, match="epsilon"):
            await engine.read(session, "ex-1")
        stopped = await engine.stop(uow, "ex-1")
        assert await running_experiments(session) == []
    assert stopped.decision is not None
    assert (stopped.decision.kind, stopped.decision.winner) == ("inconclusive", None)
    assert "could not be read: epsilon" in stopped.decision.reason


def test_the_first_window_is_as_long_as_the_others_whenever_it_starts() -> None:
    """A minute before midnight or after: window 0 holds the start, a clock a little late, and lasts its full length."""
    for started_at_s in (86_400 * 1000 - 60, 86_400 * 1000, 86_400 * 1000 + 60):
        task = record_task(replace(draft_record(), started_at_s=started_at_s))
        assert [task.window_at(started_at_s + late_s) for late_s in (-301, -300, 0, 86_099, 86_100)] == [
            None, 0, 0, 0, 1
        ]  # fmt: skip


def test_a_repeated_step_is_done_once(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """The same request id gives the same experiment, task and policy."""
    publish_two(world, team, feature)
    made = [operator.create_experiment(app, feature, ARMS, request_id=f"create-{app}") for _ in range(2)]
    begun = [operator.start_experiment(made[0].experiment_id, request_id=f"start-{app}") for _ in range(2)]
    ended = [operator.stop_experiment(made[0].experiment_id, request_id=f"stop-{app}") for _ in range(2)]
    for first, second in (made, begun, ended):
        assert first == second
    assert len(operator.experiments(app)) == 1


@pytest.mark.parametrize(
    ("edges", "values"),
    [((), (0.0,)), ((10.0,), (5.0, 15.0)), ((1.0, 3.0, 10.0), (0.5, 2.0, 6.5, 13.5))],
)
def test_bins_are_represented_by_their_middles(edges: tuple[float, ...], values: tuple[float, ...]) -> None:
    """The open last bin counts as wide as the one before it."""
    assert bin_values_ms(edges) == values
