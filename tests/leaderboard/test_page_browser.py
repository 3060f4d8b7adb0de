"""The page in a browser: opened from its folder, used by mouse, keyboard and on a phone."""

import csv
import json
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
NO_CHARTS = "window.Plotly = { react() {}, purge() {} };"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    board = build_board(*read_runs([toypage.write_runs(folder / "runs")]))
    return write_page(board, folder / "board")


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

    def show(state: str = f"#table={RAINY}", charts: bool = False, **options) -> "sync_api.Page":
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        context.set_default_timeout(TIMEOUT)
        if not charts:
            context.route("**/plotly.min.js", lambda route: route.fulfill(body=NO_CHARTS))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{index.as_uri()}{state}")
        return page

    yield show
    for context in contexts:
        context.close()
    assert not complaints
    assert requests
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]


def column(page, number: int, table: str = RAINY) -> list[str]:
    """The values of a column as they are shown, without what is missing."""
    cells = page.locator(f"#board-{table} tbody tr:visible > :nth-child({number})")
    found = [cell.strip() for cell in cells.all_text_contents()]
    return [re.split(r"[ ?]", cell)[0] for cell in found if re.match(r"\d", cell)]


def open_own(page, title: str) -> str:
    """Open the table of all runs of a data set; returns its id."""
    page.get_by_role("tab").first.click()
    page.locator(".choose-table:visible").select_option(label=title)
    return page.locator(".board:visible").get_attribute("data-table")


def test_a_table_is_sorted_by_mouse_and_keyboard(show):
    page = show()
    board = page.locator(f"#board-{RAINY}")
    head = board.locator("thead th", has_text="unseen")
    ranked = [float(value) for value in column(page, UNSEEN)]
    assert len(ranked) > 10 and ranked == sorted(ranked, reverse=True)
    assert board.locator("thead th").first.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"  # of a metric, the best comes first
    assert [float(value) for value in column(page, UNSEEN)] == ranked
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in column(page, UNSEEN)] == ranked[::-1]
    assert board.locator("thead th[aria-sort]").count() == 1
    board.locator("thead th", has_text="seen by_domain").locator("button").click()
    last = board.locator(f"tbody tr:last-child td:nth-child({UNSEEN + 2})").text_content()
    assert last.strip() == "-"  # what is missing stays last
    board.locator("thead th.method button").click()
    names = board.locator("tbody .name").all_text_contents()
    assert names[0].split()[0] <= names[-1].split()[0]


def test_rows_are_filtered(show):
    page = show()
    board = page.locator(f"#board-{RAINY}")
    rows, status = board.locator("tbody tr:visible"), board.locator("[role=status]")
    total = rows.count()
    assert status.text_content() == f"{total} of {total} rows"
    board.locator("input[type=search]").fill("silobn FedDrive")
    assert 0 < rows.count() < total
    assert all("SiloBN" in text for text in rows.all_text_contents())
    assert status.text_content() == f"{rows.count()} of {total} rows"
    board.locator("input[type=search]").fill("nothing of this name")
    assert rows.count() == 0 and board.locator(".none").is_visible()
    board.locator("input[type=search]").fill("")
    board.locator("select[name=kind]").select_option("run")
    assert rows.count() == 2 and board.locator("tbody .badge:visible").count() == 0
    board.locator("select[name=algorithm]").select_option("FedProx")
    assert rows.count() == 1 and "prox" in rows.first.text_content()


