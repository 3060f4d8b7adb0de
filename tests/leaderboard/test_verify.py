"""A run is recomputed from its checkpoint and history; what differs is named."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from toyseg import sign_results

from fedseg.errors import ConfigError, DataError
from fedseg.files import digest
from fedseg.leaderboard.verify import verify
from fedseg.runner.checkpoint import sum_path
from fedseg.runner.experiment import load_config, train
from fedseg.runs.history import plain, summarize, timeless
from fedseg.runs.schema import read_results

TRUST = ["small_network"]
UNSEEN = ("final", "unseen", "mIoU")


@pytest.fixture
def run(run_copy) -> Path:
    return run_copy


def rewrite(run: Path, edit) -> None:
    """Edit the content of results.json, which gets its checksum."""
    file = run / "results.json"
    content = json.loads(file.read_text())
    edit(content)
    sign_results(file, content)


def change(run: Path, *path: str, by: float = 0, to=None) -> None:
    """Change a number of results.json by some amount, or a value."""

    def edit(place) -> None:
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = place[path[-1]] + by if to is None else to

    rewrite(run, edit)


def fields_of(verification) -> set[str]:
    return {one.field.split("[")[0] for one in verification.differences}


def test_an_untouched_run_is_the_same_bits(run, small_config):
    verification = verify(run, small_config)
    assert verification.passed and verification.tolerance == 0 and verification.elsewhere == ""
    assert verification.checkpoint.name == "round_000006.pth"
    assert verification.compared > 50  # metrics, classes, curves


def test_training_threads_are_restored(run, small_config):
    before = torch.get_num_threads()
    change(run, "threads", to=2)
    assert verify(run, small_config).passed
    assert torch.get_num_threads() == before


FORGED = {
    **{"dataset": "CityscapesDataset", "samples": 99, "synthetic": True},
    **{"split_checksum": "0" * 64, "content_sha256": "0" * 64, "unofficial": True},
}
OF_CLIENTS = {"clients": 9, "partition_sha256": "0" * 64}


def forge_data(run: Path) -> set[str]:
    """Change every field of ``data``; returns their names."""
    forged = {"train": FORGED | OF_CLIENTS, "test:seen": FORGED}
    for entry, values in forged.items():
        for name, value in values.items():
            change(run, "data", entry, name, to=value)
    return {f"data.{entry}.{name}" for entry, values in forged.items() for name in values}


def test_every_field_of_a_data_entry_is_compared(run):
    wanted = forge_data(run)
    change(run, "name", to="other")
    rewrite(run, lambda content: content["data"].update(other=content["data"].pop("test:unseen")))
    missing = {f"data.test:unseen.{name}" for name in FORGED}
    fields = fields_of(verify(run, trust=TRUST))
    assert wanted | {"name", "data.test:unseen", "data.test:other"} <= fields
    assert fields <= wanted | {"name", "data.test:unseen", "data.test:other"} | missing


def test_without_the_training_images_config_and_checkpoint_are_compared(run, small_config):
    options = ["train_dataloader.dataset.data_root=nowhere"]
    verification = verify(run, small_config, options)
    unchecked = FORGED.keys() - {"dataset"}
    assert verification.passed and set(verification.unchecked) == unchecked
    assert verify(run, small_config).unchecked == ()
    wanted = forge_data(run) - {f"data.train.{name}" for name in unchecked}
    assert fields_of(verify(run, small_config, options)) == wanted


def test_an_optional_test_set_that_the_run_did_not_have(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path, options=["train_cfg.max_rounds=2"])
    missing = {"type": "CIFAR10Dataset", "data_root": str(tmp_path / "nowhere"), "split": "test"}
    config.val_dataloader["extra"] = {"optional": True, "dataset": missing}
    train(config)
    assert verify(tmp_path, trust=TRUST).passed


def test_a_run_with_personal_parts_is_verified(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path, options=["train_cfg.max_rounds=2"])
    config.personal = ["@batchnorm.statistics", "@head"]
    train(config)
    assert verify(tmp_path, trust=TRUST).passed


def test_the_budget_of_privacy_is_recomputed(small_config, tmp_path):
    options = ["train_cfg.max_rounds=2", "train_cfg.max_norm_ratio=None"]
    config = load_config(small_config, work_dir=tmp_path, options=options)
    config.client_sampler = {"type": "PoissonSampler", "clients_per_round": 2}
    config.privacy = {"type": "DPFedAvg", "clip": 0.1}
    config.compression = {"type": "SignSGD"}
    train(config)
    assert verify(tmp_path, trust=TRUST).passed
    change(tmp_path, "privacy", "epsilon", by=-1)
    assert fields_of(verify(tmp_path, trust=TRUST)) == {"privacy.epsilon"}


def test_clients_with_accuracies_must_be_those_of_the_checkpoint(run, small_config):
    accuracy = {"clients": ["a", 0.5], "classes": ["road"], "main_class": [0, 0]}
    change(run, "seconds", to={"wall": 1.0})  # times are not compared
    rewrite(run, lambda content: content.update(client_accuracy=accuracy))
    assert fields_of(verify(run, small_config)) == {"client_accuracy.clients"}


def test_changed_values_are_named(run, small_config):
    changed = {
        "final.seen_by_domain.IoU.road": "checkpoint",
        "parameters": "checkpoint",
        "rejected_updates": "history",
        "communication.bytes_up": "history",
    }
    for field in changed:
        change(run, *field.split("."), by=1)
    change(run, "curves", "figures", "unseen/mIoU", 0, by=1)
    changed["curves.figures.unseen/mIoU[0]"] = "history"
    change(run, "final", "dusk", to={"mIoU": 40.0})  # which the checkpoint does not have
    differences = {one.field: one for one in verify(run, small_config).differences}
    assert differences.pop("final.dusk.mIoU").computed is None
    assert set(differences) == set(changed)
    for field, source in changed.items():
        assert differences[field].source == source
        assert differences[field].computed == pytest.approx(differences[field].recorded - 1)
        assert str(differences[field]).startswith(f"{field}: ")


def test_on_another_machine_a_small_difference_passes_and_a_larger_one_does_not(run, small_config):
    change(run, "hardware", to="another")
    change(run, *UNSEEN, by=0.04)
    verification = verify(run, small_config)
    assert verification.passed and verification.tolerance == 0.05
    assert verification.elsewhere == "other hardware"
    change(run, *UNSEEN, by=0.04)
    assert fields_of(verify(run, small_config)) == {"final.unseen.mIoU"}


def test_results_that_were_written_again_elsewhere_are_of_the_rounds_machine(run, small_config):
    """As ``--resume`` of a finished run writes them on the machine that verifies them."""
    now = json.loads((run / "results.json").read_text())["environments"][0]
    change(run, "environments", to=[{**now, "hardware": "another"}, {**now, "round": 7}])
    change(run, *UNSEEN, by=0.04)
    verification = verify(run, small_config)
    assert verification.passed
    assert verification.elsewhere == "other environment of the last rounds"
    for odd in ([{}], [{"round": "x"}], [{**now, "hardware": "another"}, now]):
        change(run, "environments", to=odd)
        assert fields_of(verify(run, small_config)) == {"final.unseen.mIoU"}


def test_the_initial_weights_are_those_of_the_checkpoint(run, small_config):
    change(run, "initial_sha256", to="0" * 64)
    assert fields_of(verify(run, small_config)) == {"initial_sha256"}


def test_another_config_is_named(run, small_config):
    other = small_config.parent / "other.py"
    other.write_text(small_config.read_text().replace("lr=0.2", "lr=0.3"))
    assert fields_of(verify(run, other)) == {"config_sha256", "experiment_sha256"}
    assert verify(run, small_config, ["optim_wrapper.optimizer.lr=0.3"]).passed  # on purpose


def test_options_say_where_the_data_are_and_change_nothing_of_what_is_compared(
    run, small_config, tmp_path
):
    shutil.copytree(small_config.parent / "data", tmp_path / "elsewhere")
    options = [f"data_root={tmp_path / 'elsewhere'}"]
    verification = verify(run, options=options, trust=TRUST)
    assert verification.passed and verification.tolerance == 0 and not verification.unchecked
    change(run, "experiment_sha256", to="0" * 64)
    assert fields_of(verify(run, options=options, trust=TRUST)) == {"experiment_sha256"}


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
    sum_path(newest).unlink()
    newest = newest.rename(newest.with_name("round_000005.pth"))
    with pytest.raises(DataError, match=r"round_000005\.pth: is of round 6"):
        verify(run, small_config)
    torch.save({**torch.load(newest), "round": 5}, newest)
    with pytest.raises(DataError, match=r"completed_rounds: is 5, but 6 "):
        verify(run, small_config)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(DataError, match="checkpoints: has no checkpoint"):
        verify(run, small_config)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("history",), 5, "history: must be "),
        (("meta", "seed"), torch.zeros(2), "seed: is tensor"),
        (("client_sizes",), {}, "domain_clients: .*: must be some of client_sizes"),
        (("client_sizes", "T01_CN_A"), 0, "client_sizes.T01_CN_A: must be "),
        (("hooks",), {"x": torch.zeros(1).expand(10**9)}, r"cannot be read .*ValueError"),
    ],
)
def test_a_strange_checkpoint(run, small_config, where, value, message):
    newest = run / "checkpoints" / "round_000006.pth"
    payload = torch.load(newest, weights_only=True)
    sum_path(newest).unlink()
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
    with pytest.raises(DataError, match="threads: must be "):
        verify(run, small_config)


def test_rounds_beyond_the_history_are_not_computed(run):
    config = json.loads((run / "config.json").read_text())
    config["train_cfg"]["max_rounds"] = 10**9
    (run / "config.json").write_text(json.dumps(config))
    found = verify(run, trust=TRUST)
    assert ("rounds", 6, 10**9) in [(d.field, d.recorded, d.computed) for d in found.differences]


def test_a_missing_history(run, small_config):
    (run / "history.jsonl").unlink()
    with pytest.raises(DataError, match=r"history\.jsonl"):
        verify(run, small_config)


def test_the_last_lines_of_the_history_are_lost(run, small_config):
    path = run / "history.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    wanted = {"completed_rounds", "curves.rounds", "history_sha256", "rounds"}
    assert wanted <= fields_of(verify(run, small_config))


def test_the_recorded_config_is_taken_where_no_other_is_named(run):
    with pytest.raises(ConfigError, match=r"model\.network\.type.* is code of small_network"):
        verify(run)
    assert verify(run, trust=TRUST).passed
    with pytest.raises(ConfigError, match="not_there_at_all"):
        verify(run, trust=["not_there_at_all"])
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace('"lr": 0.2', '"lr": 0.3'))
    assert {"config_json_sha256", "config_sha256"} <= fields_of(verify(run, trust=TRUST))
    (run / "config.json").unlink()
    with pytest.raises(DataError, match=r"config\.json: is missing"):
        verify(run)


def replace(round_: int, key: str, value):
    """A change of a history's line, whose field becomes a function of the old one."""
    return lambda lines: lines[round_ - 1].update({key: value(lines[round_ - 1].get(key))})


