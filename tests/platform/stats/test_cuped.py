"""CUPED from end to end: devices with a past, real reports over the wire, a difference that is corrected by it."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.client import Arm, ExperimentPlan, PlatformClient
from alcove.platform.testing import Served, ServerWorld
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import Outcome, Policy, resolve
from alcove.registry.program_verification import ProgramVerifier
from alcove.registry.testing import FakeVerifier
from alcove.sdk import Client
from alcove.sdk.testing import FakeEngine, FakeProgram, SeededEntropy

ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
EDGES = (0.7,)
PASTS = ((0, 0), (1, 5), (2, 3), (3, 2), (6, 4), (8, 2), (9, 1), (5, 0))
"""Accepted and refused answers of a device before it met the experiment; half of the devices are in each arm."""


class _Engine(FakeEngine):
    """Runs the programs that the pretended server publishes."""

    @property
    def verifier(self) -> ProgramVerifier:
        return FakeVerifier()

    def load(self, path: Path) -> FakeProgram:
        self.loads.append(path)
        return FakeProgram("de")


class _Certain:
    """A secret of its own, and zeros for everything else: the last outcome is drawn, and its true cell is reported."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def random_bytes(self, size_bytes: int) -> bytes:
        return self._secret if size_bytes == len(self._secret) else bytes(size_bytes)


def secrets_of(policy: Policy, feature: str, arm: int) -> Iterator[bytes]:
    """Secrets of installations that are in an arm."""
    for seed in range(10_000):
        secret = SeededEntropy(seed).random_bytes(32)
        if resolve(policy, feature, secret).arm == arm:
            yield secret


def test_devices_report_what_they_did_before_and_results_are_corrected_by_it(
    *,
    world: ServerWorld,
    served: Served,
    team: PlatformClient,
    operator: PlatformClient,
    app: str,
    feature: str,
    tmp_path: Path,
) -> None:
    """Each device's true cell arrives; the difference is less theta times the imbalance of the earlier shares."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")
    draft = operator.create_experiment(app, feature, ARMS, pre_edges=EDGES)
    assert draft.pre_edges == EDGES
    assert draft.plan.cuped_error_ratio > 1.5
    experiment = operator.start_experiment(draft.experiment_id)
    policy = world.tree.policy(app)
    assert policy is not None
    (task,) = next(one.tasks for one in policy.features[feature].experiments)
    assert (task.task_id, task.pre_edges, task.cell_count) == (experiment.task_id, EDGES, 12)
    baseline = tmp_path / "baseline"
    baseline.write_bytes(b"program shipped")
    expected: Counter[int] = Counter()
    secrets = [secrets_of(policy, feature, arm) for arm in range(2)]
    for number, (accepted, refused) in enumerate(PASTS):
        arm, outcome = number % 2, Outcome.ACCEPTED if accepted + number % 2 > 2 else Outcome.REFUSED
        client = Client(
            app,
            tmp_path / f"device-{number}",
            served.http_url,
            world.tree.root_bytes(),
            baselines={feature: baseline},
            engine=_Engine(),
            entropy=_Certain(next(secrets[arm])),
        )
        with contextlib.closing(client):
            handle = client.feature(feature)
            for is_accepted in [True] * accepted + [False] * refused:
                handle.record_outcome(is_accepted, handle.predict("before"))
            assert client.report().sent == 0
            assert client.sync().error is None
            answer = handle.predict("now")
            assert answer.version == ARMS[arm].version
            handle.record_outcome(outcome is Outcome.ACCEPTED, answer)
            assert client.report().sent == 1
        expected[task.cell_index(arm, outcome, 0.0, task.pre_bin(accepted + refused, accepted))] += 1
    found = operator.results(experiment.experiment_id).results
    assert found.cell_counts == tuple(expected[cell] for cell in range(12))
    (primary,) = found.primary
    assert primary.adjustment is not None
    assert primary.adjustment.unadjusted == found.differences[0].accepted
    mechanism = RandomizedResponse(12, Fraction(2))
    counts = np.array(mechanism.estimate(list(found.cell_counts))).reshape(2, 2, 3)
    known = counts[:, :, 1:].sum(axis=(0, 1))
    mean = (known * (0.35, 0.85)).sum() / known.sum()
    earlier = np.array([min(max(mean, 0.35), 0.85), 0.35, 0.85])
    shares = (counts.sum(axis=1) * earlier).sum(axis=1) / counts.sum(axis=(1, 2))
    accuracies = counts[:, 1].sum(axis=1) / counts.sum(axis=(1, 2))
    corrected = (accuracies[1] - accuracies[0]) - primary.adjustment.theta * (shares[1] - shares[0])
    assert primary.adjustment.theta != 0.0
    assert primary.difference.value == pytest.approx(corrected)
    stopped = operator.stop_experiment(experiment.experiment_id)
    assert stopped.decision is not None
    assert stopped.decision.kind == "inconclusive"


def test_cuped_of_a_draft_is_changed_and_taken_back(operator: PlatformClient, app: str, shared_feature: str) -> None:
    """The forecast follows the edges; other changes leave them; without them there is none, and no adjustment."""
    draft = operator.create_experiment(app, shared_feature, ARMS)
    assert (draft.pre_edges, draft.plan.cuped_error_ratio) == ((), 0.0)
    name = draft.experiment_id
    one = operator.update_experiment(name, fields=("pre_edges",), pre_edges=(0.7,))
    four = operator.update_experiment(name, fields=("pre_edges",), pre_edges=(0.2, 0.4, 0.6, 0.8))
    assert 1.0 < one.plan.cuped_error_ratio < four.plan.cuped_error_ratio
    assert operator.update_experiment(name, fields=("epsilon",), epsilon="1").pre_edges == (0.2, 0.4, 0.6, 0.8)
    assert operator.update_experiment(name, fields=("pre_edges",)).plan.cuped_error_ratio == 0.0
    operator.start_experiment(name)
    assert operator.results(name).results.primary[0].adjustment is None


def test_needs_count_the_cells_that_cuped_adds(operator: PlatformClient, app: str, shared_feature: str) -> None:
    """A plan promises nothing of a history that nobody knows yet."""
    plan = ExperimentPlan(mde=0.05)
    without, asked = (
        operator.create_experiment(app, shared_feature, ARMS, plan=plan, pre_edges=edges) for edges in ((), EDGES)
    )
    assert asked.plan.devices_needed > 3 * without.plan.devices_needed
