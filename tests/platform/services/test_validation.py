"""What a validation finds: every figure with its bound, whatever else fails; and what breaks an app."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from alcove.platform.client import (
    FailedPreconditionError,
    FeatureRules,
    InvalidRequestError,
    NotFoundError,
    PlatformClient,
)
from alcove.platform.domain import catalog_records
from alcove.platform.domain.catalog.program_report import ProgramReport
from alcove.platform.domain.catalog.validation import validate
from alcove.platform.domain.catalog_records import CheckResult
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.services.catalog.rules import validate_rules
from alcove.platform.testing import ServerWorld
from alcove.registry.compatibility import differences
from alcove.registry.errors import ProgramRefusedError
from alcove.registry.manifest import ModelSignature, PortSignature
from alcove.registry.package import Package, create_package
from alcove.registry.program_validation import ProgramSummary
from alcove.registry.testing import FakeValidator, FakeVerifier

Rules = catalog_records.FeatureRules
CHECKS = ("certificate", "size", "memory", "latency", "weights", "operators")


def package(*programs: bytes, version: str = "1.0.0") -> Package:
    """A package of made-up programs, called v0, v1 and so on."""
    named = {f"v{number}": program for number, program in enumerate(programs)}
    return create_package(
        feature="f", team="t", version=version, programs=named, card="# card", verifier=FakeVerifier()
    )


def checks_of(made: Package, rules: Rules, previous: Package | None = None) -> Mapping[tuple[str, str], CheckResult]:
    """Every check of a package, by name and variant."""
    names = [variant.name for variant in made.manifest.variants]
    reports = {name: ProgramReport.by(FakeValidator(), name, made.program(name)) for name in names}
    before = None if previous is None else previous.manifest
    found = validate(made.manifest, reports, rules, before)
    assert len({(check.name, check.variant) for check in found}) == len(found)
    return {(check.name, check.variant): check for check in found}


def test_without_rules_every_figure_is_reported_and_passes() -> None:
    """Six figures of each program and one of the version; no bound is made up."""
    found = checks_of(package(b"program one", b"program two!"), Rules())
    assert list(found) == [*((name, f"v{n}") for n in (0, 1) for name in CHECKS), ("signature", "")]
    assert all(check.is_passed for check in found.values())
    assert found["size", "v0"].figure == "11 bytes"
    assert found["memory", "v1"].figure == "12 bytes"
    assert found["latency", "v0"].figure == "1 ms"
    assert found["certificate", "v0"].figure == "3 samples, tolerance 'standard', largest difference 0.25"
    assert found["weights", "v0"].figure == "0 NaN"
    assert found["operators", "v0"].figure == "1 operators"
    for name in ("size", "memory", "latency", "operators"):
        assert found[name, "v0"].bound == ""


@pytest.mark.parametrize(
    ("program", "rules", "name", "figure", "bound"),
    [
        (b"program wrong", Rules(), "certificate", "an output differs from its certificate", "within its tolerance"),
        (b"program 12", Rules(max_size_bytes=9), "size", "10 bytes", "at most 9 bytes"),
        (b"program 12", Rules(max_memory_bytes=9), "memory", "10 bytes", "at most 9 bytes"),
        (b"program slow", Rules(max_latency_ms=49.5), "latency", "50 ms", "at most 49.5 ms"),
        (b"program nan", Rules(), "weights", "2 NaN in layer.weight", "0 NaN"),
        (b"program exotic", Rules(allowed_ops=("linear",)), "operators", "exotic not allowed", "only linear"),
    ],
)
def test_a_failed_check_names_figure_and_bound(
    program: bytes, rules: Rules, name: str, figure: str, bound: str
) -> None:
    """One check fails, of the program that is at fault, and all others pass."""
    sound = b"program"
    found = checks_of(package(sound, program), rules)
    failed = [check for check in found.values() if not check.is_passed]
    assert [(check.name, check.variant) for check in failed] == [(name, "v1")]
    assert figure in failed[0].figure
    assert bound in failed[0].bound


def test_bounds_are_met_exactly() -> None:
    """A figure at its bound passes."""
    rules = Rules(max_size_bytes=12, max_memory_bytes=12, max_latency_ms=50.0, allowed_ops=("exotic", "linear"))
    found = checks_of(package(b"program slow"), rules)
    assert all(check.is_passed for check in found.values())


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    """The first failed check ends nothing."""
    rules = Rules(max_size_bytes=1, max_memory_bytes=1, max_latency_ms=1, allowed_ops=("conv2d",))
    found = checks_of(package(b"program wrong slow nan exotic"), rules)
    assert {name for (name, _), check in found.items() if not check.is_passed} == set(CHECKS)


def test_a_program_that_cannot_be_taken_apart_fails_what_needs_it() -> None:
    """Its sizes are still reported."""

    class Refusing(FakeValidator):
        def summary(self, variant: str, program: bytes) -> ProgramSummary:
            raise ProgramRefusedError(variant, "it is damaged")

        def latency_ms(self, variant: str, program: bytes) -> float:
            raise ProgramRefusedError(variant, "it is damaged")

    made = package(b"program")
    reports = ProgramReport.by(Refusing(), "v0", b"program")
    assert ProgramReport.from_json(json.loads(json.dumps(reports.to_json()))) == reports
    found = validate(made.manifest, {"v0": reports}, Rules(), None)
    assert {check.name for check in found if not check.is_passed} == {"latency", "weights", "operators"}
    assert all("it is damaged" in check.figure for check in found if not check.is_passed)


TEXT = PortSignature(name="text", dtype="text", shape=())
IMAGE = PortSignature(name="image", dtype="f32", shape=(1, 3, 8, 8))
ROWS = PortSignature(name="rows", dtype="i64", shape=(16, 4), is_ragged=True)
LABELS = PortSignature(name="language", dtype="i32", shape=(1, 3), labels=("de", "fr", "it"))
SCORES = PortSignature(name="scores", dtype="f32", shape=(1, 3))
BEFORE = ModelSignature(inputs=(TEXT, IMAGE, ROWS), outputs=(LABELS, SCORES))


def port(old: PortSignature, **fields: object) -> ModelSignature:
    """BEFORE with one port changed."""
    new = PortSignature.model_validate(old.model_dump() | fields)
    inputs = tuple(new if item == old else item for item in BEFORE.inputs)
    return ModelSignature(inputs=inputs, outputs=tuple(new if item == old else item for item in BEFORE.outputs))


BREAKING = [
    (port(TEXT, name="words"), "input 'text' is now called 'words'"),
    (port(IMAGE, dtype="u8"), "input 'image' is u8, apps use f32"),
    (port(IMAGE, shape=(1, 3, 16, 16)), "input 'image' has shape (1, 3, 16, 16), apps pass (1, 3, 8, 8)"),
    (port(IMAGE, shape=(3, 8, 8)), "input 'image' has shape (3, 8, 8)"),
    (port(ROWS, shape=(8, 4)), "input 'rows' takes up to 8 rows, apps pass up to 16"),
    (port(ROWS, shape=(16, 5)), "input 'rows' has shape (up to 16, 5), apps pass (up to 16, 4)"),
    (port(ROWS, is_ragged=False), "input 'rows' must be full, apps pass up to 16 rows"),
    (ModelSignature(inputs=(TEXT, IMAGE), outputs=BEFORE.outputs), "it takes 2 inputs, apps pass 3"),
    (ModelSignature(inputs=(TEXT, IMAGE, ROWS, TEXT), outputs=BEFORE.outputs), "it takes 4 inputs, apps pass 3"),
    (ModelSignature(inputs=(IMAGE, TEXT, ROWS), outputs=BEFORE.outputs), "input 'text' is now called 'image'"),
    (port(LABELS, labels=("de", "it")), "output 'language' lacks the labels fr"),
    (port(LABELS, labels=()), "output 'language' lacks the labels de, fr, it"),
    (port(LABELS, shape=(1, 2)), "output 'language' has shape (1, 2), apps read (1, 3)"),
    (port(LABELS, dtype="i64"), "output 'language' is i64, apps use i32"),
    (port(SCORES, name="score"), "output 'scores' is now called 'score'"),
    (port(SCORES, shape=(1, 4)), "output 'scores' has shape (1, 4), apps read (1, 3)"),
    (port(SCORES, shape=(3,)), "output 'scores' has shape (3), apps read (1, 3)"),
    (port(SCORES, is_ragged=True), "output 'scores' has shape (up to 1, 3), apps read (1, 3)"),
    (port(SCORES, labels=("a",)), "output 'scores' has labels, apps read none"),
    (ModelSignature(inputs=BEFORE.inputs, outputs=(LABELS,)), "it gives 1 outputs, apps read 2"),
    (ModelSignature(inputs=BEFORE.inputs, outputs=(SCORES, LABELS)), "output 'language' is now called 'scores'"),
]
HARMLESS = [
    BEFORE,
    port(ROWS, shape=(32, 4)),
    port(LABELS, labels=("de", "fr", "it", "es"), shape=(1, 4)),
    port(LABELS, labels=("es", "it", "fr", "de")),
    ModelSignature(inputs=BEFORE.inputs, outputs=(*BEFORE.outputs, SCORES)),
    port(IMAGE, is_ragged=True, shape=(4, 3, 8, 8)),
]  # fmt: skip


@pytest.mark.parametrize(("after", "sentence"), BREAKING)
def test_what_breaks_an_app_is_reported(after: ModelSignature, sentence: str) -> None:
    """Whatever an app passes that is not taken, or reads that is not there, is named with both sides."""
    assert any(sentence in found for found in differences(BEFORE, after)), differences(BEFORE, after)


@pytest.mark.parametrize("after", HARMLESS)
def test_what_breaks_no_app_passes(after: ModelSignature) -> None:
    """More outputs, more labels in any order, and wider bounds are welcome."""
    assert differences(BEFORE, after) == []


RULES: list[tuple[dict[str, object], str]] = [
    ({"max_size_bytes": 2**40 + 1}, "rules.max_size_bytes"),
    ({"max_memory_bytes": 2**64 - 1}, "rules.max_memory_bytes"),
    ({"max_latency_ms": -1.0}, "rules.max_latency_ms"),
    ({"max_latency_ms": math.nan}, "rules.max_latency_ms"),
    ({"max_latency_ms": math.inf}, "rules.max_latency_ms"),
    ({"max_latency_ms": 600_001.0}, "rules.max_latency_ms"),
    ({"allowed_ops": ("linear", "linear")}, "rules.allowed_ops"),
    ({"allowed_ops": ("",)}, "rules.allowed_ops"),
    ({"allowed_ops": ("rm -rf",)}, "rules.allowed_ops"),
    ({"allowed_ops": ("x" * 65,)}, "rules.allowed_ops"),
    ({"allowed_ops": tuple(f"op{n}" for n in range(513))}, "rules.allowed_ops"),
]


@pytest.mark.parametrize(("fields", "field"), RULES)
def test_a_malformed_rule_is_named(
    operator: PlatformClient, shared_feature: str, fields: dict[str, object], field: str
) -> None:
    """By the pure check and over the wire; what was set before stands."""
    with pytest.raises(InvalidFieldError) as refusal:
        validate_rules(replace(Rules(), **fields))  # type: ignore[arg-type]
    assert refusal.value.field == field
    with pytest.raises(InvalidRequestError, match=field):
        operator.set_rules(shared_feature, FeatureRules().model_copy(update=fields))
    assert operator.rules(shared_feature) == FeatureRules()


def test_rules_are_set_for_features_that_a_team_owns(
    world: ServerWorld, operator: PlatformClient, team: PlatformClient, feature: str
) -> None:
    """Before the first version too; what was set is read again with who and when; a repeat is the same answer."""
    wanted = FeatureRules(max_size_bytes=10, max_latency_ms=2.5, allowed_ops=("softmax", "linear"))
    held = operator.set_rules(feature, wanted, request_id=f"rules-{feature}")
    assert held == team.rules(feature)
    assert held.allowed_ops == ("linear", "softmax")
    assert held.set_by.startswith("operator/")
    assert held.set_at_s > 0
    assert operator.set_rules(feature, wanted, request_id=f"rules-{feature}") == held
    with pytest.raises(NotFoundError, match="no feature that a team owns named 'nothing'"):
        operator.set_rules("nothing", wanted)


def publish(world: ServerWorld, team: PlatformClient, feature: str, version: str, program: bytes) -> None:
    """Publish a made-up program."""
    made = world.package(feature, version, program=program)
    for data in made.blobs().values():
        team.upload_blob(data)
    team.publish_version(world.sign(made), made.manifest.to_bytes())


def test_a_version_that_fails_is_not_released_until_it_passes(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str
) -> None:
    """The failed figure and its bound are in the answer and stay with the version; a looser rule lets it pass."""
    publish(world, team, feature, "1.0.0", b"program slow nan")
    operator.set_rules(feature, FeatureRules(max_latency_ms=10))
    version, validation = team.validate_version(feature, "1.0.0")
    assert (version.state, validation.is_passed) == ("registered", False)
    failed = {
        check.name: (check.variant, check.figure, check.bound) for check in validation.checks if not check.is_passed
    }
    assert failed == {
        "latency": ("f32", "50 ms", "at most 10 ms"),
        "weights": ("f32", "2 NaN in layer.weight", "0 NaN"),
    }
    details = operator.version_details(feature, version="1.0.0")
    assert details.validation == validation
    assert [(move.to_state, move.reason) for move in details.moves] == [
        ("registered", "failed: latency f32, weights f32")
    ]
    with pytest.raises(FailedPreconditionError, match="is registered: cannot release"):
        team.release_version(feature, "1.0.0", reason="please")

    publish(world, team, feature, "1.1.0", b"program slow")
    assert team.validate_version(feature, "1.1.0")[0].state == "registered"
    operator.set_rules(feature, FeatureRules(max_latency_ms=50))
    assert team.validate_version(feature, "1.1.0")[0].state == "validated"
    operator.set_rules(feature, FeatureRules(max_latency_ms=10))
    assert team.validate_version(feature, "1.1.0")[0].state == "registered"  # it falls back
    operator.set_rules(feature, FeatureRules())
    team.validate_version(feature, "1.1.0")
    assert team.release_version(feature, "1.1.0", reason="good").state == "released"
