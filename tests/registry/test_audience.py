"""Audiences have one canonical form, hold exactly the devices that meet their conditions, and are never empty."""

import itertools
import operator
import subprocess
import sys
from typing import Any

import pytest
from alcove.registry import limits
from alcove.registry.errors import (
    AttributeValueError,
    AudienceError,
    AudienceSyntaxError,
    EmptyAudienceError,
    UnknownAttributeError,
)
from alcove.registry.policy import (
    Audience,
    DeviceAttributes,
    overlap_witness,
    overlaps,
    parse_attributes,
    parse_audience,
)
from alcove.registry.policy.attributes import VERSION_NUMBERS, app_version_number, app_version_text
from alcove.registry.policy.audience import both
from hypothesis import given
from hypothesis import strategies as st

# A small world in which every device can be tried: each attribute absent or one of these.
WORLD: dict[str, tuple[Any, ...]] = {
    "app_version": (None, "0.0.0", "1.0.0", "1.0.1", "2.0.0", "2.0.0.1"),
    "os": (None, "android", "ios", "web"),
    "locale": (None, "de", "de-AT", "de-Latn", "de-Latn-AT", "en", "en-GB", "zz"),
    "memory_mb": (None, 0, 1, 2, 3),
}

_ORDER = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

Condition = tuple[str, str, Any]


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """One condition over the small world: attribute, comparison and value or values."""
    name = draw(st.sampled_from(sorted(WORLD)))
    known = [value for value in WORLD[name] if value is not None]
    if name in ("app_version", "memory_mb"):
        return name, draw(st.sampled_from(["==", "<", "<=", ">", ">="])), draw(st.sampled_from(known))
    if draw(st.booleans()):
        return name, draw(st.sampled_from(["==", "!="])), draw(st.sampled_from(known))
    return name, draw(st.sampled_from(["in", "not in"])), draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))


lists = st.lists(conditions(), min_size=1, max_size=5)


def write_audience(parts: list[Condition]) -> str:
    """The text of a conjunction."""
    texts = []
    for name, sign, value in parts:
        texts.append(f"{name} {sign} " + (f"({', '.join(value)})" if isinstance(value, list) else str(value)))
    return " and ".join(texts)


def holds(condition: Condition, values: dict[str, Any]) -> bool:
    """The meaning of one condition, said again in the plainest way."""
    name, sign, wanted = condition
    value = values[name]
    if value is None:
        return False
    if name in ("app_version", "memory_mb"):
        if name == "app_version":
            value, wanted = (tuple(map(int, (text + ".0.0").split(".")[:4])) for text in (value, wanted))
        return bool(_ORDER[sign](value, wanted))
    words = wanted if isinstance(wanted, list) else [wanted]
    is_named = any((value + "-").startswith(word + "-") for word in words)
    return is_named if sign in ("==", "in") else not is_named


def devices(names: set[str]) -> list[dict[str, Any]]:
    """All devices of the small world that differ in the attributes named."""
    order = sorted(names)
    return [dict(zip(order, values, strict=True)) for values in itertools.product(*(WORLD[name] for name in order))]


@given(lists)
def test_an_audience_holds_the_devices_that_meet_every_condition(parts: list[Condition]) -> None:
    """Against brute force over every device of a small world; an audience refused as empty holds none of them."""
    try:
        audience = parse_audience(write_audience(parts))
    except EmptyAudienceError:
        audience = None
    for values in devices({name for name, _, _ in parts}):
        expected = all(holds(part, values) for part in parts)
        assert (audience is not None and audience.matches(DeviceAttributes(**values))) is expected


@given(lists)
def test_a_witness_is_in_its_audience(parts: list[Condition]) -> None:
    """No audience is empty (A2)."""
    try:
        audience = parse_audience(write_audience(parts))
    except EmptyAudienceError:
        return
    assert audience.matches(audience.witness())
    assert audience.unmet(audience.witness()) is None


@given(lists, st.randoms(use_true_random=False))
def test_one_meaning_has_one_form(parts: list[Condition], random: Any) -> None:
    """Order and repetition change nothing; text and document give back the same (A1)."""
    shuffled = [*parts, random.choice(parts)]
    random.shuffle(shuffled)
    try:
        audience = parse_audience(write_audience(parts))
    except EmptyAudienceError:
        with pytest.raises(EmptyAudienceError):
            parse_audience(write_audience(shuffled))
        return
    assert parse_audience(write_audience(shuffled)) == audience
    assert parse_audience(str(audience)) == audience
    assert Audience.from_json(audience.to_json()) == audience


@given(lists, lists)
def test_audiences_of_the_same_devices_are_equal(one: list[Condition], other: list[Condition]) -> None:
    """If neither holds a device without the other, they are the same; so their forms are (A1)."""
    try:
        first, second = parse_audience(write_audience(one)), parse_audience(write_audience(other))
    except EmptyAudienceError:
        return
    if first != second:
        # Some device tells them apart: one of these, which lie at every edge of either.
        probes = [*edges(first), *edges(second)]
        assert any(first.matches(probe) is not second.matches(probe) for probe in probes)


