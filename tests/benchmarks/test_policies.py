"""The policy benchmark, run on a small policy, gives all its figures, and the devices it times are in experiments."""

import hashlib

import pytest
from alcove.registry.policy import explain

from benchmarks import policies


def test_policy_is_measured_with_its_experiments_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three features of four experiments each, compiled, read and evaluated; every figure is there and positive."""
    monkeypatch.setattr(policies, "FEATURES", 3)
    monkeypatch.setattr(policies, "EXPERIMENTS", 4)
    monkeypatch.setattr(policies, "DEVICES", 3)
    monkeypatch.setattr(policies, "EXPERIMENTS_MAX", 8)
    figures = {figure.name: figure.value for figure in policies.measure()}
    assert figures["live experiments in the policy"] == 12
    assert 5_000 < figures["policy: size"] < 20_000
    assert all(value > 0 for value in figures.values())
    assert len(figures) == 7


def test_devices_that_are_timed_are_in_experiments() -> None:
    """An evaluation that ends at the first question would be no figure: audiences and segments are really asked."""
    policy = policies._compiler(1, 5)()
    answers = [
        explain(policy, "feature_00", hashlib.sha256(str(n).encode()).digest(), attributes=policies.DEVICE)
        for n in range(40)
    ]
    reasons = {one.resolution.reason for one in answers if one.resolution is not None}
    assert "experiment" in reasons
    assert any(step.check == "audience" and step.passed for one in answers for step in one.steps)
