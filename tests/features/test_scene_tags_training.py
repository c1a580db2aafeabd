"""Training of scene_tags on small made-up picture sets: splits, sampling, resumption, averaging and calibration."""

import csv
import json
import lzma
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.features.scene_tags.config import CONFIGS, DEFAULT_VERSION, EMBEDDING, LEFT_OUT, TAGS
from alcove.features.scene_tags.drawn import drawings, png_of

torch = pytest.importorskip("torch", reason="training needs torch: install alcove[export]")

from alcove.features.scene_tags.build import compile_module, module_of_run, ranges_of, samples  # noqa: E402
from alcove.features.scene_tags.calibrate import fit_scores  # noqa: E402
from alcove.features.scene_tags.dataset import (  # noqa: E402
    CALIBRATION_EACH,
    Corpus,
    Sampler,
    jitter_color,
    mix_batch,
    pieces,
    read,
    summary,
)
from alcove.features.scene_tags.network import SceneNetwork, multiply_adds  # noqa: E402
from alcove.features.scene_tags.train import Averaged, Training, TrainingPlan, main, record_of  # noqa: E402
from alcove.runtime import load  # noqa: E402
from alcove.runtime.certificate import check_certificate  # noqa: E402

CONFIG = replace(
    CONFIGS[DEFAULT_VERSION],
    size=32,
    widths=(8, 8, 16, 16),
    depths=(1, 1, 1),
    strides=(2, 2, 1),
    expansions=(2, 2, 2),
    head=32,
    plain=(8, 8, 16, 16),
)
PLAN = TrainingPlan(
    steps=8, shares=(("tiny", 6), ("scenes", 3), ("cifar", 3)), small_size=16, size=32, warmup_steps=2, average_over=2
)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "tagging"


def pack_set(path: Path, rows: Sequence[dict[str, Any]], size: int, *, compressed: bool = False) -> None:
    """Write a set in the data folder's form: pictures of one colour, which its row names."""
    data = b""
    for row in rows:
        png = png_of(np.full((size, size, 3), row["colour"], np.uint8))
        row |= {"offset": len(data), "size": len(png)}
        data += png
    if compressed:
        path.with_suffix(".jpegs.xz").write_bytes(lzma.compress(data))
    else:
        path.with_suffix(".jpegs").write_bytes(data)
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Seven pictures of each of ten classes, two of them for dev; classes 5 and 15 are left out."""
    pytest.importorskip("PIL", reason="decoding needs Pillow")
    folder = tmp_path_factory.mktemp("tagging")
    tiny = [
        {"label": label, "split": "dev" if n >= 7 else "train", "tags": ("animal dog", "food", "")[label % 3]}
        | {"colour": 10 * n + label}
        for label in (0, 1, 2, 3, 4, 5, 6, 7, 8, 15)
        for n in range(9)
    ]
    scenes = [
        {"label": n % 6, "split": "dev" if n < 12 else "train", "tags": "landscape", "colour": n} for n in range(150)
    ]
    cifar = [{"label": n % 10, "colour": 200 + n % 10} for n in range(30)]
    pack_set(folder / "tiny_imagenet_train", tiny, 64)
    pack_set(folder / "intel_scenes_train", scenes, 150)
    pack_set(folder / "cifar10_train", cifar, 32, compressed=True)
    return read(folder, folder / "cache")


def train_some(corpus: Corpus, folder: Path, *, until: int | None = None, kind: str = "scene_tags") -> Training:
    """Return a small training, run to a step."""
    training = Training(CONFIG, PLAN, corpus.train, folder, kind)
    training.run(until=until)
    return training


def test_sets_are_split_as_they_say(corpus: Corpus) -> None:
    """Left-out classes nowhere but there; the parts share no picture; CIFAR-10's classes have their tags."""
    assert summary(corpus) == {
        "train": {"tiny": 8 * 2, "scenes": 138 - 6, "cifar": 30},
        "calibration": {"tiny": 8 * CALIBRATION_EACH, "scenes": 6},
        "dev": {"tiny": 8 * 2, "scenes": 12},
        "left_out": 18,
    }
    for part in (corpus.train, corpus.calibration, corpus.dev):
        assert not np.isin(part["tiny"].classes, LEFT_OUT).any()
    assert np.isin(corpus.left_out.classes, LEFT_OUT).all()
    colours = [{int(each[0, 0, 0]) for each in part["scenes"].pixels} for part in (corpus.train, corpus.dev)]
    assert not colours[0] & colours[1]
    cats = corpus.train["cifar"].tags[corpus.train["cifar"].classes == 206 + 3]
    assert {TAGS[at] for at in np.flatnonzero(cats[0])} == {"animal", "mammal", "cat"}
    assert corpus.dev["tiny"].tags[:, TAGS.index("dog")].sum() == 2 * 3


