"""Lines, planes and directions against their definitions; grids that can be stopped."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import toycls
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.curvature.directions import barrier, line, plane, random_directions
from fedseg.curvature.landscape import (
    FILE_NAME,
    Landscape,
    Spec,
    compute_landscape,
    default_folder,
)
from fedseg.curvature.run_data import open_run
from fedseg.curvature.surface import LossSurface, Point
from fedseg.errors import ConfigError, DataError
from fedseg.report.landscapes import write_landscape

W = torch.tensor([[1.0, 2, 0], [4, 2, 0], [2, 5, 1]]).double()


def points() -> list[Point]:
    buffers = torch.tensor([[1.0], [2], [5]]).double()
    return [Point(f"p{n}", w, b) for n, (w, b) in enumerate(zip(W, buffers, strict=True))]


def test_line_is_gamma_times_the_first_model():
    a, b, _ = points()
    w, buffers = line(a, b).at([0.25])
    torch.testing.assert_close(w, 0.25 * a.w + 0.75 * b.w)
    torch.testing.assert_close(buffers, 0.25 * a.buffers + 0.75 * b.buffers)


def test_plane_goes_through_the_three_models():
    models = points()
    found = plane(*models)
    u, v = found.axes
    assert float(u @ v) == pytest.approx(0, abs=1e-12)
    assert [float(u.norm()), float(v.norm())] == pytest.approx([1, 1])
    th1, th2, th3 = W.numpy()
    away, other = th2 - th1, th3 - th1
    x = other @ away / np.linalg.norm(away)
    y = np.sqrt(other @ other - x**2)
    expected = [(0, 0), (np.linalg.norm(away), 0), (x, y)]
    for point, place in zip(models, expected, strict=True):
        coordinates, distance = found.project(point.w)
        assert coordinates == pytest.approx(place)
        assert distance == pytest.approx(0, abs=1e-12)
        w, buffers = found.at(place)
        torch.testing.assert_close(w, point.w)
        torch.testing.assert_close(buffers, point.buffers)
    assert found.project(W[0] + torch.tensor([0, 0, 1.0]))[1] > 0.5


def test_models_on_a_line_make_no_plane():
    a, b, _ = points()
    for third in (Point("c", 2 * b.w - a.w, b.buffers), a):
        with pytest.raises(DataError, match="line"):
            plane(a, b, third)
    with pytest.raises(DataError, match="line"):
        plane(a, a, b)


def test_random_directions_have_filters_of_the_models_length():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    flat = FlatModel(model.double())
    point = Point("m", flat.w.clone(), flat.buffers.clone())
    found = random_directions(flat, point, 2, np.random.default_rng(0))
    for axis in found.axes:
        for name, part in flat.views(axis).items():
            weight = flat.views(point.w)[name]
            if part.dim() == 1:
                assert not part.any()
            for own, other in zip(part, weight, strict=True):
                if part.dim() > 1:
                    assert float(own.norm()) == pytest.approx(float(other.detach().norm()))
    one, other = found.axes
    assert abs(float(one @ other)) < 0.5 * float(one @ one)
    # the same draws for a model that is twice as large
    twice = Point("n", 2 * point.w, point.buffers)
    again = random_directions(flat, twice, 2, np.random.default_rng(0))
    torch.testing.assert_close(again.axes[0], 2 * one)


def test_barrier_is_the_height_above_the_straight_line():
    gammas = np.linspace(0, 1, 11)
    assert barrier(gammas, 3 * gammas + 1) == pytest.approx(0, abs=1e-12)
    # L = 1 + g + 4 g (1 - g): highest above the line at 1/2, by 1
    assert barrier(gammas, 1 + gammas + 4 * gammas * (1 - gammas)) == pytest.approx(1)
    assert barrier(gammas, (gammas - 0.5) ** 2) == pytest.approx(0, abs=1e-12)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("landscape")
    root = toycls.write_data(folder / "data")
    keep = {"default_hooks": {"checkpoint": {"interval": 1, "keep_every": 1}}}
    config = toycls.run(folder, root, train_cfg={"max_rounds": 3}, averaging=None, **keep)
    return Path(config["work_dir"])


def files_of(run: Path, *rounds: int) -> dict[str, Path]:
    """Name of a model -> its checkpoint."""
    paths = [run / "checkpoints" / f"round_{n:06d}.pth" for n in rounds]
    return {str(path): path for path in paths}


def computed(spec: Spec, files: dict[str, Path], folder: Path, **options) -> dict:
    first, *_ = files.values()
    with open_run(first, trusted=["toycls"]) as data:
        return compute_landscape(data, spec, files, folder, **options)


@pytest.mark.parametrize("text", ['{"loss": "x"}', '{"place": [0, 9]}', "[" * 99999, '{"pla'])
def test_points_from_a_damaged_line_on_are_computed_again(run, tmp_path, text):
    files = files_of(run, 1, 2)
    spec = Spec("line", points=2)
    whole = computed(spec, files, tmp_path)
    header, first, second, *others = (tmp_path / FILE_NAME).read_text().splitlines()
    if text.endswith("}"):
        text = json.dumps({**json.loads(second), **json.loads(text)})
    lines = [header, first, text, *others]
    (tmp_path / FILE_NAME).write_text("\n".join(lines))
    assert computed(spec, files, tmp_path) == whole


def test_a_damaged_round_is_left_out_of_a_plane(run, tmp_path):
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    files = files_of(copied, 1, 2, 3)
    first, *_ = files.values()
    (copied / "checkpoints" / "round_000000.pth").write_bytes(first.read_bytes()[:900])
    with pytest.warns(UserWarning, match=r"round_000000\.pth.*left out of the rounds"):
        content = computed(Spec("plane", points=2), files, tmp_path / "plane")
    assert [step["round"] for step in content["trajectory"][str(first)]] == [1, 2, 3]


def test_beyond_the_models_variances_stay_positive_and_there_is_a_barrier(run, tmp_path):
    spec = Spec("line", points=5, ends=(-400, 400))
    (series,) = computed(spec, files_of(run, 1, 3), tmp_path)["series"]
    assert series["barrier"] >= 0


@pytest.mark.parametrize(
    ("kind", "models", "options", "field"),
    [
        ("line", 2, {"ends": (1, 0)}, "--ends"),
        ("plane", 3, {"ends": (0, 1)}, "--ends"),
        ("line", 2, {"points": 1}, "--points"),
        ("line", 1, {}, "CHECKPOINT"),
        ("plane", 2, {}, "CHECKPOINT"),
        ("plane", 1, {"clients": ("a",)}, "CHECKPOINT"),
        ("random", 2, {"clients": ("a",)}, "--client"),
    ],
)
def test_a_landscape_that_cannot_be_is_refused(kind, models, options, field):
    with pytest.raises(ConfigError, match=field):
        Spec(kind, **options).check(models)


def test_a_stopped_landscape_goes_on_to_the_same_bits(run, tmp_path):
    spec = Spec("plane", points=3, data=("train", "test"))
    files = files_of(run, 1, 2, 3)
    whole = computed(spec, files, tmp_path / "whole")
    lines = (tmp_path / "whole" / FILE_NAME).read_text().splitlines()
    assert len(lines) == 19
    part = tmp_path / "part"
    part.mkdir()
    (part / FILE_NAME).write_text("\n".join([*lines[:7], lines[7][:20]]))
    seen = []
    assert computed(spec, files, part, advance=lambda *n: seen.append(n)) == whole
    assert seen[0] == (6, 18)
    assert (part / FILE_NAME).read_bytes() == (tmp_path / "whole" / FILE_NAME).read_bytes()
    steps, *others = whole["trajectory"].values()  # all three are of one run
    assert others == [[], []]
    for step, place in zip(steps, whole["marks"].values(), strict=True):
        assert step["coordinates"] == pytest.approx(place, abs=1e-6)


def test_ends_of_a_line_are_the_models(run, tmp_path):
    spec = Spec("line", points=3)
    files = files_of(run, 2, 3)
    content = computed(spec, files, tmp_path)
    gammas = content["axes"][0]
    first, second = files.values()
    with open_run(first, trusted=["toycls"]) as data:
        samples = Landscape(data, spec, files).series[0].samples
        for gamma, file in ((0.0, first), (1.0, second)):
            loss = LossSurface(data.flat, samples, data.load(file)).loss()
            assert content["series"][0]["loss"][gammas.index(gamma)] == pytest.approx(loss)
    assert set(content["series"][0]["metrics"]) == {"accuracy"}


def test_pictures_are_written(run, tmp_path):
    for kind, count in (("plane", 3), ("eigenvectors", 1), ("random", 2)):
        spec = Spec(kind, points=2, count=8)
        content = computed(spec, files_of(run, *range(1, count + 1)), tmp_path / kind)
        for path in write_landscape(content, tmp_path / kind):
            assert path.stat().st_size > 1000


def header_of(folder: Path) -> dict:
    with open(folder / FILE_NAME) as file:
        return json.loads(file.readline())


def test_the_command_line_between_two_rounds_and_wrong_arguments(run_tool, run, tmp_path):
    first, *_ = files_of(run, 1)
    options = ("--points", 3, "--trust", "toycls", "--out", tmp_path / "line")
    data = ("--data", "train", "--data", "test")  # adds up, like any option that takes several
    code, out, err = run_tool("landscape", "line", first, run, *data, *options)
    assert code == 0, err
    files = [Path(line) for line in out.split() if "landscape." in line]
    assert {file.suffix for file in files} == {".png", ".svg"}
    assert all(file.stat().st_size > 1000 for file in files)
    header = header_of(tmp_path / "line")
    assert header["axes"] == [[-1, 0, 0.5, 1, 2]]
    assert [series["data"] for series in header["series"]] == ["train", "test"]
    code, _, err = run_tool("landscape", "plane", first, run, *options)
    assert code == 2 and "CHECKPOINT" in err
    code, _, err = run_tool("landscape", "plane", run, first, "--round", 1, *options)
    assert code == 2 and "CHECKPOINT" in err
    code, _, err = run_tool("landscape", "random", first, "--round", 1, *options)
    assert code == 2 and "--round" in err and "name its run" in err
    code, _, err = run_tool("landscape", "random", run, "--round", 9, *options)
    assert code == 2 and "has no checkpoint of round 9, only of 1, 2, 3" in err


def test_the_models_that_clients_train(run_tool, run, tmp_path):
    first, *_ = files_of(run, 1)
    folder = tmp_path / "client"
    options = ("--points", 3, "--trust", "toycls", "--samples", 5, "--out", folder)
    code, _, err = run_tool("landscape", "random", run, "--client", "nobody", *options)
    assert code == 2 and "--client" in err and "'nobody'" in err
    assert not folder.exists()
    code, _, err = run_tool("landscape", "line", first, "--client", "a", *options)
    assert code == 0, err
    series = header_of(folder)["series"]
    assert [entry["data"] for entry in series] == ["own data", "all data"]
    code, _, err = run_tool("landscape", "random", first, "--client", "a", *options)
    assert code == 2 and "is the landscape of other models, data or options" in err
    options = (*options, "--out", tmp_path / "surface")
    code, out, err = run_tool("landscape", "random", first, "--client", "a", *options)
    assert code == 0, err
    assert "landscape.svg" in out and "landscape.html" in out
    options = (*options, "--out", tmp_path / "plane")
    code, out, err = run_tool(
        "landscape", "plane", run, "--round", 1, "--client", "a", "b", *options
    )
    assert code == 0, err
    assert list(header_of(tmp_path / "plane")["marks"]) == [str(run), "client a", "client b"]


def test_planes_of_other_models_are_beside_each_other(run_tool, run, tmp_path):
    """Nothing is overwritten: neither by other models nor by other options of the same ones."""
    copied, trust = tmp_path / "run", ("--trust", "toycls")
    shutil.copytree(run, copied)
    rounds = list(files_of(copied, 1, 2, 3))
    for models in (rounds, rounds[::-1]):
        code, _, err = run_tool("landscape", "plane", *models, "--points", 2, *trust)
        assert code == 0, err
    assert sorted(path.parent.name for path in copied.glob(f"curvature/*/{FILE_NAME}")) == [
        "landscape_plane-round_000001-round_000002-round_000003",
        "landscape_plane-round_000003-round_000002-round_000001",
    ]
    pictures = {path: path.read_bytes() for path in copied.glob("curvature/*/landscape.*n*")}
    assert {path.suffix for path in pictures} == {".jsonl", ".png"}
    code, _, err = run_tool("landscape", "plane", *rounds, "--points", 3, *trust)
    assert code == 2 and "name another folder (--out)" in err
    code, _, err = run_tool("landscape", "plane", *rounds, "--points", 2, *trust)
    assert code == 0, err
    assert {path: path.read_bytes() for path in pictures} == pictures


@pytest.mark.parametrize(
    ("spec", "rounds", "name"),
    [
        (Spec("random"), [3], "landscape_random-round_000003"),
        (Spec("random", global_model=True), [3], "landscape_random-round_000003-global"),
        (Spec("line", clients=("a/b",)), [1], "landscape_line-round_000001-client_a_b"),
        (
            Spec("line", statistics="batch"),
            [1, 2],
            "landscape_line-round_000001-round_000002-batch",
        ),
    ],
)
def test_the_folder_of_a_landscape_names_its_models(run, spec, rounds, name):
    files = files_of(run, *rounds)
    assert default_folder(spec, files) == run / "curvature" / name
    other = {"other": run.parent / "other" / "checkpoints" / "round_000003.pth"}
    folder = default_folder(Spec("line"), files | other)
    assert folder.name.endswith("-other_round_000003")


def test_a_long_name_of_a_folder_is_cut_with_a_digest(run):
    names = []
    for last in "ab":
        clients = ("client" * 40 + last,)
        names.append(default_folder(Spec("line", clients=clients), files_of(run, 1)).name)
    assert names[0] != names[1]
    assert all(len(name) < 60 and name.startswith("landscape_line-round_000001") for name in names)


def test_a_plane_goes_on_when_the_run_has_lost_a_checkpoint(run_tool, run, tmp_path):
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    words = ("landscape", "plane", copied, "--round", 1, "--client", "a", "b", "--points", 2)
    words += ("--out", tmp_path / "plane", "--trust", "toycls")
    for rounds in ([1, 2, 3], [1, 3]):
        code, _, err = run_tool(*words)
        assert code == 0, err
        (steps,) = header_of(tmp_path / "plane")["trajectory"].values()
        assert [step["round"] for step in steps] == rounds
        (copied / "checkpoints" / "round_000002.pth").unlink(missing_ok=True)
