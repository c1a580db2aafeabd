"""The model benchmark times programs through C and Python, and renders its tables and plots; no time is judged."""

import subprocess
from pathlib import Path

import pytest
from alcove.runtime.testing import samples

from benchmarks.models import alcove, peers
from benchmarks.models.alcove import Times
from benchmarks.models.cases import CASES, PEERS, reference_models
from benchmarks.models.page import as_markdown, plots
from benchmarks.models.table import Row, keep_rows

TIMES = Times(call_us=2.0, python_us=3.5, open_us=40.0, cold_us=90.0, peak_kib=2048)
ROW = Row("lid", TIMES, 1024, {"litert": 3.0, "ort": 5.0}, {"litert": 900.0}, {"et_c": 20480.0}, {"ncnn": "fail"}, 0.5)


def test_a_row_names_the_fastest_peer_and_the_ratio() -> None:
    """Three microseconds beside two; who gave no time and who is not there is named too."""
    page = as_markdown([ROW], {"et_c": "its timing program is not built (build.sh)"}, {"libalcove.so": 1234567})
    times = "| lid | 2.000 µs | 3.000 µs | litert | 1.50× | 0.500 µs | 4.00× | 3.500 µs | 90.0 µs | 900.0 µs |"
    assert f"{times} 1 KiB | 2.0 MiB | 4.0 MiB | 20.0 MiB |" in page
    assert "| lid | 3.000 µs | 5.000 µs |" in page
    assert "Not timed: et_c, its timing program is not built (build.sh)." in page
    assert "| libalcove.so | 1,234,567 |" in page
    assert "Gave no time: ncnn on lid (fail)." in page


def test_without_peers_there_is_no_ratio() -> None:
    """What alcove takes still stands."""
    alone = Row("call", TIMES, 1024, {}, {}, {}, {}, 1e-9)
    assert (alone.best, alone.ratio) == (None, None)
    assert "| call | 2.000 µs | – | – | – | – | – |" in as_markdown([alone], {}, {})


def test_the_plot_shows_each_peer_beside_alcove() -> None:
    """Ratios as bars; the same bytes each time; no picture without peers."""
    picture = plots([ROW])["models.svg"]
    assert ">1.50<" in picture
    assert ">2.50<" in picture
    assert plots([ROW]) == {"models.svg": picture}
    assert plots([Row("call", TIMES, 1024, {}, {}, {}, {}, 1e-9)]) == {}


def test_a_page_timed_in_parts_has_the_newest_row_of_each_model(tmp_path: Path) -> None:
    """In the order of the cases, whatever order they were timed in."""
    kept = tmp_path / "kept" / "rows.json"
    call = Row("call", TIMES, 1024, {}, {}, {}, {}, 1e-9)
    slower = Row("lid", TIMES, 2048, {"litert": 9.0}, {}, {}, {}, 0.5)
    assert keep_rows([slower], kept) == [slower]
    assert keep_rows([call], kept) == [call, slower]
    assert keep_rows([ROW], kept) == [call, ROW]
    assert keep_rows([], kept) == [call, ROW]


def test_rows_are_those_that_are_promised() -> None:
    """In this order."""
    assert [case.name for case in CASES if not case.quantize] == ["call", "lid", "bwe", "rank", "tag", "seg", "style"]


def test_a_program_is_timed_through_c_and_through_python(tmp_path: Path) -> None:
    """The timing program is compiled against the library that is installed; a cold load ends after the opening."""
    path = tmp_path / "layers.alc"
    path.write_bytes(samples()["layers"])
    files = []
    for index, count in enumerate((30, 6)):
        files.append(tmp_path / f"{index}.bin")
        files[-1].write_bytes(bytes(4 * count))
    times = alcove.measure(alcove.timing_program(), path, files, core=0, seconds=0.02)
    assert 0 < times.call_us < times.python_us * 10
    assert 0 < times.open_us < times.cold_us
    assert times.peak_kib > 0


def test_a_program_that_is_none_ends_the_timing_with_a_sentence(tmp_path: Path) -> None:
    """Not with a crash."""
    path = tmp_path / "none.alc"
    path.write_bytes(b"nothing")
    said = subprocess.run([alcove.timing_program(), path, "0.01"], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.startswith("latency: ")


def test_peers_that_are_not_installed_are_named(tmp_path: Path) -> None:
    """With what to do."""
    places = peers.Places(tmp_path / "none", tmp_path / "nothing")
    assert {peers.missing(places, name) for name in peers.NAMES} == {
        "not installed (setup.sh)",
        "its timing program is not built (build.sh)",
    }


def test_reference_models_are_those_of_the_rows() -> None:
    """Without the shared data a sentence says what is missing."""
    if not PEERS.is_dir():
        with pytest.raises(FileNotFoundError, match="the reference models are not there"):
            reference_models()
        return
    assert {name for case in CASES for name in (case.model, *case.also)} <= set(reference_models().NAMES)
