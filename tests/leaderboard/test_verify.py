"""A run is recomputed from its checkpoint and history; what differs is named."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from toyseg import sign_results

from fedseg.config.layers import CONFIGS
from fedseg.core.server import Server
from fedseg.errors import ConfigError, DataError
from fedseg.hooks.batchnorm import SiloBN
from fedseg.leaderboard.verify import verify
from fedseg.leaderboard.verify_history import expected_rounds
from fedseg.runner.build import build_trainer
from fedseg.runner.config import complete_config
from fedseg.runner.experiment import load_config, train
from fedseg.runner.plan import rehearse
from fedseg.runs.history import plain
from fedseg.runs.results import summarized


@pytest.fixture
def run(small_run, tmp_path) -> Path:
    """A copy of the finished run, to be changed."""
    copy = tmp_path / "run"
    shutil.copytree(small_run, copy, ignore=shutil.ignore_patterns("pictures", "test"))
    return copy


def change(run: Path, *path: str, by: float = 0, to=None) -> None:
    """Change a number of results.json by some amount, or a value."""
    file = run / "results.json"
    content = json.loads(file.read_text())
    place = content
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = place[path[-1]] + by if to is None else to
    sign_results(file, content)


def test_an_untouched_run_is_the_same_bits(run, small_config):
    found = verify(run, small_config)
    assert found.passed and found.tolerance == 0 and found.elsewhere == ""
    assert found.checkpoint.name == "round_000006.pth"
    assert found.compared > 50  # metrics, classes, window, curves


def test_training_threads_are_restored(run, small_config):
    before = torch.get_num_threads()
    change(run, "threads", to=2)
    assert verify(run, small_config).passed
    assert torch.get_num_threads() == before


def test_data_entries_must_be_those_of_the_config(run, small_config):
    file = run / "results.json"
    content = json.loads(file.read_text())
    first = next(name for name in content["data"] if name.startswith("test:"))
    content["data"]["test:other"] = content["data"].pop(first)
    content["data"]["train"]["partition"] = {"alpha": 1}
    sign_results(file, content)
    found = {one.field for one in verify(run, small_config).differences}
    assert {f"data.{first}", "data.test:other", "data.train.partition.type"} <= found


FORGED = {
    **{"dataset": "CityscapesDataset", "samples": 99, "synthetic": True, "split": "splits/other"},
    **{"split_checksum": "0" * 64, "content_sha256": "0" * 64, "generated": ["fog"]},
    **{"steps": [], "style": {"type": "LABStyle"}, "clients": 9, "partition_sha256": "0" * 64},
    "batch_size": 9,
}


def test_every_field_of_a_data_entry_is_compared(run):
    for entry in ("train", "test:seen"):
        for name, value in FORGED.items():
            change(run, "data", entry, name, to=value)
    change(run, "name", to="other")
    wanted = {f"data.{entry}.{name}" for entry in ("train", "test:seen") for name in FORGED}
    differences = verify(run, trusted=["small_network"]).differences
    fields = {one.field.split("[")[0].removesuffix(".type") for one in differences}
    assert fields == wanted | {"name"}


def test_without_the_training_images_config_and_checkpoint_are_compared(run, small_config):
    options = ["train_dataloader.dataset.data_root=nowhere"]
    found = verify(run, small_config, options)
    unchecked = {"samples", "synthetic", "split_checksum", "content_sha256", "generated"}
    assert found.passed and set(found.unchecked) == unchecked
    assert verify(run, small_config).unchecked == ()
    for name, value in FORGED.items():
        change(run, "data", "train", name, to=value)
    differences = verify(run, small_config, options).differences
    fields = {one.field.split("[")[0].removesuffix(".type") for one in differences}
    assert fields == {f"data.train.{name}" for name in FORGED.keys() - unchecked}


def test_an_optional_test_set_that_the_run_did_not_have(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path, options=["train_cfg.max_rounds=2"])
    missing = {"type": "CIFAR10Dataset", "data_root": str(tmp_path / "nowhere"), "split": "test"}
    config.val_dataloader["extra"] = {"optional": True, "dataset": missing}
    train(config)
    assert verify(tmp_path, trusted=["small_network"]).passed


def test_accuracies_of_clients_must_be_those_of_the_history(run, small_config):
    file = run / "results.json"
    content = json.loads(file.read_text())
    content["client_accuracy"] = {"clients": ["a", 0.5], "rounds": [2], "accuracy": [[50.0, 1.0]]}
    sign_results(file, content)
    found = {one.field for one in verify(run, small_config).differences}
    assert {"client_accuracy.clients[1]", "client_accuracy.rounds[0]"} <= found


def test_changed_values_are_named(run, small_config):
    changed = {
        "final.unseen.mIoU": (("final", "unseen", "mIoU"), "checkpoint"),
        "final.seen_by_domain.IoU.road": (("final", "seen_by_domain", "IoU", "road"), "checkpoint"),
        "last_rounds.mean.seen/mIoU": (("last_rounds", "mean", "seen/mIoU"), "history"),
        "last_rounds.evaluations": (("last_rounds", "evaluations"), "history"),
        "communication.bytes_up": (("communication", "bytes_up"), "history"),
        "curves.figures.unseen/mIoU[0]": (("curves", "figures", "unseen/mIoU", 0), "history"),
    }
    for path, _ in changed.values():
        change(run, *path, by=1)
    change(run, "final", "dusk", to={"mIoU": 40.0})  # which the checkpoint does not have
    found = verify(run, small_config)
    assert not found.passed
    differences = {one.field: one for one in found.differences}
    assert differences.pop("final.dusk.mIoU").computed is None
    assert set(differences) == set(changed)
    for field, (_, source) in changed.items():
        assert differences[field].source == source
        assert differences[field].computed == pytest.approx(differences[field].recorded - 1)
        assert str(differences[field]).startswith(f"{field}: ")


def test_on_another_machine_a_small_difference_passes_and_a_larger_one_does_not(run, small_config):
    change(run, "hardware", to="another")
    change(run, "final", "unseen", "mIoU", by=0.04)
    found = verify(run, small_config)
    assert found.passed and found.tolerance == 0.05 and found.elsewhere == "other hardware"
    change(run, "final", "unseen", "mIoU", by=0.04)
    found = verify(run, small_config)
    assert [d.field for d in found.differences] == ["final.unseen.mIoU"]


def test_results_that_were_written_again_elsewhere_are_of_the_rounds_machine(run, small_config):
    """As ``--resume`` of a finished run writes them on the machine that verifies them."""
    now = json.loads((run / "results.json").read_text())["environments"][0]
    change(run, "environments", to=[{**now, "hardware": "another"}, {**now, "round": 7}])
    change(run, "final", "unseen", "mIoU", by=0.04)
    found = verify(run, small_config)
    assert found.passed and found.elsewhere == "other environment of the last rounds"
    for odd in ([{}], [{"round": "x"}], [{**now, "hardware": "another"}, now]):
        change(run, "environments", to=odd)
        assert [d.field for d in verify(run, small_config).differences] == ["final.unseen.mIoU"]


def test_what_is_not_compared_must_be_possible(run, small_config):
    change(run, "seconds", "wall", to=-5.0)
    with pytest.raises(
        DataError, match=r"results\.json: seconds\.wall: is -5\.0, must be at least 0"
    ):
        verify(run, small_config)


def test_another_config_is_named(run, small_config):
    other = small_config.parent / "other.py"
    other.write_text(small_config.read_text().replace("lr=0.2", "lr=0.3"))
    fields = [difference.field for difference in verify(run, other).differences]
    assert set(fields) == {"config_sha256", "experiment_sha256", "optim_wrapper.optimizer.lr"}
    options = ["optim_wrapper.optimizer.lr=0.3"]
    assert verify(run, small_config, options).passed  # on purpose


PROTOCOLS = {
    "released": ("train_cfg.amp=True", "train_dataloader.drop_last=True"),
    "paper": ("train_cfg.amp=False", "train_dataloader.drop_last=True"),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_protocol_is_derived_again_and_compared(name, small_config, tmp_path):
    options = ["train_cfg.max_rounds=2", "client_sampler.type=RoundSeededSampler", *PROTOCOLS[name]]
    folder = tmp_path / "run"
    train(load_config(small_config, work_dir=folder, options=options))
    recorded = json.loads((folder / "results.json").read_text())["protocol"]
    assert recorded["precision"] == {"released": "mixed", "paper": "float32"}[name]
    assert recorded["drop_last"] and recorded["client_draws"] == "RoundSeededSampler"
    found = verify(folder, small_config, options)
    assert found.passed and found.tolerance == 0
    change(folder, "protocol", "batch_size", to=16)
    change(folder, "protocol", "test_batch_size", "seen", to=16)
    found = verify(folder, small_config, options)
    fields = {one.field: (one.recorded, one.computed, one.source) for one in found.differences}
    assert fields == {
        "protocol.batch_size": (16, recorded["batch_size"], "config"),
        "protocol.test_batch_size.seen": (16, 4, "config"),
    }


def test_options_say_where_the_data_are_and_change_nothing_of_what_is_compared(
    run, small_config, tmp_path
):
    shutil.copytree(small_config.parent / "data", tmp_path / "elsewhere")
    options = [f"data_root={tmp_path / 'elsewhere'}"]
    found = verify(run, options=options, trusted=["small_network"])
    assert found.passed and found.tolerance == 0 and not found.unchecked
    for path, value in (("experiment_sha256",), "0" * 64), (("data", "train", "batch_size"), 9):
        change(run, *path, to=value)
    differences = verify(run, options=options, trusted=["small_network"]).differences
    assert [one.field for one in differences] == ["experiment_sha256", "data.train.batch_size"]


def test_weights_to_begin_with_are_recorded_and_compared(run, small_config, tmp_path):
    begin, folder = str(run / "checkpoints/round_000006.pth"), tmp_path / "further"
    options = ["train_cfg.max_rounds=2", f"load_from={begin}"]
    train(load_config(small_config, work_dir=folder, options=options))
    assert verify(folder, trusted=["small_network"]).passed
    file = folder / "results.json"
    content = json.loads(file.read_text())
    assert content.pop("load_from") == begin
    sign_results(file, content)
    (difference,) = verify(folder, trusted=["small_network"]).differences
    assert (difference.field, difference.computed) == ("load_from", begin)


def test_a_config_that_cannot_be_evaluated_is_named(run, small_config):
    options = ["model.type=NoModel"]
    with pytest.raises(ConfigError, match=r"--cfg-options: model.*NoModel"):
        verify(run, small_config, options)


def test_a_missing_or_foreign_checkpoint(run, small_config):
    newest = run / "checkpoints" / "round_000006.pth"
    change(run, "seed", to=4)
    with pytest.raises(DataError, match=r"seed: is 0, but 4 "):
        verify(run, small_config)
    change(run, "seed", to=0)
    newest.rename(newest.with_name("round_000005.pth"))
    with pytest.raises(DataError, match=r"completed_rounds: is 5, but 6 "):
        verify(run, small_config)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(DataError, match="checkpoints: holds no checkpoint"):
        verify(run, small_config)


def test_a_damaged_checkpoint(run, small_config):
    newest = run / "checkpoints" / "round_000006.pth"
    newest.write_bytes(newest.read_bytes()[:-50])
    with pytest.raises(DataError, match="round_000006"):
        verify(run, small_config)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("history",), 5, "history: must be a list"),
        (("meta", "seed"), torch.zeros(2), "seed: is tensor"),
        (("client_sizes",), {}, "domain_clients: .*: must be some of client_sizes"),
        (("client_sizes", "T01_CN_A"), 0, "client_sizes: must be positive whole numbers"),
        (("hooks",), {"x": torch.zeros(1).expand(10**9)}, r"cannot be read .*ValueError"),
    ],
)
def test_a_strange_checkpoint(run, small_config, where, value, message):
    newest = run / "checkpoints" / "round_000006.pth"
    payload = torch.load(newest, weights_only=True)
    del payload["content_sha256"]
    place = payload
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    torch.save(payload, newest)
    with pytest.raises(DataError, match=message) as error:
        verify(run, small_config)
    if where == ("hooks",):
        assert "a tensor of (1000000000,)" in str(error.value.__cause__)


@pytest.mark.parametrize("threads", [0, -1, 2**40])
def test_a_number_of_threads_that_no_machine_has(run, small_config, threads):
    change(run, "threads", to=threads)
    with pytest.raises(DataError, match=f"threads: is {threads}, must be from 1"):
        verify(run, small_config)


def test_rounds_beyond_the_history_are_not_computed(run):
    config = json.loads((run / "config.json").read_text())
    config["train_cfg"]["max_rounds"] = 10**9
    (run / "config.json").write_text(json.dumps(config))
    found = verify(run, trusted=["small_network"])
    assert ("rounds", 6, 10**9) in [(d.field, d.recorded, d.computed) for d in found.differences]


def test_a_missing_history(run, small_config):
    (run / "history.jsonl").unlink()
    with pytest.raises(DataError, match=r"history\.jsonl"):
        verify(run, small_config)


def test_the_last_lines_of_the_history_are_lost(run, small_config):
    path = run / "history.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    fields = {d.field for d in verify(run, small_config).differences}
    assert "completed_rounds" in fields and "last_rounds.evaluations" in fields


def test_the_recorded_config_is_taken_where_no_other_is_named(run):
    with pytest.raises(ConfigError, match=r"config\.json: model\.network\.type.*--config"):
        verify(run)
    assert verify(run, trusted=["small_network"]).passed
    with pytest.raises(ConfigError, match="not_there_at_all"):
        verify(run, trusted=["not_there_at_all"])
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace('"lr": 0.2', '"lr": 0.3'))
    fields = {difference.field for difference in verify(run, trusted=["small_network"]).differences}
    assert {"config_json_sha256", "config_sha256", "optim_wrapper.optimizer.lr"} <= fields
    (run / "config.json").unlink()
    with pytest.raises(DataError, match=r"config\.json: is missing"):
        verify(run)


def edited(lines: list[dict], round_: int, **changes) -> list[dict]:
    """A history in which a round's line is another; a value may be a function of the old one."""
    line = lines[round_ - 1]
    new = {key: v(line[key]) if callable(v) else v for key, v in changes.items()}
    return [*lines[: round_ - 1], {**line, **new}, *lines[round_:]]


