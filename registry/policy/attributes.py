"""Holds what an app says of the device that it runs on, each value in one spelling.

It is compared with audiences on the device and is never sent.  What a device then does can tell which audiences it is
in, so it compares coarse values (`coarse`) and counts the audiences that it answers to (`sdk/questions.py`).  Every
value has one spelling (`en_gb` becomes `en-GB`), so that devices whose systems write it differently are in the same
audiences.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, fields, replace
from typing import Final

from alcove.registry.errors import AttributeValueError
from alcove.registry.limits import APP_VERSION_PART_MAX, MEMORY_MAX_MB

__all__ = [
    "ATTRIBUTES",
    "MEMORY_STEPS_MB",
    "NO_ATTRIBUTES",
    "OSES",
    "RANGED",
    "VERSION_NUMBERS",
    "DeviceAttributes",
    "app_version_number",
    "app_version_text",
    "coarse",
    "memory_step",
    "spell",
]

OSES: Final = ("android", "chromeos", "ios", "ipados", "linux", "macos", "other", "tvos", "watchos", "web", "windows")
"""The systems that an audience may name; the next SDK may know more, so documents hold any word of this form."""

MEMORY_STEPS_MB: Final = (
    0, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 65_536, 131_072,
)  # fmt: skip
"""Megabytes of memory between which devices are not distinguished: what phones and computers are sold with."""

_PARTS: Final = 4
_BASE: Final = APP_VERSION_PART_MAX + 1
VERSION_NUMBERS: Final = _BASE**_PARTS
"""App versions are numbered from 0 to this, exclusive."""

_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){0,3}", re.ASCII)
_TOKEN: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,31}", re.ASCII)  # no "-": only locales have parts
_REGION: Final = re.compile(r"[A-Z]{2}|[0-9]{3}", re.ASCII)
_LOCALE: Final = re.compile(r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{4}))?(?:[-_]([A-Za-z]{2}|[0-9]{3}))?", re.ASCII)

_EXPECTED: Final = {
    "app_version": f"a version such as 2.1 or 2.1.0: up to {_PARTS} numbers up to {APP_VERSION_PART_MAX}",
    "device_class": "a word of up to 32 letters, digits and '_', such as phone",
    "locale": "a language with, perhaps, script and region, such as de or en-GB",
    "memory_mb": f"a whole number of megabytes up to {MEMORY_MAX_MB}",
    "os": f"one word such as {', '.join(OSES)}",
    "region": "two letters or three digits, such as AT or 419",
}

RANGED: Final = {"app_version": VERSION_NUMBERS, "memory_mb": MEMORY_MAX_MB + 1}
"""Attributes that audiences compare by order, with the bound that all their numbers are below."""


@dataclass(frozen=True)
class DeviceAttributes:
    """Attributes of an app's device; None for those it does not know or give: no audience that asks for one matches.

    Attributes:
        app_version: of the app, one to four numbers such as "2.1".
        os: "android", "ios", ...
        device_class: the app's own word, such as "phone" or "low_end".
        locale: language, perhaps with script and region: "de", "en-GB", "zh-Hant-TW".
        region: where the device is: two letters or three digits.
        memory_mb: memory of the device, megabytes.

    Raises:
        AttributeValueError: a value has another form.
    """

    app_version: str | None = None
    os: str | None = None
    device_class: str | None = None
    locale: str | None = None
    region: str | None = None
    memory_mb: int | None = None

    def __post_init__(self) -> None:
        values: dict[str, str | int] = {}
        for name in ATTRIBUTES:
            value = getattr(self, name)
            if value is not None:
                value = spell(name, value)
                object.__setattr__(self, name, value)
                values[name] = app_version_number(str(value)) if name == "app_version" else value
        object.__setattr__(self, "_values", values)

    @property
    def values(self) -> dict[str, str | int]:
        """Return what is known, as audiences compare it: an app version as its number."""
        known: dict[str, str | int] = self.__dict__["_values"]
        return known


ATTRIBUTES: Final = tuple(sorted(field.name for field in fields(DeviceAttributes)))
NO_ATTRIBUTES: Final = DeviceAttributes()


def coarse(attributes: DeviceAttributes) -> DeviceAttributes:
    """Return what a device compares with audiences: memory down to its step, so that 7 683 MB are 6 144 MB."""
    if attributes.memory_mb is None:
        return attributes
    return replace(attributes, memory_mb=memory_step(attributes.memory_mb))


def memory_step(memory_mb: int) -> int:
    """Return the largest step of memory that is not above `memory_mb`, in megabytes."""
    return MEMORY_STEPS_MB[bisect_right(MEMORY_STEPS_MB, memory_mb) - 1]


def spell(attribute: str, value: object) -> str | int:
    """Return a value in the one spelling that its attribute has.

    Raises:
        AttributeValueError: it is none of this attribute's.
    """
    result: str | int | None
    if attribute == "memory_mb":
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MEMORY_MAX_MB
        result = value if is_number and isinstance(value, int) else None
    else:
        result = _SPELL[attribute](value) if isinstance(value, str) else None
    if result is None:
        raise AttributeValueError(attribute, expected=_EXPECTED[attribute], value=value)
    return result


def app_version_number(text: str) -> int:
    """Return the place of an app's version in the order of all, in [0, VERSION_NUMBERS); `text` is well formed."""
    parts = [int(part) for part in text.split(".")]
    number = 0
    for part in (*parts, *[0] * (_PARTS - len(parts))):
        number = number * _BASE + part
    return number


def app_version_text(number: int) -> str:
    """Return the version of this number: three numbers, or four where the fourth is not 0."""
    parts = []
    for _ in range(_PARTS):
        number, part = divmod(number, _BASE)
        parts.append(str(part))
    parts.reverse()
    return ".".join(parts if parts[-1] != "0" else parts[:-1])


def _app_version(text: str) -> str | None:
    return app_version_text(app_version_number(text)) if _VERSION.fullmatch(text) else None


def _token(text: str) -> str | None:
    return text.lower() if _TOKEN.fullmatch(text.lower()) else None


def _region(text: str) -> str | None:
    return text.upper() if _REGION.fullmatch(text.upper()) else None


def _locale(text: str) -> str | None:
    match = _LOCALE.fullmatch(text)
    if match is None:
        return None
    language, script, region = match.groups()
    parts = (language.lower(), script and script.title(), region and region.upper())
    return "-".join(part for part in parts if part)


_SPELL: Final = {
    "app_version": _app_version,
    "device_class": _token,
    "locale": _locale,
    "os": _token,
    "region": _region,
}
