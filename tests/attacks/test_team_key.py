"""One team's key: it publishes that team's versions, and speaks for nobody else."""

import pytest
from alcove.registry._tuf import DelegatedRole, Delegations, Key, SuccinctRoles, TargetFile
from alcove.registry.errors import MetadataError, MissingTarget, PublishError, RegistryError
from alcove.registry.manifest import manifest_path
from alcove.registry.policy import Policy
from alcove.registry.team import next_team_metadata
from alcove.registry.testing import TreeWorld


def test_team_cannot_speak_for_another_team_or_the_policy(published: TreeWorld) -> None:
    """Even if the server let it pass: nobody asks a role about a path that was not delegated to it."""
    stolen = published.package("9.9.9", team="speech")
    policy = Policy(app="keyboard", serial=1, features={})
    published.misuse(
        "team-speech",
        {stolen.manifest.path: stolen.manifest.to_bytes(), "policy/keyboard.json": policy.to_bytes()},
    )
    client = published.client()
    with pytest.raises(MissingTarget):
        client.manifest("language_id", "9.9.9")
    with pytest.raises(MissingTarget):
        client.policy("keyboard")


def delegations(world: TreeWorld) -> list[Delegations]:
    """Everything that a team could hand on: to every role that there is and to bins of others, under its own key."""
    key = world.keys.teams["speech"].public_key
    keys: dict[str, Key] = {key.keyid: key}
    signers = [key.keyid]
    found = [
        Delegations(keys, {name: DelegatedRole(name, list(signers), 1, is_terminating, ["*/*"])})
        for name in ("policy", "halt", "team-text", "bin-text-0", "bin-speech-0", "anything")
        for is_terminating in (True, False)
    ]
    bins = [("bin-text", 2, 1), ("policy", 2, 1), ("bin-speech", 9, 1), ("bin-speech", 32, 1)]
    return found + [Delegations(keys, None, SuccinctRoles(list(signers), n, bits, name)) for name, bits, n in bins]


def test_team_hands_nothing_on_but_to_bins_of_its_own(published: TreeWorld) -> None:
    """The tree refuses it, and so does a device that is shown it by a stolen server; the honest tree goes on."""
    for number, delegation in enumerate(delegations(published)):
        metadata = next_team_metadata(published.tree.state(), "speech", expires_s=published.clock.now_s() + 86_400)
        metadata.signed.delegations = delegation
        metadata.sign(published.keys.teams["speech"])
        with pytest.raises(RegistryError) as refused:
            published.tree.accept_team_metadata(metadata.to_bytes(), {})
        assert isinstance(refused.value, (PublishError, MetadataError))
        honest = {path: path.read_bytes() for path in published.tree.folder.rglob("*.json")}
        published.publish_anyway("team-speech", metadata)
        client = published.client(f"device {number}")
        with pytest.raises(MetadataError):
            client.min_version("bandwidth")
        for path in list(published.tree.folder.rglob("*.json")):
            path.unlink()
        for path, data in honest.items():
            path.write_bytes(data)
    assert published.client("honest").manifest("language_id", "1.0.0").version == "1.0.0"


STRANGE = (manifest_path("language_id", "9.9.9"), "policy/messenger.json", "halt/messenger.json", "x", "a/b/c.json")


@pytest.mark.parametrize("path", STRANGE)
def test_team_adds_nothing_to_another_teams_paths(published: TreeWorld, path: str) -> None:
    """Any path that is not the team's own is refused by the tree."""
    metadata = next_team_metadata(published.tree.state(), "speech", expires_s=published.clock.now_s() + 86_400)
    metadata.signed.targets[path] = TargetFile.from_data(path, b"{}", ["sha256"])
    metadata.sign(published.keys.teams["speech"])
    with pytest.raises(PublishError, match="may not publish"):
        published.tree.accept_team_metadata(metadata.to_bytes(), {path: b"{}"})
