"""What has no effect in federated training is refused, with what to write instead."""

import pytest
import toyseg
from mmengine.config import Config

from fedseg.commands.show import main as show
from fedseg.config.check import complete_config
from fedseg.errors import ConfigError
from fedseg.runner.experiment import load_config, prepare_config, train

OPTIONS = {  # on the command line or in --grid -> the sentence
    "lr=0.9": "lr: unknown key (did you mean optim_wrapper.optimizer.lr?)",
    "batch_size=4": "batch_size: unknown key (did you mean train_dataloader.batch_size?)",
    "num_classes=3": "num_classes: unknown key (did you mean model.num_classes?)",
    "averagin.start=1": "averagin: unknown key (did you mean 'averaging'?)",
    "optim_wraper.rho=1": "optim_wraper: unknown key (did you mean 'optim_wrapper'?)",
    "local_epochs=2": "local_epochs: has no effect here: set train_cfg.local_epochs",
    "fp16.loss_scale=1": "fp16: has no effect here: set train_cfg.amp=True, or use --amp",
    "amp=True": "amp: has no effect here: set train_cfg.amp=True, or use --amp",
    "seed=3": "seed: has no effect here: set randomness.seed, or use --seed",
    "auto_scale_lr.enable=True": (
        "auto_scale_lr: has no effect here: set optim_wrapper.optimizer.lr"
    ),
    "optimizer_config.grad_clip=1": (
        "optimizer_config: has no effect here: set optim_wrapper.clip_grad"
    ),
    "launcher=pytorch": "launcher: has no effect here: use --workers to train on several GPUs",
    "log_processor.window_size=10": "log_processor: has no effect here: set default_hooks.progress",
    "wandb.project=drift": (
        "wandb: has no effect here: set visualizer.vis_backends=[dict(type='WandbVisBackend')]"
    ),
    "_size=4": (
        "_size: unknown key, nothing reads it: a helper variable begins with two underscores, as "
        "__size"
    ),
    "env_cfg.dist_cfg.backend=nccl": (
        "env_cfg.dist_cfg: unknown; known: cudnn_benchmark, mp_cfg, resource_limit"
    ),
}
BUILT = {  # told by what is built
    "env_cfg.mp_cfg.start_method=fork": (
        "env_cfg.mp_cfg.start_method: unknown argument of set_multi_processing (did you mean "
        "'mp_start_method'?)"
    ),
    "train_cfg.local_epoch=2": (
        "train_cfg.local_epoch: unknown argument of FederatedTrainLoop (did you mean "
        "'local_epochs' or 'local_steps'?)"
    ),
}
IN_A_SECTION = {  # option -> how the sentence goes on, and the place that may be meant
    "optim_wrapper.lr=0.1": (
        "ASAMOptimWrapper; known: accumulative_counts, ",
        "optim_wrapper.optimizer.lr",
    ),
    "train_cfg.batch_size=4": (
        "FederatedTrainLoop; known: amp, hook_interval, local_epochs, ",
        "train_dataloader.batch_size",
    ),
}
HOOK = "is not a FederatedHook"
SCHEDULE = (
    "must be one of ConstantLR, CosineAnnealingLR, ExponentialLR, LinearLR, MultiStepLR, PolyLR, "
    "StepLR, not"
)
FOREIGN = {  # component of MMEngine or MMSegmentation -> the sentence
    "custom_hooks=[dict(type='EMAHook')]": (
        f"custom_hooks[0].type: EMAHook {HOOK}: set averaging, such as dict(type='WIMA', window=10)"
    ),
    "custom_hooks=[dict(type='mmseg.SegVisualizationHook', draw=True)]": (
        f"custom_hooks[0].type: SegVisualizationHook {HOOK}: set default_hooks.pictures"
    ),
    "custom_hooks=[dict(type='ParamSchedulerHook')]": (
        f"custom_hooks[0].type: ParamSchedulerHook {HOOK}: param_scheduler needs no hook"
    ),
    "custom_hooks=[dict(type='EmptyCacheHook')]": f"custom_hooks[0].type: EmptyCacheHook {HOOK}",
    "default_hooks.checkpoint.type=CheckpointHook": (
        f"default_hooks.checkpoint.type: CheckpointHook {HOOK}: set default_hooks.checkpoint"
    ),
    "train_cfg=dict(_delete_=True, type='IterBasedTrainLoop', max_iters=10, max_rounds=3)": (
        "train_cfg.type: IterBasedTrainLoop is not a FederatedTrainLoop: set "
        "train_cfg.max_rounds and train_cfg.local_steps, without a type"
    ),
    "val_cfg.type=ValLoop": ("val_cfg.type: ValLoop is not a FederatedValLoop: leave the type out"),
    "test_cfg.type=TestLoop": (
        "test_cfg.type: TestLoop is not a FederatedValLoop: leave the type out"
    ),
    "param_scheduler=dict(type='OneCycleLR', eta_max=0.1, total_steps=9)": (
        f"param_scheduler.type: {SCHEDULE} OneCycleLR"
    ),
    "param_scheduler=[dict(type='StepMomentum', step_size=1)]": (
        f"param_scheduler[0].type: {SCHEDULE} StepMomentum"
    ),
    "optim_wrapper.type=AmpOptimWrapper": (
        "optim_wrapper.type: AmpOptimWrapper is not a OptimWrapper: "
        "set train_cfg.amp=True, or use --amp"
    ),
}