def edges(audience: Audience) -> list[DeviceAttributes]:
    """Devices at the ends of an audience and just beyond: its witness with one attribute changed or absent."""
    found = [audience.witness()]
    known = {name: getattr(found[0], name) for name in audience.witness().values}
    for name, constraint in audience.constraints:
        plain: dict[str, Any] = audience.to_json()[name]
        candidates: list[Any] = [None, *plain.get("in", ()), *plain.get("not_in", ())]
        if "low" in dir(constraint):
            low, high = constraint.low, constraint.high  # type: ignore[union-attr]
            numbers = [number for number in (low - 1, low, high - 1, high) if number >= 0]
            candidates += [_number(name, number) for number in numbers if number < _attribute_bound(name)]
        found += [DeviceAttributes(**(known | {name: value})) for value in candidates]
    return found


def _number(name: str, number: int) -> str | int:
    return app_version_text(number) if name == "app_version" else number


def _attribute_bound(name: str) -> int:
    return VERSION_NUMBERS if name == "app_version" else limits.MEMORY_MAX_MB + 1


@given(lists, lists)
def test_overlap_means_that_a_device_is_in_both(one: list[Condition], other: list[Condition]) -> None:
    """`overlaps` is true exactly if there is a witness; a witness is in both; without one no device of the world is."""
    try:
        first, second = parse_audience(write_audience(one)), parse_audience(write_audience(other))
    except EmptyAudienceError:
        return
    witness = overlap_witness(first, second)
    assert overlaps(first, second) is overlaps(second, first) is (witness is not None)
    if witness is not None:
        assert first.matches(witness)
        assert second.matches(witness)
        assert both(first, second).matches(witness)
        return
    for values in devices({name for name, _, _ in [*one, *other]}):
        device = DeviceAttributes(**values)
        assert not (first.matches(device) and second.matches(device))


def test_everybody_overlaps_with_every_audience() -> None:
    """No audience is an audience of all."""
    ios = parse_audience("os == ios")
    assert overlaps(None, None)
    assert overlaps(None, ios)
    assert overlaps(ios, None)
    assert overlap_witness(None, ios) == DeviceAttributes(os="ios")


def test_audiences_that_cut_out_more_words_than_one_may_name_still_have_a_witness() -> None:
    """Overlap is decided for two full audiences, although both together would be too large to sign."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    words = [a + b for a in letters for b in letters]
    half = limits.AUDIENCE_VALUES_MAX
    first = parse_audience(f"region not in ({', '.join(words[:half])})")
    second = parse_audience(f"region not in ({', '.join(words[half : 2 * half])})")
    witness = overlap_witness(first, second)
    assert witness is not None
    assert witness.region == words[2 * half]
    with pytest.raises(AttributeValueError, match=f"at most {half}"):
        both(first, second)


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("", 0, "an attribute", ""),
        ("os", 2, "==", ""),
        ("os = ios", 3, "==", "="),
        ("os in", 5, "'('", ""),
        ("os in ios", 6, "'('", "ios"),
        ("os in (", 7, "a value of os", ""),
        ("os in (ios", 10, "',' or ')'", ""),
        ("os in (ios,)", 11, "a value of os", ")"),
        ("os not (ios)", 7, "'in'", "("),
        ("os > ios", 3, "==", ">"),
        ("memory_mb in (3)", 10, ">=", "in"),
        ("memory_mb != 3", 10, ">=", "!="),
        ("os == ios or os == web", 10, "'and'", "or"),
        ("os == ios and", 13, "an attribute", ""),
        ("os == ios and (os == web)", 14, "an attribute", "("),
        ("os == ios;", 9, "'and'", ";"),
        ("x" * (limits.AUDIENCE_LENGTH_MAX + 1), limits.AUDIENCE_LENGTH_MAX, "at most", "4097 in all"),
    ],
)
def test_text_that_does_not_read_is_refused_where_it_goes_wrong(
    text: str, position: int, expected: str, found: str
) -> None:
    """The error says at which character, what could stand there, and what stands there."""
    with pytest.raises(AudienceSyntaxError) as caught:
        parse_audience(text)
    assert (caught.value.position, caught.value.found) == (position, found)
    assert expected in caught.value.expected
    assert f"character {position + 1}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("app_version >= new", "app_version"),
        ("app_version >= 1.2.3.4.5", "app_version"),
        ("app_version >= 1000000", "app_version"),
        ("app_version >= 01.2", "app_version"),
        ("memory_mb >= 2.5", "memory_mb"),
        ("memory_mb >= 16777216", "memory_mb"),
        ("memory_mb >= 99999999999999999999999", "memory_mb"),
        ("os == andriod", "os"),
        ("locale == german", "locale"),
        ("locale == de-DE-1996", "locale"),
        ("region == DEU", "region"),
        ("device_class == low-end", "device_class"),
        (f"region in ({', '.join(str(number) for number in range(100, 165))})", "region"),
    ],
)
def test_value_of_another_type_is_refused(text: str, attribute: str) -> None:
    """The error names the attribute, what it takes, and the value."""
    with pytest.raises(AttributeValueError) as caught:
        parse_audience(text)
    assert caught.value.attribute == attribute
    assert caught.value.expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("memory_mb > 5 and memory_mb < 6", "memory_mb"),
        ("app_version < 0", "app_version"),
        ("memory_mb > 16777215", "memory_mb"),
        ("app_version >= 3 and app_version < 2", "app_version"),
        ("os == ios and os == android", "os"),
        ("os in (ios, web) and os not in (web, ios)", "os"),
        ("locale == de-AT and locale != de", "locale"),
    ],
)
def test_audience_of_nobody_is_refused(text: str, attribute: str) -> None:
    """The error names the attribute that nobody can have."""
    with pytest.raises(EmptyAudienceError) as caught:
        parse_audience(text)
    assert caught.value.attribute == attribute


def test_unknown_attribute_is_named_with_those_that_are_known() -> None:
    """In an audience, with its place, and in a device's description."""
    with pytest.raises(UnknownAttributeError) as caught:
        parse_audience("os == ios and color == red")
    assert (caught.value.attribute, caught.value.position) == ("color", 14)
    assert "device_class" in str(caught.value)
    with pytest.raises(UnknownAttributeError) as caught:
        parse_attributes("os=ios,color=red")
    assert (caught.value.attribute, caught.value.position) == ("color", 7)


