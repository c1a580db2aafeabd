"""Attributes by name: as the manifest lists them, and back from a program's numbers."""

import re

import pytest
from alcove.runtime import _native
from alcove.runtime.format import attributes
from alcove.runtime.format.attributes import AsStridedCopyAttributes, Conv2dAttributes, PadAttributes

from tools.operator_attributes import MANIFEST, MODULE, class_name, module


def test_committed_module_equals_what_the_manifest_generates() -> None:
    """A change of the manifest's attributes cannot be forgotten in Python."""
    assert MODULE.read_text() == module(MANIFEST.read_text()), "python -m tools.operator_attributes"


def test_every_operator_has_as_many_numbers_as_the_native_manifest_says() -> None:
    """Names and positions are those of the native code that is loaded."""
    assert {class_name(op.name) for op in _native.manifest() if op.attributes} == {
        name for name in vars(attributes) if name.endswith("Attributes") and name != "Attributes"
    }
    for op in _native.manifest():
        if not op.attributes:
            continue
        argument = getattr(attributes, class_name(op.name)).from_numbers(range(len(op.attributes)))
        assert argument.numbers() == tuple(range(len(op.attributes)))
        listed = [name.rstrip("0123456789") for name, _ in op.attributes]
        named = [re.sub(r"s?\[\d+\]$", "", name) for name, _ in argument.items()]
        assert [name.removesuffix("s") for name in listed] == [name.removesuffix("s") for name in named]


def test_short_tuples_are_followed_by_zeros() -> None:
    """Strides and margins are given for the dimensions that there are."""
    assert AsStridedCopyAttributes(offset=3, strides=(4, 1)).numbers() == (3, 4, 1, 0, 0, 0, 0, 0, 0)
    assert PadAttributes(before=(1,), after=(0, 2), mode=0, bits=9).numbers() == (1, *[0] * 8, 2, *[0] * 6, 0, 9)


@pytest.mark.parametrize("count", [0, 14, 16])
def test_another_count_of_numbers_is_refused(count: int) -> None:
    """A program's numbers are never shifted by one."""
    with pytest.raises(ValueError, match=f"Conv2dAttributes of {count} numbers"):
        Conv2dAttributes.from_numbers(range(count))
