"""The table after training."""

import json
import os
import re

import pytest
import toyresults

from fedseg.errors import DataError
from fedseg.files import sha256
from fedseg.leaderboard.board import build_board
from fedseg.report.summary import print_summary
from fedseg.runs.run_files import read_runs
from fedseg.runs.schema import read_results


@pytest.fixture
def printed(capsys):
    """Print the summary of a run; returns the text."""

    def print_and_read(run) -> str:
        print_summary(run)
        return capsys.readouterr().out

    return print_and_read


def change(run, **fields) -> None:
    """Fields of ``results.json`` or else of ``config.json``, as of :func:`toyresults.changed`."""
    content, path = json.loads((run / "results.json").read_text()), run / "config.json"
    of_results = {k: v for k, v in fields.items() if k.partition("__")[0] in content}
    of_config = {k: v for k, v in fields.items() if k not in of_results}
    path.write_text(json.dumps(toyresults.changed(json.loads(path.read_text()), **of_config)))
    content["config_json_sha256"] = sha256(path)
    toyresults.write(run, toyresults.changed(content, **of_results))


def test_the_reported_values_stand_first(wide_run, printed):
    """Those of the leaderboard: the mean over the evaluations of the last rounds."""
    text = printed(wide_run)
    results = read_results(wide_run / "results.json")
    assert (results.last_rounds.rounds, results.last_rounds.evaluations) == (4, 2)
    head = next(line for line in text.splitlines() if "last evaluation" in line)
    assert re.search(r"mIoU \(%\), last 4 rounds +last evaluation", head)
    board = build_board(*read_runs([wide_run]))
    cells = board.lines(board.own[0]).set_index("column")["value"]
    for label, domain in {"unseen": "unseen", "seen standard": "seen"}.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(f"{label} "))
        reported = results.last_rounds.mean[f"{domain}/mIoU"]
        assert cells[domain] == reported
        last = results.final[domain]["mIoU"]
        assert re.match(rf"{label} +{reported:.2f} ± \d+\.\d\d +{last:.2f} ", line)


def test_summary_names_metrics_files_and_the_next_command(small_run, small_config, printed):
    text = printed(small_run)
    results = read_results(small_run / "results.json")
    labels = {"unseen": "unseen", "seen standard": "seen", "seen by_domain": "seen_by_domain"}
    for label, domain in labels.items():
        row = next(line for line in text.splitlines() if line.strip().startswith(f"{label} "))
        assert f" {results.final[domain]['mIoU']:.2f} " in row
    assert "6 of 6, 2 of 2 clients each" in text
    assert re.search(rf"folder +{small_run}\n", text)
    network = os.path.relpath(small_config.parent / "small_network.py")
    assert f"fedseg test {small_run} --trust {network}\n" in text  # one line, though long
    assert "fedseg prepare" not in text  # real data


def test_the_three_worst_domains_or_clients_are_named(run_copy, printed):
    values = {"c1": 50.0, "c2": 40.0, "c3": 70.5, "c4": None, "c5": 45.25, "c6": 99.0}
    clients = {name: {"images": 1, "accuracy": value} for name, value in values.items()}
    one = {"images": 5, "mIoU": 3.0}
    sets = {"test": clients, "test_personal": {"c6": {"images": 1}}, "seen": {"only": one}}
    (run_copy / "clients.json").write_text(json.dumps({"sets": sets}))
    lines = [line.split(maxsplit=1) for line in printed(run_copy).splitlines()]
    named = [words[1] for words in lines if words[:1] == ["worst"]]
    assert named == ["accuracy, test standard: c2 40.00, c5 45.25, c1 50.00"]  # of several clients
    (run_copy / "clients.json").unlink()
    assert "c2 40.00" not in printed(run_copy)


def test_synthetic_data_are_marked(run_copy, printed):
    change(run_copy, data__train__synthetic=True)
    text = printed(run_copy)
    assert "synthetic" in text
    assert "fedseg prepare" not in text  # which data set is real is not known


def test_the_run_is_tested_with_the_parts_of_its_own_that_it_noted(run_copy, printed):
    assert re.search(rf"fedseg test {run_copy} --trust \S+small_network.py\n", printed(run_copy))
    (run_copy / "own_parts.json").write_text('{"a": "two words", "b": "c.py", "d": "c.py"}')
    assert f"fedseg test {run_copy} --trust 'two words' c.py\n" in printed(run_copy)
    (run_copy / "own_parts.json").unlink()
    assert f"fedseg test {run_copy}\n" in printed(run_copy)


def test_recorded_texts_are_no_markup(run_copy, printed):
    table = {"fog": [50.0] * 5}
    corrupted = {"accuracy": 50.0, "corruptions": table, "severities": ["[/b]", 2, 3, 4, 5]}
    change(run_copy, final={"test": {"accuracy": 1.0}, "corrupted": corrupted})
    change(run_copy, data__train__synthetic=True, data__train__dataset="[/u]Dataset")
    text = printed(run_copy)
    assert "50.00 at [/b]" in text and "synthetic" in text


def test_names_of_markup_are_refused(run_copy, printed):
    change(run_copy, name="[/b]")
    with pytest.raises(DataError, match=r"results\.json: name"):
        printed(run_copy)


def test_classification_and_missing_metrics(run_copy, printed):
    final = {"test": {"accuracy": 91.234}, "other": {"accuracy": None}}
    change(run_copy, final=final, train_cfg__val_last_rounds=1)
    text = printed(run_copy)
    assert "accuracy (%)" in text
    assert "91.23" in text
    assert "last evaluation" not in text  # of a single one
    assert "pixel accuracy" not in text


def test_a_metric_with_a_prefix_has_the_images_of_its_test_set(run_copy, printed):
    images = str(read_results(run_copy / "results.json").tests["unseen"].samples)
    change(run_copy, final={"unseen": {"mIoU": 5.0}, "unseen/boundary": {"mIoU": 4.0}})
    rows = [line.split() for line in printed(run_copy).splitlines() if line.startswith("unseen")]
    assert [row[-1] for row in rows] == [images, images]


def test_corruptions_by_severity(run_copy, printed):
    table = {"fog": [50.0, 40.0, 30.0, 20.0, 10.0], "snow": [60.0, 50.0, 40.0, 30.0, 20.0]}
    corrupted = {"accuracy": 35.0, "corruptions": table, "severities": [1, 2, 3, 4, 5]}
    change(run_copy, final={"test": {"accuracy": 91.234}, "corrupted": corrupted})
    text = printed(run_copy)
    assert "under 2 corruptions: mean accuracy 35.00 %" in text
    assert "55.00 at 1, 45.00 at 2, 35.00 at 3, 25.00 at 4, 15.00 at 5" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("corrupted "))
    assert " 35.00 " in row


def test_a_run_that_evaluated_nothing(run_copy, printed):
    change(run_copy, final={}, curves={"rounds": [], "bytes": [], "loss": [], "figures": {}})
    assert "nothing was evaluated" in printed(run_copy)


def test_a_run_without_test_images_proposes_no_test(run_copy, printed):
    assert "fedseg test" in printed(run_copy)
    change(run_copy, final={}, test_dataloader=None)
    assert "fedseg test" not in printed(run_copy)


def test_domains_without_statistics_are_counted(run_copy, printed):
    assert "statistics of their own" not in printed(run_copy)
    covered = {"mIoU": 3.0, "domains": 5, "domains_with_statistics": 2}
    change(run_copy, final={"seen": {"mIoU": 4.0}, "seen_by_domain": covered})
    assert "2 of the 5 domains have statistics" in printed(run_copy)
