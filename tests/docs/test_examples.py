"""Every Python block of the documentation does what the page says: files, configs, scripts."""

import ast
import copy
import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import toyseg
from doc_pages import ROOT, Block, all_blocks, blocks
from mmengine.config import Config

import fedseg
from fedseg.core.hook import FederatedHook
from fedseg.datasets.arrays import write_images
from fedseg.registry import METRICS
from fedseg.runner.experiment import load_config, train
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.schema import read_results

DOCS, SHAPES = ROOT / "docs", ROOT / "configs" / "settings" / "demo_shapes.py"
CIFAR_CLASSES = "abcdefghij"
PYTHON = [block for block in all_blocks() if block.language == "python"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder ``own`` with the files of every page, beside a clone called ``fedseg``."""
    parent = tmp_path_factory.mktemp("pages")
    (parent / "fedseg").symlink_to(ROOT, target_is_directory=True)
    (parent / "own").mkdir()
    for block in PYTHON:
        if block.name:
            assert not (parent / "own" / block.name).exists(), f"{block.name}: two pages have it"
            (parent / "own" / block.name).write_text(block.text, encoding="utf-8")
    return parent / "own"


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder in the place of CIFAR-10: 100 training images in 10 classes, 30 others."""
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(count) % 10
        pixels = rng.integers(0, 60, (count, 32, 32, 3)) + 20 * labels[:, None, None, None]
        return pixels.clip(0, 255).astype(np.uint8), labels

    root = tmp_path_factory.mktemp("cifar")
    write_images(root, "CIFAR10", list(CIFAR_CLASSES), images(100), images(30))
    return root


@pytest.fixture(scope="module")
def small(cifar: Path, small_config: Path) -> Callable[[Path], Config]:
    """Reads a config and makes its run a matter of seconds: small images, two rounds."""
    streets = small_config.parent / "data"

    def load(path: Path, work_dir: Path | None = None) -> Config:
        config = load_config(path, work_dir=work_dir)
        config.merge_from_dict(
            {
                "train_cfg.max_rounds": 2,
                "train_cfg.val_interval": 1,
                "train_cfg.val_last_rounds": 2,
                "train_cfg.val_last_interval": 1,
                "client_sampler.clients_per_round": 2,
                "default_hooks.pictures": None,
            }
        )
        config.train_dataloader.batch_size = 2
        config.val_dataloader.pop("corrupted", None)
        for loader in (config.train_dataloader, *config.val_dataloader.values()):
            shrink(loader, cifar, streets)
        if config.train_dataloader.partition.type == "DirichletPartition":
            config.train_dataloader.partition.num_clients = 10
        config.test_dataloader = config.val_dataloader
        return config

    return load


def shrink(loader: Config, cifar: Path, streets: Path) -> None:
    """Point a loader to the toys; crops as small as they are."""
    dataset = loader.dataset
    if dataset.type == "IDDADataset":
        dataset.data_root = str(streets)
        dataset.split = "splits/train" if "partition" in loader else "splits/test"
    elif dataset.type in ("CIFAR10Dataset", "SyntheticShapesDataset"):
        dataset.data_root = str(cifar)
    if loader.get("type", "StreamingData") == "StreamingData":
        loader.num_workers = 0
    for step in dataset.get("pipeline") or ():
        if step.type == "RandomScaleCrop":
            step.crop_size, step.base_size = (32, 64), (36, 64)
        elif step.type == "Resize":
            step.height, step.width = 36, 64
        elif step.type in ("ResizeInput", "RandomAreaCrop"):
            step.size = (32, 64)
        elif step.type == "ResizeLabel":
            step.size = (36, 64)


def results_of(config: Config) -> dict:
    return json.loads((Path(config.work_dir) / "results.json").read_text(encoding="utf-8"))


def trained(config: Config) -> torch.Tensor:
    """The global model at the end of a run, flat."""
    runner = FederatedRunner.from_cfg(config)
    runner.train()
    return runner.server.w


# ---------------------------------------------------------------- all blocks


def named(page: str) -> dict[str, Block]:
    return {block.name: block for block in blocks(DOCS / page) if block.name}


def test_every_block_of_python_is_run_by_a_test_below():
    assert PYTHON
    for block in PYTHON:
        ast.parse(block.text)
        assert block.name in RUN or (not block.name and (block.is_config or block in SCRIPTS)), (
            f"{block.page.name}: no test runs the block\n{block.text}"
        )


CONFIGS = [block for block in PYTHON if block.is_config and not block.name]
SCRIPTS = [block for block in PYTHON if not block.is_config and not block.name]
RUN = {  # file -> who runs it
    "even_shapes.py",  # tests/journeys/test_runs.py
    *("clipped.py", "clipped_shapes.py"),
    "topk.py",
    "topk10.py",
    "shapes_topk.py",
    *("prototypes.py", "shapes_prototypes.py", "weather_prototypes.py"),
    "scaled.py",
    "shapes_scaled.py",
    *("fedexp.py", "shapes_fedexp.py"),  # the equation is tested in tests/oracles
    *("median_clipping.py", "shapes_median_clipping.py"),
    *("small_unet.py", "weather_small_unet.py", "patches.py", "shapes_patches.py", "orchards.py"),
    *("write_splits.py", "orchards_fedavg.py", "orchards_mmseg.py", "flowers_fedavg.py"),
    *("worst_class.py", "shapes_worst_class.py", "weighted_iou.py", "weather_weighted_iou.py"),
    *("own.py", "own_config.py"),
}


@pytest.mark.parametrize("block", CONFIGS, ids=lambda block: block.page.stem)
def test_configs_without_a_name_pass_a_dry_run(block, own, small, capsys):
    """Their bases are beside them: in the clone's configs, or as the page writes the path."""
    folder = own.parent / "fedseg" / "configs"
    text = block.text
    for base in {line for line in ast.walk(ast.parse(text)) if isinstance(line, ast.Constant)}:
        if isinstance(base.value, str) and (folder / base.value).is_file():
            text = text.replace(f'"{base.value}"', f'"../fedseg/configs/{base.value}"')
    path = own / f"unnamed_{block.page.stem}_{CONFIGS.index(block)}.py"
    path.write_text(text, encoding="utf-8")
    train(small(path), dry_run=True)
    assert "clients per round" in capsys.readouterr().out


@pytest.mark.parametrize("block", SCRIPTS, ids=lambda block: block.page.stem)
def test_scripts_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, block.page.name, "exec"), {"__name__": "__main__"})
    assert any(tmp_path.iterdir())  # each of them writes a file


