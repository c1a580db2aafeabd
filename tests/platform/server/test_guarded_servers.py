"""Two servers over real sockets: reports go in at the device's door, and one of them acts on what they say, once."""

import time
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.cli.demo.reporting import send_reports
from alcove.platform.client import Arm, ExperimentPlan, GuardrailPlan, Plan, PlatformClient, Rollout, StagePlan
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.services.experiments import monitor as experiments
from alcove.platform.services.rollouts.monitor import PRINCIPAL
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.postgres import PostgresServer
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.report import Report, report_to_bytes
from alcove.registry.policy import Outcome, TaskPolicy

pytestmark = pytest.mark.thorough

TEAMS = {"text": ("text_00",)}
PLAN = Plan(
    stages=(StagePlan(share_basis_points=1000, minimum_cohort=100),),
    guardrails=(GuardrailPlan(metric="crash_fallback", margin=0.01),),
    epsilon="2",
)
PATIENCE_S = 60.0


def send(
    served: Served,
    task: TaskPolicy,
    shares: tuple[float, float],
    devices: int,
    outcome: Outcome = Outcome.FALLBACK,
) -> int:
    """Report for both groups, randomized as devices do, one by one; return how many were counted.

    A share of each group has the outcome, the others accept.

    Once the version is halted its task is over, and what comes then is refused.
    """
    rng = np.random.default_rng(7)
    keep = float(RandomizedResponse(task.cell_count, task.epsilon_fraction).keep_probability)
    cells = []
    for arm, share in enumerate(shares):
        met = np.where(rng.random(devices) < share, outcome, Outcome.ACCEPTED)
        cells.append(np.array([task.layout.cell_index(arm, int(each)) for each in met]))
    true = rng.permutation(np.concatenate(cells))
    others = (true + rng.integers(1, task.cell_count, len(true))) % task.cell_count
    sent_cells = np.where(rng.random(len(true)) < keep, true, others)
    reports = [report_to_bytes(Report(bytes.fromhex(task.task_id), 0, int(cell))) for cell in sent_cells]
    statuses = send_reports(served.http_url, reports)
    assert not statuses.keys() - {204, 400}
    return statuses[204]


def begin(world: ServerWorld, operator: PlatformClient, team: PlatformClient) -> tuple[Rollout, TaskPolicy]:
    """A watched rollout at its first stage, and what its devices report."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, "text_00", version)
    first = operator.create_rollout("app", "text_00", "1.0.0")
    operator.advance_rollout(first.rollout_id, 10_000, override_reason="first")
    rollout = operator.create_rollout("app", "text_00", "2.0.0", plan=PLAN)
    rollout = operator.advance_rollout(rollout.rollout_id)
    policy = world.tree.policy("app")
    assert policy is not None
    moving = policy.features["text_00"].rollout
    assert moving is not None
    (task,) = moving.tasks
    return rollout, task


def test_two_servers_pause_a_harmful_version_once_and_the_audit_has_the_evidence(
    tmp_path: Path, postgres: PostgresServer, migrated: str
) -> None:
    """Quiet while reports are few; after half of the devices crashed it is paused, by whichever server looked first."""
    database = postgres.url(postgres.database(migrated))
    world = ServerWorld(tmp_path / "guarded", teams=TEAMS, database=database)
    servers = [world.start("--analysis-interval-s", "0.2") for _ in range(2)]
    try:
        with world.client(servers[0], "operator") as operator, world.client(servers[1], "team:text") as team:
            rollout, task = begin(world, operator, team)
            until = time.monotonic() + PATIENCE_S
            while operator.rollout(rollout.rollout_id).analysis is None:
                assert time.monotonic() < until
                time.sleep(0.1)
            waiting = operator.rollout(rollout.rollout_id)
            assert waiting.analysis is not None
            assert (waiting.state, waiting.analysis.code) == ("running", "no_reports")
            assert send(servers[1], task, (0.0, 0.5), 1500) >= 100
            for seen in operator.watch_rollout(rollout.rollout_id, timeout_s=PATIENCE_S):
                rollout = seen
                if rollout.state != "running":
                    break
            assert rollout.state == "paused"
            assert rollout.analysis is not None
            assert rollout.analysis.code == "harmful_crash_fallback"
    finally:
        codes = [server.stop() for server in servers]
    assert codes == [0, 0]
    pauses = [e for e in list_local_audit(world.data_dir, database=database) if e.action == "pause rollout"]
    assert [entry.principal for entry in pauses] == [PRINCIPAL]
    # Reports that anybody can send withdraw nothing.
    halt = world.tree.halt("app")
    assert halt is None or not halt.halted


def test_two_servers_take_each_interim_analysis_once_and_the_winner_is_kept(
    tmp_path: Path, postgres: PostgresServer, migrated: str
) -> None:
    """The last analysis names the arm that nobody refuses; watchers see it, and the stop keeps it."""
    database = postgres.url(postgres.database(migrated))
    world = ServerWorld(tmp_path / "looked", teams=TEAMS, database=database)
    servers = [world.start("--analysis-interval-s", "0.2") for _ in range(2)]
    arms = [Arm(name=name, version=f"{i}.0.0", share_basis_points=5000) for i, name in enumerate(("old", "new"), 1)]
    try:
        with world.client(servers[0], "operator") as operator, world.client(servers[1], "team:text") as team:
            for version in ("1.0.0", "2.0.0"):
                world.publish(team, "text_00", version)
            draft = operator.create_experiment(
                "app", "text_00", arms, guardrails=PLAN.guardrails, minimum_cohort=100,
                plan=ExperimentPlan(interim_analyses=2, horizon_reports=3000),
            )  # fmt: skip
            operator.start_experiment(draft.experiment_id)
            policy = world.tree.policy("app")
            assert policy is not None
            (running,) = policy.features["text_00"].experiments
            send(servers[1], running.tasks[0], (0.0, 0.7), 1500, Outcome.REFUSED)
            until = time.monotonic() + PATIENCE_S
            while operator.results(draft.experiment_id).results.next_analysis_reports:
                assert time.monotonic() < until
                time.sleep(0.1)
            stopped = operator.stop_experiment(draft.experiment_id)
    finally:
        codes = [server.stop() for server in servers]
    assert codes == [0, 0]
    assert stopped.decision is not None
    assert (stopped.decision.kind, stopped.decision.winner) == ("winner", 0)
    entries = [e for e in list_local_audit(world.data_dir, database=database) if e.action == "analyze experiment"]
    assert {entry.principal for entry in entries} == {experiments.PRINCIPAL}
    assert [entry.details["reports"] for entry in entries] == [
        analysis.report_count for analysis in stopped.interim_analyses
    ]
    assert 1 <= len(stopped.interim_analyses) <= 2
