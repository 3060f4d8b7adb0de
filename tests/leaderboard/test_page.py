"""The page without a browser: every row is there, untrusted text stays text, links stay inside."""

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import toypage
import toyresults
from toypage import BROKEN, CIFAR, RAINY, TARGET

from fedseg.leaderboard.benchmarks import count_published
from fedseg.leaderboard.board import Board, build_board
from fedseg.leaderboard.page import COPIED, train_command, write_page
from fedseg.leaderboard.reference import read_published
from fedseg.runs.run_files import read_runs

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "fedseg" / "leaderboard" / "page_assets"


class Page(HTMLParser):
    """What a browser would find: texts of rows by table, charts, elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[dict]] = {}
        self.charts: dict[str, list[dict]] = {}  # figures by table
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._is_figure = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self._is_figure = found.get("type") == "application/json"
        if "board" in (found.get("class") or "").split():
            table = found["id"].removeprefix("board-")
            self.tables[table], self.charts[table] = [], []
        if tag == "tr" and "data-kind" in found:
            list(self.tables.values())[-1].append({**found, "texts": []})

    def handle_endtag(self, tag):
        self._is_figure = False

    def handle_data(self, text):
        if self._is_figure:
            list(self.charts.values())[-1].append(json.loads(text))
        elif text.strip():
            self.texts.append(text.strip())
            rows = list(self.tables.values())[-1] if self.tables else []
            if rows:
                rows[-1]["texts"].append(text.strip())


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    return toypage.write_runs(tmp_path_factory.mktemp("page") / "runs")


@pytest.fixture(scope="module")
def board(runs) -> Board:
    return build_board(*read_runs([runs]))


@pytest.fixture(scope="module")
def index(board, runs) -> Path:
    return write_page(board, runs.parent / "board")


@pytest.fixture(scope="module")
def page(index) -> Page:
    return Page(index.read_text(encoding="utf-8"))


def rows_with(page: Page, table: str, text: str) -> list[dict]:
    return [row for row in page.tables[table] if text in row["texts"]]


def test_every_row_is_there(board, page):
    """Also published numbers without a run."""
    own = [table.id for table in board.own]
    ids = [*page.tables]
    assert ids[: len(own)] == own
    assert len(ids) > len(own) + len(board.shown())
    for benchmark in board.benchmarks:
        lines = board.lines(benchmark)
        assert (benchmark.id in ids) == bool(lines["is_ranked"].any())
        if benchmark.id in ids:
            rows = {row for line in lines.itertuples() for row in [line.row]}
            ranked = [row for row in page.tables[benchmark.id]]
            assert len(ranked) >= len(rows)
    groups: dict[str, list[bool]] = {}
    by_id = {benchmark.id: benchmark for benchmark in board.benchmarks}
    for id_ in ids[len(own) :]:
        groups.setdefault(by_id[id_].group, []).append(board.has_runs(by_id[id_]))
    assert list(groups)[:3] == ["IDDA", "CIFAR-10", "Communication"]  # those with a run come first
    assert all(has_run == sorted(has_run, reverse=True) for has_run in groups.values())


def test_own_data_are_among_your_runs_under_the_name_of_their_config(tmp_path):
    content = toyresults.cifar(70.0, data__train__dataset="ListedDataset", name="orchards_fedasam")
    content["config"] |= {"methods": ["fedasam"], "setting": None}
    toyresults.write(tmp_path / "first", content)
    page = Page(write_page(build_board(*read_runs([tmp_path])), tmp_path / "board").read_text())
    tabs = [a for tag, a in page.tags if tag == "button" and a.get("role") == "tab"]
    assert len(tabs) > 5 and "Your runs" in page.texts
    first, *others = page.tables.values()
    assert {row["data-kind"] for row in first} == {"run"}
    assert not any(row["data-kind"] == "run" for rows in others for row in rows)
    assert "orchards" in page.texts
    assert not any(text.startswith("ListedDataset") for text in page.texts)


def test_one_number_of_published_results_and_what_it_counts(page):
    """On the page, in README and in docs; where it is explained, its parts."""
    with_value = [record for record in read_published() if record.value is not None]
    count = count_published()
    assert count.total == len(with_value) == count.in_tables + count.others
    total = f"{count.total:,}"
    assert any(f"{total} published results." in text for text in page.texts)
    explained = [text for text in page.texts if text.startswith(f"{total} cells of papers' tables")]
    assert len(explained) == 1 and f" {count.in_tables:,} of them " in explained[0]
    assert f"[{total} published results]" in (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("leaderboard.md", "comparison.md"):
        assert total in (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert f"{count.in_tables:,}" in (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")


def test_a_row_has_rank_value_seeds_rounds_and_traffic(page):
    (own,) = [row for row in rows_with(page, RAINY, f"{RAINY}_fedavg") if "50.50" in row["texts"]]
    assert own["data-kind"] == "run" and own["texts"][0] == "3"  # the second has 50.54
    at = own["texts"].index("50.50")
    assert own["texts"][at + 1] == "± 0.71"
    assert own["texts"][-3:] == ["2", "2024", "61.0 MiB"]  # seeds, year, traffic
    (first,) = rows_with(page, RAINY, "53.99")
    assert "published" in first["texts"] and "FedDrive published mIoU" in first["texts"]
    (doubtful,) = rows_with(page, CIFAR, "72.42")
    assert "?" in doubtful["texts"] and any("in doubt:" in text for text in doubtful["texts"])


def test_what_is_not_ranked_stands_in_a_table_of_its_own(page):
    summaries = [text for text in page.texts if text.startswith("Also published, not ranked: ")]
    assert summaries and any("λ max" in text for text in page.texts)
    rows = [row for row in page.tables[CIFAR] if any("SWA from" in text for text in row["texts"])]
    assert rows and all("published" in row["texts"] for row in rows)


def test_charts_are_of_runs_and_of_what_is_not_in_doubt(page):
    curves, seen_curves, scatter = page.charts[RAINY]
    lines = [trace for trace in curves["data"] if trace.get("showlegend") is not False]
    assert [trace["name"] for trace in lines] == ["FedAvg", "FedProx"]
    assert lines[0]["y"][:2] == [25.25, 50.5] and len(curves["data"]) == 4  # with a band
    assert seen_curves["layout"]["yaxis"]["title"]["text"] == "seen standard (%)"
    published, *runs = scatter["data"]
    assert len(published["x"]) == len(published["y"]) > 5
    assert [(trace["x"], trace["y"]) for trace in runs] == [([59.5], [50.5]), ([57.0], [48.0])]
    (until,) = page.charts[TARGET]
    assert "target 59.9 %" in json.dumps(until)
    without = [table for table, charts in page.charts.items() if not charts]
    assert len(without) > 50  # published numbers alone have none


def test_untrusted_text_is_escaped(index, page):
    text = index.read_text(encoding="utf-8")
    assert "<script>window" not in text and "<img src=x" not in text and "<b>" not in text
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    loaded = [script["src"] for script in scripts if "src" in script]
    assert loaded == ["page/page.js", "page/plotly.min.js"]
    others = {script.get("type") for script in scripts if "src" not in script}
    assert others == {"application/json"}
    names = [
        trace.get("name", "")
        for charts in page.charts.values()
        for c in charts
        for trace in c["data"]
    ]
    assert not any("<" in name for name in names) and any("&lt;" in name for name in names)


def test_it_loads_nothing_from_elsewhere(index, page):
    for tag, attributes in page.tags:
        for name in ("src", "href"):
            target = attributes.get(name)
            if target and tag == "a" and target.startswith("https:"):  # followed when asked
                assert target in {record.url for record in read_published()}
            elif target and not target.startswith(("#", "data:,")):
                assert (index.parent / unquote(target)).is_file(), target
    (policy,) = (a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy and "http" not in policy and "unsafe-eval" not in policy
    assert "script-src 'self' file:;" in policy
    for name in COPIED:
        assert "http" not in (ASSETS / name).read_text(encoding="utf-8")
    assert len((ASSETS / "page.js").read_text(encoding="utf-8").splitlines()) <= 100


def test_links_of_a_page_lead_to_files_of_benchmarks_that_are_there(page):
    ids = {attributes.get("id") for _, attributes in page.tags}
    targets = {a["href"] for tag, a in page.tags if tag == "a" and a["href"].startswith("#")}
    assert f"#board-{RAINY}" in targets and {target[1:] for target in targets} <= ids


def test_what_is_broken_is_a_message_and_the_rest_is_there(page):
    shown = [text for text in page.texts if any(f"{name}" in text for name in BROKEN)]
    for name, words in BROKEN.items():
        assert [text for text in shown if f"/{name}" in text and words in text], name


def test_results_and_pictures_of_a_run_are_linked_and_not_read(runs, index, page):
    images = [a for tag, a in page.tags if tag == "img"]
    assert {image["alt"] for image in images} == {
        *("prediction: 00001_image of seen", "prediction: 00001_image of unseen"),
        "prediction: 00002_image of seen",  # which is no picture; a browser shows its text
    }
    assert all(image["loading"] == "lazy" for image in images)
    links = {a["href"] for tag, a in page.tags if tag == "a" and "aria-label" in a}
    assert "../runs/fedprox/results.json" in links
    assert not list((index.parent / "page").glob("pictures*"))


def test_links_out_of_a_run_are_not_followed(runs, tmp_path):
    copy = shutil.copytree(runs / "synthetic_0", tmp_path / "javascript:alert(1)")
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    (copy / "pictures" / "seen" / "00000_link.png").symlink_to(secret)
    text = write_page(build_board(*read_runs([copy])), tmp_path / "board").read_text()
    page = Page(text)
    images = [a["src"] for tag, a in page.tags if tag == "img"]
    assert images and not any("secret" in src or "link" in src for src in images)
    assert all(src.startswith("../javascript%3Aalert%281%29/pictures/") for src in images)


def test_a_page_is_written_over_an_earlier_one(runs, tmp_path):
    first = write_page(build_board(*read_runs([runs])), tmp_path / "board").read_text()
    assert write_page(build_board(*read_runs([runs])), tmp_path / "board").read_text() == first
    assert not list((tmp_path / "board").rglob("*.tmp"))


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "fedseg train cifar10_a0 --with fedasam swa --seed 3"),
        ({"methods": []}, "fedseg train cifar10_a0 --seed 3"),
        ({"amp": True}, "fedseg train cifar10_a0 --with fedasam swa --seed 3 --amp"),
        ({"setting": None}, ""),
        ({"setting": "evil.py"}, ""),
        ({"methods": ["fedavg", "--trust"]}, ""),
        ({"methods": ["fedavg; rm"]}, ""),
    ],
)
def test_the_command_of_a_run_is_made_of_recorded_names(changes, command):
    content = toyresults.cifar(64.0, seed=3, methods=["fedasam", "swa"])
    results = toyresults.parsed(content).model_copy(update=changes)
    assert train_command(results) == command
