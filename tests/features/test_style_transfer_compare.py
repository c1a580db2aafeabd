"""The contact sheet of style transfer: versions side by side, from programs and from runs."""

from pathlib import Path

import numpy as np
import pytest
import torch
from alcove.features.style_transfer.compare import (
    GAP,
    HEADING,
    Version,
    make_sheet,
    read_program,
    read_run,
    write_sheet,
)
from alcove.features.style_transfer.config import ModelConfig
from alcove.features.style_transfer.network import StyleModule, StyleNetwork
from alcove.features.style_transfer.speed import example, export_program

TINY = ModelConfig(width=8, blocks=1)


def save_run(folder: Path) -> StyleNetwork:
    """A run's checkpoint of a tiny network."""
    torch.manual_seed(0)
    network = StyleNetwork(TINY)
    folder.mkdir()
    torch.save({"network": network.state_dict()}, folder / "checkpoint.pt")
    return network


def test_every_photo_strength_version_and_style_has_its_place() -> None:
    """Rows are photos by strengths, columns the photo and versions by styles; sides are cut to multiples of 8."""

    def paint(frame: np.ndarray, style: int, strength: float) -> np.ndarray:
        return np.full_like(frame, 10 * style + round(100 * strength))

    photos = [np.full((19, 33, 3), 200, np.uint8), np.full((16, 32, 3), 220, np.uint8)]
    sheet = make_sheet([Version("a", paint), Version("b", paint, (8, 24))], photos, [1, 2], [0.0, 1.0])
    assert sheet.shape == (HEADING + 4 * (16 + GAP) - GAP, 5 * (32 + GAP) - GAP, 3)
    centers = sheet[HEADING + 8 :: 16 + GAP, 16 :: 32 + GAP, 0]
    assert centers.tolist() == [
        [200, 10, 20, 10, 20],
        [200, 110, 120, 110, 120],
        [220, 10, 20, 10, 20],
        [220, 110, 120, 110, 120],
    ]


def test_a_program_and_the_run_it_came_of_paint_alike(tmp_path: Path) -> None:
    """One version is read from a checkpoint and the other from a program, which takes one size alone."""
    network = save_run(tmp_path / "run")
    (tmp_path / "one.alc").write_bytes(export_program(StyleModule(network).eval(), "float32", 16, 24))
    program, run = read_program(tmp_path / "one.alc"), read_run(f"{tmp_path / 'run'}:width=8,blocks=1")
    frame = example(16, 24)[0].numpy()
    assert (program.name, program.shape, run.name, run.shape) == ("one", (16, 24), "run width=8,blocks=1", None)
    found = [version.paint(frame, 2, 0.7).astype(int) for version in (program, run)]
    assert np.abs(found[0] - found[1]).max() <= 1


@pytest.mark.parametrize("sizes", [":width=8", ":width=x,blocks=1", ":8,1", ":width=16,blocks=1", ""])
def test_a_run_of_another_size_or_spelling_is_refused(tmp_path: Path, sizes: str) -> None:
    """The message has the spelling, or the size that was asked for."""
    save_run(tmp_path / "run")
    with pytest.raises(ValueError, match=r"width=48,blocks=5|another size than"):
        read_run(f"{tmp_path / 'run'}{sizes}")


def test_a_sheet_is_written_as_its_name_says(tmp_path: Path) -> None:
    """A picture by its ending; an ending of none is refused."""
    sheet = np.zeros((8, 8, 3), np.uint8)
    write_sheet(sheet, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="extension"):
        write_sheet(sheet, tmp_path / "sheet.alc")
