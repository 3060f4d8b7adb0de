"""What a user does wrong is told in one message with the field and the fix, never a traceback."""

import json
import socket
import traceback
from pathlib import Path

import pytest
import toyseg
from mmengine.config import Config
from mmseg_network import ENCODER_DECODER

from fedseg.config.check import KEYS, complete_config
from fedseg.errors import ConfigError, DataError, ResourceError, TrainingError
from fedseg.loaders.streaming import StreamingData
from fedseg.registry import CLIENT_DATA, PARTITIONS
from fedseg.runner.experiment import load_config, train
from fedseg.runner.plan import make_plan

ONE_OF_ONE = {
    "dataset": {"users": {"a": 5, "lonely": 1}},
    "partition": {"_delete_": True, "type": "NaturalPartition"},
}


@PARTITIONS.register_module()
class ToyPartition:
    """A partition of a user's own that is given as it is."""

    def __init__(self, clients):
        self.clients = clients

    def __call__(self, dataset):
        return self.clients


class Mixin:
    """Has no arguments of its own."""


@CLIENT_DATA.register_module()
class OwnData(Mixin, StreamingData):
    def __init__(self, *args, shuffle=True, **kwargs):
        super().__init__(*args, shuffle=shuffle, **kwargs)


@PARTITIONS.register_module()
class NoOptions:
    def __call__(self, dataset):
        return {"a": list(range(len(dataset)))}


class FaultyWhenUsed:
    """A partition with a mistake of its author's, as the others below."""

    def __call__(self, dataset):
        return {"a": [int("first")]}


class FaultyPart(NoOptions):
    def __init__(self, part=1):
        self.part = NoOptions(part)


class FaultyName(NoOptions):
    def __init__(self, part=1):
        self.part = NoOptions(part=part)


PART = {"part": 2}
FAULTS = {
    FaultyWhenUsed: "invalid literal for int",
    FaultyPart: "takes no arguments",
    FaultyName: "takes no arguments",
}


GLOSS = {"rho_server": 0.1, "beta": 10.0, "rho0": 0.01, "rho_rounds": 3}


def own_partition(clients):
    partition = {"_delete_": True, "type": "ToyPartition", "clients": clients}
    return {"train_dataloader": {"partition": partition}}