def test_what_is_not_ranked_is_shown_on_demand(show):
    page = show(f"#table={CIFAR}")
    board = page.locator(f"#board-{CIFAR}")
    rows, status = board.locator("tbody tr:visible"), board.locator("[role=status]")
    heads = board.locator("thead th:visible")
    before, columns = rows.count(), heads.count()
    board.locator("input[name=further]").check()
    assert rows.count() > before and heads.count() > columns
    assert status.text_content() == f"{rows.count()} of {rows.count()} rows"
    board.locator("input[type=search]").fill("SWA from round")
    assert rows.count() > 0
    board.locator("input[type=search]").fill("")
    board.locator("input[name=further]").uncheck()
    assert (rows.count(), heads.count()) == (before, columns)
    assert status.text_content() == f"{before} of {before} rows"


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
    assert f"table={TARGET}" in page.url
    for key, place in (("End", last), ("ArrowRight", 0), ("ArrowLeft", last), ("Home", 0)):
        page.keyboard.press(key)
        assert tabs.nth(place).get_attribute("aria-selected") == "true"
    tabs.nth(1).click()
    page.locator(f"#board-{RAINY} input[name=row]").first.uncheck()
    kept = page.locator(f"#board-{RAINY} input[name=row]:checked").get_attribute("value")
    other = show("#" + page.url.partition("#")[2])
    checked = other.locator(f"#board-{RAINY} input[name=row]:checked")
    assert checked.count() == 1 and checked.get_attribute("value") == kept
    other.goto(other.url.partition("#")[0] + "#table=nonsense&rows=x&metric=y&run=z")
    assert other.locator(".board:visible").get_attribute("data-table").startswith("own-")


def test_your_runs_come_first_with_ranks_and_reasons(show):
    page = show("")
    boards = page.locator(".board")
    assert boards.first.is_visible() and "CIFAR-10" in boards.first.text_content()
    open_own(page, "IDDA")
    row = page.locator(".board:visible tbody tr", has_text=f"{RAINY}_fedavg")
    link = row.get_by_role("link", name="rank 3 in IDDA rainy")
    open_own(page, "IDDA, rendered images")
    reasons = page.locator(".board:visible .why").first
    assert not reasons.locator("li").first.is_visible()
    reasons.locator("summary").click()
    assert "synthetic data" in reasons.locator("li:visible").text_content()
    open_own(page, "IDDA")
    link.click()
    assert page.locator(f"#board-{RAINY}").is_visible()


def test_curves_and_scatters_are_drawn(show):
    page = show(charts=True)
    curves = page.locator("#curves .plot")
    assert curves.locator(".scatterlayer .trace").count() == 3  # two lines, a shade of two seeds
    assert "FedAvg ends at 50.50; FedProx ends at 48.00" in curves.get_attribute("aria-label")
    page.locator("#curves summary").click()
    cells = page.locator("#curves details tbody tr").first.locator("th, td").all_text_contents()
    assert cells == ["800", "25.25", "24.00"]
    page.locator("#curves-metric").select_option("training loss")
    assert "training loss over rounds" in curves.get_attribute("aria-label")
    page.locator("#curves-x").select_option("bytes")
    assert "traffic (MiB)" in curves.text_content() and "against=bytes" in page.url
    page.locator(f"#board-{RAINY} input[name=row]").nth(1).uncheck()
    assert curves.locator(".scatterlayer .trace").count() == 2
    page.locator(f"#board-{RAINY} input[name=row]").first.uncheck()
    assert page.locator("#no-selection").is_visible() and not curves.is_visible()

    scatter = page.locator("#scatter .plot")
    label = scatter.get_attribute("aria-label")
    assert label.startswith("unseen against seen standard:") and "FedAvg at 59.50, 50.50" in label
    assert "published rows and 2 runs" in label
    assert scatter.locator(".scatterlayer .trace").count() == 3  # published, and each of ours
    page.locator("#scatter-y").select_option("seen")
    assert scatter.get_attribute("aria-label").startswith("seen standard against seen standard")
    assert "unseen against traffic" in page.locator("#traffic .plot").get_attribute("aria-label")


PLACES = """() => [...document.querySelectorAll('.plot')].filter((one) => one.offsetParent)
.map((one) => {
    const b = (place) => place.getBoundingClientRect();
    const box = (place) => [b(place).left, b(place).top, b(place).right, b(place).bottom];
    const labels = (axis) => one.querySelectorAll(`.${axis}tick text`).length;
    return [box(one), box(one.querySelector('.main-svg')), labels('x'), labels('y')];
})"""


