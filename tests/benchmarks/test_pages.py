"""What do the commands that time things share: options, tables, and the page that several of them write."""

import json
from pathlib import Path

import pytest

from benchmarks.options import timing_parser, write_json
from benchmarks.sections import Section, micros, table_lines, untimed_lines


def test_a_section_takes_the_place_of_the_one_before() -> None:
    """What stands around it stays, other sections too."""
    section, other = Section("mine", "me"), Section("other", "somebody")
    first = section.replace_in("# Performance\n\ntext\n", "one\n")
    assert first.startswith("# Performance\n\ntext\n")
    second = section.replace_in(other.replace_in(first, "else\n") + "after\n", "two\n")
    assert "one" not in second
    assert second.count(section.begin) == second.count(section.end) == second.count(other.begin) == 1
    assert second.endswith("after\n")
    assert section.replace_in(second, "two\n") == second


def test_a_section_is_written_into_a_page_that_is_not_there_yet(tmp_path: Path) -> None:
    """With a title; plots lie beside it, and there is no folder for none."""
    section = Section("mine", "me")
    page = tmp_path / "page.md"
    section.write(page, "one\n", {})
    assert page.read_text() == section.replace_in("# Performance\n", "one\n")
    assert not (tmp_path / "plots").exists()
    section.write(page, "two\n", {"a.svg": "<svg/>"})
    assert page.read_text() == section.replace_in("# Performance\n", "two\n")
    assert (tmp_path / "plots/a.svg").read_text() == "<svg/>"


@pytest.mark.parametrize(
    ("time_us", "text"),
    [(0.0714, "0.071 µs"), (9.999, "9.999 µs"), (10, "10.0 µs"), (999.94, "999.9 µs"), (1000, "1.00 ms")],
)
def test_times_have_three_digits_or_so(time_us: float, text: str) -> None:
    """In the unit that suits them."""
    assert micros(time_us) == text


def test_who_gave_no_time_is_named_with_the_reason() -> None:
    """And nothing is said where all did."""
    assert untimed_lines({}, {"lid": {}}) == []
    lines = untimed_lines({"ort": "gone", "et": "not built"}, {"lid": {"ncnn": "slow", "et": "broken"}})
    assert lines == [
        "Not timed: et, not built; ort, gone.",
        "",
        "Gave no time: et on lid (broken); ncnn on lid (slow).",
        "",
    ]
    assert table_lines(("a", "b"), [("1", "2")]) == ["| a | b |", "|---|---|", "| 1 | 2 |", ""]


def test_commands_that_time_things_take_the_same_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody gives is as the command says; a name that is none is refused with those that are some."""
    parser = timing_parser("benchmarks.x", "Times.", ["lid", "tag"], rounds=3, seconds=0.5)
    options = parser.parse_args([])
    assert (options.only, options.rounds, options.seconds, options.json) == (None, 3, 0.5, None)
    write_json(options.json, [1])
    options = parser.parse_args(["--only", "lid", "--only", "tag", "--core", "0", "--json", str(tmp_path / "x.json")])
    assert (options.only, options.core) == (["lid", "tag"], 0)
    write_json(options.json, [{"a": 1}])
    assert json.loads((tmp_path / "x.json").read_text()) == [{"a": 1}]
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--only", "seg"])
    assert "choose from" in capsys.readouterr().err