def test_pictures_and_labels_stay_together(corpus: Corpus) -> None:
    """Each picture's colour says what its class must be."""
    tiny = corpus.train["tiny"]
    assert ((tiny.pixels[:, 0, 0, 0].astype(int) - tiny.classes) % 10 == 0).all()


def test_batch_depends_on_seed_and_step_alone(corpus: Corpus) -> None:
    """A new sampler gives the same; another step or seed gives another; targets are probabilities."""
    shares = dict(PLAN.shares)
    first = Sampler(corpus.train, shares, seed=1).batch(5, 16)
    again = Sampler(corpus.train, shares, seed=1)
    again.batch(40, 16)
    same = again.batch(5, 16)
    assert torch.equal(first.pictures, same.pictures)
    assert torch.equal(first.tags, same.tags)
    for other in (again.batch(6, 16), Sampler(corpus.train, shares, seed=2).batch(5, 16)):
        assert not torch.equal(first.pictures, other.pictures)
    assert first.pictures.shape == (12, 3, 16, 16)
    assert torch.allclose(first.classes.sum(dim=1), torch.ones(12))
    assert 0 <= float(first.tags.min()) <= float(first.tags.max()) <= 1


def test_all_pictures_of_a_set_come_before_any_comes_twice(corpus: Corpus) -> None:
    """One shuffle after the other."""
    sampler = Sampler(corpus.train, {"cifar": 10}, seed=1)
    turns = [
        [int(row) for step in range(3) for row in sampler._rows("cifar", (3 * turn + step) * 10, 10)] for turn in (0, 1)
    ]
    assert sorted(turns[0]) == sorted(turns[1]) == list(range(30))
    assert turns[0] != turns[1]


def test_pieces_show_parts_of_their_picture_some_mirrored() -> None:
    """A ramp from left to right stays a ramp, with less of its range; about half run backwards."""
    ramp = torch.arange(64.0).expand(200, 3, 64, 64)
    out = pieces(ramp, 32, np.random.default_rng(0))
    slopes = out[:, 0, 16, -1] - out[:, 0, 16, 0]
    assert 60 < int((slopes < 0).sum()) < 140
    assert float(slopes.abs().min()) > 25
    assert float(slopes.abs().max()) <= 64
    assert float(out.min()) >= 0
    assert float(out.max()) <= 63


def test_colours_change_within_a_third_and_mixing_keeps_targets_true() -> None:
    """A picture mixed with another has so much of its tags as of its pixels."""
    grey = jitter_color(torch.full((50, 3, 4, 4), 100.0), np.random.default_rng(0))
    assert float(grey.min()) >= 66
    assert float(grey.max()) <= 134
    kinds = set()
    for seed in range(30):
        x = torch.zeros(2, 3, 16, 16)
        x[1] = 1.0
        tags, classes = torch.tensor([[0.0], [1.0]]), torch.eye(2)
        out = mix_batch(x, tags, classes, np.random.default_rng(seed))
        share = out.pictures.mean(dim=(1, 2, 3))
        assert torch.allclose(share, out.tags[:, 0], atol=1e-6)
        assert torch.allclose(share, out.classes[:, 1], atol=1e-6)
        is_mixed = bool(((share > 0.01) & (share < 0.99)).any())
        kinds.add("mixed" if is_mixed else "plain")
    assert kinds == {"mixed", "plain"}


