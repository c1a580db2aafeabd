"""Digests of sections are checked at load or when asked, and only later minor versions may add skippable sections."""

from typing import cast

import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.format import writer
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import classifier, patch, reseal, section


def test_digests_of_sections_are_checked() -> None:
    """A changed section under an honest header: PROGRAM and CERTIFICATE at load, WEIGHTS when asked."""
    whole = write_program(classifier(certificate=b"{}"))
    for kind in (SectionKind.PROGRAM, SectionKind.CERTIFICATE):
        offset, _ = section(whole, kind)
        with pytest.raises(ProgramError) as caught:
            load(patch(whole, offset, "B", whole[offset] ^ 1))
        assert (caught.value.code, caught.value.section) == ("section_digest", kind.name.lower())


def test_any_changed_byte_of_the_weights_is_found_by_verify_weights() -> None:
    """The program loads and runs (no byte of the weights matters to safety); verify_weights refuses each."""
    whole = write_program(classifier(certificate=b"{}"))
    offset, size = section(whole, SectionKind.WEIGHTS)
    for at_byte in range(offset, offset + size, 7):
        model = load(patch(whole, at_byte, "B", whole[at_byte] ^ 0x80))
        model("Hallo")
        with pytest.raises(ProgramError, match="weights_digest"):
            model.verify_weights()


def test_resealed_bytes_between_weights_must_be_zero() -> None:
    """Padding after a constant, and the columns of a panel that stand for no output."""
    whole = write_program(classifier(certificate=b"{}"))
    start, _ = section(whole, SectionKind.WEIGHTS)
    between = start + 640 + 80  # after the scale of 20 floats
    last_panel = start + 640 + 128 + 21 * 64  # of the first matrix: 18 outputs, 14 unused columns
    for offset in (between, last_panel + 8, last_panel + 20 * 64 + 63):
        model = load(reseal(patch(whole, offset, "B", 1)))
        with pytest.raises(ProgramError) as caught:
            model.verify_weights()
        assert caught.value.code == "weights_padding"
        assert caught.value.tensor in {1, 2}
    load(reseal(patch(whole, last_panel + 4, "B", 1))).verify_weights()


def test_a_later_minor_version_may_add_sections_that_can_be_skipped() -> None:
    """Minor 3 with an unknown, uncritical last section loads and runs; in minor 0 to 2, or critical, it does not."""
    whole = write_program(classifier())
    pieces = {kind: section(whole, kind) for kind in (SectionKind.PROGRAM, SectionKind.WEIGHTS)}
    sections = [(kind, [whole[start : start + size]]) for kind, (start, size) in pieces.items()]
    later = writer._file([*sections, (cast("SectionKind", 9), [b"later"])], load(whole).memory_ceiling_bytes, 0)
    uncritical = patch(later, 64 + 2 * 64 + 4, "I", 0)
    in_minor_3 = reseal(patch(uncritical, 10, "H", 3))
    assert load(in_minor_3)("Hallo")[1].tolist() == load(whole)("Hallo")[1].tolist()
    assert read_spec(in_minor_3) == classifier()
    for refused in (uncritical, patch(uncritical, 10, "H", 2), patch(later, 10, "H", 3)):
        with pytest.raises(ProgramError) as caught:
            load(reseal(refused))
        assert caught.value.code == "section_kind"
