"""Attack: an operator asks by CUPED, experiment after experiment, how devices took their answers before.

Each experiment may have other edges, so that a series of them halves the range of the share.  Devices that differ in
their history alone are compared: what they request, and what a report of theirs can tell.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from alcove.privacy import RandomizedResponse
from alcove.privacy.report import report_from_bytes
from alcove.sdk import Client
from alcove.sdk.testing import SeededEntropy

from tests.sdk.conftest import FEATURE, Device, World

MakeDevice = Callable[..., Device]
WINDOW = 3600
EPSILON = Fraction(1)
ANSWERS = 8


def take_part(device: Device, client: Client) -> list[tuple[str, str, bytes]]:
    """One check-in with one outcome; every request but the reports' bodies."""
    begin = len(device.transport.requests)
    assert client.sync().error is None
    handle = client.feature(FEATURE)
    handle.record_outcome(True, handle.predict("hi"))
    client.report()
    return [
        (one.method, one.path, one.wire if one.method == "GET" else one.body[:36])
        for one in device.transport.requests[begin:]
    ]


def test_no_series_of_edges_shows_a_share_or_passes_the_budget(
    released_world: World, make_device: MakeDevice, unsynced: None
) -> None:
    """Nine histories, twelve experiments that halve the range: the same requests, and no more than the day's budget."""
    fleet = []
    for accepted in range(ANSWERS + 1):
        device = make_device(released_world, f"of {accepted}")
        client = device.client(entropy=SeededEntropy(7))
        client.sync()
        handle = client.feature(FEATURE)
        for number in range(ANSWERS):
            handle.record_outcome(number < accepted, handle.predict("hi"))
        fleet.append((device, client))
    for number in range(12):
        edge = (number % 8 + 1) / 10
        released_world.set_policy(
            "1.0.0", arms=("1.0.0", "2.0.0"), epsilon="1", pre_edges=(edge,), experiment_id=f"ex-{number:02d}"
        )
        seen = [take_part(device, client) for device, client in fleet]
        assert all(one == seen[0] for one in seen), edge
        for device, _ in fleet:
            device.clock.pass_s(WINDOW)
    for device, client in fleet:
        assert len(device.transport.reports) == 2  # a day's budget, whatever the number of experiments
        assert client.privacy_summary().epsilon_total == 2
        files = [path.name for path in (device.folder / "reports").iterdir()]
        assert "history.json" in files
        share = (device.folder / "reports" / "history.json").read_bytes()
        assert not any(share in one.wire for one in device.transport.requests)


@pytest.mark.parametrize("bins", [1, 2, 5, 9])
def test_bin_of_the_share_costs_no_more_than_the_reports_epsilon(bins: int) -> None:
    """Exact, for every pair of true cells: arm, outcome, latency and share together are within it."""
    mechanism = RandomizedResponse(2 * 4 * bins, EPSILON)
    keep, other = mechanism.keep_probability, mechanism.other_probability
    euler = Fraction(27182818284590452353602874713526624977572, 10**40)  # below e
    assert keep / other <= euler
    assert keep + (mechanism.cell_count - 1) * other == 1


def test_reports_of_one_share_look_like_those_of_any_other(
    released_world: World, make_device: MakeDevice, unsynced: None
) -> None:
    """Devices of every history report every cell: no reported cell rules a share out."""
    reported: Counter[int] = Counter()
    device = make_device(released_world)
    client = device.client(entropy=SeededEntropy(7))
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon="1", pre_edges=(0.5,))
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    policy = released_world.tree.policy("messenger")
    assert policy is not None
    (experiment,) = policy.features[FEATURE].experiments
    for _ in range(250):
        handle.record_outcome(accepted=True)
        client.report()
        reported[report_from_bytes(device.transport.reports[-1]).cell] += 1
        device.clock.pass_s(WINDOW)
        (device.folder / "reports" / "ledger.jsonl").unlink()  # the next one is another device
    assert len(reported) == experiment.tasks[0].cell_count
