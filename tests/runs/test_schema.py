"""results.json is read strictly: every fault is one message with file and field."""

import json
import math

import pytest
import toyresults

from fedseg.errors import DataError
from fedseg.runs import schema
from fedseg.runs.results import SCHEMA_VERSION
from fedseg.runs.schema import VERSION, read_results

FIGURES = {"unseen/mIoU": 50.0, "seen/mIoU": 60.0}


@pytest.fixture
def content():
    return toyresults.results("idda_rainy_heterogeneous", FIGURES)


def refused(folder, content, *words: str) -> str:
    """The message about a file, which must name it and hold these words."""
    path = toyresults.write(folder, content) / "results.json"
    with pytest.raises(DataError) as caught:
        read_results(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    for word in words:
        assert word in text
    return text


def test_the_reader_knows_the_version_that_runs_write():
    assert VERSION == SCHEMA_VERSION


def test_a_real_run_is_read_whole(small_run):
    results = read_results(small_run / "results.json")
    written = json.loads((small_run / "results.json").read_text())
    assert results.schema_version == VERSION
    assert results.name == "small" and results.rounds == results.final_round == 6
    assert results.final == written["final"]
    assert results.last_rounds.mean == written["last_rounds"]["mean"]
    assert results.train.clients == 2 and results.train.samples == 8
    assert results.train.partition == {"type": "NaturalPartition", "key": "users"}
    assert set(results.tests) == {"unseen", "seen"}
    assert results.tests["seen"].steps == ({"type": "ResizeLabel", "size": [72, 128]},)
    assert results.averaging["type"] == "SWA" and results.local_epochs == 1
    assert results.model.type == "Segmentor" and results.model.network == "SmallNetwork"
    assert not results.embedded
    assert results.curves.rounds == (2, 4, 6)
    history = [json.loads(line) for line in (small_run / "history.jsonl").read_text().splitlines()]
    assert results.curves.bytes[-1] == sum(r["bytes_down"] + r["bytes_up"] for r in history)
    last = history[-1]["metrics"]["unseen/mIoU"]
    assert results.curves.figures["unseen/mIoU"][-1] == last == results.final["unseen"]["mIoU"]


def test_what_hooks_add_is_allowed(content, tmp_path):
    content["client_accuracy"] = {"rounds": [1]}
    folder = toyresults.write(tmp_path, content)
    assert read_results(folder / "results.json").final["unseen"]["mIoU"] == 50


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"results\.json: is missing: the run is not finished"):
        read_results(tmp_path / "results.json")


def test_damaged_json(content, tmp_path):
    folder = toyresults.write(tmp_path, content)
    path = folder / "results.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=rf"{path}: is damaged .*--resume writes it again"):
        read_results(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is damaged"):
        read_results(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DataError, match="is damaged"):
        read_results(path)


@pytest.mark.parametrize("foreign", [[], "text", {}, {"accuracy": 91.0}])
def test_a_file_of_another_program(foreign, tmp_path):
    refused(tmp_path, foreign, "is not a results.json of fedseg")


@pytest.mark.parametrize("field", ["seed", "data", "curves", "final", "last_rounds", "model"])
def test_a_missing_field(field, content, tmp_path):
    refused(tmp_path, toyresults.changed(content, **{field: ...}), f"{field}: is missing")


def test_a_missing_nested_field(content, tmp_path):
    changed = toyresults.changed(content, last_rounds__mean=...)
    refused(tmp_path / "a", changed, "last_rounds.mean: is missing")
    changed = toyresults.changed(content, data__train__clients=...)
    refused(tmp_path / "b", changed, "data.train.clients: is missing")
    changed = toyresults.changed(content, data__train=...)
    refused(tmp_path / "c", changed, "data.train.clients: is missing")
    changed = toyresults.changed(content, data__test_seen__samples=...)
    refused(tmp_path / "d", changed, "data.test:seen.samples: is missing")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("seed", "0", "seed: must be an integer, not '0'"),
        ("seed", True, "seed: must be an integer, not True"),
        ("seed", 0.5, "seed: must be an integer, not 0.5"),
        ("amp", 1, "amp: must be true or false, not 1"),
        ("name", None, "name: must be text, not null"),
        ("final", [1, 2], "final: must be an object, not [1, 2]"),
        ("local_epochs", "two", "local_epochs: must be an integer or null, not 'two'"),
        ("last_rounds__mean", {"seen/mIoU": None}, "last_rounds.mean.seen/mIoU: must be a number"),
        ("data__train__generated", "fog", "data.train.generated: must be a list or null"),
        ("curves__rounds", [1, "2"], "curves.rounds[1]: must be an integer, not '2'"),
        ("data", {"train": 3}, "data.train: must be an object, not 3"),
    ],
)
def test_a_wrong_type(field, value, words, content, tmp_path):
    refused(tmp_path, toyresults.changed(content, **{field: value}), words)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_not_finite(value, content, tmp_path):
    changed = toyresults.changed(content, final__unseen__mIoU=value)
    refused(tmp_path / "a", changed, "final.unseen.mIoU: must be a finite number")
    changed = toyresults.changed(content, last_rounds__std={"seen/mIoU": value})
    refused(tmp_path / "b", changed, "last_rounds.std.seen/mIoU: must be a finite number")
    changed = toyresults.changed(content, algorithm={"type": "FedDyn", "beta": [1, value]})
    refused(tmp_path / "c", changed, "algorithm.beta[1]: must be a finite number")


