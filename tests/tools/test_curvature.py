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

from fedseg.curvature.checkpoint import opened
from fedseg.curvature.clients import load_model, train_models
from fedseg.curvature.landscape import compute_landscape
from fedseg.curvature.settings import Source, Spec
from fedseg.curvature.surface import LossSurface, Point
from fedseg.errors import ConfigError
from fedseg.evaluation.domains import statistics_batches, statistics_of
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
    return Path(toyquad.run(tmp_path_factory.mktemp("quad"), {"type": "FedAvg"})["work_dir"])


@pytest.fixture(scope="module")
def silo(tmp_path_factory) -> Path:
    """A run with SiloBN whose clients have statistics of their own."""
    config = toyseg.run(tmp_path_factory.mktemp("silo"), train_cfg={"max_rounds": 2})
    return Path(config["work_dir"])


def result(run: Path, name: str) -> dict:
    return json.loads((run / "curvature" / name / "curvature.json").read_text())


def test_quadratic_has_the_curvature_that_it_has(tool, refused, quadratic):
    names = ("top", "trace", "clients", "fedalign", "participants")
    arguments = ("--augment", "--top", 2, "--quantities", *names, "--clients", "all")
    # three parameters: a trace needs more than the two random vectors that fit
    assert "probes" in refused(quadratic, *arguments, "--tolerance", 1e-10)
    more = "clients", "--quantities", "fedalign", "participants", "updated", "--clients", "all"
    code, _, err = tool(quadratic, *arguments[:5], *more, "--tolerance", 1e-10)
    assert code == 0, err
    found = result(quadratic, "round_000003-augmented")
    assert found["checkpoint_sha256"] == sha256(quadratic / "checkpoints" / "round_000003.pth")
    curvature = toyquad.samples()[0].mean(0)
    top = found["quantities"]["top"]
    assert top["num_samples"] == 8
    np.testing.assert_allclose(top["eigenvalues"], np.sort(curvature)[::-1][:2], rtol=1e-8)
    own = {client: toyquad.of_client(client)[0] for client in toyquad.USERS}
    for client, value in found["quantities"]["clients"]["lambda_max"].items():
        assert value == pytest.approx(own[client].max())
    # of a quadratic, the curvature at the trained models is that of the global one
    trained = found["quantities"]["participants"]
    for client, value in trained["lambda_max_local"].items():
        assert value == pytest.approx(own[client].max())
        assert trained["lambda_max_global"][client] == pytest.approx(curvature.max())
    updated = found["quantities"]["updated"]["lambda_max"]
    assert updated == pytest.approx({client: own[client].max() for client in toyquad.USERS})
    lengths = [np.linalg.norm(d) for d in own.values()]
    pairs = [(k, j) for k in range(4) for j in range(k)]
    expected = np.mean([(lengths[k] - lengths[j]) ** 2 for k, j in pairs])
    difference = found["quantities"]["fedalign"]["hessian_norm_diff"]
    assert difference["value"] == pytest.approx(expected)
    names = "top", "clients", "fedalign", "participants"  # whatever was measured is read again
    _, _, err = tool(quadratic, *arguments[:4], *names, *arguments[8:], "--tolerance", 1e-10)
    assert [f"{name}: measured before" in err for name in names] == [True] * 4


def test_goes_on_where_it_was_stopped(tool, silo):
    _, _, err = tool(silo, "--samples", 8, "--quantities", "loss")
    assert "loss: measured before" not in err
    first = result(silo, "round_000002")
    code, _, err = tool(silo, "--samples", 8, "--quantities", "loss", "top", "--top", 3)
    assert code == 0, err
    assert "loss: measured before" in err
    both = result(silo, "round_000002")
    assert both["quantities"]["loss"] == first["quantities"]["loss"]
    assert len(both["quantities"]["top"]["residuals"]) == 3
    tool(silo, "--quantities", "top", "--top", 3, "--samples", 4)  # another top, the same loss
    other = result(silo, "round_000002")["quantities"]
    assert other["top"]["num_samples"] == 4
    assert other["loss"] == first["quantities"]["loss"]
    assert (silo / "curvature" / "round_000002" / "spectra.svg").stat().st_size > 1000


