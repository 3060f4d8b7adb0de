"""fedseg curvature on finished runs: what it measures, that it goes on, kind errors."""

import json
import shutil
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import toyquad
import toyseg

from fedseg.curvature.clients import train_models
from fedseg.curvature.landscape import Spec, compute_landscape
from fedseg.curvature.run_data import Selection, open_run
from fedseg.curvature.surface import LossSurface, Point
from fedseg.errors import ConfigError
from fedseg.evaluation.statistics import statistics_batches, statistics_of
from fedseg.files import sha256
from fedseg.runner.work_dir import lock_work_dir

CHANGED = ("--cfg-options", "dtype=float64", "train_cfg.amp=False")


@pytest.fixture
def tool(run_tool):
    def run(*arguments):
        return run_tool("curvature", *arguments, "--trust", "toyseg", "toyquad")

    return run


@pytest.fixture
def refused(tool):
    """Runs what must be refused; its message."""

    def run(*arguments) -> str:
        code, _, err = tool(*arguments)
        assert code == 2
        return err

    return run


@pytest.fixture(scope="module")
def quadratic(tmp_path_factory) -> Path:
    """A run on the quadratic, whose curvature can be written down."""
    config = toyquad.run(
        tmp_path_factory.mktemp("quad"),
        {"type": "FedAvg"},
        val_dataloader={"seen": {"dataset": {"type": "ToyQuadratics"}}},
        val_evaluator={"type": "PixelAccuracy"},
    )
    return Path(config["work_dir"])


@pytest.fixture(scope="module")
def silo(tmp_path_factory) -> Path:
    """A run with SiloBN whose clients have statistics of their own."""
    keep = {"default_hooks": {"checkpoint": {"keep_every": 1}}}
    config = toyseg.run(tmp_path_factory.mktemp("silo"), train_cfg={"max_rounds": 2}, **keep)
    return Path(config["work_dir"])


def checkpoint(run: Path, round_: int) -> Path:
    return run / "checkpoints" / f"round_{round_:06d}.pth"


def opened(path: Path):
    return open_run(path, trusted=["toyseg"])


def content_of(run: Path, folder: str, quantity: str) -> dict:
    return json.loads((run / "curvature" / folder / f"{quantity}.json").read_text())


def values_of(run: Path, folder: str, quantity: str) -> dict:
    return content_of(run, folder, quantity)["values"]


def test_quadratic_has_the_curvature_that_it_has(tool, refused, quadratic):
    # three parameters: a trace needs more than the two random vectors that fit
    assert "probes" in refused(quadratic, "--quantities", "trace")
    names = ("top", "clients", "fedalign", "participants", "updated")
    options = ("--top", 2, "--clients", "all", "--tolerance", 1e-10)
    code, _, err = tool(quadratic, "--quantities", *names, *options)
    assert code == 0, err
    top = content_of(quadratic, "round_000003", "top")
    assert top["checkpoint_sha256"] == sha256(checkpoint(quadratic, 3))
    assert top["num_samples"] == 8
    assert top["options"] == {"top": 2, "tolerance": 1e-10}
    curvature = toyquad.samples()[0].mean(0)
    expected = np.sort(curvature)[::-1][:2]
    np.testing.assert_allclose(top["values"]["eigenvalues"], expected, rtol=1e-8)
    own = {client: toyquad.of_client(client)[0] for client in toyquad.USERS}
    largest = {client: own[client].max() for client in toyquad.USERS}
    found = {name: values_of(quadratic, "round_000003", name) for name in names}
    assert found["clients"]["lambda_max"] == pytest.approx(largest)
    # of a quadratic, the curvature at the trained models is that of the global one
    participants = found["participants"]
    for client, value in participants["lambda_max_local"].items():
        assert value == pytest.approx(largest[client])
        assert participants["lambda_max_global"][client] == pytest.approx(curvature.max())
    assert found["updated"]["lambda_max"] == pytest.approx(largest)
    lengths = [np.linalg.norm(d) for d in own.values()]
    pairs = [(k, j) for k in range(4) for j in range(k)]
    expected = np.mean([(lengths[k] - lengths[j]) ** 2 for k, j in pairs])
    assert found["fedalign"]["hessian_norm_diff"]["value"] == pytest.approx(expected)
    _, _, err = tool(quadratic, "--quantities", *names, *options)
    assert [f"{name}: measured before" in err for name in names] == [True] * 5


