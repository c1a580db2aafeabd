"""`alcove model import`: a team brings its own architecture and trained weights, in one command."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.runtime import load
from alcove.runtime.certificate import check_certificate
from PIL import Image, ImageDraw

from tests.platform.cli.terminal import alcove

torch = pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")
transformers = pytest.importorskip("transformers", reason="a config of transformers needs transformers")

SIZE = 32
CLASSES = ("disc", "stripes", "frame")
BACKBONE = """
from torch import nn

class Backbone(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))
"""


def draw(kind: int, rng: np.random.Generator, side: int = SIZE) -> Image.Image:
    """Return a picture of one of the classes, in colours and places of chance."""
    back, front = (tuple(int(c) for c in rng.integers(low, low + 110, 3)) for low in (0, 140))
    picture = Image.new("RGB", (side, side), back)
    draw = ImageDraw.Draw(picture)
    x, y = (int(v) for v in rng.integers(side // 4, side // 2, 2))
    if kind == 0:
        draw.ellipse((x, y, x + side // 3, y + side // 3), fill=front)
    elif kind == 1:
        for at in range(int(rng.integers(0, 4)), side, 6):
            draw.line((at, 0, at, side), fill=front, width=2)
    else:
        draw.rectangle((3, 3, side - 4, side - 4), outline=front, width=3)
    return picture


def pixels_of(count: int, seed: int) -> tuple[Any, Any]:
    """Return pictures uint8 [count, SIZE, SIZE, 3] and their classes."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(count) % len(CLASSES)
    return np.stack([np.asarray(draw(int(kind), rng)) for kind in kinds]), kinds


def train(module: Any, logits: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the state dict of a module that has learned the classes from pictures as the program normalizes them."""
    torch.manual_seed(0)
    pixels, kinds = pixels_of(384, 1)
    x = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
    y = torch.from_numpy(kinds)
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-3)
    module.train()
    for step in range(60):
        rows = torch.arange(step * 64, step * 64 + 64) % len(x)
        loss = torch.nn.functional.cross_entropy(logits(x[rows]), y[rows])
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    state: dict[str, Any] = module.eval().state_dict()
    return state


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures, one folder a class, JPEG and PNG, larger than the model's input."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(5)
    for kind, name in enumerate(CLASSES):
        (folder / name).mkdir()
        for i in range(12):
            draw(kind, rng, 40).resize((80, 64)).save(folder / name / f"{i}.{'jpg' if i % 2 else 'PNG'}")
    return folder


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A team's folder: `backbone.py`, `weights.pt`, and `resnet/` with a transformers config and its weights."""
    folder = tmp_path_factory.mktemp("team")
    (folder / "backbone.py").write_text(BACKBONE)
    names: dict[str, Any] = {}
    exec(compile(BACKBONE, "backbone.py", "exec"), names)
    backbone = names["Backbone"](len(CLASSES))
    torch.save({"epoch": 3, "state_dict": train(backbone, backbone)}, folder / "weights.pt")
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=len(CLASSES)
    )
    config.architectures = ["ResNetForImageClassification"]
    config.save_pretrained(folder / "resnet")
    resnet = transformers.ResNetForImageClassification(config)
    state = train(resnet, lambda x: resnet(x).logits)
    from safetensors.torch import save_file

    save_file(state, folder / "resnet" / "model.safetensors")
    return folder


def import_model(
    team: Path, pictures: Path, out: Path, architecture: str, weights: str, *more: object
) -> dict[str, Any]:
    """Run the command and return what it says as JSON."""
    said = alcove(
        *("model", "import", "--architecture", team / architecture, "--weights", team / weights),
        *("--pictures", pictures, "--size", SIZE, "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25"),
        *("--out", out, "--json", *more),
    )
    assert said.code == 0, said.err
    facts: dict[str, Any] = said.json
    return facts


WAYS = [
    ("backbone.py:Backbone", "weights.pt", ("--option", "classes=3")),
    ("resnet", "resnet/model.safetensors", ()),
]


@pytest.mark.parametrize("way", WAYS, ids=["torch class", "transformers config"])
@pytest.mark.parametrize("is_float", [False, True], ids=["int8", "float32"])
def test_trained_backbone_becomes_a_certified_program_that_knows_its_classes(
    way: tuple[str, str, tuple[str, ...]], is_float: bool, team: Path, pictures: Path, tmp_path: Path
) -> None:
    """A torch class with its state dict, a transformers config with its safetensors; int8 and float32."""
    architecture, weights, options = way
    out = tmp_path / "own.alc"
    facts = import_model(team, pictures, out, architecture, weights, *options, *(["--float32"] if is_float else []))
    assert facts["calibrated_on"] == (0 if is_float else 36)
    assert facts["size_bytes"] == out.stat().st_size
    assert facts["same_best"] >= (1.0 if is_float else 0.9)
    model = load(out)
    assert check_certificate(model).samples == 2
    assert [(port.name, port.shape) for port in model.inputs] == [("pixels", (SIZE, SIZE, 3))]
    pixels, kinds = pixels_of(60, 2)
    session = model.session()
    found = [int(np.argmax(session(one)[0])) for one in pixels]
    assert np.mean(np.array(found) == kinds) >= 0.9


