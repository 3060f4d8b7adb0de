"""results.json is read strictly: every fault is one message with file and field."""

import json
import re
import statistics
import subprocess
import sys

import pytest
import toyresults
import toyseg
from doc_pages import ROOT

from fedseg.errors import DataError
from fedseg.files import sha256
from fedseg.runs.history import Record
from fedseg.runs.run_files import read_runs
from fedseg.runs.schema import RESULTS_SCHEMA_VERSION, DataFacts, ResultsFile, read_results


def curves(rounds: list[int], **columns) -> dict:
    """Curves without metrics; ``columns`` replace those of bytes and figures."""
    flat = {"bytes": [0] * len(rounds), "loss": [1.0] * len(rounds), "figures": {}}
    return {"rounds": rounds, **flat, **columns}


@pytest.fixture
def content():
    return toyresults.idda()


@pytest.fixture
def read(tmp_path):
    """Writes a content and reads it; options are the reader's."""

    def read(content, **options):
        return read_results(toyresults.write(tmp_path, content) / "results.json", **options)

    return read


@pytest.fixture
def refused(read, tmp_path):
    """Reads a content that must be refused, with the file and these words in the message."""

    def refused(content, *words: str) -> None:
        with pytest.raises(DataError) as caught:
            read(content)
        text = str(caught.value)
        assert text.startswith(f"{tmp_path / 'results.json'}: ")
        for word in words:
            assert word in text

    return refused


def test_a_real_run_is_read_whole(wide_run):
    results = read_results(wide_run / "results.json")
    written = json.loads((wide_run / "results.json").read_text())
    assert results.schema_version == RESULTS_SCHEMA_VERSION == 5
    assert results.name == "small" and results.rounds == results.final_round == 6
    assert results.train.clients == 2 and results.train.samples == 8
    assert results.train.partition == {"type": "NaturalPartition", "key": "users"}
    assert set(results.tests) == {"unseen", "seen"}
    assert results.tests["seen"].steps == [{"type": "ResizeLabel", "size": [72, 128]}]
    assert results.averaging["type"] == "SWA" and results.local_epochs == 1
    assert results.model.type == "Segmentor" and results.model.network == "SmallNetwork"
    assert not results.synthetic and not results.edited and not results.extras
    assert results.curves.rounds == [2, 4, 6]
    history = [json.loads(line) for line in (wide_run / "history.jsonl").read_text().splitlines()]
    assert results.curves.bytes[-1] == sum(r["bytes_down"] + r["bytes_up"] for r in history)
    metrics = [history[n]["metrics"] for n in (3, 5)]
    last = [values["unseen/mIoU"] for values in metrics]
    assert results.final == written["final"] and results.final["unseen"]["mIoU"] == last[-1]
    assert results.last_rounds.mean["unseen/mIoU"] == statistics.fmean(last)
    assert results.last_rounds.std["unseen/mIoU"] == statistics.pstdev(last)
    assert (results.last_rounds.rounds, results.last_rounds.evaluations) == (4, 2)


@pytest.fixture
def folder(small_run, tmp_path):
    """The files of a real run without its history."""
    for name in ("results.json", "config.json"):
        (tmp_path / name).write_bytes((small_run / name).read_bytes())
    return tmp_path


def test_the_config_beside_it_must_be_the_recorded_one(folder):
    path, text = folder / "config.json", (folder / "config.json").read_text()
    path.write_text(text.replace('"lr": 0.2', '"lr": 0.3'))
    with pytest.raises(DataError, match=r"config\.json: was changed after"):
        read_results(folder / "results.json")
    content = json.loads((folder / "results.json").read_text())
    config = json.loads(text)
    for change, words in (
        ({"train_cfg": 3}, "is not the config of a run"),
        ({"optim_wrapper": "SGD"}, "optim_wrapper: must be a valid dictionary, not 'SGD'"),
    ):
        path.write_text(json.dumps(config | change))
        toyseg.sign_results(folder / "results.json", content | {"config_json_sha256": sha256(path)})
        with pytest.raises(DataError, match=rf"config\.json: {words}"):
            read_results(folder / "results.json")
    path.unlink()
    with pytest.raises(DataError, match=r"config\.json: is missing"):
        read_results(folder / "results.json")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": ...}, "seed: is missing"),
        ({"final": {"unseen": 3}}, "final.unseen: must be a valid dictionary, not 3"),
        ({"data__train__samples": -1}, "data.train.samples: must be greater than or equal to 0"),
        ({"parameters": 0}, "parameters: must be greater than or equal to 1, not 0"),
        ({"seconds__wall": 1e308}, "seconds.wall: must be less than or equal to"),
        ({"schema_version": 6}, "schema_version: must be 5, not 6: update fedseg"),
    ],
)
def test_faults_of_the_file_are_named(folder, changes, words):
    path = folder / "results.json"
    path.write_text(json.dumps(toyresults.changed(json.loads(path.read_text()), **changes)))
    with pytest.raises(DataError) as error:
        read_results(path)
    assert str(error.value).startswith(f"{path}: {words}")


