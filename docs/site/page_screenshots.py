"""Screenshots of the leaderboard's page for the documentation: light, dark, and on a phone.

    python docs/site/page_screenshots.py board --out docs/pictures

needs Playwright and an installed Chromium; the variable ``FEDSEG_BROWSER`` names another browser.
"""

import argparse
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIABLE = "FEDSEG_BROWSER"
TIMEOUT = 60_000  # milliseconds, enough for a busy machine
ARGUMENTS = ("--no-sandbox", "--disable-gpu")  # root in a container has no sandbox


@dataclass(frozen=True)
class View:
    """What a screenshot shows.

    Attributes:
        name: of the file.
        width, height: of the window in CSS pixels.
        dark: whether in dark mode.
        table: id of a benchmark; default: the first tab, of all runs.
    """

    name: str
    width: int
    height: int
    dark: bool = False
    table: str | None = None


VIEWS = (
    View("leaderboard_light", 1400, 1100),
    View("leaderboard_dark", 1400, 1100, table="idda_rainy_heterogeneous", dark=True),
    View("leaderboard_phone", 390, 844, table="idda_rainy_heterogeneous"),
)


def find_browser() -> str | None:
    """The path of a Chromium: what the variable ``FEDSEG_BROWSER`` names, or a usual one."""
    return next(filter(None, map(shutil.which, (os.environ.get(VARIABLE, ""), *BROWSERS))), None)


def take_screenshots(
    folder: str | Path, out: str | Path, views: Sequence[View] = VIEWS
) -> list[Path]:
    """Take screenshots of a page.

    Args:
        folder: holds ``index.html``.
        out: where the PNG files go; it is made.
        views: what they show.
    """
    from playwright.sync_api import sync_playwright

    index, out = Path(folder) / "index.html", Path(out)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=list(ARGUMENTS), timeout=TIMEOUT
        )
        for view in views:
            page = browser.new_page(
                viewport={"width": view.width, "height": view.height},
                color_scheme="dark" if view.dark else "light",
                reduced_motion="reduce",
            )
            page.set_default_timeout(TIMEOUT)
            page.goto(index.resolve().as_uri())
            _show(page, view)
            path = out / f"{view.name}.png"
            page.screenshot(path=path)
            page.close()
            _reduce_colors(path)
            paths.append(path)
        browser.close()
    return paths


def _show(page: "Page", view: View) -> None:
    """Bring a page into the state of a view."""
    if view.table is not None:
        page.goto(f"{page.url}#board-{view.table}")
        page.locator(f"#board-{view.table}").wait_for(state="visible")
        page.evaluate("scrollTo(0, 0)")
    page.evaluate("document.activeElement.blur()")
    page.evaluate(
        "Promise.all([...document.images].map(one => {"
        " one.loading = 'eager'; return one.decode().catch(() => undefined); }))"
    )


def _reduce_colors(path: Path) -> None:
    """Rewrite a PNG with a palette: a third of the size without a visible difference."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the page")
    parser.add_argument("--out", type=Path, required=True, help="folder of the screenshots")
    parser.add_argument("--only", choices=[v.name for v in VIEWS], nargs="+", help="some views")
    arguments = parser.parse_args()
    views = [view for view in VIEWS if not arguments.only or view.name in arguments.only]
    for path in take_screenshots(arguments.folder, arguments.out, views):
        print(path)


if __name__ == "__main__":
    main()
