"""The zoo renders rows, names what is slow, wrong or missing, and keeps exports by content; no time is judged."""

import json
from pathlib import Path

import pytest

from benchmarks.zoo import call, run, store
from benchmarks.zoo.networks import BY_NAME, NETWORKS
from benchmarks.zoo.page import as_markdown, plots
from benchmarks.zoo.run import Bench
from benchmarks.zoo.table import Row, make_rows

FAST = {
    "times_us": {"alcove": [1000.0, 1100.0, 900.0], "ort": [2000.0, 2000.0, 2000.0], "et": [9000.0, 9000.0, 9000.0]},
    "differences": {"alcove": 1e-6, "ort": 1e-6},
    "shares": {"conv2d": 0.9, "add": 0.1},
}
SLOW = {
    "times_us": {"alcove": [1000.0, 1000.0, 1000.0], "ort": [500.0, 900.0, 800.0]},
    "differences": {"alcove": 0.5},
    "failed": {"et": "RuntimeError: none"},
    "shares": {"gelu": 0.75, "conv2d": 0.2, "add": 0.05},
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let exports and results lie in a folder of their own."""
    monkeypatch.setattr(store, "FOLDER", tmp_path)


def rows() -> list[Row]:
    """Return a row of each."""
    return make_rows({"resnet18": FAST, "gmlp_s16_224": SLOW}, [network.name for network in NETWORKS])


def test_there_are_ninety_networks_or_more_of_different_names() -> None:
    """Each in a family."""
    assert len(BY_NAME) == len(NETWORKS) >= 90
    assert {network.family for network in NETWORKS} >= {"mobile", "residual", "transformer", "windows", "hybrid", "mlp"}


def test_the_ratio_is_the_median_of_those_of_each_round() -> None:
    """Beside the fastest peer, with the lowest and the highest."""
    fast = rows()[0]
    assert (fast.best, fast.ratio, fast.lowest) == ("ort", 2.0, 2000 / 1100)
    assert (fast.is_slower, fast.is_wrong) == (False, False)


def test_a_network_that_is_slower_in_each_round_is_said_to_be_and_why() -> None:
    """With the operators that take most of the time; one that is fast needs no reason."""
    slow = rows()[1]
    assert (slow.is_slower, slow.is_wrong) == (True, True)
    page = as_markdown(rows(), {"litert": "not installed"})
    assert "| gmlp_s16_224 | 224 | 1.00 ms | 800.0 µs | ort | 0.80× | 0.50 to 0.90 | gelu 75%, conv2d 20% |" in page
    assert "| resnet18 | 160 | 1.00 ms | 2.00 ms | ort | 2.00× | 1.82 to 2.22 |  |" in page
    assert "2 networks: median 1.40×, worst 0.80× (gmlp_s16_224); 1 are slower" in page
    assert "Answers differ from eager: gmlp_s16_224." in page
    assert "Not timed: litert, not installed." in page
    assert "et on gmlp_s16_224 (RuntimeError: none)" in page


def test_the_page_says_where_what_was_not_tried_and_what_products_take() -> None:
    """ExecuTorch refused one network, LiteRT was never tried; products take 20 and 90 % of the time."""
    page = as_markdown(rows(), {}, "a machine")
    assert "On a machine." in page
    assert (
        "Timed: ONNX Runtime on 2 networks, 0 refused, 0 not tried; LiteRT on 0 networks, 0 refused, 2 not tried; "
        "ExecuTorch on 1 networks, 1 refused, 0 not tried." in page
    )
    assert "Operators of products take 55% of the mean network's time (20% to 90%)" in page


def test_exports_are_said_in_times_of_torchs_own_with_packing_apart() -> None:
    """Median and slowest; what an older compiler took is not said."""
    assert "torch.export" not in as_markdown(rows(), {})
    for name, steps in {
        "resnet18": {"torch.export": 2.0, "trace": 2.5, "lower": 0.5, "pack": 0.25, "write": 0.25},
        "gmlp_s16_224": {"torch.export": 1.0, "trace": 1.5, "pack": 0.5, "write": 0.75},
    }.items():
        store.seconds_of(BY_NAME[name]).write_text(json.dumps(steps), encoding="utf-8")
    said = "Exports of 2 networks took a median of 2.25 times torch.export's own time on the same processor, 0.75 of it"
    page = as_markdown(rows(), {})
    assert said in page
    assert "the slowest 2.75 times (gmlp_s16_224, 1.25 of it for those)." in page


def test_the_picture_has_a_group_for_each_family() -> None:
    """Worst, median and best; none without peers."""
    picture = plots(rows())["zoo.svg"]
    assert ">residual<" in picture
    assert ">mlp<" in picture
    assert plots([]) == {}


def test_a_program_of_an_older_compiler_is_timed_until_there_is_a_newer(tmp_path: Path) -> None:
    """Its name tells of the sources; exporting again removes it."""
    network = BY_NAME["resnet18"]
    old = tmp_path / "resnet18-000000000000.alc"
    old.write_bytes(b"old")
    assert store.newest(network, "alcove") == old
    assert not store.is_settled(network, "alcove")
    store.path_of(network, "alcove").write_bytes(b"new")
    assert store.newest(network, "alcove") == store.path_of(network, "alcove")
    store.forget(network, "alcove")
    assert store.newest(network, "alcove") is None


def test_a_network_that_an_engine_refuses_is_not_exported_again() -> None:
    """The reason is kept and shown."""
    network = BY_NAME["resnet18"]
    store.refusal_of(network, "ort").write_text("ValueError: no\n", encoding="utf-8")
    assert store.is_settled(network, "ort")
    assert run.refusals(network) == {"ort": "ValueError: no"}


def test_a_window_that_is_over_begins_no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks that were timed longest ago come first."""
    store.write_results({"resnet18": {"at_s": 2.0}, "resnet26": {"at_s": 1.0}})
    for name in ("resnet18", "resnet26"):
        for what in ("golden", "alcove"):
            store.path_of(BY_NAME[name], what).write_bytes(b"")
    timed: list[str] = []

    def note(_python: object, module: str, name: str, *_rest: str, timeout_s: float) -> dict[str, float]:
        assert timeout_s > 0
        timed.append(f"{module} {name}")
        return {}

    monkeypatch.setattr(run, "_run_module", note)
    Bench(0, 1, 0.1, lambda _what: None).time(["resnet18", "resnet26", "resnet50"], 1e-9)
    assert timed == []
    Bench(0, 1, 0.1, lambda _what: None).time(["resnet18", "resnet26", "resnet50"], 100)
    assert [line for line in timed if line.startswith("call")] == ["call resnet26", "call resnet18"]


def test_what_is_not_exported_is_not_timed() -> None:
    """And says so."""
    assert call.measure("resnet18", 0.1, 1) == {"failed": {"golden": "not exported"}}
