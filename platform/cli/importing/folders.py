"""Finds out what a folder of transformers holds, by its files alone: nothing large is loaded."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

PREFIX: Final = "transformers:"
SOUND: Final = frozenset(
    {
        "audio-spectrogram-transformer",
        "data2vec-audio",
        "hubert",
        "sew",
        "sew-d",
        "unispeech",
        "unispeech-sat",
        "wav2vec2",
        "wav2vec2-conformer",
        "wavlm",
        "whisper",
    }
)
"""Kinds of models that take sound."""
WEIGHTS: Final = (
    "model.safetensors",
    "pytorch_model.bin",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
)


@dataclass(frozen=True)
class Folder:
    """A folder of transformers.

    Attributes:
        path: of the folder.
        config: what is in `config.json`.
        preprocessor: what is in `preprocessor_config.json`; empty if there is none.
    """

    path: Path
    config: dict[str, Any]
    preprocessor: dict[str, Any]

    @property
    def architectures(self) -> list[str]:
        """Names of the classes whose weights it has."""
        found = self.config.get("architectures")
        return [str(each) for each in found] if isinstance(found, list) else []

    @property
    def kind(self) -> str:
        """What the model takes: `--pictures`, `--sounds` or `--texts`."""
        if self.config.get("model_type") in SOUND:
            return "--sounds"
        names = " ".join(self.architectures)
        is_picture = "ForImageClassification" in names or "image_mean" in self.preprocessor
        return "--pictures" if is_picture or "image_size" in self.config else "--texts"

    @property
    def task(self) -> str:
        """What its weights were trained for."""
        names = " ".join(self.architectures)
        if any(each in names for each in ("ForSequenceClassification", "ForAudioClassification")):
            return "classification"
        return "tokens" if any(each in names for each in ("ForTokenClassification", "ForCTC")) else "embedding"

    @property
    def picture_settings(self) -> dict[str, Any]:
        """What the preprocessor does to pictures: `mean`, `std`, `channels` and `size`, of those that it names."""
        found, given = dict[str, Any](), self.preprocessor
        if not given:
            return found
        if given.get("do_normalize", True) and "image_mean" in given:
            found["mean"], found["std"] = (",".join(map(str, given[f"image_{each}"])) for each in ("mean", "std"))
        elif given.get("do_rescale", True):
            found["mean"], found["std"] = "0", "1"
        found["channels"] = "bgr" if given.get("do_flip_channel_order") else "rgb"
        size = given.get("crop_size") if given.get("do_center_crop") else given.get("size")
        if isinstance(size, int):
            found["size"] = (size, size)
        elif isinstance(size, dict):
            sides = size.get("height", size.get("shortest_edge")), size.get("width", size.get("shortest_edge"))
            if all(isinstance(side, int) for side in sides):
                found["size"] = sides
        return found

    @property
    def weights(self) -> Path | None:
        """The file of its weights, or None."""
        return next((self.path / name for name in WEIGHTS if (self.path / name).is_file()), None)


def is_folder(name: str) -> bool:
    """Return whether an architecture is a folder of transformers or its config."""
    path = Path(name.removeprefix(PREFIX))
    return name.startswith(PREFIX) or path.suffix == ".json" or path.is_dir()


def read_folder(name: str) -> Folder:
    """Return what a folder of transformers holds.

    Args:
        name: of the folder or of its `config.json`; `transformers:` may stand before it.

    Raises:
        typer.BadParameter: there is no config, or it is damaged.
    """
    given = Path(name.removeprefix(PREFIX))
    path = given if given.is_dir() else given.parent
    file = given / "config.json" if given.is_dir() else given
    if not file.is_file():
        raise typer.BadParameter(
            f"--architecture {name}: no transformers config there (config.json); models are read from folders of "
            "yours, none is downloaded"
        )
    config, preprocessor = _read(file, name), {}
    if "model_type" not in config:
        raise typer.BadParameter(f"--architecture {name}: no transformers config: {file.name} has no model_type")
    if path.joinpath("preprocessor_config.json").is_file():
        preprocessor = _read(path / "preprocessor_config.json", name)
    return Folder(path, config, preprocessor)


def _read(path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"--architecture {name}: no transformers config ({path.name}: {error})") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"--architecture {name}: no transformers config: {path.name} is no JSON object")
    return found