def test_optional_fields_and_what_hooks_add(content, read):
    results = read(toyresults.changed(content, setting=None))
    assert (results.setting, results.methods, results.extras) == (None, None, {})
    of_config = {"setting": "idda_rainy", "methods": ["fedasam", "swa"]}
    added = toyresults.changed(content, **of_config, client_accuracy={"a": [1]})
    results = read(added)
    assert results.setting == "idda_rainy" and results.methods == ["fedasam", "swa"]
    assert results.extras == {"client_accuracy": {"a": [1]}}


def test_files_that_are_no_results(tmp_path, content):
    path = tmp_path / "results.json"
    with pytest.raises(DataError, match=r"results\.json: is missing"):
        read_results(path)
    cut = json.dumps(content)[:-20].encode()
    for damaged in (cut, b"\xff\xfe\x00", b"[" * 100_000, b"9" * 5000):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"results\.json: is not readable"):
            read_results(path)
    for foreign in ([], "text", {}, {"accuracy": 91.0}):
        path.write_text(json.dumps(foreign))
        with pytest.raises(DataError, match=r"results\.json: is not .* schema_version"):
            read_results(path)


def test_a_file_that_was_changed_is_known(content, tmp_path):
    path = toyresults.write(tmp_path, content) / "results.json"
    signed = json.loads(path.read_text())
    for changes in ({}, {"seconds": {**content["seconds"], "wall": 5.0}}):
        path.write_text(json.dumps({**signed, **changes}, indent=1))
        assert not read_results(path).edited
    path.write_text(json.dumps({**signed, "seed": 7, "edited": False}))
    assert read_results(path).edited
    (_,), (message,) = read_runs([tmp_path])
    assert str(path) in message
    del signed["results_sha256"]  # which would hide any change
    path.write_text(json.dumps({**signed, "seed": 7}))
    (_,), (message,) = read_runs([tmp_path])
    assert str(path) in message and "has no checksum of itself" in message


def test_missing_fields_are_named(content, refused):
    for name, words in {
        **{name: f" {name}: " for name in ("seed", "data", "curves", "final", "parameters")},
        "data__train__clients": " data.train.clients: ",
        "data__train__partition_sha256": " data.train.partition_sha256: ",
        "data__train": " data.train.clients: ",
        "data__test_seen__samples": " data.test:seen.samples: ",
    }.items():
        refused(toyresults.changed(content, **{name: ...}), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("seed", "0", "seed: must be a valid integer, not '0'"),
        ("seed", True, "seed: must be a valid integer, not True"),
        ("name", None, "name: must be a valid string, not None"),
        ("name", "a\x1b[2Jb", "name: must have at most 200 letters"),
        ("name", "=1+1", "name: must have at most 200 letters"),
        ("hardware", "a\nb", "hardware: String should match pattern"),
        ("data__test_\x1b", {}, "data."),
        ("curves__figures", {"seen</mIoU": [1, 2]}, "curves.figures."),
        ("name", "x" * 201, "name: must have at most 200 letters"),
        ("final", [1, 2], "final: must be a valid dictionary, not [1, 2]"),
        ("curves__rounds", [1, "2"], "curves.rounds[1]: must be a valid integer, not '2'"),
        ("data", {"train": 3}, "data.train: must be a valid dictionary"),
        *[("final__unseen__mIoU", n, "final.unseen.mIoU: ") for n in (1e308, 10**400)],
        ("curves__figures__seen/mIoU", [1e308] * 21, "curves.figures.seen/mIoU[0]: "),
        ("parameters", 10**300, "parameters: "),
        ("threads", 0, "threads: must be greater than or equal to 1, not 0"),
        ("threads", 2**40, "threads: must be less than or equal to 4096"),
        ("clients_per_round", {"min": 0, "max": 5}, "clients_per_round.min: "),
        ("clients_per_round", {"min": 5, "max": 4}, "clients_per_round: max: is 4"),
        ("communication__bytes_up", -1, "communication.bytes_up: "),
        ("rejected_updates", -1, "rejected_updates: "),
        ("seconds__wall", -5.0, "seconds.wall: "),
        ("data__test_seen__samples", -1, "data.test:seen.samples: "),
        ("curves", curves([-1, 1600]), "curves.rounds[0]: "),
        ("curves", curves([800, 800]), "curves: rounds[1]: is 800, must be at least 801"),
        ("curves", curves([800, 1600], bytes=[-1, 5]), "curves.bytes[0]: "),
        ("curves", curves([800, 1600], bytes=[6, 5]), "curves: bytes[1]: is 5, must be at least 6"),
        ("curves", curves([800, 1600], bytes=[1]), "curves: bytes: has 1 values for 2 rounds"),
    ],
)
def test_values_that_no_run_has_are_named(content, refused, field, value, words):
    refused(toyresults.changed(content, **{field: value}), f" {words}")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("optim_wrapper", {"type": "a\x07"}, "optim_wrapper: 'type': must be text that"),
        ("algorithm", {"type": "FedDyn", "beta": [1, 1e308]}, "algorithm: beta[1]: "),
        ("methods", ["swa", 3], "methods[1]: must be a valid string, not 3"),
        ("rounds", 0, "rounds: "),
    ],
)
def test_values_of_the_config_that_no_run_has_are_named(content, read, field, value, words):
    with pytest.raises(DataError, match=rf"config\.json: {re.escape(words)}"):
        read(toyresults.changed(content, **{field: value}))