def test_what_a_changed_config_gives_is_measured_anew(tool, silo):
    arguments = (silo, "--data", "seen", "--samples", 4, "--quantities", "loss")
    tool(*arguments)
    usual = result(silo, "round_000002-seen-batch")
    assert usual["changed"] == [] and usual["dtype"] == "float32"
    assert usual["data_sha256"] is None and usual["quantities"]["loss"]["num_samples"] == 4
    _, _, err = tool(*arguments, *CHANGED)
    assert "measured before" not in err
    assert result(silo, "round_000002-seen-batch") == usual
    (other,) = silo.glob("curvature/*seen*changed*/curvature.json")
    content = json.loads(other.read_text())
    assert content["changed"] == [*CHANGED[1:]] and content["dtype"] == "float64"
    _, _, err = tool(*arguments, *CHANGED)
    assert "measured before" in err


@pytest.mark.parametrize("key", ["data_root", "train_dataloader.dataset.data_root", None])
def test_other_images_of_the_same_names_are_measured_anew(
    key, run_tool, small_config, small_run, tmp_path, monkeypatch
):
    def loss(folder: Path, run: Path) -> tuple[float, bool]:
        monkeypatch.chdir(folder)
        arguments = ["--quantities", "loss", "--trust", "small_network", "--samples", 2]
        arguments += ["--cfg-options", f"{key}=data"] if key else []
        code, _, err = run_tool("curvature", run, *arguments)
        assert code == 0, err
        (file,) = run.glob("curvature/*/curvature.json")
        found = json.loads(file.read_text())["quantities"]["loss"]["loss"]
        return found, "measured before" in err

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
    first, before = loss(one, one / "run")
    assert not before and loss(one, one / "run") == (first, True)
    found, before = loss(other, one / "run")
    assert not before and found != first and loss(other, one / "run") == (found, True)
    assert loss(one, one / "run") == (first, False)
    one.rename(tmp_path / "moved")  # the run with its data
    assert loss(tmp_path / "moved", tmp_path / "moved" / "run") == (first, True)


QUANTITIES = ("top", "clients", "density", "features", "spectrum", "trace", "participants")


@pytest.mark.parametrize(
    "entry",
    [{"lambda_max": "<b>", "eigenvalues": "x"}, {"quartiles": [1], "num_samples": [1]}],
)
def test_a_damaged_file_of_results_breaks_nothing(tool, silo, entry):
    tool(silo, "--quantities", "loss", "--samples", 3)
    path = silo / "curvature" / "round_000002" / "curvature.json"
    content = json.loads(path.read_text())
    content["quantities"] |= dict.fromkeys(QUANTITIES, entry)
    path.write_text(json.dumps(content))
    code, out, err = tool(silo, "--quantities", "loss", "--samples", 3)
    assert code == 0, err
    assert "loss: measured before" in err and "lambda" not in out
    # made to look like the tool's own
    whole = {"num_samples": 3, "settings": {}, "seconds": 1.0, **entry}
    content["quantities"] |= dict.fromkeys(QUANTITIES, whole)
    path.write_text(json.dumps(content))
    code, _, err = tool(silo, "--quantities", "loss", "--samples", 3)
    assert code in (0, 2) and (code == 0 or "cannot continue an earlier curvature.json" in err)
    path.unlink()


@pytest.mark.parametrize(
    "entry",
    [{"num_samples": 10**400}, {"lambda_max": {"a": 1e308}}, {"nodes": [[1e307, 2]]}],
)
def test_a_number_too_large_for_sums_is_told_and_all_is_measured_anew(tool, silo, entry):
    tool(silo, "--quantities", "loss", "--samples", 3)
    path = silo / "curvature" / "round_000002" / "curvature.json"
    content = json.loads(path.read_text())
    content["quantities"]["top"] = entry
    path.write_text(json.dumps(content))
    code, _, err = tool(silo, "--quantities", "loss", "--samples", 3)
    assert code == 0 and "measured before" not in err
    (name,) = entry
    assert f"quantities.top: {name}" in err and "measured anew" in " ".join(err.split())
    path.unlink()