def test_goes_on_where_it_was_stopped_and_overwrites_nothing(tool, refused, silo):
    _, _, err = tool(silo, "--samples", 8, "--quantities", "loss")
    assert "loss: measured before" not in err
    first = content_of(silo, "round_000002", "loss")
    code, _, err = tool(silo, "--samples", 8, "--quantities", "loss", "top", "--top", 3)
    assert code == 0, err
    assert "loss: measured before" in err
    assert content_of(silo, "round_000002", "loss") == first
    top = content_of(silo, "round_000002", "top")
    assert len(top["values"]["residuals"]) == 3
    err = refused(silo, "--quantities", "top", "--top", 2, "--samples", 8)
    assert "top.json: was measured with another options" in err and "--out" in err
    err = refused(silo, "--quantities", "loss", "--samples", 4)
    assert "loss.json: was measured with another num_samples (8, now 4)" in err
    assert content_of(silo, "round_000002", "top") == top
    assert (silo / "curvature" / "round_000002" / "spectra.svg").stat().st_size > 1000


def test_a_changed_config_has_a_folder_of_its_own(tool, silo):
    arguments = (silo, "--data", "seen", "--samples", 4, "--quantities", "loss")
    tool(*arguments)
    usual = content_of(silo, "round_000002-seen", "loss")
    assert usual["changed"] == [] and usual["dtype"] == "float32"
    assert usual["data_sha256"] is None and usual["num_samples"] == 4
    code, _, err = tool(*arguments, *CHANGED)
    assert code == 0 and "measured before" not in err
    assert content_of(silo, "round_000002-seen", "loss") == usual
    (folder,) = (silo / "curvature").glob("round_000002-seen-changed_*")
    changed = content_of(silo, folder.name, "loss")
    assert changed["changed"] == [*CHANGED[1:]] and changed["dtype"] == "float64"
    _, _, err = tool(*arguments, *CHANGED)
    assert "measured before" in err
    code, _, err = tool(*arguments, "--cfg-options", "dtype=float64")
    assert code == 0 and "measured before" not in err
    assert len([*(silo / "curvature").glob("round_000002-seen-changed_*")]) == 2


@pytest.mark.parametrize("key", ["data_root", "train_dataloader.dataset.data_root", None])
def test_other_images_of_the_same_names_are_refused(
    key, run_tool, small_config, small_run, tmp_path, monkeypatch
):
    def loss(folder: Path, run: Path) -> tuple[int, str]:
        monkeypatch.chdir(folder)
        arguments = ["--quantities", "loss", "--trust", "small_network", "--samples", 2]
        arguments += ["--cfg-options", f"{key}=data"] if key else []
        code, _, err = run_tool("curvature", run, *arguments)
        return code, err

    one, other = tmp_path / "one", tmp_path / "other"
    shutil.copytree(small_run, one / "run", ignore=shutil.ignore_patterns("curvature"))
    if key is None:  # the run recorded a path as seen from where it was started
        file = one / "run" / "config.json"
        recorded = str(small_config.parent / "data")
        text = file.read_text()
        assert recorded in text
        file.write_text(text.replace(recorded, "data"))
    for folder in (one, other):
        shutil.copytree(small_config.parent / "data", folder / "data")
    for image in other.glob("data/IDDAsmall/*/RGB/*"):
        cv2.imwrite(str(image), 255 - cv2.imread(str(image)))
    code, err = loss(one, one / "run")
    assert code == 0 and "measured before" not in err
    code, err = loss(other, one / "run")
    assert code == 2 and "was measured with another data_sha256" in err
    one.rename(tmp_path / "moved")  # the run with its data
    code, err = loss(tmp_path / "moved", tmp_path / "moved" / "run")
    assert code == 0 and "measured before" in err


@pytest.mark.parametrize("entry", [{"loss": "<b>"}, {"loss": 1e308}, {"metrics": [1]}])
def test_a_damaged_file_of_results_is_refused(tool, refused, silo, entry):
    options = ("--quantities", "loss", "--samples", 8)
    tool(silo, *options)
    path = silo / "curvature" / "round_000002" / "loss.json"
    text = path.read_text()
    content = json.loads(text)
    content["values"] |= entry
    path.write_text(json.dumps(content))
    err = refused(silo, *options)
    assert "loss.json: values" in " ".join(err.split())
    path.write_text(text[:100])
    assert "loss.json" in refused(silo, *options)
    path.write_text(text)


