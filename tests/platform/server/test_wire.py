"""A message gets every field that it has, or none is made."""

from dataclasses import dataclass

import pytest
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.server.wire import to_message


@dataclass(frozen=True)
class Renamed:
    """A port whose shape has another name than the message's field."""

    name: str = "x"
    dtype: str = "f32"
    extents: tuple[int, ...] = (1, 2)
    is_ragged: bool = True
    labels: tuple[str, ...] = ()


def test_a_field_without_a_source_is_an_error_that_names_it() -> None:
    """A record's attribute that was renamed does not leave its field empty in silence."""
    with pytest.raises(AttributeError, match="shape"):
        to_message(pb.Port, Renamed())


def test_own_fields_come_before_the_records() -> None:
    """And None leaves a field unset."""
    assert to_message(pb.Port, Renamed(), dtype=None, shape=(3,)) == pb.Port(name="x", shape=[3], is_ragged=True)
