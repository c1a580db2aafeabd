"""Takes pictures of the console's pages, light and dark: `python -m tools.console_screenshots [--only NAME] [FOLDER]`.

A server with made-up data is started; its pages are those of `benchmarks/console/pages.py`.  The pictures are WebP, and
`README.md` beside them shows them all; together they take at most `MOST_BYTES`, which a test adds up.
"""

import argparse
import asyncio
import base64
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from alcove.platform.testing import Served
from playwright.async_api import BrowserContext

from benchmarks.console.browsing import PATIENCE_MS, browser, sign_in
from benchmarks.console.pages import PAGES, ShownPage
from benchmarks.console.publishing import publish_policy
from benchmarks.console.seeding import Seeded, Sizes, seed

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "console"
MOST_BYTES: Final = 1_500_000
SIZES: Final = Sizes(features=12, versions=24, rollouts=100, experiments=100)
WIDTH, HEIGHT, TALLEST = 1200, 750, 1000
QUALITY: Final = 26  # of WebP, of 100: text stays sharp
SCHEMES: Final = ("light", "dark")


async def take(seeded: Seeded, served: Served, folder: Path, pages: Sequence[ShownPage]) -> list[ShownPage]:
    """Write the pictures; return the pages that are there."""
    url, shown = served.console_url or "", []
    async with browser() as chromium:
        for scheme in SCHEMES:
            context = await chromium.new_context(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if scheme == "dark" else "light",
                timezone_id="Europe/Zurich",
                locale="en-GB",
                reduced_motion="reduce",
            )
            await sign_in(context, url, seeded.world.token("operator"))
            for page in pages:
                data = await _picture(context, url + page.at(seeded.things))
                if data is None:
                    continue
                (folder / f"{page.name}-{scheme}.webp").write_bytes(data)
                if scheme == SCHEMES[0]:
                    shown.append(page)
            await context.close()
    return shown


async def _picture(context: BrowserContext, address: str) -> bytes | None:
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    answer = await page.goto(address, wait_until="load")
    if answer is None or answer.status >= 400:
        await page.close()
        return None
    await page.wait_for_timeout(600)  # charts draw themselves
    height = int(await page.evaluate("document.documentElement.scrollHeight"))
    session = await context.new_cdp_session(page)
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": max(HEIGHT, min(TALLEST, height)), "scale": 1}
    options = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    captured = await session.send("Page.captureScreenshot", options)
    await page.close()
    return base64.b64decode(captured["data"])


def index_of(pages: Sequence[ShownPage]) -> str:
    """Return the page that shows all pictures."""
    how = "on made-up data. `make screenshots` takes them again and writes this page."
    lines = ["# Pictures of the console", "", f"Each page of [the console](../console.md) in light and dark, {how}", ""]
    for page in pages:
        lines += [f"## {page.title}", ""]
        lines += [f"![{page.title}, {scheme}]({page.name}-{scheme}.webp)" for scheme in SCHEMES]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Seed, serve, take the pictures, write the index; return the exit code: 1 where they are too large together."""
    parser = argparse.ArgumentParser(prog="python -m tools.console_screenshots", description=__doc__)
    names = [page.name for page in PAGES if page.title]
    parser.add_argument("--only", action="append", choices=names, help="take this page alone, and write no index")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where they go (docs/console)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = [page for page in PAGES if page.title and (not options.only or page.name in options.only)]
    with tempfile.TemporaryDirectory() as folder:
        seeded = seed(Path(folder) / "world", SIZES, now_s=int(time.time()))
        served = seeded.world.start("--console", "true", "--console-port", "0")
        try:
            publish_policy(seeded, served)
            shown = asyncio.run(take(seeded, served, options.folder, wanted))
        finally:
            served.stop()
    if not options.only:
        (options.folder / "README.md").write_text(index_of(shown), encoding="utf-8")
        kept = {f"{page.name}-{scheme}.webp" for page in shown for scheme in SCHEMES}
        for path in options.folder.glob("*.webp"):
            if path.name not in kept:
                path.unlink()
    size_bytes = sum(path.stat().st_size for path in options.folder.glob("*.webp"))
    absent = [page.name for page in wanted if page not in shown]
    sys.stdout.write(f"{len(shown)} pages, {size_bytes:,} bytes of {MOST_BYTES:,}; not there: {absent or 'none'}\n")
    return int(size_bytes > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