def test_clients_are_seen_with_statistics_of_their_own(tool, silo):
    tool(silo, "--global-model", "--quantities", "loss")
    options = "--tolerance", 0.5, "--samples", 4, "--out", silo.parent / "participants"
    tool(silo, "--global-model", "--quantities", "participants", *options)
    loss = values_of(silo, "round_000002-global", "loss")
    participants = json.loads((silo.parent / "participants" / "participants.json").read_text())
    payload = torch.load(checkpoint(silo, 2), weights_only=True)
    total, images = 0.0, 0
    with opened(checkpoint(silo, 2)) as run:
        point = run.load(checkpoint(silo, 2), global_model=True)
        for client, state in payload["client_statistics"].items():
            data = run.samples(run.in_small_batches(Selection(client=client)))
            assert {len(batch) for part in data.parts for batch in part.plan} == {1}  # from disk
            w, buffers = run.local_state.personal_model(point.w, point.buffers, [(1, state)])
            total += len(data) * LossSurface(run.flat, data, Point("", w, buffers)).loss()
            images += len(data)
    assert loss["loss"] == pytest.approx(total / images)
    assert len(participants["values"]["lambda_max_local"]) == 3


def compute(spec: Spec, folder: Path, *paths: Path) -> dict:
    files = {str(path): path for path in paths}
    with opened(paths[0]) as run:
        return compute_landscape(run, spec, files, folder)


def test_statistics_between_models_are_taken_anew_at_every_point(silo, tmp_path):
    paths = [checkpoint(silo, 1), checkpoint(silo, 2)]
    with pytest.raises(ConfigError, match="--statistics"):
        compute(Spec("line", global_model=True), tmp_path, *paths)
    spec = Spec("line", global_model=True, points=3, ends=(0, 1), statistics="reestimate")
    (series,) = compute(spec, tmp_path, *paths)["series"]
    with opened(paths[0]) as run:
        b, a = (run.load(path, global_model=True) for path in paths)
        w = (a.w.double() / 2 + b.w.double() / 2).float()
        middle = (a.buffers.double() / 2 + b.buffers.double() / 2).float()
        buffers = statistics_of(run.flat, statistics_batches(run.data), w, middle)
        data = run.samples(run.in_small_batches(Selection()))
        losses = [LossSurface(run.flat, data, Point("", w, b)).loss() for b in (buffers, middle)]
    assert series["loss"][1] == pytest.approx(losses[0], rel=1e-5)
    assert abs(losses[1] - losses[0]) > 1e-3


@pytest.mark.parametrize(
    ("global_model", "key"), [(False, "averaged_state_dict"), (True, "state_dict")]
)
def test_the_average_or_the_global_model_is_taken(silo, tmp_path, global_model, key):
    spec = Spec("line", global_model, statistics="batch", points=2, ends=(0, 1))
    paths = [checkpoint(silo, 1), checkpoint(silo, 2)]
    (series,) = compute(spec, tmp_path, *paths)["series"]
    with opened(paths[0]) as run:
        data = run.samples(Selection())
        losses = []
        for path in paths:
            run.flat.load_state_dict(torch.load(path, weights_only=True)[key])
            point = Point("", run.flat.w.clone(), run.flat.buffers.clone())
            losses.append(LossSurface(run.flat, data, point, "batch").loss())
    assert series["models"] == [str(path) for path in paths]
    assert series["loss"] == pytest.approx(losses, rel=1e-6)
    assert abs(losses[1] - losses[0]) > 1e-3


def test_a_line_to_a_participant_begins_at_the_model_that_it_received(silo, tmp_path):
    last = checkpoint(silo, 2)
    with opened(last) as run:
        client = train_models(run, last)[0].name
        received = run.load(last, global_model=True)
        loss = LossSurface(run.flat, run.samples(Selection()), received, "batch").loss()
    spec = Spec("line", clients=(client,), statistics="batch", points=2, ends=(0, 1))
    _, everything = compute(spec, tmp_path, last)["series"]
    assert everything["loss"][0] == pytest.approx(loss, rel=1e-6)


CYCLE = {"averaging": {"type": "SWA", "start": 2, "cycle": 4, "lr2": 0.001, "priority": "NORMAL"}}


MIME = {
    "algorithm": {"type": "MIME", "momentum": 0.5},
    "optim_wrapper": {"optimizer": {"momentum": 0.0}},
}


