"""The page without a browser: every row is there, untrusted text stays text, nothing is lost."""

import json
import re
import shutil
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import toypage
import toyresults
from PIL import Image
from toypage import BROKEN, CIFAR, HOSTILE, RAINY, TARGET
from toyresults import cifar

from fedseg.config.check import complete_config
from fedseg.leaderboard.benchmarks import count_published
from fedseg.leaderboard.board import Board, build_board
from fedseg.leaderboard.page import COPIED, write_page
from fedseg.leaderboard.page_runs import train_command
from fedseg.leaderboard.reference import read_published
from fedseg.runner.experiment import load_config
from fedseg.runs.run_files import read_runs

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "fedseg" / "leaderboard" / "page_assets"


class Page(HTMLParser):
    """What a browser would find: texts of cells by table and row, data, elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[dict[str, str | list[str]]]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data = ""
        self._inside = ""
        self.feed(text)
        self.data = json.loads(self.data)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self._inside = found.get("id", "") if tag == "script" else tag
        if tag == "section" and "data-table" in found:
            self.tables[found["data-table"]] = []
        if tag == "tr" and "data-kind" in found:
            list(self.tables.values())[-1].append({**found, "texts": []})

    def handle_data(self, text):
        if self._inside == "data":
            self.data += text
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
def index(board, tmp_path_factory) -> Path:
    return write_page(board, tmp_path_factory.mktemp("page") / "board")


@pytest.fixture(scope="module")
def page(index) -> Page:
    return Page(index.read_text(encoding="utf-8"))


def rows_with(page: Page, table: str, text: str) -> list[dict]:
    return [row for row in page.tables[table] if text in row["texts"]]


def test_every_row_is_there(board, page):
    """Also published numbers without a run."""
    own, ranked = [*page.tables][: len(board.own)], [*page.tables][len(board.own) :]
    assert set(ranked) == {table.benchmark.id for table in board.rankings if table.rows}
    assert len(ranked) > len(board.shown())
    by_id = {table.benchmark.id: table for table in board.rankings}
    groups: dict[str, list[bool]] = {}
    for id_ in ranked:
        groups.setdefault(by_id[id_].benchmark.group, []).append(bool(by_id[id_].runs))
    assert list(groups)[:3] == ["IDDA", "CIFAR-10", "Communication"]  # those with a run come first
    assert all(has_run == sorted(has_run, reverse=True) for has_run in groups.values())
    for ranking in board.rankings:
        count = len(ranking.rows) + len(ranking.further_rows)
        assert len(page.tables.get(ranking.benchmark.id, ())) in (0, count)
        assert (ranking.benchmark.id in page.tables) == bool(ranking.rows)
    assert [len(page.tables[id_]) for id_ in own] == [len(table.rows) for table in board.own]


def test_own_data_are_among_your_runs_under_the_name_of_their_config(tmp_path):
    content = cifar(70.0, data__train__dataset="ListedDataset", name="orchards_fedasam")
    content["config"] |= {"methods": ["fedasam"]}
    toyresults.write(tmp_path / "first", content)
    board = build_board(*read_runs([tmp_path]))
    index = write_page(board, tmp_path / "board")
    page = Page(index.read_text(encoding="utf-8"))
    tabs = [a for tag, a in page.tags if tag == "button" and a.get("role") == "tab"]
    assert page.texts[page.texts.index("Dark mode") + 1] == "Your runs"  # the first tab
    groups = {table.benchmark.group for table in board.shown(everything=True)}
    assert len(tabs) == len(groups) and "Own data" not in groups
    first, *others = page.tables.values()
    assert [row["data-kind"] for row in first] == ["run"]
    assert not any(row["data-kind"] == "run" for rows in others for row in rows)
    headings = [text for text in page.texts if text == "orchards"]
    assert headings  # neither the class of its data nor its network
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
    (own,) = rows_with(page, RAINY, f"{RAINY}_fedavg")
    assert own["data-kind"] == "run" and own["texts"][0] == "3"  # the second has 50.54
    at = own["texts"].index("50.50")
    assert own["texts"][at + 1] == "± 0.71"
    # 1000 parameters of 4 bytes, both ways, as FedAvg sends them
    assert own["texts"][-3:-1] == ["2", "2024"]  # seeds and year
    assert own["texts"][-1] == "61.0 MiB (1 \u00d7)"
    (first,) = rows_with(page, RAINY, "53.99")
    assert "published" in first["texts"] and "FedDrive, published mIoU" in first["texts"]
    (doubtful,) = rows_with(page, CIFAR, "72.42")
    assert "?" in doubtful["texts"] and any("in doubt:" in text for text in doubtful["texts"])
    rows = page.data["tables"][CIFAR]["rows"]
    (kept,) = (row for row in rows if row["label"] == "FedSAM + SWA, mixup")
    assert not kept["values"]  # what is in doubt is in no chart


def test_what_is_not_ranked_is_there_and_in_no_chart(page):
    further = [row for row in page.tables[CIFAR] if "further" in row["class"].split()]
    assert any("SWA from round 500" in text for row in further for text in row["texts"])
    labels = {row["label"] for row in page.data["tables"][CIFAR]["rows"]}
    assert not any("SWA from round" in label for label in labels)
    columns = [c["key"] for c in page.data["tables"][CIFAR]["columns"]]
    assert columns == ["test"] and any("λ max" in text for text in page.texts)


def test_traffic_of_published_rows_is_what_their_paper_states(page):
    rows = page.data["tables"][CIFAR]["rows"]
    scaffold = [r for r in rows if r["label"] == "SCAFFOLD" and r["kind"] == "published"]
    assert scaffold and {r["traffic"] for r in scaffold if "FedGloSS" in r["source"]} == {2}
    assert any(r["kind"] == "published" and r["traffic"] is None for r in rows)
    assert page.data["tables"][TARGET]["target"] == 59.9


def test_untrusted_text_is_escaped(index, page):
    text = index.read_text(encoding="utf-8")
    assert "<script>window" not in text and "<img" not in text and "<b>" not in text
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    names = ("start", "plotly.min", "charts", "page")
    assert [s.get("src") for s in scripts] == [*(f"page/{name}.js" for name in names), None]
    assert scripts[-1]["type"] == "application/json"
    assert any(HOSTILE in run["classes"].get("unseen", {}) for run in page.data["runs"].values())


def test_it_loads_nothing_from_elsewhere(index, page):
    for tag, attributes in page.tags:
        for name in ("src", "href"):
            target = attributes.get(name)
            if target and tag == "a" and target.startswith("https:"):  # followed when asked
                assert target in {record.url for record in read_published()}
            elif target and not target.startswith(("#", "data:,")):
                place = index.parent / unquote(target)
                assert place.is_file() or (tag == "a" and (place / "results.json").is_file()), (
                    target
                )
    (policy,) = (a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy and "http" not in policy and "unsafe-eval" not in policy
    assert "script-src 'self' file:;" in policy
    for name in COPIED:
        assert "http" not in (ASSETS / name).read_text(encoding="utf-8")


def test_what_is_broken_is_a_message_and_the_rest_is_there(page):
    shown = [text for text in page.texts if any(f"{name}" in text for name in BROKEN)]
    for name, words in BROKEN.items():
        assert [text for text in shown if f"/{name}" in text and words in text], name
    assert len(page.data["runs"]) == 8


def test_a_run_has_what_its_charts_need(page):
    by_name = {(run["name"], run["seed"]): run for run in page.data["runs"].values()}
    first = by_name["rendered", 0]
    assert first["classes"]["unseen"] == toypage.CLASSES and first["miou"]["unseen"] == 20
    assert first["curves"]["metrics"]["unseen/mIoU"] == [10, *[20] * 20]
    run = by_name["corrupted", 0]
    assert run["corruptions"] == {"frost": [30, None, 9.5]}
    clients = run["clients"]
    assert clients["names"] == ["a (cat)", "b (dog)", f"{HOSTILE} (dog)"]  # by their main class
    assert clients["values"] == [[20, 40], [10, 30], [None, 50]]
    assert by_name["rendered", 1]["pictures"] == [] and by_name["rendered", 1]["clients"] is None


def test_a_picture_that_breaks_its_decoder_is_left_out(tmp_path):
    folder = toyresults.write(tmp_path / "run", toyresults.results(RAINY, {"unseen/mIoU": 50.0}))
    path = folder / "pictures" / "unseen" / "00001_a.png"
    path.parent.mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(path)
    content, chunk = path.read_bytes(), b"\0\0\0\0iCCP" + zlib.crc32(b"iCCP").to_bytes(4)
    end = content.rindex(b"IEND") - 4
    path.write_bytes(content[:end] + chunk + content[end:])  # Pillow: IndexError
    write_page(build_board(*read_runs([folder])), tmp_path / "page")
    assert f"{path}: is not a picture" in (tmp_path / "page" / "index.html").read_text()


def test_pictures_are_copied_under_names_of_their_content(index, page):
    (run,) = (run for run in page.data["runs"].values() if run["pictures"])
    assert [(p["domain"], p["image"]) for p in run["pictures"]] == [
        ("seen", "00001_image"),
        ("unseen", "00001_image"),
    ]
    for picture in run["pictures"]:
        assert re.fullmatch(r"page/pictures/[0-9a-f]{20}\.jpg", picture["src"])
        with Image.open(index.parent / picture["src"]) as copy:
            assert copy.size == (picture["width"], picture["height"]) == (40, 30)
    assert [t for t in page.texts if "00002_image.png: is not a picture" in t]
    assert len(list((index.parent / "page" / "pictures").iterdir())) == 2


def test_a_page_is_written_over_an_earlier_one(runs, tmp_path):
    copy = shutil.copytree(runs / "synthetic_0", tmp_path / "runs" / "one")
    secret = tmp_path / "secret.png"
    Image.new("RGB", (5, 5)).save(secret)
    (copy / "pictures" / "seen" / "00000_link.png").symlink_to(secret)
    out = tmp_path / "board"
    write_page(build_board(*read_runs([copy])), out)
    pictures = out / "page" / "pictures"
    (pictures / "mine.jpg").write_text("kept")
    assert len(list(pictures.iterdir())) == 3  # the link was not followed
    shutil.rmtree(copy / "pictures" / "unseen")
    first = write_page(build_board(*read_runs([copy])), out).read_text()
    assert len(list(pictures.iterdir())) == 2 and (pictures / "mine.jpg").is_file()
    assert write_page(build_board(*read_runs([copy])), out).read_text() == first
    assert not list(out.rglob("*.tmp"))


def test_damaged_details_cost_only_their_charts(tmp_path):
    content = toyresults.cifar(30.0, name="damaged")
    content["final"]["test"] |= {"IoU": [1, 2], "corruptions": {"frost": 3}}
    clients = (
        7,
        [1],
        {"clients": ["a"]},
        {"clients": [], "rounds": [1]},
        dict(clients=["a"], main_class=[0], classes=["b"], accuracy=[[1]], rounds=["a"]),
    )
    for number, one in enumerate(clients):
        toyresults.write(tmp_path / str(number), content | {"client_accuracy": one, "seed": number})
    found = Page(write_page(build_board(*read_runs([tmp_path])), tmp_path / "board").read_text())
    assert len(found.data["runs"]) == len(clients)
    for run in found.data["runs"].values():
        assert (run["clients"], run["classes"], run["corruptions"]) == (None, {}, {})
    assert len([t for t in found.texts if "client_accuracy: is damaged" in t]) == len(clients)
    (row,) = rows_with(found, CIFAR, "damaged")
    assert row["data-kind"] == "run"


def test_details_that_are_no_numbers_leave_gaps(tmp_path):
    values = [10**400, "3", True, None, 50.0]
    content = toyresults.cifar(30.0)
    clients = dict(clients=list("abcde"), main_class=[0] * 5, classes=["cat"])
    content["client_accuracy"] = {**clients, "rounds": [1], "accuracy": [values]}
    toyresults.write(tmp_path / "run", content)
    found = Page(write_page(build_board(*read_runs([tmp_path])), tmp_path / "board").read_text())
    (run,) = found.data["runs"].values()
    assert run["clients"]["values"] == [[None]] * 4 + [[50.0]]


def test_a_page_links_folders_below_its_own_only(tmp_path):
    board, names = tmp_path / "board", ("board/my runs/a", "elsewhere")
    for seed, name in enumerate(names):
        content = toyresults.results(RAINY, toypage.metrics(50.0 + seed), seed=seed)
        toyresults.write(tmp_path / name, content)
    found = Page(write_page(build_board(*read_runs([tmp_path])), board).read_text())
    links = {
        a["href"] for tag, a in found.tags if tag == "a" and "folder" in a.get("aria-label", "")
    }
    assert links == {"my%20runs/a/"}
    (row,) = (row for row in found.tables[RAINY] if row["data-kind"] == "run")
    text = " ".join(row["texts"])
    assert f"fedseg leaderboard verify '{tmp_path}/board/my runs/a'" in text
    assert f"fedseg leaderboard verify {tmp_path}/elsewhere" in text


def test_tables_of_one_title_are_two(tmp_path):
    data = {"data__train__dataset": "Shapes"}
    content = toyresults.results(RAINY, {}, **data)
    toyresults.write(tmp_path / "honest", toyresults.synthetic(content))
    data |= {"data__train__dataset": "Shapes, rendered images", "experiment_sha256": "b" * 64}
    content = toyresults.results(RAINY, {}, **data)
    toyresults.write(tmp_path / "stranger", content)
    board = build_board(*read_runs([tmp_path]))
    assert [table.title for table in board.overviews] == ["Shapes, rendered images"] * 2
    found = Page(write_page(board, tmp_path / "board").read_text())
    own = [table for table in found.tables if table.startswith("own-")]
    assert len(own) == 2 and len(found.tables) == len(found.data["tables"])


@pytest.fixture(scope="module")
def trained():
    """The results of a run of ``cifar10_a0`` with ``fedasam``, and of one with some options."""
    content = toyresults.cifar(64.0)

    def made(*options: str, methods=("fedasam",), setting="cifar10_a0", amp=False):
        path = ROOT / "configs" / "settings" / "cifar10_a0.py"
        config = complete_config(load_config(path, ["fedasam"], options=options, amp=amp)).to_dict()
        config |= {"setting": setting, "methods": list(methods)}
        return toyresults.parsed(content | {"seed": 3, "config": config})

    return made


def test_a_command_has_the_options_of_its_run_or_says_that_it_has_not(trained):
    command = "fedseg train cifar10_a0 --with fedasam --seed 3"
    assert train_command(trained()) == (command, "")
    assert train_command(trained("device=cpu", "data_root=x")) == (command, "")
    assert train_command(trained(amp=True)) == (f"{command} --amp", "")
    numbers = ("train_cfg.max_rounds=4", "optim_wrapper.optimizer.lr=0.5")
    with_numbers, remark = train_command(trained(*numbers))
    head, *options = with_numbers.split(" --cfg-options ")
    window = "train_cfg.val_last_rounds=1"  # a quarter of the rounds
    assert head == command and not remark
    assert sorted(options[0].split()) == sorted([*numbers, window])
    others = (
        trained("train_dataloader.dataset.split=$(touch x)"),
        trained("custom_imports.imports=['evil']"),
        trained(*(f"algorithm.x{number}=1" for number in range(7))),
    )
    for results in others:
        assert train_command(results) == (command, "with other options: see its config")


@pytest.mark.parametrize("name", ["own.py", "a b", "nowhere"])
def test_a_command_has_names_of_the_suite_only(trained, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("nowhere").write_text("raise SystemExit('was executed')")
    assert train_command(trained(methods=["fedasam", name])) == ("", "")
    assert train_command(trained(setting=name)) == ("", "")


def test_a_board_without_runs(tmp_path):
    board = build_board(*read_runs([tmp_path]))
    page = Page(write_page(board, tmp_path / "empty").read_text())
    assert page.data["runs"] == {} and len(page.tables) > 50
    assert any("There are no runs yet" in text for text in page.texts)
    assert any("no results.json was found" in text for text in page.texts)
    kinds = {row["data-kind"] for rows in page.tables.values() for row in rows}
    assert kinds == {"published", "reproduced"}