def test_int8_is_calibrated_on_the_first_half_and_compared_on_the_other(
    team: Path, pictures: Path, tmp_path: Path
) -> None:
    """With more pictures than are asked for, those of the comparison are others."""
    own = ("backbone.py:Backbone", "weights.pt", "--option", "classes=3")
    facts = import_model(team, pictures, tmp_path / "own.alc", *own, "--samples", "10")
    assert (facts["calibrated_on"], facts["compared_on"]) == (10, 10)


@pytest.mark.thorough
def test_the_answers_are_compared_with_torch_and_with_the_folders_names(
    team: Path, pictures: Path, tmp_path: Path
) -> None:
    """Three folders for three outputs are classes, in order of name; a file names them where they are others."""
    own = ("backbone.py:Backbone", "weights.pt", "--option", "classes=3")
    facts = import_model(team, pictures, tmp_path / "own.alc", *own)
    assert facts["mean_error"] <= facts["worst_error"] <= 0.25
    assert facts["weights"] == ["taken from 'state_dict' of the checkpoint"]
    names = tmp_path / "names.txt"
    names.write_text("\n".join(CLASSES) + "\n")
    named = import_model(team, pictures, tmp_path / "named.alc", *own, "--classes", names)
    # Sorted names are disc, frame, stripes; the module's outputs are disc, stripes, frame.
    assert named["accuracy"]["torch"] > facts["accuracy"]["torch"] + 0.2
    assert abs(named["accuracy"]["program"] - named["accuracy"]["torch"]) <= 0.1
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in pictures.rglob("*.jpg"):
        (flat / f"{path.parent.name}{path.name}").write_bytes(path.read_bytes())
    assert import_model(team, flat, tmp_path / "flat.alc", *own)["accuracy"] is None


def test_names_that_do_not_fit_the_outputs_or_the_folders_are_refused(
    team: Path, pictures: Path, tmp_path: Path
) -> None:
    """Too few, and a folder that is none of them."""
    names = tmp_path / "names.txt"
    for text, message in (("disc\nframe\n", "2 names, but the model has 3"), ("disc\nframe\nline\n", "'stripes'")):
        names.write_text(text)
        said = alcove(
            *("model", "import", "--architecture", f"{team}/backbone.py:Backbone", "--option", "classes=3"),
            *("--weights", team / "weights.pt", "--pictures", pictures, "--size", SIZE, "--classes", names),
            *("--out", tmp_path / "x.alc"),
        )
        assert said.code == 2
        assert message in " ".join(said.err.replace("│", " ").split())
        assert not (tmp_path / "x.alc").exists()


def test_layers_stay_float32_until_no_more_answers_change_than_are_allowed(
    team: Path, pictures: Path, tmp_path: Path
) -> None:
    """A last layer whose weights differ a thousandfold, which int8 rounds away; what was done is said."""
    state = torch.load(team / "weights.pt", weights_only=True)["state_dict"]
    narrow = dict(state)
    narrow["stem.0.weight"] = state["stem.0.weight"] * torch.tensor([1e-3, *[1.0] * 7]).reshape(8, 1, 1, 1)
    narrow["stem.1.running_var"] = state["stem.1.running_var"] * torch.tensor([1e-6, *[1.0] * 7])
    torch.save(narrow, tmp_path / "narrow.pt")
    own = ("backbone.py:Backbone", str(tmp_path / "narrow.pt"), "--option", "classes=3")
    facts = import_model(team, pictures, tmp_path / "own.alc", *own, "--max-drop", "0")
    assert facts["same_best"] >= 0.9
    exact = import_model(team, pictures, tmp_path / "float.alc", *own, "--float32")
    assert exact["kept_float"] == []
    assert exact["worst_error"] < 1e-4


def test_pictures_of_little_contrast_are_certified_on_such(team: Path, tmp_path: Path) -> None:
    """Ranges of int8 are those of the pictures: the certificate's own are as dark and as even as they are."""
    dull = tmp_path / "dull"
    dull.mkdir()
    rng = np.random.default_rng(9)
    for i in range(12):
        pixels = np.asarray(draw(i % 3, rng, 40)).astype(float)
        Image.fromarray((100 + pixels / 16).astype(np.uint8)).save(dull / f"{i}.png")
    own = ("backbone.py:Backbone", "weights.pt", "--option", "classes=3")
    facts = import_model(team, dull, tmp_path / "own.alc", *own)
    assert facts["calibrated_on"] == 12
    assert check_certificate(load(tmp_path / "own.alc")).samples == 2


