"""`alcove rollout plan` and `alcove experiment plan`, as an operator types them before anything is created."""

from pathlib import Path

from tests.platform.cli.terminal import Shop

STAGES = ("--stage", "1%:2d:5000", "--stage", "50%:2d")
CRASH = ("--guard", "crash_fallback:0.5%")


def test_a_rollouts_plan_says_what_will_hold_for_ever(shop: Shop) -> None:
    """Needs of each stage, a curve, other plans, and the warning last; as JSON the same numbers."""
    asked = ("rollout", "plan", *STAGES, *CRASH, "--expected-devices", "1000000")
    said = shop.operator(*asked)
    assert said.code == 0, said.err
    for part in ("crash_fallback, margin 0.5 points", "█", "two aggregators, ε = 1 a window", "devices, days"):
        assert part in said.out
    last = said.out.rstrip().splitlines()[-1]
    assert last.startswith("warning: the stage of 1 % will hold for ever: to be found safe it needs")
    found = shop.operator(*asked, "--json").json
    first, half = found["stages"]
    assert [first["warning"]] == found["warnings"]
    assert first["devices_to_be_safe"] > 1_000_000 > half["devices_to_be_safe"] > 0
    assert first["guardrails"][0]["difference"] == 0.02
    (larger,) = shop.operator(*asked, "--harm", "crash_fallback:5%", "--json").json["stages"][0]["guardrails"]
    assert larger["devices_to_find_harm"] < first["guardrails"][0]["devices_to_find_harm"] / 4
    usual = ("--behavior", "crash_fallback=3%", "--behavior", "latency=30ms")
    (crashing,) = shop.operator(*asked, *usual, "--json").json["stages"][0]["guardrails"]
    assert crashing["base_rate"] == 0.03
    unknown = shop.operator("rollout", "plan", *STAGES, *CRASH)
    assert "warning" not in unknown.out
    quantile = [each for edge in range(5, 55, 5) for each in ("--latency-edge", str(edge))]
    slow = shop.operator("rollout", "plan", *STAGES, "--guard", "latency:10ms", "--harm", "latency:50ms", *quantile)
    assert slow.code == 0, slow.err
    assert "latency, margin 10 ms" in slow.out
    assert "50 ms" in slow.out


def test_a_plan_that_says_nothing_is_refused(shop: Shop) -> None:
    """What is missing, and how it is written."""
    rollout, experiment = ("rollout", "plan"), ("experiment", "plan")
    for wrong, problem in (
        ((*rollout, *STAGES), "--guard"),
        ((*rollout, *STAGES, *CRASH, "--harm", "refused:2%"), "no guardrail watches"),
        ((*rollout, *STAGES, *CRASH, "--harm", "crash_fallback=2"), "crash_fallback:2%"),
        ((*rollout, *STAGES, *CRASH, "--behavior", "crash=1%"), "crash_fallback=1%"),
        (experiment, "--mde"),
        ((*experiment, "--mde", "0.02", "--secondary", "error"), "secondary"),
    ):
        refused = shop.operator(*wrong)
        assert refused.code == 2, wrong
        assert problem in " ".join(refused.err.replace("│", " ").split()), refused.err
    many = shop.operator(*experiment, "--mde", "0.02", "--share", "80%", "--share", "40%")
    assert (many.code, "arm_shares_basis_points" in many.err) == (1, True)


