"""Metrics of a team's own: versions that never change, deprecation instead of another name, and who may define them."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from alcove.platform.client import (
    ClientError,
    FailedPreconditionError,
    InvalidRequestError,
    Metric,
    NotFoundError,
    PermissionDeniedError,
    PlatformClient,
)
from alcove.platform.domain import limits
from alcove.platform.domain.metric_definitions import MetricDefinition, validate_metric
from alcove.platform.domain.records import Page
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.database import database_of
from alcove.platform.testing import ServerWorld
from alcove.registry.policy.metric import MetricKind
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

FEATURE = "text_155"
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"undone_{next(_numbers)}"


def create(client: PlatformClient, name: str, **changes: Any) -> Metric:
    """Create a count of edits that were taken back."""
    fields: dict[str, Any] = {
        "kind": "count",
        "owner": "keyboard",
        "description": "edits taken back within a minute",
        "more_is_better": False,
        "edges": (3,),
    }
    return client.create_metric(FEATURE, name, **(fields | changes))


def test_a_changed_definition_is_the_next_version_and_the_old_one_stays(team: PlatformClient, name: str) -> None:
    """The same definition again changes nothing; one version never does; the list shows the newest."""
    first = create(team, name)
    assert (first.version, first.cap, first.bin_values) == (1, 4.0, (0.0, 1.5, 3.5))
    assert create(team, name) == first
    second = create(team, name, edges=(2, 5), cap=20)
    assert (second.version, second.bin_values) == (2, (0.0, 1.0, 3.0, 12.5))
    assert team.metric(FEATURE, name) == [second, first]
    assert [one for one in team.metrics(FEATURE) if one.name == name] == [second]
    with pytest.raises(InvalidRequestError, match="count, as before"):
        create(team, name, kind="value")


def test_a_request_that_is_sent_again_makes_no_version(team: PlatformClient, name: str) -> None:
    """Idempotent by its id; to try without doing keeps nothing."""
    create(team, name, validate_only=True)
    with pytest.raises(NotFoundError, match=name):
        team.metric(FEATURE, name)
    first = create(team, name, request_id=f"first-{name}-1")
    create(team, name, edges=())
    assert create(team, name, request_id=f"first-{name}-1") == first
    assert len(team.metric(FEATURE, name)) == 2


def test_a_deprecated_metric_names_its_successor_and_takes_no_version(team: PlatformClient, name: str) -> None:
    """There is no other name for it: the successor is a metric of its own; who said so first is kept."""
    create(team, name)
    create(team, f"{name}_b")
    deprecated = team.deprecate_metric(FEATURE, name, reason="counts twice", successor=f"{name}_b")
    assert (deprecated.successor, deprecated.deprecation_reason) == (f"{name}_b", "counts twice")
    assert deprecated.deprecated_at_s > 0
    assert team.deprecate_metric(FEATURE, name, reason="another") == deprecated
    with pytest.raises(FailedPreconditionError, match=f"use '{name}_b': counts twice"):
        create(team, name, edges=())
    for successor, refusal in ((f"{name}_b", InvalidRequestError), (name, FailedPreconditionError)):
        with pytest.raises(refusal):
            team.deprecate_metric(FEATURE, f"{name}_b", reason="because", successor=successor)
    with pytest.raises(NotFoundError, match="nowhere"):
        team.deprecate_metric(FEATURE, f"{name}_b", reason="because", successor="nowhere")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"edges": (1,)}, "at least 2"),
        ({"edges": (2, 2)}, "must rise"),
        ({"kind": "share", "edges": ()}, "at least one edge"),
        ({"kind": "share", "edges": (0.5,), "cap": 2.0}, "cap"),
        ({"kind": "value", "edges": (10,), "cap": 9.0}, "from 10"),
        ({"cap": 3.5}, "a whole number"),
        ({"cap": float("nan")}, "cap"),
        ({"owner": "  "}, "owner"),
        ({"description": "two\nlines"}, "description"),
    ],
)
def test_a_definition_that_means_nothing_is_refused_by_its_field(
    team: PlatformClient, name: str, changes: dict[str, Any], words: str
) -> None:
    """Edges, cap, owner and description; nothing is kept."""
    with pytest.raises(InvalidRequestError, match=words):
        create(team, name, **changes)
    with pytest.raises(NotFoundError):
        team.metric(FEATURE, name)


def test_teams_define_metrics_of_their_own_features_only(client: Callable[[str], PlatformClient], name: str) -> None:
    """Operators of everything may, too; readers read; nobody defines one of a feature that no team owns."""
    create(client("operator"), name)
    refused: list[tuple[str, type[ClientError]]] = [
        ("reader", PermissionDeniedError),
        ("team:speech", PermissionDeniedError),
        ("operator:speech", PermissionDeniedError),
    ]
    for role, refusal in refused:
        with pytest.raises(refusal):
            create(client(role), name, edges=())
        with pytest.raises(refusal):
            client(role).deprecate_metric(FEATURE, name, reason="because")
        assert client(role).metric(FEATURE, name)[0].version == 1
    with pytest.raises(NotFoundError, match="unowned"):
        client("operator").create_metric(
            "unowned", name, "count", owner="x", description="x", more_is_better=True
        )  # fmt: skip


async def test_every_change_is_in_the_audit_log_and_cannot_be_written_over(
    world: ServerWorld, team: PlatformClient, name: str
) -> None:
    """Who, what and why; the database refuses to change a version."""
    create(team, name)
    team.deprecate_metric(FEATURE, name, reason="because")
    store = await Store.open(database_of(world.data_dir, world.database))
    try:
        async with store.read() as session:
            entries = [one for one in await list_audit(session, Page(0, 1000)) if one.subject == f"{FEATURE}/{name}"]
        assert [one.action for one in entries] == ["create metric", "deprecate metric"]
        assert entries[0].details["edges"] == [3.0]
        assert entries[1].details["reason"] == "because"
        with pytest.raises(DBAPIError, match="append-only"):
            async with store.write() as session:
                await session.execute(text("UPDATE metric_definitions SET cap = 5"))
    finally:
        await store.close()


def test_values_of_bins_rise_whatever_the_definition() -> None:
    """The first is 0 for devices that recorded nothing; a mean of them never falls when a device records more."""
    cases: list[tuple[MetricKind, tuple[float, ...], float]] = [
        (MetricKind.COUNT, (), 0.0),
        (MetricKind.COUNT, (2, 3, 100), 100.0),
        (MetricKind.SHARE, (0.001, 0.999999), 0.0),
        (MetricKind.VALUE, (0.5, 60), 60.0),
        (MetricKind.VALUE, (999_999,), 0.0),
    ]
    for kind, edges, cap in cases:
        asked = MetricDefinition(0, "text", "m", 0, kind, edges, cap, True, "o", "d")
        values = validate_metric(asked).bin_values
        assert len(values) == len(edges) + 2
        assert values[0] == 0.0
        assert all(low < high for low, high in itertools.pairwise(values)), (kind, values)
    assert limits.METRICS_MAX >= 1
