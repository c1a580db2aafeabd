"""What a policy changed, as an operator asks for it."""

from pathlib import Path

from tests.platform.cli.terminal import Shop, ok

APP = ("--app", "compared")


def test_policies_are_listed_and_compared_with_the_one_before_or_any_other(
    shop: Shop, programs: tuple[Path, Path]
) -> None:
    """Words for people, JSON for programs; two serials are before and after; the first policy is compared with none."""
    card = shop.folder / "compared.md"
    card.write_text("# Mood\n")
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", "kind", "--team", "writing", "--key", key, "--card", card)
    ok(shop.team("model", "push", f"f32={programs[0]}", "--version", "7.6.0", *options))
    shop.release("7.6.0", feature="kind")
    (rollout,) = ok(shop.operator("rollout", "create", *APP, "--feature", "kind", "--version", "7.6.0", "--json")).json
    ok(shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "100%", "--override-reason", "first"))
    refused = shop.operator("policy", "diff", "1", *APP)
    assert refused.code == 2
    assert "policy 1 of compared is the first" in refused.err
    start = ok(shop.operator("policy", "list", *APP, "--json")).json[0]["serial"]  # a slow machine publishes twice
    ok(shop.operator("holdout", "set", "10%", *APP))
    ok(shop.operator("holdout", "set", "5%", *APP))

    listed = ok(shop.operator("policy", "list", *APP, "--json")).json
    assert [one["serial"] for one in listed] == list(range(start + 2, 0, -1))
    assert "advance rollout" in ok(shop.operator("policy", "list", *APP)).out
    said = ok(shop.operator("policy", "diff", *APP)).out
    assert f"compared: policy {start + 1} -> {start + 2}" in said
    assert "holdout: 10 % → 5 % of the devices" in said
    second = ok(shop.operator("policy", "diff", str(start + 1), *APP, "--json")).json
    assert (second["before"], second["after"]) == (start, start + 1)
    assert second["changes"] == [{"feature": "", "text": "holdout: 0 % → 10 % of the devices"}]
    back = ok(shop.operator("policy", "diff", str(start + 2), str(start), *APP, "--json")).json
    assert (back["before"], back["after"]) == (start + 2, start)
    assert back["changes"] == [{"feature": "", "text": "holdout: 5 % → 0 % of the devices"}]
    assert "nothing changed for devices" in ok(shop.operator("policy", "diff", "2", "2", *APP)).out
    missing = shop.operator("policy", "diff", "2", "99", *APP)
    assert missing.code == 4  # not found
    assert "99" in missing.err
