"""Archives of runs: whole, the same every time, and refused where anything else is in them."""

import json
import pickle
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from faults import Payload

import fedseg
from fedseg.errors import ConfigError, DataError
from fedseg.inference.share import model_card
from fedseg.runner.recorded import read_recorded
from fedseg.runs.run_files import read_run


@pytest.fixture(scope="module")
def archive(small_run, tmp_path_factory):
    return fedseg.share(small_run, tmp_path_factory.mktemp("share") / "run.zip", "apache-2.0")


def members(archive) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_an_unpacked_archive_is_the_run(archive, small_run, tmp_path):
    run, out = fedseg.read_run(small_run), tmp_path / "run"
    again = fedseg.share(run, tmp_path / "again.zip", "apache-2.0")
    assert again.read_bytes() == archive.read_bytes()
    found = fedseg.verify(archive, out)
    assert {k: run.metrics[k] for k in found["metrics"]} == found["metrics"] and found["round"] == 6
    assert fedseg.read_run(out).metrics == run.metrics
    done = fedseg.evaluate(out, out=tmp_path / "test", trust=["small_network"])
    assert all(done.metrics[name] == run.metrics[name] for name in done.metrics)
    with pytest.raises(DataError, match="empty"):
        fedseg.verify(archive, out)
    card = (out / "README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["license"] == "apache-2.0" and head["pipeline_tag"] == "image-segmentation"
    told = {
        f"{one['dataset']['split']}/{one['metrics'][0]['type']}": one["metrics"][0]["value"]
        for one in head["model-index"][0]["results"]
    }
    assert told == found["metrics"]
    from huggingface_hub import ModelCard

    assert ModelCard(card).data.library_name == "fedseg"
    config, results = (out / name for name in ("config.json", "results.json"))
    config.write_text(config.read_text() + "\n")
    with pytest.warns(UserWarning, match=r"run/config\.json: was changed"):
        read_recorded(out)
    config.write_text(config.read_text()[:-1])
    results.write_text(results.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(DataError, match=f"^{out}: results.json: was changed"):
        fedseg.share(out, tmp_path / "other.zip")
    (out / "history.jsonl").unlink()
    for folder, fault in ((out, "/history.jsonl: is missing"), (tmp_path, ": has no run")):
        with pytest.raises(DataError, match=f"^{folder}{fault}"):
            fedseg.share(folder, tmp_path / "other.zip")


@pytest.mark.parametrize("metric", ["mDice", "mBIoU"])
@pytest.mark.parametrize("view", ["rain", "global:rain"])
def test_the_card_of_other_metrics_of_segmentation_names_the_task(small_run, metric, view):
    run = read_run(small_run)
    data = {**run.results.data, "test:rain": run.results.train.model_copy(update={"dataset": "R"})}
    update = {"final": {view: {metric: 50.0}}, "data": data}
    run = replace(run, results=run.results.model_copy(update=update))
    vars(run)["last"] = {f"{view}/{metric}": 50.0}
    card = model_card(run, "other", 6)
    assert 'pipeline_tag: "image-segmentation"' in card and f'"name": "R ({view})"' in card


def test_an_upload_is_what_is_in_the_archive(small_run, archive, tmp_path, monkeypatch):
    import huggingface_hub

    seen = {}

    class Hub:
        def create_repo(self, name, exist_ok):
            seen["name"] = name

        def upload_folder(self, repo_id, folder_path):
            files = (path for path in Path(folder_path).rglob("*") if path.is_file())
            seen["files"] = {str(path.relative_to(folder_path)) for path in files}

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    fedseg.share(small_run, tmp_path / "run.zip", upload="me/run")
    assert seen == {"name": "me/run", "files": set(members(archive))}
    with pytest.raises(ConfigError, match="license"):
        fedseg.share(small_run, tmp_path / "run.zip", license="a: b")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        *[(fault, "is not an archive") for fault in ("slip", "extra", "missing", "twice")],
        ("link", "README.md: is a link"),
        ("bomb", "would unpack to 128.0 MiB"),
        ("pickle", "cannot be read as a checkpoint"),
        ("changed", "README.md: was changed"),
        ("card", "README.md: is not the card of this run"),
        ("results", "final.seen.mIoU: is 99.0"),
        ("sums", r"checksums.json: is not readable as JSON \(NaN"),
    ],
)
def test_other_archives_are_refused(archive, fault, message, tmp_path):
    content, path = members(archive), tmp_path / f"{fault}.zip"
    weights = next(name for name in content if name.endswith(".pth"))
    if fault == "slip":
        content["../escaped.txt"] = b"x"
    elif fault == "extra":
        content["run.py"] = b"raise SystemExit"
    elif fault == "bomb":
        content["history.jsonl"] = bytes(2**27)
    elif fault == "pickle":
        content[weights] = pickle.dumps({"state_dict": Payload(tmp_path / "ran")})
    elif fault == "changed":
        content["README.md"] += b"more"
    elif fault == "results":
        results = json.loads(content["results.json"])
        results["final"]["seen"]["mIoU"] = 99.0
        content["results.json"] = json.dumps(results).encode()
    elif fault == "missing":
        del content[weights]
    elif fault == "card":
        content["README.md"] = content["README.md"].replace(b"| mIoU | ", b"| mIoU | 9")
    elif fault == "sums":
        content["checksums.json"] = b'{"README.md": NaN}'
    if fault in ("pickle", "results", "card"):
        import hashlib

        sums = {name: hashlib.sha256(content[name]).hexdigest() for name in content}
        sums.pop("checksums.json")
        content["checksums.json"] = json.dumps(sums).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in content.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            if fault == "link" and name == "README.md":
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(entry, value)
        if fault == "twice":
            with pytest.warns(UserWarning):
                file.writestr("README.md", b"other")
    with pytest.raises(DataError, match=rf"^{path}: .*{message}"):
        fedseg.verify(path, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_damaged_bytes_are_told(archive, tmp_path):
    whole = archive.read_bytes()
    path = tmp_path / "cut.zip"
    for broken in (whole[:-30], whole[: len(whole) // 2], b"", b"no archive"):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"cut\.zip: "):
            fedseg.verify(path)
    for place in range(100, len(whole), len(whole) // 25):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = fedseg.verify(path)
        except DataError as error:
            assert "cut.zip" in str(error)
        else:  # a byte that means nothing, such as a time
            assert found == fedseg.verify(archive)