NO_TEST = {"val_dataloader": None, "val_evaluator": None}
BAD = {
    "a misspelt key": (
        {"averagin": {"type": "SWA"}},
        r"averagin: unknown key \(did you mean 'averaging'\?\)",
    ),
    "a component nobody builds": (
        {"my_thing": {"type": "SWA"}},
        r"my_thing: unknown key.*__my_thing",
    ),
    "a hook as an averaging": (
        {"averaging": {"_delete_": True, "type": "PoisonHook", "clients": []}},
        r"averaging\.type: PoisonHook is not a ModelAverage",
    ),
    "no partition": ({"train_dataloader": {"partition": None}}, r"train_dataloader\.partition"),
    "a schedule by step": (
        {"param_scheduler": [{"type": "ExponentialLR", "gamma": 0.5, "by_epoch": False}]},
        r"param_scheduler\[0\]\.by_epoch: must be True",
    ),
    "local momentum under MIME": (
        {"algorithm": {"type": "MIME"}},
        r"optim_wrapper\.optimizer\.momentum: MIME",
    ),
    "a radius that would go on to grow after the run": (
        {"optim_wrapper": {"rho0": 0.01, "rho_rounds": 7}},
        r"optim_wrapper\.rho_rounds: 7 .*train_cfg\.max_rounds \(6\)",
    ),
    "a server's radius that would": (
        {"algorithm": {"type": "FedGloSS", **GLOSS, "rho_rounds": 7}},
        r"algorithm\.rho_rounds: 7 .*train_cfg\.max_rounds \(6\)",
    ),
    **{
        f"FedBN under {name}": (
            {
                "personal": toyseg.FEDBN,
                "algorithm": {"type": name, **options},
                "optim_wrapper": toyseg.PLAIN["optim_wrapper"],
            },
            f"personal: it keeps .*{name}.*share all",
        )
        for name, options in [
            ("FedSMOO", {"rho": 0.1, "beta": 10.0}),
            ("FedSpeed", {"rho": 0.1, "alpha": 0.9, "lam": 10.0}),
            ("MIME", {}),
        ]
    },
    "SiloBN without BatchNorm": (
        {"model": {"norm": False}},
        r"personal: .*SiloBN.* needs a model with BatchNorm.*leave it out",
    ),
    "bfloat16 and float64": (
        {"dtype": "float64", "train_cfg": {"amp": True}},
        r"train_cfg\.amp: bfloat16 contradicts dtype='float64'",
    ),
    "a client of one image": (
        {"train_dataloader": ONE_OF_ONE, "client_sampler": {"clients_per_round": 2}},
        r"client 'lonely' has 1 sample.*BatchNorm.*merge",
    ),
    "an empty client": (own_partition({"a": [0, 1], "b": []}), r"client 'b' has no sample"),
    "a duplicate client id": (
        own_partition({1: [0, 1], "1": [2, 3]}),
        r"partition\.clients: keys must be text, not 1\.",
    ),
    "a sample of two clients": (
        own_partition({"a": [0, 1], "b": [1, 2]}),
        r"client 'b' has sample 1, .*'a'",
    ),
    "an index out of range": (own_partition({"a": [0, 99]}), r"client 'a' has index 99"),
    "more clients per round than there are": (
        {"client_sampler": {"clients_per_round": 7}},
        r"client_sampler\.clients_per_round: 7 .* only 6",
    ),
    "too short a list of participants": (
        {"client_sampler": toyseg.fixed("a", "b")},
        r"participants are given for 2 rounds.*repeat=True",
    ),
    "a test loader that is no mapping": (
        {"val_dataloader": {"_delete_": True, "batch_size": 3}},
        r"val_dataloader\.batch_size: must be a",
    ),
    "a missing evaluator": ({"val_evaluator": None}, r"val_evaluator: is missing"),
    "a text for an inherited flag": (
        {"train_dataloader": {"type": "OwnData", "shuffle": "False"}},
        r"train_dataloader\.shuffle: must be a valid boolean",
    ),
    "parameters of an optimizer": (
        {"optim_wrapper": {"optimizer": {"params": []}}},
        r"optim_wrapper\.optimizer\.params: is set by the run itself",
    ),
    "a seed of the loader": (
        {"train_dataloader": {"seed": 3}},
        r"train_dataloader\.seed: is set by the run itself",
    ),
    "an average over no parameter": (
        {"averaging": {"_delete_": True, "type": "WIMA", "parameters": "(conv"}},
        r"averaging\.parameters: '\(conv' matches no parameter",
    ),
    "an option of a partition that has none": (
        {"train_dataloader": {"partition": {"_delete_": True, "type": "NoOptions", "seed": 1}}},
        r"train_dataloader\.partition\.seed: unknown argument of NoOptions.*known: holdout, unlab",
    ),
    "an unknown average": (
        {"averaging": {"_delete_": True, "type": "EMA"}},
        r"averaging\.type: .*'EMA'.*known: SWA, WIMA;",
    ),
    "no metric": ({"val_evaluator": []}, r"val_evaluator: is missing"),
    "MMEngine's scope": ({"default_scope": "mmseg"}, r"default_scope: has no effect here: leave"),
    "a figure that there is not": (
        {"default_hooks": {"checkpoint": {"save_best": "seen/mIuO"}}},
        r"save_best: 'seen/mIuO' is not among the figures: .*seen/accuracy",
    ),
    "a figure of no test set": (
        {"default_hooks": {"checkpoint": {"save_best": "sen/accuracy"}}},
        r"save_best: 'sen/accuracy' is of no test set: .*seen",
    ),
    "a figure without an evaluation": (
        {**NO_TEST, "default_hooks": {"checkpoint": {"save_best": "seen/accuracy"}}},
        r"save_best: 'seen/accuracy' is of no test set: .*val_dataloader",
    ),
    "a view that there is not": ({"val_cfg": {"views": ["tuned"]}}, r"val_cfg\.views\[0\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_config_errors_name_the_field_and_the_fix(tmp_path, name):
    changes, message = BAD[name]
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        toyseg.train(toyseg.settings(tmp_path, **changes))
    trained = tmp_path / "run" / "history.jsonl"
    assert not trained.exists() or name == "a figure that there is not", "found before training"


@pytest.mark.parametrize("faulty", FAULTS)
def test_a_mistake_in_ones_own_class_keeps_its_traceback(tmp_path, faulty):
    """Wherever in the building of other parts it shows, it is the cause of the error."""
    partition = {"_delete_": True, "type": faulty, **({} if faulty is FaultyWhenUsed else PART)}
    config = toyseg.settings(tmp_path, train_dataloader={"partition": partition})
    with pytest.raises(ConfigError, match=FAULTS[faulty]) as raised:
        toyseg.train(config)
    frames = traceback.extract_tb(raised.value.__cause__.__traceback__)
    assert Path(frames[-1].filename) == Path(__file__)


@pytest.mark.parametrize("key", KEYS)
def test_a_section_of_the_wrong_type_is_named(tmp_path, key):
    for value in (3, [[1]]):
        config = toyseg.settings(tmp_path) | {key: value}
        with pytest.raises(ConfigError, match=rf"^{key}(\[0\]|\.\w+)?: must be "):
            complete_config(Config(config))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: 2, "a": 3}, "keys must be text, not 1"),
        ({None: 1}, "keys must be text, not None"),
        (float("inf"), "must be a finite number, not inf"),
    ],
)
def test_a_value_that_no_run_could_write_down_is_named(tmp_path, value, message):
    config = toyseg.settings(tmp_path, model={"labels": [value]})
    with pytest.raises(ConfigError, match=rf"^model\.labels\[0\]: {message}"):
        complete_config(Config(config))