@pytest.mark.parametrize("changes", [{}, MIME], ids=["FedAvg", "MIME"])
def test_a_client_trains_the_same_model_alone_and_leaves_no_trace(tmp_path, changes):
    keep = {"default_hooks": {"checkpoint": {"keep_every": 1}}}
    config = toyseg.run(tmp_path, train_cfg={"max_rounds": 2}, **keep, **changes)
    run = Path(config["work_dir"])
    first = checkpoint(run, 1)
    before = {path: sha256(path) for path in run.rglob("*") if path.is_file()}
    with opened(first) as data:
        participants = {point.name: point for point in train_models(data, first)}
        other = next(name for name in data.data.clients if name not in participants)
        name, expected = list(participants.items())[-1]
        (alone,) = train_models(data, first, [name])
        assert torch.equal(alone.w, expected.w) and torch.equal(alone.buffers, expected.buffers)
        (beside,) = train_models(data, first, [other])
        assert beside.name == other and not torch.equal(beside.w, expected.w)
        with pytest.raises(ConfigError, match="--client: the run has no client 'x'"):
            train_models(data, first, ["x"])
    assert {path: sha256(path) for path in run.rglob("*") if path.is_file()} == before


WEIGHTED = {
    "model": {
        "_delete_": True,
        "type": "Segmentor",
        "network": {"type": "ToySegNet"},
        "num_classes": None,
        "loss": {"type": "CrossEntropy"},
    },
    "local_loss": {"type": "ClassWeights", "most": 1.5},
}


@pytest.mark.parametrize(
    "changes",
    [{}, CYCLE, WEIGHTED],
    ids=["SWA of every round", "a cycle of rates", "a payload of the server"],
)
def test_participants_are_trained_as_the_run_trains_them(tmp_path, changes):
    """Their mean is the next global model of a run that goes on; one after the other the same."""
    config = toyseg.run(tmp_path, train_cfg={"max_rounds": 2}, **changes)
    folder = Path(config["work_dir"]) / "checkpoints"
    with opened(folder / "round_000002.pth") as run:
        models = train_models(run, folder / "round_000001.pth")
        sizes = dict(zip(run.data.clients, run.data.sizes, strict=True))
        total = sum(sizes[point.name] for point in models)
        mean = sum(point.w.double() * (sizes[point.name] / total) for point in models)
        after = run.load(folder / "round_000002.pth", global_model=True)
        torch.testing.assert_close(mean.float(), after.w, rtol=0, atol=1e-6)
        for model in models:
            (again,) = train_models(run, folder / "round_000001.pth", [model.name])
            assert torch.equal(again.w, model.w)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: s.update({"conv1.bias": torch.full((6,), torch.nan)}), "not finite"),
        (lambda s: s.update({"conv1.bias": torch.zeros(7)}), "another model"),
    ],
)
def test_a_checkpoint_that_cannot_be_measured(refused, silo, tmp_path, spoil, words):
    run = tmp_path / "run"
    shutil.copytree(silo, run)
    path = run / "checkpoints" / "round_000002.pth"
    payload = torch.load(path, weights_only=True)
    del payload["averaged_state_dict"]
    path.with_name(f"{path.name}.sha256").unlink()
    spoil(payload["state_dict"])
    torch.save(payload, path)
    err = refused(path)
    assert words in err and err.count("\n") == 1


def test_a_strangers_run_is_data(refused, silo, tmp_path):
    """Import paths, links out of the folder and a second process are refused."""
    run = tmp_path / "run"
    shutil.copytree(silo, run, ignore=shutil.ignore_patterns("curvature"))
    config = json.loads((run / "config.json").read_text())
    config["train_dataloader"]["partition"] = {"type": "os.system", "command": "exit"}
    (run / "config.json").write_text(json.dumps(config))
    assert "train_dataloader.partition.type" in refused(run)
    shutil.copy(silo / "config.json", run)
    (run / "curvature").symlink_to(tmp_path)
    assert "curvature" in refused(run)
    (run / "curvature").unlink()
    with lock_work_dir(run / "curvature" / "round_000002"):
        assert "in use" in refused(run)


def test_wrong_arguments_are_named(refused, silo, tmp_path):
    for arguments, word in [
        ((silo, "--data", "sideways"), "--data"),
        ((silo, "--client", "nobody"), "--client"),
        ((silo, "--quantities", "trase"), "--quantities"),
        ((silo, "--quantities", "participants", "--client", "a"), "--client"),
        ((silo, "--data", "seen", "--client", "a"), "--client"),
        ((silo, "--samples", 0), "--samples"),
        *[((silo, "--rho", rho), "--rho") for rho in (0, 1e300)],  # a length without a square
        ((tmp_path,), str(tmp_path)),
    ]:
        assert word in refused(*arguments)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("out", ["/proc/none", "/dev/null/none"])
def test_a_place_where_nothing_can_be_written_is_named_itself(run_tool, small_run, out):
    options = ("--quantities", "loss", "--trust", "small_network", "--samples", 2)
    code, _, err = run_tool("curvature", small_run, "--out", out, *options)
    assert code == 2 and err.startswith(f"error: {out}: ")