# ---------------------------------------------------------------- an algorithm


def test_an_algorithm_is_one_short_file_and_one_config(own, small, tmp_path):
    files = named("own_algorithm.md")
    assert len(files["topk.py"].text.splitlines()) <= 40
    assert len(files["shapes_topk.py"].text.splitlines()) <= 5
    config = small(own / "shapes_topk.py", tmp_path)
    train(config)
    results = read_results(tmp_path / "results.json")
    assert results.algorithm["type"] == "TopK" and results.algorithm["keep"] == 0.1
    parameters = results.parameters
    assert results.communication.model_dump() == {  # two rounds of two clients
        "bytes_down": 2 * 2 * 4 * parameters,
        "bytes_up": pytest.approx(2 * 2 * 8 * parameters / 10, rel=1e-4),
    }


def test_the_readmes_algorithm_clips_what_clients_send(own, small, tmp_path):
    moved = []
    for norm in (1e-3, 2e-3, 1e9):
        config = small(own / "clipped_shapes.py", tmp_path / str(norm))
        config.algorithm.norm, config.train_cfg.max_rounds = norm, 1
        toyed = FederatedRunner.from_cfg(config)
        toyed.build_federation()
        start = toyed.server.w.clone()
        moved.append(float((trained(config) - start).norm()))
    assert moved[0] <= 1e-3 * 1.001 and moved[1] == pytest.approx(2 * moved[0], rel=1e-3)
    plain = small(SHAPES, tmp_path / "plain")
    plain.train_cfg.max_rounds = 1
    assert moved[2] == float((trained(plain) - start).norm()) > 2e-3


