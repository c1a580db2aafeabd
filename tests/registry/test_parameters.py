"""Parameters bound what a policy may give: a value of another type or out of its bound is never taken."""

from typing import Any

import pytest
from alcove.registry.manifest import Manifest
from alcove.registry.parameters import Parameter, RefusedSetting, Setting, default_settings, read_settings
from alcove.registry.policy import Arm, FeaturePolicy, VersionRef
from alcove.registry.testing import RepositoryFixture
from pydantic import ValidationError

THRESHOLD = Parameter(name="threshold", type="float", default="0.5", minimum="0.1", maximum="0.9")
ENABLED = Parameter(name="enabled", type="bool", default=True)
ROWS = Parameter(name="rows", type="int", default=3, minimum=1, maximum=10)
TONE = Parameter(name="tone", type="text", default="plain", choices=("plain", "kind"))
ALL = (ENABLED, ROWS, THRESHOLD, TONE)
DEFAULTS = {"threshold": 0.5, "enabled": True, "rows": 3, "tone": "plain"}
REF = VersionRef(version="1.0.0", manifest_sha256="0" * 64)


def test_defaults_stand_where_a_policy_says_nothing() -> None:
    """As an app reads them: numbers, booleans and texts."""
    assert default_settings(ALL) == DEFAULTS
    assert read_settings(ALL, ()) == (DEFAULTS, ())


def test_values_within_the_bounds_are_taken() -> None:
    """Bounds included."""
    given: dict[str, bool | int | str] = {"threshold": "0.9", "enabled": False, "rows": 1, "tone": "kind"}
    settings = [Setting(name=name, value=value) for name, value in given.items()]
    assert read_settings(ALL, settings) == ({"threshold": 0.9, "enabled": False, "rows": 1, "tone": "kind"}, ())


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("threshold", "0.91", "expected 0.1 to 0.9, got 0.91"),
        ("threshold", "-0.5", "expected 0.1 to 0.9, got -0.5"),
        ("threshold", 1, "expected float, got 1"),
        ("threshold", "0.50", "expected float, got '0.50'"),
        ("threshold", "1e-1", "expected float, got '1e-1'"),
        ("threshold", "nan", "expected float, got 'nan'"),
        ("threshold", "-0", "expected float, got '-0'"),
        ("enabled", 1, "expected bool, got 1"),
        ("enabled", "true", "expected bool, got 'true'"),
        ("rows", True, "expected int, got True"),
        ("rows", 0, "expected 1 to 10, got 0"),
        ("rows", 11, "expected 1 to 10, got 11"),
        ("tone", "rude", "expected one of plain, kind, got 'rude'"),
        ("unknown", 1, "the version declares no such parameter"),
    ],
)
def test_any_other_value_leaves_the_default(name: str, value: Any, problem: str) -> None:
    """The refusal names the bound and the value; values beside it are taken."""
    beside = "rows" if name != "rows" else "tone"
    settings = [Setting(name=name, value=value), Setting(name=beside, value=7 if beside == "rows" else "kind")]
    values, refused = read_settings(ALL, settings)
    assert refused == (RefusedSetting(name, problem),)
    assert values == DEFAULTS | {beside: 7 if beside == "rows" else "kind"}


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "float", "default": "0.5"},
        {"type": "float", "default": "0.5", "minimum": "0.1"},
        {"type": "float", "default": "0.5", "minimum": 0, "maximum": 1},
        {"type": "float", "default": "0.5", "minimum": "0.6", "maximum": "0.9"},
        {"type": "int", "default": 5, "minimum": 6, "maximum": 4},
        {"type": "int", "default": 5, "minimum": 1, "maximum": 9, "choices": ("a",)},
        {"type": "bool", "default": 1},
        {"type": "bool", "default": True, "minimum": False, "maximum": True},
        {"type": "text", "default": "plain"},
        {"type": "text", "default": "plain", "choices": ("kind",)},
        {"type": "text", "default": "plain", "choices": ("plain", "plain")},
        {"type": "text", "default": "plain", "choices": ("plain", "x" * 65)},
        {"type": "picture", "default": "plain"},
    ],
)
def test_a_parameter_has_bounds_that_hold_its_default(fields: dict[str, Any]) -> None:
    """Every number and text is bounded by its team, or it is no parameter."""
    with pytest.raises(ValidationError):
        Parameter(name="one", **fields)


def test_documents_without_values_have_the_bytes_that_they_had() -> None:
    """Neither field is written where there is nothing to say."""
    arm = Arm(name="a", version=REF, share_basis_points=1)
    rules = FeaturePolicy(min_version="1.0.0", default=REF)
    assert "values" not in arm.model_dump(mode="json")
    assert "values" not in rules.model_dump(mode="json")


def test_values_stand_by_rising_name_once_each() -> None:
    """One meaning has one encoding."""
    one, other = Setting(name="a", value=1), Setting(name="b", value=1)
    FeaturePolicy(min_version="1.0.0", default=REF, values=(one, other))
    for settings in ((other, one), (one, one)):
        with pytest.raises(ValidationError, match="distinct names, in order"):
            FeaturePolicy(min_version="1.0.0", default=REF, values=settings)


def test_a_manifest_holds_its_parameters(tmp_path: Any) -> None:
    """They come back from its bytes as they were; a manifest without them does not mention them."""
    manifest = RepositoryFixture(tmp_path).package().manifest
    assert b"parameters" not in manifest.to_bytes()
    fields = manifest.model_dump() | {"parameters": [one.model_dump() for one in ALL]}
    again = Manifest.from_bytes(Manifest.model_validate(fields).to_bytes())
    assert again.parameters == ALL
    with pytest.raises(ValidationError, match="distinct names, in order"):
        Manifest.model_validate(fields | {"parameters": [ROWS.model_dump(), ENABLED.model_dump()]})
    # Devices that cannot read parameters refuse such a manifest, so that it says which can.
    with pytest.raises(ValidationError, match=r"a min_runtime of at least 0\.1\.0, got 0\.0\.9"):
        Manifest.model_validate(fields | {"min_runtime": "0.0.9"})
    assert Manifest.model_validate(fields | {"min_runtime": "0.0.9", "parameters": []}).min_runtime == "0.0.9"
    words = ROWS.model_copy(update={"description": "how many rows"})
    described = Manifest.model_validate(fields | {"parameters": [words.model_dump()]})
    assert Manifest.from_bytes(described.to_bytes()).parameters == (words,)
    assert b"description" not in again.to_bytes()
