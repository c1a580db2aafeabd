"""The simulator: its devices are assigned, randomized and paid for as real ones are, and harm is found as it should."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.domain.planning.rollout import RolloutQuestion, forecast_rollout
from alcove.platform.domain.records import RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.simulation.aggregation import aggregation_mechanism
from alcove.platform.simulation.fleet import Fleet, buckets_of
from alcove.platform.simulation.plots import write_plot
from alcove.platform.simulation.run import simulate
from alcove.platform.simulation.scenario import Behavior, Scenario
from alcove.platform.simulation.summary import share_part, summarize
from alcove.platform.stats import Mechanism
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry.policy import Outcome, RolloutPolicy, TaskPolicy, VersionRef, bucket
from pydantic import ValidationError

from tests.platform.cli.terminal import alcove

CRASH = GuardrailRecord("crash_fallback", 0.005)
ALL = (CRASH, GuardrailRecord("error", 0.01), GuardrailRecord("refused", 0.02), GuardrailRecord("latency", 20.0, 0.95))
PLAN = RolloutPlan(stages=(Stage(500, 0, 1000), Stage(5000, 0, 1000)), guardrails=(CRASH,), epsilon="1")
HARMFUL = Behavior(crash_fallback=0.021)


def scenario(**changes: object) -> Scenario:
    """A million devices less two zeros, through two aggregators."""
    values: dict[str, object] = {"plan": PLAN, "devices": 100_000, "windows": 6, "mechanism": Mechanism.PRIO3}
    return Scenario.model_validate(values | changes)


def test_buckets_are_those_that_devices_compute() -> None:
    """Each bucket is the function's of the secret that was drawn; together they are even."""
    rng = np.random.default_rng(5)
    secrets = np.random.default_rng(5).bytes(32 * 2000)
    found = buckets_of(2000, "salt", rng)
    assert found.tolist() == [bucket(secrets[at : at + 32], "salt") for at in range(0, len(secrets), 32)]
    parts = np.bincount(found // 1000, minlength=10)
    assert np.all(np.abs(parts - 200) < 5 * np.sqrt(200))


def rollout(task: TaskPolicy, share: int, control: int) -> RolloutPolicy:
    """A rollout as a policy has it."""
    ref = VersionRef(version="2.0.0", manifest_sha256="2" * 64)
    return RolloutPolicy(
        id="ro-1", salt="salt", version=ref, share_basis_points=share, control_basis_points=control, tasks=(task,)
    )


def test_who_reports_is_who_is_in_a_group_and_cells_have_their_chances() -> None:
    """Counts by arm are the buckets' exactly; cells follow the behaviors; nobody else reports."""
    edges = (10.0, 40.0)
    task = task_of("ro-1", RolloutPlan(guardrails=ALL, latency_edges_ms=edges), 10_000)
    behaviors = Behavior(error=0.1, latency_ms=15), Behavior(crash_fallback=0.3)
    chances = tuple(np.array(each.cells(task)) for each in behaviors)
    assert [each.sum() for each in chances] == pytest.approx([1, 1])
    rng = np.random.default_rng(1)
    buckets = rng.integers(0, 10_000, 200_000).astype(np.uint16)
    fleet = Fleet(buckets, Fraction(1), 86_400, rng)
    counts = fleet.report(rollout(task, 2000, 1000), [chances], 1.0)[0].reshape(2, -1)
    assert counts.sum(axis=1).tolist() == [int((buckets >= 9000).sum()), int((buckets < 2000).sum())]
    for arm, chance in enumerate(chances):
        expected = chance * counts[arm].sum()
        assert np.all(np.abs(counts[arm] - expected) <= 6 * np.sqrt(expected) + 1e-9)
        assert np.all(counts[arm][chance == 0] == 0)
    assert int(fleet.total.sum()) == counts.sum()
    crashed = counts[1][task.layout.cell_index(0, Outcome.FALLBACK)]
    assert crashed == pytest.approx(0.3 * counts[1].sum(), rel=0.05)


@pytest.mark.parametrize(("epsilon", "day", "month"), [("2", 1, 4), ("1", 2, 8), ("0.5", 4, 16)])
def test_the_budget_of_a_device_holds_for_virtual_ones(epsilon: str, day: int, month: int) -> None:
    """With windows of six hours: so many reports a day, so many in thirty days, and again when they have passed."""
    task = task_of("ro-1", RolloutPlan(epsilon=epsilon), 10_000)
    fleet = Fleet(np.zeros(10, np.uint16), Fraction(epsilon), 6 * 3600, np.random.default_rng(1))
    chances = (np.array(Behavior().cells(task)),) * 2
    sent = [int(fleet.report(rollout(task, 10_000, 0), [chances], 1.0)[0].sum()) // 10 for _ in range(200)]
    for at in range(len(sent)):
        assert sum(sent[max(0, at - 3) : at + 1]) <= day
        assert sum(sent[max(0, at - 119) : at + 1]) <= month
    assert sum(sent[:120]) == month
    assert sum(sent[120:]) > 0


@pytest.mark.parametrize(("epsilon", "size"), [("2", 1), ("1", 2), ("0.5", 3)])
def test_randomized_sums_are_distributed_as_randomized_devices_are(epsilon: str, size: int) -> None:
    """Mean and spread of the reported counts over many draws are those of devices that randomize one by one."""
    task = task_of("ro-1", RolloutPlan(guardrails=(ALL[0], ALL[2]), epsilon=epsilon), 10_000)
    assert (task.cell_count, task.subset_size) == (8, size)
    mechanism = SubsetSelection(task.cell_count, task.epsilon_fraction, size)
    true = np.array([300, 0, 50, 0, 0, 120, 0, 30])
    rng = np.random.default_rng(3)
    drawn = []
    for _ in range(400):
        aggregation = aggregation_mechanism(Mechanism.RANDOMIZED_RESPONSE, task, rng)
        aggregation.add(true)
        drawn.append(aggregation.aggregate().estimates.ravel()[list(task.layout.places)])
    entropy = OsEntropy()
    cells = np.repeat(np.arange(8), true)
    singly = []
    for _ in range(100):
        counts = np.bincount([each for cell in cells for each in mechanism.randomize(int(cell), entropy)], minlength=8)
        singly.append(mechanism.estimate(counts))
    ours, theirs = np.array(drawn), np.array(singly)
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
    assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * error)
    assert np.all(np.abs(ours.mean(axis=0) - true) < 5 * error)
    assert ours.std(axis=0) == pytest.approx(theirs.std(axis=0), rel=0.4)


def test_two_aggregators_noise_is_as_large_as_its_covariance_says() -> None:
    """Windows are noised once each and pooled; the spread over many draws is the stated one."""
    task = task_of("ro-1", RolloutPlan(guardrails=(ALL[0], ALL[2]), epsilon="1"), 10_000)
    rng = np.random.default_rng(4)
    true = np.full(8, 100)
    found = []
    for _ in range(500):
        aggregation = aggregation_mechanism(Mechanism.PRIO3, task, rng)
        for _window in range(3):
            aggregation.add(true)
        found.append(aggregation.aggregate())
    spread = np.var([each.estimates.ravel() for each in found], axis=0, ddof=1)
    assert spread == pytest.approx(np.diag(found[0].noise_covariance), rel=0.35)
    assert found[0].reports == 2400


def test_harm_is_found_and_a_sound_version_reaches_everybody() -> None:
    """Two per cent more crashes: paused at once in each run; none: safe at each stage, then complete."""
    harmed = list(simulate(scenario(treatment=HARMFUL, runs=5)))
    assert [(run.state, run.harmed_window) for run in harmed] == [(RolloutState.PAUSED, 1)] * 5
    sound = list(simulate(scenario(runs=5)))
    assert [run.state for run in sound] == [RolloutState.COMPLETED] * 5
    for run in sound:
        assert run.harmed_window is None
        assert run.completed_window == len(run.analyses)
        shares = [analysis.share_basis_points for analysis in run.analyses]
        assert (sorted(shares), set(shares)) == (shares, {500, 5000})
        assert run.epsilon_mean <= run.epsilon_max <= len(run.analyses)
    held = next(simulate(scenario(is_advanced=False)))
    assert (held.state, {analysis.share_basis_points for analysis in held.analyses}) == (RolloutState.RUNNING, {500})


def test_the_same_seed_is_the_same_simulation() -> None:
    """And another seed another one."""
    first, again, other = (list(simulate(scenario(devices=20_000, seed=seed, runs=2))) for seed in (1, 1, 2))
    assert first == again != other


def test_a_share_comes_with_its_interval() -> None:
    """Wilson's: none or all of 20 by z^2 / (n + z^2), 33 of 100 worked out by hand."""
    for count, total, low, high in ((0, 20, 0.0, 0.161125), (20, 20, 0.838875, 1.0), (33, 100, 0.245631, 0.426948)):
        part = share_part(count, total)
        assert (part.low, part.high) == pytest.approx((low, high), abs=2e-6)


@pytest.mark.parametrize("name", ["plot.png", "plot.svg", "page.html"])
def test_a_simulation_can_be_drawn(tmp_path: Path, name: str) -> None:
    """A picture, or a page that holds everything it shows."""
    about = scenario(devices=20_000)
    summary = summarize(list(simulate(about)), windows=about.windows, seconds=1.0)
    write_plot(tmp_path / name, about, summary)
    data = (tmp_path / name).read_bytes()
    assert data.startswith({"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}[name.partition(".")[2]])
    if name.endswith("html"):
        assert b"http" not in data  # nothing is fetched


def test_what_cannot_be_simulated_is_refused() -> None:
    """A plan that watches nothing, shares beyond all, no devices, a mechanism that is none."""
    exact = {"mechanism": Mechanism.EXACT}
    for changes in ({"plan": RolloutPlan()}, {"devices": 0}, {"active": 0.0}, {"windows": 0}, exact):
        with pytest.raises(ValidationError):
            scenario(**changes)
    with pytest.raises(ValidationError, match="at most 1"):
        Behavior(crash_fallback=0.7, error=0.5)


def test_the_command_simulates_tells_and_draws(tmp_path: Path) -> None:
    """JSON and a table of the same simulation; wrong options say how they are written."""
    options = ("simulate", "--devices", "30000", "--windows", "3", "--runs", "2", "--mechanism", "prio3")
    plan = ("--stage", "20%:1d:1000", "--guard", "crash_fallback:0.5%", "--treatment", "crash_fallback=3%")
    said = alcove(*options, *plan, "--plot", tmp_path / "plot.png", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert (found["runs"], found["harmed"]["share"], found["states"]) == (2, 1.0, {"paused": 2})
    assert (tmp_path / "plot.png").stat().st_size > 5000
    table = alcove(*options, *plan)
    assert "harm found in 100.0% of 2 runs" in table.out
    for wrong, problem in (
        (("--stage", "20%"), "guardrail"),
        ((*plan, "--treatment", "crash=3%"), "crash_fallback=1%"),
        ((*plan, "--plot", "plot.gif"), ".png"),
        ((*plan, "--active", "half"), "2.5%"),
        ((*plan, "--devices", "0"), "devices"),
    ):
        refused = alcove(*options, *wrong)
        assert refused.code == 2
        assert problem in " ".join(refused.err.replace("│", " ").split()), refused.err


def test_a_plan_by_two_aggregators_says_what_it_takes(repository: Path) -> None:
    """A page once planned with aggregators that nobody had, and so with a guardrail that misses most of the harm.

    The command says what such a plan takes, and no page plans with it unasked.
    """
    plan = ("--stage", "5%", "--guard", "crash_fallback:0.5%", "--treatment", "crash_fallback=2.1%")
    small = ("--devices", "2000", "--runs", "1", "--windows", "1")
    shared = alcove("simulate", *plan, *small, "--mechanism", "prio3")
    assert (shared.code, "prio3 takes two aggregators (alcove serve --aggregators)" in shared.err) == (0, True)
    assert alcove("simulate", *plan, *small).err.strip() == ""
    for page in (repository / "README.md", *(repository / "docs" / "tutorials").glob("*.md")):
        for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            assert not line.startswith("alcove simulate") or "prio3" not in line, page


def test_devices_that_spent_on_an_experiment_report_less_until_their_budget_is_back() -> None:
    """Of eight 6 are spent: one report of two in 30 days, then four again; all spent: silence."""
    task = task_of("ro-1", RolloutPlan(), 10_000)
    chances = (np.array(Behavior().cells(task)),) * 2
    for spent, before in ((6, 1), (8, 0), (0, 4)):
        fleet = Fleet(np.zeros(10, np.uint16), Fraction(2), 86_400, np.random.default_rng(1), spent=Fraction(spent))
        sent = [int(fleet.report(rollout(task, 10_000, 0), [chances], 1.0)[0].sum()) // 10 for _ in range(60)]
        assert sum(sent[:30]) == before
        assert sum(sent[30:]) == 4


def check_agreement(name: str, differences: tuple[float, ...], runs: int) -> None:
    """Assert that half of 20,000 devices find harm as often as the planner says, within the error of the runs.

    Simulated devices meet something else in each window, planned ones the same: with little noise one window agrees.
    """
    windows = 1 if name == "prio3" else 2
    plan = RolloutPlan(stages=(Stage(5000, 0, 50),), guardrails=(CRASH,), expected_devices=20_000)
    about = scenario(plan=plan, devices=20_000, windows=windows, mechanism=Mechanism(name), runs=runs)
    reports = ReportModel(Mechanism(name), Fraction(2))
    for difference in differences:
        asked = RolloutQuestion(about.plan, differences=(difference,), reports=reports, harm_days=windows)
        planned = forecast_rollout(asked).stages[0].guardrails[0].harm_power
        treatment = Behavior(crash_fallback=0.001 + difference)
        results = list(simulate(about.model_copy(update={"treatment": treatment})))
        found = sum(run.harmed_window is not None for run in results) / runs
        assert abs(found - planned) <= 4 * (max(planned * (1 - planned), 0.05) / runs) ** 0.5 + 0.01, (planned, found)


@pytest.mark.parametrize(("name", "difference"), [("prio3", 0.009), ("randomized-response", 0.019)])
def test_simulation_finds_harm_as_often_as_the_plan_says(name: str, difference: float) -> None:
    """Where the planner finds it in about half of the runs: 50 of them."""
    check_agreement(name, (difference,), runs=50)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["prio3", "randomized-response"])
def test_simulation_agrees_with_the_plan_over_a_grid(name: str) -> None:
    """From hardly found to nearly always: 600 runs each."""
    check_agreement(name, (0.007, 0.009, 0.012) if name == "prio3" else (0.012, 0.016, 0.02, 0.025), runs=600)


def test_reports_whose_reply_is_lost_count_twice() -> None:
    """A fifth more reports; the shares they tell are the same, and aggregators know a report again."""
    task = task_of("ro-1", RolloutPlan(guardrails=(CRASH,)), 10_000)
    true = np.full(task.cell_count, 50_000)
    rng = np.random.default_rng(6)
    found = aggregation_mechanism(Mechanism.RANDOMIZED_RESPONSE, task, rng, lost_replies=0.2)
    found.add(true)
    assert found.aggregate().reports == pytest.approx(1.2 * true.sum(), rel=0.01)
    assert found.aggregate().estimates.sum() == pytest.approx(1.2 * true.sum(), rel=0.01)
    shared = aggregation_mechanism(Mechanism.PRIO3, task, rng, lost_replies=0.2)
    shared.add(true)
    assert shared.aggregate().reports == true.sum()