def test_spellings_of_one_value_are_one() -> None:
    """Whatever a system writes, the audience compares one form."""
    device = parse_attributes("os=iOS, locale=zh_hant_tw ,region=tw,app_version=2,memory_mb=3000,device_class=Phone")
    assert device == DeviceAttributes("2.0.0", "ios", "phone", "zh-Hant-TW", "TW", 3000)
    assert parse_audience("locale == ZH_hant and region == tw").matches(device)
    assert parse_attributes("") == DeviceAttributes()


@pytest.mark.parametrize("text", ["os", "=ios", "os=ios,os=web", "os=ios,,", ","])
def test_description_that_does_not_read_is_refused(text: str) -> None:
    """A part without "=", an attribute twice, a part that is empty."""
    with pytest.raises(AudienceError):
        parse_attributes(text)


@pytest.mark.parametrize(
    "fields",
    [{"os": ""}, {"os": 3}, {"memory_mb": "3"}, {"memory_mb": True}, {"memory_mb": -1}, {"app_version": "1.2-beta"}],
)
def test_device_described_wrongly_is_refused(fields: dict[str, Any]) -> None:
    """The app learns at once which attribute it got wrong."""
    with pytest.raises(AttributeValueError) as caught:
        DeviceAttributes(**fields)
    assert caught.value.attribute in fields


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        [],
        {"os": {}},
        {"os": {"in": []}},
        {"os": {"in": ["ios", "android"]}},
        {"os": {"in": ["ios", "ios"]}},
        {"os": {"in": "ios"}},
        {"os": {"in": ["IOS"]}},
        {"os": {"in": [3]}},
        {"os": {"not_in": []}},
        {"os": {"in": ["ios"], "not_in": ["web"]}},
        {"os": {"from": "a"}},
        {"locale": {"in": ["de", "de-AT"]}},
        {"locale": {"in": ["de"], "not_in": ["en"]}},
        {"memory_mb": {"from": 0}},
        {"memory_mb": {"from": "3"}},
        {"memory_mb": {"from": 3, "below": 3}},
        {"memory_mb": {"below": 2**24}},
        {"app_version": {"from": "2.1"}},
        {"app_version": {"from": 2}},
        {"app_version": {"from": "0.0.0", "below": "1.0.0"}},
        {"color": {"in": ["red"]}},
        {3: {"in": ["red"]}},
    ],
)
def test_another_form_than_the_canonical_is_refused(document: Any) -> None:
    """What was signed and what was understood cannot differ."""
    with pytest.raises(AudienceError):
        Audience.from_json(document)


@given(st.integers(0, VERSION_NUMBERS - 1), st.integers(0, VERSION_NUMBERS - 1))
def test_order_of_versions_is_the_order_of_their_numbers(one: int, other: int) -> None:
    """A number and its text stand for each other, and compare part by part."""
    parts = [tuple(map(int, (app_version_text(n) + ".0").split(".")[:4])) for n in (one, other)]
    assert app_version_number(app_version_text(one)) == one
    assert (parts[0] < parts[1]) is (one < other)


def test_describing_a_device_loads_no_pydantic() -> None:
    """An app that says what it runs on pays for no more than that."""
    code = (
        "import sys; from alcove.registry.policy import DeviceAttributes, parse_audience\n"
        "assert parse_audience('os == ios').matches(DeviceAttributes(os='ios'))\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
