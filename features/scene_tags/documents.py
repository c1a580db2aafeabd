"""Draws pictures of documents by rules, to learn what one looks like: pages, receipts, screens, photographed or not.

Needs Pillow (the `dev` extra).  None of the words mean anything.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SIDE: Final = 320
LETTERS: Final = np.array(list("etaoinshrdlcumwfgypbvk"))


def documents(count: int, seed: int) -> list[NDArray[np.uint8]]:
    """Return drawn documents, uint8 [320, 320, 3]; the same ones each time for a seed."""
    rng = np.random.default_rng(seed)
    return [_document(rng) for _ in range(count)]


def _document(rng: np.random.Generator) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw, ImageFilter, ImageFont  # noqa: PLC0415 - not a dependency of the feature

    is_dark = rng.random() < 0.15
    paper = tuple(
        int(each) for each in (rng.integers(15, 50) if is_dark else rng.integers(205, 256)) + rng.integers(-8, 1, 3)
    )
    ink = tuple(int(each) for each in (rng.integers(180, 256, 3) if is_dark else rng.integers(0, 90, 3)))
    scale = int(rng.integers(2, 4))
    width, height = (int(SIDE * scale * each) for each in rng.uniform(0.7, 1.0, 2))
    page = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(page)
    size = int(rng.uniform(0.018, 0.06) * height)
    font, large = ImageFont.load_default(size), ImageFont.load_default(int(size * rng.uniform(1.4, 2.6)))
    margin = int(rng.uniform(0.03, 0.12) * width)
    columns = int(rng.choice([1, 1, 1, 2, 3]))
    y = margin
    if rng.random() < 0.6:
        draw.text((margin, y), _words(rng, 3), ink, large)
        y += int(size * 3.5)
    is_table = rng.random() < 0.25
    while y < height - margin:
        for column in range(columns):
            left = margin + column * (width - margin) // columns
            if is_table:
                draw.text((left, y), _words(rng, 1), ink, font)
                draw.text((left + (width - margin) // columns // 2, y), f"{rng.uniform(0, 999):.2f}", ink, font)
            elif rng.random() < 0.92:
                line = _words(rng, 40)
                draw.text((left, y), line[: max(4, int((width - 2 * margin) / columns / (size * 0.5)))], ink, font)
        y += int(size * rng.uniform(1.2, 1.5)) if rng.random() < 0.9 else int(size * 2.4)
        if rng.random() < 0.03:
            draw.line((margin, y, width - margin, y), ink, max(1, size // 10))
    for _ in range(int(rng.random() < 0.3)):
        box = sorted(rng.integers(0, width, 2)), sorted(rng.integers(0, height // 3, 2))
        color = tuple(int(each) for each in rng.integers(0, 256, 3))
        draw.rectangle((int(box[0][0]), int(box[1][0]), int(box[0][1]), int(box[1][1])), color)
    if rng.random() < 0.6:
        page = _lay_on_table(page, rng, Image)
    result = page.resize((SIDE, SIDE), Image.Resampling.BOX).filter(
        ImageFilter.GaussianBlur(float(rng.uniform(0, 1.2)))
    )
    shade = np.linspace(1, rng.uniform(0.6, 1.0), SIDE)
    shade = shade[:, None] if rng.random() < 0.5 else shade[None, :]
    noisy = np.asarray(result, np.float32) * shade[..., None] + rng.normal(0, rng.uniform(0, 6), (SIDE, SIDE, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def _lay_on_table(page: Any, rng: np.random.Generator, image: Any) -> Any:
    """Return the page as it lies on a table, a little turned."""
    width, height = page.size
    around = tuple(int(each) for each in rng.integers(20, 200, 3))
    table = image.new("RGB", (int(width * 1.3), int(height * 1.3)), around)
    table.paste(page, (int(width * rng.uniform(0, 0.3)), int(height * rng.uniform(0, 0.3))))
    return table.rotate(float(rng.uniform(-20, 20)), image.Resampling.BILINEAR, fillcolor=around).crop(
        (int(width * 0.1), int(height * 0.1), int(width * 1.2), int(height * 1.2))
    )


def _words(rng: np.random.Generator, count: int) -> str:
    lengths = rng.integers(1, 9, count)
    return " ".join("".join(rng.choice(LETTERS, length)) for length in lengths)
