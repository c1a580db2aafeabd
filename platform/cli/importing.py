"""`alcove model import`: makes a certified program of a team's own architecture and weights."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import typer
from alcove.platform.cli.exporting import call_function, take_rounded_weights
from alcove.runtime import load
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.ops import ImageToTensor
from alcove.runtime.program import Program
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Imported", "Pictures", "import_backbone", "options_of", "three_numbers"]

ENDINGS: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
WRAPPED_IN: Final = ("state_dict", "model_state_dict", "model")
"""What training scripts keep a state dict under, in a checkpoint."""
CROP: Final = 224 / 256
"""Of the shorter side, as image models are evaluated."""
MOST_PIXELS: Final = 64_000_000
CERTIFIED: Final = 2
SHOWN: Final = 5

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Pictures:
    """Size and normalization of a model's pictures.

    Attributes:
        size: side of the square that the program takes, in pixels.
        mean: of each channel, in [0, 1].
        std: of each channel.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        program: certified.
        calibrated_on: pictures from which int8 ranges were taken; 0 for float32.
        compared_on: further pictures whose answers were compared with the module's, or the same ones if there are few.
        same_best: share of these with the same greatest output.
    """

    program: Program
    calibrated_on: int
    compared_on: int
    same_best: float


class PictureModel(nn.Module):
    """A backbone behind the normalization of pictures, so that an app gives bytes."""

    def __init__(self, backbone: nn.Module, pictures: Pictures) -> None:
        super().__init__()
        self.to_tensor = ImageToTensor((pictures.size, pictures.size), mean=pictures.mean, std=pictures.std)
        self.backbone = backbone

    def forward(self, pixels: Tensor) -> Any:
        """Return the backbone's outputs for RGB pixels uint8 [size, size, 3]; of a transformers model its tensors."""
        found = self.backbone(self.to_tensor(pixels))
        return found.to_tuple() if hasattr(found, "to_tuple") else found


def import_backbone(
    architecture: str,
    options: Mapping[str, Any],
    weights: Path,
    folder: Path,
    pictures: Pictures,
    *,
    samples: int,
    is_quantized: bool,
) -> Imported:
    """Return the certified program of an architecture with a state dict, calibrated on pictures.

    Args:
        architecture: MODULE:CLASS of a torch module, or a transformers `config.json` or the folder that holds it.
        options: keyword arguments of the class.
        weights: state dict, `.safetensors` or what `torch.save` wrote; read without running code from it.
        folder: of pictures; those in its folders too, in order of name.
        pictures: how they become inputs.
        samples: at most this number for the calibration, and as many for the comparison.
        is_quantized: int8; else float32.

    Raises:
        typer.BadParameter: anything of these is not as above; names the file, the keys or the argument.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    found = picture_files(folder)
    backbone = _architecture(architecture, options)
    load_weights(backbone, read_weights(weights), weights)
    module = PictureModel(backbone.eval(), pictures).eval()
    chosen = [read_picture(path, pictures.size) for path in spread(found, 2 * samples)]
    calibration, compared = (chosen[::2], chosen[1::2]) if len(chosen) > samples else (chosen, chosen)
    example = (torch.from_numpy(chosen[0]),)
    program = export(
        module,
        example,
        quantize="int8" if is_quantized else None,
        calibration=[torch.from_numpy(pixels) for pixels in calibration] if is_quantized else None,
    )
    same = _same_best(program, module, compared)
    if is_quantized:
        take_rounded_weights(module, load_state(program.spec))
    given = [
        Sample(inputs=(Procedural("smooth", "u8", chosen[0].shape, seed, 0.0, 255.0),), source="made by a rule")
        for seed in range(CERTIFIED)
    ]
    certificate = certify(
        bytes(program), module, given, licence="procedural", tolerance="quantised" if is_quantized else "standard"
    )
    program = program.with_bytes(embed_certificate(bytes(program), certificate))
    return Imported(program, len(calibration) if is_quantized else 0, len(compared), same)


def options_of(given: Sequence[str]) -> dict[str, Any]:
    """Return the arguments in NAME=VALUE pairs; a value that is JSON is taken as that, any other as text.

    Raises:
        typer.BadParameter: one is no such pair, or a name is given twice.
    """
    options: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or name in options:
            raise typer.BadParameter(f"--option is NAME=VALUE, each name once; got {pair!r}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def three_numbers(option: str, text: str) -> tuple[float, ...]:
    """Return the numbers in "0.5,0.5,0.5".

    Raises:
        typer.BadParameter: these are not three numbers in [0, 1], or a deviation is 0.
    """
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    least = 1e-6 if option == "--std" else 0.0
    if len(numbers) != 3 or not all(least <= number <= 1 for number in numbers):
        raise typer.BadParameter(f"{option} is three numbers in [{least:g}, 1], such as 0.5,0.5,0.5; got {text!r}")
    return numbers


def picture_files(folder: Path) -> list[Path]:
    """Return the pictures in a folder and its folders, by name.

    Raises:
        typer.BadParameter: there are none.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not found:
        kinds = ", ".join(sorted(ENDINGS))
        raise typer.BadParameter(f"--pictures {folder}: no picture there (files ending in {kinds})")
    return found