def without_metrics(line: dict) -> dict:
    return {key: value for key, value in line.items() if key != "metrics"}


# what is wrong with a history -> how, and the field that says so
HISTORIES = {
    "an evaluation is lost": (
        lambda lines: [*lines[:3], without_metrics(lines[3]), *lines[4:]],
        "round 4: evaluated",
    ),
    "an evaluation too many": (
        lambda lines: edited(lines, 5, metrics=lines[5]["metrics"]),
        "round 5: evaluated",
    ),
    "a metric is lost": (
        lambda lines: edited(lines, 4, metrics=lambda m: {"seen/mIoU": m["seen/mIoU"]}),
        "round 4: missing metrics",
    ),
    "another client": (
        lambda lines: edited(lines, 3, participants=lambda p: [{**p[0], "client": "x"}, *p[1:]]),
        "round 3: participants",
    ),
    "fewer clients": (
        lambda lines: edited(lines, 3, participants=lambda p: p[:1]),
        "round 3: participants",
    ),
    "other samples": (
        lambda lines: edited(lines, 3, participants=lambda p: [{**p[0], "samples": 9}, *p[1:]]),
        "round 3: samples",
    ),
    "less traffic": (
        lambda lines: edited(lines, 2, bytes_up=lambda b: b // 2),
        "round 2: bytes_up",
    ),
    "another last metric": (
        lambda lines: edited(lines, 6, metrics=lambda m: {**m, "seen/mIoU": m["seen/mIoU"] + 1}),
        "final.seen.mIoU",
    ),
}


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_history_has_what_its_config_asks_for(kind, run, small_config):
    """Even where results.json was made to fit it."""
    change_it, field = HISTORIES[kind]
    path = run / "history.jsonl"
    lines = change_it([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    content = json.loads((run / "results.json").read_text())
    content |= plain(summarized(lines, 6, 4))
    sign_results(run / "results.json", content)
    fields = [one.field for one in verify(run, small_config).differences if "jsonl" in one.file]
    assert field in fields


def test_the_model_that_is_not_averaged_is_verified_too(small_config, tmp_path):
    options = ["val_cfg.evaluate_global=True", "train_cfg.max_rounds=4"]
    config = load_config(small_config, work_dir=tmp_path / "run", options=options)
    train(config)
    found = verify(tmp_path / "run", trusted=["small_network"])
    assert found.passed and found.tolerance == 0
    final = json.loads((tmp_path / "run" / "results.json").read_text())["final"]
    assert final["global:seen"] != final["seen"]
    change(tmp_path / "run", "final", "global:seen", "mIoU", by=1)
    (difference,) = verify(tmp_path / "run", trusted=["small_network"]).differences
    assert difference.field == "final.global:seen.mIoU"


def test_sums_of_the_history_may_be_rounded_but_no_more(run, small_config):
    change(run, "last_rounds", "mean", "seen/mIoU", by=1e-10)
    assert verify(run, small_config).passed
    change(run, "last_rounds", "mean", "seen/mIoU", by=1e-4)
    (difference,) = verify(run, small_config).differences
    assert difference.field == "last_rounds.mean.seen/mIoU"


def test_traffic_is_known_without_training_for_every_algorithm(small_config):
    """As it is counted in a rehearsal with real batches."""
    tried = set()
    for file in sorted((CONFIGS / "methods").rglob("*.py")):
        method = Config.fromfile(file)
        if "+" in file.stem or "algorithm" not in method or file.stem in tried:
            continue
        tried.add(file.stem)
        config = load_config(small_config)
        plain_sgd = {"type": "OptimWrapper"}
        config.algorithm = without_delete(method.algorithm)
        config.optim_wrapper = without_delete(method.get("optim_wrapper", plain_sgd))
        config.optim_wrapper["optimizer"] = {"type": "SGD", "lr": 0.1}
        config.train_cfg.max_rounds = 2000  # as long as the radii of FedGloSS grow
        trainer = build_trainer(config)
        sizes = dict(zip(trainer.data.clients, trainer.data.sizes, strict=True))
        server = Server(trainer.flat, 2, trainer.algorithm.server_vectors)
        policy = SiloBN()
        policy.bind(trainer.flat)
        policy.before_train(SimpleNamespace(server=server))
        sent = rehearse(trainer, server, 0)
        runner = SimpleNamespace(flat=trainer.flat, batchnorm=policy)
        (first,) = expected_rounds(complete_config(config), runner, sizes, 1)
        assert (first["bytes_down"], first["bytes_up"]) == (2 * sent.down, 2 * sent.up), file
    assert {"fedcm", "mime", "scaffold", "fedgloss_sam"} <= tried


def without_delete(config: dict) -> dict:
    return {key: value for key, value in config.items() if key != "_delete_"}
