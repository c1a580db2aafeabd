"""The registry tree benchmark, run on a small tree, counts versions, bins and the bytes that a device receives."""

import pytest

from benchmarks import tree


def test_tree_is_measured_with_its_versions_bins_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four teams of 70 versions: 16 bins; unchanged moves least, a first fetch most, a foreign publish between."""
    monkeypatch.setattr(tree, "TEAMS", 4)
    monkeypatch.setattr(tree, "VERSIONS", 70)
    monkeypatch.setattr(tree, "PUSHES", 2)
    figures = {figure.name: figure.value for figure in tree.measure()}
    assert figures["versions in the tree"] == 280
    assert figures["hash bins beneath the teams"] == 16
    first, unchanged = figures["first fetch: received"], figures["unchanged: received"]
    assert 0 < unchanged < figures["one foreign publish: received"] < first
    assert unchanged < 1000