def test_a_damaged_marker_of_the_data_is_found_before_training(tmp_path):
    class Marked(toyseg.ToyScenes):
        data_root = str(tmp_path)

    (tmp_path / "dataset.json").write_text('{"synthetic": "False"}')
    for loader in ("train_dataloader", "val_dataloader"):
        config = toyseg.settings(tmp_path)
        part = config[loader]
        (part if loader == "train_dataloader" else part["seen"])["dataset"] = {"type": Marked}
        with pytest.raises(DataError, match=r"dataset\.json: synthetic"):
            toyseg.train(config)
        assert not (tmp_path / "run" / "history.jsonl").exists()


def test_a_plan_finds_what_training_would_refuse(tmp_path):
    averaging = {"_delete_": True, "type": "WIMA", "parameters": "nothing"}
    settings = toyseg.settings(tmp_path, averaging=averaging)
    config = load_config(toyseg.write_config(tmp_path / "mine.py", settings))
    with pytest.raises(ConfigError, match=r"mine\.py: averaging\.parameters: 'nothing' matches no"):
        train(config, dry_run=True)


@pytest.mark.parametrize(
    "key", ["model", "train_dataloader", "train_cfg", "optim_wrapper", "client_sampler"]
)
def test_required_keys(tmp_path, key):
    config = toyseg.settings(tmp_path)
    del config[key]
    with pytest.raises(ConfigError, match=f"{key} is missing"):
        toyseg.train(config)


def test_listed_participants_stay_on_resume(tmp_path):
    def listed(*clients):
        sampler, rounds = toyseg.fixed(*clients), {"max_rounds": len(clients)}
        return toyseg.settings(tmp_path, **toyseg.PLAIN, client_sampler=sampler, train_cfg=rounds)

    toyseg.train(listed("a", "b"))
    with pytest.raises(ConfigError, match=r"--resume: .*another client_sampler.participants"):
        toyseg.train(listed("a", "c", "d"), resume=True)


def test_the_learning_rate_stays_on_resume(tmp_path):
    toyseg.train(toyseg.settings(tmp_path, train_cfg={"max_rounds": 2}))
    lower = toyseg.settings(tmp_path, optim_wrapper={"optimizer": {"lr": 0.025}})
    lower["train_cfg"]["max_rounds"] = 3
    with pytest.raises(ConfigError, match=r"--resume: .*another optim_wrapper.optimizer.lr"):
        toyseg.train(lower, resume=True)


def test_a_model_that_leaves_the_vectors_is_noticed(tmp_path):
    """Otherwise it would train nothing, silently."""
    from fedseg.hooks import FederatedHook
    from fedseg.registry import HOOKS

    @HOOKS.register_module(force=True)
    class Tears(FederatedHook):
        def before_client(self, runner, client):
            for parameter in runner.model.parameters():
                parameter.data = parameter.data.clone()

    config = toyseg.settings(tmp_path, custom_hooks=[{"type": "Tears"}])
    with pytest.raises(RuntimeError, match="moved out of the flat vector"):
        toyseg.train(config)


