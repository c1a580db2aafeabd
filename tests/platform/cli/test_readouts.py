"""A read-out of a holdout, as an operator types it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.platform.cli.terminal import Shop, ok

APP = ("--app", "held")


def test_read_out_is_planned_started_asked_for_early_and_stopped(shop: Shop, programs: tuple[Path, Path]) -> None:
    """Words for people, JSON for programs; before its last day the result is a date."""
    planned = ok(shop.operator("holdout", "plan", "--devices", "100000", "--share", "10%", "--base-rate", "0.8")).out
    assert "10,000 devices in each group; at least 120 days" in planned
    assert "0.0179" in planned
    hopeless = ok(shop.operator("holdout", "plan", "--devices", "3000", "--share", "5%", "--mde", "0.01")).out
    assert "warning: This finds" in hopeless
    assert "The difference that shall be found is smaller" in hopeless
    card = shop.folder / "held.md"
    card.write_text("# Mood\n")
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", "kind", "--team", "writing", "--key", key, "--card", card)
    ok(shop.team("model", "push", f"f32={programs[0]}", "--version", "7.5.0", *options))
    shop.release("7.5.0", feature="kind")
    (rollout,) = ok(shop.operator("rollout", "create", *APP, "--feature", "kind", "--version", "7.5.0", "--json")).json
    ok(shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "100%", "--override-reason", "first"))
    last = (datetime.now(UTC) + timedelta(days=130)).date().isoformat()
    refused = shop.operator("holdout", "start", "kind", *APP, "--until", last)
    assert refused.code == 1
    assert "an app with a holdout" in refused.err
    ok(shop.operator("holdout", "set", "10%", *APP))
    tried = ok(shop.operator("holdout", "start", "kind", *APP, "--until", last, "--validate-only")).out
    assert "kind 7.5.0" in tried
    assert ok(shop.operator("holdout", "status", *APP)).out.strip() == "no read-out yet: alcove holdout start"
    (readout,) = ok(shop.operator("holdout", "start", "kind", *APP, "--until", last, "--json")).json
    assert (readout["state"], readout["months"], readout["metric"]) == ("running", 3, "accepted")
    early = ok(shop.operator("holdout", "result", readout["readout_id"])).out
    assert early.startswith("There is no result yet: kind is measured from")
    held = shop.operator("holdout", "set", "5%", *APP)
    assert held.code == 1
    assert readout["readout_id"] in held.err
    stopped = ok(shop.operator("holdout", "stop", readout["readout_id"], "--reason", "wrong feature")).out
    assert "stopped without a result: wrong feature" in stopped
    bad = shop.operator("holdout", "start", "kind", *APP, "--until", "soon")
    assert bad.code == 2
    assert "a day is written 2027-03-31" in bad.err