def spread(paths: Sequence[Path], most: int) -> list[Path]:
    """Return at most `most` of the paths, evenly over all of them: folders are often classes."""
    count = min(most, len(paths))
    return [paths[i * len(paths) // count] for i in range(count)]


def read_picture(path: Path, size: int) -> Pixels:
    """Return a picture as RGB uint8 [size, size, 3]: its middle, as image models are evaluated.

    Raises:
        typer.BadParameter: the file is no picture, or too large; names it.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415 - only this verb reads pictures

    try:
        with Image.open(path) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise typer.BadParameter(
                    f"{path}: {opened.width}x{opened.height} pixels; at most {MOST_PIXELS:,} are read"
                )
            upright = ImageOps.exif_transpose(opened).convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: not a picture that can be read ({error})") from None
    side = round(size / CROP)
    fitted = ImageOps.fit(upright, (side, side), Image.Resampling.BILINEAR)
    border = (side - size) // 2
    return np.asarray(fitted.crop((border, border, border + size, border + size)), np.uint8).copy()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the state dict in a file; what is wrapped around it by training scripts is taken off.

    Raises:
        typer.BadParameter: the file holds no state dict, or code instead of tensors.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file  # noqa: PLC0415 - comes with transformers

            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError as error:
        raise typer.BadParameter(f"--weights {path}: pip install safetensors ({error})") from None
    except Exception as error:  # noqa: BLE001 - torch and safetensors raise what their parsers raise
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"--weights {path}: no state dict can be read ({words})") from None
    for key in WRAPPED_IN:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise typer.BadParameter(f"--weights {path}: a state dict holds tensors by name; this is something else")
    return {str(name).removeprefix("module."): value for name, value in state.items()}


def load_weights(module: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    """Put a state dict into a module.

    Raises:
        typer.BadParameter: names or shapes differ, or a value is not finite; all kinds at once, some names of each.
    """
    own = module.state_dict()
    problems = {
        "missing": [name for name in own if name not in state],
        "unexpected": [name for name in state if name not in own],
        "of another shape": [
            f"{name} {list(value.shape)} instead of {list(own[name].shape)}"
            for name, value in state.items()
            if name in own and value.shape != own[name].shape
        ],
        "not finite": [name for name, value in state.items() if not torch.isfinite(value).all()],
    }
    lines = [
        f"{len(names)} {kind}: {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for kind, names in problems.items()
        if names
    ]
    if lines:
        raise typer.BadParameter(f"--weights {path} do not fit the architecture; {'; '.join(lines)}")
    module.load_state_dict(dict(state))


def _architecture(name: str, options: Mapping[str, Any]) -> nn.Module:
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        if options:
            raise typer.BadParameter("--option goes with MODULE:CLASS; a transformers config holds its own")
        return _of_config(path)
    made = call_function(name, **options)
    if not isinstance(made, nn.Module):
        raise typer.BadParameter(f"{name} must make a torch module, not {type(made).__name__}")
    return made.float()


def _of_config(path: Path) -> nn.Module:
    try:
        import transformers  # noqa: PLC0415 - optional
    except ImportError as error:
        raise typer.BadParameter(f"--architecture {path}: pip install transformers ({error})") from None
    try:
        config = transformers.AutoConfig.from_pretrained(str(path), local_files_only=True)
        named = (getattr(transformers, name, None) for name in config.architectures or ())
        maker = next(filter(None, named), transformers.AutoModelForImageClassification.from_config)
        made = maker(config)
    except (OSError, ValueError, TypeError, KeyError) as error:
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"--architecture {path}: no transformers config ({words})") from None
    module: nn.Module = made.float()
    return module


def _same_best(program: Program, module: nn.Module, pictures: Sequence[Pixels]) -> float:
    session = load(bytes(program)).session()
    answers = zip(_native_best(session, pictures), _torch_best(module, pictures), strict=True)
    return float(np.mean([one == other for one, other in answers]))


def _native_best(session: Any, pictures: Sequence[Pixels]) -> Iterator[int]:
    for pixels in pictures:
        yield int(np.argmax(session(pixels)[0]))


def _torch_best(module: nn.Module, pictures: Sequence[Pixels]) -> Iterator[int]:
    with torch.no_grad():
        for pixels in pictures:
            first = module(torch.from_numpy(pixels))
            yield int((first if isinstance(first, Tensor) else first[0]).argmax())