# ---------------------------------------------------------------- updates that are not finite


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_rejected_client_is_as_if_it_had_not_been_there(tmp_path, value):
    """Model, buffers and states equal those of the round with the others only."""
    base = {"algorithm": {"type": "FedDyn", "beta": 10.0}, "train_cfg": {"max_rounds": 2}}
    poisoned = toyseg.run(
        tmp_path / "a",
        **base,
        client_sampler=toyseg.fixed("abc", "adf"),
        custom_hooks=[{"type": "PoisonHook", "clients": ["b", "d"], "value": value}],
    )
    without = toyseg.run(tmp_path / "b", **base, client_sampler=toyseg.fixed("ac", "af"))
    a, b = toyseg.checkpoint(poisoned), toyseg.checkpoint(without)
    for key in ("state_dict", "averaged_state_dict", "server"):
        assert toyseg.differences(a[key], b[key]) == [], key
    states = toyseg.client_states(poisoned)["clients"]
    assert set(states) == {"a", "c", "f"}
    assert toyseg.differences(states, toyseg.client_states(without)["clients"]) == []
    one, two = toyseg.history(poisoned)
    assert one["rejected"] == [{"client": "b", "exchange": 0, "reason": "delta is not finite"}]
    assert [p["client"] for p in one["participants"]] == ["a", "b", "c"]
    assert [p["loss"] is None for p in one["participants"]] == [False, True, False]
    assert one["loss"] == toyseg.history(without)[0]["loss"]
    assert [r["client"] for r in two["rejected"]] == ["d"]
    results = json.loads((tmp_path / "a" / "run" / "results.json").read_text())
    assert results["rejected_updates"] == 2


def test_all_rejected_names_the_newest_checkpoint(tmp_path):
    poison = {"type": "PoisonHook", "clients": "all", "round_": 3}
    config = toyseg.settings(tmp_path, custom_hooks=[poison])
    with pytest.raises(TrainingError) as caught:
        toyseg.train(config)
    text = str(caught.value)
    last = tmp_path / "run" / "checkpoints" / "round_000002.pth"
    assert "round 3: all 3 updates were rejected" in text and "delta is not finite" in text
    assert str(last) in text and "learning rate" in text
    assert [line["round"] for line in toyseg.history(config)] == [1, 2]
    healed = toyseg.settings(tmp_path)
    toyseg.train(healed, resume=True)
    whole = toyseg.run(tmp_path / "whole")
    assert toyseg.run_differences(healed, whole) == []


def test_a_learning_rate_that_explodes(tmp_path):
    config = toyseg.settings(tmp_path, optim_wrapper={"optimizer": {"lr": 1e30}})
    with pytest.raises(TrainingError, match=r"round 1: all 3 updates"):
        toyseg.train(config)


# ---------------------------------------------------------------- the command line


CLI = {
    "contradiction": (
        {"model": {"norm": False}},
        [],
        "toy.py: personal: '@batchnorm.statistics' (SiloBN) needs",
    ),
    "rejected": (
        {"custom_hooks": [{"type": "PoisonHook", "clients": "all", "round_": 2}]},
        [],
        "round_000001.pth: --resume continues from it",
    ),
    "option": (
        {},
        ["--cfg-options", "optim_wrapper.roh=3"],
        "--cfg-options: optim_wrapper.roh: unknown argument",
    ),
    "imports": ({}, ["--cfg-options", "custom_imports.imports=['no_such_one',]"], "no_such_one"),
    "import": (
        {"custom_imports": {"imports": ["no_such_module"], "allow_failed_imports": False}},
        [],
        "no_such_module",
    ),
}


@pytest.fixture(scope="module")
def command_lines(tmp_path_factory):
    """All at once; by name: what was said, and the exit code."""
    started = {}
    for name, (changes, options, _) in CLI.items():
        folder = tmp_path_factory.mktemp(name)
        path = toyseg.write_config(folder / "toy.py", toyseg.settings(folder, **changes))
        started[name] = toyseg.start_cli(path, *options)
    missing = toyseg.start_cli(folder / "nowhere.py")
    started["missing"] = missing
    return {name: (*p.communicate(), p.returncode) for name, p in started.items()}


@pytest.mark.parametrize("name", [*CLI, "missing"])
def test_the_command_line_prints_a_message_and_no_traceback(command_lines, name):
    out, err, code = command_lines[name]
    expected = CLI[name][2] if name in CLI else "nowhere.py: no config of this name"
    assert code == 2, err
    assert expected in err and "error: " in err
    assert "Traceback" not in out + err