def test_a_damaged_file_of_results_is_told_and_measured_anew(tool, silo):
    options = ("--quantities", "loss", "--samples", 3)
    tool(silo, *options)
    path = silo / "curvature" / "round_000002" / "curvature.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "quantities": {"loss": 3}}))
    code, _, err = tool(silo, *options)
    fault = "quantities.loss: must be a valid dictionary, not 3"
    assert code == 0 and f"{fault}: measured anew" in err.replace("\n", "")
    assert (
        json.loads(path.read_text())["quantities"]["loss"]["loss"]
        == content["quantities"]["loss"]["loss"]
    )


def test_clients_are_seen_with_statistics_of_their_own(tool, silo):
    tool(f"{silo}:global", "--quantities", "loss")
    options = "--tolerance", 0.5, "--samples", 4
    tool(f"{silo}:global", "--quantities", "participants", *options)
    found = result(silo, "round_000002-global")["quantities"]
    payload = torch.load(silo / "checkpoints" / "round_000002.pth", weights_only=True)
    total, images = 0.0, 0
    with opened(Source((str(silo),), trusted=("toyseg",))) as run:
        point = run.load(silo / "checkpoints" / "round_000002.pth", averaged=False)
        for client, state in payload["client_statistics"].items():
            data = run.samples(client=client, personal=False)
            assert {len(batch) for part in data.parts for batch in part.plan} == {1}  # from disk
            w, buffers = run.local_state.personal_model(point.w, point.buffers, [(1, state)])
            total += len(data) * LossSurface(run.flat, data, Point("", w, buffers)).loss()[0]
            images += len(data)
    assert found["loss"]["loss"] == pytest.approx(total / images)
    assert len(found["participants"]["lambda_max_local"]) == 3


def test_statistics_between_models_are_taken_anew_at_every_point(silo, tmp_path):
    paths = tuple(str(silo / "checkpoints" / f"round_00000{n}.pth") for n in (1, 2))
    source = Source(tuple(f"{path}:global" for path in paths), trusted=("toyseg",))
    with pytest.raises(ConfigError, match="--statistics"):
        compute_landscape(Spec(source=source), tmp_path)
    options = {"source": source, "points": 3, "ends": (0, 1), "statistics": "reestimate"}
    (series,) = compute_landscape(Spec(**options), tmp_path)["series"]
    with opened(source) as run:
        b, a = (run.load(Path(path), averaged=False) for path in paths)
        w = (a.w.double() / 2 + b.w.double() / 2).float()
        middle = (a.buffers.double() / 2 + b.buffers.double() / 2).float()
        buffers = statistics_of(run.flat, statistics_batches(run.data), w, middle)
        data = run.samples(personal=False)
        losses = [LossSurface(run.flat, data, Point("", w, b)).loss()[0] for b in (buffers, middle)]
    assert series["loss"][1] == pytest.approx(losses[0], rel=1e-5)
    assert abs(losses[1] - losses[0]) > 1e-3


def test_a_line_from_the_average_to_the_global_model_of_one_run(silo, tmp_path):
    source = Source((str(silo), f"{silo}:global"), trusted=("toyseg",))
    options = {"statistics": "batch", "points": 2, "ends": (0, 1)}
    (series,) = compute_landscape(Spec(source=source, **options), tmp_path)["series"]
    payload = torch.load(silo / "checkpoints" / "round_000002.pth", weights_only=True)
    with opened(source) as run:
        data, losses = run.samples(personal=False, evaluated=True), []
        for weights in (payload["averaged_state_dict"], payload["state_dict"]):
            run.flat.load_state_dict(weights)
            point = Point("", run.flat.w.clone(), run.flat.buffers.clone())
            losses.append(LossSurface(run.flat, data, point, "batch").loss()[0])
    assert series["models"] == [str(silo), f"{silo}:global"]
    assert series["loss"] == pytest.approx(losses, rel=1e-6)
    assert abs(losses[1] - losses[0]) > 1e-3