def test_top_k_of_all_entries_is_fedavg_and_of_few_changes_few(own, small, tmp_path):
    every = small(own / "shapes_topk.py", tmp_path / "every")
    every.algorithm.keep = 1.0
    plain = small(SHAPES, tmp_path / "plain")
    assert torch.equal(trained(every), trained(plain))
    few = small(own / "shapes_topk.py", tmp_path / "few")
    few.train_cfg.max_rounds = 1
    runner = FederatedRunner.from_cfg(few)
    runner.build_federation()
    start = runner.server.w.clone()
    changed = (trained(few) != start).float().mean()
    assert 0.05 < changed <= 0.2  # two clients, a tenth each


@pytest.mark.parametrize("config", ["shapes_prototypes.py", "weather_prototypes.py"])
def test_prototypes_travel(config, own, small, tmp_path):
    """The traffic is that of a count by hand."""
    cfg = small(own / config, tmp_path / "run")
    runner = FederatedRunner.from_cfg(cfg)
    runner.train()
    sent = runner.server.state["prototypes"]
    classes, width = sent.shape
    assert sent.any(1).sum() >= 2 and torch.isfinite(sent).all()
    assert len((own / "prototypes.py").read_text().splitlines()) <= 60
    flat = runner.flat
    model = 4 * (flat.num_parameters + flat.num_buffers) + 8 * flat.num_counters
    for line in toyseg.history(cfg):
        clients = len(line["participants"])
        assert line["bytes_down"] == clients * (model + 4 * classes * width)
        assert line["bytes_up"] == clients * (model + 4 * classes * (width + 1))


def test_a_server_rule_by_hand(own, small, tmp_path):
    scaled = small(own / "shapes_scaled.py", tmp_path / "scaled")
    plain = small(SHAPES, tmp_path / "plain")
    plain.algorithm.server_optim = dict(type="SGD", lr=0.5)
    assert torch.equal(trained(scaled), trained(plain))


def test_a_number_travels_beside_the_update(own, small, tmp_path):
    """Its traffic, and the diagnostic in the history, as the page says."""
    cfg = small(own / "shapes_fedexp.py", tmp_path / "run")
    runner = FederatedRunner.from_cfg(cfg)
    runner.train()
    for line in toyseg.history(cfg):
        clients = len(line["participants"])
        assert line["bytes_up"] == line["bytes_down"] + 8 * clients > 0
        assert line["step_size"] >= 1
    run = fedseg.read_run(tmp_path / "run")
    assert run.history[0]["step_size"] == toyseg.history(cfg)[0]["step_size"]