def segmentor(**changes):
    network = toyseg.merge(ENCODER_DECODER, changes)
    loss = {"type": "CrossEntropy"}
    return {"_delete_": True, "type": "Segmentor", "network": network, "loss": loss}


TIMM = {"_delete_": True, "type": "TIMMBackbone", "features_only": True}
PRETRAINED = {"init_cfg": {"type": "Pretrained", "checkpoint": "https://no.where/a.pth"}}
FROM_INSIDE = {
    "a whole segmentor": ({"_delete_": True, **ENCODER_DECODER}, r"type='Segmentor', network="),
    "channels": (segmentor(decode_head={"in_channels": 7}), r"model: Segmentor .*7 channels"),
    "channels of images": (segmentor(backbone={"in_channels": 4}), r"model: .*4 channels"),
    "a feature map": (segmentor(decode_head={"in_index": 9}), r"model: .*in_index"),
    "a name": (
        segmentor(backbone={**TIMM, "model_name": "no_such", "pretrained": False}),
        r"model\.network: .*no_such",
    ),
    "an address": (segmentor(backbone=PRETRAINED), r"model: .*fetched .*model\.weights"),
    "a file of a library": (
        segmentor(backbone={"init_cfg": {"type": "Pretrained", "checkpoint": "nowhere.pth"}}),
        r"model: .*nowhere\.pth.*model\.weights",
    ),
}


def no_network(*_, **__):
    raise socket.gaierror("Name or service not known")


@pytest.mark.parametrize("name", FROM_INSIDE)
def test_a_network_of_mmsegmentation_that_does_not_fit_is_named(tmp_path, name, monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", no_network)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    model, message = FROM_INSIDE[name]
    changes = {**toyseg.PLAIN, "model": model}
    with pytest.raises(ConfigError, match=message):
        make_plan(toyseg.runner(toyseg.settings(tmp_path, **changes)))


def test_a_metric_of_mmsegmentation_agrees_with_the_suites(tmp_path):
    metrics = [{"type": "mmseg.IoUMetric"}, {"type": "IoUMetric", "prefix": "own"}]
    changes = {**toyseg.PLAIN, "model": segmentor(), "val_evaluator": metrics}
    run = toyseg.train(toyseg.settings(tmp_path, **changes, train_cfg={"max_rounds": 1}))
    scores = run.history.read()[-1]["metrics"]
    assert scores["seen/mIoU"] == pytest.approx(scores["seen/own/mIoU"], abs=0.006)


def test_a_network_by_its_config_file(tmp_path):
    """Its own and that of a base, beside the config; recorded as values; without its weights."""
    parts = {k: ENCODER_DECODER[k] for k in ("type", "backbone", "test_cfg")}
    (tmp_path / "base.py").write_text(f"model = {parts | PRETRAINED | {'data_preprocessor': {}}}")
    head = {"decode_head": ENCODER_DECODER["decode_head"]}
    (tmp_path / "unet.py").write_text(f"_base_ = 'base.py'\nmodel = {head}")
    model = {**segmentor(), "network": "unet.py", "num_classes": 3}
    made = toyseg.settings(tmp_path, **toyseg.PLAIN, model=model, train_cfg={"max_rounds": 1})
    config = load_config(toyseg.write_config(tmp_path / "mine.py", made))
    assert config.model.network == {**ENCODER_DECODER, "init_cfg": None}
    train(config, quiet=True)
    by_hand = toyseg.settings(tmp_path / "b", **{**toyseg.PLAIN, "model": segmentor()})
    toyseg.train({**by_hand, "train_cfg": dict(config.train_cfg)})
    made["train_cfg"]["max_rounds"] = by_hand["train_cfg"]["max_rounds"] = 1
    assert toyseg.run_differences(made, by_hand) == []
    shipped = "mmseg::pspnet/pspnet_r50-d8_4xb2-40k_cityscapes-512x1024.py"
    network = load_config("camvid", options={"model.network": shipped}).model.network
    assert network.decode_head.type == "PSPHead" and network.pretrained is None
    for wrong in ("nowhere.py", "mmseg::psp/nowhere.py", "mine.py"):
        with pytest.raises(
            ConfigError, match=rf"model\.network: {wrong} is no config with a model"
        ):
            load_config("camvid", options={"model.network": wrong})


def test_a_work_dir_that_cannot_be_made(tmp_path):
    with pytest.raises(ResourceError, match="/proc/no/such: cannot create the folder"):
        toyseg.runner(toyseg.settings(tmp_path, work_dir="/proc/no/such"))