def test_a_line_to_a_participant_begins_at_the_model_that_it_received(silo, tmp_path):
    source = Source((str(silo),), trusted=("toyseg",))
    with opened(source) as run:
        last = silo / "checkpoints" / "round_000002.pth"
        client = train_models(run, last)[0].name
        received, data = run.load(last, averaged=False), run.samples(personal=False, evaluated=True)
        loss = LossSurface(run.flat, data, received, "batch").loss()[0]
    options = {"client": client, "statistics": "batch", "points": 2, "ends": (0, 1)}
    _, everything = compute_landscape(Spec(source=source, **options), tmp_path)["series"]
    assert everything["loss"][0] == pytest.approx(loss, rel=1e-6)


CYCLE = {"averaging": {"type": "SWA", "start": 2, "cycle": 4, "lr2": 0.001, "priority": "NORMAL"}}


MIME = {
    "algorithm": {"type": "MIME", "momentum": 0.5},
    "optim_wrapper": {"optimizer": {"momentum": 0.0}},
}


@pytest.mark.parametrize("changes", [{}, MIME], ids=["FedAvg", "MIME"])
def test_a_clients_model_is_named_and_is_the_one_that_it_trains(
    tool, refused, silo, tmp_path, changes
):
    keep = {"default_hooks": {"checkpoint": {"keep_every": 1}}}
    config = toyseg.run(tmp_path, train_cfg={"max_rounds": 2}, **keep, **changes)
    run, first = config["work_dir"], Path(config["work_dir"]) / "checkpoints" / "round_000001.pth"
    with opened(Source((run,), trusted=("toyseg",))) as data:
        participants = {point.name: point for point in train_models(data, first)}
        other = next(name for name in data.data.clients if name not in participants)
        name, expected = list(participants.items())[-1]
        names = f"{run}:client={name}@1", f"{first}:client={name}", f"{run}:client={other}@1"
        source = Source(names, trusted=("toyseg",))
        found = [load_model(source, n, data, first) for n in range(3)]
        for point in found[:2]:
            assert torch.equal(point.w, expected.w) and torch.equal(point.buffers, expected.buffers)
        assert not torch.equal(found[2].w, expected.w) and found[2].name == names[2]
        samples = data.samples(client=name, count=4, personal=False)
        loss = LossSurface(data.flat, samples, expected).loss()[0]
    source = Source((str(silo), names[0]), trusted=("toyseg",))  # of another run than the first
    with opened(source) as data:
        assert torch.equal(load_model(source, 1, data, first).w, expected.w)
    code, _, err = tool(names[0], "--client", name, "--samples", 4, "--quantities", "loss")
    assert code == 0, err
    content = result(Path(run), f"round_000001-{name}-trained_by_{name}")
    assert content["quantities"]["loss"]["loss"] == pytest.approx(loss)
    options = {"statistics": "batch", "points": 2, "samples": 4, "ends": (0, 1)}
    paths = (f"{run}:global", f"{run}:client={name}@1", names[2])
    source = Source(paths, trusted=("toyseg",))
    content = compute_landscape(Spec(kind="plane", source=source, **options), tmp_path / "plane")
    assert list(content["marks"]) == list(paths)
    for wrong, words in (
        (f"{run}:client={name}@7", f"round 7, only of 1, 2; if the client's ID is {name}@7"),
        (f"{run}:client=x", "'x'"),
        (f"{run}:client=x@12@", "'x@12'"),  # the newest, whatever the ID ends in
        (f"{run}:client=", "with :client=ID@ROUND a client's model"),
    ):
        assert words in " ".join(refused(wrong).split())


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
    with opened(Source((config["work_dir"],), trusted=("toyseg",))) as run:
        models = train_models(run, folder / "round_000001.pth")
        sizes = dict(zip(run.data.clients, run.data.sizes, strict=True))
        total = sum(sizes[point.name] for point in models)
        mean = sum(point.w.double() * (sizes[point.name] / total) for point in models)
        after = run.load(folder / "round_000002.pth", averaged=False)
        torch.testing.assert_close(mean.float(), after.w, rtol=0, atol=1e-6)
        for one in models:
            (again,) = train_models(run, folder / "round_000001.pth", [one.name])
            assert torch.equal(again.w, one.w)


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