def test_a_robust_rule_by_hand(own, small, tmp_path):
    cfg = small(own / "shapes_median_clipping.py", tmp_path / "all")
    cfg.train_cfg.max_rounds = 1
    cfg.client_sampler.clients_per_round = 3
    plain = copy.deepcopy(cfg)
    plain.robust, plain.work_dir = None, str(tmp_path / "plain")
    runner = FederatedRunner.from_cfg(plain)
    start, deltas = [], []

    class Keep(FederatedHook):
        def before_client(self, runner, client):
            start.append(client.start.clone())

        def after_client(self, runner, client, update):
            deltas.append(update.vectors["delta"].clone())

    runner.register_hook(Keep())
    runner.train()
    norms = [float(delta.norm()) for delta in deltas]
    assert len({*norms}) == 3
    shortened = [d * min(sorted(norms)[1] / n, 1) for d, n in zip(deltas, norms, strict=True)]
    torch.testing.assert_close(trained(cfg), start[0] - sum(shortened) / 3, rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("config", "model"), [("weather_small_unet", "SmallUNet"), ("shapes_patches", "PatchNet")]
)
def test_own_models_train(config, model, own, small, tmp_path):
    config = small(own / f"{config}.py", tmp_path)
    train(config)
    results = read_results(tmp_path / "results.json")
    assert model in (results.model.type, results.model.network)
    assert all(None not in values for values in results.curves.figures.values())
    history = (tmp_path / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(history) == 2 and all(json.loads(line)["norm_delta"] > 0 for line in history)


# ---------------------------------------------------------------- a data set


def test_own_data_set_by_mmsegmentation(own, small, tmp_path, monkeypatch, run_tool):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(own)
    rng = np.random.default_rng(0)
    sites = ("train/east", "train/west", "val/east", "val/west", "val/north")
    for name in [f"{site}/{number}" for site in sites for number in range(2)]:
        ids = np.repeat(rng.integers(0, 3, (36, 1), np.uint8), 64, axis=1)
        files = {f"img_dir/{name}.jpg": np.stack([ids * 60] * 3, 2), f"ann_dir/{name}.png": ids}
        for file, array in files.items():
            path = tmp_path / "data" / "orchards" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            assert cv2.imwrite(str(path), array)
    config = small(own / "orchards_mmseg.py", tmp_path / "run")
    train(config)
    results = results_of(config)
    assert results["data"]["train"]["clients"] == 2 and results["data"]["train"]["samples"] == 4
    assert set(results["final"]["unseen"]["IoU"]) == {"soil", "tree", "sky"}
    run, file = tmp_path / "run", own / "orchards_mmseg.py"
    commands = (
        ("test", run, "--trust", "orchards", "--out", tmp_path / "out"),
        ("splits", file, "--pixels", "--out", tmp_path / "splits.png"),
    )
    for command in commands:
        code, _, error = run_tool(*command)
        assert code == 0, error


# ---------------------------------------------------------------- metrics


def test_worst_class(own, small, tmp_path):
    config = small(own / "shapes_worst_class.py", tmp_path)
    train(config)
    final = results_of(config)["final"]["test"]
    by_class = list(final["accuracy_by_class"].values())
    assert len(by_class) == 10
    assert final["worst_class"] == min(by_class)
    assert final["balanced"] == pytest.approx(np.mean(by_class))
    assert final["accuracy"] == pytest.approx(np.mean(by_class))  # classes of equal size


def test_weighted_iou(own, small, tmp_path):
    config = small(own / "weather_weighted_iou.py", tmp_path)
    config.model = small(own / "weather_small_unet.py").model  # quicker than BiSeNetV2
    train(config)
    final = results_of(config)["final"]
    assert all(0 <= final[domain]["fwIoU"] <= 100 for domain in ("seen", "unseen"))
    metric = METRICS.build(dict(type="WeightedIoU"))
    metric.dataset_meta = {"classes": ("a", "b", "c")}
    labels = torch.tensor([[0, 0, 0, 1, 255]])
    metric.process([0], {"data_samples": labels}, torch.tensor([[0, 0, 1, 1, 2]]))
    metrics = metric.evaluate()
    assert metrics["fwIoU"] == pytest.approx(100 * (3 * 2 / 3 + 1 * 1 / 2) / 4)
    assert metrics["mIoU"] == pytest.approx(100 * (2 / 3 + 1 / 2) / 2)


# ---------------------------------------------------------------- all at once


def test_the_example_of_own_components_runs(own, tmp_path):
    config = load_config(own / "own_config.py", work_dir=tmp_path)
    train(config)
    history = (tmp_path / "history.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in history]
    assert [r["round"] for r in records] == [1, 2, 3, 4, 5]
    assert all(r["largest_step"] > 0 and len(r["participants"]) == 2 for r in records)
    results = results_of(config)
    # three blobs one unit apart along the diagonal: far better than chance, far from perfect
    assert 40 < results["final"]["test"]["accuracy"] < 100
    assert read_results(tmp_path / "results.json").algorithm["type"] == "ClippedNesterov"