def refusal(tmp_path, option: str) -> str:
    """What a dry run of the toy says of an option."""
    path = toyseg.write_config(tmp_path / "own.py", toyseg.settings(tmp_path))
    with pytest.raises(ConfigError) as caught:
        train(load_config(path, options=[option]), dry_run=True)
    return str(caught.value)


@pytest.mark.parametrize("option", FOREIGN)
def test_a_component_of_another_kind_of_training_is_refused(tmp_path, option):
    assert refusal(tmp_path, option) == f"--cfg-options: {FOREIGN[option]}"


@pytest.mark.parametrize("option", BUILT)
def test_an_argument_that_nothing_takes_is_refused(tmp_path, option):
    assert refusal(tmp_path, option) == f"--cfg-options: {BUILT[option]}"


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_nothing_reads_is_refused(option):
    config = load_config("cifar10_a005", options=[option])
    with pytest.raises(ConfigError) as caught:
        prepare_config(config)
    assert str(caught.value) == f"--cfg-options: {OPTIONS[option]}"


@pytest.mark.parametrize("option", IN_A_SECTION)
def test_an_argument_that_belongs_elsewhere_is_told_with_the_place(tmp_path, option):
    key = option.partition("=")[0]
    message = refusal(tmp_path, option)
    start, place = IN_A_SECTION[option]
    assert message.startswith(f"--cfg-options: {key}: unknown argument of {start}")
    assert message.endswith(f" (did you mean {place}?)")


def test_a_helper_variable_of_a_file_begins_with_two_underscores(tmp_path):
    path = tmp_path / "own.py"
    text = (
        "import os\nfrom copy import deepcopy\nfrom pathlib import Path\n"
        "setting = 'cifar10_a005'\n"
        "{name} = (512, 928)\nwork_dir = str(Path('runs') / 'first')\n"
    )
    path.write_text(text.format(name="__crop_size"))
    assert "__crop_size" not in complete_config(load_config(path))
    path.write_text(text.format(name="crop_size"))
    with pytest.raises(ConfigError, match=rf"^{path}: crop_size: unknown key.*as __crop_size$"):
        prepare_config(load_config(path))


def test_a_config_from_python_is_checked_as_well():
    config = load_config("cifar10_a005")
    config["lr"] = 0.9
    with pytest.raises(ConfigError, match=r"lr: unknown key \(did you mean optim_wrapper"):
        complete_config(Config(config.to_dict()))


def test_a_record_of_a_run_may_have_keys_that_nothing_reads():
    config = load_config("cifar10_a005")
    config["crop_size"] = 32
    assert complete_config(config, recorded=["crop_size"]).crop_size == 32


def test_show_refuses_what_training_refuses(monkeypatch):
    monkeypatch.setattr("sys.argv", ["fedseg", "cifar10_a005", "--cfg-options", "lr=0.9"])
    with pytest.raises(ConfigError, match=r"^--cfg-options: lr: unknown key"):
        show()