def test_runs_that_cannot_be_ranked_are_read_if_asked_for(content, read, refused):
    for changes, words in (
        ({"final__unseen__mIoU": None}, ("final.unseen.mIoU: ",)),
        (
            {"completed_rounds": 40, "curves": curves([20, 40])},
            ("completed_rounds: ", "40 of 1600 rounds", "--resume"),
        ),
        ({"curves": curves([800, 1550])}, ("final_round: ", "1550 of 1600")),
        ({"curves": curves([]), "final": {}}, ("final_round: ",)),
        ({"curves": curves([800, 1601])}, ("final_round: ", "1601")),
        ({"final__unseen__mIoU": 40.0}, ("final.unseen.mIoU: is 40.0, must be 50.0",)),
        ({"final__new": {"mIoU": 100.5}}, ("new/mIoU: is 100.5, must be from 0 to 100",)),
        (
            {"curves": curves([800, 1600], figures={"unseen/mIoU": [170.0, 50.0]})},
            ("unseen/mIoU: is 170.0",),
        ),
    ):
        changed = toyresults.changed(content, **changes)
        refused(changed, *words)
        assert read(changed, strict=False).name == content["name"]


def test_what_runs_may_have_is_read(content, read):
    """Gaps in curves, metrics of another range, several views of a model."""
    for changes in (
        {"curves": curves([800, 1600], figures={"unseen/mIoU": [None, None]})},
        {
            "curves": curves([800, 1600], figures={"unseen/loss": [-1.0, 170.0]}),
            "final__unseen__loss": 170.0,
        },
        {"final__global:unseen": {"mIoU": 1.0, "IoU": {"road": None}}},
        {"communication": {"bytes_down": 0, "bytes_up": 0}, "curves__bytes": [0] * 21},
    ):
        assert read(toyresults.changed(content, **changes))


def test_unknown_versions_are_refused(content, refused):
    for version in (99, 4, 0, -1, "5", None, True):
        words = f" schema_version: must be 5, not {version!r}: update fedseg if it is older"
        refused({**content, "schema_version": version}, words)


def test_reading_runs_imports_no_torch():
    modules = "fedseg.runs.run_files, fedseg.runs.curvature_files, fedseg.runs.run_files"
    heavy = "{'torch', 'mmengine', 'mmseg', 'albumentations', 'matplotlib', 'numpy'}"
    program = f"import sys, {modules}; sys.exit(str({heavy} & sys.modules.keys() or ''))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_tables_of_fields_are_those_of_the_models():
    """The page has a row for every field with a description, in the order of the model."""
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    tables = page.split("| field | what |\n|---|---|\n")[1:]
    for model, table in zip((Record, ResultsFile, DataFacts), tables, strict=True):
        rows = []
        for name, field in model.model_fields.items():
            if field.description:
                rows.append(f"| `{name}` | {field.description} |")
        assert table.split("\n\n")[0].splitlines() == rows
