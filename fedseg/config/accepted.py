"""What a config must not say, and what to write instead.

MMEngine and MMSegmentation have keys, hooks, loops and schedules that mean nothing in federated
training. They are refused, and so is a key that nothing reads, with the one that was probably
meant.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fedseg.names import did_you_mean

# keys of other training programs, and what to write here
REPLACED_KEYS: Mapping[str, str] = {
    "amp": "set train_cfg.amp=True, or use --amp",
    "auto_scale_lr": "set optim_wrapper.optimizer.lr",
    "checkpoint_config": "set default_hooks.checkpoint.interval",
    "cudnn_benchmark": "set env_cfg.cudnn_benchmark",
    "data": "set train_dataloader and val_dataloader",
    "data_preprocessor": "set model.data_preprocessor",
    "default_scope": "leave it out, names are looked up in fedseg, mmseg and mmengine",
    "deterministic": "set randomness.deterministic",
    "epochs": "set train_cfg.max_rounds and train_cfg.local_epochs",
    "evaluation": "set train_cfg.val_interval",
    "fp16": "set train_cfg.amp=True, or use --amp",
    "gpu_ids": "set device, or use --workers",
    "launcher": "use --workers to train on several GPUs",
    "load_path": "set load_from",
    "local_epochs": "set train_cfg.local_epochs",
    "local_steps": "set train_cfg.local_steps",
    "log_config": "set default_hooks.progress and visualizer",
    "log_processor": "set default_hooks.progress",
    "lr_config": "set param_scheduler",
    "max_epochs": "set train_cfg.max_rounds",
    "optimizer": "set optim_wrapper.optimizer",
    "optimizer_config": "set optim_wrapper.clip_grad",
    "pretrained": "set model.weights",
    "resume_from": "use --resume",
    "rounds": "set train_cfg.max_rounds",
    "runner": "set train_cfg.max_rounds",
    "seed": "set randomness.seed, or use --seed",
    "total_epochs": "set train_cfg.max_rounds",
    "vis_backends": "set visualizer.vis_backends",
    "wandb": "set visualizer.vis_backends=[dict(type='WandbVisBackend')]",
    "workers": "set executor=dict(type='RayExecutor', num_workers=...), or use --workers",
    "workflow": "set train_cfg.val_interval",
}
# components of MMEngine and MMSegmentation, and what to write here
REPLACED_TYPES: Mapping[str, str] = {
    "AmpOptimWrapper": "set train_cfg.amp=True, or use --amp",
    "CheckpointHook": "set default_hooks.checkpoint",
    "EMAHook": "set averaging, such as dict(type='WIMA', window=10)",
    "EpochBasedTrainLoop": "set train_cfg.max_rounds and train_cfg.local_epochs, without a type",
    "IterBasedTrainLoop": "set train_cfg.max_rounds and train_cfg.local_steps, without a type",
    "IterTimerHook": "history.jsonl has the seconds of every round",
    "LoggerHook": "set default_hooks.progress",
    "NaiveVisualizationHook": "set default_hooks.pictures",
    "ParamSchedulerHook": "param_scheduler needs no hook",
    "ReduceOnPlateauLR": "not every round is evaluated; MultiStepLR changes the rate at rounds",
    "RuntimeInfoHook": "history.jsonl has a line for every round",
    "SegVisualizationHook": "set default_hooks.pictures",
    "TestLoop": "leave the type out",
    "ValLoop": "leave the type out",
}
# MMEngine's, of the local learning rate by round
SCHEDULES = (
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LinearLR",
    "MultiStepLR",
    "PolyLR",
    "StepLR",
)
# sections where a key is meant first
LIKELY = ("optim_wrapper.", "train_cfg.", "train_dataloader.", "model.")


def refuse_key(key: str, config: Mapping[str, Any], known: Collection[str]) -> str:
    """Say what to write in place of a key at the top of a config that nothing reads.

    Args:
        config: all of the config, in which a key of this name may stand elsewhere.
        known: the keys that are read.
    """
    if key in REPLACED_KEYS:
        return f"{key}: has no effect here: {REPLACED_KEYS[key]}"
    hint = propose_place(key, config) or did_you_mean(key, known)
    if hint:
        return f"{key}: unknown key{hint}"
    variable = f"__{key.lstrip('_')}"
    return (
        f"{key}: unknown key, nothing reads it: a helper variable begins with two underscores, "
        f"as {variable}"
    )


def replacement_of(name: str) -> str:
    """What to write in place of a well-known component that does not fit, by its class."""
    return f": {REPLACED_TYPES[name]}" if name in REPLACED_TYPES else ""


def propose_place(field: str, config: Mapping[str, Any]) -> str:
    """A hint with the place where a config has a key of a field's name, or nothing."""
    name = field.rpartition(".")[2]
    places = []
    for place in _places(config):
        # the sections of the test repeat what the others say, mistakes too
        if place.split(".")[-1] == name and place != field and not place.startswith("test_"):
            places.append(place)
    if not places:
        return ""
    return f" (did you mean {min(places, key=_rank)}?)"


def _rank(place: str) -> tuple[bool, bool, int]:
    """The likeliest place has the lowest rank."""
    return not place.startswith(LIKELY), place.startswith("val_"), place.count(".")


def _places(config: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The dotted key of every value in a config's dicts."""
    for key, value in config.items():
        place = f"{above}{key}"
        yield place
        if isinstance(value, Mapping):
            yield from _places(value, f"{place}.")