def test_charts_stay_in_their_places_after_switching_tabs(browser, tmp_path):
    board = build_board(*read_runs([toypage.write_runs(tmp_path / "runs")]))
    index = write_page(board, tmp_path / "board")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(TIMEOUT)
    page.goto(index.as_uri())
    seen = 0
    for name in ("IDDA", "CIFAR-10", "Communication", "Your runs", "CIFAR-10", "IDDA"):
        page.get_by_role("tab", name=re.compile(f"^{name} ")).click()
        if name == "Your runs":
            open_own(page, "IDDA, rendered images")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
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
    page.close()
    assert seen >= 15


def test_the_best_over_the_years(show):
    page = show(f"#table={CIFAR}", charts=True)
    years = page.locator("#years .plot")
    assert years.get_attribute("aria-label").startswith("accuracy over the years: ")
    assert {"2022", "2023", "2024", "2025"} <= set(years.locator(".xtick").all_text_contents())
    line = years.locator(".scatterlayer .trace").first.locator("path.js-line")
    assert line.count() == 1  # of the best published values
    assert "best published" in years.text_content()


def test_the_address_has_filters_order_and_axes(show):
    page = show()
    board = page.locator(f"#board-{RAINY}")
    board.locator("input[type=search]").fill("silobn")
    board.locator("select[name=algorithm]").select_option("FedAvg")
    board.locator("thead th", has_text="seen standard").locator("button").click()
    page.locator("#scatter-y").select_option("seen")
    rows = board.locator("tbody tr:visible .name").all_text_contents()
    other = show("#" + page.url.partition("#")[2])
    board = other.locator(f"#board-{RAINY}")
    assert board.locator("input[type=search]").input_value() == "silobn"
    assert board.locator("select[name=algorithm]").input_value() == "FedAvg"
    assert board.locator("tbody tr:visible .name").all_text_contents() == rows != []
    assert other.locator("#scatter-y").input_value() == "seen"
    other.goto(
        f"{other.url.partition('#')[0]}#table={RAINY}&algorithm=nonsense&sort=x.y&scatter-x=z"
    )
    assert board.locator("select[name=algorithm]").input_value() == ""
    assert other.locator("#scatter-x").input_value() == "seen"


def test_the_shown_rows_as_csv(show):
    page = show()
    board = page.locator(f"#board-{RAINY}")
    board.locator("input[type=search]").fill("prox")
    with page.expect_download() as download:
        board.get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == f"{RAINY}.csv"
    head, line = csv.reader(download.value.path().read_text().splitlines())
    found = dict(zip(head, line, strict=True))
    assert found["Method"] == "FedProx" and found["Source"] == "prox"
    values = {name: value for name, value in found.items() if name.startswith("unseen")}
    assert list(values.values()) == ["48.0", ""]


def test_papers_and_configs_are_linked(show):
    page = show()
    links = page.locator(f"#board-{RAINY} tbody tr.published .source a")
    assert links.first.get_attribute("href") == "https://arxiv.org/abs/2202.13670"
    years = page.locator(f"#board-{RAINY} tbody tr.published").first.locator("td")
    assert "2022" in years.all_text_contents()
    row = page.locator(f"#board-{RAINY} tbody tr", has_text="prox")
    row.locator("summary").click()
    assert not row.get_by_label("folder of FedProx, seed 0").count()  # it is not below the page's
    row.get_by_label("config of FedProx, seed 0").click()
    assert page.url.startswith("file:") and "page/configs/" in page.url
    assert json.loads(page.locator("body").inner_text())["note"] == HOSTILE


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
    page = show(charts=True, color_scheme=scheme)
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