def test_training_that_was_cut_off_continues_to_the_same_weights(corpus: Corpus, tmp_path: Path) -> None:
    """Stopped after five steps of eight; weights, average and loss of the rest are the same bits."""
    whole = train_some(corpus, tmp_path / "whole")
    train_some(corpus, tmp_path / "cut", until=5)
    rest = train_some(corpus, tmp_path / "cut")
    assert rest.step == whole.step == 8
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, rest.model.state_dict()[name]), name
    lines = [json.loads(line) for line in (tmp_path / "cut" / "progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 8]


def test_average_follows_the_network_and_not_at_once() -> None:
    """It lies between what it was and what the network became; counters of batches are left alone."""
    torch.manual_seed(1)
    model = Averaged(CONFIG, "scene_tags")
    before = model.average.tags.weight.clone()
    with torch.no_grad():
        model.network.tags.weight.add_(1.0)
    model.update(1000, over=10)
    assert torch.allclose(model.average.tags.weight - before, torch.full_like(before, 0.1), atol=1e-6)


@pytest.mark.parametrize("kind", ["scene_tags", "plain"])
def test_either_network_learns_what_sets_its_pictures_apart(kind: str, corpus: Corpus, tmp_path: Path) -> None:
    """The loss falls; the record tells data, plan and cost."""
    plan = replace(PLAN, steps=30, learning_rate=5e-3)
    training = Training(CONFIG, plan, corpus.train, tmp_path, kind)
    losses: list[float] = []
    loss = training.run(show=lambda _, value: losses.append(value))
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    record = record_of(training, loss, corpus)
    assert record["kind"] == kind
    assert record["plan"]["steps"] == 30
    assert record["pictures"] == summary(corpus)
    assert record["multiply_adds"] == multiply_adds(training.model.average, CONFIG.size) > 0


def test_plain_network_of_a_version_costs_the_same_within_five_percent() -> None:
    """Counted by hand for one layer: 24 filters of 3x3x3 at 32 x 32 places."""
    for config in CONFIGS.values():
        ours, plain = (multiply_adds(SceneNetwork(config, kind), config.size) for kind in ("scene_tags", "plain"))
        assert abs(plain / ours - 1) <= 0.05
        only = torch.nn.Module.__new__(SceneNetwork)
        torch.nn.Module.__init__(only)
        only.features = SceneNetwork(config).features[:1]
        only.tags, only.embedding = torch.nn.Linear(config.widths[0], 2), torch.nn.Linear(config.widths[0], 3)
        places = (config.size // 2) ** 2
        assert multiply_adds(only, config.size) == 27 * config.widths[0] * places + 5 * config.widths[0]


def test_fitted_scores_are_as_sure_as_they_may_be() -> None:
    """Logits that are half as large as they should be, and one tag off by two: slope and shifts undo both."""
    rng = np.random.default_rng(0)
    true = rng.normal(0, 2, (4000, 3)).astype(np.float32)
    tags = (rng.random((4000, 3)) < 1 / (1 + np.exp(-true))).astype(np.float32)
    slope, shift = fit_scores((true / 2 - np.array([0, 1, 0])).astype(np.float32), tags)
    assert slope == pytest.approx(2, rel=0.1)
    assert shift == pytest.approx([0, 2, 0], abs=0.2)


def test_programs_answer_as_the_module_they_are_made_of(corpus: Corpus, tmp_path: Path) -> None:
    """f32 within 1e-4 on pictures that are not in the certificate; int8 near."""
    train_some(corpus, tmp_path)
    module = module_of_run(tmp_path, CONFIG, "scene_tags", corpus)
    ranges = ranges_of(corpus, CONFIG.size)[::16]
    programs = {variant: compile_module(module, CONFIG.size, variant, ranges) for variant in ("f32", "int8")}
    assert len(bytes(programs["int8"])) < len(bytes(programs["f32"]))
    pixels = np.ascontiguousarray(drawings()["lemon"][:32, :32])
    expected = [each.detach().numpy() for each in module(torch.from_numpy(pixels))]
    for variant, within in (("f32", 1e-4), ("int8", 0.2)):
        model = load(bytes(programs[variant]))
        found = model.session()(pixels)
        assert [each.shape for each in found] == [(1, len(TAGS)), (1, EMBEDDING), (1, 4, 4), (1, 1)]
        for ours, theirs in zip(found, expected, strict=True):
            assert np.abs(ours - theirs).max() <= within
        assert check_certificate(model).samples == len(samples(CONFIG.size))


def test_data_folder_holds_the_tags_of_the_configuration() -> None:
    """Every tag of the sources is an output, and no other."""
    if not (DATA / "tiny_imagenet_train.csv").is_file():
        pytest.skip(f"{DATA} is not there")
    seen: set[str] = set()
    for name in ("tiny_imagenet_classes", "intel_scenes_train"):
        with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            seen |= {tag for row in csv.DictReader(file) for tag in row["tags"].split()}
    assert tuple(sorted(seen)) == TAGS


def test_command_refuses_a_folder_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of the file that it misses."""
    monkeypatch.setattr(
        sys, "argv", ["train", "--data", str(tmp_path), "--version", DEFAULT_VERSION, "--run", str(tmp_path)]
    )
    with pytest.raises(FileNotFoundError, match="tiny_imagenet_train"):
        main()
