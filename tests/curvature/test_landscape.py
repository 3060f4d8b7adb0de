"""Lines, planes and directions against their definitions; grids that can be stopped."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import toycls
import toyseg
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.curvature.checkpoint import opened
from fedseg.curvature.landscape import (
    FILE_NAME,
    POINTS,
    Landscape,
    barrier,
    compute_landscape,
    default_folder,
    line,
    plane,
    random_directions,
)
from fedseg.curvature.settings import Source, Spec
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


def spec_of(kind: str, paths: tuple[str, ...], **options) -> Spec:
    return Spec(kind=kind, source=Source(paths, trusted=("toycls",)), **options)


def checkpoints(run: Path) -> tuple[str, ...]:
    return tuple(str(run / "checkpoints" / f"round_{n:06d}.pth") for n in (1, 2, 3))


@pytest.mark.parametrize(
    "line",
    [
        '{"loss": "x"}',
        '{"loss": true}',
        '{"task": [0, 9]}',
        '{"loss": 1' + "0" * 400 + "}",
        "[" * 99999,
    ],
)
def test_points_that_are_damaged_are_computed_again(run, tmp_path, line):
    spec = spec_of("line", checkpoints(run)[:2], points=2)
    whole = compute_landscape(spec, tmp_path)
    lines = (tmp_path / POINTS).read_text().splitlines()
    first = json.loads(lines[0])
    if line.startswith("{"):
        line = json.dumps({**first, **json.loads(line)})
    (tmp_path / POINTS).write_text("\n".join([line, *lines[1:]]))
    assert compute_landscape(spec, tmp_path) == whole


def test_a_damaged_round_is_left_out_of_a_plane(run, tmp_path):
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    paths = checkpoints(copied)
    (copied / "checkpoints" / "round_000000.pth").write_bytes(Path(paths[0]).read_bytes()[:900])
    with pytest.warns(UserWarning, match=r"round_000000\.pth.*left out of the rounds"):
        content = compute_landscape(spec_of("plane", paths, points=2), tmp_path / "plane")
    assert [step["round"] for step in content["trajectory"][paths[0]]] == [1, 2, 3]


def test_beyond_the_models_variances_stay_positive_and_the_barrier_is_told(run, tmp_path):
    spec = spec_of("line", checkpoints(run)[::2], points=5, ends=(-400, 400))
    (series,) = compute_landscape(spec, tmp_path)["series"]
    assert series["barrier"] >= 0


@pytest.mark.parametrize(
    ("kind", "models", "options", "field"),
    [
        ("line", 2, {"points": 1_000_001}, "--points"),
        ("random", 2, {"points": 1001}, "--points"),
        ("line", 2, {"ends": (1, 0)}, "--ends"),
        ("line", 2, {"points": 1}, "--points"),
        ("random", 1, {"samples": 0}, "--samples"),
        ("line", 1, {}, "CHECKPOINT"),
        ("plane", 2, {}, "CHECKPOINT"),
        ("random", 2, {"client": "a"}, "CHECKPOINT"),
    ],
)
def test_a_landscape_that_cannot_be_is_refused(kind, models, options, field):
    with pytest.raises(ConfigError, match=field):
        spec_of(kind, ("a",) * models, **options)


def test_a_stopped_landscape_goes_on_to_the_same_bits(run, tmp_path):
    spec = spec_of("plane", checkpoints(run), points=3, data=("train", "test"))
    whole = compute_landscape(spec, tmp_path / "whole")
    lines = (tmp_path / "whole" / POINTS).read_text().splitlines()
    assert len(lines) == 18
    part = tmp_path / "part"
    part.mkdir()
    (part / POINTS).write_text("\n".join([*lines[3:9], lines[9][:20]]) + "\n")
    seen = []
    assert compute_landscape(spec, part, advance=lambda *n: seen.append(n)) == whole
    assert seen[0] == (6, 18)
    assert (part / FILE_NAME).read_bytes() == (tmp_path / "whole" / FILE_NAME).read_bytes()
    steps, *others = whole["trajectory"].values()  # all three are of one run
    assert others == [[], []]
    for step, place in zip(steps, whole["marks"].values(), strict=True):
        assert step["coordinates"] == pytest.approx(place, abs=1e-6)


def test_ends_of_a_line_are_the_models(run, tmp_path):
    spec = spec_of("line", checkpoints(run)[1:], points=3)
    content = compute_landscape(spec, tmp_path)
    ends = content["axes"][0].index(0.0), content["axes"][0].index(1.0)
    with opened(spec.source) as data:
        grid = Landscape(spec, data)
        for place, point in zip(ends, grid.points, strict=True):
            at = LossSurface(data.flat, grid.series[0].samples, point)
            assert content["series"][0]["loss"][place] == pytest.approx(at.loss()[0])
    assert set(content["series"][0]["metrics"]) == {"accuracy"}


def test_pictures_are_written(run, tmp_path):
    for kind, count in (("plane", 3), ("eigenvectors", 1), ("random", 2)):
        spec = spec_of(kind, checkpoints(run)[:count], points=2, samples=8)
        content = compute_landscape(spec, tmp_path / kind)
        assert json.loads((tmp_path / kind / FILE_NAME).read_text()) == json.loads(
            json.dumps(content)
        )
        for path in write_landscape(content, tmp_path / kind):
            assert path.stat().st_size > 1000


def test_the_command_line_between_two_rounds_and_wrong_arguments(run_tool, run, tmp_path):
    first = checkpoints(run)[0]
    options = ("--points", 3, "--out", tmp_path / "line", "--trust", "toycls")
    data = ("--data", "train", "--data", "test")  # adds up, like any option that takes several
    code, out, err = run_tool("landscape", "line", first, run, *data, *options)
    assert code == 0, err
    files = [Path(line) for line in out.split() if "landscape." in line]
    assert {file.suffix for file in files} == {".png", ".svg"}
    assert all(file.stat().st_size > 1000 for file in files)
    content = json.loads((tmp_path / "line" / "landscape.json").read_text())
    assert content["axes"] == [[-1, 0, 0.5, 1, 2]]
    assert [series["data"] for series in content["series"]] == ["train", "test"]
    assert all(series["barrier"] >= 0 for series in content["series"])
    code, _, err = run_tool("landscape", "plane", first, run, *options)
    assert code == 2 and "CHECKPOINT" in err
    code, _, err = run_tool("landscape", "line", first, f"{run}:global", *options)
    assert code == 2 and "has no average" in err
    options = (*options, "--out", tmp_path / "client", "--samples", 5)
    code, _, err = run_tool("landscape", "random", run, "--client", "nobody", *options)
    assert code == 2 and "--client" in err and "'nobody'" in err
    assert not (tmp_path / "client").exists()
    client = toyseg.history({"work_dir": run})[-1]["participants"][0]["client"]
    code, out, err = run_tool("landscape", "line", first, "--client", client, *options)
    assert code == 0, err
    content = json.loads((tmp_path / "client" / "landscape.json").read_text())
    assert [series["data"] for series in content["series"]] == ["own data", "all data"]
    code, _, err = run_tool("landscape", "random", first, "--client", client, *options)
    assert code == 2 and "is the landscape of other models, data or options" in err
    options = (*options, "--out", tmp_path / "surface")
    code, out, err = run_tool("landscape", "random", first, "--client", client, *options)
    assert code == 0, err
    assert "landscape.svg" in out and "landscape.html" in out


def test_planes_of_other_models_are_beside_each_other(run_tool, run, tmp_path):
    """Nothing is overwritten: neither by other models nor by other options of the same ones."""
    copied, trust = tmp_path / "run", ("--trust", "toycls")
    shutil.copytree(run, copied)
    rounds = checkpoints(copied)
    for models in (rounds, rounds[::-1]):
        code, _, err = run_tool("landscape", "plane", *models, "--points", 2, *trust)
        assert code == 0, err
    assert sorted(path.parent.name for path in copied.glob("curvature/*/landscape.json")) == [
        "landscape_plane-round_000001-round_000002-round_000003",
        "landscape_plane-round_000003-round_000002-round_000001",
    ]
    pictures = {path: path.read_bytes() for path in copied.glob("curvature/*/landscape.*n*")}
    assert {path.suffix for path in pictures} == {".json", ".png"}
    code, _, err = run_tool("landscape", "plane", *rounds, "--points", 3, *trust)
    assert code == 2 and "name another folder (--out)" in err
    code, _, err = run_tool("landscape", "plane", *rounds, "--points", 2, *trust)
    assert code == 0, err
    assert {path: path.read_bytes() for path in pictures} == pictures


@pytest.mark.parametrize(
    ("options", "models", "name"),
    [
        ({"kind": "random"}, ["{run}"], "landscape_random"),
        ({"kind": "random", "client": "a/b"}, ["{run}"], "landscape_random-a_b"),
        ({"kind": "random"}, ["{run}:global"], "landscape_random-run_global"),
        ({}, ["{run}", "{run}:client=x@1"], "landscape_line-run-run_client=x@1"),
        ({"statistics": "batch"}, ["{run}", "{run}:global"], "landscape_line-batch-run-run_global"),
    ],
)
def test_the_folder_of_a_landscape_names_its_models(run, tmp_path, options, models, name):
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    source = Source(tuple(model.format(run=copied) for model in models))
    assert default_folder(Spec(source=source, **options)) == copied / "curvature" / name


def test_the_folder_of_models_with_long_names_has_a_digest(run, tmp_path):
    folders = []
    for last in "ab":
        copied = tmp_path / ("long" * 40) / f"{'name' * 40}{last}"
        shutil.copytree(run, copied)
        folders.append(copied)
    names = [
        default_folder(Spec(source=Source((str(folders[0]), str(second)))))
        for second in (folders[1], f"{folders[0]}:client=x@1")
    ]
    assert names[0] != names[1]
    for folder in names:
        folder.mkdir(parents=True)
