"""The requirements of a variant are read from a command line; what cannot be read is refused with the reason."""

import pytest
import typer
from alcove.platform.cli.pushing import parse_requirements
from alcove.registry.manifest import Requirements

GIB = 1 << 30


def test_needs_are_read_from_a_command_line() -> None:
    """Units of memory, any order."""
    assert parse_requirements("f32:memory=4GiB,cores=4") == ("f32", Requirements(memory_bytes=4 * GIB, cores=4))
    assert parse_requirements("x:isa=neon,memory=512MiB") == ("x", Requirements(isa="neon", memory_bytes=512 << 20))
    assert parse_requirements("x:memory=7") == ("x", Requirements(memory_bytes=7))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a variant and a colon"),
        ("f32", "a variant and a colon"),
        ("f32:", "isa, memory and cores are known"),
        ("f32:speed=1", "not 'speed'"),
        ("f32:cores=1,cores=2", "each once"),
        ("f32:cores=many", "invalid literal"),
        ("f32:memory=4GB", "KiB, MiB, GiB, not '4GB'"),
        ("f32:memory=GiB", "not 'GiB'"),
        ("f32:cores=0", "at least one thing"),
        ("f32:cores=5000", "cores: expected less than or equal to 1024, got '5000'"),
        ("f32:isa=mmx", "isa: expected .*avx2.*, got 'mmx'"),
    ],
)
def test_needs_that_cannot_be_read_are_refused(text: str, why: str) -> None:
    """With what is wrong and how to write it."""
    with pytest.raises(typer.BadParameter, match=why):
        parse_requirements(text)