def test_same_weights_and_pictures_give_the_same_bytes(team: Path, pictures: Path, tmp_path: Path) -> None:
    """A program can be made again by anyone who doubts it."""
    for name in ("one.alc", "two.alc"):
        import_model(team, pictures, tmp_path / name, "backbone.py:Backbone", "weights.pt", "--option", "classes=3")
    assert (tmp_path / "one.alc").read_bytes() == (tmp_path / "two.alc").read_bytes()


def wrong_weights(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Return a file with the trained state dict after a change."""
    state = torch.load(folder / "weights.pt", weights_only=True)["state_dict"]
    path = folder / "wrong.pt"
    torch.save(change(dict(state)), path)
    return path


class Runs:
    """What would run code if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (sys.exit, (3,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {k: v for k, v in state.items() if k != "head.bias"}, "1 missing: head.bias"),
        (lambda state: state | {"extra": torch.ones(1)}, "1 unexpected: extra"),
        (lambda state: state | {"head.bias": torch.ones(4)}, r"head.bias \[4\] instead of \[3\]"),
        (lambda state: state | {"head.bias": torch.full((3,), float("nan"))}, "1 not finite: head.bias"),
        (lambda state: {"state_dict": {"head.bias": 3}}, "a state dict holds tensors by name"),
        (lambda state: [1, 2], "a state dict holds tensors by name"),
        (lambda state: Runs(), "no state dict can be read"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_their_names(
    change: Callable[[dict[str, Any]], Any], message: str, team: Path, pictures: Path, tmp_path: Path
) -> None:
    """Missing, unexpected, of another shape, NaN, no tensors, code: one sentence, and no file."""
    said = alcove(
        *("model", "import", "--architecture", f"{team}/backbone.py:Backbone", "--option", "classes=3"),
        *("--weights", wrong_weights(team, change), "--pictures", pictures, "--out", tmp_path / "x.alc"),
    )
    assert said.code == 2
    assert re.search(message, " ".join(said.err.replace("│", " ").split()))
    assert not (tmp_path / "x.alc").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--option", "classes"], "NAME=VALUE"),
        (["--option", "classes=3", "--option", "classes=4"], "each name once"),
        (["--option", "colour=3"], "unexpected keyword argument 'colour'"),
        (["--option", "classes=3", "--mean", "0.5,0.5"], "--mean is one number or three"),
        (["--option", "classes=3", "--std", "0,1,1"], "--std is one number or three"),
        (["--option", "classes=3", "--channels", "rgba"], "--channels is rgb, bgr, gray"),
        (["--option", "classes=3", "--fit", "fill"], "--fit is crop, center, stretch, letterbox"),
        (["--option", "classes=3", "--white", "2"], "--white is 1 or 255"),
        (["--option", "classes=3", "--size", "32x"], "--size is pixels, as 224"),
        (["--architecture", "backbone.py"], "--architecture is FILE.py:CLASS"),
        (["--architecture", "."], "no transformers config"),
    ],
)
def test_wrong_argument_is_reported(
    options: list[str], message: str, team: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with what it takes."""
    monkeypatch.chdir(team)
    said = alcove(
        *("model", "import", "--architecture", "backbone.py:Backbone", "--weights", "weights.pt"),
        *("--pictures", pictures, "--out", "x.alc", *options),
    )
    assert said.code == 2
    assert message in " ".join(said.err.replace("│", " ").split())


def test_pictures_that_cannot_be_read_are_left_out_and_named(team: Path, pictures: Path, tmp_path: Path) -> None:
    """One broken file among many does not stop an import."""
    folder = tmp_path / "pictures"
    shutil.copytree(pictures, folder)
    (folder / CLASSES[0] / "a.jpg").write_text("no picture")
    own = ("backbone.py:Backbone", "weights.pt", "--option", "classes=3")
    facts = import_model(team, folder, tmp_path / "own.alc", *own)
    assert "left out: " in facts["weights"][-1]
    assert f"{CLASSES[0]}/a.jpg: not a picture that can be read" in facts["weights"][-1]
    assert sum(each["pictures"] for each in facts["accuracy"]["classes"]) == facts["compared_on"]


def test_file_that_is_no_picture_is_named(team: Path, tmp_path: Path) -> None:
    """A folder without pictures, and a text called .jpg."""
    command = ("model", "import", "--architecture", f"{team}/backbone.py:Backbone", "--option", "classes=3")
    empty, broken = tmp_path / "empty", tmp_path / "broken"
    empty.mkdir()
    broken.mkdir()
    (broken / "a.jpg").write_text(json.dumps("no picture"))
    for folder, message in ((empty, "no picture there"), (broken, "a.jpg: not a picture")):
        said = alcove(*command, "--weights", team / "weights.pt", "--pictures", folder, "--out", tmp_path / "x.alc")
        assert said.code == 2
        assert message in " ".join(said.err.replace("│", " ").split())