def test_a_target_is_a_line(show):
    page = show(f"#table={TARGET}", charts=True)
    assert "target 59.9 %" in page.locator("#curves .plot").text_content()
    assert page.locator("#scatter").is_hidden() and page.locator("#traffic").is_hidden()


def test_maps_and_pictures_of_a_run(show):
    page = show()
    table = open_own(page, "IDDA, rendered images")
    assert page.locator(f"#board-{table}").is_visible()
    assert page.locator(f"#board-{table} .badge").count() == 0
    page.locator("#one-run").select_option(label="FedAvg, seed 0")
    rows = page.locator("#classes tbody tr")
    assert rows.count() == 5  # four classes and their mean
    road = rows.first.locator("th, td")
    assert road.all_text_contents() == ["road", "91.3", "91.3"]
    assert "rgb(" in road.nth(1).get_attribute("style")
    assert rows.nth(2).locator("td").all_text_contents() == ["-", "-"]
    assert rows.nth(3).locator("th").text_content() == HOSTILE
    assert rows.last.locator("th, td").all_text_contents() == ["mIoU", "20.0", "29.0"]
    pictures = page.locator("#pictures img")
    assert pictures.count() == 2
    pictures.first.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('#pictures img').naturalWidth === 40")
    assert "Image 00001_image of seen" in pictures.first.get_attribute("alt")


def test_corruptions_and_clients_of_a_run(show, index):
    page = show(charts=True)
    table = open_own(page, "CIFAR-10")
    for box in page.locator(f"#board-{table} input[name=row]").all():
        box.set_checked(box.locator("xpath=ancestor::tr", has_text="corrupted").count() > 0)
    assert page.locator("#corruptions tbody th, #corruptions tbody td").all_text_contents() == [
        *("frost", "30.0", "-", "9.5")
    ]
    clients = page.locator("#clients .plot")
    assert clients.locator(".heatmaplayer image").count() == 1
    assert HOSTILE in clients.text_content()
    page.locator("#clients summary").click()
    lines = page.locator("#clients details tbody tr").all_text_contents()
    assert lines == ["510.015.020.0", "1030.040.050.0"]


def test_untrusted_text_stays_text(show):
    page = show(charts=True)
    table = open_own(page, "IDDA, rendered images")
    for box in page.locator(f"#board-{table} input[name=row]").all():
        box.check()
    page.locator("#one-run").select_option(label=f"{HOSTILE}, seed 0")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main b, main script").count() == 0


def test_dark_mode(show):
    page = show(charts=True, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    button = page.locator("#theme")
    light = page.evaluate(ground)
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert button.get_attribute("aria-pressed") == "true" and page.evaluate(ground) != light
    ink = page.locator("#curves .xtitle").evaluate("one => getComputedStyle(one).fill")
    assert ink == page.evaluate("getComputedStyle(document.body).color")
    page.reload()
    assert page.evaluate(ground) != light  # it is remembered
    assert show(color_scheme="dark").evaluate(ground) == page.evaluate(ground)


def test_a_phone_scrolls_tables_and_not_the_page(show):
    page = show(viewport={"width": 360, "height": 740})
    tabs = page.get_by_role("tab")
    for number in range(tabs.count()):
        tabs.nth(number).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    tabs.nth(1).click()
    region = page.locator(f"#board-{RAINY} .scroll")
    assert region.evaluate("one => one.scrollWidth > one.clientWidth")
    region.evaluate("one => { one.scrollLeft = 1000; }")
    assert page.locator(f"#board-{RAINY} tbody th").first.bounding_box()["x"] >= 0


def test_the_keyboard_reaches_the_tables_first(show):
    page = show(f"#table={CIFAR}")
    page.keyboard.press("Tab")
    link = page.locator(".skip")
    assert link.evaluate("one => one === document.activeElement")
    assert link.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "tables"
    assert f"table={CIFAR}" in page.url
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "tab"


def test_tables_are_read_without_scripts(show):
    page = show(java_script_enabled=False)
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
