"""Times of frames of video beside peers: ratios by round, page, curves, and who is absent; no time is judged."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.frames import cases, run
from benchmarks.frames.cases import FORMS, NETWORKS, SIZES, Case, list_cases, make_inputs, make_network
from benchmarks.frames.page import as_markdown, plots
from benchmarks.frames.run import Bench, Engine, Row, absent_peers, convert, make_row
from benchmarks.models.peers import Places

ROUNDS = {"alcove": [1000.0, 2000.0, 1000.0], "ort": [3000.0, 3000.0, 1500.0], "litert": [8000.0, 8000.0, 8000.0]}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files lie in a folder of their own."""
    monkeypatch.setattr(cases, "FOLDER", tmp_path)


def nowhere(tmp_path: Path) -> Places:
    """Return where no peer is."""
    return Places(tmp_path / "peers", tmp_path / "models")


def rows() -> list[Row]:
    """Return a row of two sizes, each with one and two threads; the second has no peer."""
    large, small = Case("style", (640, 360), "f32"), Case("style", (256, 144), "f32")
    return [
        make_row(case, threads, rounds, {"ort": 1e-3} if "ort" in rounds else {}, failed)
        for case, rounds, failed in ((small, ROUNDS, {}), (large, {"alcove": [4000.0]}, {"ort": "no file in 600 s"}))
        for threads in (1, 2)
    ]


def test_ratio_is_the_median_of_the_rounds_ratios_to_the_fastest_peer() -> None:
    """A slow round of all engines does not change it; the frames a second are those of the median."""
    row = rows()[0]
    assert (row.best, row.ratio) == ("ort", 1.5)
    assert (row.frames_per_s("alcove"), row.frames_per_s("litert")) == (1000.0, 125.0)


def test_page_shows_rows_pictures_and_who_gave_no_time() -> None:
    """Also those without a peer, whose row has alcove alone."""
    page = as_markdown(rows(), {"litert": "its converter is not installed"}, "On a machine.")
    assert "| 256 x 144 | f32 | 1 | 1,000.0/s | 333.3/s | ort | 1.50× | litert 125.0, ort 333.3 |" in page
    assert "| 640 x 360 | f32 | 2 | 250.0/s | – | – | – | – |" in page
    assert "![Style transfer: frames a second, 2 threads](plots/frames_style_2.svg)" in page
    assert "Answers of f32 differ by at most 0.001 of the largest element." in page
    assert "Not timed: litert, its converter is not installed." in page
    assert "ort on style 640 x 360 f32 (no file in 600 s)" in page


def test_page_without_any_peer_has_alcove_alone() -> None:
    """No sentence compares answers then, and both peers are named."""
    alone = [row for row in rows() if not row.best]
    page = as_markdown(alone, {"ort": "not installed", "litert": "not installed"}, "On a machine.")
    assert "Answers of f32" not in page
    assert "Not timed: litert, not installed; ort, not installed." in page


def test_curves_have_a_line_of_each_engine_over_the_size_of_a_frame() -> None:
    """One picture for each number of threads, with frames a second beside the axis."""
    found = plots(rows())
    assert set(found) == {"frames_style_1.svg", "frames_style_2.svg"}
    picture = found["frames_style_1.svg"]
    assert all(f">{text}<" in picture for text in ("alcove f32", "ort f32", "36.864", "1000/s"))
    assert picture.index(">alcove f32<") < picture.index(">litert f32<")


def test_absent_peers_are_named_and_nothing_of_them_is_converted(tmp_path: Path) -> None:
    """Neither environment is there, or only the one that times."""
    places = nowhere(tmp_path)
    assert set(absent_peers(places)) == {"ort", "litert"}
    for module in ("onnxruntime", "onnxscript", "ai_edge_litert"):
        (places.base / "venv/lib/python3.11/site-packages" / module).mkdir(parents=True)
    assert absent_peers(places) == {"litert": "its converter is not installed (../shared/peers/setup.sh)"}


def test_converter_that_fails_says_why_once(tmp_path: Path) -> None:
    """The reason is kept beside the files, so that the next run does not try again."""
    places = nowhere(tmp_path)
    python = places.base / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 'no operator for this' >&2\nexit 3\n", encoding="utf-8")
    python.chmod(0o755)
    case = Case("people", (256, 144), "int8")
    assert convert(places, case, "ort") == "no operator for this"
    python.unlink()
    assert convert(places, case, "ort") == "no operator for this"


def test_alcove_alone_is_timed_by_blocks_and_its_answer_is_eagers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way on a small frame: export, process, blocks, row."""
    monkeypatch.setattr(run, "cores_for", lambda core, threads: str(core))
    case = Case("style", (16, 8), "f32")
    core = min(os.sched_getaffinity(0))
    bench = Bench(core, 2, 0.001, lambda _: None, nowhere(tmp_path))
    (row,) = bench.measure([case], [1])
    assert row.times_us["alcove"] > 0
    assert (row.best, row.ratio, row.failed) == ("", 0.0, {})
    eager = make_network("style")(*make_inputs("style", (16, 8)).values()).numpy().astype(int)
    answer = np.load(case.model("alcove").with_suffix(".alcove.npy")).astype(int)
    assert answer.shape == (8, 16, 3)
    assert np.abs(answer - eager).max() <= 1


def test_engine_that_does_not_take_the_file_says_why(tmp_path: Path) -> None:
    """Its last line is the reason of the row."""
    case = Case("style", (16, 8), "f32")
    case.model("alcove").write_bytes(b"no program")
    np.savez(case.inputs, a_frame=np.zeros((8, 16, 3), np.uint8))
    with pytest.raises(RuntimeError, match=r"\w"):
        Engine("alcove", case, 1, min(os.sched_getaffinity(0)), Path(sys.executable))


def test_worker_and_converter_need_no_alcove() -> None:
    """They run in the peers' environments, which have none."""
    for name in ("engine", "convert"):
        source = (Path(run.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        assert "from alcove" not in source
        assert "from benchmarks" not in source
    code = "import runpy, sys; sys.modules['alcove'] = None; runpy.run_path(sys.argv[1], run_name='engine')"
    subprocess.run([sys.executable, "-c", code, str(Path(run.__file__).parent / "engine.py")], check=True)


def test_cases_are_every_network_size_and_form() -> None:
    """Those of one network beside each other; the style network's sides are multiples of eight."""
    found = list_cases()
    assert len(set(found)) == len(found) == len(NETWORKS) * len(SIZES) * len(FORMS)
    assert all(side % 8 == 0 for size in SIZES for side in size)