# the field that says what is wrong with a history -> how it was changed
CHANGED_LINES = {
    "round 4.evaluated": lambda lines: lines[3].pop("metrics"),
    "round 4.missing metrics": lambda lines: lines[3]["metrics"].popitem(),
    "round 3.participants": replace(3, "participants", lambda p: p[:1]),
    "round 3.samples": replace(3, "participants", lambda p: [{**p[0], "samples": 9}, *p[1:]]),
    "final.seen.mIoU": replace(6, "metrics", lambda m: {**m, "seen/mIoU": m["seen/mIoU"] + 1}),
}


@pytest.mark.parametrize("field", CHANGED_LINES)
def test_a_history_has_what_its_config_asks_for(field, run, small_config):
    """Even where results.json was made to fit it."""
    change_lines = CHANGED_LINES[field]
    path = run / "history.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change_lines(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    facts = plain(summarize(lines)) | {"history_sha256": digest(timeless(lines))}
    rewrite(run, lambda content: content.update(facts))
    assert field in fields_of(verify(run, small_config))


def test_an_evaluation_that_the_window_does_not_ask_for(run):
    """Before the window there may be more, of a run that was prolonged."""
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    lines[4]["metrics"] = lines[5]["metrics"]
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "round 5.evaluated" not in fields_of(verify(run, trust=TRUST))
    config = json.loads((run / "config.json").read_text())
    config["train_cfg"]["val_last_rounds"] = 4
    (run / "config.json").write_text(json.dumps(config))
    assert "round 5.evaluated" in fields_of(verify(run, trust=TRUST))


def test_the_model_that_is_not_averaged_is_verified_too(small_config, tmp_path):
    options = ["val_cfg.evaluate_global=True", "train_cfg.max_rounds=4"]
    config = load_config(small_config, work_dir=tmp_path / "run", options=options)
    train(config)
    found = verify(tmp_path / "run", trust=TRUST)
    assert found.passed and found.tolerance == 0
    final = read_results(tmp_path / "run" / "results.json").final
    assert final["global:seen"] != final["seen"]
    change(tmp_path / "run", "final", "global:seen", "mIoU", by=1)
    assert fields_of(verify(tmp_path / "run", trust=TRUST)) == {"final.global:seen.mIoU"}


def test_sums_of_the_history_may_be_rounded_but_no_more(run, small_config):
    change(run, "curves", "loss", 0, by=1e-10)
    assert verify(run, small_config).passed
    change(run, "curves", "loss", 0, by=1e-4)
    assert fields_of(verify(run, small_config)) == {"curves.loss"}