def test_a_figure_without_a_value(content, tmp_path):
    changed = toyresults.changed(content, final__unseen__mIoU=None)
    refused(tmp_path, changed, "final.unseen.mIoU: has no value: the figure was not finite")
    # a class that does not occur has no IoU, and that is no fault
    changed = toyresults.changed(content, final__unseen__IoU={"train": None})
    toyresults.write(tmp_path, changed)
    assert read_results(tmp_path / "results.json").final["unseen"]["IoU"] == {"train": None}


def test_a_run_that_is_not_finished(content, tmp_path):
    changed = toyresults.changed(content, completed_rounds=40, final_round=40)
    refused(tmp_path / "a", changed, "completed_rounds: ", "has 40 of 1500 rounds", "--resume")
    changed = toyresults.changed(content, final_round=1450)
    words = "final_round: the last evaluation is of round 1450 of 1500: the last rounds are missing"
    refused(tmp_path / "b", changed, words)
    changed = toyresults.changed(content, final_round=None, final={})
    refused(tmp_path / "c", changed, "final_round: nothing was evaluated")


def test_curves_of_unequal_length(content, tmp_path):
    changed = toyresults.changed(content, curves__bytes=[1])
    refused(tmp_path, changed, "curves.bytes: has 1 values for 2 rounds")


# ---------------------------------------------------------------- versions


def version_1(content):
    """The same run as version 1 wrote it."""
    old = toyresults.changed(content, schema_version=1, curves=..., hardware=..., local_loss=...)
    del old["experiment_sha256"], old["model"]["network"], old["model"]["options"]
    for entry in old["data"].values():
        for name in ("split", "content_sha256", "generated", "steps", "style"):
            del entry[name]
    for name in ("partition", "batch_size"):
        del old["data"]["train"][name]
    return old


def test_version_1_is_migrated_and_what_it_does_not_say_is_unknown(content, tmp_path):
    folder = toyresults.write(tmp_path, version_1(content))
    results = read_results(folder / "results.json")
    assert results.schema_version == 1
    assert results.final["seen"]["mIoU"] == 60 and results.train.clients == 69
    assert results.curves is None and results.experiment_sha256 is None
    assert results.train.partition is None and results.tests["seen"].steps is None


def test_a_damaged_version_1_is_told_as_any_other(content, tmp_path):
    refused(tmp_path / "a", {**version_1(content), "data": 3}, "data: must be an object, not 3")
    refused(tmp_path / "b", {**version_1(content), "model": None}, "model: must be an object")


def test_a_newer_version_is_refused_by_name(content, tmp_path):
    changed = toyresults.changed(content, schema_version=99)
    refused(tmp_path, changed, "schema version 99", f"versions up to {VERSION}", "update fedseg")


def test_a_version_without_a_way_is_refused_by_name(content, tmp_path):
    changed = toyresults.changed(content, schema_version=0)
    refused(tmp_path, changed, "schema version 0, which cannot be read any more")


@pytest.mark.parametrize("version", ["2", None, True, 1.0])
def test_a_version_that_is_no_number(version, content, tmp_path):
    changed = toyresults.changed(content, schema_version=version)
    refused(tmp_path, changed, "schema_version: must be an integer")


def test_migrations_follow_one_another(content, tmp_path, monkeypatch):
    """A made-up version 0, which called rounds epochs."""

    def from_0(data):
        return {**data, "rounds": data["epochs"]}

    monkeypatch.setitem(schema.MIGRATIONS, 0, from_0)
    old = toyresults.changed(version_1(content), schema_version=0, rounds=..., epochs=1500)
    folder = toyresults.write(tmp_path, old)
    assert read_results(folder / "results.json").rounds == 1500
