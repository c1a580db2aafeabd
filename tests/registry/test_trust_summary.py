"""A tree in figures: roles, keys that signed, expiry dates, sizes."""

from pathlib import Path

from alcove.platform.testing import ServerWorld
from alcove.registry.layout import LIFETIMES_S
from alcove.registry.trust_summary import Holder, summarize_trust


def test_a_new_tree_has_each_role_with_its_holder_keys_and_dates(tmp_path: Path) -> None:
    """Who signed is found by the signatures; when, by expiry and usual life; sizes are those of the files."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00", "text_01")})
    found = summarize_trust(world.tree.state())
    roles = {one.role: one for one in found.roles}
    assert list(roles) == ["root", "targets", "snapshot", "timestamp", "policy", "halt", "team-text"]
    assert [one.holder for one in found.roles] == [
        Holder.OFFLINE, Holder.OFFLINE, Holder.ONLINE, Holder.ONLINE, Holder.ONLINE, Holder.ONLINE, Holder.TEAM
    ]  # fmt: skip
    assert [key.key_id for key in roles["root"].keys] == [world.keys.root.public_key.keyid]
    assert all(key.has_signed and key.scheme == "ed25519" for one in found.roles for key in one.keys)
    for role, lifetime_s in LIFETIMES_S.items():
        assert roles[role].expires_at_s - roles[role].signed_at_s == lifetime_s
    assert roles["team-text"].features == ("text_00", "text_01")
    assert (found.targets, found.versions, found.target_bytes) == (0, 0, 0)
    folder = world.data_dir / "tree" / "metadata"
    all_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.name != "timestamp.json")
    assert found.metadata_bytes == all_bytes
    assert 0 < found.snapshot_bytes < all_bytes
