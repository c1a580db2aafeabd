"""Curves of the scaling benchmark export, agree with torch, and become tables and plots; no time is judged."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch
from alcove.runtime import export, load

from benchmarks.models import peers
from benchmarks.models.alcove import cores_for
from benchmarks.models.peers import Places
from benchmarks.scale import measure, threaded_peer
from benchmarks.scale.layers import CURVES, Curve, build, inputs
from benchmarks.scale.measure import Point, Scale
from benchmarks.scale.page import SECTION, as_markdown, notes, plots
from benchmarks.svg import COLOURS, bars, curves

CORES = os.cpu_count() or 1
POINTS = [
    Point("conv3x3", 16, 20.0, 180.5, {"litert": 30.0, "ort": 50.0}, {}),
    Point("conv3x3", 32, 80.0, 180.6, {"litert": 100.0}, {"ort": "no <answer>"}),
    Point("batch", 1, 5.0, 55.0, {}, {}),
]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_a_curve_is_a_layer_that_alcove_takes(curve: Curve) -> None:
    """At its least size: exported, with the answers of torch; sizes rise, and operations with them."""
    size = curve.sizes[0]
    module, argument = build(curve, size), inputs(curve, size)
    (native,) = load(bytes(export(module, argument)))(argument[0].numpy())
    torch.testing.assert_close(torch.from_numpy(native), module(*argument), rtol=1e-4, atol=1e-5)
    assert list(curve.sizes) == sorted(set(curve.sizes))
    flops = [curve.flops(size) for size in curve.sizes]
    assert flops == sorted(flops)
    assert tuple(argument[0].shape) == curve.shape(size)


def test_what_grows_is_what_is_promised() -> None:
    """Channels, resolution, windows, groups, sequence length, batch, threads."""
    assert [curve.axis for curve in CURVES] == [
        "channels",
        "channels",
        "height and width",
        "kernel",
        "kernel",
        "channels a group",
        "sequence length",
        "batch",
        "threads",
        "threads",
    ]


def test_a_table_names_the_fastest_peer_and_who_gave_no_time() -> None:
    """Each curve that was timed has a table and a picture; the others have none."""
    page = as_markdown(POINTS, {"et": "not installed (setup.sh)"})
    assert "| 16 | 20.0 µs | 180.5 | 30.0 µs | litert | 1.50× | 30.0 µs | 50.0 µs |" in page
    assert "| 32 | 80.0 µs | 180.6 | 100.0 µs | litert | 1.25× | 100.0 µs | – |" in page
    assert "| 1 | 5.000 µs | 55.0 | – | – | – |" in page
    assert "Not timed: et, not installed (setup.sh)." in page
    assert "Gave no time: ort on conv3x3 32 (no <answer>)." in page
    assert list(plots(POINTS)) == ["conv3x3.svg", "batch.svg"]
    assert "plots/conv3x3.svg" in page
    assert "plots/attention.svg" not in page
    assert SECTION.begin in SECTION.replace_in("# Performance\n", page)


def test_pictures_are_well_formed_and_the_same_each_time() -> None:
    """A line for each name, thick for the first; names are escaped; one size alone is drawn too."""
    for picture in plots(POINTS).values():
        root = ET.fromstring(picture)
        assert root.tag.endswith("svg")
    first = plots(POINTS)["conv3x3.svg"]
    assert first == plots(POINTS)["conv3x3.svg"]
    assert first.count("<polyline") == 3
    assert f'stroke="{COLOURS[0]}" stroke-width="2.5"' in first
    drawn = curves("a < b", "x & y", {"<one>": [(1.0, 10.0), (8.0, 1000.0)]})
    assert [e.text for e in ET.fromstring(drawn).iter() if e.text and "one" in e.text] == ["<one>"]


def test_bars_grow_with_the_ratio() -> None:
    """Twice as long is longer than as long; what is faster than alcove stays left of the line at 1."""
    root = ET.fromstring(bars("times", {"lid": {"a": 0.8, "b": 1.0, "c": 4.0}, "tag": {"a": 40.0}}))
    widths = [float(e.attrib["width"]) for e in root.iter() if e.tag.endswith("rect") and e.attrib.get("x") == "64"]
    assert widths == sorted(widths)
    assert len(widths) == 4
    (line,) = [float(e.attrib["x1"]) for e in root.iter() if e.tag.endswith("line")]
    assert line == pytest.approx(64 + widths[1])


def test_environments_that_are_not_there_export_nothing(tmp_path: Path) -> None:
    """No error: who is missing is named when it would be timed."""
    measure.export_for_peers(Places(tmp_path / "none", tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_peer_gets_as_many_threads_and_cores_as_alcove(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a script that can give it more than one; elsewhere by the peers' own, on the core that is timed on."""
    asked: list[tuple[str, str]] = []

    def answer(places: Places, command: Sequence[str | Path], cores: str) -> dict[str, Any]:
        asked.append((" ".join(str(word) for word in command[-3:]), cores))
        return {"p50_us": 5.0}

    monkeypatch.setattr(peers, "answer", answer)
    by_name = {curve.name: curve for curve in CURVES}
    for name, size in (("threads_linear", 1), ("threads_linear", 2), ("batch", 2)):
        Scale(0, 1, 1.0, print)._peer(by_name[name], size, Places(tmp_path, tmp_path), "ort")
    assert asked == [
        ("ort threads_linear_1 1", "0"),
        ("ort threads_linear_2 2", cores_for(0, 2)),
        ("ort batch_2 lat", "0"),
    ]


def test_cores_that_stayed_idle_are_reported() -> None:
    """Who had two threads and kept one core busy is not as slow as its time says."""
    busy = Point("threads_linear", 2, 5.0, 55.0, {"ort": 9.0}, {}, {"ort": 1.04, "alcove": 1.98})
    assert notes([*POINTS, busy], {})[0] == "Cores kept busy on threads_linear 2: alcove 2.0, ort 1.0."
    assert "Cores kept busy" not in as_markdown(POINTS, {})


@pytest.mark.parametrize("threads", [1, 2, 3, 1000])
def test_threads_are_pinned_to_as_many_cores(threads: int) -> None:
    """The core that is timed on is one of them; no core twice, none that the machine has not."""
    cores = [int(core) for core in cores_for(0, threads).split(",")]
    assert cores[0] == 0
    assert len(cores) == len(set(cores)) == min(threads, CORES)
    assert set(cores) <= set(range(CORES))


def test_the_threaded_script_prints_what_the_peers_own_does(tmp_path: Path) -> None:
    """In a process of its own, as peers are run: the error beside torch's answer, and the names that are read here."""
    np.savez(tmp_path / "double.npz", in0=np.ones((2, 3), np.float32), out0=np.full((2, 3), 2.5, np.float32))
    code = (
        "from benchmarks.scale import threaded_peer as t\n"
        "t.REPEAT_S, t.CALLS = 1e-3, range(2, 4)\n"
        "t.PEERS['half'] = lambda path, x, threads: (lambda: x + threads, lambda y: y)\n"
        "t.main('half', 'double', 2)\n"
    )
    found = peers.answer(Places(tmp_path, tmp_path), [sys.executable, "-c", code], cores_for(0, 1))
    assert (found["peer"], found["model"], found["threads"], found["max_abs_err"]) == ("half", "double", 2, 0.5)
    assert 0 < found["p50_us"] <= found["worst_median_us"]
    assert found["busy_cores"] > 0
    assert threaded_peer.PEERS.keys() == set(measure.NAMES)