def test_an_experiments_plan_says_what_is_found_by_each_day(shop: Shop) -> None:
    """Needs, the smallest difference by day, a curve, other plans, and a warning where it is never found."""
    asked = ("experiment", "plan", "--mde", "0.02", "--base-rate", "0.8")
    few = shop.operator(*asked, "--devices", "20000")
    assert few.code == 0, few.err
    for part in ("a difference of 0.02 needs", "by 20,000 devices", "█", "one analysis at the end"):
        assert part in few.out
    assert "warning: the difference will never be found: within 30 days it needs" in few.out
    found = shop.operator(*asked, "--devices", "2000000", "--json").json
    assert found["warnings"] == []
    assert found["days_needed"] >= 1
    by_day = [each["difference"] for each in found["detectable_by_day"]]
    assert by_day == sorted(by_day, reverse=True)
    three = shop.operator(*asked, "--share", "60%", "--share", "20%", "--share", "20%", "--json").json
    assert three["devices_needed"] > found["devices_needed"]
    edges = ("--latency-edge-ms", "10", "--latency-edge-ms", "20")
    mean = ("experiment", "plan", "--primary", "latency_mean", "--mde", "1", *edges)
    assert "a difference of 1 ms needs" in shop.operator(*mean).out


def test_creating_a_rollout_for_few_devices_says_that_it_will_hold(shop: Shop, programs: tuple[Path, Path]) -> None:
    """The same warning; without a number of devices there is none."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    card = shop.folder / "plans.md"
    card.write_text("# Planned\n")
    options = ("--feature", "planned", "--team", "writing", "--key", key, "--card", card)
    pushed = shop.team("model", "push", f"f32={programs[0]}", "--version", "7.0.0", *options)
    assert pushed.code == 0, pushed.err
    shop.release("7.0.0", feature="planned")
    about = ("rollout", "create", "--app", "held", "--feature", "planned", "--version", "7.0.0", "--validate-only")
    said = shop.operator(*about, *STAGES, *CRASH, "--expected-devices", "1000000")
    assert said.code == 0, said.err
    assert "warning: the stage of 1 % will hold for ever" in said.err
    assert "warning" not in shop.operator(*about, *STAGES, *CRASH).err


def test_plans_of_own_metrics_are_in_their_unit_and_need_their_definition(shop: Shop) -> None:
    """What decides and what guards; a stated spread needs fewer devices than the worst case; bad ones are refused."""
    about = ("--kind", "count", "--edge", "3", "--less-is-better", "--owner", "people", "--description", "edits undone")
    assert shop.team("metric", "create", "undone", "--feature", "planned", *about).code == 0
    spread, own = "57.5%,23.75%,18.75%", ("--feature", "planned")
    asked = ("experiment", "plan", "--primary", "metric:undone", "--mde", "0.1", *own)
    said = shop.operator(*asked, "--base-distribution", spread)
    assert said.code == 0, said.err
    assert "a difference of 0.1 in undone needs" in said.out
    worst, stated, shared = (
        shop.operator(*asked, *more, "--json").json["devices_needed_in_30_days"]
        for more in ((), ("--base-distribution", spread), ("--base-distribution", spread, "--guard", "error:1%"))
    )
    assert 0 < stated < worst
    assert shared == 2 * stated
    watched = ("rollout", "plan", *STAGES, "--guard", "metric:undone:0.1", "--expected-devices", "9000000", *own)
    found = shop.operator(*watched, *CRASH, "--behavior", f"metric:undone={spread}", "--harm", "metric:undone:0.4")
    assert found.code == 0, found.err
    assert "undone, margin 0.1" in found.out
    _, edits = shop.operator(*watched, *CRASH, "--json").json["stages"][0]["guardrails"]
    assert (edits["own_metric"], edits["metric"], edits["is_planned"]) == ("undone", "unspecified", True)
    assert edits["devices_to_be_safe"] > 0
    for wrong, problem in (
        ((*asked[:-2],), "feature"),
        ((*asked, "--base-distribution", "50%,50%"), "--base-distribution"),
        ((*watched, "--behavior", "metric:undone=50%,50%"), "own_spreads.parts"),
        ((*watched, "--behavior", f"metric:other={spread}"), "own_spreads.metric"),
        ((*watched, "--harm", "metric:other:0.4"), "no guardrail watches metric:other"),
        ((*watched, "--harm", "metric:undone:9"), "differences"),
    ):
        refused = shop.operator(*wrong)
        assert refused.code != 0, wrong
        assert problem in " ".join(refused.err.replace("│", " ").split()), refused.err
