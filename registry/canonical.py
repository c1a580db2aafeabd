"""Encodes documents as canonical JSON and parses them, so that one meaning has exactly one digest.

Canonical JSON here: keys sorted, no space, UTF-8, integers only (fractions are decimal strings), no NaN.  Reading
accepts the canonical bytes and nothing else: what was signed, what is hashed and what was understood cannot differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping  # noqa: TC003 - as in every module here
from typing import Annotated, Any, Final, Self

from alcove.registry.errors import DocumentError, DocumentTooLargeError
from alcove.registry.limits import APP_NAME, APP_NAME_BOUND
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

_FAULTS_SHOWN: Final = 3  # a broken document may have thousands of faults; the first few tell enough
_FAULT_CHARACTERS: Final = 300  # of each; one may quote the whole document, and devices log it at every sync


def _not_reserved(name: str) -> str:
    if name in RESERVED_FEATURES:
        msg = f"{name!r} is a folder of the tree, not a feature"
        raise ValueError(msg)
    return name


# Folders of the tree whose targets belong to the policy and halt roles.
RESERVED_FEATURES: Final = frozenset({"policy", "halt"})

_DIGEST: Final = r"^[0-9a-f]{64}$"
_FEATURE: Final = r"^[a-z][a-z0-9_]{0,63}$"
_TEAM: Final = r"^[a-z][a-z0-9_-]{0,31}$"
_APP: Final = f"^{APP_NAME}$"
_IDENTIFIER: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_VERSION_TEXT: Final = r"^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$"
# One spelling for each number: no leading or trailing zero.
_DECIMAL: Final = r"^(0|[1-9][0-9]{0,5})(\.[0-9]{0,5}[1-9])?$"

Digest = Annotated[str, StringConstraints(pattern=_DIGEST)]
FeatureName = Annotated[str, StringConstraints(pattern=_FEATURE), AfterValidator(_not_reserved)]
TeamName = Annotated[str, StringConstraints(pattern=_TEAM)]
AppName = Annotated[str, StringConstraints(pattern=_APP)]
Identifier = Annotated[str, StringConstraints(pattern=_IDENTIFIER)]
VersionText = Annotated[str, StringConstraints(pattern=_VERSION_TEXT)]
Decimal = Annotated[str, StringConstraints(pattern=_DECIMAL)]

_FORMS: Final = {
    _DIGEST: "64 lower-case hexadecimal digits",
    _FEATURE: "1 to 64 of a-z, 0-9 and '_', a letter first",
    _TEAM: "1 to 32 of a-z, 0-9, '_' and '-', a letter first",
    _APP: APP_NAME_BOUND,
    _IDENTIFIER: "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', a letter or digit first",
    _VERSION_TEXT: "MAJOR.MINOR.PATCH, such as 1.2.0",
    _DECIMAL: "a decimal number without leading or trailing zeros, such as 0.5",
}

_VERSION = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


def fault_text(fault: Mapping[str, Any]) -> str:
    """Return what one of pydantic's faults asks for: a form in words, where pydantic says a regular expression."""
    if fault["type"] == "string_pattern_mismatch":
        pattern = str(fault["ctx"]["pattern"])
        return _FORMS.get(pattern, f"the form {pattern}")
    return str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


def version_key(version: str) -> tuple[int, int, int]:
    """Return the sort key of "MAJOR.MINOR.PATCH".

    Raises:
        ValueError: `version` has another form.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        msg = f"a version reads MAJOR.MINOR.PATCH with numbers below 1000000, got {version!r}"
        raise ValueError(msg)
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)


def canonical_json(value: object) -> bytes:
    """Return the canonical bytes of plain JSON values (objects, arrays, strings, integers, booleans, null).

    Raises:
        ValueError: `value` holds a float, or text that is not Unicode.
    """
    _refuse_floats(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        msg = f"canonical JSON holds integers and decimal strings, got the float {value!r}"
        raise ValueError(msg)  # noqa: TRY004 - the value, not the call, is at fault
    if isinstance(value, dict):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_floats(item)


class Part(BaseModel):
    """A piece of a signed document: immutable, and unknown fields are refused.

    Bytes hold the alias of a field that has one; code uses its name.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True
    )


class Document(Part):
    """A whole document with one canonical encoding."""

    def to_bytes(self) -> bytes:
        """Return the canonical bytes: what is signed, hashed and sent."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def parse(cls, data: bytes, *, kind: str, max_bytes: int) -> Self:
        """Return the document whose canonical bytes are `data`.

        Args:
            data: untrusted bytes.
            kind: name of the document in errors.
            max_bytes: hard cap, checked before anything is parsed.

        Raises:
            DocumentTooLargeError: more than `max_bytes`.
            DocumentError: not JSON, not this document, or not its canonical encoding.
        """
        if len(data) > max_bytes:
            raise DocumentTooLargeError(kind, limit_bytes=max_bytes, size_bytes=len(data))
        try:
            document = cls.model_validate_json(data, strict=True)
        except ValidationError as error:
            raise _document_error(kind, error) from None
        if document.to_bytes() != data:
            raise DocumentError(kind, "", "these bytes are not the canonical encoding of what they say")
        return document


def _document_error(kind: str, error: ValidationError) -> DocumentError:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(str(step) for step in faults[0]["loc"])
    problem = "; ".join(str(fault["msg"])[:_FAULT_CHARACTERS] for fault in faults[:_FAULTS_SHOWN])
    if len(faults) > _FAULTS_SHOWN:
        problem += f"; and {len(faults) - _FAULTS_SHOWN} more"
    return DocumentError(kind, where, problem)
