"""The page in a browser: opened from its folder, used by mouse, keyboard and on a phone."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import toypage
from page_screenshots import ARGUMENTS, TIMEOUT, VIEWS, find_browser
from toypage import CIFAR, HOSTILE, RAINY, TARGET

from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.page import write_page
from fedseg.runs.run_files import read_runs

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
TOOL = Path(__file__).parents[2] / "docs" / "site" / "page_screenshots.py"
BROWSER = find_browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to open pages with")
UNSEEN = 3  # the column of the first metric, from 1
NO_CHARTS = "window.Plotly = { newPlot() {} };"
AT_RAINY = f"#board-{RAINY}"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    runs = toypage.write_runs(folder / "runs")
    (runs / "synthetic_0" / "pictures" / "seen" / "00002_image.png").unlink()  # it is no picture
    return write_page(build_board(*read_runs([runs])), folder / "board")


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=list(ARGUMENTS), timeout=TIMEOUT
        )
        yield browser
        browser.close()


@pytest.fixture
def show(browser, index) -> Iterator:
    """Opens the page; afterwards there must be no errors in the console and no network requests.

    Plotly takes two seconds to be read: it is there where a test looks at ``charts``.
    """
    contexts, complaints, requests = [], [], []

    def show(place: str = AT_RAINY, charts: bool = False, **options) -> "sync_api.Page":
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        context.set_default_timeout(TIMEOUT)
        if not charts:
            context.route("**/plotly.min.js", lambda route: route.fulfill(body=NO_CHARTS))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{index.as_uri()}{place}")
        return page

    yield show
    for context in contexts:
        context.close()
    assert not complaints
    assert requests
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]


def ranked_part(page, table: str = RAINY) -> "sync_api.Locator":
    return page.locator(f"#board-{table} .part")


def column(page, number: int) -> list[str]:
    """The values of a column as they are shown, without what is missing."""
    cells = ranked_part(page).locator(f"tbody tr:visible > :nth-child({number})")
    found = [cell.strip() for cell in cells.all_text_contents()]
    return [re.split(r"[ ?]", cell)[0] for cell in found if re.match(r"\d", cell)]


def test_a_table_is_sorted_by_mouse_and_keyboard(show):
    page = show()
    part = ranked_part(page)
    head = part.locator("thead th", has_text="unseen")
    ranked = [float(value) for value in column(page, UNSEEN)]
    assert len(ranked) > 10 and ranked == sorted(ranked, reverse=True)
    assert part.locator("thead th").first.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"  # of a metric, the best comes first
    assert [float(value) for value in column(page, UNSEEN)] == ranked
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in column(page, UNSEEN)] == ranked[::-1]
    assert part.locator("thead th[aria-sort]").count() == 1
    part.locator("thead th", has_text="seen by_domain").locator("button").click()
    last = part.locator(f"tbody tr:last-child td:nth-child({UNSEEN + 2})").text_content()
    assert last.strip() == "-"  # what is missing stays last
    part.locator("thead th.method button").click()
    names = part.locator("tbody .name").all_text_contents()
    assert names[0].split()[0] <= names[-1].split()[0]


def test_rows_are_filtered(show):
    page = show()
    part = ranked_part(page)
    rows, status = part.locator("tbody tr:visible"), part.locator("[role=status]")
    total = rows.count()
    assert status.text_content() == f"{total} of {total} rows"
    part.locator("input[type=search]").fill("silobn FedDrive")
    assert 0 < rows.count() < total
    assert all("SiloBN" in text for text in rows.all_text_contents())
    assert status.text_content() == f"{rows.count()} of {total} rows"
    part.locator("input[type=search]").fill("nothing of this name")
    assert rows.count() == 0 and status.text_content() == f"0 of {total} rows"
    part.locator("input[type=search]").fill("")
    part.locator("select[name=kind]").select_option("run")
    assert rows.count() == 2 and part.locator("tbody .badge:visible").count() == 0


def test_what_is_not_ranked_is_shown_on_demand(show):
    page = show(f"#board-{CIFAR}")
    also = page.locator(f"#board-{CIFAR} .also")
    assert not also.locator("table").is_visible()
    also.locator("summary").first.click()
    assert also.locator("tbody tr:visible").count() > 3
    assert also.locator("thead th", has_text="λ max").count() >= 1
    assert "SWA from round" in also.text_content()


def test_tabs_by_mouse_keyboard_and_link(show):
    page = show()
    tabs = page.get_by_role("tab")
    names = [tab.text_content().rpartition(" ")[0] for tab in tabs.all()]
    assert names[:4] == ["Your runs", "IDDA", "CIFAR-10", "Communication"]  # those with a run
    last = len(names) - 1
    assert last > 4
    assert page.get_by_role("tabpanel").count() == 1
    tabs.nth(2).click()
    assert page.locator(f"#board-{CIFAR}").is_visible()
    assert not page.locator(f"#board-{RAINY}").is_visible()
    tabs.nth(2).press("ArrowRight")
    assert page.locator(f"#board-{TARGET}").is_visible()
    assert tabs.nth(3).evaluate("tab => tab === document.activeElement")
    selected = [tab.get_attribute("aria-selected") for tab in tabs.all()]
    assert [place for place, value in enumerate(selected) if value == "true"] == [3]
    indices = [tab.get_attribute("tabindex") for tab in tabs.all()]
    assert indices == ["0" if place == 3 else "-1" for place in range(len(names))]
    for key, place in (("End", last), ("ArrowRight", 0), ("ArrowLeft", last), ("Home", 0)):
        page.keyboard.press(key)
        assert tabs.nth(place).get_attribute("aria-selected") == "true"
    other = show("#board-nonsense")
    assert other.get_by_role("tab").first.get_attribute("aria-selected") == "true"


def test_another_table_is_chosen(show):
    page = show()
    choice = page.locator(".choose-table:visible")
    assert choice.input_value() == f"board-{RAINY}"
    choice.select_option(f"board-{RAINY}_paper")
    assert page.locator(f"#board-{RAINY}_paper").is_visible()
    assert not page.locator(f"#board-{RAINY}").is_visible()


def test_your_runs_come_first_with_ranks_and_reasons(show):
    page = show("")
    titles = page.locator(".board:visible h2").all_text_contents()
    assert titles == ["cifar10_a0", "idda_rainy", "idda_rainy, rendered images"]
    row = page.locator(".board:visible tbody tr:visible", has_text=f"{RAINY}_fedavg").first
    link = row.get_by_role("link", name="rank 3 in IDDA rainy")
    reasons = page.locator(".board:visible .why").last
    assert not reasons.locator("li").first.is_visible()
    reasons.locator("summary").click()
    assert "synthetic data" in reasons.locator("li:visible").text_content()
    link.click()
    assert page.locator(f"#board-{RAINY}").is_visible()


def test_charts_are_drawn_when_they_are_seen(show):
    page = show(charts=True)
    plots = page.locator(f"#board-{RAINY} .plot")
    plots.first.locator(".main-svg").first.wait_for()
    curves, _, scatter = plots.all()
    assert curves.locator(".scatterlayer .trace").count() == 4  # two lines, a band of two seeds
    assert "FedAvg ends at 50.50; FedProx ends at 48.00" in curves.get_attribute("aria-label")
    label = scatter.get_attribute("aria-label")
    assert label.startswith("unseen against seen standard: ") and "FedAvg at 59.50, 50.50" in label
    assert scatter.locator(".scatterlayer .trace").count() == 3  # published, and each of ours
    assert page.locator(f"#board-{CIFAR} .plot > *").count() == 0
    page.get_by_role("tab", name=re.compile("^CIFAR-10 ")).click()
    assert page.locator(f"#board-{CIFAR} .plot .main-svg").count() > 0


PLACES = """() => [...document.querySelectorAll('.plot')].filter((one) => one.offsetParent)
.map((one) => {
    const b = (place) => place.getBoundingClientRect();
    const box = (place) => [b(place).left, b(place).top, b(place).right, b(place).bottom];
    const labels = (axis) => one.querySelectorAll(`.${axis}tick text`).length;
    return [box(one), box(one.querySelector('.main-svg')), labels('x'), labels('y')];
})"""


@pytest.mark.parametrize("width", [1400, 1200, 390])
def test_charts_stay_in_their_places(show, width):
    page = show("", charts=True, viewport={"width": width, "height": 900})
    seen = 0
    for name in ("IDDA", "CIFAR-10", "Communication", "Your runs", "IDDA"):
        page.get_by_role("tab", name=re.compile(f"^{name} ")).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = page.evaluate(PLACES)
        for (left, top, right, _), drawn, x_labels, y_labels in charts:
            assert drawn[:3] == pytest.approx([left, top, right], abs=1), name
            assert x_labels >= 2 and y_labels >= 2, name
        boxes = [drawn for _, drawn, *_ in charts]
        for number, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[number + 1 :]:
                apart = right <= other[0] + 1 or other[2] <= left + 1
                assert apart or bottom <= other[1] + 1 or other[3] <= top + 1, name
        seen += len(charts)
    assert seen >= 10


def test_papers_and_runs_are_linked(show):
    page = show()
    links = page.locator(f"#board-{RAINY} tbody tr.published .source a")
    assert links.first.get_attribute("href") == "https://arxiv.org/abs/2202.13670"
    years = page.locator(f"#board-{RAINY} tbody tr.published").first.locator("td")
    assert "2022" in years.all_text_contents()
    row = ranked_part(page).locator("tbody tr", has_text="prox")
    row.locator("summary").click()
    assert "fedseg train idda_rainy --seed 0" in row.text_content()
    row.get_by_label("results of FedProx, seed 0").click()
    assert page.url.startswith("file:") and page.url.endswith("/runs/fedprox/results.json")


def test_pictures_of_a_run(show):
    page = show("")
    board = page.locator(".board:visible", has_text="rendered images").last
    row = board.locator(".part tbody tr", has_text="rendered")
    row.locator("summary").first.click()
    pictures = row.locator("img")
    assert pictures.count() == 2
    pictures.first.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('details[open] img').naturalWidth === 40")
    assert pictures.first.get_attribute("alt") == "prediction: 00001_image of seen"


# of what is visible: with every hidden table, which stand in the page as well, it takes minutes
FINDINGS = """async () => {
    const all = [...document.querySelectorAll('.board')];
    const hidden = all.filter((one) => one.offsetParent === null);
    const marks = hidden.map(() => document.createComment(''));
    hidden.forEach((one, place) => one.replaceWith(marks[place]));
    const found = await axe.run({ preload: false });
    marks.forEach((mark, place) => mark.replaceWith(hidden[place]));
    return found.violations;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(show, scheme):
    """No serious finding of axe-core on the tabs with runs, nor on one without."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    page = show("", charts=True, color_scheme=scheme)
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    for tab in page.get_by_role("tab").all()[:5]:
        tab.click()
        found = page.evaluate(FINDINGS)
        serious = {
            (one["id"], node["html"][:200])
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        }
        assert not serious, tab.text_content()


def test_untrusted_text_stays_text(show):
    page = show("", charts=True)
    assert HOSTILE in page.locator(".board:visible tbody").all_text_contents()[-1]
    page.locator(".board:visible .plot .main-svg").first.wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img[src=x], main b, main script:not([type])").count() == 0


def test_dark_mode(show):
    """It follows the system's, charts included."""
    grounds = {}
    for scheme in ("light", "dark"):
        page = show(charts=True, color_scheme=scheme)
        grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        title = page.locator(f"#board-{RAINY} .xtitle").first
        ink = title.evaluate("one => getComputedStyle(one).fill")
        assert ink == page.evaluate("getComputedStyle(document.body).color")
    assert grounds["light"] != grounds["dark"]


def test_a_phone_scrolls_tables_and_not_the_page(show):
    page = show(viewport={"width": 360, "height": 740})
    tabs = page.get_by_role("tab")
    for number in range(tabs.count()):
        tabs.nth(number).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    tabs.nth(1).click()
    region = ranked_part(page).locator(".scroll")
    assert region.evaluate("one => one.scrollWidth > one.clientWidth")
    region.evaluate("one => { one.scrollLeft = 1000; }")
    assert ranked_part(page).locator("tbody th").first.bounding_box()["x"] >= 0


def test_the_keyboard_reaches_the_tables_first(show):
    page = show("")
    page.keyboard.press("Tab")
    link = page.locator(".skip")
    assert link.evaluate("one => one === document.activeElement")
    assert link.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "tables"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") in ("tab", None)


def test_tables_are_read_without_scripts(show):
    page = show("", java_script_enabled=False)
    assert page.locator(".board:visible").count() == page.locator(".board").count() > 3
    assert page.locator("[role=tab]:visible").count() == 0
    assert page.locator("noscript").is_visible()


def test_screenshots(index, tmp_path):
    from PIL import Image

    out = tmp_path / "pictures"
    views = [view for view in VIEWS if view.name in ("leaderboard_dark", "leaderboard_phone")]
    command = [sys.executable, str(TOOL), str(index.parent), "--out", str(out)]
    command += ["--only", *(view.name for view in views)]
    done = subprocess.run(command, capture_output=True, text=True)  # with a loop of its own
    assert done.returncode == 0, done.stderr
    found = [Path(line) for line in done.stdout.splitlines()]
    assert found == [out / f"{view.name}.png" for view in views]
    grounds = {}
    for path, view in zip(found, views, strict=True):
        with Image.open(path) as picture:
            assert picture.size == (view.width, view.height)
            grounds[view.name] = sum(picture.convert("RGB").getpixel((2, 2)))
    assert grounds["leaderboard_dark"] < 150 < 600 < grounds["leaderboard_phone"]
