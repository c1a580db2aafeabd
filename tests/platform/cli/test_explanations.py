"""Layers, holdouts and explained assignments, as an operator types them."""

import hashlib
from pathlib import Path

import pytest
from alcove.platform.cli.shares import segment_of
from alcove.registry.policy import bucket

from tests.platform.cli.terminal import Shop, ok


@pytest.fixture(scope="module")
def compared(shop: Shop, programs: tuple[Path, Path]) -> str:
    """An app with a holdout, a layer, two experiments of a feature in it; returns the first one's id."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    card = shop.folder / "explained.md"
    card.write_text("# Kind\n")
    options = ("--feature", "kind", "--team", "writing", "--key", key, "--card", card)
    for version, program in zip(("7.0.0", "7.1.0"), programs, strict=True):
        ok(shop.team("model", "push", f"f32={program}", "--version", version, *options))
    shop.release("7.0.0", "7.1.0", feature="kind")
    assert ok(shop.operator("layer", "list", "--app", "explained")).out.strip() == "no layer yet: alcove layer create"
    ok(shop.operator("layer", "create", "search", "--app", "explained"))
    assert "5 %" in ok(shop.operator("holdout", "set", "5%", "--app", "explained")).out
    arms = ("--arm", "control=7.0.0:50%", "--arm", "new=7.1.0:50%", "--start", "--json")
    made = [
        ok(
            shop.operator(
                "experiment", "create", "--app", "explained", "--feature", "kind", "--segment", part, *audience, *arms
            )
        ).json[0]
        for part, audience in (("search:0-5000", ()), ("search:5000-10000", ("--audience", "os == ios")))
    ]
    return str(made[0]["experiment_id"])


def test_layers_show_what_is_claimed(shop: Shop, compared: str) -> None:
    """A row for people, the same for programs."""
    assert f"[0, 5000) {compared} (kind)" in ok(shop.operator("layer", "list", "--app", "explained")).out
    (layer,) = ok(shop.operator("layer", "list", "--app", "explained", "--json")).json
    assert [(claim["first"], claim["count"]) for claim in layer["claims"]] == [(0, 5000), (5000, 5000)]
    assert ok(shop.operator("holdout", "show", "--app", "explained", "--json")).json["share_basis_points"] == 500
    refused = shop.operator("holdout", "set", "6%", "--app", "explained")
    assert refused.code == 1
    assert "cannot rise to 600" in refused.err


def test_assignment_of_a_described_device_is_explained_step_by_step(shop: Shop, compared: str) -> None:
    """For devices of every kind: in an arm, outside of the audience, held out; a number names a made-up device."""
    seen = set()
    for number in range(60):
        for device in ("os=ios,app_version=2.3.0", "os=web", ""):
            asked = ("rollout", "status", "--explain", "--app", "explained", "--secret", number, "--device", device)
            (explanation,) = ok(shop.operator(*asked, "--json")).json
            steps = [(step["question"], step["goes_on"]) for step in explanation["steps"]]
            questions = tuple(question for question, _ in steps)
            seen.add((explanation["reason"], explanation["arm"], questions[-1]))
            assert explanation["feature"] == "kind"
            assert questions[0] == "holdout"
            assert [goes_on for _, goes_on in steps].count(True) >= 1
        if len(seen) >= 4 and ("default", None, "default") in seen and number >= 5:
            break
    assert {("experiment", 0, "bucket"), ("experiment", 1, "bucket"), ("default", None, "default")} <= seen
    shown = ok(shop.operator("rollout", "status", "--explain", "--app", "explained", "--secret", "3")).out
    key = hashlib.sha256(b"3").digest()
    assert key.hex() in shown
    assert "the device says nothing" in shown
    assert "holdout of explained" in shown
    again = ok(shop.operator("rollout", "status", "--explain", "--app", "explained", "--secret", key.hex())).out
    assert again == shown
    assert 0 <= bucket(key, "any") < 10_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--app", ""), "--explain needs --app"),
        (("--app", "explained", "--device", "os"), "NAME=VALUE"),
        (("--app", "explained", "--device", "colour=red"), "device_class"),
        (("--app", "explained", "--device", "memory_mb=much"), "megabytes"),
        (("--app", "explained", "--secret", "xyz"), "64 hexadecimal digits"),
        (("--app", "explained", "--feature", "polite"), "has no feature polite"),
        (("--app", "unheard-of"), "unheard-of"),
    ],
)
def test_what_cannot_be_explained_is_said(shop: Shop, compared: str, options: tuple[str, ...], words: str) -> None:
    """In a sentence that names the thing."""
    said = shop.operator("rollout", "status", "--explain", *options)
    assert said.code != 0
    assert words in said.err.replace("\n", " ")


@pytest.mark.parametrize("text", ["search", "search:0", "search:5-5", "search:6-5", "search:0-10001", ":0-5", "a:b-c"])
def test_segment_that_does_not_read_is_refused(shop: Shop, text: str) -> None:
    """Before anything is sent."""
    arms = ("--arm", "a=7.0.0:50%", "--arm", "b=7.1.0:50%")
    said = shop.operator("experiment", "create", "--app", "explained", "--feature", "kind", *arms, "--segment", text)
    assert said.code == 2
    assert "LAYER:FIRST-END" in said.err


def test_segment_is_a_half_open_range() -> None:
    """As devices count buckets."""
    segment = segment_of("search:2500-5000")
    assert (segment.layer, segment.first, segment.count) == ("search", 2500, 2500)
