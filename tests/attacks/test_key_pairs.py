"""`snapshot` and `timestamp`, and one key more: what each pair gives, and that a halt gives no device anything new."""

import pytest
from alcove.registry.errors import VersionHaltedError
from alcove.registry.policy import Policy, Reason, resolve
from alcove.registry.testing import RepositoryFixture
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks.attacker import SERVER, possible
from tests.registry.policies import experiment, make_full_policy, policy, ref, rollout, rules, secret

SHARES = [(5000, 5000), (100, 9000), (0, 0), (2000, 3000, 4000)]
DOCUMENTS = [
    make_full_policy(),
    *(
        policy(language_id=rules(experiment("one", *arms), moving=rollout(share, has_task=share > 0)))
        for arms in SHARES
        for share in (0, 2500, 10_000)
    ),
]
DIGESTS = sorted({ref(version).manifest_sha256 for version in ("0.9.0", "1.0.0", "1.1.0", "1.2.0", "3.0.0")})


@given(st.sampled_from(DOCUMENTS), st.data())
def test_no_halt_gives_a_device_what_it_would_not_run_without(document: Policy, data: st.DataObject) -> None:
    """Under any halt a device runs what it would run without, or the default, or nothing of the policy."""
    feature = data.draw(st.sampled_from(sorted(document.features)))
    halted = frozenset(data.draw(st.sets(st.sampled_from(DIGESTS))))
    device = secret(data.draw(st.integers(0, 10**6)))
    before = resolve(document, feature, device)
    try:
        after = resolve(document, feature, device, halted=halted)
    except VersionHaltedError:
        return
    assert after.version.manifest_sha256 not in halted
    assert after.version in (before.version, document.features[feature].default)
    assert (after.arm, after.task) in ((before.arm, before.task), (None, None))


@pytest.mark.parametrize("arm", ["1.0.0", "1.1.0"])
def test_halting_an_arm_raises_the_share_of_no_rollout(arm: str) -> None:
    """Devices of the experiment fall to the default; nobody gets the version that the rollout gave to others."""
    document = policy(language_id=rules(experiment("one", 4500, 4500), moving=rollout(9000)))
    moved = {}
    for halted in (frozenset[str](), frozenset({ref(arm).manifest_sha256})):
        found = [resolve(document, "language_id", secret(device), halted=halted).reason for device in range(2000)]
        moved[halted] = found.count(Reason.ROLLOUT)
    assert len(set(moved.values())) == 1
    assert min(moved.values()) > 0


WITH_SERVER = {
    "targets": {"forge", "choose", "halt", "freeze"},
    "policy": {"choose", "freeze"},
    "halt": {"halt", "freeze"},
    "team-text": {"forge", "freeze"},
}


@pytest.mark.parametrize("role", WITH_SERVER)
def test_key_compromise_with_the_server_gives_what_the_table_says(
    published_repository: RepositoryFixture, role: str
) -> None:
    """Besides the keys that date a tree: only the team's or an offline key makes a version."""
    assert possible(published_repository, [role, *SERVER]) == WITH_SERVER[role]
